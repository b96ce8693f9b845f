"""The annotations for Volcano's device plugin: writing them, and reading what pods hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpu_scheduler.dialects.allocation import Allocation, TimestampText, read_entries
from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.hami.codec import AssignedDevice, decode_assignments
from vgpu_scheduler.dialects.volcano import names as keys
from vgpu_scheduler.dialects.volcano.claims import asks_for_cards, pod_claims, regular_containers
from vgpu_scheduler.dialects.volcano.codec import encode_assignments
from vgpu_scheduler.dialects.volcano.mig import instance_name, instance_of
from vgpu_scheduler.dialects.volcano.names import VolcanoRequests
from vgpu_scheduler.kernels import CORES, MEMORY
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    NO_USAGE,
    Assignment,
    Claim,
    ContainerClaims,
    ContainerType,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
)

_WHOLE_CARD = (Claim(keys.VENDOR, 1, (1, 0, 0), (0, 100, 100)),)


@dataclass(frozen=True, slots=True)
class VolcanoAllocation(Allocation):
    """The allocation annotations of pods.

    Parameters
    ----------
    requests
        The resource names and their units.
    """

    requests: VolcanoRequests

    written = frozenset(
        {
            keys.NODE_ANNOTATION,
            keys.TIME_ANNOTATION,
            keys.ALLOCATED_ANNOTATION,
            keys.TO_ALLOCATE_ANNOTATION,
            keys.BIND_PHASE_ANNOTATION,
            keys.BIND_TIME_ANNOTATION,
        }
    )
    keys = frozenset({keys.ALLOCATED_ANNOTATION})

    @property
    def quota_resources(self) -> Mapping[str, QuotaResource]:
        """Memory in the plugin's unit, and cores, summed over all cards of a namespace."""
        return {
            self.requests.memory: QuotaResource(keys.VENDOR, MEMORY),
            self.requests.cores: QuotaResource(keys.VENDOR, CORES),
        }

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to.

        Its allocation annotation counts if it names that node. A pod that has started without a readable one is charged
        on every card; one that has not started holds nothing yet. A MIG instance is charged on its card with the memory
        in the annotation, and if geometries are configured on its place there.
        """
        if not pod.node_name or pod.terminal or not any(claimants := self._claimants(pod)):
            return NO_USAGE
        # Volcano writes an entry per container that claims cards, this scheduler one per regular container.
        names = keys.ALLOCATED_ANNOTATION, keys.NODE_ANNOTATION
        problem, aligned = read_entries(pod, *names, decode_assignments, claimants, "cards")
        if problem:
            return Usage({}, self._unreadable(pod), problem) if pod.started else NO_USAGE
        entries = self._assignments(aligned)
        kinds = [ContainerType.APP] * len(entries)
        return Usage.of(kinds, entries)

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return the annotations that the Binding writes for the device plugin; none for a pod without cards."""
        del pod  # all keys that the node side reads are written anyway
        if not placement.vendors():
            return {}
        value = encode_assignments(
            [
                [
                    AssignedDevice(
                        instance_name(a.uuid, a.piece, self.requests), keys.VENDOR, a.amounts[MEMORY], a.amounts[CORES]
                    )
                    for a in container
                ]
                for container in placement.containers
            ]
        )
        return {
            keys.NODE_ANNOTATION: placement.node,
            keys.TIME_ANNOTATION: TimestampText(unix_time),
            keys.ALLOCATED_ANNOTATION: value,
            keys.TO_ALLOCATE_ANNOTATION: value,
            keys.BIND_PHASE_ANNOTATION: keys.PHASE_ALLOCATING,
            keys.BIND_TIME_ANNOTATION: TimestampText(unix_time),
        }

    def _claimants(self, pod: Pod) -> list[bool]:
        return [asks_for_cards(container, self.requests) for container in regular_containers(pod)]

    def _unreadable(self, pod: Pod) -> PodClaims:
        try:
            return pod_claims(pod, self.requests)
        except ClaimError:
            # The amounts are unknown, so charge a whole card.
            return tuple(
                ContainerClaims(
                    container.name, container.type, _WHOLE_CARD if asks_for_cards(container, self.requests) else ()
                )
                for container in regular_containers(pod)
            )

    def _assignments(self, aligned: Sequence[Sequence[AssignedDevice]]) -> list[list[Assignment]]:
        return [[self._assignment(card) for card in container] for container in aligned]

    def _assignment(self, card: AssignedDevice) -> Assignment:
        uuid, instance = instance_of(card.uuid, self.requests)
        return Assignment(keys.VENDOR, uuid, (1, card.memory, card.cores, *instance))
