"""Cards that are given out in certain numbers only: the next smaller and the next larger number that fits are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.whatif import RemedyType, ask, remedies

Object = dict[str, Any]
NEURON, CORES, XPU = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "kunlunxin.com/xpu"
TRAINIUM, INFERENTIA = ("trn1.32xlarge", 16), ("inf1.24xlarge", 6)


def neurons(kind: tuple[str, int]) -> Object:
    name, devices = kind
    return counted({NEURON: devices, CORES: 2 * devices}, {"node.kubernetes.io/instance-type": name})


def counted(cards: dict[str, int], labels: Object | None = None) -> Object:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **{name: str(number) for name, number in cards.items()}}
    metadata = {"name": "n", "labels": labels or {}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}}


CASES = [
    *((neurons(TRAINIUM), NEURON, number, 16) for number in range(1, 19)),
    *((neurons(INFERENTIA), NEURON, number, 6) for number in range(1, 9)),
    *((neurons(TRAINIUM), CORES, number, 32) for number in range(1, 35)),
    *((counted({XPU: 8}), XPU, number, 8) for number in range(1, 11)),
    *((counted({XPU: 4}), XPU, number, 4) for number in range(1, 7)),
]


@pytest.mark.parametrize(("there", "name", "number", "most"), CASES)
def test_the_next_numbers_that_fit_are_told(there: Object, name: str, number: int, most: int) -> None:
    fitting = [each for each in range(1, most + 1) if ask(*world_of(there, pod("asked", {name: each}))).node]
    world, waiting = world_of(there, pod("asked", {name: number}))
    found = remedies(world, waiting) if number not in fitting else []
    told = [each.text for each in found if each.type in {RemedyType.ASK_LESS, RemedyType.ASK_OTHERWISE}]
    less, more = [each for each in fitting if each < number], [each for each in fitting if each > number]
    wanted = [f"ask {each} of {name} instead of {number} in container main, {number - each} less" for each in less[-1:]]
    wanted += [f"ask {each} of {name} instead of {number} in container main, {each - number} more" for each in more[:1]]
    assert told == (wanted if found else [])


@pytest.mark.parametrize("seed", range(30))
def test_no_more_cards_are_proposed_where_any_number_is_given_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    there = [node(f"n{number}", cards=int(rng.integers(1, 5))) for number in range(2)]
    tenants = [
        running(f"r{n}", "n0", "GPU-n0-0", int(rng.integers(1000, 5000))) for n in range(int(rng.integers(0, 3)))
    ]
    asked = pod("asked", {GPU: int(rng.integers(1, 7)), MEMORY: int(rng.integers(1000, 20000))})
    world, waiting = world_of(*there, *tenants, asked)
    if not ask(world, waiting).node:
        assert not [each for each in remedies(world, waiting) if " more" in each.text and GPU in each.text]
