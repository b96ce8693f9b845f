"""Zones of bound volumes that their labels name: kube-scheduler's VolumeZone for many nodes at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import NodeSelector, NodeSelectorTerm, Operator, Pod, Requirement, Volume
from vgpu_scheduler.predicates.filters import ClusterPlugin
from vgpu_scheduler.predicates.reasons import WRONG_ZONE, Reason, Rejections, volume_problem
from vgpu_scheduler.predicates.volumes.common import VolumeFilter, claims_of, has_claims

__all__ = ["VOLUME_ZONE_PLUGIN"]

_NAME: Final = "VolumeZone"
_REJECTIONS: Final = Rejections((WRONG_ZONE,))
_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that say where volumes and nodes are, each with its name of today, which nodes may have instead."""
_DELIMITER: Final = "__"


class _Zones(VolumeFilter):
    """Keeps pods away from nodes in other zones or regions than their volumes."""

    rejections: Final = _REJECTIONS

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return that the volume of a claim is not there."""
        for _, ephemeral, claim in claims_of(pod, self._state):
            if claim is None or ephemeral or not claim.volume_name:
                continue
            if claim.volume_name not in self._state.volumes.objects.volumes:
                return volume_problem(_NAME, f'persistentvolume "{claim.volume_name}" not found')
        return None

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        inside: NDArray[np.bool_] | None = None
        for volume in self._volumes(pod):
            for key in _LABELS:
                if (text := volume.labels.get(key)) and (selector := _in_zones(key, text)) is not None:
                    selected = self._selected(selector, rows)
                    inside = selected if inside is None else inside & selected
        if inside is None:
            return None
        return (~inside & self._is_somewhere(rows)).astype(np.int32)

    def _volumes(self, pod: Pod) -> Iterator[Volume]:
        for _, ephemeral, claim in claims_of(pod, self._state):
            volume = None if claim is None else self._state.volumes.objects.volumes.get(claim.volume_name)
            if volume is not None and not ephemeral:
                yield volume

    def _is_somewhere(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which nodes say where they are at all; the others are not asked."""
        nodes, said = self._state.nodes, np.zeros(rows.shape[0], dtype=np.bool_)
        for key in _LABELS:
            said |= nodes.label(key).ids.take(rows) >= 0
        return said


@lru_cache(maxsize=1024)
def _in_zones(key: str, text: str) -> NodeSelector | None:
    """Return what selects the nodes in the zones of a volume's label; None if the label cannot be read."""
    zones = frozenset(zone.strip() for zone in text.split(_DELIMITER))
    if "" in zones:
        return None
    inside = Requirement(key, Operator.IN, zones)
    terms = [NodeSelectorTerm((inside,), ())]
    if _LABELS[key] != key:
        absent = Requirement(key, Operator.DOES_NOT_EXIST)
        terms.append(NodeSelectorTerm((absent, Requirement(_LABELS[key], Operator.IN, zones)), ()))
    return NodeSelector(tuple(terms), None)


VOLUME_ZONE_PLUGIN: Final = ClusterPlugin(_NAME, has_claims, _Zones)
