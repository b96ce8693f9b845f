"""Where annotations and amounts are strict, whoever is refused is told so, and how the pod would be understood."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import node, pod, running
from tests.whatif.test_whatif_remedies_dialects import MEMORY, NUMBER, cluster

from vgpu_scheduler.dialects.volcano import names as keys
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif import World, ask, make_dialect, remedies, remedies_from_condition

Object = dict[str, Any]
NAMES = {"hami": ("nvidia.com/gpu", "nvidia.com/gpumem"), "volcano": (NUMBER, MEMORY)}


def strict_world(dialect: str, *objects: Object) -> World:
    world = World(EngineOptions([make_dialect(dialect)], defaults=PolicyDefaults(strict_annotations=True)))
    world.add(objects)
    return world


@pytest.mark.parametrize("dialect", ["hami", "volcano"])
@pytest.mark.parametrize("seed", range(12))
def test_a_count_of_0_beside_amounts_is_to_be_1_or_the_amounts_are_left_out(dialect: str, seed: int) -> None:
    """Volcano's plugin serves one container with cards of a pod."""
    rng = np.random.default_rng(seed)
    count, memory = NAMES[dialect]
    written = pod("p", {count: 1, memory: int(rng.integers(100, 9000))}, schedulerName="vgpu-scheduler")
    containers = written["spec"]["containers"]
    for number in range(int(rng.integers(0, 2 if dialect == "volcano" else 3))):
        containers.append({**copy.deepcopy(containers[0]), "name": f"c{number}"})
    zero = int(rng.integers(0, len(containers)))
    name, limits = containers[zero]["name"], containers[zero]["resources"]["limits"]
    limits[count] = "0"
    objects = cluster(dialect, [[], [], []])
    world = strict_world(dialect, *objects, written)
    (waiting,) = world.pending.values()
    decision = ask(world, waiting).decision
    assert decision.outcome is Outcome.REFUSED
    changed = copy.deepcopy(written)
    mended = changed["spec"]["containers"][zero]["resources"]["limits"]
    if dialect == "volcano" and len(containers) > 1:
        text = f"leave out {memory} in container {name}"
        del mended[memory]
    else:
        text = f"ask 1 of {count} instead of 0 in container {name}"
        mended[count] = "1"
    assert text in [each.text for each in remedies(world, waiting)]
    alone = strict_world(dialect)
    assert text in remedies_from_condition(alone, alone.pod(written), decision.message, "").remedies
    fits = strict_world(dialect, *objects, changed)
    (waiting,) = fits.pending.values()
    final = ask(fits, waiting).decision
    assert final.outcome is Outcome.PLACED, final.message


NVIDIA = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")


@pytest.mark.parametrize("seed", range(50))
def test_of_two_amounts_of_memory_beside_no_card_one_is_left_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, memory, percent, cores = NVIDIA
    limits = {count: 1, memory: int(rng.integers(100, 9000)), percent: int(rng.integers(1, 60))}
    if rng.random() < 0.5:
        limits[cores] = int(rng.integers(1, 50))
    written = pod("p", dict(rng.permutation(list(limits.items())).tolist()), schedulerName="vgpu-scheduler")
    containers = written["spec"]["containers"]
    for number in range(int(rng.integers(0, 3))):
        plain = pod("p", {count: 1, memory: 500})["spec"]["containers"][0]
        containers.append({**plain, "name": f"c{number}"})
    containers[0]["resources"]["limits"][count] = "0"
    name = containers[0]["name"]
    objects = cluster("hami", [[], [], []])
    world = strict_world("hami", *objects, written)
    (waiting,) = world.pending.values()
    decision = ask(world, waiting).decision
    assert decision.outcome is Outcome.REFUSED
    text = f"ask 1 of {count} instead of 0 in container {name} and leave out {percent} in container {name}"
    alone = strict_world("hami")
    for told in (
        [each.text for each in remedies(world, waiting)],
        remedies_from_condition(alone, alone.pod(written), decision.message, "").remedies,
    ):
        assert any(each.startswith(text) for each in told), told
        assert not any(f"leave out {memory} and {percent}" in each for each in told), told
    for each in remedies(world, waiting):
        if each.pod is not None:
            fits = strict_world("hami", *objects, each.pod)
            (waiting,) = fits.pending.values()
            assert ask(fits, waiting).node == each.node


@pytest.mark.parametrize(
    ("limits", "annotations", "text"),
    [
        ({"nvidia.com/gpucores": 150}, {}, "ask 100 of nvidia.com/gpucores instead of 150 in container main"),
        ({"nvidia.com/gpumem-percentage": 150}, {}, "ask 100 of nvidia.com/gpumem-percentage instead of 150"),
        ({"nvidia.com/gpumem": 1000}, {"nvidia.com/vgpu-mode": ""}, "leave out its annotation nvidia.com/vgpu-mode"),
        ({}, {"nvidia.com/numa-bind": "yes"}, "leave out its annotation nvidia.com/numa-bind"),
        ({}, {"nvidia.com/vgpu-mode": "hami-core,x"}, "write hami-core as its annotation nvidia.com/vgpu-mode"),
        (
            {"nvidia.com/gpu": 0, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 150},
            {"nvidia.com/numa-bind": "yes", "nvidia.com/vgpu-mode": " "},
            " and ".join(
                (
                    "ask 1 of nvidia.com/gpu instead of 0 in container main",
                    "leave out its annotation nvidia.com/numa-bind",
                    "leave out its annotation nvidia.com/vgpu-mode",
                    "ask 100 of nvidia.com/gpucores instead of 150",
                )
            ),
        ),
    ],
    ids=["cores", "ratio", "empty mode", "no boolean", "a word that is no mode", "all at once"],
)
def test_what_is_odd_is_corrected_where_that_is_refused(
    limits: dict[str, int], annotations: dict[str, str], text: str
) -> None:
    written = pod("p", {"nvidia.com/gpu": 1, **limits}, schedulerName="vgpu-scheduler")
    check_correction("hami", written, annotations, text)


def test_so_it_is_in_volcanos_names() -> None:
    asked = pod("p", {NUMBER: 1}, schedulerName="vgpu-scheduler")
    written = f"write A100,V100 as its annotation {keys.USE_TYPE}"
    text = f"{written} and leave out its annotation {keys.NO_USE_TYPE}"
    check_correction("volcano", asked, {keys.USE_TYPE: "A100 , V100", keys.NO_USE_TYPE: "T4"}, text)


def check_correction(dialect: str, written: Object, annotations: dict[str, str], text: str) -> None:
    """Whoever may list nodes, and who may not, is told the same, and the pod is understood once it is written so."""
    written["metadata"]["annotations"] = annotations
    world = strict_world(dialect, *cluster(dialect, [[], [], []]), written)
    (waiting,) = world.pending.values()
    decision = ask(world, waiting).decision
    assert decision.outcome is Outcome.REFUSED
    alone = strict_world(dialect)
    assert any(
        text in each for each in remedies_from_condition(alone, alone.pod(written), decision.message, "").remedies
    )
    found = next(each for each in remedies(world, waiting) if text in each.text)
    assert found.pod is not None
    mended = strict_world(dialect, *cluster(dialect, [[], [], []]), found.pod)
    (waiting,) = mended.pending.values()
    assert ask(mended, waiting).decision.outcome is not Outcome.REFUSED


def test_less_of_one_amount_is_told_beside_another_one_that_is_to_be_left_out() -> None:
    """Neither alone would do: the pod is refused for the one, and does not fit for the other."""
    limits = {
        "nvidia.com/gpu": 1,
        "nvidia.com/gpumem": 1000,
        "nvidia.com/gpumem-percentage": 5,
        "nvidia.com/gpucores": 80,
    }
    asked = pod("asked", limits, schedulerName="vgpu-scheduler")
    objects = [node("a", 1), running("x", "a", "GPU-a-0", 1000, 60)]
    world = strict_world("hami", *objects, asked)
    (waiting,) = world.pending.values()
    assert ask(world, waiting).decision.outcome is Outcome.REFUSED
    found = {each.text: each for each in remedies(world, waiting)}
    for left in ("gpumem", "gpumem-percentage"):
        less = "ask 40 of nvidia.com/gpucores instead of 80 in container main, 40 less"
        remedy = found[f"leave out nvidia.com/{left} in container main and {less}"]
        assert remedy.pod is not None
        mended = strict_world("hami", *objects, remedy.pod)
        (waiting,) = mended.pending.values()
        assert ask(mended, waiting).node == "a"


MODE = {"hami": "nvidia.com/vgpu-mode", "volcano": keys.MODE}
MISTYPED = {
    "mgi": "mig",
    "MIG": "mig",
    "hamicore": "hami-core",
    "hami_core": "hami-core",
    "Hami-Core": "hami-core",
}


@pytest.mark.parametrize("dialect", ["hami", "volcano"])
@pytest.mark.parametrize("typed", MISTYPED)
def test_the_mode_that_is_meant_is_told(dialect: str, typed: str) -> None:
    """Be annotations strict or not: a mode that there is not is refused always."""
    asked = pod("p", {NAMES[dialect][0]: 1}, schedulerName="vgpu-scheduler")
    check_correction(
        dialect, asked, {MODE[dialect]: typed}, f"write {MISTYPED[typed]} as its annotation {MODE[dialect]}"
    )


@pytest.mark.parametrize("typed", ["zzz", "gpu"])
def test_of_a_mode_that_is_like_none_no_other_is_said_to_be_meant(typed: str) -> None:
    asked = pod("p", {"nvidia.com/gpu": 1}, metadata={"annotations": {MODE["hami"]: typed}})
    world = strict_world("hami", node("a"), asked)
    (waiting,) = world.pending.values()
    assert [each.text for each in remedies(world, waiting)] == [f"leave out its annotation {MODE['hami']} ({typed})"]


def test_of_several_modes_each_is_told() -> None:
    asked = pod("p", {"nvidia.com/gpu": 1}, schedulerName="vgpu-scheduler")
    check_correction("hami", asked, {MODE["hami"]: "mgi,Hami-Core"}, "write mig,hami-core as its annotation")
