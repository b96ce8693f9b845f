"""Pods that may have no card for themselves: a share of what is free is offered where a whole card is not free."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, kinds, node, pod, running, world_of

from vgpu_scheduler.whatif import RemedyType, ask, remedies

Object = dict[str, Any]
DCU, DCU_MEMORY, DCU_CORES = (f"hygon.com/dcu{name}" for name in ("num", "mem", "cores"))


class Vendor(NamedTuple):
    """The names of a vendor's resources."""

    count: str
    memory: str
    cores: str


VENDORS = {"NVIDIA": Vendor(GPU, MEMORY, CORES), "Hygon": Vendor(DCU, DCU_MEMORY, DCU_CORES)}


def held(vendor: str, memory: int, cores: int) -> list[Object]:
    """Return a node with one card, of which somebody has something, and the limit."""
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "own"}, "spec": {"limits": {"exclusiveCardsPerPod": 0}}}
    there, holder = node("a", cards=1), running("held", "a", "GPU-a-0", memory, cores)
    if vendor == "Hygon":
        there["metadata"]["annotations"] = {"hami.io/node-dcu-register": "DCU-a,10,16384,100,DCU-K100,0,true:"}
        there["status"]["allocatable"][DCU] = there["status"]["capacity"][DCU] = "10"
        entry = {"hami.io/vgpu-node": "a", "hami.io/dcu-devices-allocated": f"DCU-a,DCU,{memory},{cores}:;"}
        holder["metadata"]["annotations"] = entry
        limits = {DCU: "1", DCU_MEMORY: str(memory), DCU_CORES: str(cores)}
        holder["spec"]["containers"][0]["resources"]["limits"] = limits
    return [there, holder, policy]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("vendor", VENDORS)
def test_what_is_free_of_a_card_that_others_use_is_offered(vendor: str, seed: int) -> None:
    rng, names = np.random.default_rng(seed), VENDORS[vendor]
    memory, cores = int(rng.integers(1000, 9000)), int(rng.integers(1, 60))
    objects = held(vendor, memory, cores)
    made, waiting = world_of(*objects, pod("asked", {names.count: 1, names.memory: 1000, names.cores: 100}))
    (text,) = kinds(remedies(made, waiting))[RemedyType.ASK_LESS]
    assert text == f"ask {100 - cores} of {names.cores} instead of 100 in container main, {cores} less"
    made, waiting = world_of(*objects, pod("asked", {names.count: 1, names.cores: 30}))
    (text,) = kinds(remedies(made, waiting))[RemedyType.ASK_LESS]
    assert text == f"ask {16384 - memory} of {names.memory} (it does not say, and gets whole cards) in container main"


@pytest.mark.parametrize("vendor", VENDORS)
def test_nobody_is_told_to_leave_a_little_of_an_idle_card(vendor: str) -> None:
    names = VENDORS[vendor]
    there, _, policy = held(vendor, 1000, 10)
    for limits in ({names.count: 1, names.memory: 1000, names.cores: 100}, {names.count: 1, names.cores: 30}):
        made, waiting = world_of(there, policy, pod("asked", limits))
        assert not ask(made, waiting).node
        found = kinds(remedies(made, waiting))
        assert RemedyType.ASK_LESS not in found
        assert RemedyType.RAISE_LIMIT in found


def test_compute_that_a_maker_gives_whole_is_given_by_no_policy() -> None:
    there, holder, policy = held("Hygon", 1000, 20)
    policy["spec"]["limits"] = {"coresPerPod": 50}
    defaults = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "d"}, "spec": {"defaults": {"cores": 60}}}
    asked = pod("asked", {DCU: 1, DCU_MEMORY: 1000})
    for policies, told in (
        ([policy], "counts as all of its cards"),
        ([policy, defaults], "gets 60 percent by a policy"),
    ):
        made, waiting = world_of(there, holder, *policies, asked)
        text = f"ask 50 of {DCU_CORES} (it asks for none, and {told}) in container main"
        assert text in kinds(remedies(made, waiting))[RemedyType.ASK_LESS]
