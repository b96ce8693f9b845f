"""What somebody with rights in one namespace is told of reasons of nodes and cards that their condition counts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.whatif.test_whatif_condition_others import told_of

from vgpu_scheduler.predicates import reasons as filters

Object = dict[str, Any]
TAINT = filters.TAINT.text
WAIT = "wait until other pods end, or ask for a node more: "


@pytest.mark.parametrize("tainted", [1, 3])
@pytest.mark.parametrize(
    ("reason", "why", "limits"),
    [
        ("CardInsufficientCore", "cards have too little compute left", {"aws.amazon.com/neuron": 1}),
        ("CardInsufficientMemory", "cards have too little memory left", {"metax-tech.com/gpu": 1}),
        ("ExclusiveDeviceAllocateConflict", "the pod gets no card that others use", {"vastaitech.com/va": 1}),
        ("CardTimeSlicingExhausted", "cards have no share left", {"kunlunxin.com/vxpu": 1}),
        ("CardHeldByPeer", "the pod shares no card with those of its group", {"nvidia.com/gpu": 1}),
    ],
)
def test_that_other_pods_may_end_is_told_beside_a_taint(reason: str, why: str, limits: Object, tainted: int) -> None:
    """The nodes with the taint may have nothing to do with the cards that the pod asks for."""
    (name,) = limits
    lacking = f"40 Insufficient {name}"
    told = told_of(f"0/44 nodes are available: 1 {reason}, {tainted} {TAINT}, {lacking}.", limits)
    waits = [each for each in told if each.startswith(WAIT)]
    assert len(waits) == 1, told
    assert why in waits[0]
    assert told[-1].startswith("tolerate a taint of the nodes")
    assert not any(each.startswith("wait until the nodes or the pods on them") for each in told)
