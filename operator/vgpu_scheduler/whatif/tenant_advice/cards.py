"""Smaller card requests that may help a pod, derived from its condition and the nearest card named in its event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import WHOLE, CardReason, Claim, ContainerType, NearMiss, PodClaims, Shortage
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, ask_for, do, leave_out_resources
from vgpu_scheduler.whatif.objects.amounts import Amount, ResourceStep
from vgpu_scheduler.whatif.objects.containers import amounts_asked, containers_of, without_resources
from vgpu_scheduler.whatif.tenant_advice.needs import ClaimConstraint, PodRequest, claims_of
from vgpu_scheduler.whatif.tenant_advice.nodes import apart_vendors, is_of, may_be_part
from vgpu_scheduler.whatif.tenant_advice.others import NO_SHARES_LEFT, WAIT
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotasOfPod
from vgpu_scheduler.whatif.tenant_advice.room import CardRoom, amount_of

_SHARES: Final = "shares"
_OF_NEAREST: Final = "at most: the other cards may have less left"
"""The caveat about an amount requested of each of several cards, of which only the nearest is known."""
_UNKNOWN: Final = "it is not known how much the cards have left"
_BEFORE_CARDS: Final = (CardReason.NodeInsufficientDevice, CardReason.NumaNotFit)
"""Reasons of nodes with too few cards, whatever these have left."""
_MOST_CARDS: Final = 16
"""More cards than are tried as the fewest that can be requested."""
_EXCLUSIVE_WHEN_WHOLE: Final = frozenset({"hami", "volcano"})
"""Dialects in which a container that asks for all compute of a card needs an idle card."""


def smaller_card_requests(
    asked: PodRequest, near: NearMiss, quotas: QuotasOfPod, message: str = ""
) -> Iterator[Advice]:
    """Yield the largest amounts with which the nearest card satisfies everything that it lacks now.

    For containers that run together, the amounts fit on that card together. Whether several pieces have a place beside
    each other is unknown, so no amounts are proposed for pieces.

    Parameters
    ----------
    message
        The message of the pod's condition.
    """
    if any(not shortage.free for shortage in near.shortages):
        yield from quotas.beside([NO_SHARES_LEFT])
        return
    shares = next((each for each in near.shortages if each.together and each.unit == _SHARES), None)
    if shares is not None:
        if CardReason.CardNotFoundCustomFilterRule.text in message:
            return  # remedies for this reason propose a container that may leave its cards out
        lacks = f"the nearest card has {shares.free} of the {shares.asked} shares that they take"
        number = shares.asked - shares.free
        which = f"{'one' if number == 1 else number} of the containers that run together"
        what = f"leave the card out in {which}{_for_the_others(near.shortages)}, or {WAIT}: {lacks}"
        yield from quotas.beside([do(what)])
        return
    by_dimension: dict[str, list[Shortage]] = {}
    for shortage in near.shortages:
        by_dimension.setdefault(shortage.dimension, []).append(shortage)
    in_pieces = any(shortage.piece for shortage in near.shortages)
    needs = [] if in_pieces else [need for each in by_dimension.values() for need in _needs_of_card(asked, each)]
    met = bool(needs and asked.claims and all(need.fits(asked.claims) for need in needs))
    ways = () if met else tuple(quotas.met_with(needs))
    single = [(amount, most) for amount, most in _single_cards(asked) if needs and not met]
    yield from (_of_several(way, {amount.request_text(most) for amount, most in single}) for way in ways)
    if not ways and not met:
        yield from quotas.raised_beside([tuple(map(Action, dict.fromkeys(map(_less, near.shortages))))])
    for amount, most in single:
        if not any(amount.request_text(most) == each.what for way in ways for each in way):
            yield from _of_one_card(asked, amount, most, tuple(by_dimension.values()), quotas)


def _for_the_others(shortages: Sequence[Shortage]) -> str:
    """Say how much the nearest card has for the containers that keep it; empty if it lacks nothing but shares."""
    left = {each.dimension: each for each in shortages if each.unit != _SHARES}
    amounts = [
        f"{each.free} {each.unit} {each.dimension}{' in one piece' if each.piece else ''}" for each in left.values()
    ]
    return f", and have the others ask for {' and '.join(amounts)} at most together" if amounts else ""


def _of_several(advice: Advice, single: Collection[str]) -> Advice:
    """Return a proposal with the caveat about the other cards, or without it if a single card is requested."""
    if any(each.what in single for each in advice):
        return tuple(replace(each, most=tuple(m for m in each.most if m != _OF_NEAREST)) for each in advice)
    bounded = next((each for each in advice if each.most), None)
    if bounded is None or not single or any(_OF_NEAREST in each.most for each in advice):
        return advice
    return tuple(replace(each, most=(*each.most, _OF_NEAREST)) if each is bounded else each for each in advice)


def _of_one_card(
    asked: PodRequest, amount: Amount, most: int, lacking: Sequence[Sequence[Shortage]], quotas: QuotasOfPod
) -> Iterator[Advice]:
    """Yield proposals to request one card instead of several, with at most what the nearest card has."""
    written = amount.applied(asked.written, most)
    other, kept = PodRequest(asked.world, written, corrected=asked.corrected), quotas.if_written(written)
    needs = [need for each in lacking for need in _needs_of_card(other, each)]
    single = (ask_for(amount, most),)
    if all(need.fits(other.claims) for need in needs):
        if other.meets(written, kept.kept_by):
            yield single
        else:
            yield from (_with_smaller(amount, single[0], way[1:]) for way in kept.beside([single]))
        return
    more, otherwise = list(kept.met_with(needs)), {need.otherwise for need in needs}
    if not any(each.what in otherwise for less in more for each in less):
        yield from (_with_smaller(amount, single[0], less) for less in more)


def _with_smaller(amount: Amount, cards: Action, then: Advice) -> Advice:
    """Return the proposal to request fewer cards by an amount, with further actions for the pod as it then is.

    What these change of the same resources becomes part of the proposal.
    """
    merged, steps, others = list[Action](), dict[ResourceStep, int](), list[Action]()
    for action in then:
        if action.steps is not None and action.amount is not None and amount.covers(action.amount):
            merged.append(action)
            steps[action.amount.parts[0]] = action.steps
        else:
            others.append(action)
    number = cards.steps
    if not merged or number is None:
        return (cards, *then)
    if len(amount.parts) == 1:
        number = min(steps.values())
    quantities = {part.resource: part.quantity(n) for part, n in steps.items()}
    most = tuple(dict.fromkeys(chain(cards.most, *(each.most for each in merged))))
    why = "; ".join(filter(None, (cards.why, *(each.why for each in merged))))
    what = amount.request_text(number, quantities)
    return (replace(cards, what=what, most=most, why=why, steps=number), *others)


def _less(shortage: Shortage) -> str:
    dimension, free, wanted = shortage.dimension, shortage.free, shortage.asked
    if shortage.piece:
        free_of_it = f"{free} {shortage.unit} {'in all' if shortage.together else 'in one piece'} of the {wanted} asked"
        return f"ask for less {dimension}, of which each container takes a piece: the nearest card has {free_of_it}"
    containers = " by containers that run together" if shortage.together else ""
    return f"ask for less {dimension}: the nearest card has {free} of the {wanted} {shortage.unit} asked{containers}"


def _has_to_wait(shortage: Shortage) -> str:
    """Say what a pod waits for whose request cannot be reduced, since a webhook would refuse or overwrite it."""
    together = " for containers that run together" if shortage.together else ""
    lacks = f"the nearest card has {shortage.free} of the {shortage.asked} {shortage.unit} {shortage.dimension}"
    return f"{WAIT}: {lacks} that the pod takes{together}, and its request cannot be reduced"


def _needs_of_card(asked: PodRequest, shortages: Sequence[Shortage]) -> Iterator[ClaimConstraint]:
    """Yield the conditions under which the nearest card has enough of a dimension, for each container and for all."""
    for dialect in asked.owners:
        numbers = [n for n, about in enumerate(dialect.inventory.dimensions) if about.name == shortages[0].dimension]
        for n in numbers[:1]:
            card = CardRoom(asked.claims, dialect, n, shortages)
            if asked.corrected:
                card.given = 0  # the event describes the request before the corrections
            elif card.given:
                asked.amounts = [
                    _is_given(each, card) if is_of(asked, each, dialect, n) else each for each in asked.amounts
                ]

            def of_any(amount: Amount, dialect: Dialect = dialect, n: int = n) -> bool:
                return is_of(asked, amount, dialect, n)

            describe = _less if any(of_any(each) and asked.is_heeded(each) for each in asked.amounts) else _has_to_wait
            for each in asked.claims:

                def concerns(amount: Amount, name: str = each.name, of_any: Callable[[Amount], bool] = of_any) -> bool:
                    return amount.container == name and of_any(amount)

                def fits(claims: PodClaims, name: str = each.name, card: CardRoom = card) -> bool:
                    return card.has_room_for(claims_of(name, claims))

                if any(map(concerns, asked.amounts)):
                    yield ClaimConstraint(fits, concerns, describe(shortages[0]), _most(each.claims))
            running = [claim for each in asked.claims for claim in each.claims]
            yield ClaimConstraint(card.has_room, of_any, describe(shortages[-1]), _most(running), shared_by=of_any)


def _most(claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return the caveat about an amount that the nearest card has, if several cards are requested."""
    return (_OF_NEAREST,) if any(claim.count > 1 for claim in claims) else ()


def _is_given(amount: Amount, card: CardRoom) -> Amount:
    """Return an unspecified amount with the compute that the pod is given instead; other amounts as they are."""
    some = f"{card.given} percent" if card.given_exactly else "some"
    return replace(amount, unsaid=f"it asks for none, and is given {some}", is_given=True) if amount.unsaid else amount


def fewer_cards(asked: PodRequest, quotas: QuotasOfPod, message: str = "") -> Iterator[Advice]:
    """Yield proposals to request as few cards as can be requested, since the number that fits is unknown.

    Even so few need not fit, unless the condition says that some of the cards of the only container were found.

    Parameters
    ----------
    message
        The message of the pod's condition.
    """
    some_fit = (
        CardReason.AllocatedCardsInsufficientRequest.text in message
        and sum(len(each.claims) for each in asked.claims) <= 1
        and not any(each.text in message for each in _BEFORE_CARDS)
    )
    for amount, now in _cards_of(asked):
        fewest = (asked.most(amount, _asks_for(amount, count)) for count in range(1, min(now, _MOST_CARDS)))
        most = next((each for each in fewest if each is not None), None)
        if most is None:
            continue
        caveat = "more may fit" if some_fit else f"more may fit, or less: {_UNKNOWN}"
        if not some_fit and may_be_part(asked, amount):
            most, caveat = 1, f"more may fit, or none: {_UNKNOWN}"  # no whole card need be left
        few = (ask_for(amount, most, (caveat,)),)
        written = amount.applied(asked.written, most)
        kept = asked.meets(written, quotas.kept_by)
        if kept:
            yield few
        else:
            ways = quotas.if_written(written).beside([few])
            yield from (_with_smaller(amount, few[0], way[1:]) for way in ways)


def _single_cards(asked: PodRequest) -> Iterator[tuple[Amount, int]]:
    """Yield the amounts that set the number of cards of a container with several, each with the steps for one card."""
    for amount, _ in _cards_of(asked):
        most = asked.most(amount, _asks_for(amount, 1))
        if most is not None:
            yield amount, most


def _cards_of(asked: PodRequest) -> Iterator[tuple[Amount, int]]:
    """Yield the amounts of containers with several cards, each with the number of these."""
    for amount in asked.amounts:
        now = max((claim.count for claim in claims_of(amount.container, asked.claims)), default=0)
        if now > 1:
            yield amount, now


def _asks_for(amount: Amount, count: int) -> Callable[[PodClaims], bool]:
    """Return a function that tells whether claims of an amount's container are for a number of cards."""
    return lambda claims: {claim.count for claim in claims_of(amount.container, claims)} == {count}


def shared_cards(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield proposals with which a pod that asks for all compute of its cards can share cards.

    Yield none for a pod that gets only idle cards whatever it asks for.
    """
    claimed = asked.world.engine.algorithm.classes.claimed(asked.world.pod(asked.written, again=True))
    if claimed is not None and not (claimed.dialect and claimed.choice.takes_idle_cards):
        needs = [need for dialect in asked.owners for need in _needs_to_share(asked, dialect)]
        yield from quotas.met_with(needs) if needs else ()


def _needs_to_share(asked: PodRequest, dialect: Dialect) -> Iterator[ClaimConstraint]:
    """Yield a condition for each container that asks for all compute of its cards: to leave some of it."""
    cores, units = dialect.inventory.cores, dialect.inventory.compute_units
    for each in asked.claims if dialect.name in _EXCLUSIVE_WHEN_WHOLE else ():

        def concerns(amount: Amount, name: str = each.name) -> bool:
            return amount.container == name and is_of(asked, amount, dialect, cores)

        def fits(claims: PodClaims, name: str = each.name) -> bool:
            own = (claim for claim in claims_of(name, claims) if units.get(claim.vendor, WHOLE) == WHOLE)
            return all(amount_of(claim.amounts, cores) < WHOLE for claim in own)

        if not fits(asked.claims):
            yield ClaimConstraint(fits, concerns, why="a card must be idle if all of its compute is requested")


def compute_for_all(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield proposals to leave some compute of a card to the pod's containers that ask for none."""
    needs = [need for dialect in asked.owners for need in _needs_to_leave_compute(asked, dialect)]
    yield from quotas.met_with(needs) if needs else ()


def _needs_to_leave_compute(asked: PodRequest, dialect: Dialect) -> Iterator[ClaimConstraint]:
    """Yield a condition if containers take all compute of a card before one that asks for none and needs some left."""
    cores, units = dialect.inventory.cores, dialect.inventory.compute_units

    def is_specified(amount: Amount) -> bool:
        return not amount.unsaid and is_of(asked, amount, dialect, cores)

    def fits(claims: PodClaims) -> bool:
        taken: dict[str, int] = {}
        for container in claims:
            for claim in container.claims:
                amount, before = amount_of(claim.amounts, cores), taken.get(claim.vendor, 0)
                if not amount and before >= units.get(claim.vendor, WHOLE):
                    return False
                if container.type is not ContainerType.INIT:
                    taken[claim.vendor] = before + amount
        return True

    if not fits(asked.claims):
        why = "a container that asks for no compute needs a card with compute left"
        yield ClaimConstraint(fits, is_specified, why=why, shared_by=is_specified)


def cards_of_one_vendor(asked: PodRequest, quotas: QuotasOfPod, message: str) -> Iterator[Advice]:
    """Yield proposals to keep the cards of one vendor only, of those that no node seems to have together."""
    apart = apart_vendors(asked, message)
    for kept in reversed(apart):
        names = [name for others in apart if others != kept for name in others]
        written = without_resources(asked.written, names)
        if asked.meets(written, bool):
            asking = [
                str(each.get("name", ""))
                for _, _, each in containers_of(asked.written)
                if not amounts_asked(each).keys().isdisjoint(names)
            ]
            left = leave_out_resources(names, asking)
            why = f"no node seems to have {' and '.join(each[0] for each in apart)} left together"
            yield from quotas.if_written(written).beside([(replace(left, what=f"{left}: {why}"),)])


def cards_in_one_container(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield the containers that may leave their cards out, if several that run together ask for the same vendor's."""
    for dialect in asked.owners:
        vendors = {name: about.vendor for name, about in dialect.inventory.device_resources.items()}
        running = [
            (each.name, claim.vendor)
            for each in asked.claims
            if each.type is not ContainerType.INIT
            for claim in each.claims
        ]
        for container, vendor in running:
            if sum(vendor == other for _, other in running) < 2:
                continue
            named = (each for _, _, each in containers_of(asked.written) if each.get("name") == container)
            given = [dict((each.get("resources") or {}).get("limits") or {}) for each in named]
            names = sorted(name for limits in given for name in limits if vendors.get(name) == vendor)
            if names and asked.meets(without_resources(asked.written, names, [container]), bool):
                left = leave_out_resources(names, [container])
                why = "containers that run together get the same cards of this vendor"
                yield from quotas.beside([(replace(left, what=f"{left}: {why}"),)])
