"""The device matrix against a plain dict, through any sequence of changes, growths and compactions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpu_scheduler.model import Device, DimensionRoles, Partition, PartitionTable, Piece
from vgpu_scheduler.state import DeviceMatrix, canonical

if TYPE_CHECKING:
    from vgpu_scheduler.model import Amounts

ROWS = 6
LABELS = ((), (("rack", "1"),), (("rack", "2"), ("rail", "1")))
TABLES = (None, PartitionTable((Partition((0, 1)), Partition((2, 3), 2, 400))), PartitionTable(only=True))
LINKS = (20, -3, 2**50, 300)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["replace", "replace", "clear", "charge", "reset"]),
        st.integers(0, ROWS - 1),
        st.integers(0, 9),
    ),
    max_size=60,
)


def devices(row: int, number: int, version: int) -> tuple[Device, ...]:
    return tuple(
        Device(
            uuid=f"{row}-{index}" if index < 8 else "everywhere",
            vendor=f"vendor-{index % 2}",
            type=f"model-{version % 3}",
            total=(4, 1000 * (version + 1)),  # fewer dimensions than the matrix has
            index=index,
            numa=index // 2,
            healthy=(version + index) % 3 != 0,
            cordoned=(version + index) % 4 == 0,
            labels=LABELS[(version + index) % 3],
            partitions=TABLES[version % 3] if index % 2 else None,
            links=tuple((f"{row}-{other}", LINKS[(version + index * other) % len(LINKS)]) for other in range(8))
            if (version + row) % 3
            else (),
        )
        for index in range(number)
    )


def trimmed(amounts: Amounts) -> Amounts:
    """Devices have two dimensions here: the third is left out where nothing is used of it."""
    return amounts if amounts[2] else amounts[:2]


def partitions(matrix: DeviceMatrix, first: int, last: int) -> list[PartitionTable | None]:
    """Return the table of each of some devices, read back from the columns."""
    tables, numbers = matrix.partitions
    found: list[PartitionTable | None] = []
    for number in numbers[first:last].tolist():
        within = range(tables.first[number], tables.last[number]) if number >= 0 else range(0)
        listed = (
            Partition(
                tuple(member for member in range(62) if int(tables.mask[each]) >> member & 1),
                int(tables.score[each]),
                int(tables.bandwidth[each]) if tables.bandwidth[each] >= 0 else None,
            )
            for each in within
        )
        found.append(PartitionTable(tuple(listed), only=bool(tables.only[number])) if number >= 0 else None)
    return found


def check(matrix: DeviceMatrix, model: dict[int, tuple[tuple[Device, ...], dict[str, Amounts]]]) -> None:
    columns = matrix.columns
    for row in range(ROWS):
        listed, used = model.get(row, ((), {}))
        assert matrix.devices(row) == listed
        assert dict(matrix.usage(row)) == {d.uuid: trimmed(used.get(d.uuid, (0, 0, 0))) for d in listed}
        first, last = int(columns.first[row]), int(columns.last[row])
        assert last - first == len(listed)
        assert [matrix.uuid(number) for number in range(first, last)] == [d.uuid for d in listed]
        assert [matrix.position(row, d.uuid) for d in listed] == list(range(first, last))
        assert columns.total[first:last].tolist() == [[*d.total, 0] for d in listed]
        assert columns.healthy[first:last].tolist() == [d.healthy for d in listed]
        assert columns.cordoned[first:last].tolist() == [d.cordoned for d in listed]
        assert columns.numa[first:last].tolist() == [d.numa for d in listed]
        assert columns.ordinal[first:last].tolist() == [d.index for d in listed]
        assert columns.vendor[first:last].tolist() == [matrix.vendor_number(d.vendor) for d in listed]
        models = [matrix.models[number] for number in columns.model[first:last].tolist()]
        assert models == [(d.vendor, d.type, d.mode) for d in listed]
        label_sets, numbers = matrix.label_sets
        assert [label_sets[n] for n in numbers[first:last].tolist()] == [(d.vendor, d.labels) for d in listed]
        table = next((d.partitions for d in listed if d.partitions is not None), None)
        assert partitions(matrix, first, last) == [table] * len(listed)
        over = [d.uuid for d in listed if (np.array(used.get(d.uuid, (0, 0, 0))) > np.array([*d.total, 0])).any()]
        assert matrix.over_capacity(row) == over
        block = int(columns.pair_first[row])
        assert (block >= 0) is any(d.links for d in listed)
        for one, device in enumerate(listed if block >= 0 else ()):
            scores = columns.pairs[block + one * len(listed) : block + (one + 1) * len(listed)].tolist()
            given = dict(device.links)
            assert scores == [0 if d == device else min(given.get(d.uuid, 0), 2**40) for d in listed]
    for uuid in {"everywhere", *(f"{row}-{index}" for row in range(ROWS) for index in range(9))}:
        expected = [position for row in range(ROWS) if (position := matrix.position(row, uuid)) is not None]
        assert sorted(matrix.numbers(uuid)) == sorted(expected)
    assert matrix.most_cards == max((len(listed) for listed, _ in model.values()), default=0)


@settings(max_examples=200, deadline=None)
@given(CHANGES)
def test_the_matrix_is_what_a_dict_would_be(changes: list[tuple[str, int, int]]) -> None:
    matrix = DeviceMatrix(3)
    matrix.ensure_rows(ROWS)
    model: dict[int, tuple[tuple[Device, ...], dict[str, Amounts]]] = {}
    for version, (change, row, number) in enumerate(changes):
        layout = matrix.layout
        if change == "replace":
            model[row] = (devices(row, number, version), {})
            matrix.replace(row, model[row][0])
            assert matrix.layout > layout
        elif change == "clear":
            model.pop(row, None)
            matrix.clear(row)
        elif change == "reset":
            matrix.reset_usage(row)
            model[row] = (model.get(row, ((), {}))[0], {})
        elif (position := matrix.position(row, f"{row}-{number}")) is not None:
            amounts = (version % 3, 700 * number, number)
            matrix.charge(position, amounts, 1)
            matrix.charge(position, (1, 1), 1)
            matrix.charge(position, (1, 1), -1)
            used = model[row][1]
            before = used.get(f"{row}-{number}", (0, 0, 0))
            used[f"{row}-{number}"] = tuple(a + b for a, b in zip(before, amounts, strict=True))
        check(matrix, model)


def test_lists_that_change_for_ever_do_not_let_the_matrix_grow() -> None:
    matrix = DeviceMatrix(3)
    for version in range(500):
        matrix.replace(version % 3, devices(version % 3, 8, version))
    assert matrix.size <= 2 * 3 * 8


def test_nothing_is_kept_of_labels_and_partitions_that_no_node_has() -> None:
    matrix = DeviceMatrix(3)
    stays = dataclasses.replace(devices(0, 1, 1)[0], labels=LABELS[1], partitions=TABLES[1])
    matrix.replace(0, [stays])
    for number in range(5000):
        table = PartitionTable((Partition((0, 1), number), Partition((2, 3), number)))
        labels = (("serial", str(number)),)
        here = [dataclasses.replace(d, labels=labels, partitions=table) for d in devices(1, 2, 0)]
        matrix.replace(1 + number % 2, here)
        if number % 3:
            matrix.clear(1 + number % 2)
    few = 65  # as many as are not worth dropping
    (label_sets, numbers), (tables, _) = matrix.label_sets, matrix.partitions
    assert len(label_sets) <= few
    assert tables.only.shape[0] <= few
    assert tables.size.shape[0] <= 2 * few
    first = int(matrix.columns.first[0])
    assert label_sets[numbers[first]] == (stays.vendor, stays.labels)
    assert partitions(matrix, first, first + 1) == [TABLES[1]]


def test_rows_beyond_the_first_ones() -> None:
    matrix = DeviceMatrix(3)
    matrix.replace(100, devices(100, 2, 1))
    assert matrix.devices(99) == ()
    assert int(matrix.columns.last[99]) == 0
    assert [uuid for uuid, _ in matrix.usage(100)] == ["100-0", "100-1"]


def test_canonical_order_and_duplicates() -> None:
    listed = devices(0, 3, 1)
    assert canonical(listed[::-1]) == listed


def test_a_dimension_means_what_the_schema_of_its_device_says() -> None:
    cut, shared = DimensionRoles(placements=3, slices=range(4, 6)), DimensionRoles(classes=range(3, 6))
    matrix = DeviceMatrix(6)
    matrix.replace(0, [
        Device("mig", "V", "T", (2, 100, 100, 2, 1, 1), schema=cut),
        Device("classes", "W", "T", (2, 100, 100, 9, 9, 9), schema=shared),
        Device("plain", "X", "T", (2, 100, 100, 2, 1, 1)),
    ])  # fmt: skip
    assert matrix.columns.partitioned[:3].tolist() == [True, False, False]
    for number in range(3):
        matrix.charge(number, (1, 10, 10, 1, 2, 0), 1)
    assert matrix.inconsistent(0) == ["mig"], "only there it is a slice that is used twice"
    roles = matrix.columns.roles[matrix.columns.schema[:3]].tolist()
    assert roles == [[3, 4, 6, -1, -1, -1, 0, 0], [-1, 0, 0, 3, 4, 5, 0, 0], [-1, 0, 0, -1, -1, -1, 0, 0]]


def test_what_is_inconsistent_is_noted_with_every_change() -> None:
    piece = Piece("1g", 0, 1, (1, 10, 10, 1, 1, 0))
    schema = DimensionRoles(placements=3, slices=range(4, 6))
    card = Device("mig", "V", "T", (2, 100, 100, 2, 1, 1), pieces=(piece,), schema=schema)
    matrix = DeviceMatrix(6)
    matrix.replace(1, [card, Device("core", "V", "T", (2, 100, 100), schema=schema)])
    mig, core = matrix.position(1, "mig"), matrix.position(1, "core")
    assert mig is not None
    assert core is not None
    for device, amounts, expected in (
        (mig, piece.amounts, []),
        (mig, (1, 10, 10), ["mig"]),  # a share without a placement
        (core, (1, 10, 10), []),
        (core, (0, 0, 0, 0, 1, 0), ["core"]),  # a slice of a card that has none
        (mig, (0, 0, 0, 0, 1, 0), ["mig"]),  # a slice twice, as every slice of the first
    ):
        before = matrix.inconsistent(1)
        matrix.charge(device, amounts, 1)
        assert matrix.inconsistent(1) == expected
        if expected:
            matrix.charge(device, amounts, -1)
            assert matrix.inconsistent(1) == before
    matrix.charge(mig, (1, 10, 10), 1)
    for row in range(2, 40):  # the columns grow and move
        matrix.replace(row, [card])
    assert [row for row in range(1, 40) if matrix.inconsistent(row)] == [1]
    matrix.reset_usage(1)
    assert matrix.inconsistent(1) == []


def test_a_device_that_no_column_holds_changes_nothing() -> None:
    matrix = DeviceMatrix(3)
    matrix.replace(0, devices(0, 2, 0))
    with pytest.raises(OverflowError):
        matrix.replace(1, [Device("x", "v", "t", (1, 2**70))])
    with pytest.raises(OverflowError):
        matrix.replace(0, [Device("y", "v", "t", (1, 1), index=2**70)])
    matrix.replace(1, devices(1, 3, 0))
    check(matrix, {0: (devices(0, 2, 0), {}), 1: (devices(1, 3, 0), {})})


def test_rows_that_come_one_by_one_have_the_columns_moved_seldom() -> None:
    matrix = DeviceMatrix(3)
    sizes = set()
    for row in range(2000):
        matrix.replace(row, devices(row, 1, 0))
        sizes.add(matrix.columns.first.size)
    assert len(sizes) < 12
    assert all(len(list(matrix.devices(row))) == 1 for row in range(2000))
