"""Advice to a tenant if no change of the pod's requests is known to help: who can act, or that the pod has to wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_scheduler.dialects import UnsupportedChoiceError
from vgpu_scheduler.engine import ClosureCause, is_about_group
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.policy import PolicyNotReady, PolicyNotReadyType
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.group_topology import topology_from_condition
from vgpu_scheduler.whatif.advice.remedy import Advice, do, say
from vgpu_scheduler.whatif.tenant_advice.nodes import NodeRejections

TAINTS: Final = do(
    "tolerate a taint of the nodes",
    "an administrator of the nodes can say which, and whether nodes with it are as the pod asks",
)
UNSEEN_QUOTA: Final = do(
    "have the quota of the namespace raised, or end pods of it: the remaining amount is in its "
    "ResourceQuotas, and in the pod's events"
)
_NODES: Final = do("wait until the nodes or the pods on them change", "an administrator of the nodes can say more")
_NODES_ALONE: Final = do(
    "wait until the nodes or the pods on them change: no request of this pod is known to exclude it; an "
    "administrator of the nodes can say more"
)
UNKNOWN: Final = do("ask an administrator of the scheduler")
WAIT: Final = "wait until other pods end, or ask for a node more"
NO_SHARES_LEFT: Final = do(f"the nearest card has none left: {WAIT}")
_CARDS: Final = "an administrator of the nodes can say which cards there are"
_LABELS: Final = "an administrator of the nodes can say which labels they have"
_VOLUMES: Final = "check where the volumes of the pod can be used, and by which pods"
_POLICY: Final = do("have the policy changed that excludes the pod", "an administrator of the cluster can say which")

_CLOSED: Final = "wait: nodes that would fit take no pods with cards now; they do so again by themselves, or when"
_RUNS: Final = do(f"{_CLOSED} an administrator of the nodes repairs them")
_OF_CLOSED_NODES: Final[Mapping[str, Advice]] = {
    ClosureCause.LOCK_HELD.text: do(f"{_CLOSED} the pods before it have their devices"),
    ClosureCause.LOCK_MALFORMED.text: _RUNS,
    ClosureCause.PLUGIN_SILENT.text: _RUNS,
    ClosureCause.POD_STARTING.text: do(f"{_CLOSED} the pods before it have started"),
    ClosureCause.BINDING_IN_DOUBT.text: do(f"{_CLOSED} the outcome of a Binding before it is known"),
    ClosureCause.POD_UNREADABLE.text: _RUNS,
    ClosureCause.REJECTED_BY_KUBELET.text: do(f"{_CLOSED} a short time has passed"),
    ClosureCause.DEVICES_NOT_TAKEN.text: _RUNS,
}
"""Advice about suitable nodes that are closed to every pod."""
_AWAITED: Final[Mapping[filters.Reason | CardReason, str]] = {
    filters.TOO_MANY_VOLUMES: "too many volumes are attached to the nodes",
    CardReason.NumaNotFit: "no free cards belong together, or are split into slices of that size",
    CardReason.CardPartitionNotFit: "no free cards are a partition of a node",
    CardReason.CardVirtualFunctionsExhausted: "no device that it may have has a virtual function left",
    CardReason.CardTimeSlicingExhausted: "cards have no share left",
    CardReason.ExclusiveDeviceAllocateConflict: "the pod gets no card that others use",
    CardReason.CardInsufficientMemory: "cards have too little memory left",
    CardReason.CardInsufficientCore: "cards have too little compute left",
    CardReason.CardComputeUnitsExhausted: "all compute of cards is allocated",
    CardReason.CardMigTopologyInfeasible: "cards have no free place for an instance that large",
    CardReason.AllocatedCardsInsufficientRequest: "nodes have too few cards that fit together",
    CardReason.CardHeldByPeer: "the pod shares no card with those of its group or of its labels",
    CardReason.CardNotFoundCustomFilterRule: "no card has room for all containers that run together",
}
"""By reason of nodes and cards: why other pods have to end, or a node has to be added."""
_OF_NODES: Final = (
    *(filters.TOO_MANY_PODS, filters.INTER_POD_EXISTING),
    *(CardReason.CardNotHealth, CardReason.CardUnhealthy, CardReason.CardCordoned),
)
OF_VOLUME_CLAIMS: Final = (
    *(filters.CLAIM_IN_USE, filters.VOLUME_ELSEWHERE, filters.NO_VOLUME),
    *(filters.NO_STORAGE, filters.VOLUME_GONE, filters.WRONG_ZONE),
)
"""The reasons of nodes that reject a pod because of its volume claims."""
_OF_OTHER_CARDS: Final = (
    *(CardReason.CardTypeMismatch, CardReason.CardUuidMismatch),
    *(CardReason.NodeInsufficientDevice, CardReason.NodeUnregistered),
)
_ADVICE: Final[Mapping[filters.Reason | CardReason, Advice]] = {
    **{reason: do(f"{WAIT}: {why}") for reason, why in _AWAITED.items()},
    **dict.fromkeys(_OF_NODES, _NODES),
    **dict.fromkeys(OF_VOLUME_CLAIMS, do(_VOLUMES)),
    **dict.fromkeys(_OF_OTHER_CARDS, do("ask for other cards", _CARDS)),
    **dict.fromkeys((filters.POLICY_SELECTOR, CardReason.CardDeniedByPolicy), _POLICY),
    filters.NODE_NAME: do("correct the name of the node (spec.nodeName)"),
    filters.UNSCHEDULABLE: do(
        "have cordoned nodes uncordoned, or wait until they are",
        "an administrator of the nodes can say which, and whether they are as the pod asks",
    ),
    filters.TAINT: TAINTS,
    filters.AFFINITY: do("ask for other nodes (spec.nodeSelector, spec.affinity)", _LABELS),
    filters.NOT_NAMED: do(
        "ask for other nodes (spec.affinity.nodeAffinity)", "an administrator of the nodes can say their names"
    ),
    filters.AFFINITY_CONFLICT: do("correct its node affinity (spec.affinity.nodeAffinity): it names no node"),
    filters.PORTS: do("use another host port, or wait until the pods that have it end"),
    filters.NOT_MANAGED: do(
        "have more nodes managed", "an administrator of the scheduler can say which are (setting managed_nodes)"
    ),
    filters.INTER_POD_AFFINITY: do("first start the pods that it must be near (spec.affinity.podAffinity)"),
    filters.INTER_POD_ANTI_AFFINITY: do("wait until the pods end that it keeps away from, or ask for a node more"),
    filters.SPREAD: do(
        "wait until the pods that it is to be spread with are spread more evenly (spec.topologySpreadConstraints)"
    ),
    filters.SPREAD_LABEL: do("spread it over another label (spec.topologySpreadConstraints)", _LABELS),
    filters.FEATURES: do(
        "have an administrator of the nodes upgrade the kubelets: the pod needs a feature that they lack"
    ),
    filters.DISK_IN_USE: do(f"{_VOLUMES}: another pod uses one of its disks exclusively"),
    filters.UNBOUND_IMMEDIATE: do("wait until the claims of the pod are bound, or see their events"),
    CardReason.CardLabelMismatch: do("ask for devices with other labels (device-allocate-hint)"),
    CardReason.ResourceQuotaNotFit: UNSEEN_QUOTA,
    CardReason.ModeNotFit: do("ask for cards in another mode, or for another part of one", _CARDS),
    CardReason.CardAppClassMismatch: do(
        f"{WAIT}, or give the pod the application class of those on the cards: they are of another one"
    ),
    CardReason.CardQosPolicyMismatch: do(
        f"{WAIT}, or give the pod the quality of service of those on the cards: they have another one"
    ),
}
ADVICE_BY_REASON: Final = {**_OF_CLOSED_NODES, **{reason.text: advice for reason, advice in _ADVICE.items()}}
"""The advice for each reason of nodes and cards, if there is no other advice."""
_INSUFFICIENT: Final = filters.insufficient("").text
_TRIED: Final = re.compile(r"\b\d+/\d+ nodes are available: (?P<why>.*)", re.DOTALL)
_TO_DO: Final = re.compile(
    r"(?P<why>.+?)(?:: |; )(?P<do>(?:write|add|ask|claim|leave out|remove(?! it))\b.*)", re.DOTALL
)
_NO_NODES: Final = "no nodes available"


def closed_nodes(message: str) -> Iterator[Advice]:
    """Yield advice about suitable nodes that are closed, according to the pod's condition; only waiting helps."""
    counts = NodeRejections.from_condition(message).counts
    yield from dict.fromkeys(advice for cause, advice in _OF_CLOSED_NODES.items() if cause in counts)


def excluded_nodes(message: str) -> Iterator[Advice]:
    """Yield the advice to uncordon and manage nodes, if the pod's condition counts such ones: they may be suitable."""
    counts = NodeRejections.from_condition(message).counts
    yield from (
        ADVICE_BY_REASON[each.text] for each in (filters.UNSCHEDULABLE, filters.NOT_MANAGED) if each.text in counts
    )


def remedies_of_other_reasons(message: str, *, alone: bool = True) -> Iterator[Advice]:
    """Yield who can act, or that the pod has to wait, for a pod's condition without other advice.

    Parameters
    ----------
    alone
        Whether nothing besides the reasons in its condition is known to keep the pod waiting.
    """
    counts = NodeRejections.from_condition(message).counts
    if counts and all(ADVICE_BY_REASON.get(reason) == _NODES for reason in counts):
        yield _NODES_ALONE if alone else _NODES
    elif counts:
        if awaited := list(filter(None, map(_awaited, counts))):
            yield do(f"{WAIT}: {'; '.join(awaited)}")
        advised = dict.fromkeys(ADVICE_BY_REASON.get(reason, _NODES) for reason in counts if not _awaited(reason))
        yield from (advice for advice in advised if advice != _NODES or TAINTS not in advised)
    elif said := _TRIED.search(message):
        yield from map(do, topology_from_condition(message))
        yield _of_refusal(said["why"].strip().removesuffix("."))
    elif _NO_NODES in message:
        yield do("have nodes added", "an administrator of the cluster can say why the scheduler knows none")


def _awaited(reason: str) -> str:
    """Return why other pods have to end, or a node has to be added; empty if that does not help."""
    if reason.startswith(_INSUFFICIENT):
        return f"nodes have too little {reason.removeprefix(_INSUFFICIENT)} left, or none"
    return next((why for each, why in _AWAITED.items() if each.text == reason), "")


def _of_refusal(why: str) -> Advice:
    """Return advice about a refusal that does not depend on nodes, usually taken from its own text."""
    if why in ADVICE_BY_REASON:
        return ADVICE_BY_REASON[why]
    if text := _of_policies(why):
        return do(text)
    if is_about_group(why):
        return do(f"{WAIT}, or have the group need less: {why}")
    if UnsupportedChoiceError.is_in(why):
        return do(f"have a policy changed that the dialect of the pod's cards does not follow: {why}")
    if found := _TO_DO.fullmatch(why):
        return do(f"{found['do']}: {found['why']}")
    return do(f"correct the reason for the refusal: {why}")


def _of_policies(why: str) -> str:
    """Return advice about a refusal because of an undetermined policy; empty for other refusals."""
    refusal = PolicyNotReady.from_text(why)
    if refusal is None:
        return ""
    policy = refusal.policy
    match refusal.type:
        case PolicyNotReadyType.NAMESPACE_UNKNOWN:
            return f"wait until the scheduler has read the namespace: its labels, which {policy} reads, are not known"
        case PolicyNotReadyType.INTERNAL_ERROR:
            return f"{say(UNKNOWN)}: {refusal.why}"
        case _:
            return f"have {policy} corrected by a user who may write it: {refusal.why}"
