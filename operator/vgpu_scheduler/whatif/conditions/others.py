"""What is said to a tenant where nothing that the pod asks is known to help: who can act, or that waiting is all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_scheduler.engine import ClosureCause
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.policy import PolicyRefusal, PolicyRefusalKind
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.group_topology import topology_from_condition
from vgpu_scheduler.whatif.conditions.nodes import NodeRejections

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

TAINTS: Final = "tolerate a taint of the nodes: whoever runs them can say which"
UNSEEN_QUOTA: Final = (
    "have the quota of the namespace raised, or end pods of it: how much it leaves is in its ResourceQuotas, and in the"
    " pod's events"
)
_NODES: Final = "wait until the nodes or the pods on them change: whoever runs the nodes can say more"
_NODES_ALONE: Final = (
    "wait until the nodes or the pods on them change: nothing that this pod asks is known to keep it away; whoever runs"
    " the nodes can say more"
)
_CLOSED: Final = (
    "wait: nodes that would do take no pods with cards for now, and do so again by themselves or when {why}"
)
_RUNS: Final = "whoever runs the nodes looks into it"
UNKNOWN: Final = "whoever runs the scheduler can say more"
WAIT: Final = "wait until other pods end, or ask for a node more"
_WAITING_FOR: Final = f"{WAIT}: "
NO_SHARES_LEFT: Final = f"the nearest card has none left: {WAIT}"
_CARDS: Final = "whoever runs the nodes can say which cards there are"
_LABELS: Final = "whoever runs the nodes can say which labels they have"
_VOLUMES: Final = "see where the volumes of the pod can be used, and by whom"
_POLICY: Final = "have the policy changed that keeps the pod away: whoever runs the cluster can say which"

_OF_CLOSED_NODES: Final[Mapping[str, str]] = {
    ClosureCause.LOCK_HELD.text: _CLOSED.format(why="the pods before it have their devices"),
    ClosureCause.LOCK_MALFORMED.text: _CLOSED.format(why=_RUNS),
    ClosureCause.PLUGIN_SILENT.text: _CLOSED.format(why=_RUNS),
    ClosureCause.POD_STARTING.text: _CLOSED.format(why="the pods before it have started"),
    ClosureCause.BINDING_IN_DOUBT.text: _CLOSED.format(why="it is known where a pod before it went"),
    ClosureCause.POD_UNREADABLE.text: _CLOSED.format(why=_RUNS),
    ClosureCause.REJECTED_BY_KUBELET.text: _CLOSED.format(why="a moment has passed"),
    ClosureCause.DEVICES_NOT_TAKEN.text: _CLOSED.format(why=_RUNS),
}
"""Nodes that would fit, and are closed to the pod whatever it asks."""
ADVICE_BY_REASON: Final[Mapping[str, str]] = {
    **_OF_CLOSED_NODES,
    filters.UNSCHEDULABLE.text: _NODES,
    filters.NODE_NAME.text: "correct the name of the node (spec.nodeName)",
    filters.TAINT.text: TAINTS,
    filters.AFFINITY.text: f"ask for other nodes (spec.nodeSelector, spec.affinity): {_LABELS}",
    filters.NOT_NAMED.text: "ask for other nodes (spec.affinity.nodeAffinity): whoever runs them can say their names",
    filters.AFFINITY_CONFLICT.text: "correct its node affinity (spec.affinity.nodeAffinity): it names no node",
    filters.PORTS.text: "use another host port, or wait until the pods that have it end",
    filters.TOO_MANY_PODS.text: _NODES,
    filters.POLICY_SELECTOR.text: _POLICY,
    filters.NOT_MANAGED.text: "have more nodes managed: whoever runs the scheduler says which are (managed_nodes)",
    filters.INTER_POD_AFFINITY.text: "start the pods first that it is to be near (spec.affinity.podAffinity)",
    filters.INTER_POD_ANTI_AFFINITY.text: "wait until the pods end that it keeps away from, or ask for a node more",
    filters.INTER_POD_EXISTING.text: _NODES,
    filters.SPREAD.text: "wait until its fellows are spread more evenly (spec.topologySpreadConstraints)",
    filters.SPREAD_LABEL.text: f"spread it over another label (spec.topologySpreadConstraints): {_LABELS}",
    filters.FEATURES.text: "have the kubelets upgraded by whoever runs the nodes: the pod needs what theirs cannot do",
    filters.CLAIM_IN_USE.text: _VOLUMES,
    filters.DISK_IN_USE.text: f"{_VOLUMES}: another pod uses a disk of it in a way that lets nobody share it",
    filters.TOO_MANY_VOLUMES.text: f"{WAIT}: too many volumes are attached to the nodes",
    filters.VOLUME_ELSEWHERE.text: _VOLUMES,
    filters.NO_VOLUME.text: _VOLUMES,
    filters.NO_STORAGE.text: _VOLUMES,
    filters.VOLUME_GONE.text: _VOLUMES,
    filters.UNBOUND_IMMEDIATE.text: "wait until the claims of the pod are bound, or see their events",
    filters.WRONG_ZONE.text: _VOLUMES,
    CardReason.CardNotHealth.text: _NODES,
    CardReason.CardUnhealthy.text: _NODES,
    CardReason.CardCordoned.text: _NODES,
    CardReason.CardTypeMismatch.text: f"ask for other cards: {_CARDS}",
    CardReason.NumaNotFit.text: f"{WAIT}: no free cards belong together, or are cut in slices of that size",
    CardReason.CardUuidMismatch.text: f"ask for other cards: {_CARDS}",
    CardReason.CardLabelMismatch.text: "ask for devices with other labels (device-allocate-hint)",
    CardReason.CardPartitionNotFit.text: f"{WAIT}: no free cards are a partition of a node",
    CardReason.CardVirtualFunctionsExhausted.text: f"{WAIT}: no device that it may have has a virtual function left",
    CardReason.CardTimeSlicingExhausted.text: f"{WAIT}: cards have no share left",
    CardReason.ExclusiveDeviceAllocateConflict.text: f"{WAIT}: the pod gets no card that others use",
    CardReason.ResourceQuotaNotFit.text: UNSEEN_QUOTA,
    CardReason.CardInsufficientMemory.text: f"{WAIT}: cards have too little memory left",
    CardReason.CardInsufficientCore.text: f"{WAIT}: cards have too little compute left",
    CardReason.CardComputeUnitsExhausted.text: f"{WAIT}: all compute of cards is given out",
    CardReason.CardMigTopologyInfeasible.text: f"{WAIT}: cards have no free place for an instance that large",
    CardReason.AllocatedCardsInsufficientRequest.text: f"{WAIT}: nodes have too few cards that fit together",
    CardReason.NodeInsufficientDevice.text: f"ask for other cards: {_CARDS}",
    CardReason.NodeUnregistered.text: f"ask for other cards: {_CARDS}",
    CardReason.CardDeniedByPolicy.text: _POLICY,
    CardReason.CardHeldByPeer.text: f"{WAIT}: the pod shares no card with those of its group or of its labels",
    CardReason.CardNotFoundCustomFilterRule.text: f"{WAIT}: no card has room for all containers that run together",
    CardReason.ModeNotFit.text: f"ask for cards in another mode, or for another part of one: {_CARDS}",
    CardReason.CardAppClassMismatch.text: (
        f"{WAIT}, or give the pod the application class of those on the cards: they are of another one"
    ),
    CardReason.CardQosPolicyMismatch.text: (
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


def closed_nodes(message: str) -> Iterator[str]:
    """Yield why nodes that would fit are closed, by the condition of a pod: only waiting helps there."""
    counts = NodeRejections.from_condition(message).counts
    yield from dict.fromkeys(text for reason, text in _OF_CLOSED_NODES.items() if reason in counts)


def managed_nodes(message: str) -> Iterator[str]:
    """Yield that more nodes may be managed, by the condition of a pod: those that are not may be as it asks."""
    if filters.NOT_MANAGED.text in NodeRejections.from_condition(message).counts:
        yield ADVICE_BY_REASON[filters.NOT_MANAGED.text]


def remedies_of_other_reasons(message: str, *, alone: bool = True) -> Iterator[str]:
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
        texts = dict.fromkeys(map(_of_reason, counts))
        waits = [text.removeprefix(_WAITING_FOR) for text in texts if text.startswith(_WAITING_FOR)]
        yield from [f"{_WAITING_FOR}{'; '.join(waits)}"] if waits else ()
        yield from (text for text in texts if not text.startswith(_WAITING_FOR))
    elif said := _TRIED.search(message):
        yield from topology_from_condition(message)
        yield _of_refusal(said["why"].strip().removesuffix("."))
    elif _NO_NODES in message:
        yield "have nodes added: whoever runs the cluster can say why the scheduler knows none"


def _of_reason(reason: str) -> str:
    if reason.startswith(_INSUFFICIENT):
        return f"{WAIT}: nodes have too little {reason.removeprefix(_INSUFFICIENT)} left, or none"
    return ADVICE_BY_REASON.get(reason, _NODES)


def _of_refusal(why: str) -> str:
    """Return what is to be done about what a pod is refused for whatever the nodes are, which mostly says it itself."""
    if why in ADVICE_BY_REASON:
        return ADVICE_BY_REASON[why]
    if text := _of_policies(why):
        return text
    if why.startswith(_OF_GROUP):
        return f"{WAIT}, or have the group need less: {why}"
    if why.startswith(_OF_POLICY):
        return f"have a policy changed that the dialect of the pod's cards does not follow: {why}"
    if found := _TO_DO.fullmatch(why):
        return f"{found['do']}: {found['why']}"
    return f"correct what the pod is refused for: {why}"


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
            return f"{UNKNOWN}: {refusal.why}"
        case _:
            return f"have {policy} corrected by whoever may write it: {refusal.why}"
