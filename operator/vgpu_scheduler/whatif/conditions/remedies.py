"""What would help a pod by what its condition and its event say, for those who may not see the nodes.

Nothing here is decided: a near miss is about one card, so what is said after a change may be the next thing that is
missing. What has to be done together is one remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import ExceededLimit, PodSums, QuotaReport, pod_sums, quotas_from_event
from vgpu_scheduler.engine.group_attempts import other_member_in
from vgpu_scheduler.kube import Pod, to_int
from vgpu_scheduler.model import MIB, MUTEX, CardReason, ConditionReason, NearMiss, PodClaims, by_name
from vgpu_scheduler.policy import OVERRIDES
from vgpu_scheduler.predicates import MissingClaim, gated
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.constraints import HOST_PORT
from vgpu_scheduler.whatif.advice.corrections import corrected
from vgpu_scheduler.whatif.advice.dropping import droppable_constraints
from vgpu_scheduler.whatif.advice.limits import most_at_once, only_shares_more
from vgpu_scheduler.whatif.advice.pod_labels import labels_to_change
from vgpu_scheduler.whatif.advice.remedy import Advice, do, parts_of, say
from vgpu_scheduler.whatif.conditions.cards import (
    cards_in_one_container,
    compute_for_all,
    fewer_cards,
    shared_cards,
    smaller_card_requests,
)
from vgpu_scheduler.whatif.conditions.group_quotas import OtherMembers
from vgpu_scheduler.whatif.conditions.needs import ClaimCondition, PodRequest, amounts_instead_of_percent
from vgpu_scheduler.whatif.conditions.nodes import NodeRejections, is_of, less_of_nodes
from vgpu_scheduler.whatif.conditions.others import (
    OF_CLAIMS,
    TAINTS,
    UNKNOWN,
    UNSEEN_QUOTA,
    closed_nodes,
    managed_nodes,
    remedies_of_other_reasons,
)
from vgpu_scheduler.whatif.conditions.pieces import is_more_than_a_piece, smallest_pieces_of, takes_pieces_alone
from vgpu_scheduler.whatif.conditions.quotas import UNKNOWN_QUOTA_STATUS, QuotasOfPod, QuotaStatus
from vgpu_scheduler.whatif.conditions.refusals import corrected_requests
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.reasons.claim_problems import create_claim
from vgpu_scheduler.whatif.reasons.mismatch import MODE_WORD, MODEL_WORD
from vgpu_scheduler.whatif.world.world import World

__all__ = ["ConditionRemedies", "OtherRemedies", "gate_remedies", "remedies_from_condition"]

_KEEPS_FROM_NODES: Final = {
    "nodeSelector": (filters.AFFINITY,),
    "affinity.nodeAffinity": (filters.AFFINITY, filters.NOT_NAMED, filters.AFFINITY_CONFLICT),
    "affinity.podAffinity": (filters.INTER_POD_AFFINITY,),
    "affinity.podAntiAffinity": (filters.INTER_POD_ANTI_AFFINITY,),
    "topologySpreadConstraints": (filters.SPREAD, filters.SPREAD_LABEL),
    HOST_PORT: (filters.PORTS,),
}
"""Fields of a pod's spec, with what nodes reject it for because of them."""
_KEEPS_FROM_CARDS: Final = {
    CardReason.CardTypeMismatch: (MODEL_WORD, MODE_WORD),
    CardReason.CardUuidMismatch: ("uuid",),
    CardReason.CardLabelMismatch: ("allocate-hint",),
    CardReason.CardVirtualFunctionsExhausted: ("allocate-hint",),
    CardReason.CardPartitionNotFit: ("partition-spec",),
    CardReason.NumaNotFit: ("numa", "allocate-hint", "joint-allocate"),
    CardReason.ModeNotFit: (MODE_WORD,),
    CardReason.CardHeldByPeer: ("podgroup-policy",),
}
"""What cards reject a pod for because of its annotations, with what the names of these have in common."""
_OF_CONSTRAINTS: Final = frozenset(
    [
        *(reason.text for reason in chain.from_iterable(_KEEPS_FROM_NODES.values())),
        *(reason.text for reason in _KEEPS_FROM_CARDS),
    ]
)
_TOO_FEW_CARDS: Final = (
    CardReason.AllocatedCardsInsufficientRequest,
    CardReason.NodeInsufficientDevice,
    CardReason.NumaNotFit,
)
_OF_OTHER: Final = "see what keeps pod {} waiting: this one is placed together with it, or not at all"
_OWN: Final = "exclusiveCardsPerPod"
_MEMORY: Final = "memoryPerPod"
_BY_THE_PIECE: Final = ": of a card that is given out in pieces a whole piece counts, which may be more than is asked"
_SUMS: Final[Mapping[str, Callable[[PodSums, Dialect], int]]] = {
    "devicesPerPod": lambda sums, _: sums.devices,
    _OWN: lambda sums, _: sums.own,
    "coresPerPod": lambda sums, _: sums.cores,
    _MEMORY: lambda sums, dialect: sums.memory * dialect.inventory.memory_unit,
}
"""What limits of policies are about, that a pod may ask less of."""


@dataclass(frozen=True, slots=True)
class ConditionRemedies:
    """What a pod that waits says.

    Attributes
    ----------
    near_miss
        The card that came closest; None where the event names none.
    quotas
        How its namespace stands, where quotas keep it waiting.
    advice
        What may help, each by itself.
    other_members
        The others that it is placed at once with, where quotas keep them waiting together.
    quota_unseen
        Whether quotas keep it waiting of which nothing more is told.
    """

    near_miss: NearMiss | None
    quotas: tuple[QuotaReport, ...]
    advice: tuple[Advice, ...]
    other_members: OtherMembers | None = None
    quota_unseen: bool = False

    @property
    def remedies(self) -> tuple[str, ...]:
        """What may help, each by itself, in words."""
        return tuple(map(say, self.advice))


class OtherRemedies(NamedTuple):
    """What may help a pod beside what follows from its condition.

    Attributes
    ----------
    before, after
        What is said before that, and after it.
    of_claims
        What has to be done about the claims of its volumes, which is said last.
    """

    before: Sequence[Advice] = ()
    after: Sequence[Advice] = ()
    of_claims: Sequence[Advice] = ()


NO_OTHERS: Final = OtherRemedies()


def remedies_from_condition(
    world: World,
    pod: Pod,
    message: str,
    event: str,
    quota_status: QuotaStatus = UNKNOWN_QUOTA_STATUS,
    others: OtherRemedies = NO_OTHERS,
    reason: str = "",
) -> ConditionRemedies:
    """Return what the condition and the event of a pod say, and what follows from that and from the pod.

    Parameters
    ----------
    world
        Knows the scheduler's settings; nothing need be in it.
    pod
        One that the world has read.
    message, event
        The texts of the condition and of the event; empty where there is none.
    quota_status
        How the namespace stands now; its reports are None where the event tells.
    others
        What else may help.
    reason
        That of the condition: it tells whether some node would fit the pod but for its quota.
    """
    of_quota = CardReason.ResourceQuotaNotFit.text in message  # on some node, where no taint is
    other = other_member_in(message)
    if other is not None:  # all that is said is said of that pod
        of_quota, message = of_quota and reason != ConditionReason.UNSCHEDULABLE, ""
    meant = corrected(world, world.written(pod))
    asked = PodRequest(world, meant.written, corrected=bool(meant.changes), corrections=meant.amounts)
    near_miss = NearMiss.found_in(event) if other is None else None
    quotas = _quotas_of(asked, quota_status, event, kept=of_quota and other is None)
    before = others.before or ([do(_OF_OTHER.format(other[0]))] if other else [])
    remedies = [
        *quotas.beside(before),
        *quotas.beside([meant.and_then()] if meant.changes else ()),
        *quotas.beside(gate_remedies(pod)),
        *quotas.beside(corrected_requests(world, pod, meant.written, message)),
        *filter(None, map(meant.and_then, _asked_otherwise(asked, near_miss, quotas, message))),
        *quotas.beside(map(do, labels_to_change(world, pod, message))),
        *quotas.beside(do(create_claim(claim.name)) for claim in MissingClaim.found_in(message)),
        *quotas.beside((*others.after, *others.of_claims)),
    ]
    unseen = of_quota and quota_status.reports is None and not quotas.reports
    if of_quota and reason == ConditionReason.UNSCHEDULABLE:
        remedies[:0] = map(meant.and_then, _beyond_quota(asked, quotas))
    elif unseen:
        remedies[:0] = [*map(meant.and_then, _less_than_quota(asked)), UNSEEN_QUOTA]
    elif of_quota:
        of_pieces = tuple(_less_of_pieces(asked, quotas))
        alone = (of_pieces or quotas.alone) if takes_pieces_alone(asked) else (quotas.alone or of_pieces)
        remedies[:0] = map(meant.and_then, alone)
    if filters.TAINT.text in message and not of_quota and (not remedies or _is_about_taints(message)):
        remedies += quotas.beside([TAINTS])
    if not others.of_claims:  # else each claim is told by itself
        remedies += quotas.beside(_volumes(pod, message))
    if remedies:
        remedies += quotas.beside(chain(closed_nodes(message), () if of_quota else managed_nodes(message)))
    else:
        remedies += quotas.beside(remedies_of_other_reasons(message, alone=not quotas.alone))
    if not remedies:  # nothing that is said of nodes keeps the pod waiting as well
        remedies += map(meant.and_then, quotas.alone) if quotas.alone else [UNKNOWN] if message else []
    each_once: dict[tuple[str, ...], Advice] = {}
    for way in remedies:
        each_once.setdefault(parts_of(way), way)
    return ConditionRemedies(near_miss, quotas.reports, tuple(each_once.values()), quota_status.other_members, unseen)


def _quotas_of(asked: PodRequest, quota_status: QuotaStatus, event: str, *, kept: bool) -> QuotasOfPod:
    """Return what is to be done about the quotas of a pod, which its condition says keep it waiting or not."""
    known = quotas_from_event(event) if quota_status.reports is None else quota_status.reports
    quotas = QuotasOfPod(asked, quota_status._replace(reports=known, limits=quota_status.limits or known))
    return quotas.if_given() if kept and known and not quotas.alone else quotas


def _asked_otherwise(
    asked: PodRequest, near_miss: NearMiss | None, quotas: QuotasOfPod, message: str
) -> Iterator[Advice]:
    """Yield how the pod would be written so that what it is rejected for does not keep it away."""
    if near_miss:
        yield from smaller_card_requests(asked, near_miss, quotas, message)
    if any(reason.text in message for reason in _TOO_FEW_CARDS):
        yield from fewer_cards(asked, quotas)
    if CardReason.ExclusiveDeviceAllocateConflict.text in message:
        yield from shared_cards(asked, quotas)
    if CardReason.CardComputeUnitsExhausted.text in message:
        yield from compute_for_all(asked, quotas)
    if CardReason.CardNotFoundCustomFilterRule.text in message:
        yield from cards_in_one_container(asked, quotas)
    yield from _within_limits(asked, message, quotas)
    yield from quotas.raised_beside(less_of_nodes(asked, message, of_cards=near_miss is None))
    yield from quotas.beside(_drop_constraints(asked, message))


def _beyond_quota(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield what may help a pod that no node would fit if its quota were larger, either: it has to ask less.

    Where the quotas leave nothing, they have to be larger as well.
    """
    if quotas.less or not quotas.reports:
        yield from quotas.less or _less_than_quota(asked)
    else:
        yield from tuple(quotas.raised_beside(_less_than_said(asked))) or quotas.alone


def _less_than_said(asked: PodRequest) -> Iterator[Advice]:
    """Yield how less is asked of cards, of what the pod says."""
    known = {name for dialect in asked.owners for name in dialect.inventory.device_resources}
    for amount in asked.amounts:
        for part in amount.parts if amount.steps > 1 and asked.is_heeded(amount) else ():
            if part.resource in known and part.written:
                yield do(amount.less_of(part))


def _less_than_quota(
    asked: PodRequest, *, of_unsaid: bool = True, of_pieces: bool = False, why: str = ""
) -> Iterator[Advice]:
    """Yield how less is asked of what may have a quota, and why; how much that leaves is not known.

    Parameters
    ----------
    of_pieces
        A whole piece counts: less than the smallest one has is no less.
    """
    named = {name for dialect in asked.owners for name in dialect.allocation.quota_resources}
    shares = {name for dialect in asked.owners for name, r in dialect.inventory.device_resources.items() if r.percent}
    amounts = [each for each in asked.amounts if not of_pieces or is_more_than_a_piece(asked, each)]
    for amount in amounts:
        for part in amount.parts if amount.steps > 1 and asked.is_heeded(amount) else ():
            if part.resource in (named if amount.unsaid else named | shares) and (of_unsaid or not amount.unsaid):
                yield do(f"{amount.less_of(part)}{why}")


def _less_of_pieces(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield what may help where quotas have room for what is asked: of cards in pieces more counts than that."""
    if raised := quotas.raised_for_pieces:
        if quotas.leave(smallest_pieces_of(asked.world, asked.claims)):
            yield from _less_than_quota(asked, of_unsaid=False, of_pieces=True, why=_BY_THE_PIECE)
        yield do(f"{raised}{_BY_THE_PIECE}")


def gate_remedies(pod: Pod) -> Iterator[Advice]:
    """Yield what has to be done about the scheduling gates of a pod."""
    if gated(pod):
        which = by_name("gate", pod.spec.scheduling_gates)
        yield do(f"wait until the scheduling {which} (spec.schedulingGates) is removed", "whoever set it removes it")


def _volumes(pod: Pod, message: str) -> Iterator[Advice]:
    """Yield what is to be looked at where the volumes of a pod keep it from nodes."""
    names = sorted({claim.claim(pod.name) for claim in pod.spec.volume_claims})
    which = by_name("PersistentVolumeClaim", names)
    if names and filters.UNBOUND_IMMEDIATE.text in message:
        are, their = ("is", "its") if len(names) == 1 else ("are", "their")
        yield do(f"wait until {which} {are} bound, or see {their} events")
    elif names and any(reason.text in message for reason in (*OF_CLAIMS, filters.TOO_MANY_VOLUMES)):
        yield do(f"see where {which} can be used, and by whom: nodes reject the pod for what it mounts")


def _is_about_taints(message: str) -> bool:
    """Tell whether other nodes are not all rejected for one same reason, which no toleration would mend.

    Where that is what the pod asks of nodes or cards, those with taints may be the ones that are as it asks.
    """
    rejections = NodeRejections.from_condition(message)
    return not rejections.are_the_same() or not rejections.counts.keys().isdisjoint(_OF_CONSTRAINTS)


# Limits --------------------------------------------------------------------------------------------------------------


def _within_limits(asked: PodRequest, message: str, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield the largest amounts that the limits of policies allow, together, and which limits these are.

    What a pod does not name counts as the whole of its cards for a limit.
    """
    exceeded = ExceededLimit.found_in(message)
    needs = [_need_of_limit(asked, field, to_int(most), _within(field, of, most)) for field, of, most in exceeded]
    if exceeded:
        yield from quotas.met_with(needs)
        raised = " and ".join(f"limits.{field} of {source} raised (it is {most})" for field, source, most in exceeded)
        yield from quotas.raised_beside([do(f"have {raised}")])


def _within(field: str, source: str, most: str) -> str:
    """Say that a limit is to be kept, where no amount tells how."""
    if field == _OWN:
        return (
            f"ask for no more cards for itself than limits.{field} of {source} allows ({most}): a card is shared where"
            " less than all of its compute and of its memory is asked, and not only idle cards are"
        )
    return f"ask for no more than limits.{field} of {source} allows ({most})"


def _need_of_limit(asked: PodRequest, field: str, most: int, otherwise: str) -> ClaimCondition:
    sums_of = _SUMS.get(field)
    claimed = asked.world.engine.algorithm.classes.claimed(asked.world.pod(asked.written, again=True))
    idle = claimed is not None and bool(claimed.dialect) and claimed.choice.takes_idle_cards

    def sums(claims: PodClaims) -> PodSums:
        return most_at_once(pod_sums(claims, asked.dialects[claims[0].dialect], idle=idle))

    def fits(claims: PodClaims) -> bool:
        if sums_of is None or not claims or not asked.claims:
            return False
        less = sums(claims)
        if field == _OWN and only_shares_more(sums(asked.claims), less):
            return False  # it would have as many cards: that gets around the limit
        if field == _MEMORY and less.percent:
            return False  # what a container does not name, or asks in percent, counts as the card has it be
        return sums_of(less, asked.dialects[claims[0].dialect]) <= most

    def concerns(amount: Amount) -> bool:
        return sums_of is not None and not (field == _OWN and amount.unsaid)

    def is_of_limit(amount: Amount) -> bool:
        inventories = [(dialect, dialect.inventory) for dialect in asked.owners]
        of = {"coresPerPod": [(d, about.cores) for d, about in inventories]}
        of[_MEMORY] = [(d, about.memory) for d, about in inventories]
        return any(is_of(asked, amount, dialect, dimension) for dialect, dimension in of.get(field, ()))

    instead = _instead_of_percent(asked, most // MIB) if field == _MEMORY else ()
    return ClaimCondition(fits, concerns, otherwise, shared_by=is_of_limit, instead=instead)


def _instead_of_percent(asked: PodRequest, most: int) -> list[Amount]:
    """Return what those containers would ask in amounts that ask for a percentage of the memory of their cards."""
    memories = [
        name
        for dialect in asked.owners
        for name, about in dialect.inventory.device_resources.items()
        if about.dimension == dialect.inventory.memory and not about.percent and name in dialect.claims.resources
    ]
    return [amount for name in memories for amount in amounts_instead_of_percent(asked, name, most)]


# Nodes ---------------------------------------------------------------------------------------------------------------


def _drop_constraints(asked: PodRequest, message: str) -> Iterator[Advice]:
    """Yield what the pod may leave out of what nodes and cards reject it for."""
    mutex_counts = CardReason.ExclusiveDeviceAllocateConflict.text in message
    words = [word for reason, names in _KEEPS_FROM_CARDS.items() if reason.text in message for word in names]
    for constraint in droppable_constraints(asked.world, asked.written, asked.is_let_in):
        if constraint.name == OVERRIDES["devicePolicy"]:
            if mutex_counts and MUTEX in asked.written["metadata"]["annotations"][constraint.name]:
                yield do(constraint.text)
            continue
        fields = _KEEPS_FROM_NODES.get(constraint.name)
        concerned = (
            any(word in constraint.name for word in words)
            if fields is None
            else any(reason.text in message for reason in fields)
        )
        if concerned:
            yield do(constraint.text)
