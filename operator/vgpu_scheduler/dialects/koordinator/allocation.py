"""What is written on pods for koordlet, and what pods hold by it."""

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
    ContainerKind,
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

        Its allocation annotation counts if the pod asks for devices at all. One that has started and whose annotation
        is missing, unreadable or silent about a type that it asks for may sit on any device of that type. Annotations
        from before Koordinator 1.6 give no ids: such devices are known by their minor.
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
        """Return the claims on some types as charges on any device; one that has not started holds nothing yet."""
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
            # Nobody can say how much: the pod may use a whole device wherever it sits.
            kinds = sorted((*wanted, *(FUNCTIONS_OF[kind] for kind in wanted if kind in FUNCTIONS_OF)))
            whole = tuple(Claim(kind, 1, _NOTHING, (WHOLE,) * len(DIMENSIONS)) for kind in kinds)
            claims = (ContainerClaims("", ContainerKind.APP, whole),)
        return Usage({}, claims, problem)

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return what the Binding writes on the pod for koordlet; nothing for a pod without devices.

        koordlet limits an isolated pod on all of its GPUs to what the first of them has, and nowhere if that one is
        taken with all of its memory. So the first one is that with the least of it where GPUs of a node differ.
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
    """Yield the claims on some types as they may have been booked, and those on virtual functions that go with them."""
    for claim in claims:
        if claim.vendor in wanted:
            yield _blanket(claim)
            if hints.get(claim.vendor, NO_HINT).functions is not None:
                yield Claim(FUNCTIONS_OF[claim.vendor], 1, WHOLE_FUNCTION, _NOTHING)


def _blanket(claim: Claim) -> Claim:
    """Return a claim as it may have been booked on some device.

    How much of the ratio an amount of memory is depends on the device, so the whole of it is taken.
    """
    percent = list(claim.percent)
    if claim.amounts[MEMORY] and not claim.amounts[RATIO]:
        percent[RATIO] = WHOLE
    return replace(claim, percent=tuple(percent))
