"""The allocation annotation for koordlet: writing it, and reading what pods hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.dialects.allocation import Allocation
from vgpu_scheduler.dialects.errors import ClaimError, CodecError
from vgpu_scheduler.dialects.koordinator.booked import AllocatedDevice, device_name
from vgpu_scheduler.dialects.koordinator.claims import device_requests, pod_claims
from vgpu_scheduler.dialects.koordinator.codec import decode_allocated, encode_allocated
from vgpu_scheduler.dialects.koordinator.functions import WHOLE_FUNCTION
from vgpu_scheduler.dialects.koordinator.hints import NO_HINT, DeviceHint, read_hints
from vgpu_scheduler.dialects.koordinator.names import (
    ALLOCATED_ANNOTATION,
    DIMENSIONS,
    FUNCTIONS_OF,
    ISOLATION_LABEL,
    MEMORY,
    RATIO,
    TYPE_OF,
)
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    NO_USAGE,
    WHOLE,
    Claim,
    ContainerClaims,
    ContainerType,
    Placement,
    Usage,
)

_NOTHING = (0,) * len(DIMENSIONS)


@dataclass(frozen=True, slots=True)
class KoordinatorAllocation(Allocation):
    """The allocation annotation of pods."""

    keys = written = frozenset({ALLOCATED_ANNOTATION})

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to.

        Its allocation annotation counts if the pod requests devices at all. A pod that has started and whose annotation
        is missing, malformed or without a requested type is charged on every device of that type. Annotations from
        before Koordinator 1.6 have no ids: their devices are identified by minor.
        """
        asked = {TYPE_OF[name] for name in device_requests(pod)}
        if not pod.node_name or pod.terminal or not asked:
            return NO_USAGE
        value = pod.annotations.get(ALLOCATED_ANNOTATION)
        if value is None:
            return self._unreadable(pod, asked, f"annotation {ALLOCATED_ANNOTATION} is missing")
        try:
            allocated = decode_allocated(value)
        except CodecError as error:
            return self._unreadable(pod, asked, f"annotation {ALLOCATED_ANNOTATION}: {error}")
        rest = NO_USAGE
        if missing := asked - {device.type for device in allocated}:
            silent = f"annotation {ALLOCATED_ANNOTATION} has no {', '.join(sorted(missing))}"
            rest = self._unreadable(pod, missing, silent)
        return replace(
            rest,
            charges={_name(device): device.amounts for device in allocated},
            vendors={_name(device): device.type for device in allocated},
            by_place=any(not device.id for device in allocated),
        )

    def _unreadable(self, pod: Pod, types: Iterable[str], problem: str) -> Usage:
        """Return usage that charges the claims on some types on every device; none for a pod that has not started."""
        if not pod.started:
            return NO_USAGE
        wanted = frozenset(types)
        try:
            hints = read_hints(pod.annotations)
            claims = tuple(
                replace(container, claims=tuple(_blankets(container.claims, wanted, hints)))
                for container in pod_claims(pod)
            )
        except ClaimError:
            # The amounts are unknown, so charge a whole device.
            kinds = sorted((*wanted, *(FUNCTIONS_OF[kind] for kind in wanted if kind in FUNCTIONS_OF)))
            whole = tuple(Claim(kind, 1, _NOTHING, (WHOLE,) * len(DIMENSIONS)) for kind in kinds)
            claims = (ContainerClaims("", ContainerType.APP, whole),)
        return Usage({}, claims, problem)

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return the annotation that the Binding writes for koordlet; none for a pod without devices.

        koordlet limits an isolated pod on all of its GPUs to the memory of the first one, and not at all if the pod has
        all memory of that one. So the GPU with the least memory comes first.
        """
        del unix_time
        if not placement.vendors():
            return {}
        assignments = [assignment for container in placement.containers for assignment in container]
        if pod is not None and pod.labels.get(ISOLATION_LABEL):
            assignments.sort(key=lambda assignment: (assignment.amounts[MEMORY], assignment.amounts[RATIO]))
        return {ALLOCATED_ANNOTATION: encode_allocated(assignments)}


def _name(device: AllocatedDevice) -> str:
    return device_name(device.type, device.minor, device.id)


def _blankets(claims: Iterable[Claim], wanted: frozenset[str], hints: Mapping[str, DeviceHint]) -> Iterator[Claim]:
    """Yield upper bounds of the claims on some types, and the claims on their virtual functions."""
    for claim in claims:
        if claim.vendor in wanted:
            yield _blanket(claim)
            if hints.get(claim.vendor, NO_HINT).functions is not None:
                yield Claim(FUNCTIONS_OF[claim.vendor], 1, WHOLE_FUNCTION, _NOTHING)


def _blanket(claim: Claim) -> Claim:
    """Return an upper bound of what may have been booked for a claim on any device.

    The memory ratio of an amount of memory depends on the device, so the full ratio is taken.
    """
    percent = list(claim.percent)
    if claim.amounts[MEMORY] and not claim.amounts[RATIO]:
        percent[RATIO] = WHOLE
    return replace(claim, percent=tuple(percent))
