"""Constraints on nodes and cards that a pod may drop because its condition says that they are in the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from vgpu_scheduler.model import MUTEX, CardReason
from vgpu_scheduler.policy import OVERRIDES
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.constraints import HOST_PORT, Constraint
from vgpu_scheduler.whatif.advice.dropping import drop, droppable_constraints
from vgpu_scheduler.whatif.advice.remedy import Advice
from vgpu_scheduler.whatif.moves.repelling import repelled_topologies
from vgpu_scheduler.whatif.reasons.mismatch import MODE_WORD, MODEL_WORD
from vgpu_scheduler.whatif.tenant_advice.less_than_quotas import unknown_on_other_cards
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest
from vgpu_scheduler.whatif.tenant_advice.policy_limits import denies_larger_cards, memory_limit_of
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotasOfPod

_ANTI_AFFINITY: Final = "affinity.podAntiAffinity"
_KEEPS_FROM_NODES: Final = {
    "nodeSelector": (filters.AFFINITY,),
    "affinity.nodeAffinity": (filters.AFFINITY, filters.NOT_NAMED, filters.AFFINITY_CONFLICT),
    "affinity.podAffinity": (filters.INTER_POD_AFFINITY,),
    _ANTI_AFFINITY: (filters.INTER_POD_ANTI_AFFINITY,),
    "topologySpreadConstraints": (filters.SPREAD, filters.SPREAD_LABEL),
    HOST_PORT: (filters.PORTS,),
}
"""Fields of a pod's spec, with the reasons for which nodes reject the pod because of them."""
_KEEPS_FROM_CARDS: Final = {
    CardReason.CardTypeMismatch: (MODEL_WORD, MODE_WORD),
    CardReason.CardUuidMismatch: ("uuid",),
    CardReason.CardLabelMismatch: ("allocate-hint",),
    CardReason.CardVirtualFunctionsExhausted: ("allocate-hint",),
    CardReason.CardPartitionNotFit: ("partition-spec",),
    CardReason.NumaNotFit: ("numa", "allocate-hint", "joint-allocate"),
    CardReason.ModeNotFit: (MODE_WORD,),
    CardReason.CardHeldByPeer: ("podgroup-policy",),
    CardReason.CardAppClassMismatch: ("app-class",),
    CardReason.CardQosPolicyMismatch: ("qos-policy",),
}
"""Reasons for which cards reject a pod because of its annotations, with parts of the annotations' names."""
_OF_CARDS: Final = (MODEL_WORD, MODE_WORD, "uuid")
"""Parts of the names of annotations without which a pod may get cards of other sizes."""
OF_CONSTRAINTS: Final = frozenset(
    [
        *(reason.text for reason in chain.from_iterable(_KEEPS_FROM_NODES.values())),
        *(reason.text for reason in _KEEPS_FROM_CARDS),
    ]
)
"""The reasons for which the pod is rejected because of its constraints."""


def dropped_constraints(asked: PodRequest, quotas: QuotasOfPod, message: str) -> Iterator[Advice]:
    """Yield the advice to drop a constraint, with what the pod as it then is needs of quotas."""
    for constraint in _constraints_to_drop(asked, message):
        then = quotas.if_written(constraint.without)
        why = _why_not_all_cards(asked, constraint, then) if any(w in constraint.name for w in _OF_CARDS) else ""
        yield from then.beside([(replace(drop(constraint), why=why),)])


def _why_not_all_cards(asked: PodRequest, constraint: Constraint, quotas: QuotasOfPod) -> str:
    """Say why a pod without a constraint need not get each card: quotas and limits count what the card has."""
    then = PodRequest(asked.world, constraint.without, corrections=asked.corrections)
    limit = memory_limit_of(then)
    denied = "" if limit is None else denies_larger_cards(limit)
    return "; ".join(filter(None, (unknown_on_other_cards(then, quotas), denied)))


def _constraints_to_drop(asked: PodRequest, message: str) -> Iterator[Constraint]:
    """Yield the constraints that the pod may drop, of those for which nodes and cards reject it."""
    mutex_counts = CardReason.ExclusiveDeviceAllocateConflict.text in message
    words = [word for reason, names in _KEEPS_FROM_CARDS.items() if reason.text in message for word in names]
    for constraint in droppable_constraints(asked.world, asked.written, asked.is_let_in):
        if constraint.name == _ANTI_AFFINITY and _is_mutual(asked):
            continue
        if constraint.name == OVERRIDES["devicePolicy"]:
            if mutex_counts and MUTEX in asked.written["metadata"]["annotations"][constraint.name]:
                yield constraint
            continue
        fields = _KEEPS_FROM_NODES.get(constraint.name)
        concerned = (
            any(word in constraint.name for word in words)
            if fields is None
            else any(reason.text in message for reason in fields)
        )
        if concerned:
            yield constraint


def _is_mutual(asked: PodRequest) -> bool:
    """Tell whether all seen pods that a pod's anti-affinity selects keep it as far away by their own, too."""
    world = asked.world
    pod = world.pod(asked.written, again=True)
    own = ((each, set(repelled_topologies(world, pod, each))) for each in world.bound.values())
    selected = [(each, keys) for each, keys in own if keys]
    return bool(selected) and all(keys <= set(repelled_topologies(world, each, pod)) for each, keys in selected)
