"""Why a node is closed, and to which pods: by a lock, by a pod being served, or by a pod that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.engine.locks import TakenLock


class ClosureCause(Enum):
    """Why a node is closed; the value is its metric label."""

    LOCK_HELD = "lock_held"
    LOCK_MALFORMED = "lock_malformed"
    PLUGIN_SILENT = "plugin_silent"
    POD_STARTING = "pod_starting"
    BINDING_IN_DOUBT = "binding_in_doubt"
    POD_UNREADABLE = "pod_unreadable"
    REJECTED_BY_KUBELET = "pod_rejected"
    DEVICES_NOT_TAKEN = "devices_not_taken"

    @property
    def text(self) -> str:
        """The text under which a message counts such nodes."""
        return _TEXTS[self]


_TEXTS = {
    ClosureCause.LOCK_HELD: "node(s) had their device lock held by another pod",
    ClosureCause.LOCK_MALFORMED: "node(s) had a malformed device lock",
    ClosureCause.PLUGIN_SILENT: "node(s) had a device plugin that does not answer",
    ClosureCause.POD_STARTING: "node(s) had a pod with devices that has not started",
    ClosureCause.BINDING_IN_DOUBT: "node(s) had a pod with devices whose Binding is in doubt",
    ClosureCause.POD_UNREADABLE: "node(s) had a pod that cannot be read and may be on any card",
    ClosureCause.REJECTED_BY_KUBELET: "node(s) rejected a pod like this one a moment ago",
    ClosureCause.DEVICES_NOT_TAKEN: "node(s) had a pod that never took its devices",
}


class ClosedFor(Enum):
    """For which pods a node is closed, if not only for those that need one lock."""

    WITH_CARDS = "all that ask for cards"
    SERVED_IN_TURN = "all that device plugins serve one after the other"


@dataclass(frozen=True, slots=True)
class ClosedByLock:
    """A lock that closes a node to the pods that need it."""

    cause: ClosureCause
    lock: TakenLock

    @property
    def keeps_away(self) -> NodeLock:
        """The lock that the pods kept away need."""
        return self.lock.kind


@dataclass(frozen=True, slots=True)
class ClosedByPod:
    """A pod that the node side has not finished serving closes the node to all pods that are served in turn."""

    cause: ClosureCause
    uid: str

    @property
    def keeps_away(self) -> ClosedFor:
        """Which pods are kept away."""
        return ClosedFor.SERVED_IN_TURN


@dataclass(frozen=True, slots=True)
class ClosedByUnreadablePod:
    """A pod whose allocation cannot be read closes its node to all pods that ask for cards.

    Attributes
    ----------
    pod
        Its ``namespace/name``.
    """

    pod: str

    @property
    def cause(self) -> ClosureCause:
        """Why the node is closed."""
        return ClosureCause.POD_UNREADABLE

    @property
    def keeps_away(self) -> ClosedFor:
        """Which pods are kept away."""
        return ClosedFor.WITH_CARDS


@dataclass(frozen=True, slots=True)
class ClosedByUnservedPods:
    """Pods that ended unserved close their node to pods that its device plugin would take for them.

    Attributes
    ----------
    plugin_key
        The key by which the device plugin identifies them.
    """

    plugin_key: str

    @property
    def cause(self) -> ClosureCause:
        """Why the node is closed."""
        return ClosureCause.DEVICES_NOT_TAKEN


StandingClosure = ClosedByLock | ClosedByPod | ClosedByUnreadablePod
"""A closure that lasts until the node is opened, or its lock changes."""
NodeClosure = StandingClosure | ClosedByUnservedPods
