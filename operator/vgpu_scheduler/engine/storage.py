"""Pods that depend on storage objects: which pods they are, whether the objects are known, and may be written to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.kube import API_RESOURCES, Pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome, PendingEvents, VolumePlan

_VOLUME_CLAIMS: Final = API_RESOURCES["PersistentVolumeClaim"]
_VOLUMES: Final = API_RESOURCES["PersistentVolume"]
"""The resources that are written to when volumes are bound."""

_ANY = ClusterEvent.STORAGE | ClusterEvent.ATTACH_LIMIT
"""The events that may help where some events about storage objects were not seen."""


class StorageAccess:
    """Tracks which pods need storage objects, whether those are known, and which writes to them are denied.

    Parameters
    ----------
    pending_events
        Records what may help waiting pods.

    Attributes
    ----------
    synced
        Whether all kinds are known; until then pods that need them wait, and nothing is reported. It is true from the
        start for callers that have all objects at once.
    unreadable
        Why the kinds cannot become known, reported for pods that need them; empty if nothing is in the way.
    """

    def __init__(self, pending_events: PendingEvents) -> None:
        self.synced = True
        self.unreadable = ""
        self._pending_events = pending_events
        self._pods: set[str] = set()
        self._by_volume_claim: dict[str, dict[str, None]] = {}
        self._denied: dict[tuple[str, str], str] = {}  # by resource and namespace

    # Pods that need storage objects ----------------------------------------------------------------------------------

    def note(self, pod: Pod) -> None:
        """Take in a waiting pod."""
        if _needs_storage(pod):
            self._pods.add(pod.uid)
        for key in _volume_claims(pod):
            self._by_volume_claim.setdefault(key, {})[pod.uid] = None

    def forget(self, pod: Pod) -> None:
        """Note that a pod no longer waits."""
        self._pods.discard(pod.uid)
        for key in _volume_claims(pod):
            uids = self._by_volume_claim.get(key, {})
            uids.pop(pod.uid, None)
            if not uids:
                self._by_volume_claim.pop(key, None)

    def changed(self, event: ClusterEvent, volume_claims: Iterable[str] = ()) -> None:
        """Take in a change of a storage object: the event, and the affected volume claims by ``namespace/name``.

        A volume claim affects only the pods that name it.
        """
        if self.synced:  # else all waiting pods that need storage objects are tried once these are known
            for key in volume_claims:
                self._pending_events.pods.update(
                    dict.fromkeys(self._by_volume_claim.get(key, ()), QueueEvent.VOLUME_CLAIM_UPDATE)
                )
            self._pending_events.events |= event

    @property
    def needed(self) -> bool:
        """Whether any pod that is not bound yet names volume claims or in-tree disks."""
        return bool(self._pods)

    def decisions_before_sync(self, pods: Sequence[Pod]) -> tuple[Decision, ...]:
        """Return the decisions about pods that must wait for storage objects; empty if they need not."""
        if self.synced or not any(_needs_storage(pod) for pod in pods):
            return ()
        outcome = Outcome.UNSCHEDULABLE if self.unreadable else Outcome.NOT_READY
        return tuple(
            Decision(
                pod.uid,
                pod.key,
                outcome,
                message=self.unreadable,
                helped_by=ClusterEvent.STORAGE,
                rejected_by=("VolumeBinding",),
                another_node_helps=False,
            )
            for pod in pods
        )

    # What is known ---------------------------------------------------------------------------------------------------

    def mark_synced(self) -> None:
        """Note that all kinds are known now.

        Until now no pod was woken for its volume claims, and pods that were equivalent may not be any more: so each
        pod is tried.
        """
        if not self.synced:
            for uids in self._by_volume_claim.values():
                self._pending_events.pods.update(dict.fromkeys(uids, QueueEvent.STORAGE_UPDATE))
        self.synced, self.unreadable = True, ""
        self._pending_events.events |= _ANY

    def mark_unsynced(self, problem: str = "") -> None:
        """Note that some kind is not known, and why it cannot become known, if there is a reason."""
        if problem and problem != self.unreadable:
            self._pending_events.events |= _ANY
        self.synced, self.unreadable = False, problem

    # What may be written ---------------------------------------------------------------------------------------------

    def deny(self, resource: str, problem: str, namespace: str = "") -> None:
        """Note that the API server denies writes to volume claims of a namespace, or to volumes (no namespace)."""
        self._denied[resource, namespace] = problem

    def allow(self, resource: str, namespace: str = "") -> None:
        """Note that such writes are allowed again."""
        if self._denied.pop((resource, namespace), ""):
            self._pending_events.events |= ClusterEvent.STORAGE

    def denial(self, plan: VolumePlan) -> str:
        """Return why a volume plan cannot be carried out; empty if no reason is known."""
        if not self._denied:
            return ""
        needed = [(_VOLUMES.plural, "")] if plan.matched else []
        needed += ((_VOLUME_CLAIMS.plural, claim.partition("/")[0]) for claim in plan.provisioned)
        return next((self._denied[right] for right in needed if right in self._denied), "")


def _volume_claims(pod: Pod) -> Iterator[str]:
    return (f"{pod.namespace}/{claim.claim(pod.name)}" for claim in pod.spec.volume_claims)


def _needs_storage(pod: Pod) -> bool:
    return bool(pod.spec.volume_claims) or any(disk.migrated for disk in pod.spec.disks)
