"""Pods that depend on storage objects: they wait, and nothing is said, until all of those are known."""

from __future__ import annotations

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome


def needs_storage(pod: Pod) -> bool:
    """Tell whether storage objects decide where a pod can go."""
    return bool(pod.spec.claims) or any(disk.migrated for disk in pod.spec.disks)


def waiting_for_storage(pod: Pod) -> Decision:
    """Return the decision about a pod while not all kinds of storage objects are known."""
    return Decision(pod.uid, pod.key, Outcome.WAITING, helped_by=Hint.VOLUMES)
