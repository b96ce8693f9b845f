"""Room for the pods of a group that are placed together: for as many as are needed, or for none.

One pod after the other gets a node, as room that is kept for it: without the end of others where that can be, else on
what those leave that end anyway for the pods before it, else with more victims. Then the nodes stay, and as many of the
victims as possible get their places back. A question leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.equivalence import Fitted
from vgpu_scheduler.engine.preemption.evaluator import Beside, PreemptionResult
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.victims import Unit, Victims, reprieve, waits_to_be_bound
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import Outcome, Placement, Preemption, Victim
from vgpu_scheduler.state import Hold, Reservation, State

__all__ = ["GroupPlan", "GroupPlanner", "Member"]


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of the group with what it gets."""

    pod: Pod
    placement: Placement


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How the pods of a group get room.

    Attributes
    ----------
    members
        As many as are needed.
    victims
        Who ends for them, the most important first.
    """

    members: tuple[Member, ...]
    victims: tuple[Victim, ...]

    def leaving(self, node: str) -> list[str]:
        """Return the UIDs of those that end on a node."""
        return [victim.uid for victim in self.victims if victim.node == node]

    def preemptions(self, sources: Sequence[str]) -> list[Preemption]:
        """Return what each of the pods gets, and which of the victims are looked after with it.

        Each is with the first pod on its node, or, where there is none, with the first of all.

        Parameters
        ----------
        sources
            The policy that allows it for each.
        """
        first = {each.placement.node: number for number, each in reversed(list(enumerate(self.members)))}
        theirs: list[list[Victim]] = [[] for _ in self.members]
        for victim in self.victims:
            theirs[first.get(victim.node, 0)].append(victim)
        together = tuple(each.pod.uid for each in self.members)
        return [
            Preemption(each.placement.node, each.placement, tuple(victims), source, together)
            for each, victims, source in zip(self.members, theirs, sources, strict=True)
        ]


class Leaving(Protocol):
    """Says what pods get once others have left."""

    disruption: GroupDisruption

    @property
    def budgets(self) -> Callable[[], Sequence[DisruptionBudget]]:
        """Return the disruption budgets that count."""

    def search_beside(self, pod: Pod, now: float, beside: Beside) -> PreemptionResult:
        """Say how one more pod of a group gets room, or why it does not: who else has to leave."""

    def fits_once_gone(self, pod: Pod, node: str, gone: Sequence[Reservation]) -> Placement | None:
        """Return what a pod gets of a node once some pods are gone."""

    def victims(self, best: Victims) -> tuple[Victim, ...]:
        """Return what is said of pods that have to leave."""


class GroupPlanner:
    """Plans room for the pods of groups.

    Parameters
    ----------
    cycle, evaluator
        What it works with.
    room_for
        Returns the room to be kept for a pod, by its placement, the UIDs of those that leave it, and its priority.
    """

    def __init__(
        self,
        cycle: Cycle,
        evaluator: Leaving,
        room_for: Callable[[Pod, Placement, Sequence[str], int], Hold],
    ) -> None:
        self.cycle = cycle
        self.evaluator = evaluator
        self.state = cycle.state
        self.room_for = room_for

    def plan(
        self, pods: Sequence[Pod], needed: int, priority: int, rows: NDArray[np.int64], now: float
    ) -> GroupPlan | PreemptionResult:
        """Say how as many pods of a group as are needed get room on some nodes, or why they do not.

        Parameters
        ----------
        pods
            Those that wait, in the order in which they get nodes.
        priority
            That of the group: pods of a lower one may end.
        rows
            The only nodes that they may go to, shape (n,).
        """
        with _as_it_was(self.state):
            planning = _Planning(self, priority, rows, now)
            for number, pod in enumerate(pods):
                answer = planning.place(pod)
                if answer is not None and len(planning.members) + len(pods) - number - 1 < needed:
                    return replace(answer, reason=f"pod {pod.key}: {answer.reason}" if answer.reason else "")
                if len(planning.members) == needed:
                    return planning.with_as_few_victims_as_possible()
        raise AssertionError("a group that is complete has as many pods as it needs")


@contextmanager
def _as_it_was(state: State) -> Iterator[None]:
    """Have the room that is kept be afterwards as it is now, with nobody woken by it."""
    holds, returned = tuple(state.holds), frozenset(state.wakes.returned)
    try:
        yield
    finally:
        kept = {id(hold) for hold in holds}
        for hold in tuple(state.holds):
            if id(hold) not in kept:
                state.give_up(hold.uid)
        for hold in holds:
            if state.holds.get(hold.uid) is not hold:
                state.keep(hold)
        state.wakes.returned.intersection_update(returned)


class _Planning:
    """One plan in the making: what it has placed is kept for the pods for as long as it takes."""

    def __init__(self, planner: GroupPlanner, priority: int, rows: NDArray[np.int64], now: float) -> None:
        self._planner = planner
        self._state = planner.state
        self._priority = priority
        self._rows = rows
        self._now = now
        self.members: list[Member] = []
        self._victims: dict[str, Pod] = {}
        """Who ends for them, by UID."""

    def place(self, pod: Pod) -> PreemptionResult | None:
        """Find a node for one more pod, with as few others as possible that have to end; say why there is none."""
        decision = self._planner.cycle.decide(pod, within=self._rows)
        placement = decision.placement
        if placement is None:
            if decision.outcome is not Outcome.UNSCHEDULABLE:
                return PreemptionResult(reason=decision.message)
            placement = self._where_others_end(pod)
        if placement is None:
            beside = Beside(self._priority, self._rows, tuple(self._victims.values()))
            answer = self._planner.evaluator.search_beside(pod, self._now, beside)
            if answer.preemption is None:
                return answer
            placement = answer.preemption.placement
            known = (self._state.pod(victim.uid) for victim in answer.preemption.victims)
            self._victims.update((each.uid, each) for each in known if each is not None)
        self._keep(pod, placement)
        self.members.append(Member(pod, placement))
        return None

    def _where_others_end(self, pod: Pod) -> Placement | None:
        """Return what a pod gets of a node where pods end for others of its group; None if that is nothing."""
        nodes = self._state.nodes
        held = (self._state.reservation(uid) for uid in self._victims)
        for name in sorted({there.node for there in held if there is not None}):
            if (row := nodes.row(name)) is not None and bool(np.any(self._rows == row)):
                placement = self._once_gone(pod, name, self._victims)
                if placement is not None:
                    return placement
        return None

    def _once_gone(self, pod: Pod, node: str, victims: Iterable[str]) -> Placement | None:
        gone = [held for uid in victims if (held := self._state.reservation(uid)) is not None]
        ranked = msgspec.structs.replace(pod, priority=self._priority)
        return self._planner.evaluator.fits_once_gone(ranked, node, gone)

    def _keep(self, pod: Pod, placement: Placement) -> None:
        """Keep the room of a pod; what is kept there for lower priorities is given up."""
        for hold in self._state.holds.on(placement.node):
            if hold.priority < self._priority:
                self._state.give_up(hold.uid)
        leaving = [uid for uid in self._victims if self._is_on(uid, placement.node)]
        self._state.keep(self._planner.room_for(pod, placement, leaving, self._priority))

    def _is_on(self, uid: str, node: str) -> bool:
        held = self._state.reservation(uid)
        return held is not None and held.node == node

    def with_as_few_victims_as_possible(self) -> GroupPlan:
        """Give victims their places back without which all pods fit where they are; return what is left."""
        units: dict[str, Unit] = {}
        for pod in self._victims.values():
            unit = self._planner.evaluator.disruption.unit(pod)
            units[unit[0].uid] = unit
        held = ((pod, self._state.reservation(pod.uid)) for pod in self._victims.values())
        unbound = frozenset(pod.uid for pod, there in held if there is not None and waits_to_be_bound(pod, there))
        found = reprieve("", units.values(), self._planner.evaluator.budgets(), self, unbound=unbound)
        victims = () if found is None else self._planner.evaluator.victims(found)
        return GroupPlan(tuple(self.members), victims)

    def put_back(self, unit: Unit) -> bool:
        """Put pods back, unless a pod of the group would not fit then where it is; see :class:`Room`."""
        back = {pod.uid for pod in unit}
        left = {uid: pod for uid, pod in self._victims.items() if uid not in back}
        nodes = {held.node for uid in back if (held := self._state.reservation(uid)) is not None}
        concerned = [each for each in self.members if each.placement.node in nodes or self._looks_beyond(each.pod)]
        before = [hold for each in concerned if (hold := self._state.holds.get(each.pod.uid)) is not None]
        for each in concerned:
            self._state.give_up(each.pod.uid)
        victims, self._victims = self._victims, left
        moved: dict[str, Member] = {}
        for each in concerned:
            placement = self._once_gone(each.pod, each.placement.node, left)
            if placement is None:
                self._victims = victims
                for hold in before:
                    self._state.keep(hold)
                return False
            self._keep(each.pod, placement)
            moved[each.pod.uid] = Member(each.pod, placement)
        self.members = [moved.get(each.pod.uid, each) for each in self.members]
        return True

    def _looks_beyond(self, pod: Pod) -> bool:
        """Tell whether pods on other nodes have a say about a pod."""
        pod_class = self._planner.cycle.classes.of(pod)
        return isinstance(pod_class, Fitted) and (pod_class.cluster is not None or pod_class.limited)
