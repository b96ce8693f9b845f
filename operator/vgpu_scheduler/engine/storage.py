"""Pods that depend on storage objects: who they are, what of these is known and may be written, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome, VolumePlan, WakeSet

VOLUME_CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
"""The resources that binding volumes writes to."""

_ANY = ClusterEvent.STORAGE | ClusterEvent.ATTACH_LIMIT
"""What may help where not everything that happened to storage objects was seen."""


class StorageAccess:
    """Who needs storage objects, whether those are known, and which writes to them the API server denies.

    Parameters
    ----------
    wakes
        Where it is noted what may help the pods that wait.

    Attributes
    ----------
    synced
        Whether all kinds are known; until then pods that need them wait, and nothing is said. A user who has all
        objects at once need not say so.
    unreadable
        Why they cannot become known; pods that need them then say so. Empty if nothing stands in the way.
    """

    def __init__(self, wakes: WakeSet) -> None:
        self.synced = True
        self.unreadable = ""
        self._wakes = wakes
        self._pods: set[str] = set()
        self._by_volume_claim: dict[str, dict[str, None]] = {}
        self._denied: dict[tuple[str, str], str] = {}  # by resource and namespace

    # Who needs them --------------------------------------------------------------------------------------------------

    def note(self, pod: Pod) -> None:
        """Take in a pod that waits."""
        if _needs_storage(pod):
            self._pods.add(pod.uid)
        for key in _volume_claims(pod):
            self._by_volume_claim.setdefault(key, {})[pod.uid] = None

    def forget(self, pod: Pod) -> None:
        """Take in that a pod waits no more."""
        self._pods.discard(pod.uid)
        for key in _volume_claims(pod):
            uids = self._by_volume_claim.get(key, {})
            uids.pop(pod.uid, None)
            if not uids:
                self._by_volume_claim.pop(key, None)

    def changed(self, event: ClusterEvent, volume_claims: Iterable[str] = ()) -> None:
        """Take in that an object has changed that volume claims depend on, by ``namespace/name``, and whom it may help.

        A volume claim means nothing to pods that do not name it.
        """
        if self.synced:  # else the pods that wait for these objects are tried when all of them are known
            for key in volume_claims:
                self._wakes.pods.update(
                    dict.fromkeys(self._by_volume_claim.get(key, ()), QueueEvent.VOLUME_CLAIM_UPDATE)
                )
            self._wakes.events |= event

    @property
    def needed(self) -> bool:
        """Whether a pod that is not bound yet names volume claims or in-tree disks."""
        return bool(self._pods)

    def hold_back(self, pods: Sequence[Pod]) -> tuple[Decision, ...]:
        """Return the decisions about pods that cannot be decided together yet; empty if they can."""
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

    def known(self) -> None:
        """Take in that all kinds are known now.

        While they were not, nobody was told of changes of his volume claims, so that those who were alike may be so no
        more: each is tried.
        """
        if not self.synced:
            for uids in self._by_volume_claim.values():
                self._wakes.pods.update(dict.fromkeys(uids, QueueEvent.STORAGE_UPDATE))
        self.synced, self.unreadable = True, ""
        self._wakes.events |= _ANY

    def unknown(self, problem: str = "") -> None:
        """Take in that some kind is not known, and why it cannot become known, if something stands in the way."""
        if problem and problem != self.unreadable:
            self._wakes.events |= _ANY
        self.synced, self.unreadable = False, problem

    # What may be written ---------------------------------------------------------------------------------------------

    def deny(self, resource: str, problem: str, namespace: str = "") -> None:
        """Take in that the API server denies writes to the volume claims of a namespace, or to volumes (of none)."""
        self._denied[resource, namespace] = problem

    def allow(self, resource: str, namespace: str = "") -> None:
        """Take in that it allows them again."""
        if self._denied.pop((resource, namespace), ""):
            self._wakes.events |= ClusterEvent.STORAGE

    def denial(self, plan: VolumePlan) -> str:
        """Return why a plan cannot be carried out; empty if nothing is known to stand in the way."""
        if not self._denied:
            return ""
        needed = [(VOLUMES, "")] if plan.matched else []
        needed += ((VOLUME_CLAIMS, claim.partition("/")[0]) for claim in plan.provisioned)
        return next((self._denied[right] for right in needed if right in self._denied), "")


def _volume_claims(pod: Pod) -> Iterator[str]:
    return (f"{pod.namespace}/{claim.claim(pod.name)}" for claim in pod.spec.volume_claims)


def _needs_storage(pod: Pod) -> bool:
    return bool(pod.spec.volume_claims) or any(disk.migrated for disk in pod.spec.disks)
