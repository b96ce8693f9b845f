"""kube-scheduler's VolumeRestrictions, NodeVolumeLimits and VolumeZone, and the base of all volume filters.

One filter of each plugin serves all pods: it keeps no pod data, and reads the claims again for each decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import (
    READ_WRITE_ONCE_POD,
    ZONE_DELIMITER,
    ZONE_LABELS,
    AttachedVolume,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    PersistentVolumeClaim,
    Pod,
    Requirement,
    Volume,
)
from vgpu_scheduler.model import BoundedCache, bytes_of
from vgpu_scheduler.predicates.filters import ClusterFilter, ClusterPlugin, FilterError
from vgpu_scheduler.predicates.lookups import TermLookup
from vgpu_scheduler.predicates.reasons import (
    CLAIM_IN_USE,
    DISK_IN_USE,
    TOO_MANY_VOLUMES,
    WRONG_ZONE,
    Reason,
    RejectionCodes,
    volume_problem,
)
from vgpu_scheduler.predicates.volumes.claim_messages import MissingVolumeClaim
from vgpu_scheduler.state import NodeTable, State, VolumeRequirement

_MOST_BYTES: Final = 4 * 2**20
"""Bytes that cached selectors may take."""
_LOOKUP: Final = 4 * 2**10
"""Bytes that a cached selector takes in addition: one per value of its labels."""
_PENDING: Final = "Pending"


class NamedClaim(NamedTuple):
    """A claim that a pod names; ``claim`` is None if it does not exist."""

    key: str
    ephemeral: bool
    claim: PersistentVolumeClaim | None

    @property
    def name(self) -> str:
        """The claim's name."""
        return self.key.partition("/")[2]


def has_volume_claims(pod: Pod, state: State) -> Hashable | None:
    """Return a key for pods with claims: one filter serves all of them."""
    del state
    return () if pod.spec.volume_claims else None


def volume_claims_of(pod: Pod, state: State) -> Iterator[NamedClaim]:
    """Yield the current claims of a pod in the order of its volumes; a claim may occur twice."""
    for volume in pod.spec.volume_claims:
        key = f"{pod.namespace}/{volume.claim(pod.name)}"
        yield NamedClaim(key, volume.ephemeral, state.volumes.objects.claims.get(key))


def existing_volume_claims(pod: Pod, state: State) -> Iterator[PersistentVolumeClaim]:
    """Yield the existing claims of a pod, each once, in the order of its volumes."""
    seen = set()
    for key, _, claim in volume_claims_of(pod, state):
        if claim is not None and key not in seen:
            seen.add(key)
            yield claim


class SelectedNodes:
    """Evaluates node selectors for many nodes; each requirement is evaluated once per distinct value of a label.

    Parameters
    ----------
    nodes
        The nodes.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._lookups: BoundedCache[NodeSelector, list[TermLookup]] = BoundedCache(_MOST_BYTES)

    def __call__(self, selector: NodeSelector, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each of the rows whether it is selected; shape as ``rows``."""
        lookups = self._lookups.get(selector)
        if lookups is None:
            lookups = [TermLookup(term) for term in selector.terms]
            self._lookups.put(selector, lookups, bytes_of(selector) + _LOOKUP)
        selected = np.zeros(rows.shape[0], dtype=np.bool_)
        for lookup in lookups:
            selected |= lookup(self._nodes, rows)
        return selected


class VolumeFilter(ClusterFilter):
    """Base of the volume filters.

    Parameters
    ----------
    pod
        Any pod.
    state
        What is known.
    """

    def __init__(self, pod: Pod, state: State) -> None:
        del pod
        self._state = state
        self._selected = SelectedNodes(state.nodes)

    def equivalence(self, pod: Pod) -> Hashable:
        """Return the disks and claims of the pod; claims that any free volume can serve only by their requirements."""
        volumes = self._state.volumes
        asked: list[Hashable] = []
        for key, ephemeral, claim in volume_claims_of(pod, self._state):
            open_to_all = (
                claim is not None
                and not (claim.volume_name or claim.deleting)
                and claim.phase == _PENDING
                and not (ephemeral and claim.controller != pod.uid)
                and READ_WRITE_ONCE_POD not in claim.access_modes
                and volumes.selected_node(claim) is None
                and volumes.kept_for(claim) is None
            )
            asked.append((claim.class_name, VolumeRequirement.by(claim)) if claim is not None and open_to_all else key)
        return pod.spec.disks, tuple(asked)


_LIMIT_REJECTIONS: Final = RejectionCodes((TOO_MANY_VOLUMES,))
_TOO_MANY: Final = 1


def _limit_key(pod: Pod, state: State) -> Hashable | None:
    del state
    return () if pod.spec.volume_claims or any(disk.migrated for disk in pod.spec.disks) else None


class _Limits(VolumeFilter):
    """Rejects nodes where a driver's attach limit leaves too little room for the pod's volumes."""

    rejections: Final = _LIMIT_REJECTIONS

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
        """Return by node row where a driver cannot attach some of its volumes; None if it can everywhere."""
        attached = self._state.volumes.attached
        driver, _ = next(iter(volumes))
        columns = attached.driver(driver, self._state.nodes.capacity)
        if columns is None:
            return None
        over: NDArray[np.bool_] = columns.remaining < len(volumes)
        if not over.any():
            return None
        there = Counter(row for volume in volumes for row in attached.used_on(volume))
        for row, known in there.items():  # volumes in use on a node count there already
            more = len(volumes) - known
            over[row] = more > 0 and columns.remaining[row] < more
        return over

    def _volumes(self, pod: Pod) -> list[AttachedVolume]:
        objects = self._state.volumes.objects
        claimed = [objects.attached_as(claim) for claim in existing_volume_claims(pod, self._state)]
        disks = [(disk.migrated.driver, disk.migrated.handle) for disk in pod.spec.disks if disk.migrated is not None]
        return [volume for volume in (*claimed, *disks) if volume is not None]


NODE_VOLUME_LIMITS_PLUGIN: Final = ClusterPlugin("NodeVolumeLimits", _limit_key, _Limits)


_RESTRICTIONS: Final = "VolumeRestrictions"
_RESTRICTION_REJECTIONS: Final = RejectionCodes((DISK_IN_USE, CLAIM_IN_USE))
_DISK, _CLAIM = 1, 2


def _restriction_key(pod: Pod, state: State) -> Hashable | None:
    del state
    return () if pod.spec.volume_claims or any(disk.keys for disk in pod.spec.disks) else None


class _Restrictions(VolumeFilter):
    """Rejects nodes where a disk of the pod is in use, and all nodes if a ReadWriteOncePod claim is in use."""

    rejections: Final = _RESTRICTION_REJECTIONS

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return the reason if a claim that the pod names does not exist."""
        for named in volume_claims_of(pod, self._state):
            if named.claim is None and not named.ephemeral:
                return volume_problem(_RESTRICTIONS, str(MissingVolumeClaim(named.name)))
        return None

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        in_use = self._claim_in_use(pod)
        busy = self._nodes_with_disks_of(pod)
        if not busy and not in_use:
            return None
        codes = np.full(rows.shape[0], _CLAIM if in_use else RejectionCodes.PASSES, dtype=np.int32)
        codes[np.isin(rows, busy)] = _DISK
        return codes

    def _claim_in_use(self, pod: Pod) -> bool:
        """Tell whether a pod on some node uses one of the pod's ReadWriteOncePod claims."""
        nodes, volumes = self._state.nodes, self._state.volumes
        return any(
            node in nodes
            for key, ephemeral, claim in volume_claims_of(pod, self._state)
            if claim is not None and not ephemeral and READ_WRITE_ONCE_POD in claim.access_modes
            for node in volumes.pods_of(key)
        )

    def _nodes_with_disks_of(self, pod: Pod) -> list[int]:
        """Return the rows where another pod uses one of the pod's disks; readers may share a disk."""
        used = (
            (node, disk.read_only, use)
            for disk in pod.spec.disks
            for key in disk.keys
            for node, use in self._state.volumes.disk_use(key).items()
        )
        found = {self._state.nodes.row(node) for node, read_only, use in used if use.writers or not read_only}
        return [row for row in found if row is not None]


VOLUME_RESTRICTIONS_PLUGIN: Final = ClusterPlugin(_RESTRICTIONS, _restriction_key, _Restrictions)


_ZONE: Final = "VolumeZone"
_ZONE_REJECTIONS: Final = RejectionCodes((WRONG_ZONE,))


class _Zones(VolumeFilter):
    """Rejects nodes outside the zones or regions of the pod's volumes."""

    rejections: Final = _ZONE_REJECTIONS

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return the reason if the volume of a claim does not exist."""
        for _, ephemeral, claim in volume_claims_of(pod, self._state):
            if claim is None or ephemeral or not claim.volume_name:
                continue
            if claim.volume_name not in self._state.volumes.objects.volumes:
                return volume_problem(_ZONE, f'persistentvolume "{claim.volume_name}" not found')
        return None

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        inside: NDArray[np.bool_] | None = None
        for volume in self._volumes(pod):
            for key in ZONE_LABELS:
                if (text := volume.labels.get(key)) and (selector := _in_zones(key, text)) is not None:
                    selected = self._selected(selector, rows)
                    inside = selected if inside is None else inside & selected
        if inside is None:
            return None
        return (~inside & self._is_somewhere(rows)).astype(np.int32)

    def _volumes(self, pod: Pod) -> Iterator[Volume]:
        for _, ephemeral, claim in volume_claims_of(pod, self._state):
            volume = None if claim is None else self._state.volumes.objects.volumes.get(claim.volume_name)
            if volume is not None and not ephemeral:
                yield volume

    def _is_somewhere(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which nodes have a zone or region label; the filter ignores the others."""
        nodes, said = self._state.nodes, np.zeros(rows.shape[0], dtype=np.bool_)
        for key in ZONE_LABELS:
            said |= nodes.labels.column(key).ids.take(rows) >= 0
        return said


@lru_cache(maxsize=1024)
def _in_zones(key: str, text: str) -> NodeSelector | None:
    """Return a selector for the nodes in the zones of a volume's label; None if the label is malformed."""
    zones = frozenset(zone.strip() for zone in text.split(ZONE_DELIMITER))
    if "" in zones:
        return None
    inside = Requirement(key, Operator.IN, zones)
    terms = [NodeSelectorTerm((inside,), ())]
    if ZONE_LABELS[key] != key:
        absent = Requirement(key, Operator.DOES_NOT_EXIST)
        terms.append(NodeSelectorTerm((absent, Requirement(ZONE_LABELS[key], Operator.IN, zones)), ()))
    return NodeSelector(tuple(terms), None)


VOLUME_ZONE_PLUGIN: Final = ClusterPlugin(_ZONE, has_volume_claims, _Zones)
