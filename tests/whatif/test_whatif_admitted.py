"""Pods of makers with rules for admission: what is told to ask otherwise is let in, and helps as the webhook leaves it.

A webhook need not run: it helps as it is written, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_condition_remedies import answer, quota
from tests.whatif.test_whatif_condition_together import done
from tests.whatif.test_whatif_remedies import pod, world_of

from vgpu_scheduler.admission import AdmissionRules, Verdict, review
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif import Remedy, World, ask, make_dialect, remedies

Object = dict[str, Any]

WORLDS = 12
ASCEND, ILUVATAR, MTHREADS = "huawei.com/Ascend910B3", "iluvatar.ai/MR-V100", "mthreads.com/"
MODE = "huawei.com/vnpu-mode"
RULES = AdmissionRules(Dialects([make_dialect("hami")]), ("vgpu-scheduler",))
MAKERS = ("ascend", "iluvatar", "mthreads")
AMOUNT = re.compile(r"^(?!leave|have)ask (\d+) of (\S+) ")


def node(annotations: Object, amounts: Mapping[str, int]) -> Object:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", **{name: str(value) for name, value in amounts.items()}}
    return {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": annotations},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def registered(key: str, memories: list[int], cores: int, model: str) -> Object:
    common = {"count": 4, "devcore": cores, "type": model, "numa": 0, "health": True}
    return {
        key: json.dumps([{"id": f"c-{n}", "index": n, "devmem": memory, **common} for n, memory in enumerate(memories)])
    }


def ascend(rng: np.random.Generator) -> tuple[Object, Object]:
    memories = [int(rng.choice([16384, 49152, 65536])) for _ in range(int(rng.integers(1, 3)))]
    asks: dict[str, Any] = {ASCEND: int(rng.integers(1, 3))}
    if rng.random() < 0.5:
        asks[f"{ASCEND}-memory"] = int(rng.choice([16384, 32768, 65536]))
    more: Object = {}
    if rng.random() < 0.5:
        more = {"metadata": {"annotations": {MODE: "hami-core"}}}
        asks[f"{ASCEND}-core"] = int(rng.integers(10, 101))
    key = "hami.io/node-register-Ascend910B3"
    return node(registered(key, memories, 20, "Ascend910B3"), {ASCEND: 8}), pod("asked", asks, **more)


def iluvatar(rng: np.random.Generator) -> tuple[Object, Object]:
    memories = [int(rng.choice([8192, 32768])) for _ in range(int(rng.integers(1, 3)))]
    asks = {
        f"{ILUVATAR}-vgpu": int(rng.integers(1, 3)),
        f"{ILUVATAR}.vMem": int(rng.integers(10, 100)),
        f"{ILUVATAR}.vCore": int(rng.integers(10, 101)),
    }
    cards = registered("hami.io/node-MR-V100-register", memories, int(rng.choice([60, 100])), "MR-V100")
    return node(cards, {f"{ILUVATAR}-vgpu": 8}), pod("asked", asks)


def mthreads(rng: np.random.Generator) -> tuple[Object, Object]:
    cards = int(rng.integers(1, 3))
    asks = {
        f"{MTHREADS}vgpu": int(rng.integers(1, 3)),
        f"{MTHREADS}sgpu-core": int(rng.integers(1, 17)),
        f"{MTHREADS}sgpu-memory": int(rng.choice([2, 4, 8, 16, 32, 64, 96])),
    }
    amounts = {f"{MTHREADS}vgpu": 10, f"{MTHREADS}sgpu-core": 16 * cards, f"{MTHREADS}sgpu-memory": 96 * cards}
    return node({}, amounts), pod("asked", asks)


def hooked(written: object) -> Verdict:
    assert isinstance(written, dict)
    return review(written, "default", RULES)


def worlds(maker: str, seed: int) -> Iterator[tuple[list[Object], Object, World]]:
    """Yield what there is beside a pod that the webhook has let in and that waits, the pod, and all of them."""
    rng = np.random.default_rng(seed)
    while True:
        there, asked = {"ascend": ascend, "iluvatar": iluvatar, "mthreads": mthreads}[maker](rng)
        objects, limits = [there], dict[str, Any]()
        if rng.random() < 0.4:
            limits["coresPerPod"] = int(rng.integers(10, 150))
        if rng.random() < 0.3:
            limits["exclusiveCardsPerPod"] = int(rng.integers(0, 2))
        if limits:
            policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "default", "uid": "l"}}
            objects.append({**policy, "spec": {"limits": limits}})
        memory = {"ascend": f"{ASCEND}-memory", "iluvatar": f"{ILUVATAR}.vMem", "mthreads": f"{MTHREADS}sgpu-memory"}
        if rng.random() < 0.5:
            objects.append(quota("q", {memory[maker]: int(rng.integers(5, 60)) * (1024 if maker == "ascend" else 1)}))
        verdict = hooked(asked)
        if verdict.pod is None:
            continue
        world, waiting = world_of(*objects, dict(verdict.pod))
        if not ask(world, waiting).node:
            yield objects, dict(verdict.pod), world


def helps(objects: list[Object], written: Object) -> bool:
    return bool(ask(*world_of(*objects, written)).node)


def of_pod_alone(found: list[Remedy]) -> list[Object]:
    return [dict(each.pod) for each in found if each.pod and each.node and not each.objects and not each.ended]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_a_pod_may_ask_otherwise_is_let_in_and_helps_as_it_is_stored(maker: str, seed: int) -> None:
    objects, _, world = next(worlds(maker, seed))
    (waiting,) = world.pending.values()
    for written in of_pod_alone(remedies(world, waiting)):
        assert helps(objects, written), written
        stored = hooked(written)
        assert stored.pod is not None, stored.message
        assert helps(objects, dict(stored.pod)), stored.pod


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(WORLDS))
def test_the_amounts_told_without_the_nodes_are_let_in_and_kept(maker: str, seed: int) -> None:
    _, asked, world = next(worlds(maker, seed))
    _, told = answer(world)
    assert told.remedies
    for text in told.remedies:
        for amount, name in AMOUNT.findall(text):
            stored = hooked(done(asked, text))
            assert stored.pod is not None, (text, stored.message)
            limits = stored.pod["spec"]["containers"][0]["resources"]["limits"]
            assert int(limits[name]) >= int(amount), text
            if not name.startswith(ASCEND):  # that is cut in templates
                assert limits[name] == amount, (text, limits)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_compute_goes_with_the_annotation_without_which_it_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    key = "hami.io/node-register-Ascend910B3"
    there = node(registered(key, [65536] * int(rng.integers(1, 3)), 20, "Ascend910B3"), {ASCEND: 8})
    memory = {} if rng.random() < 0.3 else {f"{ASCEND}-memory": int(rng.choice([16384, 32768, 65536]))}
    asks = {ASCEND: 1, f"{ASCEND}-core": int(rng.integers(1, WHOLE + 1)), **memory}
    asked = pod("asked", asks, metadata={"annotations": {MODE: "hami-core"}})
    world, waiting = world_of(there, asked)
    said = f"leave out its annotation {MODE} (hami-core) and leave out {ASCEND}-core in container main"
    (remedy,) = (each for each in remedies(world, waiting) if each.pod)
    assert remedy.text == said
    assert answer(world)[1].remedies == (said,)


@pytest.mark.parametrize("memory", [3, 50, 95])
def test_a_size_that_no_webhook_lets_in_is_not_told_instead_of_one_that_it_would_not(memory: int) -> None:
    """A pod that no webhook has seen asks for no size of Moore Threads' cards, and for more than a quota leaves."""
    asks = {f"{MTHREADS}vgpu": 1, f"{MTHREADS}sgpu-memory": memory}
    amounts = {f"{MTHREADS}vgpu": 10, f"{MTHREADS}sgpu-core": 16, f"{MTHREADS}sgpu-memory": 96}
    asked, limited = pod("asked", asks), quota("q", {f"{MTHREADS}sgpu-memory": memory - 1})
    assert hooked(asked).pod is None
    world, waiting = world_of(node({}, amounts), limited, asked)
    assert not ask(world, waiting).node
    changes = of_pod_alone(remedies(world, waiting))
    assert changes
    for written in changes:
        assert hooked(written).pod is not None, written


def test_a_pod_that_no_webhook_has_seen_may_stay_as_it_would_be_refused() -> None:
    """Where something else keeps it waiting, that is told: it did not meet a webhook, and need not again."""
    there = node(registered("hami.io/node-register-Ascend910B3", [65536, 65536], 20, "Ascend910B3"), {ASCEND: 8})
    asks = {ASCEND: 2, f"{ASCEND}-memory": 16384}
    asked = pod("asked", asks, nodeSelector={"a": "b"})
    assert hooked(asked).pod is None
    found = [each.text for each in remedies(*world_of(there, asked))]
    assert any("nodeSelector" in text for text in found), found


@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_is_told_after_a_correction_has_the_correction_before_it(seed: int) -> None:
    """Compute that no webhook lets in is to be left out first, whatever else the pod asks otherwise."""
    rng = np.random.default_rng(seed)
    there = node(registered("hami.io/node-register-Ascend910B3", [65536, 65536], 20, "Ascend910B3"), {ASCEND: 8})
    held = f"c-{int(rng.integers(2))},Ascend910B3,{int(rng.choice([16384, 32768]))},5:;"
    notes = {"hami.io/vgpu-node": "n", "hami.io/Ascend910B3-devices-allocated": held}
    other = pod("other", {ASCEND: 1}, nodeName="n", metadata={"annotations": notes})
    asks = {ASCEND: 2, f"{ASCEND}-core": int(rng.integers(1, 10))}
    _, told = answer(world_of(there, other, pod("asked", asks))[0])
    first = f"leave out {ASCEND}-core in container main"
    assert told.remedies[0] == first
    assert len(told.remedies) > 1
    assert all(text.startswith(first) for text in told.remedies), told.remedies
