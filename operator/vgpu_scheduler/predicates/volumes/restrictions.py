"""Disks and claims that pods must not share: kube-scheduler's VolumeRestrictions for many nodes at once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import READ_WRITE_ONCE_POD, Pod
from vgpu_scheduler.predicates.filters import ClusterPlugin
from vgpu_scheduler.predicates.reasons import CLAIM_IN_USE, DISK_IN_USE, Reason, Rejections, volume_problem
from vgpu_scheduler.predicates.volumes.common import VolumeFilter, claims_of
from vgpu_scheduler.state import State

__all__ = ["VOLUME_RESTRICTIONS_PLUGIN"]

_NAME: Final = "VolumeRestrictions"
_REJECTIONS: Final = Rejections((DISK_IN_USE, CLAIM_IN_USE))
_DISK, _CLAIM = 1, 2


def _key(pod: Pod, state: State) -> Hashable | None:
    del state
    return () if pod.spec.claims or any(disk.keys for disk in pod.spec.disks) else None


class _Restrictions(VolumeFilter):
    """Keeps pods away from disks in use on a node, and from claims that one pod has for itself."""

    rejections: Final = _REJECTIONS

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return that a claim that the pod names is not there."""
        for named in claims_of(pod, self._state):
            if named.claim is None and not named.ephemeral:
                return volume_problem(_NAME, f'persistentvolumeclaim "{named.name}" not found')
        return None

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        in_use = self._claim_in_use(pod)
        busy = self._nodes_with_disks_of(pod)
        if not busy and not in_use:
            return None
        codes = np.full(rows.shape[0], _CLAIM if in_use else Rejections.PASSES, dtype=np.int32)
        codes[np.isin(rows, busy)] = _DISK
        return codes

    def _claim_in_use(self, pod: Pod) -> bool:
        """Tell whether a pod on some node uses a claim that only one pod may use."""
        nodes, volumes = self._state.nodes, self._state.volumes
        return any(
            node in nodes
            for key, ephemeral, claim in claims_of(pod, self._state)
            if claim is not None and not ephemeral and READ_WRITE_ONCE_POD in claim.access_modes
            for node in volumes.pods_of(key)
        )

    def _nodes_with_disks_of(self, pod: Pod) -> list[int]:
        """Return the rows where somebody uses one of the pod's disks; those who only read may share it."""
        used = (
            (node, disk.read_only, use)
            for disk in pod.spec.disks
            for key in disk.keys
            for node, use in self._state.volumes.disk_use(key).items()
        )
        found = {self._state.nodes.row(node) for node, read_only, use in used if use.writers or not read_only}
        return [row for row in found if row is not None]


VOLUME_RESTRICTIONS_PLUGIN: Final = ClusterPlugin(_NAME, _key, _Restrictions)
