"""The amounts that a pod would have to ask for so that several needs are met together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import Claim, PodClaims
from vgpu_scheduler.whatif.advice.admitted import AdmissionVariants
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, ask_for
from vgpu_scheduler.whatif.advice.searching import PARTS, largest_that_fits, some_of
from vgpu_scheduler.whatif.objects.amounts import Amount, AmountChange, ResourceStep, amounts_of
from vgpu_scheduler.whatif.objects.objects import WorldError
from vgpu_scheduler.whatif.world.world import World

__all__ = ["ClaimCondition", "PodRequest", "amounts_instead_of_percent", "instead_of_percent", "met_together"]

_MOST_LOOKED_AT: Final = 1024
"""Amounts of one resource of which it is found out for each whether it is understood."""


class PodRequest:
    """What a pod asks for, and would ask for if it were written otherwise.

    Parameters
    ----------
    world
        Knows the scheduler's settings.
    written
        The pod, as it is written.
    corrected
        Whether mistakes of it are corrected already, of which its condition and its events still tell.
    corrections
        Those of its amounts.
    """

    def __init__(
        self, world: World, written: Object, *, corrected: bool = False, corrections: Sequence[AmountChange] = ()
    ) -> None:
        self.world = world
        self.corrections = corrections
        self.corrected = corrected
        self.written = written
        self.dialects = world.engine.dialects
        read: Pod = world.pod(written, again=True)
        self.owners = list(self.dialects.owners(read))
        self.claims = self.claims_if(self.written)
        self._admitted = AdmissionVariants(world, written)
        self.amounts = list(amounts_of(self.written, self.dialects, read, self.claims, corrections))

    def claims_if(self, written: Object) -> PodClaims:
        """Return the claims of the pod if it were written so; empty where they would not be understood."""
        try:
            return self.world.engine.algorithm.classes.claims(self.world.pod(written, again=True))
        except WorldError:
            return ()

    def is_let_in(self, written: Object) -> bool:
        """Tell whether the pod would be let in if it were written so."""
        return bool(self._admitted.of(written))

    def meets(self, written: Object, fits: Callable[[PodClaims], bool]) -> bool:
        """Tell whether claims are right however a pod written so may be stored; False where it is not let in."""
        if written is self.written:
            return fits(self.claims)
        claims = [self.world.engine.algorithm.classes.claims(form) for form in self._admitted.of(written)]
        return bool(claims) and all(map(fits, claims))

    def is_heeded(self, amount: Amount) -> bool:
        """Tell whether less of an amount is let in and changes what the pod claims: a webhook may overwrite it."""
        now = [self.claims, *map(self.world.engine.algorithm.classes.claims, self._admitted.of(self.written))]

        def differs(claims: PodClaims) -> bool:
            return bool(claims) and claims not in now

        return any(
            self.meets(amount.applied(self.written, steps), differs) for steps in some_of(range(1, amount.steps))
        )

    def most(
        self, amount: Amount, fits: Callable[[PodClaims], bool], written: Object | None = None, below: int = 0
    ) -> int | None:
        """Return the most steps of an amount, below those that are asked, with which the claims are right.

        Parameters
        ----------
        written
            The pod with other changes; as it is unless given.
        below
            The steps that are asked, where that is not what the amount says.
        """
        base = self.written if written is None else written

        def node_with(steps: int) -> str:
            changed = amount.applied(base, steps)
            return "it fits" if self.meets(changed, lambda claims: bool(claims) and fits(claims)) else ""

        found = largest_that_fits(node_with, self._understood(amount, base, below or amount.steps))
        return found[0] if found else None

    def _understood(self, amount: Amount, written: Object, below: int) -> Sequence[int]:
        """Return the steps of an amount below some with which the pod is understood: as a rule all, if any are."""

        def is_understood(steps: int) -> bool:
            return self.meets(amount.applied(written, steps), bool)

        steps = range(1, below)
        if below > _MOST_LOOKED_AT or len({is_understood(each) for each in some_of(steps)}) < 2:
            return steps
        return [each for each in steps if is_understood(each)]


def claims_of(container: str, claims: PodClaims) -> tuple[Claim, ...]:
    """Return the claims of one container."""
    return next((each.claims for each in claims if each.name == container), ())


def instead_of_percent(asked: PodRequest, resource: str, most: int, fits: Callable[[PodClaims], bool]) -> str:
    """Say how much of a resource one container may ask that asks for percent of cards; empty where not just one does.

    Parameters
    ----------
    most
        More is not looked for.
    fits
        Whether claims do.
    """
    amounts = amounts_instead_of_percent(asked, resource, most)
    found = asked.most(amounts[0], fits) if len(amounts) == 1 else None
    return "" if found is None else amounts[0].worded(found)


def amounts_instead_of_percent(asked: PodRequest, resource: str, most: int) -> list[Amount]:
    """Return what each container that asks for percent of cards would ask of a resource instead, up to some amount."""
    for dialect in asked.owners:
        about, known = dialect.inventory.device_resources.get(resource), dialect.inventory.device_resources
        if about is not None and dialect.inventory.memory_unit != 1:
            of_percent = (about.vendor, about.dimension, True)
            return [
                Amount(now.field, now.index, now.container, (ResourceStep(resource),), most + 1, instead=part)
                for now in asked.amounts
                for part in now.parts
                if (other := known.get(part.resource)) is not None
                and (other.vendor, other.dimension, other.percent) == of_percent
            ]
    return []


@dataclass(frozen=True, slots=True)
class ClaimCondition:
    """Something that claims have to keep.

    Attributes
    ----------
    fits
        Whether they do.
    concerns
        Whether an amount has to do with it.
    otherwise
        What is said where no amount helps; empty where nothing is.
    most
        By what an amount that is as small as this needs is known to be the most; empty where nothing is said of that.
    why
        What else is said of it; empty where nothing is.
    shared_by
        Whether an amount may be made smaller together with others where less of one alone would not do; None where
        none may.
    instead
        Amounts that containers may ask instead of others, beside those that the pod asks.
    """

    fits: Callable[[PodClaims], bool]
    concerns: Callable[[Amount], bool]
    otherwise: str = ""
    most: tuple[str, ...] = ()
    why: str = ""
    shared_by: Callable[[Amount], bool] | None = None
    instead: Sequence[Amount] = ()


def _is_said(amount: Amount) -> bool:
    return not amount.unsaid and amount.instead is None


def met_together(asked: PodRequest, needs: Sequence[ClaimCondition]) -> Iterator[Advice]:
    """Yield how all needs are met: the way that comes to mind first, then others.

    Where several amounts would do for a need, there is a way for each of them.
    """
    choices = _Choices(asked, needs)
    key, base = choices.made({})
    if not base:
        return
    ways = {key: base}
    for number, options in enumerate(tuple(choices.options)):
        for other in range(1, options):
            key, way = choices.made({number: other})
            ways.setdefault(key, way)
    yield from ways.values()


class _Choices:
    """Meets needs one after the other, each by one of the amounts that would do."""

    def __init__(self, asked: PodRequest, needs: Sequence[ClaimCondition]) -> None:
        self._asked = asked
        self._needs = needs
        self._amounts = [*asked.amounts, *dict.fromkeys(amount for need in needs for amount in need.instead)]
        self.options: list[int] = []
        """How many amounts would have done for each need, when it was its turn."""

    def made(self, chosen: Mapping[int, int]) -> tuple[Hashable, Advice]:
        """Return what is to be asked if another amount than the first one is chosen for some needs.

        Returns
        -------
        tuple
            The same for the same amounts, and what is to be done.
        """
        asked, written = self._asked, self._asked.written
        steps: dict[int, int] = {}  # by the number of the amount
        said: dict[int, tuple[tuple[str, ...], str]] = {}
        otherwise: dict[str, None] = {}
        self.options = []
        for number, need in enumerate(self._needs):
            options: list[Mapping[int, int]] = []
            if not asked.meets(written, need.fits):
                for which, amount in enumerate(self._amounts):
                    below = steps.get(which, 0)
                    concerned = amount in need.instead or (amount.instead is None and need.concerns(amount))
                    most = asked.most(amount, need.fits, written, below) if concerned else None
                    if most is not None:
                        options.append({which: most})
                if not options and (several := self._of_several(need, written, steps)):
                    options.append(several)
                if not options and need.otherwise:
                    otherwise[need.otherwise] = None
            self.options.append(len(options))
            if options:
                option = options[min(chosen.get(number, 0), len(options) - 1)]
                steps |= option
                said |= dict.fromkeys(option, ((), "")) | {list(option)[-1]: (need.most, need.why)}
                written = self._applied(written, option)
        kept = self._without_needless(steps)
        actions = (ask_for(self._amounts[which], most, *said[which]) for which, most in kept.items())
        return (frozenset(kept.items()), tuple(otherwise)), (*actions, *map(Action, otherwise))

    def _applied(self, written: Object, chosen: Mapping[int, int]) -> Object:
        for which, most in chosen.items():
            written = self._amounts[which].applied(written, most)
        return written

    def _of_several(self, need: ClaimCondition, written: Object, steps: Mapping[int, int]) -> Mapping[int, int]:
        """Return the largest amounts that meet a need together, in proportion to what is asked; empty where none do.

        What is not said, or asked otherwise now, is taken to be as much as the largest other amount of the resource.
        """
        asked, amounts = self._asked, self._amounts
        if need.shared_by is None:
            return {}
        which = [n for n, amount in enumerate(amounts) if amount in need.instead or need.shared_by(amount)]
        said: dict[str, int] = {}
        for n in which:
            if _is_said(amounts[n]):
                resource = amounts[n].parts[0].resource
                said[resource] = max(said.get(resource, 0), amounts[n].steps)
        now = {
            n: amounts[n].steps
            if _is_said(amounts[n])
            else said.get(amounts[n].parts[0].resource, amounts[n].steps - 1)
            for n in which
        }

        def of_part(part: int) -> dict[int, int]:
            shares = ((n, max(now[n] * part // PARTS, 1)) for n in which)
            return {n: min(share, steps.get(n, share)) for n, share in shares}

        def fits(chosen: Mapping[int, int]) -> str:
            changed = self._applied(written, chosen)
            return "it fits" if asked.meets(changed, lambda claims: bool(claims) and need.fits(claims)) else ""

        found = largest_that_fits(lambda part: fits(of_part(part)), range(1, PARTS + 1)) if len(which) > 1 else None
        if found is None:
            return {}
        chosen = of_part(found[0])
        for n in which:
            most = steps.get(n, now[n])
            raised = largest_that_fits(lambda some: fits({**chosen, n: some}), range(chosen[n], most + 1))  # noqa: B023
            chosen[n] = raised[0] if raised else chosen[n]
        return {n: most for n, most in chosen.items() if not _is_said(amounts[n]) or most < amounts[n].steps}

    def _without_needless(self, steps: Mapping[int, int]) -> Mapping[int, int]:
        """Leave out the amounts without which all needs are met that are met with them: a later one may do for them."""
        asked, kept = self._asked, dict(steps)

        def met_with(chosen: Mapping[int, int]) -> list[bool]:
            changed = self._applied(asked.written, chosen)
            return [asked.meets(changed, need.fits) for need in self._needs]

        all_met = met_with(kept)
        for which in steps:
            others = {other: most for other, most in kept.items() if other != which}
            if others and met_with(others) == all_met:
                kept = others
        return kept
