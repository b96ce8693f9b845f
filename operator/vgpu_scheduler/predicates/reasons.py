"""Reasons why a node or a pod is rejected, in kube-scheduler's words, and the message that sums them up."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.model import CardReason, ClusterEvent, RejectionReason


class Reason(msgspec.Struct, frozen=True):
    """Why a node is rejected.

    Attributes
    ----------
    plugin
        The kube-scheduler plugin that gives the reason.
    text
        The plugin's message, verbatim, because people search for it.
    helped_by
        The cluster events that could help.
    resolvable
        Whether evicting pods could help. For resources it depends on the node as well: see :class:`Rejection`.
    """

    plugin: str
    text: str
    helped_by: ClusterEvent
    resolvable: bool = False


UNSCHEDULABLE: Final = Reason("NodeUnschedulable", "node(s) were unschedulable", ClusterEvent.NODE_TAINTS)
NODE_NAME: Final = Reason("NodeName", "node(s) didn't match the requested node name", ClusterEvent.NODE_ADD)
TAINT: Final = Reason("TaintToleration", "node(s) had untolerated taint(s)", ClusterEvent.NODE_TAINTS)
AFFINITY: Final = Reason("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", ClusterEvent.NODE_LABELS)
NOT_NAMED: Final = Reason("PreFilterResult", "node(s) didn't satisfy plugin(s) [NodeAffinity]", ClusterEvent.NODE_ADD)
AFFINITY_CONFLICT: Final = Reason("NodeAffinity", "pod affinity terms conflict", ClusterEvent.NONE)
PORTS: Final = Reason(
    "NodePorts",
    "node(s) didn't have free ports for the requested pod ports",
    ClusterEvent.ASSIGNED_POD_DELETE,
    resolvable=True,
)
TOO_MANY_PODS: Final = Reason(
    "NodeResourcesFit",
    "Too many pods",
    ClusterEvent.NODE_ALLOCATABLE | ClusterEvent.ASSIGNED_POD_DELETE,
    resolvable=True,
)


POLICY_SELECTOR: Final = Reason(
    "VGPUPolicy", "node(s) didn't match the policy's node selector", ClusterEvent.NODE_LABELS | ClusterEvent.POLICY
)
NOT_MANAGED: Final = Reason("ManagedNodes", "node(s) are not managed by this scheduler", ClusterEvent.NODE_LABELS)

INTER_POD_AFFINITY: Final = Reason(
    "InterPodAffinity",
    "node(s) didn't match pod affinity rules",
    ClusterEvent.NODE_LABELS | ClusterEvent.ASSIGNED_POD_CHANGE,
)
INTER_POD_ANTI_AFFINITY: Final = Reason(
    "InterPodAffinity",
    "node(s) didn't match pod anti-affinity rules",
    ClusterEvent.NODE_LABELS | ClusterEvent.ASSIGNED_POD_CHANGE,
    resolvable=True,
)
INTER_POD_EXISTING: Final = Reason(
    "InterPodAffinity",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    ClusterEvent.NODE_LABELS | ClusterEvent.ASSIGNED_POD_CHANGE,
    resolvable=True,
)
SPREAD: Final = Reason(
    "PodTopologySpread",
    "node(s) didn't match pod topology spread constraints",
    ClusterEvent.NODE_LABELS | ClusterEvent.NODE_TAINTS | ClusterEvent.ASSIGNED_POD_CHANGE,
    resolvable=True,
)
SPREAD_LABEL: Final = Reason(
    "PodTopologySpread",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    ClusterEvent.NODE_LABELS,
)

FEATURES: Final = Reason(
    "NodeDeclaredFeatures", "node(s) didn't match Pod's required features", ClusterEvent.NODE_FEATURES
)


_VOLUMES: Final = ClusterEvent.NODE_LABELS | ClusterEvent.STORAGE
CLAIM_IN_USE: Final = Reason(
    "VolumeRestrictions",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    _VOLUMES,
    resolvable=True,
)
DISK_IN_USE: Final = Reason("VolumeRestrictions", "node(s) had no available disk", _VOLUMES, resolvable=True)
TOO_MANY_VOLUMES: Final = Reason(
    "NodeVolumeLimits", "node(s) exceed max volume count", ClusterEvent.ATTACH_LIMIT, resolvable=True
)
VOLUME_ELSEWHERE: Final = Reason("VolumeBinding", "node(s) didn't match PersistentVolume's node affinity", _VOLUMES)
NO_VOLUME: Final = Reason("VolumeBinding", "node(s) didn't find available persistent volumes to bind", _VOLUMES)
NO_STORAGE: Final = Reason("VolumeBinding", "node(s) did not have enough free storage", _VOLUMES)
VOLUME_GONE: Final = Reason(
    "VolumeBinding", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", _VOLUMES
)
UNBOUND_IMMEDIATE: Final = Reason(
    "VolumeBinding", "pod has unbound immediate PersistentVolumeClaims", ClusterEvent.STORAGE
)
WRONG_ZONE: Final = Reason("VolumeZone", "node(s) had no available volume zone", _VOLUMES)


def volume_problem(plugin: str, text: str) -> Reason:
    """Return the reason for a pod that no node can take because of one of its claims."""
    return Reason(plugin, text, ClusterEvent.STORAGE)


def insufficient(what: str) -> Reason:
    """Return the reason for a node with an insufficient resource."""
    return Reason(
        "NodeResourcesFit",
        f"Insufficient {what}",
        ClusterEvent.NODE_ALLOCATABLE | ClusterEvent.ASSIGNED_POD_DELETE,
        resolvable=True,
    )


class Rejection(NamedTuple):
    """The reasons of the first filter that rejects a node.

    Attributes
    ----------
    reasons
        Its reasons, in the order in which it checks; all of one plugin.
    resolvable
        Whether evicting pods could help: kube-scheduler's code is ``Unschedulable`` if so, else
        ``UnschedulableAndUnresolvable``.
    """

    reasons: tuple[Reason | CardReason, ...]
    resolvable: bool

    @property
    def plugin(self) -> str:
        """The plugin that rejects."""
        return self.reasons[0].plugin

    @property
    def texts(self) -> tuple[str, ...]:
        """The messages of the reasons."""
        return tuple(reason.text for reason in self.reasons)


class RejectionCodes:
    """An ordered list of rejections, so that a column needs one small code per node row; code 0 means none.

    Parameters
    ----------
    reasons
        Rejections with a single reason: the reason at position ``i`` has code ``i + 1``.
    """

    PASSES: Final = 0

    def __init__(self, reasons: tuple[Reason, ...] = ()) -> None:
        self._rejections = [Rejection((), resolvable=True)]
        self._codes = {self._rejections[0]: self.PASSES}
        for reason in reasons:
            self.code(Rejection((reason,), reason.resolvable))

    def code(self, rejection: Rejection) -> int:
        """Return the code of a rejection, assigning one if it has none."""
        code = self._codes.get(rejection)
        if code is None:
            code = self._codes[rejection] = len(self._rejections)
            self._rejections.append(rejection)
        return code

    def __getitem__(self, code: int) -> Rejection:
        return self._rejections[code]

    def count(self, codes: NDArray[np.int32]) -> dict[Reason | CardReason, int]:
        """Count the rows by reason; a row counts once for each of its reasons."""
        counts: dict[Reason | CardReason, int] = {}
        for code, rows in enumerate(np.bincount(codes, minlength=1).tolist()):
            for reason in self._rejections[code].reasons if rows else ():
                counts[reason] = counts.get(reason, 0) + rows
        return counts


def unschedulable_message(total_nodes: int, counts: Mapping[RejectionReason, int], rejection: str = "") -> str:
    """Sum up why no node was found, in the grammar of kube-scheduler's ``FitError``.

    Parameters
    ----------
    total_nodes
        Number of nodes that were looked at.
    counts
        Number of nodes under each reason; a node may count under several.
    rejection
        The reason if the pod was rejected before any node was tried; the message then has no counts.

    Returns
    -------
    str
        Such as ``0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.``; the parts are
        sorted as text, so ``10 x`` comes before ``2 y``.
    """
    if not total_nodes:
        return "no nodes available to schedule pods"
    head = f"0/{total_nodes} nodes are available:"
    if rejection:
        return f"{head} {rejection}."
    parts = sorted(f"{count} {reason.text}" for reason, count in counts.items() if count)
    return f"{head} {', '.join(parts)}." if parts else head


def with_preemption(message: str, reason: str) -> str:
    """Add to a message why preemption does not help."""
    return f"{message}{_BEFORE_PREEMPTION}{reason}"


def without_preemption(message: str) -> str:
    """Return a message without what it says of preemption, which may be about other pods of a group."""
    return message.partition(_BEFORE_PREEMPTION)[0]


def rejections_in(message: str) -> tuple[int, dict[str, int]]:
    """Return the number of nodes in a message, 0 if it has none, and the number of nodes by reason."""
    message = without_preemption(message)
    nodes, counted = _NODES.search(message), _COUNTED.search(message)
    counts = _COUNTS.findall(counted[1]) if counted else ()
    return (int(nodes[1]) if nodes else 0, {reason: int(count) for count, reason in counts})


_BEFORE_PREEMPTION: Final = " preemption: "
"""Stands in a message between the reason why a pod fits nowhere and the reason why preemption does not help."""
_NODES: Final = re.compile(r"\b0/(\d+) nodes are available")
_COUNTED: Final = re.compile(r"nodes are available(: \d+ .*)$", re.DOTALL)
_COUNTS: Final = re.compile(r"(?:: |, )(\d+) (.+?)(?=, \d+ |\.\s|\.$)")
"""These match the text of :func:`unschedulable_message` inside a longer message."""
