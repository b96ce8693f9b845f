"""Pods that depend on storage objects: what of these may be read and written, and what such pods say until then."""

from __future__ import annotations

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome, VolumePlan

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
"""The resources that binding volumes writes to."""


def needs_storage(pod: Pod) -> bool:
    """Tell whether storage objects decide where a pod can go."""
    return bool(pod.spec.claims) or any(disk.migrated for disk in pod.spec.disks)


class StorageAccess:
    """Whether storage objects are known, and which writes to them the API server denies.

    Attributes
    ----------
    synced
        Whether all kinds of storage objects are known; until then pods that need them wait, and nothing is said.
    unreadable
        Why they cannot become known; pods that need them then say so. Empty if nothing stands in the way.
    """

    def __init__(self) -> None:
        self.synced = True
        self.unreadable = ""
        self._denied: dict[str, str] = {}
        self._released = Hint.NONE

    def known(self) -> None:
        """Take in that all kinds are known now."""
        self.synced, self.unreadable = True, ""
        self._released = Hint.VOLUMES

    def unknown(self, problem: str = "") -> None:
        """Take in that some kind is not known, and why it cannot become known, if something stands in the way."""
        if problem and problem != self.unreadable:
            self._released = Hint.VOLUMES
        self.synced, self.unreadable = False, problem

    def deny(self, resource: str, problem: str) -> None:
        """Take in that the API server denies writes to ``persistentvolumeclaims`` or ``persistentvolumes``."""
        self._denied[resource] = problem

    def allow(self, resource: str) -> None:
        """Take in that it allows them again."""
        if self._denied.pop(resource, ""):
            self._released = Hint.VOLUMES

    def denial(self, plan: VolumePlan) -> str:
        """Return why a plan cannot be carried out; empty if nothing is known to stand in the way."""
        needed = ((VOLUMES, plan.matched), (CLAIMS, plan.provisioned))
        return next((self._denied[resource] for resource, claims in needed if claims and resource in self._denied), "")

    def take_released(self) -> Hint:
        """Return what changes since the last call may help."""
        released, self._released = self._released, Hint.NONE
        return released

    def decision(self, pod: Pod) -> Decision:
        """Return the decision about a pod that needs storage objects while not all of them are known."""
        if not self.unreadable:
            return Decision(pod.uid, pod.key, Outcome.WAITING, helped_by=Hint.VOLUMES)
        return Decision(
            pod.uid,
            pod.key,
            Outcome.UNSCHEDULABLE,
            message=self.unreadable,
            helped_by=Hint.VOLUMES,
            another_node_helps=False,
        )
