"""What the benchmark of memory and start makes of what was measured."""

from __future__ import annotations

import pytest
from benchmarks import footprint
from tests.apiserver.audit import AuditRecord

OURS, THEIRS = "vgpu-scheduler/1", "kube-controller-manager/1"


def record(verb: str, resource: str, begin: float, end: float, subresource: str = "", agent: str = OURS) -> AuditRecord:
    return AuditRecord(verb, "", agent, "", resource, subresource, "default", "x", 200, "/", begin, end)


def test_the_steps_of_a_start_lie_between_its_requests() -> None:
    records = [
        record("update", "leases", 100.5, 100.6, agent=THEIRS),
        record("watch", "pods", 90.0, 100.2),  # of an operator before
        record("get", "", 101.0, 101.1),
        record("list", "nodes", 101.2, 102.0),
        record("get", "leases", 102.8, 102.9),
        record("create", "leases", 102.9, 103.0),
        record("list", "nodes", 103.1, 104.0),
        record("update", "leases", 104.0, 104.1),
        record("create", "pods", 107.0, 107.5, "binding"),
    ]
    steps = footprint.steps_of(records, 100.0)
    assert steps == pytest.approx((1.0, 2.0, 4.0, 0.5))
    assert len(steps) == len(footprint.STEPS)
    before = footprint.Footprint("before", 9.0, 400.0, 450.0, 2.0, 3.0, (2.0, 3.0, 3.5, 0.5))
    now = footprint.Footprint("", 7.5, 300.0, 350.0, 1.0, 1.5, steps)
    lines = footprint.text([before, now]).splitlines()
    assert "| now | 7.5 s | 300 MiB | 350 MiB | 1.00 s | 1.50 s |" in lines
    assert "| the start, step by step | before | now |" in lines
    assert "| imports and kernels | 2.0 s | 1.0 s |" in lines


def test_a_checkout_has_the_means_of_its_turns_and_the_most_that_was_resident() -> None:
    steps = (1.0,) * len(footprint.STEPS)
    turns = [footprint.Footprint("", 8.0, 300.0, 320.0, 1.0, 2.0, steps)]
    turns += [footprint.Footprint("before", 9.0, 400.0, 400.0, 2.0, 2.0, steps)]
    turns += [footprint.Footprint("", 6.0, 310.0, 360.0, 2.0, 2.0, steps)]
    assert footprint.mean_of(turns, "") == footprint.Footprint("", 7.0, 305.0, 360.0, 1.5, 2.0, steps)
    start, *_ = footprint.compared(turns)
    assert (start.before, start.now, start.slower) == ([9.0], [8.0, 6.0], False)
    assert not list(footprint.compared(turns[:1]))
