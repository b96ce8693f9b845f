"""Koordinator's DeviceShare score in plain Python, from amounts (D4-17 to D4-25). Slow and obvious."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Amounts = Mapping[str, int]
Instance = tuple[Amounts, Amounts]
"""What a device has, and what is free of it."""

LEAST, MOST = "LeastAllocated", "MostAllocated"


def allocated(total: int, free: int, asked: int) -> int:
    """More is free than there is: it counts as full, and the request is not added."""
    return total if free > total else total - free + asked


def part(used: int, total: int, strategy: str) -> int:
    if strategy == MOST:
        return min(used, total) * 100 // total
    return 0 if used > total else (total - used) * 100 // total


def score(instances: Iterable[Instance], asked: Amounts, weights: Mapping[str, int], strategy: str) -> int:
    """One device, or all of a node: they are added up before the formula is applied."""
    held = list(instances)
    points, weight_sum = 0, 0
    for name, weight in weights.items():
        total = sum(has.get(name, 0) for has, _ in held)
        if total == 0:
            continue
        free = sum(left.get(name, 0) for _, left in held)
        points += part(allocated(total, free, asked.get(name, 0)), total, strategy) * weight
        weight_sum += weight
    return points // weight_sum if weight_sum else 0


def normalised(scores: Mapping[str, int]) -> dict[str, int]:
    """Koordinator brings the best node to 100."""
    best = max(scores.values(), default=0)
    return {node: 100 * value // best if best else value for node, value in scores.items()}


def order(scores: Sequence[int], indexes: Sequence[int]) -> list[int]:
    """Positions of devices: the highest score first, then the lowest index."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], indexes[i]))


# Devices with amounts by dimension ---------------------------------------------------------------------------------


class Weighed(NamedTuple):
    """A resource with a weight, and the amount of a vendor's devices that it stands for."""

    weight: int
    vendor: str
    dimension: int
    percent: bool


class Held(NamedTuple):
    """A device: what it has, and what is used of it."""

    vendor: str
    healthy: bool
    total: Sequence[int]
    used: Sequence[int]


def share(
    devices: Sequence[Held],
    vendor: str,
    weighed: Sequence[Weighed],
    amounts: Sequence[int],
    percents: Sequence[int],
    strategy: str,
) -> int:
    """The score of a vendor's devices together, for one instance that asks for amounts or percentages of them."""
    own = [device for device in devices if device.vendor == vendor and device.healthy]
    resources = {str(number): w for number, w in enumerate(weighed) if w.vendor == vendor}
    instances: list[Instance] = []
    for device in own:
        seen = {name: seen_of(device.total[w.dimension], device.used[w.dimension], w) for name, w in resources.items()}
        instances.append(
            ({name: has for name, (has, _) in seen.items()}, {name: left for name, (_, left) in seen.items()})
        )
    asked = {}
    for name, w in resources.items():
        totals = [device.total[w.dimension] for device in own if device.total[w.dimension]]
        amount, percent = amounts[w.dimension], percents[w.dimension]
        if not w.percent:
            asked[name] = amount
        elif amount and totals:
            asked[name] = amount * 100 * len(totals) // sum(totals)
        else:
            asked[name] = percent
    return score(instances, asked, {name: w.weight for name, w in resources.items()}, strategy)


def seen_of(total: int, used: int, weighed: Weighed) -> tuple[int, int]:
    """What a device has of a resource, and what is free of it."""
    free = max(total - used, 0)
    if not weighed.percent or not total:
        return total, free
    return 100, 100 - (total - free) * 100 // total


def anything_free(devices: Sequence[Held], vendor: str) -> bool:
    own = [device for device in devices if device.vendor == vendor and device.healthy]
    return any(total > used for device in own for total, used in zip(device.total, device.used, strict=True))
