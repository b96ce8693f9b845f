"""The scheduling loop: it ends when it is told to, wakes when it should, and reports what it decides."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import FrameType

import pytest
from tests.engine.builders import asks, cards, engine_with, in_group, node, pod
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_waiting_needs import full_cluster

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import EventSource, Reporter
from vgpu_scheduler.engine import Engine, ObservationSignals, QueueName, SchedulingAlgorithm
from vgpu_scheduler.kube import Pod, ResourceQuota
from vgpu_scheduler.model import ConditionReason, Decision
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.telemetry import Metrics


@dataclass
class Heard:
    """Plays clock, binder and reporter, and remembers what they were told."""

    time: float = 0.0
    signals: ObservationSignals = field(default_factory=ObservationSignals)
    submitted: list[Decision] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    """The pods whose decisions cannot be handed over."""

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def submit(self, *decisions: Decision, notes: dict[str, str] | None = None) -> None:
        if self.broken & {decision.pod for decision in decisions}:
            raise RuntimeError("broken")
        self.submitted += decisions

    def cancel_unsent(self, uid: str) -> bool:
        return False

    def adopt_unless_new(self, pod: Pod, reason: ConditionReason, message: str) -> bool:
        return all(message not in text for _, text in self.said)

    def tick(self, waiting_pod: Callable[[str], Pod | None]) -> None:
        pass

    def warning(self, pod: Pod, message: str) -> None:
        self.said.append(("warning", message))

    def not_scheduled(self, pod: Pod, reason: ConditionReason, message: str, note: str = "") -> None:
        self.said.append((reason, f"{message} {note}".rstrip()))


def loop_over(engine: Engine, heard: Heard) -> SchedulingLoop:
    return SchedulingLoop(engine, DecisionHandlers(heard, heard, heard), heard, Metrics().attempts, heard.signals)  # type: ignore[arg-type]


async def turns(loop: SchedulingLoop, number: int = 20) -> None:
    """Let the loop run until it has nothing to do."""
    task = asyncio.create_task(loop.run())
    for _ in range(number):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_placements_are_handed_over_and_refusals_are_reported_once() -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("fits"), pod("large", asks(1, 9000))])
    heard = Heard()
    loop = loop_over(engine, heard)
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/fits"]
    text = "0/1 nodes are available: 1 CardInsufficientMemory."
    [(kind, said)] = heard.said
    assert (kind, said) == ("Unschedulable", f"{text} (nearest: 7000 of 9000 MiB memory free on a/a-gpu-0)")
    heard.time += 301.0  # it is tried again, with the same outcome
    await turns(loop)
    assert engine.queue.attempts("uid-large") == 2
    assert len(heard.said) == 1


async def test_a_refusal_is_one_line_with_the_keys_of_kube_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("fits"), pod("large", asks(1, 9000))])
    heard = Heard()
    loop = loop_over(engine, heard)
    with caplog.at_level("INFO", "vgpu_scheduler"):
        await turns(loop)
        heard.time += 301.0  # it is tried again, and there is nothing new to say
        await turns(loop)
    text = "0/1 nodes are available: 1 CardInsufficientMemory."
    assert caplog.messages == [f'"Unable to schedule pod; no fit; waiting" pod="default/large" err="{text}"']


async def test_at_debug_level_the_log_explains_decisions(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [node(f"n{number}", cards(f"n{number}", 1)) for number in range(7)]
    engine = engine_with([*nodes, node("bare")], [pod("fits"), pod("large", asks(1, 9000))])
    with caplog.at_level("DEBUG", "vgpu_scheduler.runtime"):
        await turns(loop_over(engine, Heard()))
    fits = [line for line in caplog.messages if 'pod="default/fits"' in line]
    assert fits[0] == '"Nodes were passed over" pod="default/fits" nodes=1 reason="node unregistered"'
    assert [line.partition(" pod=")[0] for line in fits[1:]] == ['"Node score"'] * 5
    assert 'node="n0"' in fits[1]
    large = [line for line in caplog.messages if 'pod="default/large"' in line]
    assert '"Nodes were passed over" pod="default/large" nodes=7 reason="CardInsufficientMemory"' in large


async def test_nothing_is_said_of_pods_whose_storage_objects_are_not_known_yet() -> None:
    claimed = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    engine = engine_with([node("a", cards("a", 1))], [pod("waits", **claimed), pod("fits")])
    engine.storage.mark_unsynced()
    heard = Heard()
    loop = loop_over(engine, heard)
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/fits"]
    assert heard.said == []
    engine.storage.mark_synced()
    heard.time += 5.0
    await turns(loop)
    assert heard.said == [("Unschedulable", '0/1 nodes are available: persistentvolumeclaim "c" not found.')]


async def test_who_waits_for_a_quota_is_told_how_it_stands() -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("first"), pod("p", asks(1, 2000))])
    engine.quota_limits.observe(ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": "2500"}))
    heard = Heard()
    await turns(loop_over(engine, heard))
    text = "0/1 nodes are available: 1 ResourceQuotaNotFit."
    assert heard.said == [
        ("SchedulerError", f"{text} (namespace default uses 1000 of 2500 MiB of limits.nvidia.com/gpumem)")
    ]


async def test_errors_of_ours_are_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("p")])
    monkeypatch.setattr(SchedulingAlgorithm, "decide", lambda *_, **__: 1 / 0)
    heard = Heard()
    await turns(loop_over(engine, heard))
    assert [kind for kind, _ in heard.said] == ["SchedulerError"]


async def test_an_error_while_a_decision_is_carried_out_concerns_its_pods_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = engine_with([node("a", cards("a", 2))], [pod("bad"), pod("good")])
    heard = Heard(broken={"default/bad"})
    loop = loop_over(engine, heard)
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/good"]
    assert "the decision about pod default/bad could not be carried out" in caplog.messages
    assert engine.state.reservation("uid-bad") is None
    assert heard.said == [("SchedulerError", "internal error: RuntimeError('broken')")]
    heard.broken.clear()
    heard.time += 61.0
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/good", "default/bad"]


async def test_a_placement_that_cannot_be_handed_over_is_recorded_as_withdrawn() -> None:
    engine = engine_with([node("a", cards("a", 2))], [pod("bad"), pod("good")])
    heard, withdrawn = Heard(broken={"default/bad"}), list[str]()
    handlers = DecisionHandlers(heard, heard, heard)  # type: ignore[arg-type]
    attempts = Metrics().attempts
    loop = SchedulingLoop(engine, handlers, heard, attempts, heard.signals, on_withdrawn=withdrawn.append)
    await turns(loop)
    assert withdrawn == ["uid-bad"]


async def test_refused_pods_of_a_group_are_told_even_if_an_error_comes_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = [pod(name, asks(1, 9000), annotations=in_group("g", 2)) for name in ("one", "other")]
    engine, heard, told = engine_with([node("a", cards("a", 2))], large), Heard(), list[tuple[str, str]]()
    monkeypatch.setattr(heard, "not_scheduled", lambda pod, reason, *_: told.append((pod.name, reason)))
    loop = loop_over(engine, heard)
    monkeypatch.setattr(loop, "_record", lambda *_: 1 / 0)
    await turns(loop)
    assert sorted(told) == [("one", "Unschedulable"), ("other", "Unschedulable")]


async def test_an_error_while_a_preemption_begins_concerns_its_pod_alone() -> None:
    fleet = Fleet([node("a", cards("a", 1))], {"mayPreempt": True})
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    heard = Heard(broken={"default/high"})
    loop = loop_over(fleet.engine, heard)
    await turns(loop)
    assert fleet.engine.preemptions.of("uid-high") is None
    assert heard.said == [("SchedulerError", "internal error: RuntimeError('broken')")]
    heard.broken.clear()
    heard.time += 61.0
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/high"]
    assert fleet.engine.preemptions.of("uid-high") is not None


@pytest.mark.parametrize("preempts", [False, True])
async def test_an_error_in_the_note_of_an_event_costs_only_the_note(
    monkeypatch: pytest.MonkeyPatch, *, preempts: bool
) -> None:
    fleet = Fleet([node("a", cards("a", 1))], {"mayPreempt": preempts})
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    monkeypatch.setattr(SchedulingAlgorithm, "nearest", lambda *_: 1 / 0)
    heard = Heard()
    await turns(loop_over(fleet.engine, heard))
    assert [decision.pod for decision in heard.submitted] == ["default/high"] * preempts
    assert heard.said == [("Unschedulable", "0/1 nodes are available: 1 CardInsufficientMemory.")] * (not preempts)


async def test_an_error_in_the_check_of_requests_costs_only_its_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("large", asks(1, 9000))])
    monkeypatch.setattr(engine.request_warnings, "of_pod", lambda _: 1 / 0)
    heard = Heard()
    await turns(loop_over(engine, heard))
    ((reason, text),) = heard.said
    assert reason == "Unschedulable"
    assert text.startswith("0/1 nodes are available: 1 CardInsufficientMemory.")


async def test_decisions_are_carried_out_whatever_happens_where_they_are_recorded() -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("fits")])
    heard = Heard()

    def broken(_: Sequence[Decision]) -> None:
        raise RuntimeError("broken")

    handlers = DecisionHandlers(heard, heard, heard)  # type: ignore[arg-type]
    loop = SchedulingLoop(engine, handlers, heard, Metrics().attempts, heard.signals, broken)
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/fits"]


async def test_it_wakes_when_something_changed() -> None:
    engine, heard = engine_with([node("a", cards("a", 1))]), Heard()
    task = asyncio.create_task(loop_over(engine, heard).run())
    for _ in range(5):
        await asyncio.sleep(0)
    engine.observe_pod(pod("p"), 0.0)
    heard.signals.decide_again()
    for _ in range(10):
        await asyncio.sleep(0)
    assert [decision.pod for decision in heard.submitted] == ["default/p"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_ends_even_if_something_changes_at_that_moment() -> None:
    heard = Heard()
    task = asyncio.create_task(loop_over(engine_with(), heard).run())
    for _ in range(5):
        await asyncio.sleep(0)
    heard.signals.decide_again()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=30.0)
    assert done
    assert task.cancelled()


class SilentApi:
    """Counts what is sent, and accepts it."""

    def __init__(self) -> None:
        self.sent = 0

    async def request(self, *_: object, **__: object) -> ApiResponse:
        self.sent += 1
        return ApiResponse(200, b"{}")


async def cost_of_waiting(number: int, seconds: int) -> tuple[int, int, int]:
    """Return attempts, writes and calls of functions in some seconds in which so many pods wait and nothing changes."""
    fits_nowhere = (pod(f"p{index}", asks(1, 9000 + index % 7), labels={"app": f"{index}"}) for index in range(number))
    engine = engine_with([node("a", cards("a", 1))], fits_nowhere)
    heard, api = Heard(), SilentApi()
    reporter = Reporter(api, EventSource("vgpu-scheduler", "test"), heard)  # type: ignore[arg-type]
    reporter.start()
    loop = SchedulingLoop(engine, DecisionHandlers(heard, heard, reporter), heard, Metrics().attempts, heard.signals)  # type: ignore[arg-type]
    task = asyncio.create_task(loop.run())
    while engine.queue.counts()[QueueName.UNSCHEDULABLE] < number:
        await asyncio.sleep(0)
    await reporter.flush()
    told, calls = api.sent, 0
    assert told == 2 * number

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "vgpu_scheduler" in frame.f_code.co_filename

    tried = sum(engine.queue.attempts(f"uid-p{index}") for index in range(number))
    sys.setprofile(count)
    for _ in range(seconds):
        heard.time += 1.0
        heard.signals.decide_again()
        for _ in range(5):
            await asyncio.sleep(0)
    sys.setprofile(None)
    await reporter.flush()
    tried = sum(engine.queue.attempts(f"uid-p{index}") for index in range(number)) - tried
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await reporter.stop(1.0)
    return tried, api.sent - told, calls


async def test_unschedulable_pods_cost_nothing_while_nothing_changes() -> None:
    one, thousand = await cost_of_waiting(1, 60), await cost_of_waiting(1000, 60)
    assert thousand == one  # to the last call of a function
    assert thousand[:2] == (0, 0)
    assert thousand[2] < 60 * 30  # what a heartbeat costs


async def test_within_an_hour_each_pod_that_waits_tells_its_reason_once_more() -> None:
    _, writes, _ = await cost_of_waiting(20, 3400)
    assert writes == 20


async def between_turns(loop: SchedulingLoop, count: Callable[[], int]) -> list[int]:
    """Let the loop run; return by how much something grew each time before others got their turn."""
    task, steps, before = asyncio.create_task(loop.run()), list[int](), count()
    for _ in range(60):
        await asyncio.sleep(0)
        steps.append(count() - before)
        before = count()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [step for step in steps if step]


@pytest.mark.parametrize(("seconds", "at_once"), [(0.0, 8), (0.0011, 4), (0.003, 2), (0.1, 1)])
async def test_deciding_leaves_time_for_everything_else(seconds: float, at_once: int) -> None:
    engine = engine_with(
        [node("a", cards("a", 1))], [pod(f"p{number}", asks(1, 9000 + number)) for number in range(16)]
    )
    heard = Heard()

    def not_scheduled(pod: Pod, *_: str) -> None:
        heard.said.append((pod.name, ""))
        heard.time += seconds

    heard.not_scheduled = not_scheduled  # type: ignore[assignment]
    assert await between_turns(loop_over(engine, heard), lambda: len(heard.said)) == [at_once] * (16 // at_once)


async def test_looking_at_changed_nodes_leaves_time_for_everything_else() -> None:
    engine, heard = full_cluster(2, 100), Heard(200.0)
    engine.remove_pod("uid-holder1", 200.0)
    steps = await between_turns(loop_over(engine, heard), engine.queue.incoming.total)
    assert [decision.pod for decision in heard.submitted] == ["default/p0000"]
    assert sum(steps) == 99, "each of the others looks at the node that was freed, and is put back"
    assert max(steps) == 32
