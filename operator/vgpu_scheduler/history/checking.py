"""Check whether an engine makes the decisions of a history: each is repeated in the situation in which it was made.

Afterwards the recorded decision takes effect, so that one difference does not cause others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.dialects import is_text_of
from vgpu_scheduler.engine import EngineOptions, Requeue
from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, History, HistoryEvent, Removed, Withdrawn
from vgpu_scheduler.history.virtual import POD, VirtualCluster
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome

_IDLE_AFTER: Final = 0.05
"""Seconds without an event after which the scheduler is assumed to have tried all active pods."""
_MOST_DIFFERENCES: Final = 100
"""The most differences that are listed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision with another outcome.

    Attributes
    ----------
    pod
        ``namespace/name``.
    then, now
        The recorded and the repeated outcome, as parts of a sentence.
    """

    at: float
    pod: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far an engine agrees with a history.

    Attributes
    ----------
    decisions
        Number of repeated decisions.
    same
        Decisions with the same node and cards.
    same_node
        Decisions with the same node but other cards.
    differences
        The first of the other decisions.
    lacked
        What the history lacks, as sentences with the number of times that each applies.
    """

    decisions: int
    same: int
    same_node: int
    differences: Sequence[Difference]
    lacked: Mapping[str, int]


def check(history: History, options: EngineOptions, on_event: Callable[[], None] = lambda: None) -> Agreement:
    """Repeat each decision of a history.

    Parameters
    ----------
    on_event
        Called after each event.
    """
    checking = _Checking(options, _taken_back(history))
    first: list[tuple[float, HistoryEvent]] = [(history.began, event) for event in history.first]
    for at, event in (*first, *((event.at, event) for event in history.events)):
        checking.take(event, at)
        on_event()
    return checking.agreement()


def _taken_back(history: History) -> set[tuple[str, float]]:
    """Return the decisions that were not carried out, as UID and time."""
    last: dict[str, float] = {}
    found = set()
    for event in history.events:
        if isinstance(event, Decided) and event.node:
            last[event.uid] = event.at
        elif isinstance(event, Withdrawn) and event.uid in last:
            found.add((event.uid, last.pop(event.uid)))
    return found


class _Checking:
    """A cluster to which the recorded events happen."""

    def __init__(self, options: EngineOptions, taken_back: set[tuple[str, float]]) -> None:
        self._taken_back = taken_back
        self._cluster = VirtualCluster(options)
        self._engine = self._cluster.engine
        self._waiting: dict[str, Pod] = {}
        self._together: dict[str, Decision] = {}
        """Decisions about pods that were placed together with another one, but are recorded later."""
        self._evicted: set[str] = set()
        self._now: float | None = None
        self._decisions = self._same = self._same_node = 0
        self._differences: list[Difference] = []

    def agreement(self) -> Agreement:
        """Return the result."""
        lacked = dict(sorted(self._cluster.lacked.items()))
        return Agreement(self._decisions, self._same, self._same_node, self._differences, lacked)

    def take(self, event: HistoryEvent, now: float) -> None:
        """Apply an event."""
        self._be_idle(now)
        if isinstance(event, Arrived):
            self._see(event.pod.as_created(), now)
        elif isinstance(event, Departed):
            if event.uid in self._evicted:
                self._engine.preemptions.evicted(event.uid)
            self._waiting.pop(event.uid, None)
            self._cluster.depart(event.uid, now)
        elif isinstance(event, Decided):
            self._decide(event, now)
        elif isinstance(event, Withdrawn):
            if event.uid in self._waiting:
                self._engine.unreserve(event.uid, now)
            elif (known := self._engine.state.pod(event.uid)) is not None:
                self._see(known.as_created(), now)
        elif isinstance(event, Removed):
            self._cluster.remove(event.kind, event.value, now)
        elif isinstance(event, Changed):
            if isinstance(event.value, Pod) and event.value.uid in self._waiting:
                self._see(event.value.as_created(), now)
            else:
                self._cluster.observe(event.kind, event.value, now)

    def _see(self, pod: Pod, now: float) -> None:
        self._waiting[pod.uid] = pod
        self._cluster.observe(POD, pod, now)

    def _decide(self, event: Decided, now: float) -> None:
        """Repeat a decision and compare it; then apply the recorded one."""
        known = self._engine.state.pod(event.uid)
        if known is None:
            self._cluster.lacked["there are decisions about pods that are not in the log"] += 1
            return
        pod, same = self._waiting.get(event.uid), False
        if event.node and self._engine.state.node(event.node) is None:
            self._cluster.lacked[f"there is no node {event.node}, where a pod was placed"] += 1
        elif event.by and pod is not None:
            same = self._compare(event, pod, self._asked(pod, now))
        self._evicted.update(event.evicted)
        if same and (event.uid, event.at) in self._taken_back:
            return  # it keeps its reservation until the decision is withdrawn, and is never bound
        if event.node:
            self._waiting.pop(event.uid, None)
            if same:
                self._engine.binding_succeeded(event.uid)
            else:
                self._engine.unreserve(event.uid, now)
                self._engine.queue.remove(event.uid)
            self._cluster.run(known if pod is None else pod, event.node, event.annotations, now)

    def _asked(self, pod: Pod, now: float) -> Decision | None:
        """Return the engine's decision about a pod; None if the engine does not try it. Other placements are undone."""
        found = self._together.pop(pod.uid, None)
        if found is not None:
            return found
        if pod.uid in self._engine.queue:
            self._engine.queue.add(pod.uid, pod.priority, now, created=pod.creation_timestamp)
        return self._attempt(now, pod.uid)

    def _be_idle(self, until: float) -> None:
        """Try active pods between two events, since failed attempts may reserve room for a pod."""
        now, self._now = self._now, until
        if now is None or until - now < _IDLE_AFTER:
            return
        due: float | None = now
        while due is not None and due < until:
            self._attempt(due)
            due = self._engine.queue.flush_due(due)

    def _attempt(self, now: float, uid: str = "") -> Decision | None:
        """Try active pods until a given one is decided; undo the placements of the others."""
        found: Decision | None = None
        too_early: list[str] = []
        while found is None and (decisions := self._engine.schedule_next(now)):
            placed = {each.uid: each for each in decisions if each.outcome is Outcome.PLACED}
            found = next((each for each in decisions if each.uid == uid), None)
            if found is None:
                too_early += placed
            else:
                self._together.update({other: each for other, each in placed.items() if other != uid})
        for other in too_early:
            self._engine.unreserve(other, now, Requeue.NOW)
        return found

    def _compare(self, event: Decided, pod: Pod, found: Decision | None) -> bool:
        """Compare a decision with the recorded one, count it, and tell whether they agree."""
        self._decisions += 1
        then, now = _recorded_outcome(event), "it is not tried" if found is None else _replayed_outcome(found)
        if found is not None and (_is_same(event, found) or self._is_under_way(event)):
            self._same += 1
            return True
        placement = None if found is None else found.placement
        if event.node and placement is not None and placement.node == event.node:
            self._same_node += 1
            now = f"{now}, with other cards"
        if len(self._differences) < _MOST_DIFFERENCES:
            self._differences.append(Difference(event.at, pod.key, then, now))
        return False

    def _is_under_way(self, event: Decided) -> bool:
        """Tell whether the recorded preemption is under way already, since the pod was tried along with others."""
        found = None if event.node else self._engine.preemptions.of(event.uid)
        return found is not None and {victim.uid for victim in found.victims} == set(event.evicted)


def _is_same(event: Decided, found: Decision) -> bool:
    if not event.node:
        victims = () if found.preemption is None else found.preemption.victims
        return {victim.uid for victim in victims} == set(event.evicted)
    placement, annotations = found.placement, found.annotations or {}
    if placement is None or placement.node != event.node:
        return False
    written = event.annotations.items()
    return all(is_text_of(text, annotations[name]) for name, text in written if name in annotations)


def _recorded_outcome(event: Decided) -> str:
    if event.node:
        return f"placed on node {event.node}"
    return f"{len(event.evicted)} pods had to end for it"


def _replayed_outcome(found: Decision) -> str:
    if found.placement is not None:
        return f"placed on node {found.placement.node}"
    if found.preemption is not None:
        return f"{len(found.preemption.victims)} pods would have to end for it"
    return found.message
