"""What nodes have too little of, by the condition of a pod: how much they have left is not told there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import CardReason, PodClaims
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.leaving_out import vendors_of
from vgpu_scheduler.whatif.advice.remedy import Action, Advice
from vgpu_scheduler.whatif.conditions.needs import PodRequest
from vgpu_scheduler.whatif.objects.amounts import Amount, ResourceStep
from vgpu_scheduler.whatif.objects.card_names import card_names

__all__ = ["NodeRejections", "is_of", "less_of_nodes"]

_INSUFFICIENT: Final = filters.insufficient("").text.strip()
_MOST: Final = 4
"""Ways to ask less that are told where each is about several amounts."""


@dataclass(frozen=True, slots=True)
class NodeRejections:
    """How many nodes reject a pod for what.

    Attributes
    ----------
    nodes
        How many there are; 0 where that is not told.
    counts
        How many say each reason.
    """

    nodes: int
    counts: Mapping[str, int]

    @classmethod
    def from_condition(cls, message: str) -> NodeRejections:
        """Read them from a condition."""
        return cls(*filters.rejections_in(message))

    def is_of_all(self, reason: str) -> bool:
        """Tell whether all nodes say it, but for those with taints that the pod does not tolerate."""
        others = self.nodes - self.counts.get(filters.TAINT.text, 0)
        return 0 < others <= self.counts.get(reason, 0)

    def are_the_same(self) -> bool:
        """Tell whether all nodes without such taints are rejected for the same."""
        others = self.counts.keys() - {filters.TAINT.text}
        return len(others) == 1 or (bool(others) and all(map(self.is_of_all, others)))


def less_of_nodes(asked: PodRequest, message: str, *, of_cards: bool) -> Iterator[Advice]:
    """Yield what nodes and cards have too little left of; together, what all of them say.

    That some nodes have none of the cards says nothing where others reject the pod for their cards. Nobody is told to
    ask for no card, nor for less of one whose dialect is not in the settings.

    Parameters
    ----------
    of_cards
        Tell what cards have too little of, too: nothing else tells how much they have.
    """
    rejections = NodeRejections.from_condition(message)
    by_reason: dict[str, list[Action]] = {}
    for amount in asked.amounts:
        for part in amount.parts:
            for reason, text in _less_of(asked, amount, part, message, of_cards=of_cards):
                by_reason.setdefault(reason, []).append(Action(text))
    needed = [actions for reason, actions in by_reason.items() if rejections.is_of_all(reason)]
    if len(needed) > 1:
        yield from islice(product(*needed), _MOST)
    else:
        yield from ((action,) for actions in needed or by_reason.values() for action in actions)


def _less_of(
    asked: PodRequest, amount: Amount, part: ResourceStep, message: str, *, of_cards: bool
) -> Iterator[tuple[str, str]]:
    """Yield reasons for which less of an amount may help, with what is said then."""
    devices, served = card_names(asked.dialects), {each.name for each in asked.dialects}
    about_cards = any(reason.text in message for reason in CardReason)
    reason = f"{_INSUFFICIENT} {part.resource}"
    if _says(message, reason) and part.written and not (part.resource in devices and about_cards):
        if part.resource in devices:
            none = f"nodes have none or too few of {part.resource}"
            can_be_less = amount.steps > 1 and devices[part.resource] in served and asked.is_heeded(amount)
            or_none = ", or leave it out" if _can_do_without(asked, part.resource) else ""
            less = f"{amount.less_of(part)}{or_none}: {none}"
            yield reason, less if can_be_less else f"{none}: whoever runs them can say which cards there are"
        elif amount.steps > 1:
            yield reason, amount.less_of(part)
        else:
            where = f"{part.resource} in container {amount.container}"
            yield reason, f"leave out {where}: nodes have none or too few of it"
    for dialect in asked.owners if of_cards and amount.steps > 1 and asked.is_heeded(amount) else ():
        inventory = dialect.inventory
        too_large = CardReason.CardInsufficientMemory
        if too_large.text not in message:
            too_large = CardReason.CardMigTopologyInfeasible  # a smaller instance lies at other places
        name = inventory.dimensions[inventory.memory].name
        of_memory = [n for n, about in enumerate(inventory.dimensions) if about.name.startswith(name)]  # its ratio, too
        for lacking, dimensions in (
            (too_large, of_memory),
            (CardReason.CardInsufficientCore, [inventory.cores]),
        ):
            is_known = bool(part.written) or inventory.memory in dimensions
            if is_known and lacking.text in message and any(is_of(asked, amount, dialect, n) for n in dimensions):
                yield lacking.text, amount.less_of(part)


def _can_do_without(asked: PodRequest, resource: str) -> bool:
    """Tell whether devices are asked for with one resource alone, and others beside them."""
    abouts = [each.inventory.device_resources for each in asked.dialects if resource in each.inventory.device_resources]
    vendors = {listed[resource].vendor for listed in abouts}
    names = {part.resource for amount in asked.amounts for part in amount.parts}
    beside = {name for listed in abouts for name in names & listed.keys() if listed[name].vendor in vendors}
    return beside == {resource} and bool(vendors_of(asked.claims) - vendors)


def _says(message: str, reason: str) -> bool:
    return re.search(rf"{re.escape(reason)}[,.](?:\s|$)", message) is not None


def is_of(asked: PodRequest, amount: Amount, dialect: Dialect, dimension: int) -> bool:
    """Tell whether an amount is one of a dimension of the devices of a dialect, alone or together with others.

    One resource may stand for several dimensions: ``koordinator.sh/gpu`` is a share of both memory and compute.
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
