"""What a pod may ask otherwise of cards, by its condition and the nearest card that its event tells of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import WHOLE, CardReason, Claim, ContainerKind, NearMiss, PodClaims, Shortage
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, ask_for, do
from vgpu_scheduler.whatif.conditions.needs import ClaimCondition, PodRequest, claims_of
from vgpu_scheduler.whatif.conditions.nodes import is_of
from vgpu_scheduler.whatif.conditions.others import NO_SHARES_LEFT, WAIT
from vgpu_scheduler.whatif.conditions.quotas import QuotasOfPod
from vgpu_scheduler.whatif.conditions.room import CardRoom, amount_of
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.objects.containers import containers_of, without_resources

__all__ = ["cards_in_one_container", "compute_for_all", "fewer_cards", "shared_cards", "smaller_card_requests"]

_SHARES: Final = "shares"
_OF_NEAREST: Final = "at most: the other cards may have less left"
"""What is said of an amount of each of several cards, of which the nearest has that much."""
_EXCLUSIVE_WHEN_WHOLE: Final = frozenset({"hami", "volcano"})
"""Dialects in which a card of which a container asks all compute has to be idle."""


def smaller_card_requests(
    asked: PodRequest, near: NearMiss, quotas: QuotasOfPod, message: str = ""
) -> Iterator[Advice]:
    """Yield the largest amounts of which the nearest card has enough, of all that it lacks together.

    Containers that run together are told amounts with which all of them have room on that card. How many pieces have a
    place beside each other is not known: then no amounts are told.

    Parameters
    ----------
    message
        The text of the condition.
    """
    if any(not shortage.free for shortage in near.shortages):
        yield from quotas.beside([NO_SHARES_LEFT])
        return
    shares = next((each for each in near.shortages if each.together and each.unit == _SHARES), None)
    if shares is not None:
        if CardReason.CardNotFoundCustomFilterRule.text in message:
            return  # which container may leave its cards out is told for that
        lacks = f"the nearest card has {shares.free} of the {shares.asked} shares that they take"
        what = f"leave the card out in one of the containers that run together, or {WAIT}: {lacks}"
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
    yield from (_of_several(way, {amount.worded(most) for amount, most in single}) for way in ways)
    if not ways and not met:
        yield from quotas.raised_beside([tuple(map(Action, dict.fromkeys(map(_less, near.shortages))))])
    for amount, most in single:
        if not any(amount.worded(most) == each.what for way in ways for each in way):
            yield from _of_one_card(asked, amount, most, tuple(by_dimension.values()), quotas)


def _of_several(advice: Advice, single: Collection[str]) -> Advice:
    """Return what is asked of several cards, with a word on the others; without it where one card is asked for."""
    if any(each.what in single for each in advice):
        return tuple(replace(each, most=tuple(m for m in each.most if m != _OF_NEAREST)) for each in advice)
    bounded = next((each for each in advice if each.most), None)
    if bounded is None or not single or any(_OF_NEAREST in each.most for each in advice):
        return advice
    return tuple(replace(each, most=(*each.most, _OF_NEAREST)) if each is bounded else each for each in advice)


def _of_one_card(
    asked: PodRequest, amount: Amount, most: int, lacking: Sequence[Sequence[Shortage]], quotas: QuotasOfPod
) -> Iterator[Advice]:
    """Yield how one card is asked for where several are, and as much of it as the nearest one has."""
    written = amount.applied(asked.written, most)
    other, kept = PodRequest(asked.world, written, corrected=asked.corrected), quotas.if_written(written)
    needs = [need for each in lacking for need in _needs_of_card(other, each)]
    single = (ask_for(amount, most),)
    if all(need.fits(other.claims) for need in needs):
        yield from [single] if other.meets(written, kept.kept_by) else kept.beside([single])
        return
    more, otherwise = list(kept.met_with(needs)), {need.otherwise for need in needs}
    if not any(each.what in otherwise for less in more for each in less):
        yield from ((*single, *less) for less in more)


def _less(shortage: Shortage) -> str:
    dimension, free, wanted = shortage.dimension, shortage.free, shortage.asked
    if shortage.piece:
        free_of_it = f"{free} {shortage.unit} {'in all' if shortage.together else 'in one piece'} of the {wanted} asked"
        return f"ask for less {dimension}, of which each container takes a piece: the nearest card has {free_of_it}"
    containers = " by containers that run together" if shortage.together else ""
    return f"ask for less {dimension}: the nearest card has {free} of the {wanted} {shortage.unit} asked{containers}"


def _has_to_wait(shortage: Shortage) -> str:
    """Say what a pod waits for that cannot ask for less: its webhook would refuse or overwrite it."""
    together = " for containers that run together" if shortage.together else ""
    lacks = f"the nearest card has {shortage.free} of the {shortage.asked} {shortage.unit} {shortage.dimension}"
    return f"{WAIT}: {lacks} that the pod takes{together}, which cannot be less"


def _needs_of_card(asked: PodRequest, shortages: Sequence[Shortage]) -> Iterator[ClaimCondition]:
    """Yield what is to be met so that the nearest card has enough of a dimension: by each container, and by all."""
    for dialect in asked.owners:
        numbers = [n for n, about in enumerate(dialect.inventory.dimensions) if about.name == shortages[0].dimension]
        for n in numbers[:1]:
            card = CardRoom(asked.claims, dialect, n, shortages)
            if asked.corrected:
                card.given = 0  # the event is about what was asked before
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
                    yield ClaimCondition(fits, concerns, describe(shortages[0]), _most(each.claims))
            running = [claim for each in asked.claims for claim in each.claims]
            yield ClaimCondition(card.has_room, of_any, describe(shortages[-1]), _most(running), shared_by=of_any)


def _most(claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return what is said of an amount that the nearest card has, where several are asked for."""
    return (_OF_NEAREST,) if any(claim.count > 1 for claim in claims) else ()


def _is_given(amount: Amount, card: CardRoom) -> Amount:
    """Return an amount that nobody says, with what is given instead; others as they are."""
    some = f"{card.given} percent" if card.given_exactly else "some"
    return replace(amount, unsaid=f"it asks for none, and is given {some}") if amount.unsaid else amount


def fewer_cards(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield how one card is asked for where several are: how many fit together is not told."""
    for amount, most in _single_cards(asked):
        single = (ask_for(amount, most, ("more may fit",)),)
        written = amount.applied(asked.written, most)
        kept = asked.meets(written, quotas.kept_by)
        yield from [single] if kept else quotas.if_written(written).beside([single])


def _single_cards(asked: PodRequest) -> Iterator[tuple[Amount, int]]:
    """Yield the amounts that say how many cards a container wants that wants several, with the steps that are one."""
    for amount in asked.amounts:
        now = max((claim.count for claim in claims_of(amount.container, asked.claims)), default=0)

        def asks_for_one(claims: PodClaims, amount: Amount = amount) -> bool:
            return {claim.count for claim in claims_of(amount.container, claims)} == {1}

        most = asked.most(amount, asks_for_one) if now > 1 else None
        if most is not None:
            yield amount, most


def shared_cards(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield how a pod takes cards that others use, where it asks all compute of its cards.

    Nothing for one that takes idle cards only whatever it asks.
    """
    claimed = asked.world.engine.algorithm.classes.claimed(asked.world.pod(asked.written, again=True))
    if claimed is not None and not (claimed.dialect and claimed.choice.takes_idle_cards):
        needs = [need for dialect in asked.owners for need in _needs_to_share(asked, dialect)]
        yield from quotas.met_with(needs) if needs else ()


def _needs_to_share(asked: PodRequest, dialect: Dialect) -> Iterator[ClaimCondition]:
    """Yield a need for each container that asks all compute of its cards: to leave others some of it."""
    cores, units = dialect.inventory.cores, dialect.inventory.compute_units
    for each in asked.claims if dialect.name in _EXCLUSIVE_WHEN_WHOLE else ():

        def concerns(amount: Amount, name: str = each.name) -> bool:
            return amount.container == name and is_of(asked, amount, dialect, cores)

        def fits(claims: PodClaims, name: str = each.name) -> bool:
            own = (claim for claim in claims_of(name, claims) if units.get(claim.vendor, WHOLE) == WHOLE)
            return all(amount_of(claim.amounts, cores) < WHOLE for claim in own)

        if not fits(asked.claims):
            yield ClaimCondition(fits, concerns, why="a card of which all compute is asked has to be idle")


def compute_for_all(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield how containers leave some compute of a card to others of the pod that ask for none."""
    needs = [need for dialect in asked.owners for need in _needs_to_leave_compute(asked, dialect)]
    yield from quotas.met_with(needs) if needs else ()


def _needs_to_leave_compute(asked: PodRequest, dialect: Dialect) -> Iterator[ClaimCondition]:
    """Yield a need if containers take all compute of a card, and one after them asks for none: it has to find some."""
    cores, units = dialect.inventory.cores, dialect.inventory.compute_units

    def is_said(amount: Amount) -> bool:
        return not amount.unsaid and is_of(asked, amount, dialect, cores)

    def fits(claims: PodClaims) -> bool:
        taken: dict[str, int] = {}
        for container in claims:
            for claim in container.claims:
                amount, before = amount_of(claim.amounts, cores), taken.get(claim.vendor, 0)
                if not amount and before >= units.get(claim.vendor, WHOLE):
                    return False
                if container.kind is not ContainerKind.INIT:
                    taken[claim.vendor] = before + amount
        return True

    if not fits(asked.claims):
        why = "a container that asks for no compute has to find some left"
        yield ClaimCondition(fits, is_said, why=why, shared_by=is_said)


def cards_in_one_container(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield which container may leave its cards out, where several that run together ask for cards of one vendor."""
    for dialect in asked.owners:
        vendors = {name: about.vendor for name, about in dialect.inventory.device_resources.items()}
        running = [
            (each.name, claim.vendor)
            for each in asked.claims
            if each.kind is not ContainerKind.INIT
            for claim in each.claims
        ]
        for container, vendor in running:
            if sum(vendor == other for _, other in running) < 2:
                continue
            named = (each for _, _, each in containers_of(asked.written) if each.get("name") == container)
            given = [dict((each.get("resources") or {}).get("limits") or {}) for each in named]
            names = sorted(name for limits in given for name in limits if vendors.get(name) == vendor)
            if names and asked.meets(without_resources(asked.written, names, [container]), bool):
                text = f"leave out {' and '.join(names)} in container {container}"
                why = "containers that run together get the same cards of this vendor"
                yield from quotas.beside([do(f"{text}: {why}")])
