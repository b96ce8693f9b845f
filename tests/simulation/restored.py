"""What a store that is restored from a backup does to a scheduler: the API server goes back in time."""

from __future__ import annotations

from hypothesis.stateful import precondition, rule
from tests.simulation.cluster import Snapshot
from tests.simulation.machine import SchedulerMachine
from tests.simulation.world import REACHED


class RestoringMachine(SchedulerMachine):
    """What can happen to any scheduler, and backups that are restored."""

    def __init__(self) -> None:
        self.backup: Snapshot | None = None
        super().__init__()

    @rule()
    def back_up(self) -> None:
        self.backup = self.api.snapshot()

    @precondition(lambda self: self.backup)
    @rule()
    def store_is_restored(self) -> None:
        """Go back in time. What was sent before has long been answered or given up when the servers are back."""
        assert self.backup is not None
        self._relist()
        self.api.restore(self.backup)
        self.listing = None
        self._lost_up_to = 0
        self.held_back.clear()
        self._note_disorder()
        answers, self.answers = self.answers, []
        for uid, _ in answers:
            self._settle(uid, "unknown")
        self._relist()
        REACHED["restored"] += 1

    def _note_disorder(self) -> None:
        """Note who may be where somebody else is, because what was decided since the backup meets what it has."""
        for pod in self.api.pods.values():
            self._disturb(pod)  # what was decided since may sit where a pod of old has come back
        for node, uuid, _ in self.api.held():
            self.disturbed.add((node, uuid))
        for placement in self.in_flight.values():
            for container in placement.containers:
                self.disturbed.update((placement.node, assignment.uuid) for assignment in container)
