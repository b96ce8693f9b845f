"""Undoes the changes of trial placements outside the ledger: holds, and the namespaces whose pods are woken."""

from __future__ import annotations

from vgpu_scheduler.state.state import State


class Savepoint:
    """A snapshot of the holds, and of the namespaces that gave devices back, before a trial placement.

    Parameters
    ----------
    state
        The state on which the placement is tried.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._holds = {hold.uid: hold for hold in state.holds}
        self._quota_freed = frozenset(state.pending_events.quota_freed)

    def restore(self) -> None:
        """Restore the holds; placements that were assumed since must have been undone."""
        state = self._state
        for hold in list(state.holds):
            if self._holds.get(hold.uid) is not hold:
                state.give_up(hold.uid)
        for uid, hold in self._holds.items():
            if state.holds.get(uid) is None:
                state.add_hold(hold)
        state.pending_events.quota_freed.intersection_update(self._quota_freed)
