"""What the benchmark of slices counts where, and how it is drawn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp.client
import kopf
import msgspec
import pytest
from benchmarks import latency, sampling, slice_time
from tests.apiserver.audit import AuditRecord

import vgpu_scheduler.binding.lanes
import vgpu_scheduler.binding.reporter
import vgpu_scheduler.engine.algorithm

OURS, THEIRS = "vgpu-scheduler/1", "kubelet/1"


@pytest.mark.parametrize(
    ("module", "part"),
    [
        (kopf, "kopf"),
        (aiohttp.client, sampling.HTTP),
        (vgpu_scheduler.binding.lanes, "lanes and locks"),
        (vgpu_scheduler.binding.reporter, "events of pods"),
        (vgpu_scheduler.engine.algorithm, "decisions and ledger"),
        (asyncio, ""),
        (msgspec, ""),
        (sampling, ""),
    ],
)
def test_a_module_belongs_to_a_part_or_to_its_caller(module: object, part: str) -> None:
    file = getattr(module, "__file__", None)
    assert file
    assert sampling.part_of(file) == part


def frame(*modules: object) -> Any:
    """Return the frame that runs, the innermost module last."""
    found = None
    for module in modules:
        found = SimpleNamespace(f_code=SimpleNamespace(co_filename=getattr(module, "__file__", "")), f_back=found)
    return found


def test_the_innermost_part_that_has_a_name_runs() -> None:
    lane, request = vgpu_scheduler.binding.lanes, aiohttp.client
    assert sampling.part_running(frame(asyncio, lane, request, asyncio)) == sampling.HTTP
    assert sampling.part_running(frame(asyncio, lane, msgspec)) == "lanes and locks"
    assert sampling.part_running(frame(asyncio)) == sampling.LOOP
    assert sampling.part_running(None) == sampling.LOOP


def record(verb: str, resource: str, begin: float, end: float, subresource: str = "", agent: str = OURS) -> AuditRecord:
    return AuditRecord(verb, "", agent, "", resource, subresource, "default", "x", 200, "/", begin, end)


def one(at: float) -> list[AuditRecord]:
    return [
        record("create", "pods", at, at + 0.001, agent=THEIRS),
        record("patch", "nodes", at + 0.003, at + 0.006),
        record("create", "pods", at + 0.010, at + 0.015, "binding"),
        record("patch", "nodes", at + 0.016, at + 0.017, agent=THEIRS),  # the release
        record("create", "events", at + 0.016, at + 0.017),
    ]


def test_the_steps_of_a_slice_lie_between_its_requests() -> None:
    steps = latency.steps_of([*one(10.0), *one(11.0), record("create", "pods", 12.0, 12.1, agent=THEIRS)])
    assert steps == pytest.approx((1.0, 2.0, 3.0, 4.0, 5.0))
    assert len(steps) == len(latency.STEPS)
    slow = [record("create", "pods", 1.0, 9.0, agent=THEIRS), *one(9.0)[1:]]
    assert latency.steps_of([*slow, *one(20.0)], warm=1) == pytest.approx(steps)


def test_the_picture_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    slices = slice_time.Burst(100.0, {"operator": 3.0, "etcd": 1.0}, {"kopf": 2.0, "lanes": 1.0})
    plain = slice_time.Burst(500.0, {"operator": 0.5, "etcd": 0.2}, {"kopf": 0.3, "loop": 0.2})
    found = slice_time.SliceTime(slices, plain, (1.0,) * 5)
    slice_time.draw(found, tmp_path / "a.svg")
    slice_time.draw(found, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    table = slice_time.text(found)
    assert "| operator | 3.00 ms | 0.50 ms |" in table
    assert "| of the operator: kopf | 2.00 ms | 0.30 ms |" in table
    assert "| of the operator: lanes | 1.00 ms | 0.00 ms |" in table
    assert "| of the operator: loop | 0.00 ms | 0.20 ms |" in table
    assert "| API server: binds | 1.0 ms |" in table
