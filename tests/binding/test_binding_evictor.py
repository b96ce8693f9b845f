"""The evictor at its edges: victims that do not end, rights that are missing, a lease that is lost, and lanes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.binding.quick import QuickApi, QuickBench
from tests.engine.builders import allocation, asks, cards, make_engine, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import Evictor, evictor
from vgpu_scheduler.intake import NODES, PODS
from vgpu_scheduler.model import Decision

Obj = dict[str, Any]
PACE = 0.002
NO_RIGHT = b'{"kind": "Status", "message": "User us cannot create resource"}'


class EvictionApi(QuickApi):
    """An API server that evicts pods.

    Attributes
    ----------
    wrote
        Method and path of each write to a pod, without what all paths begin with.
    read
        The paths of what was read.
    refusals
        The statuses of the next evictions; each is carried out once there are none.
    events
        Reasons and notes of events.
    retry_after
        Seconds that refusals ask to wait.
    slow_nomination
        The node to which a nomination is carried out only once :attr:`goes_on` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wrote: list[str] = []
        self.read: list[str] = []
        self.refusals: deque[int] = deque()
        self.events: list[tuple[str, str]] = []
        self.on_write: Any = lambda _: None
        self.retry_after: float | None = None
        self.slow_nomination = ""
        self.goes_on = asyncio.Event()

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
        """Carry a request out."""
        if path.endswith("/events"):
            self.events.append((body["reason"], body["note"]))
            return ApiResponse(201, b"{}")
        if method == "GET":
            self.read.append(path)
        if method == "GET" or "/pods/" not in path or path.endswith("/binding"):
            return await super().request(method, path, body, **more)
        await asyncio.sleep(0)
        if self.slow_nomination and body.get("status", {}).get("nominatedNodeName") == self.slow_nomination:
            await self.goes_on.wait()
        short = path.partition("/pods/")[2]
        self.wrote.append(f"{method} {short}")
        answer = self._write(method, short, body)
        self.on_write(short)
        return answer

    def _write(self, method: str, short: str, body: Obj) -> ApiResponse:
        name, _, what = short.partition("/")
        found = self.pods.get(name)
        if found is None:
            return ApiResponse(404, b"{}")
        if what == "status":
            version = body["metadata"].get("resourceVersion", found["metadata"]["resourceVersion"])
            if version != found["metadata"]["resourceVersion"]:
                return ApiResponse(409, b"{}")
            found["status"] = {key: of for key, of in {**found["status"], **body["status"]}.items() if of is not None}
        elif self.refusals:
            return ApiResponse(self.refusals.popleft(), NO_RIGHT, self.retry_after)
        else:
            found["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"  # 30 s after the clock of the bench began
        return ApiResponse(201 if method == "POST" else 200, self.encoded(found))


class EvictorBench(QuickBench):
    """An evictor, a node with one card, and a pod that has all of it."""

    def __init__(self, **rules: Any) -> None:
        self.eviction_api = EvictionApi()
        super().__init__(0, api=self.eviction_api, engine=make_engine(preemption=True))
        self.engine.preemptions.evaluator.unix_ahead = self.clock.now().timestamp() - self.clock.monotonic()
        rules = {"mayPreempt": True, **rules}
        self.engine.effective_policies.observe(policy("preempts", {"preemption": rules}))
        self.api.nodes["n"] = node_object("n", cards("n", 1))
        self.see(NODES, self.api.nodes["n"])
        self.left: list[str] = []
        self.may_leave = True
        self.evictor = Evictor(self.context, 1.0, self._leave)

    def _leave(self, uid: str) -> bool:
        self.left.append(uid)
        if self.may_leave:
            self.engine.unreserve(uid, self.clock.monotonic())
        return self.may_leave

    def runs(self, name: str, node: str = "n", memory: int = 8000, priority: int = 0) -> None:
        """Have a pod run that has the card of a node, or a part of it."""
        notes = allocation(node, (f"{node}-gpu-0", memory, 0))
        self.api.pods[name] = pod_object(
            name, asks(gpumem=memory), annotations=notes, nodeName=node, started=True, priority=priority
        )
        self.see(PODS, self.api.pods[name])

    def decided(self, name: str, priority: int) -> Decision:
        """Have a pod come that asks for the whole card, and be decided."""
        self.api.pods[name] = pod_object(name, asks(gpumem=8000), priority=priority)
        self.see(PODS, self.api.pods[name])
        return self.tried()

    def tried(self) -> Decision:
        """Decide the next pod."""
        decision = self.engine.attempt(self.clock.monotonic())
        assert decision is not None
        return decision

    def preempts(self) -> None:
        """Have a pod of high priority come, and its victims evicted."""
        decision = self.decided("high", 5)
        assert decision.preemption is not None
        self.evictor.submit(decision)

    def is_kept(self) -> bool:
        """Tell whether room is kept for the pod of high priority."""
        return self.engine.preemptions.of("uid-high") is not None


@asynccontextmanager
async def bench(monkeypatch: pytest.MonkeyPatch, **rules: Any) -> AsyncIterator[EvictorBench]:
    """Set a bench up whose evictor looks after what is under way."""
    for name in ("_PACE", "_LEAVES_LANE_AFTER"):
        monkeypatch.setattr(evictor, name, PACE)
    made = EvictorBench(**rules)
    made.reporter.start()
    looking = asyncio.create_task(made.evictor.run())
    try:
        yield made
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await made.evictor.stop()
        await made.reporter.stop(1.0)


async def some_looks() -> None:
    """Let the evictor look around several times."""
    await asyncio.sleep(10 * PACE)


async def test_a_victim_that_does_not_end_is_told_of_and_then_waited_for_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.preempts()
        api = b.eviction_api
        await b.until(lambda: api.wrote == ["PATCH high/status", "POST low/eviction"])
        b.see_pod("low")
        b.see_pod("high")
        b.clock.seconds = 30.0 + 29.0  # its grace period ends after 30 s
        await some_looks()
        assert b.evictor.stats.overdue == 0
        b.clock.seconds = 30.0 + 31.0
        await b.until(lambda: b.evictor.stats.overdue == 1)
        text = "pod default/low on node n has not ended within its grace period"
        await b.until(lambda: ("VictimOverdue", text) in api.events)
        assert b.is_kept()
        b.clock.seconds = 30.0 + 121.0
        await b.until(lambda: not b.is_kept())
        assert not b.engine.state.holds
        await b.until(lambda: b.evictor.stats.overdue == 0)
        await b.until(lambda: "nominatedNodeName" not in api.pods["high"]["status"])
        again = b.tried()
        assert again.preemption is None, "who does not end is no victim"
        assert api.wrote.count("POST low/eviction") == 1


async def test_a_missing_right_is_told_and_tried_again_when_it_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.append(403)
        b.preempts()
        await b.until(lambda: not b.is_kept())
        assert b.eviction_api.wrote[:2] == ["PATCH high/status", "POST low/eviction"]
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["high"]["status"])
        b.clock.seconds += 11.0
        told = b.tried()
        assert told.preemption is None
        assert "the right to evict is missing: pods/eviction: 403: User us cannot create resource" in told.message
        b.clock.seconds += 61.0
        again = b.tried()
        assert again.preemption is not None, again.message
        b.evictor.submit(again)
        await b.until(lambda: b.eviction_api.wrote.count("POST low/eviction") == 2)
        await some_looks()
        assert b.is_kept()


async def test_a_nomination_is_taken_back_when_the_preemption_is_no_longer_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.extend([503] * 3)

        def forbid(what: str) -> None:
            if what == "low/eviction":
                known = policy("preempts", {"preemption": {"mayPreempt": False}})
                b.engine.effective_policies.observe(known)

        b.eviction_api.on_write = forbid
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await b.until(lambda: b.eviction_api.wrote[-1] == "PATCH high/status")
        assert "nominatedNodeName" not in b.api.pods["high"]["status"]
        await some_looks()
        assert b.eviction_api.wrote == ["PATCH high/status", "POST low/eviction", "PATCH high/status"]
        assert not b.engine.state.holds


@pytest.mark.parametrize(("manager", "is_taken_back"), [("vgpu-scheduler", True), ("karpenter", False)])
async def test_a_nomination_of_an_earlier_leader_is_taken_back_when_no_policy_allows_it_any_more(
    monkeypatch: pytest.MonkeyPatch, manager: str, *, is_taken_back: bool
) -> None:
    async with bench(monkeypatch, mayPreempt=False) as b:
        b.runs("low")
        high = b.api.pods["high"] = pod_object("high", asks(gpumem=8000), priority=5)
        high["status"]["nominatedNodeName"] = "n"
        written = {"f:status": {"f:nominatedNodeName": {}}}
        high["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": written}]
        b.see(PODS, high)
        b.evictor.resume()
        await some_looks()
        assert b.eviction_api.wrote == ["PATCH high/status"] * is_taken_back
        assert ("nominatedNodeName" in high["status"]) is not is_taken_back
        assert len(b.eviction_api.read) == 1


async def test_a_nomination_that_is_shown_only_after_it_was_given_up_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then the pod is shown with the nomination before it, which is taken back as well."""
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        b.engine.remove_node("n")
        b.api.nodes["m"] = node_object("m", cards("m", 1))
        b.see(NODES, b.api.nodes["m"])
        b.runs("other", "m")
        b.eviction_api.slow_nomination = "m"
        again = b.engine.attempt(b.clock.monotonic() + 60.0)  # once its back-off is over
        assert again is not None
        assert again.preemption is not None, again.message
        b.evictor.submit(again)
        await some_looks()
        b.engine.preemptions.withdraw("uid-high")
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["high"]["status"])
        b.eviction_api.goes_on.set()
        await b.until(lambda: b.eviction_api.wrote.count("PATCH high/status") == 4)
        assert "nominatedNodeName" not in b.api.pods["high"]["status"]


async def test_a_victim_that_a_budget_protects_is_asked_for_again_where_an_earlier_leader_evicted_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("high-low", memory=4000, priority=1)
        b.runs("low", memory=4000)
        ends = b.api.pods["low"]
        ends["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"
        ends["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        ]
        b.see(PODS, ends)
        b.api.pods["high"] = pod_object("high", asks(gpumem=8000), priority=5)
        b.api.pods["high"]["status"]["nominatedNodeName"] = "n"
        b.see(PODS, b.api.pods["high"])
        b.eviction_api.refusals.append(429)
        b.eviction_api.retry_after = PACE
        b.engine.preemptions.restore(b.clock.monotonic())
        under_way = b.engine.preemptions.of("uid-high")
        b.evictor.resume()
        await b.until(lambda: b.eviction_api.wrote == ["POST high-low/eviction"] * 2)
        assert b.engine.preemptions.of("uid-high") is under_way is not None


async def test_a_victim_that_is_protected_meanwhile_is_not_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")

        def protect(_: str) -> None:
            kept = {"priority": 9, "preemption": {"mayPreempt": True, "preemptible": False}}
            b.engine.effective_policies.observe(policy("kept", kept))

        b.eviction_api.on_write = protect
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await some_looks()
        assert "POST low/eviction" not in b.eviction_api.wrote


@pytest.mark.parametrize("sent", [False, True], ids=["waits for its turn", "its Binding is sent"])
async def test_a_victim_that_waits_in_a_lane_is_taken_out_of_it(monkeypatch: pytest.MonkeyPatch, *, sent: bool) -> None:
    async with bench(monkeypatch) as b:
        low = b.decided("low", 0)
        assert low.placement is not None
        b.may_leave = not sent
        b.preempts()
        await b.until(lambda: b.left)
        assert b.left[0] == "uid-low"
        if sent:
            await b.until(lambda: len(b.left) > 2)
            assert b.eviction_api.wrote == ["PATCH high/status"]
            b.runs("low")  # what was free is not any more: who ends is decided anew
            await b.until(lambda: not b.is_kept())
            assert "POST low/eviction" not in b.eviction_api.wrote
        else:
            await some_looks()
            assert b.eviction_api.wrote == ["PATCH high/status"]
            assert b.engine.state.reservation("uid-low") is None


@pytest.mark.parametrize(
    ("after", "rules", "wrote"),
    [
        ("", {}, []),
        ("high/status", {}, ["PATCH high/status"]),
        ("low/status", {"budgets": "Exceed"}, ["PATCH high/status", "POST low/eviction", "PATCH low/status"]),
    ],
    ids=["before all", "after the nomination", "between marking a victim and deleting it"],
)
async def test_who_has_lost_the_lease_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, after: str, rules: Obj, wrote: list[str]
) -> None:
    async with bench(monkeypatch, **rules) as b:
        b.runs("low")
        b.leads = bool(after)
        b.eviction_api.refusals.append(429)

        def lose(what: str) -> None:
            b.leads = b.leads and what != after

        b.eviction_api.on_write = lose
        b.preempts()
        await some_looks()
        assert b.eviction_api.wrote == wrote
        assert json.dumps(b.api.pods["low"]).count("deletionTimestamp") == 0


async def test_no_more_are_evicted_than_another_leader_has_left_of_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch, perHour=1) as b:
        b.runs("low")
        stamp = b.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        one = {"time": stamp, "pod": "default/other", "uid": "uid-other", "node": "n"}
        recorded: Obj = {"metadata": {"uid": "p", "resourceVersion": "1"}, "status": {"evictions": [one]}}
        request = b.eviction_api.request

        async def answering(method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
            if "policies/" in path:
                assert method == "GET"
                return ApiResponse(200, json.dumps(recorded).encode())
            return await request(method, path, body, **more)

        monkeypatch.setattr(b.eviction_api, "request", answering)
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await some_looks()
        assert "POST low/eviction" not in b.eviction_api.wrote


async def test_a_victim_that_stays_though_the_answer_was_that_it_is_gone_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.append(404)
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        b.clock.seconds += 29.0
        await some_looks()
        assert b.is_kept()
        b.clock.seconds += 2.0
        await b.until(lambda: not b.is_kept())
        b.clock.seconds += 11.0
        again = b.tried()
        assert again.preemption is not None, again.message
        b.evictor.submit(again)
        await b.until(lambda: b.eviction_api.wrote.count("POST low/eviction") == 2)


async def test_a_preemption_that_breaks_off_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")

        def fail(what: str) -> None:
            if what == "low/eviction":
                raise RuntimeError("no good")

        b.eviction_api.on_write = fail
        b.eviction_api.refusals.append(503)
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        await some_looks()
        b.clock.seconds += 31.0
        await b.until(lambda: not b.is_kept())
        assert not b.engine.state.holds
