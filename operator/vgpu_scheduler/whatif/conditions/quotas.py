"""What is to be done about the quotas that keep a pod waiting, by how its namespace stands."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from vgpu_scheduler.engine import QuotaLimits, QuotaReport
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import PodClaims, counted
from vgpu_scheduler.policy import CLUSTER_KIND
from vgpu_scheduler.whatif.advice.remedy import Advice, do
from vgpu_scheduler.whatif.conditions.earlier_pods import NOBODY_EARLIER, EarlierPods
from vgpu_scheduler.whatif.conditions.group_quotas import OtherMembers
from vgpu_scheduler.whatif.conditions.needs import ClaimCondition, PodRequest, amounts_instead_of_percent, met_together
from vgpu_scheduler.whatif.conditions.pieces import takes_pieces_alone
from vgpu_scheduler.whatif.objects.amounts import Amount

__all__ = ["UNKNOWN_QUOTA_STATUS", "QuotaStatus", "QuotasOfPod"]


class QuotaStatus(NamedTuple):
    """How the namespace of a pod stands, where its quotas would keep the pod waiting.

    Attributes
    ----------
    reports
        None where that is not known.
    other_members
        The others that the pod is placed at once with, if there are any: they count with it.
    earlier
        The pods of the namespace that are served before it, as far as they are known: of what a quota is raised to
        they take theirs first.
    limits
        How it stands with all its quotas that are known, whether they keep the pod waiting as it is or not: what the
        pod asks instead has to keep them, too.
    """

    reports: Sequence[QuotaReport] | None = None
    other_members: OtherMembers | None = None
    earlier: EarlierPods = NOBODY_EARLIER
    limits: Sequence[QuotaReport] = ()


UNKNOWN_QUOTA_STATUS: Final = QuotaStatus()


class QuotasOfPod:
    """What is to be done about the quotas that keep a pod waiting, beside anything else.

    What a pod does not name counts as it does for a quota: memory as the whole of its cards, compute as nothing.

    Parameters
    ----------
    asked
        What the pod asks for.
    status
        How its namespace stands.
    given
        Whether the pod is given what it does not name, by a policy that may not be read: nothing else can keep it.
    """

    def __init__(self, asked: PodRequest, status: QuotaStatus, *, given: bool = False) -> None:
        quotas, other_members = asked.world.engine.quota_limits, status.other_members
        with_it = other_members.asked if other_members is not None else {}
        depends = other_members.depends if other_members is not None else frozenset[str]()
        in_pieces = takes_pieces_alone(asked)

        def statuses_of(reports: Iterable[QuotaReport]) -> Iterator[_ResourceStatus]:
            for each in reports:
                counts, others = quotas.asked(each.resource, asked.claims), with_it.get(each.resource, 0)
                more = quotas.depends_on_card(each.resource, asked.claims) or each.resource in depends
                hidden = not counts and not more and CLUSTER_KIND in asked.world.unread
                is_compute = _is_compute(asked, each.resource)
                more |= (given and not counts) or (in_pieces and not is_compute)
                if others or quotas.concerns(each.resource, asked.claims):
                    yield _ResourceStatus(each, counts, others, more, may_be_given=hidden and is_compute)

        self.reports = tuple(status.reports or ())
        statuses = list(statuses_of(self.reports))
        over = [each for each in statuses if each.remaining < each.asked]
        unsure = [each for each in statuses if each.depends and each not in over]
        exceeded = [*over, *(replace(each, unsure=bool(over)) for each in unsure)]
        statuses = [next((other for other in exceeded if other.report is each.report), each) for each in statuses]
        self._asked, self._status, self._given = asked, status, given
        if given:
            unsaid = {each.report.resource for each in exceeded}
            asked.amounts = [_is_given(each, unsaid) for each in asked.amounts]
        less = all(each.remaining > 0 for each in exceeded) and not in_pieces
        self._needs = [_need_of_quota(asked, each) for each in exceeded] if less else []
        self._less = tuple(met_together(asked, self._needs)) or tuple(_asked_together(other_members, exceeded))
        self._statuses, self._exceeded = statuses, exceeded
        met, limits = {each.report.resource for each in exceeded}, statuses_of(status.limits)
        self._kept = [_kept_quota(asked, each) for each in limits if each.report.resource not in met]

    @cached_property
    def _raised(self) -> Advice:
        return _all_raised(self._asked.world.engine.quota_limits, self._statuses, self._exceeded, self._status.earlier)

    @property
    def alone(self) -> tuple[Advice, ...]:
        """The largest amounts that the quotas leave, together, and what the quotas would have to be."""
        return (*self._less, *([self._raised] if self._raised else ()))

    @property
    def less(self) -> tuple[Advice, ...]:
        """The largest amounts that the quotas leave, together."""
        return self._less

    @property
    def raised_for_pieces(self) -> str:
        """What quotas would have to be, though what the pod asks is within them; empty where none counts that."""
        counting = [replace(each, depends=True) for each in self._statuses if each.asked]
        quotas = self._asked.world.engine.quota_limits
        raised = " and ".join(_raised(quotas, each, 0, ()) for each in counting)
        return f"have {raised}, or end pods of the namespace" if raised else ""

    def if_written(self, written: Object) -> QuotasOfPod:
        """Return what is to be done about them for a pod that is written otherwise."""
        asked = PodRequest(self._asked.world, written, corrections=self._asked.corrections)
        return QuotasOfPod(asked, self._status, given=self._given)

    def if_given(self) -> QuotasOfPod:
        """Return what is to be done about them if the pod is given what it does not name."""
        return QuotasOfPod(self._asked, self._status, given=True)

    def leave(self, claims: PodClaims) -> bool:
        """Tell whether they leave as much as some claims count for; so does what of claims is not known."""
        quotas = self._asked.world.engine.quota_limits
        return not claims or all(
            quotas.asked(each.report.resource, claims) <= each.remaining for each in self._statuses
        )

    def kept_by(self, claims: PodClaims) -> bool:
        """Tell whether they would not keep a pod with some claims waiting."""
        return not self._exceeded or (bool(self._needs) and all(need.fits(claims) for need in self._needs))

    def beside(self, ways: Iterable[Advice]) -> Iterator[Advice]:
        """Yield what is about no amounts, each with what has to be done about the quotas as well."""
        for way in ways:
            yield from ((*way, *more) for more in ((*self._less[:1], self._raised) if self._raised else ((),)))

    def raised_beside(self, ways: Iterable[Advice]) -> Iterator[Advice]:
        """Yield what is about amounts, or limits, each with what the quotas would have to be."""
        yield from ((*way, *self._raised) for way in ways)

    def met_with(self, needs: Sequence[ClaimCondition]) -> Iterator[Advice]:
        """Yield how other needs are met and the quotas kept as well, by less or, where nothing is left, by more."""
        ways = met_together(self._asked, [*needs, *self._needs, *self._kept])
        yield from ways if self._needs else self.raised_beside(ways)


@dataclass(frozen=True, slots=True)
class _ResourceStatus:
    """How a namespace stands with one resource that a pod counts for.

    Attributes
    ----------
    asked, others
        What the pod counts for, and those that it is placed at once with.
    depends
        Whether that may be more, as the cards have it.
    unsure
        Whether it is not known to keep the pod waiting: another one does.
    may_be_given
        Whether that may be more, as policies have it that may not be read.
    """

    report: QuotaReport
    asked: int
    others: int
    depends: bool
    unsure: bool = False
    may_be_given: bool = False

    @property
    def remaining(self) -> int:
        """What the pod may ask for."""
        return self.report.limit - self.report.used - self.others

    @property
    def wanted(self) -> int:
        """What the limit would have to be, with nobody before the pod."""
        return self.report.used + self.asked + self.others


def _asked_together(other_members: OtherMembers | None, exceeded: Sequence[_ResourceStatus]) -> Iterator[Advice]:
    """Yield what all that are placed at once may ask for together, where less of one of them would not do."""
    remaining = {each.report.resource: each.report.limit - each.report.used for each in exceeded}
    if other_members is not None and remaining and min(remaining.values()) > 0:
        sums = " and ".join(
            f"{remaining[each.report.resource]} {each.report.unit} of limits.{each.report.resource}"
            for each in exceeded
        )
        number = other_members.number + 1
        which = f"the {number} pods of group {other_members.group} that are placed at once"
        yield do(f"have {which} ask for {sums} at most together")


def _all_raised(
    quotas: QuotaLimits, statuses: Sequence[_ResourceStatus], exceeded: Sequence[_ResourceStatus], earlier: EarlierPods
) -> Advice:
    """Return to what quotas are to be raised so that a pod gets in after those before it; empty where none need be."""
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
    return do(f"have {raised}{first}, or end pods of the namespace")


def _raised(quotas: QuotaLimits, status: _ResourceStatus, taken: int, more_than: Container[str]) -> str:
    """Word that a quota is to be raised, and to how much, or to more where the pod may count for more than is known.

    All in the unit of the resource, as it is written in a quota.

    Parameters
    ----------
    taken
        What those take that are served before the pod.
    more_than
        The resources of which they may take more.
    """
    report, wanted = status.report, status.wanted + taken
    limit, used, to = (quotas.written(report.resource, each) for each in (report.limit, report.used, wanted))
    if status.depends and wanted <= report.limit:
        return f"limits.{report.resource} raised (of {limit}, {used} are used)"
    if status.may_be_given:
        given = f"it is {limit}, and a policy that you may not read may give the pod some"
        return f"limits.{report.resource} raised to {to} or more ({given})"
    more = "more than " if status.depends or report.resource in more_than else ""
    return f"limits.{report.resource} raised to {more}{to} (it is {limit})"


def _is_compute(asked: PodRequest, resource: str) -> bool:
    """Tell whether a resource of a quota is the compute of cards."""
    named = [(each.inventory, each.allocation.quota_resources.get(resource)) for each in asked.owners]
    return any(of is not None and of.dimension == inventory.cores for inventory, of in named)


def _is_given(amount: Amount, resources: Container[str]) -> Amount:
    """Return an amount of some resources that nobody says as one that is given; others as they are."""
    is_given = amount.unsaid and any(part.resource in resources for part in amount.parts)
    return replace(amount, unsaid="it asks for none, and is given some") if is_given else amount


def _kept_quota(asked: PodRequest, status: _ResourceStatus) -> ClaimCondition:
    """Return the need to keep a quota that a pod keeps as it is, but need not as it would ask instead."""
    quotas, report, need = asked.world.engine.quota_limits, status.report, _need_of_quota(asked, status)

    def fits(claims: PodClaims) -> bool:
        return quotas.asked(report.resource, claims) <= max(status.remaining, status.asked)

    raised = f"have {_raised(quotas, replace(status, depends=True), 0, ())}"
    return replace(need, fits=fits, otherwise=need.otherwise if status.remaining > 0 else raised)


def _need_of_quota(asked: PodRequest, status: _ResourceStatus) -> ClaimCondition:
    quotas, resource, unit = asked.world.engine.quota_limits, status.report.resource, status.report.unit
    now, remaining = status.asked, status.remaining

    dialect = next((each for each in asked.owners if resource in each.allocation.quota_resources), None)

    def concerns(amount: Amount) -> bool:
        # What is not said, or in percent, counts for nothing that is known: to say it makes that more.
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

    leaves = f"limits.{resource} leaves {remaining} {unit}{' to it beside its group' if status.others else ''}"
    most, why = ((), f"if a card has more: {leaves}") if status.unsure else ((leaves,), "")
    otherwise = f"ask for no more than the {remaining} that limits.{resource} leaves"
    if quotas.depends_on_card(resource, asked.claims):
        otherwise += ", in amounts: how much a percentage or a whole card takes depends on the card"
    instead = amounts_instead_of_percent(asked, resource, remaining)
    return ClaimCondition(fits, concerns, otherwise, most, why, is_of_it, instead)
