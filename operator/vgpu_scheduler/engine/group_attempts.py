"""Decides pod groups as a whole: as many of their pods are placed as are needed, or none."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.assumed import Reserver
from vgpu_scheduler.engine.domains import Domain, candidate_domains, domains
from vgpu_scheduler.engine.group_members import GroupMembers
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.topology_sources import said_by
from vgpu_scheduler.engine.unschedulable import OF_ONE_NODE
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome, TopologyConstraint, internal_error

PLUGIN: Final = "PodGroup"
"""Rejects pods of incomplete groups."""
_FIT: Final = "PodGroupFit"
"""Rejects groups that do not fit on the nodes together, or into any domain."""
_MISSING: Final = re.compile(r"(PodGroup\.\S+ \S+), which says how many pods the group needs, does not exist")
_INCOMPLETE: Final = re.compile(r"waits for other pods of its group (\S+): (\d+) (?:is|are) needed")
"""Matches the message of :func:`waits_for_group_members`."""
_TOGETHER: Final = "which is placed together with this one"
_OTHER_MEMBER: Final = re.compile(rf"\bpod (\S+/\S+), {_TOGETHER}: (.*)", re.DOTALL)
"""Matches the message of :func:`failed_together` for the pods of a group other than the one that does not fit."""
_OF_GROUP: Final = "group "
"""Begins the reason in the message of :func:`lacks_room`."""
_AS_A_GROUP: Final = (
    *("which says how many pods the group needs", "waits until the pods of its group", "to be placed at once"),
    *("waits for other pods of its group", _TOGETHER),
)
"""Parts of the messages of pods that are not placed one by one."""
_MOST_ORDERS: Final = 8
"""Number of orders in which the pods of a group are tried on the same nodes."""
_MOST_DOMAINS: Final = 64
"""Maximum number of domains that are tried; only domains that appear to have enough room count."""


class _Tried(NamedTuple):
    """The result of one order, or of all orders that were tried on the same nodes.

    Attributes
    ----------
    placed
        As many placements as are needed; empty if that is impossible, and then no reservation is left.
    others
        The decisions about pods that did not fit.
    failed
        The one of these after which too few pods were left; None if as many were placed as are needed.
    """

    placed: tuple[Decision, ...]
    others: tuple[Decision, ...]
    failed: Decision | None = None


class GroupAttempts:
    """Decides the pods of a group together.

    Parameters
    ----------
    algorithm, policy_tracker, reserver
        Collaborators.
    """

    def __init__(self, algorithm: SchedulingAlgorithm, policy_tracker: PolicyTracker, reserver: Reserver) -> None:
        self._state = algorithm.state
        self._algorithm = algorithm
        self._policy_tracker = policy_tracker
        self._reserver = reserver

    def decide(self, group: GroupStatus, *, explain: bool) -> tuple[Decision, ...]:
        """Decide as many of the waiting pods as are needed, each placement assumed; if they do not fit, assume none.

        Nothing is tried where the nodes cannot have enough room. A group with topology constraints is tried in one
        domain after the other. The pods that are hardest to place come first; if a pod does not fit beside those
        before it, the group is tried again with that pod, and its equivalents, first.

        Returns
        -------
        tuple of Decision
            As many placements as are needed. Else one decision per waiting pod: the outcome is that of the pod that did
            not fit in the first order, and the messages of the other pods name it.
        """
        try:
            for pod in group.waiting:
                self._policy_tracker.decided(pod)
            return self._in_some_domain(GroupMembers(self._algorithm, group), explain=explain)
        except Exception as error:  # noqa: BLE001 - any error is charged to this group alone
            return tuple(error_decision(pod, error) for pod in group.waiting)

    def _in_some_domain(self, members: GroupMembers, *, explain: bool) -> tuple[Decision, ...]:
        group, nodes = members.group, self._state.nodes
        constraints = self.constraints(group)
        found = candidate_domains(nodes, constraints, members.room, group.needed, members.placed_rows())
        first: tuple[_Tried, str] | None = None
        for domain in islice(self._with_own_holds_first(found, group), _MOST_DOMAINS):
            tried = self._in_some_order(members, domain, explain=explain)
            if tried.failed is None:
                return self._by_rank(members, tried.placed, constraints, domain)
            first = first or (tried, domain.name)
            if tried.failed.outcome is Outcome.ERROR:
                break
        equivalence = self._equivalence(members, constraints)
        if first is None:
            return self._no_room(members, constraints, equivalence, explain=explain)
        return failed_together(group.waiting, *first, equivalence)

    def _equivalence(self, members: GroupMembers, constraints: Iterable[TopologyConstraint]) -> Hashable:
        """Return a value that is equal for groups that fit nowhere for the same reason; None if there is none."""
        asked = members.equivalence()
        if asked is None:
            return None
        near = tuple((each.key, each.required) for each in constraints)  # whichever object sets them
        return _FIT, self._algorithm.priority(members.group.waiting[0]), asked, near

    def _with_own_holds_first(self, found: Iterable[Domain], group: GroupStatus) -> Iterable[Domain]:
        """Sort the domains in which room is kept for the group's pods before the others."""
        nodes, holds = self._state.nodes, self._state.holds
        held = [hold.node for pod in group.waiting if (hold := holds.get(pod.uid)) is not None] if holds else []
        if not held:
            return found
        rows = [row for node in held if (row := nodes.row(node)) is not None]
        return sorted(found, key=lambda domain: not np.isin(rows, domain.rows).all())

    def constraints(self, group: GroupStatus) -> tuple[TopologyConstraint, ...]:
        """Return a group's topology constraints: those of its pods and object, then those of policies."""
        policies = (self._algorithm.classes.policy(pod).together for pod in group.waiting)
        of_policies = (constraint for constraint in policies if constraint is not None)
        return tuple(dict.fromkeys((*group.topology, *of_policies)))

    def _in_some_order(self, members: GroupMembers, domain: Domain, *, explain: bool) -> _Tried:
        """Try the pods on the same nodes in several orders; if all fail, return the failure of the first order."""
        group, class_of, order = members.group, members.class_of, list(members.hardest_first)
        tried, failures = set[tuple[Hashable, ...]](), list[Decision]()
        decisive: Decision | None = None
        while len(tried) < _MOST_ORDERS and (classes := tuple(class_of[pod.uid] for pod in order)) not in tried:
            tried.add(classes)
            found = self._in_order([(pod, domain.rows) for pod in order], group.needed, explain=explain)
            if found.failed is None:
                return found
            failures += found.others
            decisive = decisive or found.failed
            if found.failed.outcome is Outcome.ERROR:
                break
            failed = class_of[found.failed.uid]
            order.sort(key=lambda pod: class_of[pod.uid] != failed)
        assert decisive is not None, "a group has waiting pods"
        return _Tried((), tuple(failures), decisive)

    def _in_order(self, pods: Sequence[tuple[Pod, NDArray[np.int64]]], needed: int, *, explain: bool = False) -> _Tried:
        """Decide pods one after the other, each placement assumed, until as many are placed as are needed.

        Parameters
        ----------
        pods
            Each with the node rows that it may go to, shape (n,).
        """
        placed: list[Decision] = []
        others: list[Decision] = []
        events, before = ClusterEvent.NONE, self._reserver.before()
        try:
            for number, (pod, rows) in enumerate(pods):
                decision = self._algorithm.decide(pod, explain=explain, within=rows)
                if decision.placement is None:
                    others.append(decision)
                    if len(placed) + len(pods) - number - 1 < needed:
                        break
                    continue
                events |= self._reserver.reserve(pod, decision)
                placed.append(decision)
                if len(placed) == needed:
                    self._state.pending_events.events |= events
                    return _Tried(tuple(placed), tuple(others))
        except Exception:
            self._reserver.undo(placed, before)
            raise
        self._reserver.undo(placed, before)
        return _Tried((), tuple(others), others[-1])

    def _by_rank(
        self,
        members: GroupMembers,
        decisions: tuple[Decision, ...],
        constraints: Sequence[TopologyConstraint],
        domain: Domain,
    ) -> tuple[Decision, ...]:
        """Exchange the places of equivalent pods with an index, so that pods with neighbouring indexes are close."""
        wanted = members.by_rank(decisions, [each.key for each in constraints])
        if wanted is None:
            return decisions
        before = self._reserver.before()
        self._reserver.undo(decisions, before)
        found = self._in_order(wanted, len(wanted))
        if found.failed is None:  # keep the verdicts from when all nodes were asked
            asked = {each.uid: each for each in decisions}
            return tuple(
                replace(each, feasible=asked[each.uid].feasible, verdicts=asked[each.uid].verdicts)
                for each in found.placed
            )
        within_domain = [(members.pods[each.uid], domain.rows) for each in decisions]
        return self._in_order(within_domain, len(within_domain)).placed

    def _no_room(
        self,
        members: GroupMembers,
        constraints: Sequence[TopologyConstraint],
        equivalence: Hashable,
        *,
        explain: bool,
    ) -> tuple[Decision, ...]:
        """Return the decisions about a group that does not fit on the nodes together, or into any domain."""
        group, rows, lacking = members.group, self._state.nodes.rows(), members.lacking()
        alone = [(self._algorithm.decide(kind.pod, explain=explain), kind) for kind in lacking]
        failures = [decision for decision, _ in alone if decision.placement is None]
        never = sum(kind.number for decision, kind in alone if decision.placement is None)
        if len(group.waiting) - never < group.needed:
            return failed_together(group.waiting, _Tried((), tuple(failures), failures[0]), "", equivalence)
        required = [each for each in constraints if each.required]
        why = self._too_little(members, required) if required else ""
        if not why:
            scarcest = " and ".join(dict.fromkeys(kind.scarcest for kind in lacking if kind.scarcest))
            why = f"they have room for at most {members.room.within(rows)} of them: {scarcest}"
        decisions = lacks_room(group, rows.shape[0], why, failures, equivalence)
        return self._with_verdicts(members, decisions) if explain else decisions

    def _with_verdicts(self, members: GroupMembers, decisions: Sequence[Decision]) -> tuple[Decision, ...]:
        """Add the verdicts of the nodes on the pod that does not fit beside the others, if there is such a pod."""
        rows, before = self._state.nodes.rows(), self._reserver.before()
        order = [(pod, rows) for pod in members.hardest_first]
        tried = self._in_order(order, members.group.needed, explain=True)
        if tried.failed is None:
            self._reserver.undo(tried.placed, before)
            return tuple(decisions)
        found = tried.failed
        return tuple(
            replace(each, reasons=found.reasons, verdicts=found.verdicts, near_miss=found.near_miss)
            if each.uid == found.uid
            else each
            for each in decisions
        )

    def _too_little(self, members: GroupMembers, required: Sequence[TopologyConstraint]) -> str:
        """Say why a group fits into no domain; empty where it does not fit on all nodes together."""
        group, rows = members.group, self._state.nodes.rows()
        if members.room.within(rows) < group.needed:
            return ""
        keys = list(dict.fromkeys(each.key for each in required))
        labels = " and ".join(keys)
        sources = said_by(required)
        within = domains(self._state.nodes, keys, rows)
        if not within:
            return f"no node has label {labels}, of which they must share one value {sources}"
        room, name = max((members.room.within(each.rows), each.name) for each in within)
        if room < group.needed:
            return f"{labels} {name} has room for at most {room} of them, and others have no more {sources}"
        return f"its pods that run are not on nodes with one value of {labels} that has room for them {sources}"


def malformed(pod: Pod, problem: str) -> Decision:
    """Return the decision about a pod that cannot be a member of its group, or whose group cannot be placed."""
    return Decision(
        pod.uid, pod.key, Outcome.REFUSED, message=problem, another_node_helps=False, rejected_by=(PLUGIN,),
        helped_by=ClusterEvent.POD_UPDATE,
    )  # fmt: skip


def error_decision(pod: Pod, error: Exception) -> Decision:
    """Return the decision about a pod that was not decided because of an internal error."""
    return Decision(pod.uid, pod.key, Outcome.ERROR, message=internal_error(error), error=error)


def waits_for_group_members(pod: Pod, group: GroupStatus) -> Decision:
    """Return the decision about a pod that waits for others of its group to be created, or to be bound."""
    needs = f"{group.minimum} {'is' if group.minimum == 1 else 'are'} needed"
    if not group.needed:
        message = f"waits until the pods of its group {group.key} that are placed are bound: {needs}."
    elif group.missing_object:
        missing = f"{group.missing_object} {group.key}"
        message = f"{missing}, which says how many pods the group needs, {group.why_missing}."
    else:
        message = f"waits for other pods of its group {group.key}: {needs} before any is placed."
    return Decision(
        pod.uid, pod.key, Outcome.UNSCHEDULABLE, message=message, another_node_helps=False, rejected_by=(PLUGIN,)
    )


def missing_object_in(message: str) -> str:
    """Return the kind and key of the missing object that a pod's message says its group waits for; empty for none."""
    found = _MISSING.search(message)
    return found[1] if found else ""


def needed_pods_in(message: str) -> tuple[str, int] | None:
    """Return the group that a pod's message says waits for more of its pods, and how many it needs."""
    found = _INCOMPLETE.search(message)
    return (found[1], int(found[2])) if found else None


def other_member_in(message: str) -> tuple[str, str] | None:
    """Return the pod that a pod's message says its group waits for, and the reason."""
    found = _OTHER_MEMBER.search(message)
    return (found[1], found[2]) if found else None


def is_placed_as_group(message: str) -> bool:
    """Tell whether a message proves that its pod is placed with its group: the kind of the object is served."""
    return any(each in message for each in _AS_A_GROUP)


def is_incomplete(decision: Decision) -> bool:
    """Tell whether a decision is about a pod that waits only for other pods of its group."""
    return decision.outcome is Outcome.UNSCHEDULABLE and decision.rejected_by == (PLUGIN,)


def failed_together(pods: Sequence[Pod], tried: _Tried, domain: str, equivalence: Hashable) -> tuple[Decision, ...]:
    """Return the decisions about a group of which too many pods do not fit, that of the decisive pod first.

    Parameters
    ----------
    tried
        The failures, in any order: an event that helps one of these pods may help the group.
    domain
        Where they were tried together; empty for everywhere.
    equivalence
        Equal for groups that fail for the same reason; not used where nodes may be closed to this group alone.
    """
    assert tried.failed is not None, "the group was not placed"
    events, times = _helped_by(tried.others), [each.retry_at for each in tried.others if each.retry_at is not None]
    closed = bool(events & ClusterEvent.KUBELET_REJECTION)  # nodes, to this group alone perhaps
    where = f"in {domain}, where the group was tried first: " if domain else ""
    events |= OF_ONE_NODE if domain else ClusterEvent.NONE  # another domain may get room
    own = replace(
        tried.failed,
        helped_by=events,
        retry_at=min(times, default=None),
        message=f"{where}{tried.failed.message}",
        equivalence=None if closed or tried.failed.outcome is not Outcome.UNSCHEDULABLE else equivalence,
    )
    message = f"pod {own.pod}, {_TOGETHER}: {own.message}"
    others = replace(own, verdicts={}, near_miss=None, warnings=(), sources={}, message=message)
    if own.outcome is Outcome.REFUSED:  # only that pod is refused: the others wait for it to be replaced
        others = replace(others, outcome=Outcome.UNSCHEDULABLE)
    return (own, *(replace(others, uid=pod.uid, pod=pod.key) for pod in pods if pod.uid != own.uid))


def lacks_room(
    group: GroupStatus, nodes: int, why: str, failures: Sequence[Decision], equivalence: Hashable
) -> tuple[Decision, ...]:
    """Return the decisions about the pods of a group for which the nodes together do not have enough room.

    Parameters
    ----------
    nodes
        Number of nodes.
    failures
        The decisions about its pods that fit nowhere even alone.
    equivalence
        Equal for groups that fail for the same reason; not used where nodes may be closed to this group alone.
    """
    events = OF_ONE_NODE | ClusterEvent.QUOTA | _helped_by(failures)
    needed = f"{group.needed} pods" if group.needed > 1 else "a pod"
    message = f"0/{nodes} nodes are available: {_OF_GROUP}{group.key} needs {needed} to be placed at once, and {why}."
    return tuple(
        Decision(
            pod.uid, pod.key, Outcome.UNSCHEDULABLE, message=message, nodes=nodes, rejected_by=(_FIT,),
            helped_by=events, equivalence=None if events & ClusterEvent.KUBELET_REJECTION else equivalence,
        )
        for pod in group.waiting
    )  # fmt: skip


def is_about_group(why: str) -> bool:
    """Tell whether a condition's reason is that the nodes together do not have enough room for a group."""
    return why.startswith(_OF_GROUP)


def _helped_by(failures: Sequence[Decision]) -> ClusterEvent:
    """Return the events that could help any of the pods."""
    events = ClusterEvent.NONE
    for each in failures:
        events |= each.helped_by
    return events
