"""The status of policies: written when it changes, with transition times that mean something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.engine.builders import make_engine
from tests.policy.resources import policy

from vgpu_devcluster import DevCluster, Fault
from vgpu_scheduler.apiclient import MERGE_PATCH, ApiClient, connect
from vgpu_scheduler.binding import BindContext, EventSource, PolicyStatusWriter, Reporter
from vgpu_scheduler.binding.policy_status import status_body
from vgpu_scheduler.engine import ConditionReport, PolicyReport
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, VERSION, crds, decode_policy

POLICIES = f"/apis/{GROUP}/{VERSION}/clustervgpupolicies"
SPREAD = {"nodes": {"policy": "spread"}}


def report(*, status: bool, pods: int = 0) -> PolicyReport:
    condition = ConditionReport("Ready", "Accepted" if status else "Invalid", "told", status=status)
    return PolicyReport(policy("p", SPREAD), (condition,), pods, "spread", "")


def test_a_condition_that_stays_keeps_its_time() -> None:
    first = status_body(report(status=True), {}, "2026-01-01T00:00:00Z")
    same = status_body(report(status=True, pods=3), first, "2026-01-02T00:00:00Z")
    other = status_body(report(status=False), same, "2026-01-03T00:00:00Z")
    times = [body["conditions"][0]["lastTransitionTime"][:10] for body in (first, same, other)]
    assert times == ["2026-01-01", "2026-01-01", "2026-01-03"]
    assert (first["pods"], same["pods"]) == (0, 3)


@pytest.mark.parametrize("odd", [{"conditions": "none"}, {"conditions": [{}]}, {"conditions": [1]}])
def test_a_status_that_makes_no_sense_is_replaced(odd: dict[str, Any]) -> None:
    assert status_body(report(status=True), odd, "now")["conditions"][0]["lastTransitionTime"] == "now"


class Time:
    """A clock that is told the time."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


class Bench:
    """A server with one policy, and a writer of what ``reports`` says."""

    def __init__(self, cluster: DevCluster, api: ApiClient) -> None:
        self.cluster, self.api = cluster, api
        self.reports: list[PolicyReport] = []
        self.generation = 1
        self.time, self.leads = Time(), True
        self.writer = self.another()

    def another(self) -> PolicyStatusWriter:
        reporter = Reporter(self.api, EventSource("s", "i"), self.time)
        context = BindContext(self.api, make_engine(), reporter, self.time, lambda _: self.leads, lambda *_: None)
        return PolicyStatusWriter(context, self.report, lambda: self.generation, 10.0, 5.0)

    def report(self) -> list[PolicyReport]:
        return self.reports

    async def create(self, name: str) -> PolicyReport:
        body = {"kind": CLUSTER_KIND, "metadata": {"name": name}, "spec": SPREAD}
        made = (await self.api.request("POST", POLICIES, body)).json()
        return replace(report(status=True), policy=decode_policy(made))

    async def status(self, name: str) -> dict[str, Any]:
        return dict((await self.api.request("GET", f"{POLICIES}/{name}")).json().get("status") or {})


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    with DevCluster.thread() as cluster:
        api = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "status")
        for definition in crds():
            answer = await api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            assert answer.ok, answer.message
        yield Bench(cluster, api)
        await api.close()


async def test_it_writes_what_changed_and_nothing_else(bench: Bench) -> None:
    bench.reports = [await bench.create("a"), await bench.create("b")]
    await bench.writer.write()
    assert bench.writer.writes == 2
    assert (await bench.status("a"))["conditions"][0]["type"] == "Ready"
    await bench.writer.write()
    assert bench.writer.writes == 2
    bench.reports[1] = replace(bench.reports[1], nodes="binpack")
    await bench.writer.write()
    assert (bench.writer.writes, (await bench.status("b"))["nodes"]) == (3, "binpack")


async def test_counts_of_pods_follow_at_a_slow_pace(bench: Bench) -> None:
    first = await bench.create("a")
    bench.reports = [first]
    await bench.writer.write()
    bench.reports = [replace(first, pods=4)]
    await bench.writer.write()
    assert (await bench.status("a"))["pods"] == 0
    bench.time.seconds = 61.0
    await bench.writer.write()
    assert (await bench.status("a"))["pods"] == 4


async def test_it_looks_when_a_policy_changed_and_goes_on_after_errors(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.status_patches._PACE", 0.01)
    looks: list[int] = []

    def report() -> list[PolicyReport]:
        looks.append(bench.generation)
        raise ZeroDivisionError

    monkeypatch.setattr(bench, "report", report)
    writer = bench.another()
    task = asyncio.create_task(writer.run())
    try:
        async with asyncio.timeout(10):
            while looks != [1]:
                await asyncio.sleep(0.01)
            bench.generation = 2
            while looks != [1, 2]:
                await asyncio.sleep(0.01)
            bench.time.seconds = 11.0
            while looks != [1, 2, 2]:
                await asyncio.sleep(0.01)
    finally:
        task.cancel()


async def test_a_policy_that_cannot_be_asked_keeps_no_other_from_its_status_and_is_asked_again_soon(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.status_patches._PACE", 0.01)
    bench.reports = [await bench.create("a"), await bench.create("b")]
    fault = bench.cluster.inject(Fault(verb="patch", name="a", drop=True))
    task = asyncio.create_task(bench.another().run())
    try:
        async with asyncio.timeout(10):
            while not await bench.status("b"):
                await asyncio.sleep(0.01)
            assert not await bench.status("a")
            bench.cluster.heal(fault)
            while not await bench.status("a"):  # though no time passes by the clock that intervals go by
                await asyncio.sleep(0.01)
    finally:
        task.cancel()


async def test_nothing_is_written_where_the_lease_may_end_before_the_answer(bench: Bench) -> None:
    bench.reports = [await bench.create("a")]
    bench.leads = False
    assert not await bench.writer.write()
    assert not await bench.status("a")
    bench.leads = True
    assert await bench.writer.write()
    assert await bench.status("a")


async def test_the_longest_report_is_one_that_the_schema_takes(bench: Bench) -> None:
    resource = await bench.create("a")
    arguments = {f"binpack.resources.{'x' * 400}{n}": "y" * 4096 for n in range(38)}
    spec = {"nodes": {"scorers": [{"name": "binpack", "arguments": arguments}]}}
    engine = make_engine()
    engine.policy_tracker.observe(replace(policy("a", spec), uid=resource.policy.uid))
    bench.reports = engine.policy_tracker.report(engine.scheduler_names)
    await bench.writer.write()
    conditions = (await bench.status("a"))["conditions"]
    assert {c["type"]: c["status"] for c in conditions}["Warnings"] == "True"
    assert max(len(c["message"]) for c in conditions) <= 4096


async def test_a_new_leader_does_not_write_what_stands_there(bench: Bench) -> None:
    bench.reports = [await bench.create("a")]
    await bench.writer.write()
    successor = bench.another()
    await successor.write()
    assert successor.writes == 0


async def test_policies_that_are_gone_or_made_anew_are_left_alone(bench: Bench) -> None:
    old = await bench.create("a")
    await bench.api.request("DELETE", f"{POLICIES}/a")
    bench.reports = [old]
    await bench.writer.write()
    await bench.create("a")
    await bench.writer.write()
    assert (bench.writer.writes, await bench.status("a")) == (0, {})


async def test_without_definitions_there_is_nothing_to_write(bench: Bench) -> None:
    bench.reports = [await bench.create("a")]
    for definition in crds():
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
        await bench.api.request("DELETE", path)
    await bench.writer.write()
    assert bench.writer.writes == 0


async def test_what_others_record_in_a_status_stays_and_costs_no_write(bench: Bench) -> None:
    bench.reports = [await bench.create("p")]
    await bench.writer.write()
    entry = {"time": "2026-01-01T00:00:00Z", "pod": "a/b", "uid": "u", "node": "n"}
    recorded = {"status": {"evictions": [entry]}}
    path = f"{POLICIES}/p/status"
    assert (await bench.api.request("PATCH", path, recorded, content_type=MERGE_PATCH)).ok
    successor = bench.another()
    await successor.write()
    assert successor.writes == 0
    bench.reports = [replace(bench.reports[0], nodes="binpack")]
    await successor.write()
    assert successor.writes == 1
    status = await bench.status("p")
    assert (status["nodes"], status["evictions"]) == ("binpack", [entry])


async def test_records_of_evictions_that_cannot_be_read_are_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.reports = [await bench.create("p")]
    entry = {"time": "0001-01-01T00:00:00+10:00", "pod": "a/b", "uid": "u", "node": "n"}
    path = f"{POLICIES}/p/status"
    body = {"status": {"evictions": [entry]}}
    assert (await bench.api.request("PATCH", path, body, content_type=MERGE_PATCH)).ok
    await bench.writer.write()
    assert "ClusterVGPUPolicy p: status.evictions[0].time: is not a time, and does not count" in caplog.text
