"""What can be asked about the scheduling queue: which pods wait, where, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from vgpu_scheduler.engine.queued_pods import (
    ActivePods,
    QueuedPod,
    QueueName,
    RetryBasis,
    UnschedulableClass,
    UnschedulablePods,
)
from vgpu_scheduler.model import ClusterEvent


class QueueReader:
    """Read access to the pods that wait to be placed; ``SchedulingQueue`` changes them.

    Parameters
    ----------
    dissolved
        Called with each class of unschedulable pods when its last pod leaves.
    """

    def __init__(self, dissolved: Callable[[UnschedulableClass], None]) -> None:
        self._entries: dict[str, QueuedPod] = {}
        self._active = ActivePods()
        self._unschedulable = UnschedulablePods(dissolved)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def counts(self) -> Mapping[QueueName, int]:
        """Return how many pods wait in each place."""
        counts = Counter(entry.place for entry in self._entries.values())
        return {place: counts[place] for place in QueueName}

    def place(self, uid: str) -> QueueName | None:
        """Return where a pod waits, or None."""
        entry = self._entries.get(uid)
        return entry.place if entry else None

    def rejected(self) -> Iterator[tuple[str, str]]:
        """Yield (UID, plugin or card reason) for each rejection of the pods that wait after an attempt."""
        return ((uid, plugin) for uid, entry in self._entries.items() for plugin in entry.rejected_by)

    def waiting_since(self) -> Iterator[tuple[str, float]]:
        """Yield each waiting pod with the time at which it was first seen."""
        return ((uid, entry.waiting_since) for uid, entry in self._entries.items())

    @property
    def ready(self) -> bool:
        """Whether any pod is active."""
        return bool(self._active)

    def attempts(self, uid: str) -> int:
        """Return how often a pod was tried since it was first seen."""
        entry = self._entries.get(uid)
        return entry.attempts if entry else 0

    def moves(self, uid: str) -> int:
        """Return how often a pod has been moved away from a slow node since it was first seen."""
        entry = self._entries.get(uid)
        return entry.moves if entry else 0

    def waited(self, uid: str, now: float) -> float:
        """Return how long ago a pod was first seen, in seconds."""
        entry = self._entries.get(uid)
        return now - entry.waiting_since if entry else 0.0

    def retry_basis(self, uid: str) -> RetryBasis | None:
        """Return what the next attempt of a pod may rely on, if it needs to try only nodes that have changed since."""
        entry = self._entries.get(uid)
        return entry.retry_basis if entry else None

    def unschedulable(self, waits_for: ClusterEvent | None = None) -> Iterator[str]:
        """Yield the unschedulable pods; with ``waits_for``, those that one of these events could help."""
        keys = [key for key in self._unschedulable.all() if waits_for is None or key.waits_for & waits_for]
        return (uid for key in keys for uid in self._unschedulable.uids(key))

    def anybody_waits_for(self, events: ClusterEvent) -> bool:
        """Tell whether one of the events could help an unschedulable pod."""
        return self._unschedulable.any_for(events)
