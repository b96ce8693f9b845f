"""Advice about the quotas that keep a pod waiting, derived from the quota status of its namespace."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple

from vgpu_scheduler.engine import QuotaLimits, QuotaReport
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import WHOLE, PodClaims, counted, number_of_cards
from vgpu_scheduler.whatif.advice.remedy import Advice, do
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.tenant_advice.earlier_pods import NOBODY_EARLIER, EarlierPods
from vgpu_scheduler.whatif.tenant_advice.ending_pods import wait_for_ending_pods
from vgpu_scheduler.whatif.tenant_advice.group_quotas import OtherMembers
from vgpu_scheduler.whatif.tenant_advice.needs import (
    ClaimConstraint,
    PodRequest,
    amounts_instead_of_percent,
    met_together,
)
from vgpu_scheduler.whatif.tenant_advice.pieces import (
    LEAST_COMPUTE,
    has_pieces,
    least_of,
    may_take_pieces,
    smallest_pieces_of,
    takes_pieces_alone,
)
from vgpu_scheduler.whatif.tenant_advice.quota_statuses import ResourceStatus, is_compute, statuses_of


class QuotaStatus(NamedTuple):
    """The quota status of a pod's namespace, if its quotas keep the pod waiting.

    Attributes
    ----------
    reports
        The quotas in the way; None if unknown.
    other_members
        The group members placed at once with the pod, which need quota, too; None without any.
    earlier
        The known pods of the namespace that are ahead of it in the queue: they take their part of a raised quota
        first.
    limits
        All known quotas of the namespace, including those that the pod keeps now: smaller requests have to keep them,
        too.
    fits_nowhere
        Whether no node would fit the pod with larger quotas, either.
    """

    reports: Sequence[QuotaReport] | None = None
    other_members: OtherMembers | None = None
    earlier: EarlierPods = NOBODY_EARLIER
    limits: Sequence[QuotaReport] = ()
    fits_nowhere: bool = False


UNKNOWN_QUOTA_STATUS: Final = QuotaStatus()
ON_A_NODE: Final = "some node must have that much free, too"
ON_PIECES: Final = "on cards that are split into pieces a whole piece counts"
_IN_EACH: Final = " in each quota that leaves too little"


class QuotasOfPod:
    """Advice about the quotas that keep a pod waiting, to be combined with other advice.

    For a quota, unspecified memory counts as that of the whole cards, and unspecified compute as nothing.

    Parameters
    ----------
    asked
        The requests of the pod.
    status
        The quota status of its namespace.
    given
        Whether a policy that the reader cannot see must set the unspecified amounts, as nothing else explains the wait.
    """

    def __init__(self, asked: PodRequest, status: QuotaStatus, *, given: bool = False) -> None:
        self._asked, self._status, self._given = asked, status, given
        self.reports = tuple(status.reports or ())
        self.other_members = status.other_members
        statuses = list(statuses_of(asked, self.reports, status.other_members, given=given))
        limits = list(statuses_of(asked, status.limits, status.other_members, given=given))
        is_certain = any(each.is_exceeded for each in statuses)
        self._statuses = [replace(each, unsure=is_certain and each.may_be_exceeded) for each in statuses]
        self._exceeded = [each for each in self._statuses if each.is_exceeded]
        self._exceeded += [each for each in self._statuses if each.may_be_exceeded]
        resources = {each.report.resource for each in self._exceeded}
        if given:
            asked.amounts = [_is_given(each, resources) for each in asked.amounts]
        leave_something = all(_leaves_something(asked, each) for each in self._exceeded)
        leave_something &= not takes_pieces_alone(asked)
        self._needs = [_need_of_quota(asked, each) for each in self._exceeded] if leave_something else []
        by_asking_less = tuple(met_together(asked, self._needs))
        less = by_asking_less or tuple(_asked_together(status.other_members, self._exceeded))
        self._less = tuple(map(_at_most, less)) if status.fits_nowhere else less
        self.limits = limits
        self._kept = [_kept_quota(asked, each) for each in limits if each.report.resource not in resources]

    @cached_property
    def _raised(self) -> Advice:
        by_the_piece = may_take_pieces(self._asked) and has_pieces(self._asked.world, self._asked.claims)
        quotas, earlier = self._asked.world.engine.quota_limits, self._status.earlier
        return _all_raised(quotas, self._statuses, self._exceeded, earlier, by_the_piece=by_the_piece)

    @property
    def alone(self) -> tuple[Advice, ...]:
        """The largest amounts that the quotas leave, the pods whose end helps, and to what quotas must be raised."""
        return (*self._less, *self._ending, *([self._raised] if self._raised else ()))

    @cached_property
    def _ending(self) -> tuple[Advice, ...]:
        """The advice to wait for pods of the namespace that are ending, if that suffices."""
        if not self._exceeded:
            return ()
        resources = [each.report.resource for each in self._statuses]
        beside = {each.report.resource: each.asked + each.others for each in self._statuses}

        def suffices(freed: Mapping[str, int]) -> bool:
            left = {
                each.report.resource: each.report.limit - each.report.used + freed[each.report.resource]
                for each in self._statuses
            }
            _, taken = self._status.earlier.let_in(beside, left)
            unknown = (each.report.resource for each in self._exceeded if each.may_be_exceeded)
            return all(left[each] - taken[each] >= beside[each] for each in resources) and all(
                freed[each] > 0 and left[each] - taken[each] > beside[each] for each in unknown
            )

        namespace = self._statuses[0].report.namespace
        return tuple(wait_for_ending_pods(self._asked.world, namespace, resources, suffices))

    @property
    def left_to_cards(self) -> str:
        """What is not known of the quotas that the pod does not exceed for certain; empty if all is known."""
        kept = [each for each in self.limits if each.may_be_exceeded and each not in self._statuses]
        return "; ".join(
            f"how much it takes of the {each.remaining} {each.report.unit} that {each.report.key} leaves"
            " depends on the card"
            for each in kept
        )

    @property
    def less(self) -> tuple[Advice, ...]:
        """The largest amounts that the quotas leave together."""
        return self._less

    @property
    def raised_for_pieces(self) -> str:
        """The advice to raise quotas that whole pieces may exceed, though the requests do not; empty if none apply."""
        counting = [replace(each, depends=True) for each in self._statuses if each.asked or self._by_the_piece(each)]
        quotas = self._asked.world.engine.quota_limits
        raised = " and ".join(_raised(quotas, each, 0, ()) for each in counting)
        return f"have {raised}, or end pods of the namespace" if raised else ""

    @property
    def of_pieces_unseen(self) -> bool:
        """Whether the requests keep the quotas, and cards that are given out in pieces, which count whole, may not."""
        return self._given and self.are_of_pieces

    @property
    def are_of_pieces(self) -> bool:
        """Whether whole pieces of cards, which a pod may get, explain that quotas keep a pod whose requests fit."""
        asked = self._asked
        return may_take_pieces(asked) and bool(smallest_pieces_of(asked.world, asked.claims))

    @property
    def leave_pieces(self) -> bool:
        """Whether the quotas may have room for the smallest pieces of cards."""
        least = number_of_cards(self._asked.claims) * LEAST_COMPUTE
        compute = (each for each in self._statuses if self._by_the_piece(each))
        return self.leave(smallest_pieces_of(self._asked.world, self._asked.claims)) and all(
            each.remaining >= least for each in compute
        )

    def _by_the_piece(self, status: ResourceStatus) -> bool:
        """Tell whether a quota of compute has no room for whole cards: a piece may count for more than it leaves."""
        most = number_of_cards(self._asked.claims) * WHOLE
        return is_compute(self._asked, status.report.resource) and status.remaining < most

    def if_written(self, written: Object) -> QuotasOfPod:
        """Return the advice for another version of the pod, which may exceed quotas that the pod keeps now."""
        asked = PodRequest(self._asked.world, written, corrections=self._asked.corrections)
        is_other = not self.reports and asked.claims != self._asked.claims
        status = self._status._replace(reports=self._status.limits) if is_other else self._status
        return QuotasOfPod(asked, status, given=self._given)

    def if_given(self) -> QuotasOfPod:
        """Return the advice if a policy sets the pod's unspecified amounts."""
        return QuotasOfPod(self._asked, self._status, given=True)

    def leave(self, claims: PodClaims) -> bool:
        """Tell whether the quotas leave at least what is known to be needed for some claims."""
        quotas = self._asked.world.engine.quota_limits
        return not claims or all(
            quotas.asked(each.report.resource, claims) <= each.remaining for each in self._statuses
        )

    def kept_by(self, claims: PodClaims) -> bool:
        """Tell whether the quotas would let in a pod with some claims."""
        return not self._exceeded or (bool(self._needs) and all(need.fits(claims) for need in self._needs))

    def beside(self, ways: Iterable[Advice]) -> Iterator[Advice]:
        """Yield advice that changes no amounts, each combined with advice about the quotas."""
        for way in ways:
            yield from ((*way, *more) for more in ((*self._less[:1], self._raised) if self._raised else ((),)))

    def raised_beside(self, ways: Iterable[Advice]) -> Iterator[Advice]:
        """Yield advice about amounts or limits, each combined with the quotas to raise."""
        yield from ((*way, *self._raised) for way in ways)

    def met_with(self, needs: Sequence[ClaimConstraint]) -> Iterator[Advice]:
        """Yield ways to meet conditions and quotas: by smaller amounts or, if quotas leave nothing, by raising them."""
        ways = met_together(self._asked, [*needs, *self._needs, *self._kept])
        yield from ways if self._needs else self.raised_beside(ways)


def _asked_together(other_members: OtherMembers | None, exceeded: Sequence[ResourceStatus]) -> Iterator[Advice]:
    """Yield what all members placed at once may ask for together, since reducing one alone would not suffice."""
    remaining = {each.report.resource: each.report.limit - each.report.used for each in exceeded}
    if other_members is not None and remaining and min(remaining.values()) > 0:
        sums = " and ".join(
            f"{remaining[each.report.resource]} {each.report.unit} of {each.report.key}" for each in exceeded
        )
        number = other_members.number + 1
        which = f"the {number} pods of group {other_members.group} that are placed at once"
        yield do(f"have {which} ask for {sums} at most together")


def _at_most(less: Advice) -> Advice:
    """Explain that what quotas leave may still be more than any node has free."""
    *others, last = less
    too = ON_A_NODE if last.steps is None else f"at most: {ON_A_NODE}"
    return (*others, replace(last, why="; ".join(filter(None, (last.why, too)))))


def _all_raised(
    quotas: QuotaLimits,
    statuses: Sequence[ResourceStatus],
    exceeded: Sequence[ResourceStatus],
    earlier: EarlierPods,
    *,
    by_the_piece: bool,
) -> Advice:
    """Return to what quotas must be raised to let in a pod after the pods ahead of it; empty if none must be.

    Parameters
    ----------
    by_the_piece
        Whether the pod may get pieces of cards, which count whole: an amount then need not suffice.
    """
    if not exceeded:
        return ()
    beside = {each.report.resource: each.asked + each.others for each in statuses}
    left = {each.report.resource: each.report.limit - each.report.used for each in statuses}
    let_in, taken = earlier.let_in(beside, left)
    concerned = [
        each for each in statuses if each in exceeded or each.wanted + taken[each.report.resource] > each.report.limit
    ]
    raising = {each.report.resource for each in concerned}
    number = sum(not raising.isdisjoint(each) for each in let_in)
    more_than = earlier.depends if number else frozenset[str]()
    raised = " and ".join(_raised(quotas, each, taken[each.report.resource], more_than) for each in concerned)
    first = ""
    if number:
        are, get = ("is", "gets its") if number == 1 else ("are", "get their")
        waits = "waits" if number == 1 else "wait"
        first = (
            f" (then {counted(number, 'pod')} of the namespace that {waits}, too, and {are} served before it, {get}"
            f" place{'' if number == 1 else 's'} as well)"
        )
    why = f": {ON_PIECES}, which may be more" if by_the_piece and " raised to " in raised else ""
    return do(f"have {raised}{first}, or end pods of the namespace{why}")


def _raised(quotas: QuotaLimits, status: ResourceStatus, taken: int, more_than: Container[str]) -> str:
    """Describe the limit to which quotas must be raised, or "more than" it if the pod may need more than is known.

    Amounts are in the unit in which the quota is written.

    Parameters
    ----------
    taken
        What the pods ahead in the queue take.
    more_than
        The resources of which these may take more.
    """
    report, wanted = status.report, status.wanted + taken
    used, to = (quotas.written(report.resource, each) for each in (report.used, wanted))
    may_be_more = status.depends or status.may_be_given or report.resource in more_than
    limit, where = _limits_below(quotas, report, None if may_be_more else wanted)
    together = f"; {status.together} pods of its group count at once" if status.together else ""
    if status.depends and wanted <= report.limit:
        return f"{report.key} raised (of {limit}, {used} are used{together}){where}"
    if status.may_be_given:
        given = f"it is {limit}, and a policy that you may not read may give the pod some"
        return f"{report.key} raised to {to} or more ({given}){where}"
    if not may_be_more:
        return f"{report.key} raised to {to} (it is {limit}){where}"
    by = f"what {'else ' if status.asked else ''}the pod is" if status.depends else "what pods before it are"
    by = "what others of its group are" if status.together else by
    return f"{report.key} raised to more than {to}, by {by} to have (it is {limit}){where}"


def _limits_below(quotas: QuotaLimits, report: QuotaReport, wanted: int | None) -> tuple[str, str]:
    """Return the limits that are to be raised, and in which quotas if that is known in general only.

    The smallest limit counts, so each quota with a smaller limit than the wanted one has to be raised. An event tells
    the smallest limit, and not how many quotas there are.

    Parameters
    ----------
    wanted
        The limit that suffices; None if that is not known: any quota may have to be raised then.
    """
    known = quotas.limits_of(report.namespace, report.resource)
    unreadable = quotas.unreadable_limits_of(report.namespace, report.resource)
    shown = {
        name: f"{unreadable[name]}, which counts as {limit}" if name in unreadable else str(limit)
        for name, limit in ((name, quotas.written(report.resource, limit)) for name, limit in known.items())
    }
    if not known:
        return str(quotas.written(report.resource, report.limit)), _IN_EACH
    below = sorted((limit, name) for name, limit in known.items() if wanted is None or limit < wanted)
    if len(known) == 1 or not below:
        return shown[min(known, key=lambda name: known[name])], ""
    return " and ".join(f"{shown[name]} in ResourceQuota {name}" for _, name in below), ""


def _is_given(amount: Amount, resources: Container[str]) -> Amount:
    """Mark an unspecified amount of some resources as set by a policy; return other amounts as they are."""
    is_given = amount.unsaid and any(part.resource in resources for part in amount.parts)
    return replace(amount, unsaid="it asks for none, and is given some", is_given=True) if is_given else amount


def _kept_quota(asked: PodRequest, status: ResourceStatus) -> ClaimConstraint:
    """Return the condition to keep a quota that the pod keeps now, but might exceed with other requests."""
    quotas, report, need = asked.world.engine.quota_limits, status.report, _need_of_quota(asked, status)

    def fits(claims: PodClaims) -> bool:
        return quotas.asked(report.resource, claims) <= max(status.remaining, status.asked)

    raised = f"have {_raised(quotas, replace(status, depends=True), 0, ())}"
    return replace(need, fits=fits, otherwise=need.otherwise if status.remaining > 0 else raised)


def _leaves_something(asked: PodRequest, status: ResourceStatus) -> bool:
    """Tell whether a quota leaves as much as the least that the pod can ask for, which may be rounded up to a part."""
    quotas, resource = asked.world.engine.quota_limits, status.report.resource

    def counted(claims: PodClaims) -> int:
        return quotas.asked(resource, claims)

    return 0 < status.remaining >= counted(least_of(asked, counted))


def _need_of_quota(asked: PodRequest, status: ResourceStatus) -> ClaimConstraint:
    quotas, resource, unit = asked.world.engine.quota_limits, status.report.resource, status.report.unit
    now, remaining = status.asked, status.remaining

    dialect = next((each for each in asked.owners if resource in each.allocation.quota_resources), None)

    def concerns(amount: Amount) -> bool:
        # Unspecified amounts and percentages count as 0 here, so that specifying them increases the count.
        then = quotas.asked(resource, asked.claims_if(amount.applied(asked.written, 1)))
        return 0 < then != now and (now > 0 or then <= remaining)

    def fits(claims: PodClaims) -> bool:
        return 0 < quotas.asked(resource, claims) <= remaining and not quotas.depends_on_card(resource, claims)

    def is_of_it(amount: Amount) -> bool:
        about = (
            [] if dialect is None else [dialect.inventory.device_resources.get(each.resource) for each in amount.parts]
        )
        limited = None if dialect is None else dialect.allocation.quota_resources[resource]
        return len(about) == 1 and (about[0] and (about[0].vendor, about[0].dimension, about[0].percent)) == (
            limited and (limited.vendor, limited.dimension, limited.of_card)
        )

    leaves = f"{status.report.key} leaves {remaining} {unit}{' to it beside its group' if status.others else ''}"
    most, why = ((), f"if a card has more: {leaves}") if status.unsure else ((leaves,), "")
    if status.together:
        most = (f"at most: the {status.together} pods of its group count at once in {status.report.key}", *most)

    def of_pieces(claims: PodClaims) -> str:
        if not may_take_pieces(asked) or not has_pieces(asked.world, claims):
            return ""
        counts = quotas.asked(resource, smallest_pieces_of(asked.world, claims))
        if counts > remaining:
            return f"on cards that are split into pieces it counts as {counts} {unit} or more"
        return f"{ON_PIECES}, which may be more"

    otherwise = f"ask for no more than the {remaining} that {status.report.key} leaves"
    if quotas.depends_on_card(resource, asked.claims):
        otherwise += ", in amounts: how much a percentage or a whole card is depends on the card"
    instead = amounts_instead_of_percent(asked, resource, remaining)
    return ClaimConstraint(fits, concerns, otherwise, most, why, is_of_it, instead, of_pieces)
