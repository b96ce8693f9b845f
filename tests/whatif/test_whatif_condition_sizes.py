"""Cards that are given out in certain sizes only: amounts for readers of conditions are such as the vendor accepts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_larger_numbers import CORES, NEURON, counted
from tests.whatif.test_whatif_remedies import pod

from vgpu_scheduler.engine import EngineOptions, QuotaReport, event_note
from vgpu_scheduler.whatif import World, ask, make_dialect, remedies_from_condition
from vgpu_scheduler.whatif.advice.corrections import refusal_of
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotaStatus

Object = dict[str, Any]
NUMBER, MEMORY, COMPUTE = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"
SIZES = (2, 4, 8, 16, 32, 64, 96)
ASK = re.compile(r"ask (\d+) of mthreads\.com/sgpu-memory .*?in container (\w+)")


def world_of(*objects: Object) -> World:
    world = World(EngineOptions([make_dialect("hami")]))
    world.add(objects)
    return world


def told_of(world: World, alone: World, quotas: tuple[QuotaReport, ...] = ()) -> tuple[str, list[str]]:
    """Return what a pod's condition says, and what is told from it and its event; nothing if the pod has a place."""
    (waiting,) = world.pending.values()
    decision = ask(world, waiting).decision
    if decision.placement is not None:
        return "", []
    event = f"{decision.message} {event_note(world.engine, waiting, decision)}"
    status = QuotaStatus(quotas or None, limits=quotas)
    written = alone.pod(world.written(waiting))
    return decision.message, list(remedies_from_condition(alone, written, decision.message, event, status).remedies)


# Cores of AWS Neuron devices ------------------------------------------------------------------------------------------


def neuron(masks: list[int], limits: dict[str, int], instance: str) -> World:
    """Return a world with a node of two-core devices whose masks of cores are held, and a waiting pod."""
    amounts, labels = {NEURON: len(masks), CORES: 2 * len(masks)}, {"node.kubernetes.io/instance-type": instance}
    allocated = "hami.io/aws-neuron-devices-allocated"
    held = []
    for number, mask in enumerate(masks):
        entry = f"n-AWSNeuron-{number},AWSNeuron,0,{mask}:;"
        annotations = {"hami.io/vgpu-node": "n", allocated: entry}
        one = pod(f"h{number}", {CORES: 1 + (mask == 3)}, nodeName="n", metadata={"annotations": annotations})
        held += [one] if mask else []
    return world_of(counted(amounts, labels), *held, pod("asked", limits))


@pytest.mark.parametrize("instance", ["inf1.xlarge", "trn1.32xlarge"])
@pytest.mark.parametrize("seed", range(60))
def test_a_core_is_asked_where_no_whole_device_need_be_left(seed: int, instance: str) -> None:
    rng = np.random.default_rng(seed)
    masks = [int(rng.choice([0, 1, 1, 2, 3])) for _ in range(int(rng.integers(2, 9)))]
    number = 2 * int(rng.integers(1, len(masks) + 1))
    message, told = told_of(neuron(masks, {CORES: number}, instance), world_of())
    if "NumaNotFit" in message:
        (less,) = told
        assert less.startswith(f"ask 1 of {CORES} instead of {number} in container main")
        assert "(more may fit, or none: it is not known how much the cards have left)" in less
    elif "CardInsufficientCore" in message:
        assert f"ask for less than {number} of {CORES} in container main: a card may have a part of it left" in told
    one, _ = told_of(neuron(masks, {CORES: 1}, instance), world_of())
    assert bool(one) is all(mask == 3 for mask in masks)


@pytest.mark.parametrize("number", [3, 4, 8])
def test_devices_are_asked_whole(number: int) -> None:
    message, told = told_of(neuron([1, 0] * 4, {NEURON: number}, "inf1.xlarge"), world_of())
    assert "NumaNotFit" in message
    (less,) = told
    assert less.startswith(f"ask 1 of {NEURON} instead of {number} in container main")
    assert "(more may fit, or less: " in less


# Sizes of Moore Threads' cards ----------------------------------------------------------------------------------------


def any_memory(rng: np.random.Generator) -> dict[str, int]:
    """Return what a container asks of one card's memory: one of the sizes, another amount, or none."""
    return [
        {},
        {MEMORY: int(rng.choice(SIZES))},
        {MEMORY: int(rng.integers(1, 200))},
        {MEMORY: int(rng.integers(1, 200))},
    ][int(rng.integers(4))]


@pytest.mark.parametrize("containers", [1, 2])
@pytest.mark.parametrize("seed", range(120))
def test_memory_is_asked_in_sizes_in_which_cards_are_split(seed: int, containers: int) -> None:
    """Also where the pod asks for another amount, be it that a card, a quota or a limit has no room for it."""
    rng = np.random.default_rng(seed)
    limit, left, held = (int(each) for each in rng.integers(1, 120, size=3))
    by_quota, by_limit = rng.random() < 0.5, rng.random() < 0.5
    asked = pod("asked", {})
    asked["spec"]["containers"] = [
        {
            "name": f"c{number}",
            "resources": {"limits": {NUMBER: "1", **{k: str(v) for k, v in any_memory(rng).items()}}},
        }
        for number in range(containers)
    ]
    other = pod("held", {NUMBER: 1, MEMORY: 96}, nodeName="n")
    entry = f"n-mthreads-0,Mthreads,{min(held, 95) * 512},1:;"
    other["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "n",
        "hami.io/mthreads-vgpu-devices-allocated": entry,
    }
    hard = {"hard": {f"limits.{MEMORY}": str(min(held, 95) + left)}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default", "uid": "q"}, "spec": hard}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "default", "uid": "l"}}
    policy |= {"spec": {"limits": {"memoryPerPod": f"{limit * 512}Mi"}}}
    known = [*([quota] if by_quota else []), *([policy] if by_limit else [])]
    there = counted({NUMBER: 100, COMPUTE: 160, MEMORY: 960})
    world = world_of(there, other, *known, asked)
    reports = world.engine.quota_limits.reports("default", world.engine.state)
    _, told = told_of(world, world_of(*known), tuple(reports))
    for remedy in told:
        for amount, container in ASK.findall(remedy):
            assert int(amount) in SIZES, (remedy, container)


@pytest.mark.parametrize("amount", [3, 63, 97, 139, 200])
@pytest.mark.parametrize("most", [2, 5, 33, 63, 64, 95])
def test_the_largest_size_within_a_limit_is_asked(amount: int, most: int) -> None:
    spec = {"limits": {"memoryPerPod": f"{most * 512}Mi"}}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "default", "uid": "l"}, "spec": spec}
    alone = world_of(policy, pod("asked", {NUMBER: 1, MEMORY: amount}))
    (waiting,) = alone.pending.values()
    message = refusal_of(alone, alone.written(waiting))
    if amount <= most:
        assert not message
        return
    told = remedies_from_condition(alone, waiting, message, "").remedies
    size = max(each for each in SIZES if each <= most)
    assert any(each.startswith(f"ask {size} of {MEMORY} instead of {amount} in container main") for each in told), told


@pytest.mark.parametrize("amounts", [(96, 96), (63, 63), (64, 200), (100, 16)])
def test_several_containers_ask_for_sizes_together(amounts: tuple[int, int]) -> None:
    spec = {"limits": {"memoryPerPod": f"{24 * 512}Mi"}}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "default", "uid": "l"}, "spec": spec}
    asked = pod("asked", {})
    limits = [{NUMBER: "1", MEMORY: str(amount)} for amount in amounts]
    asked["spec"]["containers"] = [{"name": f"c{n}", "resources": {"limits": each}} for n, each in enumerate(limits)]
    alone = world_of(policy, asked)
    (waiting,) = alone.pending.values()
    told = remedies_from_condition(alone, waiting, refusal_of(alone, alone.written(waiting)), "").remedies
    found = {container: int(amount) for amount, container in ASK.findall(told[0])}
    now = {f"c{n}": amount for n, amount in enumerate(amounts)} | found
    assert found
    assert set(found.values()) <= set(SIZES)
    assert sum(now.values()) <= 24
