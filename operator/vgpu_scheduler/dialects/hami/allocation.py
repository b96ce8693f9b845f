"""The annotations for HAMi's device plugins: writing them, and reading what pods hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from vgpu_scheduler.dialects.allocation import TimestampText, read_entries
from vgpu_scheduler.dialects.claims import Claims
from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.hami.claims import asked_vendors
from vgpu_scheduler.dialects.hami.codec import decode_assignments, encode_assignments
from vgpu_scheduler.dialects.hami.node_side import BIND_PHASE_ANNOTATION, PHASE_ALLOCATING
from vgpu_scheduler.dialects.hami.vendors import Vendor, VendorPlacement
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    NO_USAGE,
    WHOLE,
    Amounts,
    Claim,
    ContainerClaims,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
)

NODE_ANNOTATION = "hami.io/vgpu-node"
TIME_ANNOTATION = "hami.io/vgpu-time"
BIND_TIME_ANNOTATION = "hami.io/bind-time"


@dataclass(frozen=True)
class HamiAllocation:
    """The allocation annotations of pods.

    Parameters
    ----------
    vendors
        The vendors, in the order in which their entries are written.
    claims
        Reads the claims of pods.
    """

    vendors: tuple[Vendor, ...]
    claims: Claims

    @cached_property
    def keys(self) -> frozenset[str]:
        """The annotation of each vendor that stays on the pod."""
        return frozenset(vendor.record.allocated for vendor in self.vendors)

    @cached_property
    def written(self) -> frozenset[str]:
        """The annotations of each vendor, and the common ones."""
        of_makers = (name for vendor in self.vendors for name in vendor.record.written)
        return frozenset((NODE_ANNOTATION, TIME_ANNOTATION, BIND_PHASE_ANNOTATION, BIND_TIME_ANNOTATION, *of_makers))

    @cached_property
    def quota_resources(self) -> Mapping[str, QuotaResource]:
        """Memory and cores of each vendor; quotas on memory are in the unit of requests."""
        return {
            name: resource for vendor in self.vendors for name, resource in vendor.claims.quotas(vendor.key).items()
        }

    @cached_property
    def _counts(self) -> Mapping[str, Vendor]:
        return {name: vendor for vendor in self.vendors for name in vendor.claims.counts}

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to.

        Its allocation annotations count if they name that node. A pod that has started without readable ones is charged
        on every card of these vendors; one that has not started holds nothing yet.
        """
        if not pod.node_name or pod.terminal:
            return NO_USAGE
        claimed = self._claimed(pod)
        parts = [self._held(vendor, pod) for vendor in claimed]
        if not parts:
            return NO_USAGE
        problems = [problem for problem, _ in parts if problem and pod.started]
        unreadable = frozenset(vendor.key for vendor, (problem, _) in zip(claimed, parts, strict=True) if problem)
        charges: dict[str, Amounts] = {}
        unlisted: dict[str, PodClaims] = {}
        vendors: dict[str, str] = {}
        for _, usage in parts:
            charges.update(usage.charges)
            unlisted.update(usage.unlisted)
            vendors.update(usage.vendors)
        return Usage(
            charges,
            self._unreadable(pod, unreadable) if problems else (),
            "; ".join(problems),
            unlisted,
            vendors,
        )

    def _held(self, vendor: Vendor, pod: Pod) -> tuple[str, Usage]:
        """Return the problem of a pod's allocation of a vendor's cards, empty if there is none, and what it holds."""
        claimants = [vendor.claims.asks(container) for container in pod.spec.containers]
        problem, aligned = read_entries(pod, vendor.record.allocated, NODE_ANNOTATION, decode_assignments, claimants)
        return problem, NO_USAGE if problem else vendor.held(vendor.key, pod, aligned)

    def _unreadable(self, pod: Pod, unreadable: frozenset[str]) -> PodClaims:
        """Return the claims to charge on every card of these vendors: the pod's, or whole cards if they are invalid."""
        try:
            return tuple(
                replace(c, claims=tuple(_as_allocated(claim) for claim in c.claims if claim.vendor in unreadable))
                for c in self.claims.read(pod)
            )
        except ClaimError:
            vendors = [vendor for vendor in self.vendors if vendor.key in unreadable]
            return tuple(
                ContainerClaims(c.name, c.type, tuple(v.whole_card for v in vendors if v.claims.asks(c)))
                for c in pod.spec.containers
            )

    def announced_node(self, pod: Pod) -> str:
        """Return the node in the annotations that HAMi writes before it binds."""
        announced = any(vendor.record.allocated in pod.annotations for vendor in self._claimed(pod))
        return pod.annotations.get(NODE_ANNOTATION, "") if announced else ""

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return the annotations that the Binding writes for the device plugins; none for a pod without devices."""
        used = placement.vendors()
        if not used:
            return {}
        written = {NODE_ANNOTATION: placement.node, TIME_ANNOTATION: TimestampText(unix_time)}
        for vendor in self.vendors:
            if vendor.key in used:
                written |= _record(vendor, placement, unix_time, pod)
        return written | {BIND_PHASE_ANNOTATION: PHASE_ALLOCATING, BIND_TIME_ANNOTATION: TimestampText(unix_time)}

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return the label by which HAMi's monitor selects pods."""
        return {NODE_ANNOTATION: placement.node} if placement.vendors() else {}

    def _claimed(self, pod: Pod) -> list[Vendor]:
        """Return the vendors whose devices the pod requests, even if the request is malformed."""
        found = {
            vendor.key: vendor
            for container in pod.spec.containers
            for vendor in asked_vendors(container, self._counts)
            if vendor.claims.asks(container)
        }
        return [found[key] for key in sorted(found)]


def _record(vendor: Vendor, placement: Placement, unix_time: float, pod: Pod | None) -> dict[str, str]:
    """Return the annotations of one vendor, with an entry for each container, even for those without its cards."""
    record = vendor.record
    own = [tuple(a for a in container if a.vendor == vendor.key) for container in placement.containers]
    value = encode_assignments([[record.entry(vendor.key, a) for a in container] for container in own])
    common = {name: value for name in (record.to_allocate, record.allocated) if name}
    return {**common, **record.extras(VendorPlacement(placement.node, own, unix_time, pod))}


def _as_allocated(claim: Claim) -> Claim:
    """Return a claim as an allocation would hold it: with at least one slot, and at most a whole card's cores."""
    slots, memory, cores, *rest = claim.amounts
    return replace(claim, amounts=(max(slots, 1), memory, min(cores, WHOLE), *rest))
