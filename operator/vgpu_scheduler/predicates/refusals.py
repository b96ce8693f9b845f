"""Pods that are not tried at all, or not on nodes without what they need: gates, unchecked wishes, node features."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod, PodSpec
from vgpu_scheduler.predicates.filters import ClusterFilter, ClusterPlugin
from vgpu_scheduler.predicates.lookups import ValueLookup
from vgpu_scheduler.predicates.reasons import FEATURES, RejectionCodes
from vgpu_scheduler.state import State

__all__ = ["NODE_DECLARED_FEATURES_PLUGIN", "UnsupportedField", "gated", "refusals", "unsupported_fields"]


def gated(pod: Pod) -> str | None:
    """Why a pod must not be queued yet, as kube-scheduler's SchedulingGates says it; None if no gate is left."""
    gates = pod.spec.scheduling_gates
    return f"waiting for scheduling gates: [{' '.join(gates)}]" if gates else None


def needs_scheduling(pod: Pod) -> bool:
    """Tell whether a pod has to be placed, by whichever scheduler: nothing holds it back, and it has no node yet."""
    return not (pod.node_name or pod.terminal or pod.deleting or gated(pod))


def refusals(pod: Pod) -> tuple[str, ...]:
    """Why a pod cannot be placed by this scheduler whatever the nodes are.

    What would be ignored is refused by name instead: a pod that is placed against its own words is worse than one that
    waits and says why.

    Returns
    -------
    tuple of str
        One sentence per field that cannot be understood or asks for something that is not checked here; empty for pods
        that can be placed.
    """
    spec = pod.spec
    known = _known.get(spec)
    if known is None:
        known = _known[spec] = _refusals(spec)
    return known


_known: Final[WeakKeyDictionary[PodSpec, tuple[str, ...]]] = WeakKeyDictionary()
"""By spec, for as long as that lives."""


@dataclass(frozen=True, slots=True)
class UnsupportedField:
    """A field of a pod's spec that asks for something that is not checked.

    Attributes
    ----------
    name
        That of the field; of a volume the source that it names.
    asks
        What it asks for.
    volume
        Which of the volumes it is about; None for a field of the spec itself.
    """

    name: str
    asks: str
    volume: int | None = None

    def __str__(self) -> str:
        return f"spec.{self.name}" if self.volume is None else f"spec.volumes[{self.volume}].{self.name}"


def unsupported_fields(pod: Pod) -> tuple[UnsupportedField, ...]:
    """Return the fields for which a pod is not placed because nothing checks what they ask for."""
    return tuple(_unchecked(pod.spec))


def _refusals(spec: PodSpec) -> tuple[str, ...]:
    unsupported = tuple(
        f"{field} is not supported: this scheduler does not check {field.asks}, so it will not place the pod"
        for field in _unchecked(spec)
    )
    return (spec.terms_problem, *unsupported) if spec.terms_problem else unsupported


def _unchecked(spec: PodSpec) -> Iterator[UnsupportedField]:
    for index, source in spec.unknown_volumes:
        yield UnsupportedField(source, "where such a volume can be mounted", index)
    if spec.resource_claims:
        yield UnsupportedField("resourceClaims", "dynamic resource allocation")
    if spec.pod_group_field:
        yield UnsupportedField(spec.pod_group_field.removeprefix("spec."), "groups of pods")


_UNDECLARED: Final = 1


def _key(pod: Pod, state: State) -> Hashable | None:
    del state
    return pod.spec.required_features or None


class FeaturesFilter(ClusterFilter):
    """The features that pods cannot run without; where a node declares none of them, they wait.

    Parameters
    ----------
    pod
        One of the pods; the features that it needs matter.
    state
        What is known.
    """

    rejections: Final = RejectionCodes((FEATURES,))

    def __init__(self, pod: Pod, state: State) -> None:
        self._state = state
        self._lookup: ValueLookup[tuple[str, ...]] = ValueLookup(
            absent=False, accepts=frozenset(pod.spec.required_features).issubset
        )

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        del pod
        lacks: NDArray[np.bool_] = ~self._lookup(self._state.nodes.features, rows)
        return lacks * np.int32(_UNDECLARED)

    def equivalence(self, pod: Pod) -> Hashable:
        """Return None: all of the pods get the same answers."""
        del pod
        return None


NODE_DECLARED_FEATURES_PLUGIN: Final = ClusterPlugin("NodeDeclaredFeatures", _key, FeaturesFilter)
