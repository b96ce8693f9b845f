"""Why a pod fits on no node, per node and counted, and which events could change that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_scheduler.allocators import count_reasons, verdict
from vgpu_scheduler.engine.closures import ClosureCause
from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.model import ClusterEvent, NodeVerdict, RejectionReason
from vgpu_scheduler.state import NodeTable

OF_ONE_NODE = (
    ClusterEvent.NODE_ADD
    | ClusterEvent.ASSIGNED_POD_DELETE
    | ClusterEvent.DEVICE_ADD
    | ClusterEvent.DEVICE_FREED
    | ClusterEvent.NODE_LABELS
    | ClusterEvent.NODE_TAINTS
    | ClusterEvent.NODE_ALLOCATABLE
    | ClusterEvent.NODE_FEATURES
    | ClusterEvent.POD_UPDATE
    | ClusterEvent.POLICY
)
"""Changes of one node, which raise its version, and changes after which a pod is requeued by its name."""


@dataclass(frozen=True, slots=True)
class RejectionCounts:
    """Why nodes reject a pod.

    Attributes
    ----------
    reasons
        Number of nodes by reason; a node counts once under each of its reasons.
    events
        The events that could help.
    rejected_by
        The plugins, card reasons or other causes, each once.
    """

    reasons: Mapping[RejectionReason, int]
    events: ClusterEvent
    rejected_by: tuple[str, ...]


def count_rejections(
    part: NodePart, found: Filtered, closed: Mapping[str, ClosureCause], nodes: NodeTable
) -> RejectionCounts:
    """Count the nodes by reason, and collect the events that could help and the plugins that reject.

    Parameters
    ----------
    part, found
        The results of the card filter and of the other filters.
    closed
        The nodes that are closed to the pod, with the cause.
    """
    counts: dict[RejectionReason, int] = {}
    events = ClusterEvent.NODE_ADD
    rejected_by: dict[str, None] = {}
    for reason, count in found.count().items():
        counts[reason] = count
        events |= reason.helped_by
        rejected_by[reason.plugin] = None
    if part.allocator is not None:
        for card_reason, count in count_reasons(part.fit.counts[found.candidates]).items():
            counts[card_reason] = counts.get(card_reason, 0) + count
            events |= card_reason.helped_by
            rejected_by[card_reason.name] = None
    passing = set(found.candidates.tolist()) if closed else ()
    for name, cause in closed.items():
        row = nodes.row(name)
        if row in passing and part.feasible[row]:
            counts[cause] = counts.get(cause, 0) + 1
            events |= (
                ClusterEvent.KUBELET_REJECTION if cause is ClosureCause.REJECTED_BY_KUBELET else ClusterEvent.NODE_ADD
            )
            rejected_by[cause.value] = None
    return RejectionCounts(counts, events, tuple(rejected_by))


def verdicts(
    part: NodePart, found: Filtered, closed: Mapping[str, ClosureCause], nodes: NodeTable
) -> dict[str, NodeVerdict]:
    """Return the verdict of each node that does not fit, by name; parameters as for :func:`count_rejections`."""
    answers = {}
    rejections = found.rejections()
    for row in found.rows.tolist():
        name, rejection = nodes.name(row), rejections.get(row)
        if rejection is not None:
            answers[name] = NodeVerdict(rejection.reasons, ", ".join(rejection.texts))
        elif not part.feasible[row]:
            answers[name] = verdict(part.fit.counts[row], int(part.fit.cards[row]))
        elif name in closed:
            answers[name] = NodeVerdict((closed[name],), closed[name].text)
    return answers
