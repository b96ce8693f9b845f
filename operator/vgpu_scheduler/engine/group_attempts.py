"""Groups are decided whole: as many of their pods are placed as are needed, or none."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.equivalence import Refused
from vgpu_scheduler.engine.pod_groups import GroupStanding
from vgpu_scheduler.engine.policy_report import EffectivePolicies
from vgpu_scheduler.engine.reserving import Reserver
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome, internal_error

__all__ = ["GroupAttempts", "is_incomplete", "malformed", "waits_for_others"]

PLUGIN: Final = "PodGroup"
"""What rejects pods of groups that are not complete."""
_MOST_ORDERS: Final = 8
"""In so many orders the pods of a group are tried."""


class _Tried(NamedTuple):
    """What came of one order.

    Attributes
    ----------
    placed
        As many placements as are needed; empty if that is not possible, and then nothing is left of any.
    others
        Why pods did not fit.
    failed
        The one of these after which too few were left; None if as many were placed as are needed.
    """

    placed: tuple[Decision, ...]
    others: tuple[Decision, ...]
    failed: Decision | None = None


class GroupAttempts:
    """Decides the pods of groups together.

    Parameters
    ----------
    cycle, policies, reserver
        What it works with.
    """

    def __init__(self, cycle: Cycle, policies: EffectivePolicies, reserver: Reserver) -> None:
        self._state = cycle.state
        self._cycle = cycle
        self._policies = policies
        self._reserver = reserver

    def decide(self, group: GroupStanding, *, explain: bool) -> tuple[Decision, ...]:
        """Decide as many of the waiting pods as are needed, each placement assumed; if they do not fit, none is.

        The hardest to place comes first. Where a pod does not fit beside those before it, the group is tried again with
        that one, and those that ask the same, ahead of all others, a few times.

        Returns
        -------
        tuple of Decision
            Of as many pods as are needed, all placed. Else one of each waiting pod: the outcome is that of the pod that
            did not fit in the first order, and all say which pod that was.
        """
        try:
            for pod in group.waiting:
                self._policies.decided(pod)
            return self._in_some_order(group, explain=explain)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's
            text = internal_error(error)
            return tuple(Decision(pod.uid, pod.key, Outcome.ERROR, message=text, error=error) for pod in group.waiting)

    def _in_some_order(self, group: GroupStanding, *, explain: bool) -> tuple[Decision, ...]:
        kind_of = {pod.uid: self._kind(pod) for pod in group.waiting}
        order = self._hardest_first(group.waiting, kind_of)
        tried, failures = set[tuple[Hashable, ...]](), list[Decision]()
        decisive: Decision | None = None
        while len(tried) < _MOST_ORDERS and (kinds := tuple(kind_of[pod.uid] for pod in order)) not in tried:
            tried.add(kinds)
            found = self._in_order(order, group.needed, explain=explain)
            if found.failed is None:
                return found.placed
            failures += found.others
            decisive = decisive or found.failed
            if found.failed.outcome is Outcome.ERROR:
                break
            failed = kind_of[found.failed.uid]
            order.sort(key=lambda pod: kind_of[pod.uid] != failed)
        assert decisive is not None, "a group has waiting pods"
        return failed_together(group.waiting, decisive, failures)

    def _in_order(self, pods: Sequence[Pod], needed: int, *, explain: bool) -> _Tried:
        """Decide pods one after the other, each placement assumed, until as many are placed as are needed."""
        placed: list[Decision] = []
        others: list[Decision] = []
        hints, before = Hint.NONE, self._reserver.before()
        try:
            for number, pod in enumerate(pods):
                decision = self._cycle.decide(pod, explain=explain)
                if decision.placement is None:
                    others.append(decision)
                    if len(placed) + len(pods) - number - 1 < needed:
                        break
                    continue
                hints |= self._reserver.reserve(pod, decision)
                placed.append(decision)
                if len(placed) == needed:
                    self._state.wakes.hints |= hints
                    return _Tried(tuple(placed), tuple(others))
        except Exception:
            self._reserver.undo(placed, before)
            raise
        self._reserver.undo(placed, before)
        return _Tried((), tuple(others), others[-1])

    def _hardest_first(self, pods: Sequence[Pod], kind_of: Mapping[str, Hashable]) -> list[Pod]:
        """Return pods in the order in which they are placed: the one that fits on the fewest nodes first.

        Of those that fit on as many, the one comes first that claims the most devices, then the most of each.

        Parameters
        ----------
        kind_of
            What each has in common with others, by UID: these are as hard to place.
        """
        hardness: dict[Hashable, tuple[int, int, tuple[int, ...]]] = {}
        for pod in pods:
            if kind_of[pod.uid] not in hardness:
                hardness[kind_of[pod.uid]] = self._hardness(pod)
        return sorted(pods, key=lambda pod: hardness[kind_of[pod.uid]])

    def _kind(self, pod: Pod) -> Hashable:
        """Return what pods have in common that ask the same of a node: their order among each other does not matter."""
        found = self._cycle.classes.of(pod)
        return None if isinstance(found, Refused) else found.node

    def _hardness(self, pod: Pod) -> tuple[int, int, tuple[int, ...]]:
        claimed = self._cycle.classes.claimed(pod)
        if claimed is None:
            return 0, 0, ()  # it is refused, and the group with it
        claims = [claim for container in claimed.claims for claim in container.claims]
        amounts = max(((*claim.amounts, *claim.percent) for claim in claims), default=())
        return (
            self._cycle.nodes_that_fit(pod),
            -sum(claim.count for claim in claims),
            tuple(-amount for amount in amounts),
        )


def malformed(pod: Pod, problem: str) -> Decision:
    """Return the decision about a pod that can be no member of its group, or whose group is not placed."""
    return Decision(
        pod.uid, pod.key, Outcome.REFUSED, message=problem, another_node_helps=False, rejected_by=(PLUGIN,),
        helped_by=Hint.POD,
    )  # fmt: skip


def waits_for_others(pod: Pod, group: GroupStanding) -> Decision:
    """Return the decision about a pod that waits for others of its group: for them to come, or to be bound."""
    if not group.needed:
        message = (
            f"waits until the pods of its group {group.key} that are placed are bound: {group.minimum} are needed."
        )
    elif group.missing_object:
        missing = f"{group.missing_object} {group.key}"
        message = f"{missing}, which says how many pods the group needs, {group.why_missing}."
    else:
        message = f"waits for other pods of its group {group.key}: {group.minimum} are needed before any is placed."
    return Decision(
        pod.uid, pod.key, Outcome.UNSCHEDULABLE, message=message, another_node_helps=False, rejected_by=(PLUGIN,)
    )


def is_incomplete(decision: Decision) -> bool:
    """Tell whether a decision is about a pod that waits for nothing but others of its group."""
    return decision.outcome is Outcome.UNSCHEDULABLE and decision.rejected_by == (PLUGIN,)


def failed_together(pods: Sequence[Pod], decisive: Decision, failures: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions about the pods of a group of which too many do not fit, that of the decisive one first.

    Parameters
    ----------
    decisive
        The one without which as many would fit as are needed.
    failures
        All that were met, in whichever order: what helps any of them may help the group.
    """
    hints, times = Hint.NONE, [each.again_at for each in failures if each.again_at is not None]
    for each in failures:
        hints |= each.helped_by
    own = replace(decisive, helped_by=hints, again_at=min(times, default=None))
    message = f"pod {own.pod}, which is placed together with this one: {own.message}"
    others = replace(own, verdicts={}, near_miss=None, warnings=(), message=message)
    if own.outcome is Outcome.REFUSED:  # that is one pod's: the others wait for another one
        others = replace(others, outcome=Outcome.UNSCHEDULABLE)
    return (own, *(replace(others, uid=pod.uid, pod=pod.key) for pod in pods if pod.uid != own.uid))
