"""What volumes a node can take: kube-scheduler's NodeVolumeLimits and VolumeRestrictions for many nodes at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import AttachedVolume, Pod
from vgpu_scheduler.predicates.filters import ClusterPlugin, FilterError
from vgpu_scheduler.predicates.reasons import TOO_MANY_VOLUMES, Rejections
from vgpu_scheduler.predicates.volumes.common import VolumeFilter, existing_claims
from vgpu_scheduler.state import State

__all__ = ["NODE_VOLUME_LIMITS_PLUGIN"]

_REJECTIONS: Final = Rejections((TOO_MANY_VOLUMES,))
_TOO_MANY: Final = 1


def _key(pod: Pod, state: State) -> Hashable | None:
    del state
    return () if pod.spec.claims or any(disk.migrated for disk in pod.spec.disks) else None


class _Limits(VolumeFilter):
    """Keeps pods away from nodes where a driver could not attach their volumes beside those that are there."""

    rejections: Final = _REJECTIONS

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`.

        Raises
        ------
        FilterError
            If a disk of the pod has no CSI name, and some of the nodes have CSI drivers.
        """
        attached, capacity = self._state.volumes.attached, self._state.nodes.capacity
        for disk in pod.spec.disks:
            if disk.migrated is not None and disk.migrated.problem:
                with_drivers = attached.migrated_column(capacity).ids.take(rows) >= 0
                if with_drivers.any():
                    raise FilterError(f"converting volume from inline to csi: {disk.migrated.problem}")
        by_driver: dict[str, set[AttachedVolume]] = {}
        for volume in self._volumes(pod):
            by_driver.setdefault(volume[0], set()).add(volume)
        exceeded = [over for volumes in by_driver.values() if (over := self._over(volumes)) is not None]
        return np.logical_or.reduce(exceeded).take(rows) * np.int32(_TOO_MANY) if exceeded else None

    def _over(self, volumes: set[AttachedVolume]) -> NDArray[np.bool_] | None:
        """Return the nodes where a driver cannot attach some volumes of its, by row; None if there is none."""
        attached = self._state.volumes.attached
        driver, _ = next(iter(volumes))
        columns = attached.driver(driver, self._state.nodes.capacity)
        if columns is None:
            return None
        over: NDArray[np.bool_] = columns.left < len(volumes)
        if not over.any():
            return None
        there = Counter(row for volume in volumes for row in attached.used_on(volume))
        for row, known in there.items():  # these count already
            more = len(volumes) - known
            over[row] = more > 0 and columns.left[row] < more
        return over

    def _volumes(self, pod: Pod) -> list[AttachedVolume]:
        objects = self._state.volumes.objects
        claimed = [objects.attached_as(claim) for claim in existing_claims(pod, self._state)]
        disks = [(disk.migrated.driver, disk.migrated.handle) for disk in pod.spec.disks if disk.migrated is not None]
        return [volume for volume in (*claimed, *disks) if volume is not None]


NODE_VOLUME_LIMITS_PLUGIN: Final = ClusterPlugin("NodeVolumeLimits", _key, _Limits)
