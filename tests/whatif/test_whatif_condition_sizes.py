"""Cards that are given out in certain sizes only: amounts for readers of conditions are such as the vendor accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_larger_numbers import CORES, NEURON, counted
from tests.whatif.test_whatif_remedies import pod

from vgpu_scheduler.engine import EngineOptions, QuotaReport, event_note
from vgpu_scheduler.whatif import World, ask, make_dialect, remedies_from_condition
from vgpu_scheduler.whatif.conditions.quotas import QuotaStatus

Object = dict[str, Any]


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
