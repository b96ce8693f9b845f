"""Conditions and events: each said once, and never lost for good."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.binding.bench import AGENT, PODS, Bench, bench

from vgpu_scheduler.binding import EventSource, Reporter
from vgpu_scheduler.devcluster import Fault
from vgpu_scheduler.engine import Problem
from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import ConditionReason

FULL = ConditionReason.UNSCHEDULABLE


async def condition(b: Bench, name: str = "p") -> tuple[str, str, str]:
    await b.events()  # all that is queued is written
    [found] = [c for c in (await b.read(name))["status"]["conditions"] if c["type"] == "PodScheduled"]
    return found["status"], found["reason"], found["message"]


def say(b: Bench, pod: Pod, message: str, note: str = "") -> bool:
    """Say it as the scheduling loop does: if it is news."""
    news = b.reporter.is_news(pod, FULL, message)
    if news:
        b.reporter.not_scheduled(pod, FULL, message, note)
    return news


async def test_a_condition_is_written_when_it_changes_only(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        assert [say(b, pod, text) for text in ("full", "full", "full")] == [True, False, False]
        assert await condition(b) == ("False", "Unschedulable", "full")
        assert b.sent("patch", "pods/status") == 1
        assert say(b, pod, "fuller", "(nearest: x)")
        assert await condition(b) == ("False", "Unschedulable", "fuller")
        assert await b.events() == [("FailedScheduling", "full"), ("FailedScheduling", "fuller (nearest: x)")]


async def test_what_the_pod_says_already_is_not_said_again_after_a_restart(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        say(b, pod, "full")
        await condition(b)
        pod = decode_pod((await b.call("GET", f"{PODS}/p")).body)
        restarted = Reporter(b.api, EventSource("vgpu-scheduler", "second"), b.clock)
        assert not restarted.is_news(pod, FULL, "full")
        assert restarted.is_news(pod, FULL, "fuller")


async def test_an_error_of_ours_is_no_reason_to_add_nodes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        error = ConditionReason.SCHEDULER_ERROR
        b.reporter.not_scheduled(pod, error, "internal error")
        assert await condition(b) == ("False", "SchedulerError", "internal error")
        assert not b.reporter.is_news(pod, error, "internal error")
        assert b.reporter.is_news(pod, FULL, "internal error")  # the same words, another reason
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")


async def test_warnings_and_problems_are_said_once_per_text(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        problem = Problem("Node", "", "node-a", "uid-node", "RegistrationUnreadable", "not JSON")
        for _ in range(3):
            b.reporter.warning(pod, "unknown word")
            b.reporter.warning(pod, "another word")
            b.reporter.binding_failed(pod, "403: no")
            b.reporter.problem(problem)
        b.reporter.binding_failed(pod, "403: still no")
        assert sorted(await b.events()) == [
            ("BindingFailed", "403: no"),
            ("BindingFailed", "403: still no"),
            ("PolicyWarning", "another word"),
            ("PolicyWarning", "unknown word"),
            ("RegistrationUnreadable", "not JSON"),
        ]


async def test_a_pod_of_the_same_name_that_came_later_is_not_touched(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        old = await b.create("p")
        await b.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await b.create("p")
        say(b, old, "full")
        await b.events()
        assert not [c for c in (await b.read("p"))["status"].get("conditions", []) if c["type"] == "PodScheduled"]


async def test_what_could_not_be_written_is_news_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        for fault in (Fault(status=500), Fault(drop=True)):
            fault.resource, fault.user_agent = "pods/status", AGENT
            b.cluster.inject(fault)
            assert say(b, pod, "full")
            await b.events()
            b.cluster.heal()
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")
        assert not say(b, pod, "full")


async def test_reports_that_find_no_room_are_counted_and_are_news_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        idle = Reporter(b.api, EventSource("vgpu-scheduler", "idle"), b.clock)  # nobody writes what it queues
        for number in range(10_000):
            idle.warning(pod, f"warning {number}")
        idle.not_scheduled(pod, FULL, "full")
        assert idle.dropped == 2
        assert idle.is_news(pod, FULL, "full")


async def test_a_report_that_breaks_off_does_not_end_the_others(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")

        def broken(method: str, path: str) -> None:
            if path.endswith("/events"):
                raise RuntimeError("odd")

        b.api.observer = broken
        for number in range(20):
            b.reporter.warning(pod, f"warning {number}")
        await b.events()
        b.api.observer = None
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")


async def test_it_stops_within_its_grace_when_nobody_answers(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        b.cluster.inject(Fault(resource="events", user_agent=AGENT, delay=60.0))
        b.reporter.warning(pod, "slow")
        async with asyncio.timeout(2.0):
            await b.reporter.stop(0.2)
