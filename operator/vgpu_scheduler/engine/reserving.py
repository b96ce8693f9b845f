"""Reserving what was decided: placements are assumed, and the room that was kept for the pods is theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint
from vgpu_scheduler.state import Hold, State

__all__ = ["Before", "Reserver"]


@dataclass(frozen=True, slots=True)
class Before:
    """What placements that are taken back must leave as it was.

    Attributes
    ----------
    holds
        The room that is kept for pods.
    returned
        The namespaces whose pods have given devices back, which nobody was woken for yet.
    """

    holds: tuple[Hold, ...]
    returned: frozenset[str]


class Reserver:
    """Reserves placements.

    Parameters
    ----------
    state
        Where they are assumed.
    preemptions
        Knows for whom room is kept.
    """

    def __init__(self, state: State, preemptions: Preemptions) -> None:
        self._state = state
        self._preemptions = preemptions

    def reserve(self, pod: Pod, decision: Decision) -> Hint:
        """Assume a placement that was decided; return what that may help.

        It takes the room that is kept for the pod, or gives up that of lower priorities which it needs.
        """
        assert decision.placement is not None
        for uid in decision.displaces:
            self._state.give_up(uid)
        self._preemptions.consume_hold(decision)
        usage = placement_usage(decision.placement, decision.claims)
        return self._state.assume(pod.uid, decision.placement, usage, pod.spec.requests)

    def before(self) -> Before:
        """Return what placements that may be taken back have to leave as it is."""
        return Before(tuple(self._state.holds), frozenset(self._state.wakes.returned))

    def undo(self, placed: Sequence[Decision], before: Before) -> None:
        """Take placements back that were reserved since; nobody is woken by that."""
        for decision in reversed(placed):
            self._state.undo(decision.uid)
        for hold in before.holds:
            if self._state.holds.get(hold.uid) is None:
                self._state.keep(hold)
        self._preemptions.not_consumed(decision.uid for decision in placed)
        self._state.wakes.returned.intersection_update(before.returned)
