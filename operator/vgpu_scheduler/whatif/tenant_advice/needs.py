"""Find the amounts with which a pod would meet several conditions on its claims together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import Claim, PodClaims
from vgpu_scheduler.whatif.advice.admitted import AdmissionVariants
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, ask_for
from vgpu_scheduler.whatif.advice.searching import PARTS, largest_that_fits, some_of
from vgpu_scheduler.whatif.objects.amounts import Amount, AmountChange, ResourceStep, amounts_of
from vgpu_scheduler.whatif.objects.containers import containers_of, with_container
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError
from vgpu_scheduler.whatif.world.world import World

_MOST_LOOKED_AT: Final = 1024
"""The largest amount of a resource up to which each smaller amount is checked for being understood and admitted."""


class PodRequest:
    """The requests of a pod, and what they would be if the pod were written differently.

    Parameters
    ----------
    world
        A world with the scheduler's settings.
    written
        The pod as written.
    corrected
        Whether mistakes in the pod are already corrected, so that its condition and events describe an older version.
    corrections
        The corrections of its amounts.
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
        self._valid: dict[tuple[Amount, int], Sequence[int]] = {}
        amounts = amounts_of(self.written, self.dialects, read, self.claims, corrections, all_policies=False)
        self.amounts = list(amounts)  # readers of conditions may not read the policies of the cluster

    def claims_if(self, written: Object) -> PodClaims:
        """Return the claims of a version of the pod; empty if they cannot be understood."""
        try:
            return self.world.engine.algorithm.classes.claims(self.world.pod(written, again=True))
        except InvalidObjectsError:
            return ()

    def is_let_in(self, written: Object) -> bool:
        """Tell whether admission would accept a version of the pod."""
        return bool(self._admitted.of(written))

    def meets(self, written: Object, fits: Callable[[PodClaims], bool]) -> bool:
        """Tell whether claims satisfy a predicate in every form in which admission may store a version of the pod."""
        if written is self.written:
            return fits(self.claims)
        claims = [self.world.engine.algorithm.classes.claims(form) for form in self._admitted.of(written)]
        return bool(claims) and all(map(fits, claims))

    def is_heeded(self, amount: Amount) -> bool:
        """Tell whether a smaller amount is accepted and changes the claims; a webhook may refuse or overwrite it."""
        now = [self.claims, *map(self.world.engine.algorithm.classes.claims, self._admitted.of(self.written))]

        def differs(claims: PodClaims) -> bool:
            return bool(claims) and claims not in now

        return any(
            self.meets(amount.applied(self.written, steps), differs) for steps in some_of(range(1, amount.steps))
        )

    def most(
        self, amount: Amount, fits: Callable[[PodClaims], bool], written: Object | None = None, below: int = 0
    ) -> int | None:
        """Return the largest number of steps of an amount, below the present one, with which the claims fit.

        Parameters
        ----------
        written
            A version of the pod with other changes; by default the pod as it is.
        below
            The present number of steps, if it differs from that of the amount.
        """
        base = self.written if written is None else written

        def node_with(steps: int) -> str:
            changed = amount.applied(base, steps)
            return "it fits" if self.meets(changed, lambda claims: bool(claims) and fits(claims)) else ""

        found = largest_that_fits(node_with, self.valid_steps(amount, base, below or amount.steps))
        return found[0] if found else None

    def valid_steps(self, amount: Amount, written: Object, below: int) -> Sequence[int]:
        """Return the steps of an amount below a limit with which a version of the pod is understood and admitted.

        Some vendors' cards are split into few sizes only. Other containers do not count, and no step is left out if
        the container would be refused with each: for something else, then. Of a long row only a sample is checked:
        between two neighbours of it, at most one change from valid to invalid, or back, is looked for.
        """
        if written is not self.written:
            return self._valid_steps(amount, written, below)
        if (amount, below) not in self._valid:
            self._valid[amount, below] = self._valid_steps(amount, written, below)
        return self._valid[amount, below]

    def _valid_steps(self, amount: Amount, written: Object, below: int) -> Sequence[int]:
        def is_let_in(steps: int) -> bool:
            return bool(self._admitted.of(_alone(amount.applied(written, steps), amount), excused=False))

        steps = range(1, below)
        is_refused = not self._admitted.of(self.written, excused=False)
        is_strict = is_refused and any(map(is_let_in, some_of(steps)))

        def is_valid(steps: int) -> bool:
            return (is_let_in(steps) or not is_strict) and self.meets(amount.applied(written, steps), bool)

        sample = {each: is_valid(each) for each in some_of(steps)}
        in_order = list(sample.values())
        if in_order == sorted(in_order, reverse=True) and (below > _MOST_LOOKED_AT or len({*in_order}) < 2):
            return steps
        if below > _MOST_LOOKED_AT:
            return _valid_between(sample, steps, is_valid)
        return [each for each in steps if is_valid(each)]


def _valid_between(sample: Mapping[int, bool], steps: range, is_valid: Callable[[int], bool]) -> list[int]:
    """Return the valid steps of a row, of which a sample that starts with the first one is known."""
    known = {**sample, steps[-1]: is_valid(steps[-1])}
    found = [step for step, valid in known.items() if valid]
    for (low, is_low), (high, is_high) in pairwise(known.items()):
        between = range(low + 1, high)
        if is_low == is_high:
            found += between if is_low else ()
        else:
            change = bisect_left(between, x=True, key=lambda step: is_valid(step) is is_high)
            found += between[:change] if is_low else between[change:]
    return sorted(found)


def _alone(written: Object, amount: Amount) -> Object:
    """Return a pod in which only the container of an amount asks for anything."""
    for field, index, container in containers_of(written):
        if (field, index) != (amount.field, amount.index):
            written = with_container(written, field, index, {**container, "resources": {}})
    return written


def claims_of(container: str, claims: PodClaims) -> tuple[Claim, ...]:
    """Return the claims of one container."""
    return next((each.claims for each in claims if each.name == container), ())


def amounts_instead_of_percent(asked: PodRequest, resource: str, most: int) -> list[Amount]:
    """Return absolute amounts, up to a maximum, for the containers that ask for a percentage of cards."""
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
class ClaimConstraint:
    """A condition on a pod's claims.

    Attributes
    ----------
    fits
        Tells whether claims meet it.
    concerns
        Tells whether an amount affects it.
    otherwise
        The proposal if no amount helps; empty for none.
    most
        Why no larger amount meets the condition, as parts of a proposal; empty if unknown.
    why
        Further explanation for the proposal; empty for none.
    shared_by
        Tells whether an amount may be reduced together with others if reducing one alone does not suffice; None if
        amounts are only reduced alone.
    instead
        Amounts that containers may ask for in place of present ones, in addition to the present amounts.
    unless
        Returns when claims that meet the condition may still not suffice; empty if they always do.
    """

    fits: Callable[[PodClaims], bool]
    concerns: Callable[[Amount], bool]
    otherwise: str = ""
    most: tuple[str, ...] = ()
    why: str = ""
    shared_by: Callable[[Amount], bool] | None = None
    instead: Sequence[Amount] = ()
    unless: Callable[[PodClaims], str] = lambda claims: ""  # noqa: ARG005


def _is_specified(amount: Amount) -> bool:
    return not amount.unsaid and amount.instead is None


def met_together(asked: PodRequest, needs: Sequence[ClaimConstraint]) -> Iterator[Advice]:
    """Yield ways to meet all conditions, the most obvious first.

    If several amounts could meet a condition, there is a way for each of them.
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


def _largest_up_to(most: int, valid: Sequence[int]) -> int:
    """Return the largest valid number up to a maximum; the smallest one if all are larger."""
    return valid[max(bisect_right(valid, most), 1) - 1] if valid else most


def _action(amount: Amount, steps: int, need: ClaimConstraint | None, claims: PodClaims) -> Action:
    """Return the action that sets an amount to a number of steps, explained by the condition that it meets."""
    if need is None:
        return ask_for(amount, steps)
    return ask_for(amount, steps, tuple(filter(None, (*need.most, need.unless(claims)))), need.why)


class _Choices:
    """Meets conditions one after the other, each by reducing one of the amounts that can meet it."""

    def __init__(self, asked: PodRequest, needs: Sequence[ClaimConstraint]) -> None:
        self._asked = asked
        self._needs = needs
        self._amounts = [*asked.amounts, *dict.fromkeys(amount for need in needs for amount in need.instead)]
        self.options: list[int] = []
        """For each condition, the number of alternative amounts that could meet it."""

    def made(self, chosen: Mapping[int, int]) -> tuple[Hashable, Advice]:
        """Return a way to meet the conditions, with other than the first alternative chosen for some of them.

        Returns
        -------
        tuple
            A key that is equal for equal amounts, and the advice.
        """
        asked, written = self._asked, self._asked.written
        steps: dict[int, int] = {}  # by index of the amount
        said: dict[int, ClaimConstraint | None] = {}
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
                said |= {**dict.fromkeys(option), list(option)[-1]: need}
                written = self._applied(written, option)
        kept = self._without_needless(steps)
        claims = asked.claims_if(self._applied(asked.written, kept))
        actions = (_action(self._amounts[which], most, said[which], claims) for which, most in kept.items())
        return (frozenset(kept.items()), tuple(otherwise)), (*actions, *map(Action, otherwise))

    def _applied(self, written: Object, chosen: Mapping[int, int]) -> Object:
        for which, most in chosen.items():
            written = self._amounts[which].applied(written, most)
        return written

    def _of_several(self, need: ClaimConstraint, written: Object, steps: Mapping[int, int]) -> Mapping[int, int]:
        """Return the largest amounts that meet a condition together, in proportion to the present ones, or nothing.

        Unspecified and alternative amounts start from the largest specified amount of the same resource.
        """
        asked, amounts = self._asked, self._amounts
        if need.shared_by is None:
            return {}
        which = [n for n, amount in enumerate(amounts) if amount in need.instead or need.shared_by(amount)]
        said: dict[str, int] = {}
        for n in which:
            if _is_specified(amounts[n]):
                resource = amounts[n].parts[0].resource
                said[resource] = max(said.get(resource, 0), amounts[n].steps)
        now = {
            n: amounts[n].steps
            if _is_specified(amounts[n])
            else said.get(amounts[n].parts[0].resource, amounts[n].steps - 1)
            for n in which
        }

        valid = {n: asked.valid_steps(amounts[n], written, max(now[n], steps.get(n, 0)) + 1) for n in which}

        def of_part(part: int) -> dict[int, int]:
            shares = {n: max(now[n] * part // PARTS, 1) for n in which}
            return {n: _largest_up_to(min(share, steps.get(n, share)), valid[n]) for n, share in shares.items()}

        def fits(chosen: Mapping[int, int]) -> str:
            changed = self._applied(written, chosen)
            return "it fits" if asked.meets(changed, lambda claims: bool(claims) and need.fits(claims)) else ""

        found = largest_that_fits(lambda part: fits(of_part(part)), range(1, PARTS + 1)) if len(which) > 1 else None
        if found is None:
            return {}
        chosen = of_part(found[0])
        for n in which:
            most = steps.get(n, now[n])
            larger = valid[n][bisect_left(valid[n], chosen[n]) : bisect_right(valid[n], most)]
            raised = largest_that_fits(lambda some: fits({**chosen, n: some}), larger)  # noqa: B023
            chosen[n] = raised[0] if raised else chosen[n]
        return {n: most for n, most in chosen.items() if not _is_specified(amounts[n]) or most < amounts[n].steps}

    def _without_needless(self, steps: Mapping[int, int]) -> Mapping[int, int]:
        """Drop amounts that are not needed because later ones meet their conditions as well."""
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
