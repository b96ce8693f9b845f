"""The device matrix: capacity and usage of every device of every node, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import (
    CORES,
    NO_GROUP,
    NO_PAIRS,
    DeviceColumns,
    DimensionRole,
    PartitionTables,
    is_consistent,
    role_row,
    update_consistency,
)
from vgpu_scheduler.model import PLAIN_SCHEMA, WHOLE, Amounts, Compute, Device, DimensionRoles, Piece
from vgpu_scheduler.state.columns import InternedColumn
from vgpu_scheduler.state.links import LinkBlocks
from vgpu_scheduler.state.partitions import PartitionRegister
from vgpu_scheduler.state.pieces import PieceTable

_GROWTH = 2
_MIN_ROWS = 16
_PER_DEVICE = (
    "_total", "_used", "_vendor", "_model", "_schema", "_numa", "_index", "_healthy", "_cordoned", "_partitioned",
    "_consistent", "_piece_first", "_piece_last", "_group", "_link_score",
)  # fmt: skip
"""The columns with a row per device that kernels read, in the order of :class:`DeviceColumns`."""
_OF_DEVICE = frozenset(DeviceColumns._fields[2 : 2 + len(_PER_DEVICE)])
"""The fields of :class:`DeviceColumns` that hold these columns."""
_COLUMNS = (*_PER_DEVICE, "_in_percent", "_has_slices", "_compute", "_part")
_KINDS = tuple(Compute)

LabelSet = tuple[str, tuple[tuple[str, str], ...]]
"""A vendor, and the labels of one of its devices, sorted by name."""


class DeviceMatrix:
    """Devices in columns; the devices of a node row are contiguous, in canonical order (index, then UUID).

    A node whose device list changes gets new rows at the end, and the matrix is compacted once more than half of it
    is unused. ``layout`` counts these moves: a cache keyed by device number is valid while ``layout`` is the same.

    Parameters
    ----------
    dimensions
        The number of amounts per device; dialects with fewer leave the rest 0.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.layout = 0
        self._end = 0
        self._live_count = 0
        self._first = np.zeros(_MIN_ROWS, dtype=np.int64)
        self._last = np.zeros(_MIN_ROWS, dtype=np.int64)
        self._pieces = PieceTable(dimensions)
        self._links = LinkBlocks()
        self._links.ensure_rows(_MIN_ROWS)
        self._allocate(_MIN_ROWS)
        self._uuids: list[str] = []
        self._positions: dict[int, dict[str, int]] = {}
        self._rows_of: dict[str, tuple[int, ...]] = {}  # by UUID; several rows only if nodes list the same UUID
        self._devices: dict[int, tuple[Device, ...]] = {}
        self._vendors: dict[str, int] = {}
        self._models: dict[tuple[str, str, str], int] = {}
        self._partitions = PartitionRegister(_MIN_ROWS)
        self._label_sets: InternedColumn[LabelSet] = InternedColumn(_MIN_ROWS)
        self._schemas: dict[DimensionRoles, int] = {}
        self._roles: NDArray[np.int64] = np.zeros((0, len(DimensionRole)), dtype=np.int64)
        self._schema_number(PLAIN_SCHEMA)
        self._largest: dict[tuple[str, int], tuple[int, int]] = {}
        self._largest_of = -1

    def _allocate(self, rows: int) -> None:
        self._total = np.zeros((rows, self.dimensions), dtype=np.int64)
        self._used = np.zeros((rows, self.dimensions), dtype=np.int64)
        self._vendor = np.zeros(rows, dtype=np.int32)
        self._model = np.zeros(rows, dtype=np.int32)
        self._schema = np.zeros(rows, dtype=np.int32)
        self._numa = np.zeros(rows, dtype=np.int64)
        self._index = np.zeros(rows, dtype=np.int64)
        self._healthy = np.zeros(rows, dtype=np.bool_)
        self._cordoned = np.zeros(rows, dtype=np.bool_)
        self._partitioned = np.zeros(rows, dtype=np.bool_)
        self._consistent = np.ones(rows, dtype=np.bool_)
        self._piece_first = np.zeros(rows, dtype=np.int64)
        self._piece_last = np.zeros(rows, dtype=np.int64)
        self._group = np.full(rows, NO_GROUP, dtype=np.int64)
        self._link_score = np.zeros((rows, 4), dtype=np.float32)
        self._in_percent = np.zeros(rows, dtype=np.bool_)
        self._has_slices = np.zeros(rows, dtype=np.bool_)
        self._compute = np.zeros(rows, dtype=np.int8)
        self._part = np.zeros(rows, dtype=np.bool_)

    @property
    def columns(self) -> DeviceColumns:
        """The columns as the kernels take them; valid until the next change."""
        tables = (self._links.first, self._links.scores, self._pieces.amounts, self._roles)
        return DeviceColumns(*(self._first, self._last, *self._per_device(_PER_DEVICE), *tables))

    @property
    def most_cards(self) -> int:
        """The largest number of devices on one node."""
        return int((self._last - self._first).max(initial=0))

    @property
    def size(self) -> int:
        """The number of device rows, unused ones included."""
        return self._total.shape[0]

    @property
    def models(self) -> Sequence[tuple[str, str, str]]:
        """Interned (vendor, type, mode), in the order of their numbers."""
        return tuple(self._models)

    @property
    def label_sets(self) -> tuple[Sequence[LabelSet], NDArray[np.int32]]:
        """Interned (vendor, labels), in the order of their numbers, and the number of each device, shape (D,).

        Unused device rows have the number -1.
        """
        return self._label_sets.values, self._label_sets.ids

    @property
    def partitions(self) -> tuple[PartitionTables, NDArray[np.int32]]:
        """The partition tables, and for each device the number of its node's table, shape (D,)."""
        return self._partitions.tables, self._partitions.ids

    def live_models(self) -> frozenset[str]:
        """Return the types of the devices that are listed now."""
        return frozenset(model for _, model, _ in self._models_of(self._live()[0]))

    def live_vendors(self) -> frozenset[str]:
        """Return the vendors of the devices that are listed now."""
        return frozenset(vendor for vendor, _, _ in self._models_of(self.listed_numbers()[0]))

    def listed_numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of all listed devices that are not parts of other devices, and the node row of each."""
        numbers, rows = self._live()
        whole = ~self._part[numbers]
        return numbers[whole], rows[whole]

    def _live(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of all listed devices, and the node row of each."""
        counts = self._last - self._first
        rows = np.repeat(np.arange(counts.shape[0]), counts)
        ends = np.cumsum(counts)
        return self._first[rows] + np.arange(rows.shape[0]) - (ends - counts)[rows], rows

    def _models_of(self, numbers: NDArray[np.int64]) -> Iterator[tuple[str, str, str]]:
        """Yield the different models of some devices, as in :attr:`models`."""
        models = self.models
        return (models[number] for number in np.unique(self._model[numbers]).tolist())

    def counted_in(self, compute: Compute, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each device number whether the used compute is counted in this way."""
        kinds: NDArray[np.int8] = np.where(
            self._in_percent[numbers], _KINDS.index(Compute.PERCENT), self._compute[numbers]
        )
        same: NDArray[np.bool_] = kinds == _KINDS.index(compute)
        return same

    def vendor_number(self, vendor: str) -> int:
        """Return the number that the vendor has in the ``vendor`` column, giving it one if need be."""
        return self._vendors.setdefault(vendor, len(self._vendors))

    def _schema_number(self, schema: DimensionRoles) -> int:
        """Return the number that a schema has in the ``schema`` column, giving it one if need be."""
        if schema not in self._schemas:
            self._schemas[schema] = len(self._schemas)
            self._roles = np.array([role_row(known) for known in self._schemas], dtype=np.int64)
        return self._schemas[schema]

    def largest(self, vendor: str, dimension: int) -> tuple[int, int]:
        """Return upper bounds of what a device of a vendor has of a dimension, and of what a piece of one has.

        Both are 0 if the vendor has no devices.
        """
        if self._largest_of != self.layout:
            self._largest_of, self._largest = self.layout, {}
        found = self._largest.get((vendor, dimension))
        if found is None:
            theirs = self._vendor[: self._end] == self.vendor_number(vendor)
            divided = theirs & (self._piece_last[: self._end] > self._piece_first[: self._end])
            piece = self._pieces.amounts[:, dimension].max(initial=0) if divided.any() else 0
            found = int(self._total[: self._end, dimension].max(initial=0, where=theirs)), int(piece)
            self._largest[vendor, dimension] = found
        return found

    def devices(self, row: int) -> tuple[Device, ...]:
        """Return the devices of a node row."""
        return self._devices.get(row, ())

    def listed(self, row: int, device: int) -> Device:
        """Return the device of a node row that has this number."""
        return self._devices[row][device - int(self._first[row])]

    def uuid(self, device: int) -> str:
        """Return the UUID of a device number."""
        return self._uuids[device]

    def numbers(self, uuid: str) -> list[int]:
        """Return the numbers of the devices that have a UUID, wherever they are."""
        return [self._positions[row][uuid] for row in self._rows_of.get(uuid, ())]

    def numbers_on(self, row: int) -> Mapping[str, int]:
        """Return the numbers of the devices of a node row, by their UUIDs."""
        return self._positions.get(row, {})

    def position(self, row: int, uuid: str) -> int | None:
        """Return the number of a device of a node row, or None if it is not listed there."""
        return self._positions.get(row, {}).get(uuid)

    def usage(self, row: int) -> Iterator[tuple[str, Amounts]]:
        """Yield the UUID and the used amounts of each device of a node row.

        Trailing dimensions that the device does not have and that are not used are left out.
        """
        for device, number in zip(self.devices(row), range(int(self._first[row]), int(self._last[row])), strict=True):
            used = self._used[number].tolist()
            while len(used) > len(device.total) and not used[-1]:
                used.pop()
            yield device.uuid, tuple(used)

    def over_capacity(self, row: int) -> list[str]:
        """Return the UUIDs of the devices of a node row that are used beyond their capacity."""
        first, last = int(self._first[row]), int(self._last[row])
        return [self._uuids[first + int(position)] for position in np.flatnonzero(self._over(first, last))]

    def inconsistent(self, row: int) -> list[str]:
        """Return the UUIDs of the devices of a node row whose usage cannot be attributed to places on them."""
        numbers = range(int(self._first[row]), int(self._last[row]))
        return [self._uuids[number] for number in numbers if not self._consistent[number]]

    def piece(self, number: int) -> Piece:
        """Return the piece that has a number in the ``pieces`` column."""
        return self._pieces.listed[number]

    @property
    def most_candidates(self) -> int:
        """Upper bound of the candidates on one node: each device counts once, or once for each of its pieces."""
        return self.most_cards * self._pieces.most

    def any_over_capacity(self) -> bool:
        """Tell whether any device of any node is used beyond its capacity."""
        return bool(self._over(0, self._end).any())

    def _over(self, first: int, last: int) -> NDArray[np.bool_]:
        """Tell which device numbers are used beyond their capacity.

        On a card whose pieces have places only the places count, because the compute amounts of its profiles may add
        up to more than the card has. Where compute is given out in percent, the capacity is 100.
        """
        over: NDArray[np.bool_] = np.greater(self._used[first:last], self._total[first:last])
        if not over.any():
            return over[:, 0]  # the common case; the exceptions below only clear flags
        over[:, CORES] &= ~self._in_percent[first:last] | (self._used[first:last, CORES] > WHOLE)
        over[:, : CORES + 1] &= ~self._has_slices[first:last, np.newaxis]
        beyond: NDArray[np.bool_] = np.asarray(over.any(axis=1))
        return beyond

    def ensure_rows(self, rows: int) -> None:
        """Make room for node rows up to ``rows``."""
        known = self._first.shape[0]
        if rows > known:
            more = max(rows, _GROWTH * known) - known  # nodes come one by one
            self._first = np.pad(self._first, (0, more))
            self._last = np.pad(self._last, (0, more))
            self._links.ensure_rows(known + more)

    def replace(self, row: int, devices: Sequence[Device]) -> None:
        """Give a node row these devices, in this order, with nothing used on them yet."""
        # Numbers that overflow a column raise here, before anything is changed.
        padding = [(0,) * (self.dimensions - len(device.total)) for device in devices]
        totals = np.array([d.total + more for d, more in zip(devices, padding, strict=True)], dtype=np.int64)
        places = np.array([(d.numa, d.index, d.group) for d in devices], dtype=np.int64)
        spans = np.array([self._pieces.span(device.pieces) for device in devices], dtype=np.int64)
        self.clear(row)
        if not devices:
            return
        self._reserve(len(devices))
        first = self._end
        new = slice(first, first + len(devices))
        self._total[new], self._used[new] = totals, 0
        self._numa[new], self._index[new], self._group[new] = places.T
        self._piece_first[new], self._piece_last[new] = spans.T
        self._link_score[new] = [device.link_score + device.link_score_beyond for device in devices]
        self._healthy[new] = [device.healthy for device in devices]
        self._cordoned[new] = [device.cordoned for device in devices]
        self._in_percent[new] = [device.in_percent for device in devices]
        self._schema[new] = [self._schema_number(device.schema) for device in devices]
        self._partitioned[new] = [device.is_partitioned for device in devices]
        self._has_slices[new] = [device.has_slices for device in devices]
        self._compute[new] = [_KINDS.index(device.compute) for device in devices]
        self._consistent[new] = True
        self._part[new] = [device.part for device in devices]
        self._partitions.fill(new, next((d.partitions for d in devices if d.partitions is not None), None))
        here = (row,)  # one tuple for all
        for number, device in enumerate(devices, start=first):
            others = self._rows_of.get(device.uuid)
            self._rows_of[device.uuid] = here if others is None else others + here
            self._vendor[number] = self.vendor_number(device.vendor)
            model = (device.vendor, device.type, device.mode)
            self._model[number] = self._models.setdefault(model, len(self._models))
            self._label_sets.set(number, (device.vendor, device.labels))
            self._uuids.append(device.uuid)
        self._end += len(devices)
        self._live_count += len(devices)
        self._first[row], self._last[row] = first, self._end
        self._positions[row] = {device.uuid: number for number, device in enumerate(devices, start=first)}
        self._devices[row] = tuple(devices)
        self._links.replace(row, devices)
        self.layout += 1

    def clear(self, row: int) -> None:
        """Take all devices from a node row."""
        self.ensure_rows(row + 1)
        self.reset_usage(row)  # the rows stay behind as a gap, in which nothing is used
        gap = slice(int(self._first[row]), int(self._last[row]))
        self._partitions.fill(gap, None)
        self._label_sets.fill(gap, None)
        self._live_count -= gap.stop - gap.start
        self._first[row] = self._last[row] = 0
        for uuid in self._positions.pop(row, ()):
            others = tuple(other for other in self._rows_of.pop(uuid) if other != row)
            if others:
                self._rows_of[uuid] = others
        self._devices.pop(row, None)
        self._links.clear(row)
        self.layout += 1

    def charge(self, device: int, amounts: Amounts, sign: int, columns: DeviceColumns | None = None) -> None:
        """Add (``sign`` = 1) or give back (-1) amounts on a device number, in other columns if they are given."""
        used = self._used[device] if columns is None else columns.used[device]
        for dimension, amount in enumerate(amounts):
            used[dimension] += sign * amount
        in_places = self._roles[self._schema[device], DimensionRole.PLACEMENTS] >= 0
        if in_places and (self._partitioned[device] or len(amounts) > CORES + 1):
            columns = columns or self.columns
            columns.consistent[device] = is_consistent(columns, device)

    def each_alone(self, cards: NDArray[np.int64], used: NDArray[np.int64]) -> DeviceColumns:
        """Return columns in which each device is alone on a node of its own, for questions about single cards.

        Parameters
        ----------
        cards
            Device numbers, repeats allowed, shape (n,): the ``i``-th becomes device ``i`` on node row ``i``.
        used
            The assumed usage of each, shape (n, dimensions).
        """
        count = cards.shape[0]
        now, number = self.columns, np.arange(count, dtype=np.int64)
        alone = {name: getattr(now, name)[cards] for name in DeviceColumns._fields if name in _OF_DEVICE}
        columns = now._replace(
            **{**alone, "used": np.ascontiguousarray(used)},
            first=number,
            last=number + 1,
            pair_first=np.full(count, NO_PAIRS, dtype=now.pair_first.dtype),
        )
        update_consistency(columns)
        return columns

    def reset_usage(self, row: int) -> None:
        """Set everything used on a node row to 0."""
        self._used[self._first[row] : self._last[row]] = 0
        self._consistent[self._first[row] : self._last[row]] = True

    def _per_device(self, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
        return tuple([getattr(self, name) for name in names])

    def _reserve(self, more: int) -> None:
        """Make room for more devices at the end; if need be, move all live ones, closing the gaps."""
        if self._end + more <= self.size:
            return
        size = max(_MIN_ROWS, _GROWTH * (self._live_count + more))
        taken = np.sort(self._live()[0])
        old = self._per_device(_COLUMNS)
        self._allocate(size)
        new = self._per_device(_COLUMNS)
        for target, source in zip(new, old, strict=True):
            target[: len(taken)] = source[taken]
        self._partitions.move(taken, size)
        self._label_sets.move(taken, size)
        self._uuids = [self._uuids[number] for number in taken.tolist()]
        counts = self._last - self._first
        self._first = np.searchsorted(taken, self._first)
        self._last = self._first + counts
        for row, there in self._positions.items():
            self._positions[row] = {uuid: number for number, uuid in enumerate(there, start=int(self._first[row]))}
        self._end = taken.shape[0]
        self.layout += 1
