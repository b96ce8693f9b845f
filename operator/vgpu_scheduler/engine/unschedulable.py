"""Why a pod was placed nowhere, node by node and counted, and what could change that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_scheduler.allocators import count_reasons, verdict
from vgpu_scheduler.engine.closed_nodes import ClosureCause
from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.model import ClusterEvent, NodeVerdict
from vgpu_scheduler.state import NodeTable

__all__ = ["OF_ONE_NODE", "count_rejections", "verdicts"]

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
"""Changes of one node, which raise its version, and those after which a pod is tried by name."""


@dataclass(frozen=True, slots=True)
class RejectionCounts:
    """What keeps a pod from nodes.

    Attributes
    ----------
    reasons
        How many nodes gave each reason; a node counts once under each.
    events
        What could help.
    rejected_by
        The plugins, card reasons or other causes, each once.
    """

    reasons: Mapping[str, int]
    events: ClusterEvent
    rejected_by: tuple[str, ...]


def count_rejections(
    part: NodePart, found: Filtered, closed: Mapping[str, ClosureCause], nodes: NodeTable
) -> RejectionCounts:
    """Count the nodes under each distinct reason, and collect what could help and what rejects.

    Parameters
    ----------
    part, found
        What the filters and the cards say.
    closed
        The nodes that are closed to the pod, and why.
    """
    counts: dict[str, int] = {}
    events = ClusterEvent.NODE_ADD
    rejected_by: dict[str, None] = {}
    for reason, count in found.count().items():
        counts[reason.text] = count
        events |= reason.helped_by
        rejected_by[reason.plugin] = None
    if part.allocator is not None:
        for card_reason, count in count_reasons(part.fit.counts[found.candidates]).items():
            counts[card_reason.text] = count
            events |= card_reason.helped_by
            rejected_by[card_reason.name] = None
    passing = set(found.candidates.tolist()) if closed else ()
    for name, cause in closed.items():
        row = nodes.row(name)
        if row in passing and part.feasible[row]:
            counts[cause.text] = counts.get(cause.text, 0) + 1
            events |= (
                ClusterEvent.KUBELET_REJECTION if cause is ClosureCause.REJECTED_BY_KUBELET else ClusterEvent.NODE_ADD
            )
            rejected_by[cause.value] = None
    return RejectionCounts(counts, events, tuple(rejected_by))


def verdicts(
    part: NodePart, found: Filtered, closed: Mapping[str, ClosureCause], nodes: NodeTable
) -> dict[str, NodeVerdict]:
    """Return what each node that does not fit says, by name; parameters as for :func:`count_rejections`."""
    answers = {}
    rejections = found.rejections()
    for row in found.rows.tolist():
        name, rejection = nodes.name(row), rejections.get(row)
        if rejection is not None:
            answers[name] = NodeVerdict(rejection.texts, ", ".join(rejection.texts))
        elif not part.feasible[row]:
            answers[name] = verdict(part.fit.counts[row], int(part.fit.cards[row]))
        elif name in closed:
            answers[name] = NodeVerdict((closed[name].text,), closed[name].text)
    return answers
