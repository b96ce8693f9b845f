"""HAMi's node side: device plugins that find their pod by a lock on the node, by time, or by a flag on the pod."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from vgpu_scheduler.dialects.hami.codec import format_lock, format_time, parse_lock
from vgpu_scheduler.dialects.hami.vendors import Vendor
from vgpu_scheduler.dialects.node_side import LockValue, NodeLock, NodeSide
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import PodClaims, claims_devices, quoted, vendors_of

BIND_PHASE_ANNOTATION = "hami.io/bind-phase"
PHASE_ALLOCATING = "allocating"
PHASE_SUCCESS = "success"
PHASE_FAILED = "failed"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_NAME = 253
_ANSWERS = frozenset({PHASE_SUCCESS, PHASE_FAILED})


class HamiNodeSide(NodeSide):
    """The device plugins of the vendors in use; plugins without a lock only consider pods that have not started.

    Parameters
    ----------
    vendors
        The vendors, in the order of the dialect.
    """

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._vendors = tuple(vendors)
        found = {vendor.lock.annotation: vendor.lock for vendor in reversed(vendors) if vendor.lock}
        order = dict.fromkeys(vendor.lock.annotation for vendor in vendors if vendor.lock)
        self.locks = tuple(found[annotation] for annotation in order)

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return the lock by which a plugin finds this pod; None if no claimed vendor has a lock.

        HAMi takes no lock for pods in which only init containers or sidecars claim devices, and the plugin may then
        give them the devices of the pod that holds the lock. Among several vendors' locks, one that names its owner is
        taken: the other plugins find the pod by its own annotations.
        """
        asked = vendors_of(claims)
        locks = [vendor.lock for vendor in self._vendors if vendor.lock and vendor.key in asked]
        return max(locks, key=lambda lock: lock.names_owner, default=None)

    def parse_lock(self, value: str) -> LockValue:
        """Decode the value of a lock; see :func:`parse_lock`. Invalid pod names are malformed, too."""
        found = parse_lock(value)
        names = (found.namespace, found.name)
        if any(names) and not all(_NAME.fullmatch(name) and len(name) <= _LONGEST_NAME for name in names):
            raise ValueError(f"lock value {quoted(value)} names no pod")
        return found

    def format_lock(self, lock: NodeLock, now: datetime, pod: Pod) -> str:
        """Encode the value of a lock for a pod; ``now`` must have a time zone."""
        return format_lock(now, pod.namespace, pod.name) if lock.names_owner else format_time(now)

    def serializes(self, claims: PodClaims) -> bool:
        """Tell whether any container claims devices: plugins without a lock serve the oldest pod of their node."""
        return claims_devices(claims)

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugin has reported success or failure."""
        return annotations.get(BIND_PHASE_ANNOTATION) in _ANSWERS

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugins have consumed every entry of the pod."""
        left = [annotations[v.record.to_allocate] for v in self._vendors if v.record.to_allocate in annotations]
        return bool(left) and not any(value.replace(";", "").strip() for value in left)
