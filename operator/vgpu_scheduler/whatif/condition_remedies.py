"""What would help a pod by what its condition and its event say, for those who may not see the nodes.

Nothing here is decided: a near miss is about one card and one amount, so what is said after a change may be the next
thing that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import QuotaReport, quotas_told_in
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Amounts, CardReason, Claim, NearMiss, PodClaims
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.amounts import Amount, amounts_of
from vgpu_scheduler.whatif.constraints import constraints_of
from vgpu_scheduler.whatif.mismatch import MODE_WORD, MODEL_WORD
from vgpu_scheduler.whatif.objects import WorldError
from vgpu_scheduler.whatif.searching import largest_that_fits
from vgpu_scheduler.whatif.world import World

__all__ = ["ConditionRemedies", "remedies_from_condition"]

Object = Mapping[str, Any]

_MIB: Final = 2**20
_BYTES: Final = "bytes"
_KEEPS_FROM_NODES: Final = {
    "nodeSelector": (filters.AFFINITY,),
    "affinity.nodeAffinity": (filters.AFFINITY, filters.NOT_NAMED, filters.AFFINITY_CONFLICT),
    "affinity.podAffinity": (filters.INTER_POD_AFFINITY,),
    "affinity.podAntiAffinity": (filters.INTER_POD_ANTI_AFFINITY,),
    "topologySpreadConstraints": (filters.SPREAD, filters.SPREAD_LABEL),
}
"""Fields of a pod's spec, with what nodes reject it for because of them."""
_KEEPS_FROM_CARDS: Final = {
    CardReason.CardTypeMismatch: (MODEL_WORD, MODE_WORD),
    CardReason.CardUuidMismatch: ("uuid",),
    CardReason.NumaNotFit: ("numa",),
    CardReason.ModeNotFit: (MODE_WORD,),
}
"""What cards reject a pod for because of its annotations, with what the names of these have in common."""
_TOO_FEW_CARDS: Final = (CardReason.AllocatedCardsInsufficientRequest, CardReason.NodeInsufficientDevice)
_MISSING_CLAIM: Final = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_INSUFFICIENT: Final = re.compile(rf"{re.escape(filters.insufficient('').text.strip())} ([^\s,]+?)[,.](?:\s|$)")
_LIMIT: Final = re.compile(r"(limits\.\w+ of \w+ \S+) allows (\w+)")
_TAINTS: Final = "tolerate a taint of the nodes: whoever runs them can say which"
_WAIT: Final = "the nearest card has none left: wait until other pods end, or ask for a node more"


@dataclass(frozen=True, slots=True)
class ConditionRemedies:
    """What a pod that waits says.

    Attributes
    ----------
    near_miss
        The card that came closest; None where the event names none.
    quotas
        How its namespace stands, where quotas keep it waiting.
    remedies
        What may help, each by itself, in words.
    """

    near_miss: NearMiss | None
    quotas: tuple[QuotaReport, ...]
    remedies: tuple[str, ...]


def remedies_from_condition(world: World, pod: Pod, message: str, event: str) -> ConditionRemedies:
    """Return what the condition and the event of a pod say, and what follows from that.

    Parameters
    ----------
    world
        Knows the scheduler's settings; nothing need be in it.
    pod
        One that the world has read.
    message, event
        The texts of the condition and of the event; empty where there is none.
    """
    asked, near_miss, quotas = _Asked(world, pod), NearMiss.found_in(event), quotas_told_in(event)
    remedies = [
        *(_less_of_a_card(asked, near_miss) if near_miss else ()),
        *(line for report in quotas for line in _within_quota(asked, report)),
        *(_fewer_cards(asked) if any(reason.text in message for reason in _TOO_FEW_CARDS) else ()),
        *_less_of_a_node(asked, set(_INSUFFICIENT.findall(message))),
        *(
            f"ask for no more than {limit} allows ({most}), or have it raised"
            for limit, most in _LIMIT.findall(message)
        ),
        *_drop_constraints(asked, message),
        *([_TAINTS] if filters.TAINT.text in message else ()),
        *(f"create the PersistentVolumeClaim {name}, or correct the name" for name in _MISSING_CLAIM.findall(message)),
    ]
    return ConditionRemedies(near_miss, quotas, tuple(dict.fromkeys(remedies)))


class _Asked:
    """What a pod asks for, and would ask for if it were written otherwise."""

    def __init__(self, world: World, pod: Pod) -> None:
        self.world = world
        self.written = world.written(pod)
        self.dialects = world.engine.dialects
        self.owners = list(self.dialects.owners(pod))
        self.amounts = list(amounts_of(self.written, self.dialects, pod))
        self.claims = self.claims_if(self.written)

    def claims_if(self, written: Object) -> PodClaims:
        """Return the claims of the pod if it were written so; empty where they would not be understood."""
        try:
            return self.world.engine.cycle.classes.claims(self.world.pod(written, again=True))
        except WorldError:
            return ()

    def most(self, amount: Amount, fits: Callable[[PodClaims], bool]) -> int | None:
        """Return the most steps of an amount, below those that are asked, with which the claims are right."""

        def node_with(steps: int) -> str:
            claims = self.claims_if(amount.applied(self.written, steps))
            return "it fits" if claims and fits(claims) else ""

        found = largest_that_fits(node_with, range(1, amount.steps))
        return found[0] if found else None

    def of(self, amount: Amount, claims: PodClaims) -> tuple[Claim, ...]:
        """Return the claims of the container that an amount is of."""
        return next((each.claims for each in claims if each.name == amount.container), ())


def _less_of_a_card(asked: _Asked, near: NearMiss) -> Iterator[str]:
    """Yield the largest amounts of which the nearest card has enough."""
    told = False
    for dialect in asked.owners:
        numbers = [n for n, about in enumerate(dialect.inventory.dimensions) if about.name == near.dimension]
        for amount in asked.amounts if numbers and near.free else ():
            if not _is_of(amount, dialect, numbers[0]):
                continue
            most = asked.most(amount, _fits_card(asked, amount, numbers[0], near, dialect))
            if most is not None:
                told = True
                yield amount.worded(most)
    if not told and near.free:
        yield f"ask for less {near.dimension}: the nearest card has {near.free} of the {near.asked} {near.unit} asked"
    elif not told:
        yield _WAIT


def _is_of(amount: Amount, dialect: Dialect, dimension: int) -> bool:
    abouts = [dialect.inventory.device_resources.get(part.resource) for part in amount.parts]
    return len(abouts) == 1 and abouts[0] is not None and abouts[0].dimension == dimension


def _fits_card(
    asked: _Asked, amount: Amount, dimension: int, near: NearMiss, dialect: Dialect
) -> Callable[[PodClaims], bool]:
    """Return what tells whether the nearest card has enough of a dimension for a container."""
    in_bytes = dialect.inventory.dimensions[dimension].unit == _BYTES
    free = near.free * (_MIB if in_bytes else 1)
    percent = max((_of(claim.percent, dimension) for claim in asked.of(amount, asked.claims)), default=0)
    # Of a card of which 90 percent are what was asked, so many percent are what is free.
    most_percent = percent * near.free // near.asked if in_bytes else percent * (near.free + 1) // (near.asked + 1)

    def fits(claims: PodClaims) -> bool:
        return all(
            needed <= free
            if (needed := _of(claim.amounts, dimension))
            else _of(claim.percent, dimension) <= most_percent
            for claim in asked.of(amount, claims)
        )

    return fits


def _of(amounts: Amounts, dimension: int) -> int:
    return amounts[dimension] if dimension < len(amounts) else 0


def _within_quota(asked: _Asked, report: QuotaReport) -> Iterator[str]:
    """Yield the largest amounts that a quota leaves, and what it would have to be."""
    quotas, name = asked.world.engine.quotas, f"limits.{report.resource}"
    now, left = quotas.asked(report.resource, asked.claims), report.limit - report.used
    if 0 < now <= left:
        return
    told = False
    for amount in asked.amounts if left > 0 else ():
        if 0 < quotas.asked(report.resource, asked.claims_if(amount.applied(asked.written, 1))) < (now or left + 1):
            most = asked.most(amount, lambda claims: 0 < quotas.asked(report.resource, claims) <= left)
            if most is not None:
                told = True
                yield amount.worded(most)
    if now:
        yield f"have {name} raised to {report.used + now} (it is {report.limit}), or end pods of the namespace"
    elif left > 0 and not told:
        yield f"ask for no more than the {left} that {name} leaves, or have it raised"


def _fewer_cards(asked: _Asked) -> Iterator[str]:
    """Yield how one card is asked for where several are: how many fit together is not told."""
    for amount in asked.amounts:
        now = max((claim.count for claim in asked.of(amount, asked.claims)), default=0)

        def asks_for_one(claims: PodClaims, amount: Amount = amount) -> bool:
            return {claim.count for claim in asked.of(amount, claims)} == {1}

        most = asked.most(amount, asks_for_one) if now > 1 else None
        if most is not None:
            yield f"{amount.worded(most)} (more may fit)"


def _less_of_a_node(asked: _Asked, resources: Collection[str]) -> Iterator[str]:
    """Yield what nodes have too little left of: how much that is is not told."""
    for amount in asked.amounts:
        for part in amount.parts:
            if part.resource in resources and part.written:
                yield f"ask for less than {part.written} of {part.resource} in container {amount.container}"


def _drop_constraints(asked: _Asked, message: str) -> Iterator[str]:
    """Yield what the pod may leave out of what nodes and cards reject it for."""
    words = [word for reason, told in _KEEPS_FROM_CARDS.items() if reason.text in message for word in told]
    for constraint in constraints_of(asked.written, asked.dialects.pod_annotations):
        fields = _KEEPS_FROM_NODES.get(constraint.name)
        concerned = (
            any(word in constraint.name for word in words)
            if fields is None
            else any(reason.text in message for reason in fields)
        )
        if concerned:
            yield constraint.text
