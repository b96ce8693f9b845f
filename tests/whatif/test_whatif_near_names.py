"""A name that is like those of several vendors: the nearest is told of those whose cards the nodes have."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import node, pod, world_of

from vgpu_scheduler.dialects.hami.vendors.ascend import CHIPS
from vgpu_scheduler.whatif import RemedyType, remedies
from vgpu_scheduler.whatif.advice.corrections import corrected

Object = dict[str, Any]
MODELS = [chip.key for chip in CHIPS]
SIZES = {chip.key: chip.templates[0].memory for chip in CHIPS}


def names(part: str) -> dict[str, str]:
    """Return the name of a part for each model, by model."""
    return {model: f"huawei.com/{model}{part}" for model in MODELS}


ALL = {name: model for part in ("", "-memory", "-core") for model, name in names(part).items()}


def with_chips(model: str, number: int) -> Object:
    """Return a node with chips of a model."""
    made = node(f"n{number}", cards=0)
    card = {"count": 4, "devmem": 65536, "devcore": 20, "numa": 0, "health": True, "type": model}
    listed = [{"id": f"{model}-{n}", "index": n, **card} for n in range(2)]
    made["metadata"]["annotations"][f"hami.io/node-register-{model}"] = json.dumps(listed)
    made["status"]["allocatable"][f"huawei.com/{model}"] = "8"
    made["status"]["capacity"] = dict(made["status"]["allocatable"])
    return made


def alike(written: str, known: str) -> float:
    return SequenceMatcher(a=known.rpartition("/")[2].lower(), b=written.rpartition("/")[2].lower()).ratio()


def nearest(written: str, there: list[str]) -> set[str]:
    """Return the names that are nearest of those of the models that are there; of all, where none is near."""
    near = {name: ratio for name in ALL if (ratio := alike(written, name)) >= 0.8}
    own = {name: ratio for name, ratio in near.items() if ALL[name] in there} or near
    return {name for name, ratio in own.items() if ratio == max(own.values())}


def misspelt(rng: np.random.Generator) -> str:
    part = str(rng.choice(["", "", "-memory"]))
    known = f"{rng.choice(MODELS)}"
    where = int(rng.integers(6, len(known)))
    ends = [known[:where] + "Q" + known[where + 1 :], known[:where] + known[where + 1 :], f"{known}Q", "Ascend910Q"]
    return f"huawei.com/{ends[int(rng.integers(len(ends)))]}{part}"


@pytest.mark.parametrize("seed", range(80))
def test_the_nearest_name_is_told_of_those_that_nodes_have(seed: int) -> None:
    rng = np.random.default_rng(seed)
    there = [str(each) for each in rng.choice(MODELS, size=int(rng.integers(0, 4)), replace=False)]
    written = misspelt(rng)
    if written in ALL:
        written = "huawei.com/Ascend910Q"
    world, _ = world_of(node("plain", cards=0), *map(with_chips, there, range(9)), pod("p", {written: 1}))
    wanted = nearest(written, there)
    told = world.engine.request_warnings.names.meant_by(written)
    assert set(told) <= wanted
    assert len(told) == min(len(wanted), 3)
    (text,) = [
        each for each in world.engine.request_warnings.of_pod(world.pod(pod("p", {written: 1}))) if "did" in each
    ]
    assert text.endswith(f"did you mean {' or '.join(told)}?")


@pytest.mark.parametrize("seed", range(50))
def test_the_name_that_is_told_to_write_is_one_with_which_the_pod_fits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    there = [str(each) for each in rng.choice(MODELS, size=int(rng.integers(1, 4)), replace=False)]
    amounts: Object = {"huawei.com/Ascend910Q": 1}
    if with_memory := rng.random() < 0.5:
        amounts["huawei.com/Ascend910Q-memory"] = 2000
    made = world_of(*map(with_chips, there, range(9)), pod("p", amounts))
    wanted = nearest("huawei.com/Ascend910Q", there)
    if not {ALL[name] for name in wanted} <= {*there}:
        return  # none of these is there, and nothing helps
    (found,) = [each for each in remedies(*made) if each.type is RemedyType.CORRECT]
    assert found.node
    for name in sorted(wanted):
        assert name in found.text
        assert (f"{name}-memory" in found.text) is with_memory
        written = {each.replace("huawei.com/Ascend910Q", name): amount for each, amount in amounts.items()}
        world, waiting = world_of(*map(with_chips, there, range(9)), pod("p", written))
        assert world.engine.attempts.dry_run(waiting, explain=False).placement is not None


@pytest.mark.parametrize("count", [1, 2])
def test_a_count_of_another_plugin_beside_a_known_amount_is_renamed(count: int) -> None:
    world, waiting = world_of(node("a"), pod("asked", {"hygon.com/dcu": count, "hygon.com/dcumem": 4000}))
    said = "write hygon.com/dcunum instead of hygon.com/dcu in container main"
    found = corrected(world, world.written(waiting))
    limits = found.written["spec"]["containers"][0]["resources"]["limits"]
    assert [str(each) for each in found.changes] == [said]
    assert limits == {"hygon.com/dcunum": str(count), "hygon.com/dcumem": "4000"}
