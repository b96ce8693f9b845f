"""Pods that depend on storage objects: they wait, and nothing is said, until all of those are known."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome


class StorageNeeds:
    """Who needs storage objects, and whether those are known.

    Parameters
    ----------
    queue
        The pods that wait.

    Attributes
    ----------
    synced
        Whether all kinds are known; a user who has all objects at once need not say so.
    """

    def __init__(self, queue: SchedulingQueue) -> None:
        self.synced = True
        self._queue = queue
        self._pods: dict[str, None] = {}  # those that wait no more are left out when somebody asks

    def note(self, pod: Pod) -> None:
        """Take in a pod that waits."""
        if _needs_storage(pod):
            self._pods[pod.uid] = None

    @property
    def any(self) -> bool:
        """Whether a pod that is not bound yet needs them."""
        while self._pods:
            uid = next(iter(self._pods))
            if uid in self._queue:
                return True
            del self._pods[uid]
        return False

    def hold_back(self, pods: Sequence[Pod]) -> tuple[Decision, ...]:
        """Return the decisions about pods that cannot be decided together yet; empty if they can."""
        if self.synced or not any(_needs_storage(pod) for pod in pods):
            return ()
        return tuple(Decision(pod.uid, pod.key, Outcome.WAITING, helped_by=Hint.VOLUMES) for pod in pods)


def _needs_storage(pod: Pod) -> bool:
    return bool(pod.spec.claims) or any(disk.migrated for disk in pod.spec.disks)
