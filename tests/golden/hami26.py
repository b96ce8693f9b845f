"""Golden cases of the placement of HAMi 2.6: what it decided, against what this scheduler decides.

The product runs with the documented order of cards (NUMA node first), which is that of HAMi 2.6. What it shares with
later versions of HAMi only (health, reasons that the user sees) is a deviation like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.golden import hami
from tests.golden.hami import as_reported, same_refusal
from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive.hami26 import cluster
from tests.naive.hami26.cluster import Answer26
from tests.naive.hami26.quirks import ALL
from tests.naive.hami_quirks import NONE

from vgpu_scheduler.model import OrderKind

PROFILE = "hami-2.6"


def run_case(case: Case) -> Outcome:
    """Decide a placement case and compare."""
    if makers := sorted(case["config"]["deviceConfig"].keys() - {"nvidia"}):
        return Outcome("not_implemented", f"devices of {', '.join(makers)}")
    case = as_reported(case)
    theirs, asked = cluster.decide(case, ALL)
    ours, asked_too = cluster.decide(case, NONE)
    found = [*hami.against_vector(case, theirs), *_against_log(case, theirs)]
    made = hami.product(case, OrderKind.NUMA_FIRST)
    found += differences("product", hami._comparable(ours), hami._comparable(made))
    if not same_refusal(ours.refused, made.refused):
        found.append(f"product: refused for {sorted(map(str, made.refused))}, not {sorted(map(str, ours.refused))}")
    if found:
        return Outcome("failed", "; ".join(found))
    quirks = responsible(theirs, ours, lambda some: cluster.decide(case, some)[0], (asked | asked_too) & ALL, ALL)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _against_log(case: Case, answer: Answer26) -> Iterator[str]:
    yield from differences("twin.failed_detail_log", case["expect"].get("failed_detail_log", {}), answer.logged)
