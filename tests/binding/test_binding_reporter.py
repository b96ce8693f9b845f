"""Conditions and events: each said once, and never lost for good."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.binding.bench import AGENT, PODS, Bench, bench

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import EventSource, Reporter
from vgpu_scheduler.binding.reports import ConditionText
from vgpu_scheduler.engine import Problem
from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import ConditionReason, EventReason

FULL = ConditionReason.UNSCHEDULABLE


async def condition(b: Bench, name: str = "p") -> tuple[str, str, str]:
    await b.events()  # all that is queued is written
    [found] = [c for c in (await b.read(name))["status"]["conditions"] if c["type"] == "PodScheduled"]
    return found["status"], found["reason"], found["message"]


def say(b: Bench, pod: Pod, message: str, note: str = "") -> bool:
    """Say it as the scheduling loop does: if it is news."""
    news = b.reporter.adopt_unless_new(pod, FULL, message)
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


async def test_what_is_said_last_is_what_stays(tmp_path: Path) -> None:
    """The first of two writes takes long: the second one, which another worker sends, must not overtake it."""
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        slow = Fault(verb="patch", resource="pods/status", delay=0.3, times=1)
        b.cluster.inject(slow)
        assert say(b, pod, "waits for other pods of its group")
        await b.until(lambda: slow.times == 0)
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")
        assert b.sent("patch", "pods/status") == 2


async def test_a_nomination_that_had_to_wait_is_asked_for_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        slow = Fault(verb="patch", resource="pods/status", delay=0.2, times=1)
        b.cluster.inject(slow)
        assert say(b, pod, "full")
        await b.until(lambda: slow.times == 0)
        report = ConditionText(FULL, "room is made")
        assert (
            await b.reporter.nominated(pod, report, "node-a", 5.0, lambda: not b.sent("patch", "pods/status")) is None
        )
        assert b.sent("patch", "pods/status") == 1
        answer = await b.reporter.nominated(pod, report, "node-a", 5.0, lambda: True)
        assert answer is not None
        assert answer.ok


async def test_what_was_not_written_with_a_nomination_is_still_news(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        assert await b.reporter.nominated(pod, ConditionText(FULL, "full"), "node-a", 5.0, lambda: False) is None
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")


async def test_who_leads_no_more_writes_no_condition_but_its_events(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        leads = False
        former = Reporter(b.api, EventSource("vgpu-scheduler", "former"), b.clock, lambda: leads)
        former.start()
        former.not_scheduled(made, ConditionReason.UNSCHEDULABLE, "no room")
        await former.flush()
        assert b.sent("patch", "pods/status") == 0
        assert ("FailedScheduling", "no room") in await b.events()
        leads = True  # again
        former.not_scheduled(made, ConditionReason.UNSCHEDULABLE, "no room")
        await former.flush()
        assert b.sent("patch", "pods/status") == 1
        await former.stop(1.0)


async def test_what_the_pod_says_already_is_not_said_again_after_a_restart(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        say(b, pod, "full")
        await condition(b)
        pod = decode_pod((await b.call("GET", f"{PODS}/p")).body)
        restarted = Reporter(b.api, EventSource("vgpu-scheduler", "second"), b.clock)
        assert not restarted.adopt_unless_new(pod, FULL, "full")
        assert restarted.adopt_unless_new(pod, FULL, "fuller")


async def test_an_error_of_ours_is_no_reason_to_add_nodes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        error = ConditionReason.SCHEDULER_ERROR
        b.reporter.not_scheduled(pod, error, "internal error")
        assert await condition(b) == ("False", "SchedulerError", "internal error")
        assert not b.reporter.adopt_unless_new(pod, error, "internal error")
        assert b.reporter.adopt_unless_new(pod, FULL, "internal error")  # the same words, another reason
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")


async def test_warnings_and_problems_are_said_once_per_text(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        problem = Problem("Node", "", "node-a", "uid-node", EventReason.REGISTRATION_UNREADABLE, "not JSON")
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


async def conditions(b: Bench, name: str = "p") -> list[dict[str, Any]]:
    await b.events()  # all that is queued is written
    return [c for c in (await b.read(name))["status"]["conditions"] if c["type"] == "PodScheduled"]


async def test_a_condition_that_is_false_already_keeps_the_time_at_which_it_became_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        say(b, pod, "full")
        [first] = await conditions(b)
        b.clock.ahead += 100.0
        say(b, pod, "cordoned")
        [second] = await conditions(b)
        assert (first["message"], second["message"]) == ("full", "cordoned")
        assert second["lastTransitionTime"] == first["lastTransitionTime"] != ""
        restarted = Reporter(b.api, EventSource("vgpu-scheduler", "second"), b.clock)
        restarted.start()
        restarted.not_scheduled(decode_pod((await b.call("GET", f"{PODS}/p")).body), FULL, "tainted")
        await restarted.stop(5.0)
        [third] = await conditions(b)
        assert (third["message"], third["lastTransitionTime"]) == ("tainted", first["lastTransitionTime"])


@pytest.mark.parametrize("observes", [True, False])
async def test_the_generation_is_told_to_servers_that_keep_it(tmp_path: Path, *, observes: bool) -> None:
    async with bench(tmp_path) as b:
        pod = msgspec.structs.replace(await b.create("p"), generation=7)
        reporter = Reporter(b.api, EventSource("vgpu-scheduler", "x"), b.clock, observes_generation=observes)
        reporter.start()
        reporter.not_scheduled(pod, FULL, "full")
        await reporter.stop(5.0)
        [found] = await conditions(b)
        assert found.get("observedGeneration") == (7 if observes else None)


def full(cards: int, nodes: int = 3) -> str:
    return f"0/{nodes} nodes are available: 1 node(s) were unschedulable, {cards} CardInsufficientMemory."


async def test_numbers_alone_are_written_once_a_minute_and_become_true_then(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        say(b, pod, full(1))
        for cards in (2, 3, 4):
            b.clock.ahead += 10.0
            assert say(b, pod, full(cards))
            b.reporter.tick(lambda uid: pod)
        assert (await condition(b))[2] == full(1)
        assert b.sent("patch", "pods/status") == 1
        b.clock.ahead += 31.0  # nobody has tried the pod meanwhile
        b.reporter.tick(lambda uid: pod)
        assert (await condition(b))[2] == full(4)
        assert [note for _, note in await b.events()] == [full(1), full(4)]
        say(b, pod, full(5).replace("unschedulable", "tainted"))  # another reason is told at once
        assert (await condition(b))[2] == full(5).replace("unschedulable", "tainted")
        assert b.sent("patch", "pods/status") == 3


async def test_what_is_said_late_is_not_said_of_pods_that_wait_no_more(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod, other = await b.create("p"), await b.create("q")
        for one in (pod, other):
            say(b, one, full(1))
            say(b, one, full(2))
        await b.events()
        b.reporter.forget(other.uid)  # on its way to a node
        b.clock.ahead += 61.0
        b.reporter.tick(lambda uid: None)
        assert (await condition(b))[2] == full(1)
        assert (await condition(b, "q"))[2] == full(1)


async def test_what_could_not_be_written_is_tried_again_after_a_minute(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        b.cluster.inject(Fault(resource="pods/status", user_agent=AGENT, status=500))
        say(b, pod, "full")
        await b.events()
        b.cluster.heal()
        b.clock.ahead += 61.0
        b.reporter.tick(lambda uid: pod)
        assert await condition(b) == ("False", "Unschedulable", "full")


async def series(b: Bench) -> list[tuple[str, int]]:
    """Return the notes of all events with how often they happened."""
    await b.events()
    items = (await b.call("GET", "/apis/events.k8s.io/v1/events")).json()["items"]
    return [(item["note"], item.get("series", {}).get("count", 1)) for item in items]


async def test_what_happens_again_becomes_a_series_of_one_event(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        for _ in range(5):
            b.reporter.binding_failed(pod, "403: no")
            b.clock.ahead += 10.0
        assert await series(b) == [("403: no", 2)]
        assert (b.sent("create", "events"), b.sent("patch", "events")) == (1, 1)
        b.clock.ahead += 360.0
        b.reporter.tick(lambda uid: pod)
        assert await series(b) == [("403: no", 5)]
        b.reporter.binding_failed(pod, "403: no")  # the series is over: this is another event
        assert await series(b) == [("403: no", 5), ("403: no", 1)]
        assert (b.sent("create", "events"), b.sent("patch", "events")) == (2, 2)


async def test_a_series_whose_event_has_expired_is_posted(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        b.reporter.binding_failed(pod, "403: no")
        await b.events()
        await b.call("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events")
        b.reporter.binding_failed(pod, "403: no")
        assert await series(b) == [("403: no", 2)]


@pytest.mark.parametrize("delay", [0.0, 0.3], ids=["before", "between"])
async def test_a_repetition_that_overtakes_its_event_does_not_lose_the_count(tmp_path: Path, delay: float) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        for wait in (0.15, delay):  # of one write each
            b.cluster.inject(Fault(resource="events", user_agent=AGENT, verb="create", delay=wait, times=1))
            b.reporter.binding_failed(pod, "403: no")
            await asyncio.sleep(0.05)
        assert await series(b) == [("403: no", 2)]


async def test_a_pod_that_waits_tells_its_reason_again_before_the_event_expires(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        say(b, pod, "full", "(nearest: x)")
        for _ in range(2):
            b.clock.ahead += 3200.0
            b.reporter.tick(lambda uid: pod)
            before = len(await b.events())
            b.clock.ahead += 101.0
            b.reporter.tick(lambda uid: pod)
            assert len(await b.events()) == before + 1
        assert await b.events() == [("FailedScheduling", "full (nearest: x)")] * 3
        assert b.sent("patch", "pods/status") == 1


async def test_a_pod_that_comes_with_its_reason_tells_it_again_soon(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        say(b, await b.create("p"), "full")
        await b.events()
        pod = decode_pod((await b.call("GET", f"{PODS}/p")).body)
        restarted = Reporter(b.api, EventSource("vgpu-scheduler", "second"), b.clock)
        restarted.start()
        assert not restarted.adopt_unless_new(pod, FULL, "full")
        b.clock.ahead += 301.0
        restarted.tick(lambda uid: pod)
        await restarted.stop(5.0)
        assert await b.events() == [("FailedScheduling", "full")] * 2


async def test_an_object_gets_25_events_and_then_one_every_five_minutes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod, other = await b.create("p"), await b.create("q")
        for number in range(40):
            b.reporter.warning(pod, f"warning {number}")
        b.reporter.warning(other, "warning")
        b.reporter.scheduled(pod, "node-a")
        assert len(await b.events()) == 25 + 2
        assert b.reporter.limited == 15
        b.clock.ahead += 301.0
        for number in range(40, 45):
            b.reporter.warning(pod, f"warning {number}")
        assert len(await b.events()) == 25 + 2 + 1


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
            idle.scheduled(pod, f"node-{number}")
        idle.not_scheduled(pod, FULL, "full")
        assert idle.dropped == 2
        assert idle.adopt_unless_new(pod, FULL, "full")


async def test_an_api_server_that_takes_nothing_does_not_fill_the_memory(tmp_path: Path) -> None:
    """What waits to be written is bounded in bytes, and holds no pods."""
    async with bench(tmp_path) as b:
        idle = Reporter(b.api, EventSource("vgpu-scheduler", "idle"), b.clock)
        fields = msgspec.structs.asdict(await b.create("p"))
        tracemalloc.start()
        try:
            for number in range(3000):
                large = Pod(**{**fields, "uid": f"uid-{number}", "annotations": {"a": "x" * 100_000 + str(number)}})
                idle.not_scheduled(large, FULL, f"{number} " + "é" * 20_000)
            assert tracemalloc.get_traced_memory()[0] < 80 * 2**20
        finally:
            tracemalloc.stop()
        assert idle.dropped


async def test_conditions_and_events_are_cut_at_the_bytes_that_kubernetes_allows(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        for text in ("日" * 50_000, "x" + "日" * 50_000):
            assert say(b, pod, text, "note")
            assert not say(b, pod, text, "note")
            said = (await condition(b))[2]
            assert len(said.encode()) in range(32 * 1024 - 3, 32 * 1024 + 1)
            assert text.startswith(said.removesuffix(" ..."))
        problem = Problem("Node", "", "node-a", "uid-node", EventReason.REGISTRATION_UNREADABLE, "é" * 5000)
        for _ in range(2):
            b.reporter.problem(problem)
            b.reporter.warning(pod, "é" * 5000)
            b.reporter.binding_failed(pod, "é" * 5000)
        notes = [note for _, note in await b.events()]
        assert len(notes) == 5
        assert all(len(note.encode()) in range(1021, 1025) and note.endswith(" ...") for note in notes)


async def test_a_report_that_breaks_off_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as b:
        pod, request = await b.create("p"), b.api.request

        async def broken(method: str, path: str, *more: Any, **options: Any) -> ApiResponse:
            if method == "POST" and path.endswith("/events"):
                raise RuntimeError("odd")
            return await request(method, path, *more, **options)

        with monkeypatch.context() as patched:
            patched.setattr(b.api, "request", broken)
            for number in range(20):
                b.reporter.warning(pod, f"warning {number}")
            await b.events()
        assert say(b, pod, "full")
        assert await condition(b) == ("False", "Unschedulable", "full")


async def test_it_stops_within_its_grace_when_nobody_answers(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pod = await b.create("p")
        b.cluster.inject(Fault(resource="events", user_agent=AGENT, delay=60.0))
        b.reporter.warning(pod, "slow")
        async with asyncio.timeout(20.0):
            await b.reporter.stop(0.2)
