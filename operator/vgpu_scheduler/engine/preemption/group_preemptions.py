"""Preemption for groups: the pods that are placed together get the room of others together, or none gets any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.domains import domains_by_free_room
from vgpu_scheduler.engine.group_members import GroupMembers
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.preemption.group_plans import GroupPlan, GroupPlanner
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.preemption.result import PreemptionResult, earliest
from vgpu_scheduler.engine.preemption.search import TERMINATING
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Preemption, TopologyConstraint

__all__ = ["GroupPreemptions", "plan_in_a_domain"]

_MOST_DOMAINS: Final = 4
"""In so many domains at most room is searched that others have to leave."""


class GroupPreemptions:
    """Finds whose room groups would get, and keeps it for them.

    Parameters
    ----------
    algorithm, preemptions
        What it works with.
    priority
        Returns the priority of the group of a pod.
    constraints
        Returns how near to each other the pods of a group are placed.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        preemptions: Preemptions,
        priority: Callable[[Pod], int],
        constraints: Callable[[GroupStatus], Sequence[TopologyConstraint]],
    ) -> None:
        self._algorithm = algorithm
        self._preemptions = preemptions
        self._evaluator = preemptions.evaluator
        self._priority = priority
        self._constraints = constraints
        self._planner = GroupPlanner(algorithm, self._evaluator)

    def post_filter(self, group: GroupStatus, decisions: tuple[Decision, ...], now: float) -> tuple[Decision, ...]:
        """Return the decisions about a group that fits nowhere with what preemption does about it.

        Room that is found is kept for as many of its pods as are needed from now on.
        """
        outcomes = {decision.outcome for decision in decisions}
        if outcomes & {Outcome.PLACED, Outcome.ERROR, Outcome.NOT_READY}:
            return decisions
        uids = {pod.uid for pod in group.waiting}
        if outcomes == {Outcome.UNSCHEDULABLE} and self._preemptions.gang_waits(uids, group.needed):
            return tuple(replace(each, equivalence=None) for each in _with_reason(decisions, TERMINATING))
        for uid in uids:
            self._preemptions.stop(uid)
        if outcomes != {Outcome.UNSCHEDULABLE} or not self.may_preempt(group):
            return decisions
        found = self.search(group, now)
        if isinstance(found, PreemptionResult):
            # Which pods run there, and for how long, is nothing that the version of a node tells.
            return tuple(
                replace(
                    each,
                    helped_by=each.helped_by | found.helped_by,
                    equivalence=found.equivalence(each.equivalence),
                    again_at=earliest(each.again_at, found.again_at),
                )
                for each in _with_reason(decisions, found.reason)
            )
        preemptions = self._of_members(found)
        self._preemptions.begin_gang(found, preemptions, self._priority(group.waiting[0]), now)
        theirs = {member.pod.uid: each for member, each in zip(found.members, preemptions, strict=True)}
        return tuple(replace(each, preemption=theirs.get(each.uid), equivalence=None) for each in decisions)

    def may_preempt(self, group: GroupStatus) -> bool:
        """Tell whether policies let all pods of a group preempt others."""
        return all(self._preemptions.rules_of(pod.uid).may_preempt for pod in group.waiting)

    def search(self, group: GroupStatus, now: float) -> GroupPlan | PreemptionResult:
        """Say how a group that fits nowhere gets room now, or why it does not; nothing is kept for it.

        Where its pods are to be near each other, the domains with the most free room are asked one after the other.
        """
        refused = self._evaluator.why_not_eligible(group.waiting, now)
        if refused is not None:
            return refused
        priority, near = self._priority(group.waiting[0]), self._constraints(group)
        return plan_in_a_domain(self._algorithm, self._planner, group, near, priority, now)

    def preemption_of(self, uid: str, plan: GroupPlan) -> Preemption | None:
        """Return what a pod would get by a plan, with all victims of the group; None if it would get nothing."""
        found = {member.pod.uid: each for member, each in zip(plan.members, self._of_members(plan), strict=True)}
        return replace(found[uid], victims=plan.victims) if uid in found else None

    def _of_members(self, plan: GroupPlan) -> list[Preemption]:
        policies = self._algorithm.classes.policy
        return plan.preemptions([policies(each.pod).source_of.get("preemption", "") for each in plan.members])


def plan_in_a_domain(
    algorithm: SchedulingAlgorithm,
    planner: GroupPlanner,
    group: GroupStatus,
    near: Sequence[TopologyConstraint],
    priority: int,
    now: float,
    open_: Callable[[NDArray[np.int64]], NDArray[np.int64]] = lambda rows: rows,
) -> GroupPlan | PreemptionResult:
    """Plan room for a group in the domains with the most free room, one after the other, or say why there is none.

    Parameters
    ----------
    near
        How near to each other its pods are placed.
    priority
        Pods of a lower one may leave.
    open_
        Returns those of some node rows that the group may go to.
    """
    members, nodes = GroupMembers(algorithm, group), algorithm.state.nodes
    refusals = list[PreemptionResult]()
    for domain in islice(domains_by_free_room(nodes, near, members.room, members.placed_rows()), _MOST_DOMAINS):
        found = planner.plan(members.hardest_first, group.needed, priority, open_(domain.rows), now)
        if isinstance(found, GroupPlan):
            return found
        refusals.append(replace(found, reason=f"in {domain.name}: {found.reason}") if domain.name else found)
    return refusals[0].among(refusals) if refusals else PreemptionResult()


def _with_reason(decisions: Sequence[Decision], reason: str) -> tuple[Decision, ...]:
    """Add why nobody has to end for them to the messages of decisions."""
    if not reason:
        return tuple(decisions)
    return tuple(replace(each, message=f"{each.message} preemption: {reason}") for each in decisions)
