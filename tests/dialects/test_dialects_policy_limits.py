"""The limits of policies on cards exclude the same cards, for the same reason, whatever allocator chooses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vgpu_scheduler.allocators import (
    Allocator,
    CardChoice,
    CardLimits,
    DeviceShareAllocator,
    FitColumns,
    HamiAllocator,
    ShareDimensions,
    ShareOrder,
    Strategy,
    card_order,
)
from vgpu_scheduler.dialects.hami import vendors
from vgpu_scheduler.dialects.hami.rules import parse_rules
from vgpu_scheduler.model import CardReason, Claim, ContainerClaims, ContainerType, Device, OrderKind
from vgpu_scheduler.state import DeviceMatrix

VENDOR = "NVIDIA"
CLAIMS = (ContainerClaims("c", ContainerType.APP, (Claim(VENDOR, 1, (1, 100, 10), (0, 0, 0)),), "any"),)
LACKING = (CardReason.CardTimeSlicingExhausted, CardReason.CardInsufficientMemory, CardReason.CardInsufficientCore)


def both(choice: CardChoice) -> tuple[Allocator, Allocator]:
    order = card_order("spread", OrderKind.NUMA_FIRST, numa_bind=False)
    shares = ShareDimensions(LACKING, 1, 2, frozenset({VENDOR}), {}, lambda amounts, _: amounts)
    return (
        HamiAllocator(CLAIMS, parse_rules({}, vendors()), order, choice),
        DeviceShareAllocator(CLAIMS, ShareOrder(Strategy.LEAST_ALLOCATED, ()), choice, shares),
    )


@pytest.mark.parametrize(
    ("limits", "denied"),
    [
        ({}, 0),
        ({"deny": ("a100",)}, 2),
        ({"allow": (("H100", "A100"), ("h100",))}, 2),
        ({"modes": (("mps",),)}, 3),
        ({"most_memory": 7999}, 2),
        ({"exclusive": True}, 1),
        ({"exclusive": True, "most_memory": 7999, "deny": ("H100",)}, 3),
        ({"exclusive": True, "most_memory": 4000, "deny": ("a100",)}, 4),
    ],
)
def test_limits_of_policies_exclude_the_same_cards(limits: dict[str, Any], denied: int) -> None:
    matrix = DeviceMatrix(3)
    kinds = [("A100", 8000, 100, "hami-core"), ("A100", 4000, 100, ""), ("H100", 8000, 100, "hami-core")]
    kinds.append(("H100", 7000, 50, "hami-core"))
    cards = [
        Device(f"c{i}", VENDOR, model, (10, m, cores), i, mode=mode) for i, (model, m, cores, mode) in enumerate(kinds)
    ]
    matrix.replace(0, cards)
    reasons = []
    for allocator in both(CardChoice(limits=CardLimits(**limits))):
        found = FitColumns.empty(1)
        allocator.fit(matrix, np.array([0]), found)
        reasons.append(found.counts[0, CardReason.CardDeniedByPolicy])
        assert np.count_nonzero(allocator.may_use(matrix)[: len(cards)]) == len(cards) - denied
    assert found.fits[0] == (denied < len(cards))
    assert denied < len(cards) or reasons == [denied, denied]
