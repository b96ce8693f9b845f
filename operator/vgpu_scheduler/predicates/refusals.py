"""Scheduling gates, pods that are refused because of unsupported fields, and the NodeDeclaredFeatures filter."""

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


def gated(pod: Pod) -> str | None:
    """Return the message of kube-scheduler's SchedulingGates for a gated pod; None if no gate is left."""
    gates = pod.spec.scheduling_gates
    return f"waiting for scheduling gates: [{' '.join(gates)}]" if gates else None


def needs_scheduling(pod: Pod) -> bool:
    """Tell whether a pod waits for a scheduler: it is unbound, not gated, not terminal and not being deleted."""
    return not (pod.node_name or pod.terminal or pod.deleting or gated(pod))


def spec_errors(pod: Pod) -> tuple[str, ...]:
    """Return why this scheduler refuses a pod, independent of the nodes.

    Fields that this scheduler would ignore are refused by name: a pod placed against its spec is worse than one that
    waits with a reason.

    Returns
    -------
    tuple of str
        One sentence per field that is malformed or not supported; empty for pods that can be placed.
    """
    spec = pod.spec
    known = _known.get(spec)
    if known is None:
        known = _known[spec] = _spec_errors(spec)
    return known


_known: Final[WeakKeyDictionary[PodSpec, tuple[str, ...]]] = WeakKeyDictionary()
"""Cached results by spec."""


@dataclass(frozen=True, slots=True)
class UnsupportedField:
    """A field of a pod's spec that this scheduler does not support.

    Attributes
    ----------
    name
        The name of the field; for a volume the name of its source.
    asks
        What the field asks for.
    volume
        The index of the volume; None for a field of the spec itself.
    """

    name: str
    asks: str
    volume: int | None = None

    def __str__(self) -> str:
        return f"spec.{self.name}" if self.volume is None else f"spec.volumes[{self.volume}].{self.name}"


def unsupported_fields(pod: Pod) -> tuple[UnsupportedField, ...]:
    """Return the unsupported fields for which a pod is refused."""
    return tuple(_unchecked(pod.spec))


def _spec_errors(spec: PodSpec) -> tuple[str, ...]:
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
    """Rejects nodes that do not declare all features that a pod requires.

    Parameters
    ----------
    pod
        One of the pods; its required features are read.
    state
        The state.
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
