"""The real evictor of each leader, in a loop whose time the machine sets, and its requests, which come when it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kube.objects import Obj
from tests.simulation.binder import BindingWorld
from tests.simulation.evictions import answer_to
from tests.simulation.leaders import SimClock
from tests.simulation.things import SimThing
from tests.simulation.world import REACHED, RELISTED_KINDS, World

from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding import BindContext, EventSource, Evictor, Reporter
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import BUDGETS, CLUSTER_POLICIES, POLICIES
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Decision, Preemption

PROTECTED: Final = "vgpu-system"
_TIMEOUT: Final = 1.0
_ROUNDS: Final = 12
"""Turns of the loop after which all that can go on without an answer, or more time, has gone on."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """A loop that turns when it is told to, in the time of a world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.failures: list[BaseException] = []
        """What was raised where nobody looks at it."""
        self.set_exception_handler(lambda _, found: self.failures.append(found.get("exception") or RuntimeError(found)))

    def time(self) -> float:
        """Return the time of the world."""
        return self._world.now

    def turn(self) -> None:
        """Do all that can be done now."""
        for _ in range(_ROUNDS):
            self.call_soon(self.stop)
            self.run_forever()


@dataclass(eq=False, slots=True)
class Request:
    """A request on its way, or that the API server has carried out and not answered yet."""

    leader: SimLeader
    method: str
    path: str
    body: Any
    future: asyncio.Future[ApiResponse]


@dataclass(eq=False)
class SimLeader:
    """A leader with its evictor.

    Attributes
    ----------
    leads
        Whether it holds the Lease, as it knows.
    requests
        Those that it sent and that are not answered.
    decided
        The pods for which it has found room itself that others have to leave.
    """

    world: EvictingWorld
    engine: Engine
    leads: bool = True
    requests: list[Request] = field(default_factory=list)
    decided: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock = SimClock(self.world)
        api: Any = self
        self.reporter = Reporter(api, EventSource("vgpu-scheduler", "sim"), clock)
        context = BindContext(api, self.engine, self.reporter, clock, lambda _: self.leads, self._observe)
        self.evictor = Evictor(context, _TIMEOUT, self._leave_lane)
        self._tasks: list[asyncio.Task[None]] = []

    def _leave_lane(self, uid: str) -> bool:
        return self.leads and self.world.cancel_unsent(uid)

    def _observe(self, kind: str, answer: Any) -> None:
        assert kind == "Pod"
        self.engine.observe_pod(decode_pod(answer), self.world.now)

    async def begin(self) -> None:
        """Do what a leader does once it has read what there is."""
        await self.evictor.take_over()
        found = self.engine.preemptions.under_way()
        REACHED["preemptions restored"] += len(found)
        self.world.check_restored([uid for uid, _ in found])
        self._tasks.append(asyncio.get_running_loop().create_task(self.evictor.run()))

    async def end(self) -> None:
        """End all that goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.evictor.stop()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "",
        timeout: float = 0.0,  # noqa: ASYNC109
    ) -> ApiResponse:
        """Send a request: what becomes of it the machine says."""
        del params, content_type, timeout
        try:
            assert method == "GET" or self.leads, f"{method} {path} without the lease"
            self.world.check_request(self, method, path, body)
        except AssertionError as error:
            self.world.wrong.append(error)
            raise
        future = asyncio.get_running_loop().create_future()
        self.requests.append(Request(self, method, path, body, future))
        return await future


class EvictingWorld(BindingWorld):
    """Plays the API server towards the real evictors of the leaders: the one that leads, and the one before it."""

    relisted = (CLUSTER_POLICIES, POLICIES, BUDGETS, *RELISTED_KINDS)
    options: Mapping[str, Any] = {**World.options, "preemption": True, "protected_namespaces": (PROTECTED,)}

    def __init__(self) -> None:
        self.leader: SimLeader | None = None
        self.former: SimLeader | None = None
        self.loop = SteppedLoop(self)
        self.nominated_late: set[str] = set()
        """Pods whose nominations by a former leader came when another one led."""
        self.wrong: list[AssertionError] = []
        """What was wrong with requests that leaders sent."""
        super().__init__()

    def _start_engine(self) -> None:
        super()._start_engine()
        if self.former is not None:
            self.loop.run_until_complete(self.former.end())
        self.former = self.leader
        if self.former is not None:
            self.former.leads = False
        self.leader = SimLeader(self, self.engine)

    def answers_come(self) -> None:
        """Have all Bindings that were sent be answered."""
        while self.answers:
            self._settle(*self.answers.pop())

    def relist_again(self) -> None:
        """Read lists of everything, as is done from time to time."""
        self._deliver_all()
        self._relist()

    def begin_to_lead(self) -> None:
        """Have the new leader take over what the one before it has begun, before it decides anything."""
        leader = self.leader
        assert leader is not None
        beginning = self.loop.create_task(leader.begin())
        self.loop.turn()
        while not beginning.done():
            assert leader.requests, "it waits for something else than for an answer"
            for request in list(leader.requests):
                self.finish(request)
        beginning.result()

    def close(self) -> None:
        """End everything."""
        for leader in (self.leader, self.former):
            if leader is not None:
                self.loop.run_until_complete(leader.end())
        self.loop.close()

    # Preemptions -----------------------------------------------------------------------------------------------------

    def under_way(self) -> list[tuple[str, Preemption]]:
        """Return for whom room is kept that others leave."""
        return self.engine.preemptions.under_way()

    def _decided(self, decision: Decision) -> None:
        if decision.preemption is not None:
            assert self.leader is not None
            self.leader.decided.add(decision.uid)
            REACHED["preemption"] += 1
            REACHED["preemption of several"] += len(decision.preemption.victims) > 1
            REACHED["preemption of one in its lane"] += not all(v.bound for v in decision.preemption.victims)
        elif "more evictions within the hour" in decision.message:
            REACHED["preemption: as many as are allowed"] += 1

    def _decided_together(self, decisions: Sequence[Decision]) -> None:
        preempting = [decision for decision in decisions if decision.preemption is not None]
        if preempting:
            assert self.leader is not None
            self.loop.call_soon(self.leader.evictor.submit, *preempting)
            self.loop.turn()

    def cancel_unsent(self, uid: str) -> bool:
        """Take back the placement of a pod whose Binding was not sent."""
        if uid not in self.in_flight or self._was_sent(uid):
            return False
        self._unreserve(uid)
        REACHED["victim taken out of its lane"] += 1
        return True

    # Requests --------------------------------------------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """Return those that are on their way: what a leader that was replaced has sent, too."""
        return [request for leader in (self.former, self.leader) if leader is not None for request in leader.requests]

    def finish(self, request: Request, fate: str = "succeeds") -> None:
        """Carry a request out or not, and have it answered.

        Parameters
        ----------
        fate
            ``succeeds``; ``lost``: it is carried out, and nobody says so; ``dropped``: it never comes; or the status
            that it is refused with. Of a pod that is there nobody says that it is not.
        """
        request.leader.requests.remove(request)
        fate = "500" if request.method == "GET" and fate == "404" else fate
        message = b'{"message": "User sim cannot create resource"}' if fate == "403" else b'{"message": "no"}'
        response = ApiResponse(int(fate), message) if fate.isdigit() else None
        if fate in {"succeeds", "lost"}:
            if not request.leader.leads:
                REACHED[f"late: {request.method} {_what(request)}"] += 1
            status, found = answer_to(self, request)
            REACHED[f"{request.method} {_what(request)}: {status}"] += 1
            response = ApiResponse(status, json.dumps(found).encode()) if fate == "succeeds" else None
        if fate != "succeeds":
            self.note_failure(request)
        if not request.future.done():
            if response is None:
                request.future.set_exception(ApiUnreachableError("no answer"))
            else:
                request.future.set_result(response)
        self.loop.turn()

    def check_request(self, leader: SimLeader, method: str, path: str, body: Obj | None) -> None:
        """Check a request of a leader when it is sent."""

    def check_restored(self, uids: list[str]) -> None:
        """Check for whom a leader that has just begun keeps room that an earlier one kept."""

    def note_eviction(self, request: Request, victim: str) -> None:
        """Take in that a pod was evicted."""

    def note_records(self, request: Request, policy: SimThing, before: Mapping[str, str]) -> None:
        """Take in which evictions a policy records now, and which it recorded before."""

    def note_conflict(self, policy: str) -> None:
        """Take in that a record was not written, for somebody else had written the policy."""

    def note_failure(self, request: Request) -> None:
        """Take in that a request was not carried out, or that its leader does not know that it was."""


def _what(request: Request) -> str:
    return request.path.rsplit("/", 1)[-1] if request.path.endswith(("eviction", "status")) else "pod or policy"
