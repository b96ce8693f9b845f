"""What nodes lack, according to a pod's condition, which does not tell how much they have left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.model import WHOLE, CardReason, PodClaims, vendors_of
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.mig_names import piece_of_unknown_cards
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, ask_for_less
from vgpu_scheduler.whatif.objects.amounts import Amount, ResourceStep
from vgpu_scheduler.whatif.objects.card_names import card_names, is_of_other_plugins
from vgpu_scheduler.whatif.objects.containers import amounts_asked, containers_of
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.reasons.claim_labels import labels_of_claims
from vgpu_scheduler.whatif.reasons.mismatch import MODE_WORD
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest, claims_of
from vgpu_scheduler.whatif.tenant_advice.pieces import is_more_than_a_piece

_INSUFFICIENT: Final = filters.insufficient("").text.strip()
_BEFORE_RESOURCES: Final = frozenset(
    reason.text
    for reason in (
        *(filters.UNSCHEDULABLE, filters.NODE_NAME, filters.TAINT, filters.AFFINITY, filters.NOT_NAMED),
        *(filters.AFFINITY_CONFLICT, filters.PORTS, filters.TOO_MANY_PODS),
    )
)
"""Reasons that are given before resources are checked, or with them: they do not tell whether a node has enough."""
_CLOSING: Final = frozenset((filters.TAINT.text, filters.UNSCHEDULABLE.text))
"""Reasons of nodes that take no pods like this one, whatever they have."""
_PLUGINS: Final = {each.text: each.plugin for each in vars(filters).values() if isinstance(each, filters.Reason)}
"""The filters by the text of their reasons; all reasons of cards are of one filter."""
_OF_NUMBER: Final = (CardReason.AllocatedCardsInsufficientRequest, CardReason.NodeInsufficientDevice)
"""Reasons of nodes with fewer cards than a container asks for, or with fewer that have room for it."""
_NONE: Final = "nodes have none or too few of"
_IN_USE: Final = "wait until other pods end, or end pods of your own: they may use all that nodes have of {}"
_MOST: Final = 4
"""The most combinations that are proposed if several resources have to be reduced together."""


@dataclass(frozen=True, slots=True)
class NodeRejections:
    """The number of nodes that reject a pod, by reason.

    Attributes
    ----------
    nodes
        The number of all nodes; 0 if the condition does not tell.
    counts
        The number of nodes with each reason.
    """

    nodes: int
    counts: Mapping[str, int]

    @classmethod
    def from_condition(cls, message: str) -> NodeRejections:
        """Parse the message of a condition."""
        return cls(*filters.rejections_in(message))

    def is_of_all(self, reason: str) -> bool:
        """Tell whether all nodes give a reason, apart from closed ones: cordoned or with taints that repel the pod."""
        others = self.nodes - sum(self.counts.get(each, 0) for each in _CLOSING)
        return 0 < others <= self.counts.get(reason, 0)

    @property
    def lacking(self) -> int:
        """The most nodes that may lack resources: all but those that the other filters of kube-scheduler exclude.

        A node gives reasons of one filter only, and may give several of that. So the nodes of a filter are at least as
        many as those of its most frequent reason.
        """
        excluded: dict[str, int] = {}
        for other, count in self.counts.items():
            if not other.startswith(_INSUFFICIENT) and other != filters.TOO_MANY_PODS.text:
                plugin = _PLUGINS.get(other, "")
                excluded[plugin] = max(excluded.get(plugin, 0), count)
        return self.nodes - sum(excluded.values())

    def lacks_everywhere(self, reason: str) -> bool:
        """Tell whether all nodes lack a resource, apart from those that other filters exclude."""
        return reason.startswith(_INSUFFICIENT) and 0 < self.lacking <= self.counts.get(reason, 0)

    def have_resources(self) -> bool:
        """Tell whether some nodes have the requested resources, and reject the pod for something checked later."""
        return any(each not in _BEFORE_RESOURCES and not each.startswith(_INSUFFICIENT) for each in self.counts)

    def have(self, reason: str) -> bool:
        """Tell whether some nodes have enough of a resource that others lack, while all of them lack another one."""
        enough = (each for each, count in self.counts.items() if count > self.counts.get(reason, 0))
        return any(self.is_of_all(each) or self.lacks_everywhere(each) for each in enough)

    def are_the_same(self) -> bool:
        """Tell whether all nodes without such taints and without a cordon give the same reasons."""
        others = self.counts.keys() - _CLOSING
        return len(others) == 1 or (bool(others) and all(map(self.is_of_all, others)))


def less_of_nodes(asked: PodRequest, message: str, *, of_cards: bool) -> Iterator[Advice]:
    """Yield proposals to ask for less of what nodes and cards lack; resources that all of them lack are combined.

    That some nodes lack the cards means nothing if others have them and reject the pod for another reason. No proposal
    asks for no card at all, or for fewer cards of a dialect that is not in the settings. Nodes lack cards, too, if
    other pods use all that they have: then waiting helps instead.

    Parameters
    ----------
    of_cards
        Include what cards lack, for want of an event that tells how much they have.
    """
    rejections = NodeRejections.from_condition(message)
    by_reason: dict[str, list[Action]] = {}
    for amount in asked.amounts:
        for part in amount.parts:
            for reason, action in _less_of(asked, amount, part, message, of_cards=of_cards):
                by_reason.setdefault(reason, []).append(action)
    needed = {reason: actions for reason, actions in by_reason.items() if rejections.is_of_all(reason)}
    alone = [] if needed else [actions for reason, actions in by_reason.items() if not reason.startswith(_INSUFFICIENT)]
    needed = needed or {reason: each for reason, each in by_reason.items() if rejections.lacks_everywhere(reason)}
    names = {f"{_INSUFFICIENT} {name}": name for name in _card_resources(asked)}
    if len(needed) > 1:
        yield from islice((tuple(dict.fromkeys(actions)) for actions in product(*needed.values())), _MOST)
    else:
        apart = {f"{_INSUFFICIENT} {name}" for names in apart_vendors(asked, message) for name in names}
        others_lack = [actions for reason, actions in by_reason.items() if reason not in apart]
        alone = [*needed.values(), *alone] if needed else others_lack
    yield from ((action,) for actions in alone for action in actions)
    if lacking := [name for reason, name in names.items() if reason in (needed or by_reason)]:
        others = (actions[0] for reason, actions in needed.items() if reason not in names)
        yield (Action(_IN_USE.format(" and ".join(lacking))), *others)


def apart_vendors(asked: PodRequest, message: str) -> list[tuple[str, ...]]:
    """Return the resources of each vendor whose cards no node seems to have together with those of the others.

    Some nodes have the cards of each of these vendors. Return none if all nodes lack one of them, or
    something else, or if a node has all of them.
    """
    rejections, lacking = NodeRejections.from_condition(message), dict[tuple[str, str], int]()
    requested = dict.fromkeys(name for *_, each in containers_of(asked.written) for name in amounts_asked(each))
    vendors: dict[tuple[str, str], list[str]] = {}
    for name in requested:
        for dialect in asked.owners:
            if (about := dialect.inventory.device_resources.get(name)) is not None:
                vendors.setdefault((dialect.name, about.vendor), []).append(name)
    for vendor, names in vendors.items():
        if most := max(rejections.counts.get(f"{_INSUFFICIENT} {name}", 0) for name in names):
            lacking[vendor] = most
    everywhere = any(rejections.is_of_all(each) or rejections.lacks_everywhere(each) for each in rejections.counts)
    if (
        everywhere
        or rejections.have_resources()
        or len(lacking) < 2
        or not 0 < rejections.lacking <= sum(lacking.values())
    ):
        return []
    return [tuple(vendors[vendor]) for vendor in lacking]


def _card_resources(asked: PodRequest) -> Iterator[str]:
    """Yield the requested resources that are for cards."""
    devices = card_names(asked.dialects)
    resources = dict.fromkeys(part.resource for amount in asked.amounts for part in amount.parts)
    yield from (name for name in resources if name in devices or is_of_other_plugins(name))


def _less_of(
    asked: PodRequest, amount: Amount, part: ResourceStep, message: str, *, of_cards: bool
) -> Iterator[tuple[str, Action]]:
    """Yield the reasons for which less of an amount may help, each with the proposal."""
    reason = f"{_INSUFFICIENT} {part.resource}"
    if part.written and _names_reason(message, reason) and (less := _less_of_resource(asked, amount, part, message)):
        yield reason, less
    if amount.steps > 1 and asked.is_heeded(amount):
        yield from _less_of_cards(asked, amount, part, message, of_cards=of_cards)


def _less_of_resource(asked: PodRequest, amount: Amount, part: ResourceStep, message: str) -> Action | None:
    """Propose to ask for less of a resource that nodes lack; None if that does not help."""
    devices = card_names(asked.dialects)
    if part.resource in devices or is_of_other_plugins(part.resource):
        rejections = NodeRejections.from_condition(message)
        have_cards = part.resource in devices and (
            rejections.have_resources() or rejections.have(f"{_INSUFFICIENT} {part.resource}")
        )
        return None if have_cards else _less_of_card_resource(asked, amount, part)
    if "/" not in part.resource and amount.steps > 1:
        return ask_for_less(amount, part)
    less = f", or ask for less than {part.written} of it" if amount.steps > 1 else ""
    return Action(f"leave out {part.resource} in container {amount.container}{less}: {_NONE} it left")


def _less_of_card_resource(asked: PodRequest, amount: Amount, part: ResourceStep) -> Action | None:
    """Propose to ask for less of a resource for cards that no node has enough of; None if another amount covers it."""
    devices, served = card_names(asked.dialects), {each.name for each in asked.dialects}
    if piece := piece_of_unknown_cards(asked.world, asked.written, amount.container, part.resource):
        return Action(f"{piece}: {_NONE} it left")
    if any(other.includes(amount) for other in asked.amounts):
        return None
    none = f"{_NONE} {' and '.join(each.resource for each in amount.parts)} left"
    if amount.steps == 1 or devices.get(part.resource) not in served or not asked.is_heeded(amount):
        return Action(f"ask an administrator of the nodes which cards there are: {none}")
    if len(amount.parts) > 1:
        return Action(f"ask for fewer than {amount.steps} cards in container {amount.container}: {none}", amount=amount)
    or_none = ", or leave it out" if _can_do_without(asked, part.resource) else ""
    return ask_for_less(amount, part, f"{or_none}: {none}")


def _less_of_cards(
    asked: PodRequest, amount: Amount, part: ResourceStep, message: str, *, of_cards: bool
) -> Iterator[tuple[str, Action]]:
    """Yield the reasons of cards for which less of an amount may help, each with the proposal."""
    if part.written and CardReason.ModeNotFit.text in message and _may_be_of_size(asked, amount):
        yield CardReason.ModeNotFit.text, ask_for_less(amount, part, ": no card is split into pieces of that size")
    if CardReason.CardInsufficientCore.text in message and may_be_part(asked, amount):
        yield CardReason.CardInsufficientCore.text, ask_for_less(amount, part, ": a card may have a part of it left")
    for dialect in asked.owners if of_cards else ():
        inventory = dialect.inventory
        too_large = CardReason.CardInsufficientMemory
        if too_large.text not in message:
            too_large = CardReason.CardMigTopologyInfeasible  # a smaller instance has other possible places
        name = inventory.dimensions[inventory.memory].name
        of_memory = [n for n, about in enumerate(inventory.dimensions) if about.name.startswith(name)]  # and its ratio
        for lacking, dimensions in (
            (too_large, of_memory),
            (CardReason.CardInsufficientCore, [inventory.cores]),
        ):
            is_known = bool(part.written) or inventory.memory in dimensions
            if lacking is CardReason.CardMigTopologyInfeasible and not is_more_than_a_piece(asked, amount):
                continue  # a smaller amount takes the same instance
            if is_known and lacking.text in message and any(is_of(asked, amount, dialect, n) for n in dimensions):
                yield lacking.text, ask_for_less(amount, part, _may_be_number(asked, amount, message))


def _may_be_number(asked: PodRequest, amount: Amount, message: str) -> str:
    """Say that too few cards may be the reason, which no amount of memory or compute changes; empty if they are not."""
    several = any(claim.count > 1 for claim in claims_of(amount.container, asked.claims))
    is_number = several and any(reason.text in message for reason in _OF_NUMBER)
    return ": it does not help where nodes have too few cards" if is_number else ""


def may_be_part(asked: PodRequest, amount: Amount) -> bool:
    """Tell whether the smallest number that an amount counts is a part of a card, and a larger one a whole card.

    So it is with the cores of AWS Neuron devices, which are given out one by one, or as whole devices.
    """
    known = [each.inventory.device_resources.get(part.resource) for part in amount.parts for each in asked.owners]
    if len(amount.parts) != 1 or not any(about is not None and about.dimension == SLOTS for about in known):
        return False

    def of_one_card(steps: int) -> PodClaims:
        claims = asked.claims_if(amount.applied(asked.written, steps))
        return claims if {claim.count for claim in claims_of(amount.container, claims)} == {1} else ()

    least, more = of_one_card(1), of_one_card(2)
    takes_whole = all(WHOLE in claim.percent for claim in claims_of(amount.container, more))
    return bool(least) and bool(more) and least != more and takes_whole


def _may_be_of_size(asked: PodRequest, amount: Amount) -> bool:
    """Tell whether a pod may be kept from cards because they have no pieces of a size, not because of their mode."""
    if any(MODE_WORD in name for name in annotations_in(asked.written)) or len(amount.parts) > 1:
        return False
    if list(labels_of_claims(asked.world, asked.world.pod(asked.written, again=True))):
        return False
    names = {name for dialect in asked.owners for name in dialect.inventory.device_resources}
    return amount.parts[0].resource in names


def _can_do_without(asked: PodRequest, resource: str) -> bool:
    """Tell whether a resource alone requests its devices, and the pod also requests devices of other vendors."""
    abouts = [each.inventory.device_resources for each in asked.dialects if resource in each.inventory.device_resources]
    vendors = {listed[resource].vendor for listed in abouts}
    names = {part.resource for amount in asked.amounts for part in amount.parts}
    beside = {name for listed in abouts for name in names & listed.keys() if listed[name].vendor in vendors}
    return beside == {resource} and bool(vendors_of(asked.claims) - vendors)


def _names_reason(message: str, reason: str) -> bool:
    return re.search(rf"{re.escape(reason)}[,.](?:\s|$)", message) is not None


def is_of(asked: PodRequest, amount: Amount, dialect: Dialect, dimension: int) -> bool:
    """Tell whether an amount determines a dimension of a dialect's devices.

    One resource may determine several dimensions: ``koordinator.sh/gpu`` is a share of both memory and compute.
    """
    if len(amount.parts) != 1:
        return False
    resource = amount.parts[0].resource
    about = dialect.inventory.device_resources.get(resource)
    if about is not None or resource not in dialect.claims.resources or amount.instead is not None:
        return about is not None and about.dimension == dimension
    now, least = asked.claims, asked.claims_if(amount.applied(asked.written, 1))
    return bool(least) and 0 < _most_of(least, dimension) < _most_of(now, dimension)


def _most_of(claims: PodClaims, dimension: int) -> int:
    amounts = (claim.amounts for each in claims for claim in each.claims)
    return max((each[dimension] for each in amounts if dimension < len(each)), default=0)
