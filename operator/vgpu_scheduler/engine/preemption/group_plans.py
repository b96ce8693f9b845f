"""Plans victims for the pods of a group that are placed together: for as many as are needed, or for none.

The pods are placed one after the other as if the victims of the earlier ones were gone: first without further victims,
else with more. When all pods have a node, as many victims as possible are reprieved while these pods stay where they
are. All of that is done on the state itself, and undone afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.engine.preemption.evaluator import PartialGroupPlan
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.result import PreemptionResult
from vgpu_scheduler.engine.preemption.victims import Unit, Victims, reprieve, waits_to_be_bound
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import Outcome, Placement, Preemption, Victim
from vgpu_scheduler.state import Savepoint


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of the group with its placement."""

    pod: Pod
    placement: Placement


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Placements and victims for a group.

    Attributes
    ----------
    members
        As many pods as are needed.
    victims
        The victims for all of them, the most important first.
    """

    members: tuple[Member, ...]
    victims: tuple[Victim, ...]

    def leaving(self, node: str) -> list[str]:
        """Return the UIDs of the victims on a node."""
        return [victim.uid for victim in self.victims if victim.node == node]

    def preemptions(self, sources: Sequence[str]) -> list[Preemption]:
        """Return the preemption of each member; every victim belongs to one of them.

        A victim belongs to the first member on its node, or, where there is none, to the first of all members.

        Parameters
        ----------
        sources
            For each member, the policy that allows its preemption.
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
    """Selects the pods that have to leave for others."""

    disruption: GroupDisruption

    @property
    def budgets(self) -> Callable[[], Sequence[DisruptionBudget]]:
        """The function that returns the disruption budgets that count."""

    def search_next_member(self, pod: Pod, now: float, planned: PartialGroupPlan) -> PreemptionResult:
        """Return the placement of one more pod of a group with its further victims, or why there is none."""

    def victims(self, best: Victims) -> tuple[Victim, ...]:
        """Return the given pods as victims."""


class GroupPlanner:
    """Plans room for the pods of groups.

    Parameters
    ----------
    algorithm, evaluator
        Collaborators.
    """

    def __init__(self, algorithm: SchedulingAlgorithm, evaluator: VictimSelection) -> None:
        self._algorithm = algorithm
        self._evaluator = evaluator

    def plan(
        self, pods: Sequence[Pod], needed: int, priority: int, rows: NDArray[np.int64], now: float
    ) -> GroupPlan | PreemptionResult:
        """Plan room for as many pods of a group as are needed, or say why it is impossible.

        Parameters
        ----------
        pods
            The waiting pods, in the order in which they are placed.
        priority
            The priority of the group: pods of lower priority may be evicted.
        rows
            The node rows that they may go to, shape (n,).
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
    """One plan in the making: meanwhile its pods are assumed on their nodes, and its victims are removed."""

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
        """The pods that have a node, by UID."""
        self._gone: dict[str, ExitStack] = {}
        """Contexts that bring back the pods of a unit, by the UID of its first pod."""
        self._units: list[Unit] = []
        self._evicted: list[Pod] = []
        self._unbound: set[str] = set()
        self._nodes: dict[str, str] = {}
        """The nodes of the victims, by UID."""

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Restore the state at the end of the context; no pod is woken by the changes within it."""
        state, before = self._state, Savepoint(self._state)
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
        """Find a node for one more pod with as few further victims as possible; return why there is none."""
        decision = self._algorithm.decide(pod, within=self._rows)
        placement = decision.placement
        if placement is None:
            if decision.outcome is not Outcome.UNSCHEDULABLE:
                return PreemptionResult(reason=decision.message)
            planned = PartialGroupPlan(self._priority, self._rows, self._evicted)
            answer = self._evaluator.search_next_member(pod, self._now, planned)
            if answer.preemption is None:
                return answer
            placement = answer.preemption.placement
            for victim in answer.preemption.victims:
                self._take_off(victim.uid)
        self._assume(pod, placement)
        return None

    def _take_off(self, uid: str) -> None:
        """Remove a victim from the state, with the pods that end together with it."""
        pod = None if uid in self._nodes else self._state.pod(uid)
        if pod is None:
            return
        unit = self._evaluator.disruption.unit(pod)
        for each in unit:
            reservation = self._state.reservation(each.uid)
            assert reservation is not None, f"victim {each.key} holds nothing"
            self._nodes[each.uid] = reservation.node
            if waits_to_be_bound(each, reservation):
                self._unbound.add(each.uid)
            elif not each.deleting:
                self._evicted.append(each)
        self._units.append(unit)
        self._set_gone(unit)

    def _set_gone(self, unit: Unit) -> None:
        back = self._gone.setdefault(unit[0].uid, ExitStack())
        back.enter_context(self._state.without([each.uid for each in unit]))

    def _assume(self, pod: Pod, placement: Placement) -> None:
        """Assume a pod's placement; holds of lower priority on that node are given up."""
        for hold in self._state.holds.on(placement.node):
            if hold.priority < self._priority:
                self._state.give_up(hold.uid)
        self._state.assume(pod.uid, placement, self._algorithm.classes.claims(pod))
        self.members[pod.uid] = Member(pod, placement)

    def victims_not_reprieved(self) -> Victims | None:
        """Reprieve victims without which all pods still fit where they are; return the others."""
        return reprieve("", self._units, self._evaluator.budgets(), self, unbound=self._unbound)

    def put_back(self, unit: Unit) -> bool:
        """Put pods back, unless a pod of the group would not fit on its node then; see :class:`.ReprieveTarget`."""
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
        """Return a new placement of a pod on its node; None if it does not fit."""
        ranked = msgspec.structs.replace(member.pod, priority=self._priority)
        return self._algorithm.node_fit.fits_once_gone(ranked, member.placement.node, ())

    def _return(self, members: Sequence[Member]) -> None:
        for each in members:
            if self._state.reservation(each.pod.uid) is not None:
                self._state.undo(each.pod.uid)

    def _looks_beyond(self, pod: Pod) -> bool:
        """Tell whether pods on other nodes affect whether a pod fits."""
        pod_class = self._algorithm.classes.of(pod)
        return isinstance(pod_class, SchedulableClass) and (pod_class.cluster is not None or pod_class.limited)
