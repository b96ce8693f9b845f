"""Preemption for groups: pods that are placed together get the room of victims together, or none of them does."""

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
from vgpu_scheduler.engine.preemption.result import PreemptionResult, when_preempting, when_refused
from vgpu_scheduler.engine.preemption.search import TERMINATING
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Preemption, TopologyConstraint

_MOST_DOMAINS: Final = 4
"""Maximum number of domains in which victims are searched for."""


class GroupPreemptions:
    """Finds victims for groups, and keeps their room for the groups.

    Parameters
    ----------
    algorithm, preemptions
        Collaborators.
    priority
        Returns the priority of a pod's group.
    constraints
        Returns the topology constraints of a group.
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
        """Preempt others for a group that fits nowhere, if possible; return its decisions with the result.

        Room is kept for as many of its pods as are needed from now on.
        """
        if not self._preemptions.enabled:
            return decisions
        outcomes = {decision.outcome for decision in decisions}
        if outcomes & {Outcome.PLACED, Outcome.ERROR, Outcome.NOT_READY}:
            return decisions
        uids = {pod.uid for pod in group.waiting}
        if outcomes == {Outcome.UNSCHEDULABLE} and self._preemptions.gang_waits(uids, group.needed):
            return tuple(when_preempting(each, reason=TERMINATING) for each in decisions)
        for uid in uids:
            self._preemptions.stop(uid)
        if outcomes != {Outcome.UNSCHEDULABLE} or not self.may_preempt(group):
            return decisions
        found = self.search(group, now)
        if isinstance(found, PreemptionResult):
            return tuple(when_refused(each, found) for each in decisions)
        preemptions = self._of_members(found)
        self._preemptions.begin_gang(found, preemptions, self._priority(group.waiting[0]), now)
        theirs = {member.pod.uid: each for member, each in zip(found.members, preemptions, strict=True)}
        return tuple(when_preempting(each, theirs.get(each.uid)) for each in decisions)

    def may_preempt(self, group: GroupStatus) -> bool:
        """Tell whether policies let all pods of a group preempt others."""
        return all(self._preemptions.rules_of(pod.uid).may_preempt for pod in group.waiting)

    def search(self, group: GroupStatus, now: float, priority: int | None = None) -> GroupPlan | PreemptionResult:
        """Search for victims for a group that fits nowhere, or say why there are none; no room is kept.

        If the group has topology constraints, the domains with the most free room are tried one after the other.

        Parameters
        ----------
        priority
            Pods of lower priority may leave; by default the priority of the group.
        """
        refused = self._evaluator.why_not_eligible(group.waiting, now)
        if refused is not None:
            return refused
        below = self._priority(group.waiting[0]) if priority is None else priority
        return plan_in_a_domain(self._algorithm, self._planner, group, self._constraints(group), below, now)

    def preemption_of(self, uid: str, plan: GroupPlan) -> Preemption | None:
        """Return a pod's preemption in a plan, with all victims of the group; None if it has none."""
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
    allowed_rows: Callable[[NDArray[np.int64]], NDArray[np.int64]] = lambda rows: rows,
) -> GroupPlan | PreemptionResult:
    """Plan room for a group, trying the domains with the most free room one after the other, or say why there is none.

    Parameters
    ----------
    near
        The topology constraints of the group.
    priority
        Pods of lower priority may leave.
    allowed_rows
        Returns those of the node rows that the group may go to.
    """
    members, nodes = GroupMembers(algorithm, group), algorithm.state.nodes
    refusals = list[PreemptionResult]()
    for domain in islice(domains_by_free_room(nodes, near, members.room, members.placed_rows()), _MOST_DOMAINS):
        found = planner.plan(members.hardest_first, group.needed, priority, allowed_rows(domain.rows), now)
        if isinstance(found, GroupPlan):
            return found
        refusals.append(replace(found, reason=f"in {domain.name}: {found.reason}") if domain.name else found)
    return refusals[0].among(refusals) if refusals else PreemptionResult()
