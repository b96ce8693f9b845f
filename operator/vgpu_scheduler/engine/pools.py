"""Sums over cards by model and over namespaces' usage, for capacity planning and monitoring.

They are sums over columns, which are cheap to repeat in a large cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.dialects import Dialect, Dialects
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.model import Compute
from vgpu_scheduler.state import DeviceMatrix, State

MEMORY, CORES, SHARES = "memory", "cores", "shares"
RESOURCES: Final[Mapping[str, str]] = {MEMORY: "byte", CORES: "percent", SHARES: "share"}
"""The resources of cards, and the unit of each."""
_WHOLE: Final = 100.0
_Numbers = NDArray[np.int64]
_Values = NDArray[np.float64]


class PoolAmounts(NamedTuple):
    """The amounts of a resource on some cards.

    Attributes
    ----------
    capacity
        What all of them have.
    allocatable
        What those in service have.
    allocated
        What is allocated on all of them.
    free
        What is left on those in service; 0 for a card that is over capacity.
    """

    capacity: float
    allocatable: float
    allocated: float
    free: float


@dataclass(frozen=True, slots=True)
class Pool:
    """The cards of one model in one dialect.

    Attributes
    ----------
    cards
        Number of cards by state (``ready``, ``unhealthy``, ``cordoned``).
    amounts
        By resource (see RESOURCES), without resources that no card has.
    """

    dialect: str
    model: str
    cards: Mapping[str, int]
    amounts: Mapping[str, PoolAmounts]


def pools(state: State, dialects: Iterable[Dialect]) -> list[Pool]:
    """Return the pools of the cards that are listed now, by dialect and model."""
    return [pool for dialect in dialects for pool in _pools_of(state.matrix(dialect.name), dialect)]


def _pools_of(matrix: DeviceMatrix, dialect: Dialect) -> Iterator[Pool]:
    numbers, _ = matrix.listed_numbers()
    if not numbers.size:
        return
    names = sorted({model for _, model, _ in matrix.models})
    places = {name: place for place, name in enumerate(names)}
    of_kind = np.array([places[model] for _, model, _ in matrix.models], dtype=np.int64)
    columns = matrix.columns
    model, healthy = of_kind[columns.model[numbers]], columns.healthy[numbers]
    ready = columns.in_service(numbers)

    def summed(values: NDArray[Any]) -> list[float]:
        sums: list[float] = np.bincount(model, weights=values, minlength=len(names)).tolist()
        return sums

    cards = {"ready": summed(ready), "unhealthy": summed(~healthy), "cordoned": summed(healthy & ~ready)}
    sums = {
        resource: (total, total * ready, used, np.maximum(total - used, 0.0) * ready)
        for resource, (total, used) in _amounts(matrix, dialect, numbers).items()
    }
    amounts = {resource: list(zip(*map(summed, values), strict=True)) for resource, values in sums.items()}
    for place in np.unique(model).tolist():
        theirs = {resource: PoolAmounts(*each[place]) for resource, each in amounts.items()}
        yield Pool(
            dialect.name,
            names[place],
            {state: int(counts[place]) for state, counts in cards.items()},
            {resource: amount for resource, amount in theirs.items() if amount.capacity},
        )


def _amounts(matrix: DeviceMatrix, dialect: Dialect, numbers: _Numbers) -> dict[str, tuple[_Values, _Values]]:
    """Return the total and the used amount of each device, by resource and in the resource's unit."""
    inventory, columns = dialect.inventory, matrix.columns

    def column(dimension: int) -> tuple[_Values, _Values]:
        total, used = (whole[:, dimension].take(numbers) for whole in (columns.total, columns.used))
        return total.astype(np.float64), used.astype(np.float64)

    unit = float(inventory.memory_unit)
    memory, compute = column(inventory.memory), column(inventory.cores)
    found = {
        MEMORY: (memory[0] * unit, memory[1] * unit),
        CORES: (np.where(compute[0] > 0, _WHOLE, 0.0), _percent(matrix, numbers, *compute)),
    }
    if _has_shares(dialect):
        found[SHARES] = column(SLOTS)
    return found


def _percent(matrix: DeviceMatrix, numbers: _Numbers, total: _Values, used: _Values) -> _Values:
    """Return the allocated compute of devices in percent of each, as :meth:`Device.compute_percent` does."""
    percent = used.copy()
    for compute in (Compute.UNITS, Compute.MASK):
        so = matrix.counted_in(compute, numbers) & (total > 0)
        if so.any():
            some, whole = used[so], total[so]
            if compute is Compute.MASK:
                some, whole = (np.bitwise_count(each.astype(np.int64)).astype(np.float64) for each in (some, whole))
            percent[so] = _WHOLE * some / whole
    return percent


def _has_shares(dialect: Dialect) -> bool:
    return dialect.inventory.dimensions[SLOTS].unit == "shares"


def held_by_namespace(state: State, dialects: Dialects) -> dict[tuple[str, str], dict[str, float]]:
    """Return what the pods of each namespace hold of the cards of each dialect, by resource.

    Claims that may be on any card count once; claims in percent of an unknown card count as 0: see
    :meth:`Usage.totals`.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    by_card = {dialect.name: _counted_by_card(state.matrix(dialect.name)) for dialect in dialects}
    for namespace, vendors in state.quota_usage.as_values().items():
        for (name, vendor), amounts in vendors.items():
            dialect = dialects[name]
            memory, cores = dialect.inventory.memory, dialect.inventory.cores
            sums = found.setdefault((namespace, name), dict.fromkeys((MEMORY, CORES), 0.0))
            sums[MEMORY] += sum(amounts[memory : memory + 1]) * dialect.inventory.memory_unit
            if vendor not in by_card[name]:
                sums[CORES] += sum(amounts[cores : cores + 1])
            if _has_shares(dialect):
                sums[SHARES] = sums.get(SHARES, 0.0) + sum(amounts[SLOTS : SLOTS + 1])
    if any(by_card.values()):
        for namespace, name, percent in _compute_by_card(state, dialects, by_card):
            found[namespace, name][CORES] += percent
    return found


def _counted_by_card(matrix: DeviceMatrix) -> frozenset[str]:
    """Return the vendors for which the percentage of compute depends on the card."""
    numbers, _ = matrix.listed_numbers()
    other = numbers[~matrix.counted_in(Compute.PERCENT, numbers)]
    models = matrix.models
    return frozenset(models[kind][0] for kind in np.unique(matrix.columns.model[other]).tolist())


def _compute_by_card(
    state: State, dialects: Dialects, by_card: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, str, float]]:
    """Yield the compute that each pod holds of a card of such vendors, in percent; unlisted cards are left out."""
    for reservation in state.reservations():
        row = state.nodes.row(reservation.node)
        if row is None:
            continue
        for name, usage in reservation.uses.items():
            matrix, cores = state.matrix(name), dialects[name].inventory.cores
            for uuid, amounts in usage.charges.items():
                if usage.vendors.get(uuid) in by_card[name]:
                    number = matrix.position(row, uuid)
                    if number is not None:
                        device = matrix.listed(row, number)
                        percent = device.compute_percent(amounts[cores], device.total[cores])
                        yield reservation.namespace, name, percent
