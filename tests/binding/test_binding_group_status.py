"""The condition of Kubernetes' PodGroups: written when it changes, and again where that has failed."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiClient, ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding import BindContext, EventSource, GroupStatusWriter, Reporter
from vgpu_scheduler.engine import ObservationSignals
from vgpu_scheduler.intake import POD_GROUPS, Observer
from vgpu_scheduler.kube import Encoded

KIND = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.v1alpha2.scheduling.k8s.io")
STATUS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/team/status"
FULL = (
    "pod default/p0: 0/1 nodes are available: group default/team needs 2 pods to be placed at once, and they have room"
    " for at most 1 of them: CardInsufficientMemory."
)

Obj = dict[str, Any]


class Time:
    """A clock that is told the time."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 0, int(self.seconds) // 60, tzinfo=UTC)


class Api:
    """An API server with one PodGroup; it answers patches of its status with the next of some statuses, 0 for none."""

    def __init__(self) -> None:
        metadata = {"name": "team", "namespace": "default", "uid": "group", "resourceVersion": "10", "generation": 3}
        self.group: Obj = {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        self.answers: deque[int] = deque()
        self.asked = 0

    async def request(self, method: str, path: str, body: Any, *, content_type: str, **_: Any) -> ApiResponse:
        assert (method, path, content_type) == ("PATCH", STATUS, STRATEGIC_PATCH)
        assert body["metadata"] == {"uid": "group"}
        self.asked += 1
        answer = self.answers.popleft() if self.answers else 200
        if not answer:
            raise ApiUnreachableError
        if answer == 200:
            [said] = body["status"]["conditions"]
            known = self.conditions.get(said["type"], {})
            others = [each for each in self.conditions.values() if each["type"] != said["type"]]
            self.group["status"] = {"conditions": [*others, {**known, **said}]}
            metadata = self.group["metadata"]
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        return ApiResponse(answer, json.dumps(self.group if answer == 200 else {"message": "no"}).encode())

    @property
    def conditions(self) -> dict[str, Obj]:
        return {each["type"]: each for each in self.group.get("status", {}).get("conditions", [])}


class Bench:
    """A writer, and an engine with a node of one card and two pods that ask for one each."""

    def __init__(self) -> None:
        self.api, self.time, self.leads = Api(), Time(), True
        pods = [pod(f"p{number}", asks(1, 8000), schedulingGroup={"podGroupName": "team"}) for number in range(2)]
        self.engine = engine_with([node("a", cards("a", 1))], pods)
        self.observer = Observer(self.engine, self.time.monotonic, ObservationSignals(), lambda _: None)
        api = cast(ApiClient, self.api)
        reporter = Reporter(api, EventSource("s", "i"), self.time)
        context = BindContext(api, self.engine, reporter, self.time, lambda _: self.leads, self.observe)
        self.writer = GroupStatusWriter(context, 5.0)
        self.observe(KIND.name, self.api.group)
        self.engine.schedule_next(0.0)

    def observe(self, kind: str, answer: Encoded) -> None:
        assert kind == KIND.name
        self.observer.observe_answer(KIND, answer)

    def place(self) -> None:
        """Have room come, and the pods be bound."""
        self.engine.observe_node(node("a", cards("a", 2), version=2), 20.0)
        for decision in self.engine.schedule_next(20.0):
            self.engine.binding_succeeded(decision.uid)

    @property
    def said(self) -> Obj:
        return self.api.conditions["PodGroupScheduled"]


async def test_a_condition_is_written_once_until_it_changes() -> None:
    bench = Bench()
    assert [await bench.writer.write() for _ in range(3)] == [True] * 3
    assert bench.api.asked == 1
    assert bench.said == {
        "type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": FULL,
        "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    bench.time.seconds = 120.0
    bench.place()
    assert [await bench.writer.write() for _ in range(3)] == [True] * 3
    assert bench.api.asked == 2
    assert (bench.said["status"], bench.said["reason"]) == ("True", "Scheduled")
    assert bench.said["lastTransitionTime"] == "2026-01-01T00:02:00Z"


async def test_other_conditions_stay() -> None:
    bench = Bench()
    bench.api.group["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    await bench.writer.write()
    assert set(bench.api.conditions) == {"DisruptionTarget", "PodGroupScheduled"}


@pytest.mark.parametrize("answer", [0, 403, 500])
async def test_what_could_not_be_written_is_written_later(answer: int) -> None:
    bench = Bench()
    bench.api.answers.append(answer)
    if answer:
        assert not await bench.writer.write()
    else:
        with pytest.raises(ApiUnreachableError):
            await bench.writer.write()
    assert not bench.api.conditions
    assert await bench.writer.write()
    assert bench.said["message"] == FULL


@pytest.mark.parametrize("answer", [404, 409])
async def test_an_object_that_is_gone_or_another_one_is_left(answer: int) -> None:
    bench = Bench()
    bench.api.answers.append(answer)
    assert await bench.writer.write()
    assert await bench.writer.write()
    assert bench.api.asked == 1


async def test_a_message_that_changes_alone_is_written_after_a_minute_and_keeps_the_time_of_the_change() -> None:
    bench = Bench()
    await bench.writer.write()
    bench.engine.observe_node(node("b", cards("b", 1, memory=500), version=2), 20.0)
    bench.engine.schedule_next(20.0)
    bench.time.seconds = 59.0
    assert await bench.writer.write()
    assert bench.said["message"] == FULL
    bench.time.seconds = 61.0
    assert await bench.writer.write()
    assert "0/2 nodes are available" in bench.said["message"]
    assert bench.said["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_who_leads_no_more_writes_nothing() -> None:
    bench = Bench()
    bench.leads = False
    assert not await bench.writer.write()
    assert not bench.api.asked


async def test_it_goes_on_whatever_is_the_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.status_patches._PACE", 0.0)
    bench = Bench()
    bench.api.answers += [0, 500]
    failures = deque([ZeroDivisionError()])

    def fails() -> Any:
        if failures:
            raise failures.popleft()
        return taken()

    taken = bench.engine.group_conditions.take
    monkeypatch.setattr(bench.engine.group_conditions, "take", fails)
    running = asyncio.create_task(bench.writer.run())
    async with asyncio.timeout(30.0):
        while not bench.api.conditions:
            await asyncio.sleep(0)
    running.cancel()
    assert not failures
    assert bench.api.asked == 3
