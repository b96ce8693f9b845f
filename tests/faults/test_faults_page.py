"""The page of faults has a row of each, and keeps those of the faults that were not played."""

from __future__ import annotations

from collections import Counter

from tests.faults.__main__ import REPORT, Record, rendered, title
from tests.faults.table import FAULTS


def test_the_page_has_a_row_of_each_fault() -> None:
    page = REPORT.read_text()
    assert [title(fault) for fault in FAULTS if f"\n| {fault.name} | {fault.how} | " not in page] == []


def test_only_the_rows_of_what_was_played_change() -> None:
    page, fault = REPORT.read_text(), FAULTS[3]
    assert rendered({}, page) == page
    failed = Record(2, ["seed 7: AssertionError: waited in vain"], Counter({"node patch: refused (500)": 5}))
    after = rendered({title(fault): failed}, page)
    before, changed = page.splitlines(), after.splitlines()
    (row,) = [line for line in changed if line.startswith(f"| {fault.name} | ")]
    assert row == f"| {fault.name} | {fault.how} | 2 | node patch: refused (500): 5 | {fault.checked} | 1 |"
    assert set(before) - set(changed) <= {*before[:25], "None.", next(b for b in before if f"| {fault.name} |" in b)}
    assert changed[-1] == f"- {title(fault)}: seed 7: AssertionError: waited in vain"
    assert rendered({}, after) == after
    assert rendered({title(fault): Record(1)}, after).endswith("None.\n")
