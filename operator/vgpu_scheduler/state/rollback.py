"""Undoes what trial placements change beside the ledger: the room that is kept for pods, and who is to be woken."""

from __future__ import annotations

from vgpu_scheduler.state.state import State

__all__ = ["StateBeforeRollback"]


class StateBeforeRollback:
    """The room that is kept for pods, and the namespaces that gave devices back, before something is tried.

    Parameters
    ----------
    state
        What is tried on.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._holds = {hold.uid: hold for hold in state.holds}
        self._returned = frozenset(state.wakes.returned)

    def restore(self) -> None:
        """Keep the same room again, and no other; placements that were assumed since must have been taken back."""
        state = self._state
        for hold in list(state.holds):
            if self._holds.get(hold.uid) is not hold:
                state.give_up(hold.uid)
        for uid, hold in self._holds.items():
            if state.holds.get(uid) is None:
                state.keep(hold)
        state.wakes.returned.intersection_update(self._returned)
