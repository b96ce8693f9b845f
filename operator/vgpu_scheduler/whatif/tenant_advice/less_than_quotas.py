"""Propose to ask for less if quotas keep a pod waiting, without knowing how much less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vgpu_scheduler.whatif.advice.remedy import Advice, ask_for_less, do
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest
from vgpu_scheduler.whatif.tenant_advice.pieces import has_pieces, is_more_than_a_piece, may_take_pieces
from vgpu_scheduler.whatif.tenant_advice.quotas import ON_PIECES, QuotasOfPod

_BY_THE_PIECE: Final = ": on a card that is split into pieces a whole piece counts, which may be more than is requested"


def beyond_quota(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield remedies for a pod that no node would fit even with a larger quota: it has to ask for less.

    If the quotas leave nothing, they have to be raised as well.
    """
    if quotas.less or not quotas.reports:
        yield from quotas.less or less_than_quota(asked)
    elif quotas.alone or not quotas.are_of_pieces:
        yield from tuple(quotas.raised_beside(_less_than_specified(asked))) or quotas.alone


def _less_than_specified(asked: PodRequest) -> Iterator[Advice]:
    """Yield proposals to ask for less of each specified card resource."""
    known = {name for dialect in asked.owners for name in dialect.inventory.device_resources}
    for amount in asked.amounts:
        for part in amount.parts if amount.steps > 1 and asked.is_heeded(amount) else ():
            if part.resource in known and part.written:
                yield (ask_for_less(amount, part),)


def unknown_on_other_cards(asked: PodRequest, quotas: QuotasOfPod) -> str:
    """Say what is not known of the quotas once a pod may get other cards; empty if all is known.

    Parameters
    ----------
    asked, quotas
        The pod as it then is, and the quotas beside it.
    """
    in_pieces = may_take_pieces(asked) and has_pieces(asked.world, asked.claims)
    kept = [each for each in quotas.limits if each.asked and not each.is_exceeded] if in_pieces else []
    left = " and ".join(f"{each.report.key} leaves {each.remaining} {each.report.unit}" for each in kept)
    of_pieces = f"{left}, and {ON_PIECES}, which may be more" if left else ""
    return "; ".join(filter(None, (quotas.left_to_cards, of_pieces)))


def less_than_quota(
    asked: PodRequest, *, of_unsaid: bool = True, of_pieces: bool = False, why: str = ""
) -> Iterator[Advice]:
    """Yield proposals to ask for less of resources that may have a quota, whose limits are unknown.

    An unspecified amount is proposed only if it counts: memory does as the whole card, compute only if a policy or a
    setting gives the pod some.

    Parameters
    ----------
    of_pieces
        Whole pieces count, so amounts of at most the smallest piece are not reduced.
    """
    named = {name for dialect in asked.owners for name in dialect.allocation.quota_resources}
    shares = {name for dialect in asked.owners for name, r in dialect.inventory.device_resources.items() if r.percent}
    amounts = [each for each in asked.amounts if not of_pieces or is_more_than_a_piece(asked, each)]
    for amount in amounts:
        for part in amount.parts if amount.steps > 1 and asked.is_heeded(amount) else ():
            if amount.unsaid:
                is_proposed = of_unsaid and part.resource in named and _counts(asked, amount, part.resource)
            else:
                is_proposed = part.resource in named | shares
            if is_proposed:
                yield (ask_for_less(amount, part, why),)


def _counts(asked: PodRequest, amount: Amount, resource: str) -> bool:
    """Tell whether a pod counts in a quota of a resource of which it does not say the amount."""
    quotas = asked.world.engine.quota_limits
    return amount.is_given or quotas.asked(resource, asked.claims) > 0 or quotas.depends_on_card(resource, asked.claims)


def less_of_pieces(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield remedies if quotas have room for the requests, but a whole piece of a card counts for more."""
    if raised := quotas.raised_for_pieces:
        if quotas.leave_pieces:
            yield from less_than_quota(asked, of_unsaid=False, of_pieces=True, why=_BY_THE_PIECE)
        yield do(f"{raised}{_BY_THE_PIECE}")
