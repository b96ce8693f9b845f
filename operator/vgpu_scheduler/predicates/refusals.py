"""Pods that are not tried at all: gated ones, and ones that ask for what is not checked here."""

from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

from vgpu_scheduler.kube import Pod, PodSpec

__all__ = ["gated", "refusals"]


def gated(pod: Pod) -> str | None:
    """Why a pod must not be queued yet, as kube-scheduler's SchedulingGates says it; None if no gate is left."""
    gates = pod.spec.scheduling_gates
    return f"waiting for scheduling gates: [{' '.join(gates)}]" if gates else None


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


def _refusals(spec: PodSpec) -> tuple[str, ...]:
    unsupported = tuple(
        f"{field} is not supported: this scheduler does not check {what}, so it will not place the pod"
        for field, what in _unchecked(spec)
    )
    return (spec.terms_problem, *unsupported) if spec.terms_problem else unsupported


def _unchecked(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Field, and what it asks for, of everything that is not checked."""
    for index, source in spec.unknown_volumes:
        yield f"spec.volumes[{index}].{source}", "where such a volume can be mounted"
    if spec.resource_claims:
        yield "spec.resourceClaims", "dynamic resource allocation"
    if spec.pod_group_field:
        yield spec.pod_group_field, "groups of pods"
