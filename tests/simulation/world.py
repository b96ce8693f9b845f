"""The world of the state machines: the real engine and observer, and the simulated API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from hypothesis.stateful import RuleBasedStateMachine
from tests.engine.builders import make_engine
from tests.simulation.cluster import ANNOUNCING, Event, SimApi, SimCard, SimNode, SimPod, Watch
from tests.simulation.invariants import check_placement, check_quota
from tests.simulation.things import SimThing

from vgpu_scheduler.engine import Engine, ObservationSignals, Problem
from vgpu_scheduler.intake import NAMESPACES, NODES, PODS, QUOTAS, STORAGE, Kind, Listing, Observer
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.model import CardReason, Decision, Outcome, Piece, Placement

REACHED: Counter[str] = Counter()
"""What the runs of this process came across, to make sure that the machine is not idle."""

NAMES = ("node-a", "node-b", "node-c")
RELISTED_KINDS: Final[tuple[Kind[Any], ...]] = (*STORAGE, NAMESPACES, PODS, NODES)
"""In the order of the operator."""
AT_ONCE = 3
"""Objects of a list that are taken in between two looks at everything else: few, so that much comes in between."""

_Result = TypeVar("_Result")

Lists = list[tuple[Kind[Any], Listing[Any]]]
Shape = tuple[int, int, int] | tuple[str, int]
"""Cards of NVIDIA, memory and cores of each; or another vendor's word, and which of its claims."""


def _pieces(placement: Placement) -> list[Piece]:
    given = [a for container in placement.containers for a in container if a.vendor == "NVIDIA"]
    return [a.piece for a in given if a.piece is not None]


class World(RuleBasedStateMachine):
    """Runs the real engine and observer against the simulated API; what is built on it plays binder and node side."""

    names: Sequence[str] = NAMES
    """What nodes are called."""
    relisted: Sequence[Kind[Any]] = RELISTED_KINDS
    """The kinds whose lists are relisted."""
    options: Mapping[str, Any] = {"coexist_with": (ANNOUNCING,)}
    """Those of the engine."""

    def __init__(self) -> None:
        super().__init__()
        self.api = SimApi()
        self.now = 0.0
        self.engine: Engine
        self.observer: Observer
        self.in_flight: dict[str, Placement] = {}
        self.answers: list[tuple[str, str]] = []
        self.listing: Lists | None = None
        self.relisting: Coroutine[Any, Any, None] | None = None
        self.disturbed: set[tuple[str, str]] = set()
        self.quota: ResourceQuota | None = None
        self._told_to_be_gone: dict[str, tuple[int, int]] = {}
        self._lost_up_to = 0
        """The version of the last event that the watch of bound pods has lost: it begins anew, with a relist."""
        self._start_engine()

    def _start_engine(self) -> None:
        self.engine = make_engine(**self.options)
        self._told_to_be_gone.clear()
        self.observer = Observer(self.engine, lambda: self.now, ObservationSignals(), _reported, at_once=AT_ONCE)
        if self.quota is not None:
            self.observer.observe(QUOTAS, self.quota)

    # Names and objects -----------------------------------------------------------------------------------------------

    def _add_node(self, name: str, number: int) -> None:
        listed = tuple(SimCard(f"{name}-{index}", mig=index == 1) for index in range(number))
        self.api.put_node(SimNode(name, f"{name}-{self.api.serial()}", 0, listed))

    def _a_node(self, pick: int) -> SimNode | None:
        nodes = [self.api.nodes[name] for name in sorted(self.api.nodes)]
        return nodes[pick % len(nodes)] if nodes else None

    def _a_pod(self, pick: int, **wanted: bool) -> SimPod | None:
        found = [
            pod
            for pod in sorted(self.api.pods.values(), key=lambda pod: pod.name)
            if bool(pod.node) is wanted.get("bound", bool(pod.node))
            and pod.terminal is wanted.get("terminal", pod.terminal)
            and pod.started is wanted.get("started", pod.started)
            and pod.ours is wanted.get("ours", pod.ours)
        ]
        return found[pick % len(found)] if found else None

    def _new_pod(self, shape: Shape, **more: Any) -> SimPod:
        number = self.api.serial()
        asked: tuple[int, ...] = (0, 0, 0)
        if isinstance(shape[0], str):
            more = {"vendor": shape[0], "claim": shape[1], **more}
        else:
            asked = shape
        return SimPod(f"pod-{number:04}", f"uid-{number}", 0, *asked, **{"cpu": 1, **more})

    def _disturb(self, pod: SimPod) -> None:
        for container in pod.placement.containers if pod.placement else ():
            self.disturbed.update((pod.node, assignment.uuid) for assignment in container)

    # Events ----------------------------------------------------------------------------------------------------------

    def _deliver(self, event: Event) -> None:
        known = event.object
        if isinstance(known, SimThing):
            (self.observer.deleted_by_watch if event.gone else self.observer.observe)(known.kind, known.shown())
            return
        before = self.engine.state.pod(known.uid) if isinstance(known, SimPod) else None
        if isinstance(known, SimNode):
            (self.observer.deleted_by_watch if event.gone else self.observer.observe)(NODES, known.shown())
        elif event.gone and event.watch is not Watch.BOUND:
            shown = known.shown()
            self.observer.left_selection(shown)
            self._told_to_be_gone[shown.uid] = (self.engine.lists.epoch, shown.resource_version)
            REACHED[f"left: {event.watch.value if event.watch else ''}"] += shown.uid in self._departed()
        else:
            (self.observer.deleted_by_watch if event.gone else self.observer.observe)(PODS, known.shown())
        after = self.engine.state.pod(known.uid)
        assert before is None or after is None or after.resource_version >= before.resource_version

    def _show_bound_up_to(self, version: int) -> None:
        """Tell how far the watch of bound pods has come, if it has lost nothing."""
        if self._lost_up_to:
            return
        pending = (event.object.version - 1 for event in self.api.events if event.watch is Watch.BOUND)
        before = len(list(self.engine.state.pods()))
        self.observer.bound_pods_synced_to(min((version, *pending)))
        REACHED["gone, for it was not shown as bound"] += len(list(self.engine.state.pods())) < before

    def _departed(self) -> set[str]:
        """Return the pods that left their selection, of which nothing newer was seen since."""
        state, epoch = self.engine.state, self.engine.lists.epoch
        told = self._told_to_be_gone.items()
        return {uid for uid, (then, version) in told if then == epoch and state.pod_version(uid) < version}

    def _deliver_all(self) -> None:
        while self.api.events:
            self._take_next(0)

    def _take_next(self, number: int) -> None:
        """Deliver an event that was not delivered yet."""
        event = self.api.events.pop(number)
        self.api.history.append(event)
        self._deliver(event)
        if event.watch is Watch.BOUND:
            self._show_bound_up_to(event.object.version)

    def _lists(self) -> Lists:
        """Read consistent lists of all kinds."""
        snapshot = self.api.snapshot()
        return [(kind, snapshot.listing(kind, self.engine.lists.listed(kind.name))) for kind in self.relisted]

    def _relist(self) -> None:
        self._begin_to_relist(self._lists())
        self._go_on_relisting()

    def _begin_to_relist(self, listed: Lists) -> None:
        """Take in the first objects of consistent lists of all kinds."""
        self._give_up_relisting()
        self.relisting = self._relisted(listed)
        self._go_on_relisting(1)

    def _go_on_relisting(self, slices: int = 1 << 16) -> None:
        for _ in range(slices):
            if self.relisting is None:
                return
            try:
                self.relisting.send(None)
            except StopIteration:
                self.relisting = None

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Carry out something that pauses, with nothing between."""
        while True:
            try:
                work.send(None)
            except StopIteration as end:
                return cast("_Result", end.value)

    def _give_up_relisting(self) -> None:
        if self.relisting is not None:
            self.relisting.close()
            self.relisting = None

    async def _relisted(self, listed: Lists) -> None:
        before = self.observer.stats.missed_deletions
        for kind, listing in listed:
            await self.observer.relist(kind, listing)
            if kind is PODS and (listing.version or 0) >= self._lost_up_to:
                self._lost_up_to = 0
        REACHED["missed deletion"] += self.observer.stats.missed_deletions > before

    # Decisions -------------------------------------------------------------------------------------------------------

    def _decide(self, number: int) -> None:
        for _ in range(number):
            decisions = self.engine.schedule_next(self.now)
            if not decisions:
                return
            for decision in decisions:
                self._observe_decision(decision)
            self._decided_together(decisions)

    def _observe_decision(self, decision: Decision) -> None:
        REACHED[decision.outcome.value] += 1
        REACHED["held back by a quota"] += CardReason.ResourceQuotaNotFit in decision.reasons
        REACHED["kept away by an attach limit"] += "NodeVolumeLimits" in decision.rejected_by
        assert decision.outcome is not Outcome.ERROR, decision.error
        self._decided(decision)
        if decision.placement is not None:
            REACHED["placed on a MIG card"] += bool(_pieces(decision.placement))
            REACHED.update(f"placed: {maker}" for maker in decision.placement.vendors())
            self.in_flight[decision.uid] = decision.placement
            self._check(decision.uid)

    def _decided_together(self, decisions: Sequence[Decision]) -> None:
        """Take in the decisions of one attempt."""

    def _decided(self, decision: Decision) -> None:
        """Take in a decision, right after it was made."""

    def _check(self, uid: str) -> None:
        """Check a placement that was just decided, or found to hold."""
        check_placement(self.engine, self.in_flight[uid])
        check_quota(self.engine, self.in_flight[uid])

    def _note_held(self) -> None:
        """Note which odd states of MIG cards come up."""
        devices = self.engine.state.devices
        for row in self.engine.state.nodes.rows().tolist():
            REACHED["a card out of service"] += bool(devices.inconsistent(row))


def _reported(problem: Problem) -> None:
    assert problem.reason != "NotTakenIn", problem.message
