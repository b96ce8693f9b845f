"""What is said to a tenant where nothing that the pod asks is known to help: who can act, or that waiting is all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_scheduler.engine import Cause
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.policy import PolicyRefusal, PolicyRefusalKind
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.group_topology import topology_from_condition
from vgpu_scheduler.whatif.conditions.nodes import NodeRejections
from vgpu_scheduler.whatif.objects.actions import Advice, do

__all__ = [
    "ADVICE_BY_REASON",
    "NO_SHARES_LEFT",
    "TAINTS",
    "UNKNOWN",
    "UNSEEN_QUOTA",
    "WAIT",
    "closed_nodes",
    "managed_nodes",
    "remedies_of_other_reasons",
]

TAINTS: Final = do("tolerate a taint of the nodes", "whoever runs them can say which")
UNSEEN_QUOTA: Final = do(
    "have the quota of the namespace raised, or end pods of it: how much it leaves is in its ResourceQuotas, and in the"
    " pod's events"
)
_NODES: Final = do("wait until the nodes or the pods on them change", "whoever runs the nodes can say more")
_NODES_ALONE: Final = do(
    "wait until the nodes or the pods on them change: nothing that this pod asks is known to keep it away; whoever runs"
    " the nodes can say more"
)
_CLOSED: Final = (
    "wait: nodes that would do take no pods with cards for now, and do so again by themselves or when {why}"
)
_RUNS: Final = "whoever runs the nodes looks into it"
_RUNS_SCHEDULER: Final = "whoever runs the scheduler can say more"
UNKNOWN: Final = do(_RUNS_SCHEDULER)
WAIT: Final = "wait until other pods end, or ask for a node more"
NO_SHARES_LEFT: Final = do(f"the nearest card has none left: {WAIT}")
_CARDS: Final = "whoever runs the nodes can say which cards there are"
_LABELS: Final = "whoever runs the nodes can say which labels they have"
_OTHER_CARDS: Final = do("ask for other cards", _CARDS)
_SEE_VOLUMES: Final = "see where the volumes of the pod can be used, and by whom"
_VOLUMES: Final = do(_SEE_VOLUMES)
_POLICY: Final = do("have the policy changed that keeps the pod away", "whoever runs the cluster can say which")

_OF_CLOSED_NODES: Final[Mapping[str, Advice]] = {
    Cause.LOCK_HELD.text: do(_CLOSED.format(why="the pods before it have their devices")),
    Cause.LOCK_MALFORMED.text: do(_CLOSED.format(why=_RUNS)),
    Cause.PLUGIN_SILENT.text: do(_CLOSED.format(why=_RUNS)),
    Cause.POD_STARTING.text: do(_CLOSED.format(why="the pods before it have started")),
    Cause.BINDING_IN_DOUBT.text: do(_CLOSED.format(why="it is known where a pod before it went")),
    Cause.POD_UNREADABLE.text: do(_CLOSED.format(why=_RUNS)),
    Cause.REJECTED_BY_KUBELET.text: do(_CLOSED.format(why="a moment has passed")),
    Cause.DEVICES_NOT_TAKEN.text: do(_CLOSED.format(why=_RUNS)),
}
"""Nodes that would fit, and are closed to the pod whatever it asks."""
_AWAITED: Final[Mapping[str, str]] = {
    filters.TOO_MANY_VOLUMES.text: "too many volumes are attached to the nodes",
    CardReason.NumaNotFit.text: "no free cards belong together, or are cut in slices of that size",
    CardReason.CardPartitionNotFit.text: "no free cards are a partition of a node",
    CardReason.CardVirtualFunctionsExhausted.text: "no device that it may have has a virtual function left",
    CardReason.CardTimeSlicingExhausted.text: "cards have no share left",
    CardReason.ExclusiveDeviceAllocateConflict.text: "the pod gets no card that others use",
    CardReason.CardInsufficientMemory.text: "cards have too little memory left",
    CardReason.CardInsufficientCore.text: "cards have too little compute left",
    CardReason.CardComputeUnitsExhausted.text: "all compute of cards is given out",
    CardReason.CardMigTopologyInfeasible.text: "cards have no free place for an instance that large",
    CardReason.AllocatedCardsInsufficientRequest.text: "nodes have too few cards that fit together",
    CardReason.CardHeldByPeer.text: "the pod shares no card with those of its group or of its labels",
    CardReason.CardNotFoundCustomFilterRule.text: "no card has room for all containers that run together",
}
"""Why other pods have to end, or a node be added, by the reason of nodes and cards."""
ADVICE_BY_REASON: Final[Mapping[str, Advice]] = {
    **_OF_CLOSED_NODES,
    **{reason: do(f"{WAIT}: {why}") for reason, why in _AWAITED.items()},
    filters.UNSCHEDULABLE.text: _NODES,
    filters.NODE_NAME.text: do("correct the name of the node (spec.nodeName)"),
    filters.TAINT.text: TAINTS,
    filters.AFFINITY.text: do("ask for other nodes (spec.nodeSelector, spec.affinity)", _LABELS),
    filters.NOT_NAMED.text: do(
        "ask for other nodes (spec.affinity.nodeAffinity)", "whoever runs them can say their names"
    ),
    filters.AFFINITY_CONFLICT.text: do("correct its node affinity (spec.affinity.nodeAffinity): it names no node"),
    filters.PORTS.text: do("use another host port, or wait until the pods that have it end"),
    filters.TOO_MANY_PODS.text: _NODES,
    filters.POLICY_SELECTOR.text: _POLICY,
    filters.NOT_MANAGED.text: do(
        "have more nodes managed", "whoever runs the scheduler says which are (managed_nodes)"
    ),
    filters.INTER_POD_AFFINITY.text: do("start the pods first that it is to be near (spec.affinity.podAffinity)"),
    filters.INTER_POD_ANTI_AFFINITY.text: do("wait until the pods end that it keeps away from, or ask for a node more"),
    filters.INTER_POD_EXISTING.text: _NODES,
    filters.SPREAD.text: do("wait until its fellows are spread more evenly (spec.topologySpreadConstraints)"),
    filters.SPREAD_LABEL.text: do("spread it over another label (spec.topologySpreadConstraints)", _LABELS),
    filters.FEATURES.text: do(
        "have the kubelets upgraded by whoever runs the nodes: the pod needs what theirs cannot do"
    ),
    filters.CLAIM_IN_USE.text: _VOLUMES,
    filters.DISK_IN_USE.text: do(f"{_SEE_VOLUMES}: another pod uses a disk of it in a way that lets nobody share it"),
    filters.VOLUME_ELSEWHERE.text: _VOLUMES,
    filters.NO_VOLUME.text: _VOLUMES,
    filters.NO_STORAGE.text: _VOLUMES,
    filters.VOLUME_GONE.text: _VOLUMES,
    filters.UNBOUND_IMMEDIATE.text: do("wait until the claims of the pod are bound, or see their events"),
    filters.WRONG_ZONE.text: _VOLUMES,
    CardReason.CardNotHealth.text: _NODES,
    CardReason.CardUnhealthy.text: _NODES,
    CardReason.CardCordoned.text: _NODES,
    CardReason.CardTypeMismatch.text: _OTHER_CARDS,
    CardReason.CardUuidMismatch.text: _OTHER_CARDS,
    CardReason.CardLabelMismatch.text: do("ask for devices with other labels (device-allocate-hint)"),
    CardReason.ResourceQuotaNotFit.text: UNSEEN_QUOTA,
    CardReason.NodeInsufficientDevice.text: _OTHER_CARDS,
    CardReason.NodeUnregistered.text: _OTHER_CARDS,
    CardReason.CardDeniedByPolicy.text: _POLICY,
    CardReason.ModeNotFit.text: do("ask for cards in another mode, or for another part of one", _CARDS),
    CardReason.CardAppClassMismatch.text: do(
        f"{WAIT}, or give the pod the application class of those on the cards: they are of another one"
    ),
    CardReason.CardQosPolicyMismatch.text: do(
        f"{WAIT}, or give the pod the quality of service of those on the cards: they have another one"
    ),
}
"""What is said of each reason of nodes and cards, where nothing else is."""
_INSUFFICIENT: Final = filters.insufficient("").text
_TRIED: Final = re.compile(r"\b\d+/\d+ nodes are available: (?P<why>.*)", re.DOTALL)
_TO_DO: Final = re.compile(
    r"(?P<why>.+?)(?:: |; )(?P<do>(?:write|add|ask|claim|leave out|remove(?! it))\b.*)", re.DOTALL
)
_OF_GROUP: Final = "group "
_OF_POLICY: Final = "devices."
_NO_NODES: Final = "no nodes available"


def closed_nodes(message: str) -> Iterator[Advice]:
    """Yield why nodes that would fit are closed, by the condition of a pod: only waiting helps there."""
    counts = NodeRejections.from_condition(message).counts
    yield from dict.fromkeys(advice for reason, advice in _OF_CLOSED_NODES.items() if reason in counts)


def managed_nodes(message: str) -> Iterator[Advice]:
    """Yield that more nodes may be managed, by the condition of a pod: those that are not may be as it asks."""
    if filters.NOT_MANAGED.text in NodeRejections.from_condition(message).counts:
        yield ADVICE_BY_REASON[filters.NOT_MANAGED.text]


def remedies_of_other_reasons(message: str, *, alone: bool = True) -> Iterator[Advice]:
    """Yield who can act, or that waiting is all, by the condition of a pod of which nothing else is advised.

    Parameters
    ----------
    alone
        Whether nothing else than its condition says is known to keep it waiting.
    """
    counts = NodeRejections.from_condition(message).counts
    if counts and all(ADVICE_BY_REASON.get(reason) == _NODES for reason in counts):
        yield _NODES_ALONE if alone else _NODES
    elif counts:
        if awaited := list(filter(None, map(_awaited, counts))):
            yield do(f"{WAIT}: {'; '.join(awaited)}")
        yield from dict.fromkeys(ADVICE_BY_REASON.get(reason, _NODES) for reason in counts if not _awaited(reason))
    elif said := _TRIED.search(message):
        yield from map(do, topology_from_condition(message))
        yield _of_refusal(said["why"].strip().removesuffix("."))
    elif _NO_NODES in message:
        yield do("have nodes added", "whoever runs the cluster can say why the scheduler knows none")


def _awaited(reason: str) -> str:
    """Return why other pods have to end, or a node be added; empty where that is not what helps."""
    if reason.startswith(_INSUFFICIENT):
        return f"nodes have too little {reason.removeprefix(_INSUFFICIENT)} left, or none"
    return _AWAITED.get(reason, "")


def _of_refusal(why: str) -> Advice:
    """Return what is to be done about what a pod is refused for whatever the nodes are, which mostly says it itself."""
    if why in ADVICE_BY_REASON:
        return ADVICE_BY_REASON[why]
    if text := _of_policies(why):
        return do(text)
    if why.startswith(_OF_GROUP):
        return do(f"{WAIT}, or have the group need less: {why}")
    if why.startswith(_OF_POLICY):
        return do(f"have a policy changed that the dialect of the pod's cards does not follow: {why}")
    if found := _TO_DO.fullmatch(why):
        return do(f"{found['do']}: {found['why']}")
    return do(f"correct what the pod is refused for: {why}")


def _of_policies(why: str) -> str:
    """Return what is to be done where it is not known which policy is in force; empty for other refusals."""
    refusal = PolicyRefusal.from_text(why)
    if refusal is None:
        return ""
    policy = refusal.policy
    match refusal.kind:
        case PolicyRefusalKind.NAMESPACE_UNKNOWN:
            return f"wait until the scheduler has read the namespace: its labels, which {policy} asks, are not known"
        case PolicyRefusalKind.INTERNAL_ERROR:
            return f"{_RUNS_SCHEDULER}: {refusal.why}"
        case _:
            return f"have {policy} corrected by whoever may write it: {refusal.why}"
