"""Derive remedies for a pod from its condition and its event, for readers who may not see nodes.

No decision is made here. A near miss concerns a single card, so after a change the pod may lack something else. Actions
that are needed together form one remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from vgpu_scheduler.engine import ExceededLimit, QuotaReport, quotas_from_event
from vgpu_scheduler.engine.group_attempts import other_member_in
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, ConditionReason, NearMiss, by_name
from vgpu_scheduler.predicates import MissingVolumeClaim, gated, without_preemption
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.corrected_pod import CorrectedPod
from vgpu_scheduler.whatif.advice.corrections import corrected, refusal_of
from vgpu_scheduler.whatif.advice.pod_labels import labels_to_change
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, do, parts_of, say
from vgpu_scheduler.whatif.reasons.volume_claim_problems import create_volume_claim
from vgpu_scheduler.whatif.tenant_advice.cards import (
    cards_in_one_container,
    cards_of_one_vendor,
    compute_for_all,
    fewer_cards,
    shared_cards,
    smaller_card_requests,
)
from vgpu_scheduler.whatif.tenant_advice.dropped_constraints import OF_CONSTRAINTS, dropped_constraints
from vgpu_scheduler.whatif.tenant_advice.group_quotas import OtherMembers, other_members_in
from vgpu_scheduler.whatif.tenant_advice.less_than_quotas import beyond_quota, less_of_pieces, less_than_quota
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest
from vgpu_scheduler.whatif.tenant_advice.nodes import NodeRejections, less_of_nodes
from vgpu_scheduler.whatif.tenant_advice.others import (
    OF_VOLUME_CLAIMS,
    TAINTS,
    UNKNOWN,
    UNSEEN_QUOTA,
    closed_nodes,
    excluded_nodes,
    remedies_of_other_reasons,
)
from vgpu_scheduler.whatif.tenant_advice.pieces import takes_pieces_alone
from vgpu_scheduler.whatif.tenant_advice.policy_limits import (
    amounts_for_any_card,
    amounts_within_limits,
    denies_larger_cards,
    memory_limit_of,
)
from vgpu_scheduler.whatif.tenant_advice.quota_statuses import limiting
from vgpu_scheduler.whatif.tenant_advice.quotas import UNKNOWN_QUOTA_STATUS, QuotasOfPod, QuotaStatus
from vgpu_scheduler.whatif.tenant_advice.refusals import corrected_requests
from vgpu_scheduler.whatif.tenant_advice.slices import other_slices
from vgpu_scheduler.whatif.world.world import World

_TOO_FEW_CARDS: Final = (
    CardReason.AllocatedCardsInsufficientRequest,
    CardReason.NodeInsufficientDevice,
    CardReason.NumaNotFit,
)
_OF_OTHER: Final = "find out what keeps pod {} waiting: this one is placed only together with it"


@dataclass(frozen=True, slots=True)
class ConditionRemedies:
    """The remedies for a waiting pod, with what its condition and event say.

    Attributes
    ----------
    near_miss
        The nearest card; None if the event names none.
    quotas
        The quota status of the namespace, if quotas keep the pod waiting.
    advice
        Alternative remedies.
    other_members
        The group members placed at once with the pod, if quotas keep them waiting together.
    quota_unseen
        Whether quotas keep the pod waiting about which nothing more is known.
    """

    near_miss: NearMiss | None
    quotas: tuple[QuotaReport, ...]
    advice: tuple[Advice, ...]
    other_members: OtherMembers | None = None
    quota_unseen: bool = False

    @property
    def remedies(self) -> tuple[str, ...]:
        """Alternative remedies as text."""
        return tuple(map(say, self.advice))

    @property
    def changes_requests(self) -> bool:
        """Whether any remedy changes what the pod asks for."""
        actions = (action for advice in self.advice for action in advice)
        return any(each.amount is not None or each.leaves_out or each.what.startswith("ask ") for each in actions)


class OtherRemedies(NamedTuple):
    """Remedies for a pod that do not follow from its condition.

    Attributes
    ----------
    before, after
        Remedies listed before and after those that follow from the condition.
    of_volume_claims
        Remedies for volume claims, listed last.
    """

    before: Sequence[Advice] = ()
    after: Sequence[Advice] = ()
    of_volume_claims: Sequence[Advice] = ()


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
    """Return the remedies that follow from a pod, its condition and its event.

    Parameters
    ----------
    world
        A world with the scheduler's settings; it may be empty.
    pod
        A pod that the world has read.
    message, event
        The messages of the condition and the event; empty if there is none.
    quota_status
        The present quota status of the namespace; its reports are None if they come from the event.
    others
        Further remedies.
    reason
        The reason of the condition: it tells whether some node would fit the pod but for its quota.
    """
    message = without_preemption(message)
    of_quota = CardReason.ResourceQuotaNotFit.text in message  # on a node without repelling taints
    other_member = other_member_in(message)
    if other_member is not None:  # the message describes that pod
        of_quota, message = of_quota and reason != ConditionReason.UNSCHEDULABLE, ""
    meant = corrected(world, world.written(pod))
    asked = PodRequest(world, meant.written, corrected=bool(meant.changes), corrections=meant.amounts)
    near_miss = NearMiss.found_in(event) if other_member is None else None
    status = quota_status._replace(fits_nowhere=of_quota and reason == ConditionReason.UNSCHEDULABLE)
    quotas = _quotas_of(asked, pod, status, event, kept=of_quota and other_member is None)
    condition = _Condition(
        pod=pod,
        message=message,
        reason=reason,
        of_quota=of_quota,
        other_member=other_member[0] if other_member else "",
        near_miss=near_miss,
        meant=meant,
        asked=asked,
        quotas=quotas,
        quota_unseen=of_quota and quota_status.reports is None and not quotas.reports,
    )
    about_the_pod = list(_about_the_pod(condition, others))  # first: it finds out what the pod is given by default
    remedies = [*_about_quotas(condition), *about_the_pod]
    _add_about_nodes(remedies, condition, others)
    if not remedies:  # no reason of nodes keeps the pod waiting
        remedies += map(meant.and_then, quotas.alone) if quotas.alone else [UNKNOWN] if message else []
    each_once: dict[tuple[str, ...], Advice] = {}
    for remedy in map(_each_amount_once, remedies):
        each_once.setdefault(parts_of(remedy), remedy)
    advice, other_members = tuple(each_once.values()), quotas.other_members
    return ConditionRemedies(near_miss, quotas.reports, advice, other_members, condition.quota_unseen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """What a pod's condition and event say, and what the pod asks for.

    Attributes
    ----------
    pod
        The pod as written.
    message, reason
        The message and the reason of the condition; the message is empty if it describes another pod of the group.
    of_quota
        Whether quotas keep the pod waiting.
    other_member
        The pod of the group that the message describes; empty if it describes this one.
    near_miss
        The nearest card; None if the event names none.
    meant, asked
        The pod as it was probably meant, and its requests.
    quotas
        Advice about the quotas of its namespace.
    quota_unseen
        Whether quotas keep the pod waiting about which nothing more is known.
    """

    pod: Pod
    message: str
    reason: str
    of_quota: bool
    other_member: str
    near_miss: NearMiss | None
    meant: CorrectedPod
    asked: PodRequest
    quotas: QuotasOfPod
    quota_unseen: bool


def _about_quotas(condition: _Condition) -> Iterator[Advice]:
    """Yield remedies for quotas that keep a pod waiting, without any other change."""
    asked, quotas, and_then = condition.asked, condition.quotas, condition.meant.and_then
    if not condition.of_quota:
        return
    if condition.reason == ConditionReason.UNSCHEDULABLE:
        yield from map(and_then, beyond_quota(asked, quotas))
    elif condition.quota_unseen:
        yield from map(and_then, less_than_quota(asked))
        yield UNSEEN_QUOTA
    else:
        of_pieces = tuple(less_of_pieces(asked, quotas))
        yield from map(
            and_then, (of_pieces or quotas.alone) if takes_pieces_alone(asked) else quotas.alone or of_pieces
        )
        if quotas.of_pieces_unseen:  # less helps only if it is such a card
            yield from map(and_then, of_pieces[-1:])


def _about_the_pod(condition: _Condition, others: OtherRemedies) -> Iterator[Advice]:
    """Yield changes of the pod and of objects that it names, each with what its quotas need beside it."""
    pod, message, meant, quotas = condition.pod, condition.message, condition.meant, condition.quotas
    world = condition.asked.world
    before = others.before
    if not before and condition.other_member and not (condition.of_quota and quotas.alone):
        before = [do(_OF_OTHER.format(condition.other_member))]
    yield from quotas.beside(before)
    exceeded = _limits_then(condition)
    if meant.changes and not exceeded:
        limit = memory_limit_of(condition.asked)
        unless = "" if condition.message and condition.of_quota else quotas.left_to_cards
        unless = "; ".join(filter(None, (unless, denies_larger_cards(limit) if limit is not None else "")))
        yield from (_with_why(meant.and_then(way), unless) for way in quotas.beside([()]))
    yield from quotas.beside(gate_remedies(pod))
    yield from map(meant.and_then, quotas.beside(corrected_requests(world, pod, meant.written, message)))
    told = f"{message} {exceeded}" if exceeded else message
    yield from filter(None, map(meant.and_then, _asked_otherwise(condition.asked, condition.near_miss, quotas, told)))
    yield from quotas.beside(map(do, labels_to_change(world, pod, message)))
    advised = [say(each) for each in others.of_volume_claims]  # with a similar name, where there is one
    missing = map(create_volume_claim, dict.fromkeys(claim.name for claim in MissingVolumeClaim.found_in(message)))
    yield from quotas.beside(do(each) for each in missing if not any(other.startswith(each) for other in advised))
    yield from quotas.beside((*others.after, *others.of_volume_claims))


def _with_why(advice: Advice, why: str) -> Advice:
    """Return advice whose last action has a further explanation."""
    return (*advice[:-1], *(replace(each, why="; ".join(filter(None, (each.why, why)))) for each in advice[-1:]))


def _limits_then(condition: _Condition) -> str:
    """Return the limits of policies that the pod exceeds once its mistakes are corrected, as a condition says them."""
    meant = condition.meant
    refusal = refusal_of(condition.asked.world, meant.written) if meant.changes else ""
    return refusal if ExceededLimit.found_in(refusal) else ""


def _add_about_nodes(remedies: list[Advice], condition: _Condition, others: OtherRemedies) -> None:
    """Add remedies for what nodes and volumes say of the pod; those that seldom help only if there are no others."""
    message, quotas = condition.message, condition.quotas
    closed = list(closed_nodes(message))
    if not remedies:
        remedies += quotas.beside(closed)  # without them, nothing of the pod is known to help
    volumes = (
        [] if others.of_volume_claims else list(_volumes(condition.pod, message))
    )  # else each claim has its own remedy
    if not remedies and not volumes:
        remedies += quotas.beside(remedies_of_other_reasons(message, alone=not quotas.alone))  # of taints as well
        return
    if filters.TAINT.text in message and not condition.of_quota and (not remedies or _is_about_taints(message)):
        remedies += quotas.beside([TAINTS])
    remedies += quotas.beside(chain(volumes, closed, () if condition.of_quota else excluded_nodes(message)))


def _quotas_of(asked: PodRequest, pod: Pod, quota_status: QuotaStatus, event: str, *, kept: bool) -> QuotasOfPod:
    """Return the quota advice for a pod, whose condition tells whether quotas keep it waiting."""
    known = quota_status.reports
    if known is None:
        known = quotas_from_event(event)
        members = quota_status.other_members or other_members_in(asked.world, pod, event, known)
        quota_status = quota_status._replace(other_members=members)
        with_it = members.asked if members is not None else {}
        known = limiting(asked.world, asked.claims, known, with_it) or known  # all, if the pod's dialect is not known
    quotas = QuotasOfPod(asked, quota_status._replace(reports=known, limits=quota_status.limits or known))
    if not kept or not known or quotas.alone or (quota_status.fits_nowhere and quotas.are_of_pieces):
        return quotas  # what a policy may give is not known to matter where no node fits and pieces count
    return quotas.if_given()


def _asked_otherwise(
    asked: PodRequest, near_miss: NearMiss | None, quotas: QuotasOfPod, message: str
) -> Iterator[Advice]:
    """Yield changes of the pod's requests that avoid the reasons in its condition."""
    if near_miss:
        yield from smaller_card_requests(asked, near_miss, quotas, message)
    if any(reason.text in message for reason in _TOO_FEW_CARDS):
        yield from fewer_cards(asked, quotas, message)
    if CardReason.NumaNotFit.text in message:
        yield from other_slices(asked, quotas)
    if CardReason.ExclusiveDeviceAllocateConflict.text in message:
        yield from shared_cards(asked, quotas)
    if CardReason.CardComputeUnitsExhausted.text in message:
        yield from compute_for_all(asked, quotas)
    if CardReason.CardNotFoundCustomFilterRule.text in message:
        yield from cards_in_one_container(asked, quotas)
    yield from amounts_within_limits(asked, message, quotas)
    if CardReason.CardDeniedByPolicy.text in message or asked.corrected:
        yield from amounts_for_any_card(asked, quotas)
    yield from cards_of_one_vendor(asked, quotas, message)
    yield from quotas.raised_beside(less_of_nodes(asked, message, of_cards=near_miss is None))
    yield from dropped_constraints(asked, quotas, message)


def gate_remedies(pod: Pod) -> Iterator[Advice]:
    """Yield what to do about the scheduling gates of a pod."""
    if gated(pod):
        which = by_name("gate", pod.spec.scheduling_gates)
        yield do(
            f"wait until the scheduling {which} (spec.schedulingGates) is removed",
            "the controller or user that set it removes it",
        )


def _volumes(pod: Pod, message: str) -> Iterator[Advice]:
    """Yield what to check if the volumes of a pod keep it from nodes."""
    names = sorted({claim.claim(pod.name) for claim in pod.spec.volume_claims})
    which = by_name("PersistentVolumeClaim", names)
    if names and filters.UNBOUND_IMMEDIATE.text in message:
        are, their = ("is", "its") if len(names) == 1 else ("are", "their")
        yield do(f"wait until {which} {are} bound, or see {their} events")
    elif names and filters.NO_VOLUME.text in message:
        which = which if len(names) == 1 else f"each of {which} that is not bound"
        yield do(f"have a volume for {which} that is free, large enough and reachable from a node that fits")
    elif names and any(reason.text in message for reason in (*OF_VOLUME_CLAIMS, filters.TOO_MANY_VOLUMES)):
        yield do(f"check where {which} can be used, and by which pods: nodes reject the pod because of it")


def _is_about_taints(message: str) -> bool:
    """Tell whether tolerating taints may help, which it does not if all other nodes reject the pod for one reason.

    If that reason is a constraint of the pod on nodes or cards, the tainted nodes may be the ones that satisfy it.
    """
    rejections = NodeRejections.from_condition(message)
    return not rejections.are_the_same() or not rejections.counts.keys().isdisjoint(OF_CONSTRAINTS)


def _each_amount_once(advice: Advice) -> Advice:
    """Return advice that changes each amount once: where several actions do, the one that asks for least."""
    numbered = list(enumerate(advice))
    return tuple(
        each
        for at, each in numbered
        if not any(_replaces(other, each, is_earlier=place < at) for place, other in numbered if place != at)
    )


def _replaces(action: Action, other: Action, *, is_earlier: bool) -> bool:
    """Tell whether an action asks for less of another one's amount, or says how much and the other one does not."""
    mine, its = action.amount, other.amount
    if mine is None or its is None or not (mine.covers(its) and its.covers(mine)):
        return False
    if action.steps is None or other.steps is None:
        more, less = int(action.steps is not None), int(other.steps is not None)
    else:
        more, less = its.parts[0].each * other.steps, mine.parts[0].each * action.steps
    return more > less or (more == less and is_earlier)
