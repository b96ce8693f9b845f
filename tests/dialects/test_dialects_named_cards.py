"""Pods that name cards by their UUIDs: which cards are left to them, and what it costs to find that out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.calls import calls

from vgpu_scheduler.allocators import CardChoice, CardLimits, HamiAllocator, card_order
from vgpu_scheduler.dialects.hami import vendors
from vgpu_scheduler.dialects.hami.rules import parse_rules
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, Device, OrderKind
from vgpu_scheduler.state import DeviceMatrix

VENDORS = {
    "NVIDIA": ("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),
    "MLU": ("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),
    "Vastai": ("vastaitech.com/use-gpuuuid", "vastaitech.com/nouse-gpuuuid"),
}
ORDER = card_order("spread", OrderKind.NUMA_FIRST, numa_bind=False)


def allocator(annotations: dict[str, str], choice: CardChoice) -> HamiAllocator:
    claims = tuple(ContainerClaims(m, ContainerType.APP, (Claim(m, 1, (1, 10, 0), (0, 0, 0)),)) for m in VENDORS)
    return HamiAllocator(claims, parse_rules(annotations, vendors()), ORDER, choice)


def card(uuid: str, vendor: str, model: str = "A", index: int = 0) -> Device:
    return Device(uuid, vendor, model, (10, 1000, 100), index)


def naive(device: Device, annotations: dict[str, str], denied: str) -> bool:
    """Card by card, as the annotations are documented."""
    use, no_use = ([item for item in annotations.get(key, "").split(",") if item] for key in VENDORS[device.vendor])
    listed = not use or device.uuid in use
    return listed and device.uuid not in no_use and device.type != denied


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_what_a_look_at_each_card_leaves(seed: int) -> None:
    """Some UUIDs are on several nodes, or on cards of two vendors, and some lists name cards that are nowhere."""
    rng = np.random.default_rng(seed)
    makers, matrix = list(VENDORS), DeviceMatrix(3)
    names = [f"card-{number}" for number in range(30)]
    for _ in range(int(rng.integers(1, 25))):  # nodes come, change and go
        listed = rng.permutation(names)[: rng.integers(0, 9)]
        matrix.replace(
            int(rng.integers(8)),
            [card(uuid, str(rng.choice(makers)), str(rng.choice(["A", "B"])), i) for i, uuid in enumerate(listed)],
        )

    def some() -> str:
        return ",".join(rng.permutation([*names, "nowhere"])[: rng.integers(0, 12)])

    annotations = {key: some() for keys in VENDORS.values() for key in keys if rng.random() < 0.5}
    denied = str(rng.choice(["", "B"]))
    choice = CardChoice(limits=CardLimits(deny=(denied,))) if denied else CardChoice()
    may = allocator(annotations, choice).may_use(matrix)
    found, expected = {}, {}
    for row in range(8):
        for device in matrix.devices(row):
            number = matrix.position(row, device.uuid)
            found[row, device.uuid] = bool(may[number])
            expected[row, device.uuid] = naive(device, annotations, denied)
    assert found == expected


def effort(nodes: int) -> int:
    """Count the calls that it takes to find out which cards of so many nodes a pod may use."""
    matrix = DeviceMatrix(3)
    for row in range(nodes):
        matrix.replace(row, [card(f"card-{row}-{index}", "NVIDIA", index=index) for index in range(8)])
    named = {"nvidia.com/use-gpuuuid": "card-0-1,card-0-2", "nvidia.com/nouse-gpuuuid": "card-0-2"}
    made = allocator(named, CardChoice())
    may, (numbers, _) = made.may_use(matrix), matrix.listed_numbers()
    assert [matrix.uuid(number) for number in numbers[may[numbers]].tolist()] == ["card-0-1"]
    return calls(lambda: made.may_use(matrix))


def test_it_costs_no_more_in_a_larger_cluster() -> None:
    assert effort(300) == effort(3)
