"""Room for the pods of a group that are placed together: for as many as are needed, or for none.

One pod after the other is placed, as if the victims of those before it were gone: where there is room then, else with
more victims. When all have a node these stay, and as many of the victims as possible get their places back. All of that
is done on the state itself, and undone: a question leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.engine.preemption.evaluator import PartialGroupPlan
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.result import PreemptionResult
from vgpu_scheduler.engine.preemption.victims import Unit, Victims, reprieve, waits_to_be_bound
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import Outcome, Placement, Preemption, Victim
from vgpu_scheduler.state import StateBeforeRollback

__all__ = ["GroupPlan", "GroupPlanner"]


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
        gang = tuple(each.pod.uid for each in self.members)
        return [
            Preemption(each.placement.node, each.placement, tuple(victims), source, gang)
            for each, victims, source in zip(self.members, theirs, sources, strict=True)
        ]


class VictimSelection(Protocol):
    """Says what pods get once others have left."""

    disruption: GroupDisruption

    @property
    def budgets(self) -> Callable[[], Sequence[DisruptionBudget]]:
        """Return the disruption budgets that count."""

    def search_beside_group(self, pod: Pod, now: float, beside: PartialGroupPlan) -> PreemptionResult:
        """Say how one more pod of a group gets room, or why it does not: who else has to leave."""

    def victims(self, best: Victims) -> tuple[Victim, ...]:
        """Return what is said of pods that have to leave."""


class GroupPlanner:
    """Plans room for the pods of groups.

    Parameters
    ----------
    algorithm, evaluator
        What it works with.
    """

    def __init__(self, algorithm: SchedulingAlgorithm, evaluator: VictimSelection) -> None:
        self._algorithm = algorithm
        self._evaluator = evaluator

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
        planning = _Planning(self._algorithm, self._evaluator, priority, rows, now)
        refusals = list[PreemptionResult]()
        with planning.undone():
            for number, pod in enumerate(pods):
                answer = planning.place(pod)
                refusals += [] if answer is None else [answer]
                if answer is not None and len(planning.members) + len(pods) - number - 1 < needed:
                    reason = f"pod {pod.key}: {answer.reason}" if answer.reason else ""
                    return replace(answer, reason=reason).among(refusals)
                if len(planning.members) == needed:
                    break
            left = planning.victims_not_reprieved()
        victims = () if left is None else self._evaluator.victims(left)
        return GroupPlan(tuple(planning.members.values()), victims)


class _Planning:
    """One plan in the making: its pods are assumed where they go, and its victims are gone, for as long as it takes."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        evaluator: VictimSelection,
        priority: int,
        rows: NDArray[np.int64],
        now: float,
    ) -> None:
        self._algorithm = algorithm
        self._state = algorithm.state
        self._evaluator = evaluator
        self._priority = priority
        self._rows = rows
        self._now = now
        self.members: dict[str, Member] = {}
        """Those that have a node, by UID."""
        self._gone: dict[str, ExitStack] = {}
        """What brings back the pods that end together, by the UID of the first of them."""
        self._units: list[Unit] = []
        self._evicted: list[Pod] = []
        self._unbound: set[str] = set()
        self._nodes: dict[str, str] = {}
        """Where the victims are, by UID."""

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Have everything be afterwards as it is now, with nobody woken by it."""
        state, before = self._state, StateBeforeRollback(self._state)
        try:
            yield
        finally:
            for uid in reversed(self.members):
                if state.reservation(uid) is not None:
                    state.undo(uid)
            for back in self._gone.values():
                back.close()
            before.restore()

    def place(self, pod: Pod) -> PreemptionResult | None:
        """Find a node for one more pod, with as few others as possible that have to end; say why there is none."""
        decision = self._algorithm.decide(pod, within=self._rows)
        placement = decision.placement
        if placement is None:
            if decision.outcome is not Outcome.UNSCHEDULABLE:
                return PreemptionResult(reason=decision.message)
            beside = PartialGroupPlan(self._priority, self._rows, self._evicted)
            answer = self._evaluator.search_beside_group(pod, self._now, beside)
            if answer.preemption is None:
                return answer
            placement = answer.preemption.placement
            for victim in answer.preemption.victims:
                self._take_off(victim.uid)
        self._assume(pod, placement)
        return None

    def _take_off(self, uid: str) -> None:
        """Have a victim be gone, with those that end together with it."""
        pod = None if uid in self._nodes else self._state.pod(uid)
        if pod is None:
            return
        unit = self._evaluator.disruption.unit(pod)
        for each in unit:
            held = self._state.reservation(each.uid)
            assert held is not None, f"victim {each.key} holds nothing"
            self._nodes[each.uid] = held.node
            if waits_to_be_bound(each, held):
                self._unbound.add(each.uid)
            elif not each.deleting:
                self._evicted.append(each)
        self._units.append(unit)
        self._set_gone(unit)

    def _set_gone(self, unit: Unit) -> None:
        back = self._gone.setdefault(unit[0].uid, ExitStack())
        back.enter_context(self._state.without([each.uid for each in unit]))

    def _assume(self, pod: Pod, placement: Placement) -> None:
        """Have a pod be placed; what is kept there for lower priorities is given up."""
        for hold in self._state.holds.on(placement.node):
            if hold.priority < self._priority:
                self._state.give_up(hold.uid)
        usage = placement_usage(placement, self._algorithm.classes.claims(pod))
        self._state.assume(pod.uid, placement, usage, pod.spec.requests)
        self.members[pod.uid] = Member(pod, placement)

    def victims_not_reprieved(self) -> Victims | None:
        """Give victims their places back without which all pods fit where they are; return the others."""
        return reprieve("", self._units, self._evaluator.budgets(), self, unbound=self._unbound)

    def put_back(self, unit: Unit) -> bool:
        """Put pods back, unless a pod of the group would not fit then where it is; see :class:`.ReprieveTarget`."""
        nodes = {self._nodes[each.uid] for each in unit}
        concerned = [
            each for each in self.members.values() if each.placement.node in nodes or self._looks_beyond(each.pod)
        ]
        for each in concerned:
            self._state.undo(each.pod.uid)
        self._gone[unit[0].uid].close()
        for each in concerned:
            placement = self._where_it_is(each)
            if placement is None:
                self._return(concerned)
                self._set_gone(unit)
                for before in concerned:
                    self._assume(before.pod, before.placement)
                return False
            self._assume(each.pod, placement)
        return True

    def _where_it_is(self, member: Member) -> Placement | None:
        """Return what a pod gets of the node that it is on."""
        ranked = msgspec.structs.replace(member.pod, priority=self._priority)
        return self._algorithm.on_node.fits_once_gone(ranked, member.placement.node, ())

    def _return(self, members: Sequence[Member]) -> None:
        for each in members:
            if self._state.reservation(each.pod.uid) is not None:
                self._state.undo(each.pod.uid)

    def _looks_beyond(self, pod: Pod) -> bool:
        """Tell whether pods on other nodes have a say about a pod."""
        pod_class = self._algorithm.classes.of(pod)
        return isinstance(pod_class, SchedulableClass) and (pod_class.cluster is not None or pod_class.limited)
