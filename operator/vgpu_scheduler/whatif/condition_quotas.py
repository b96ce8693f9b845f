"""What is to be done about the quotas that keep a pod waiting, by how its namespace stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.model import PodClaims
from vgpu_scheduler.whatif.amounts import Amount
from vgpu_scheduler.whatif.needs import Asked, Need, instead_of_percent, met_together

__all__ = ["QuotasOfPod"]


class QuotasOfPod:
    """What is to be done about the quotas that keep a pod waiting, beside anything else.

    What a pod does not name counts as it does for a quota: memory as the whole of its cards, compute as nothing.

    Parameters
    ----------
    asked
        What the pod asks for.
    reports
        How its namespace stands.
    """

    def __init__(self, asked: Asked, reports: tuple[QuotaReport, ...]) -> None:
        quotas = asked.world.engine.quotas
        told = [(r, quotas.asked(r.resource, asked.claims)) for r in reports]
        told = [(report, now) for report, now in told if quotas.concerns(report.resource, asked.claims)]
        exceeded = [(report, now) for report, now in told if report.used + now > report.limit]
        exceeded = exceeded or [(r, now) for r, now in told if quotas.depends_on_card(r.resource, asked.claims)]
        less = all(report.used < report.limit for report, _ in exceeded)
        self.reports = reports
        self._asked = asked
        self._needs = [_need_of_quota(asked, report, now) for report, now in exceeded] if less else []
        self._less = tuple(met_together(asked, self._needs))
        raised = " and ".join(
            _raised(report, now, at_least=quotas.depends_on_card(report.resource, asked.claims))
            for report, now in exceeded
        )
        self._raised = f"have {raised}, or end pods of the namespace" if raised else ""

    @property
    def alone(self) -> tuple[str, ...]:
        """The largest amounts that the quotas leave, together, and what the quotas would have to be."""
        return (*self._less, *([self._raised] if self._raised else ()))

    def kept_by(self, claims: PodClaims) -> bool:
        """Tell whether they would not keep a pod with some claims waiting."""
        return not self._raised or (bool(self._needs) and all(need.fits(claims) for need in self._needs))

    def beside(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield what is about no amounts, each with what has to be done about the quotas as well."""
        for text in texts:
            yield from (f"{text} and {each}" for each in (*self._less[:1], self._raised)) if self._raised else (text,)

    def raised_beside(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield what is about amounts, or limits, each with what the quotas would have to be."""
        for text in texts:
            yield f"{text} and {self._raised}" if self._raised else text

    def met_with(self, needs: Sequence[Need]) -> Iterator[str]:
        """Yield how other needs are met and the quotas kept as well, by less or, where nothing is left, by more."""
        texts = met_together(self._asked, [*needs, *self._needs])
        yield from texts if self._needs else self.raised_beside(texts)


def _raised(report: QuotaReport, now: int, *, at_least: bool) -> str:
    """Word that a quota is to be raised, and to how much, or to more where the pod may count for more than is known."""
    wanted = report.used + now
    if at_least and wanted <= report.limit:
        return f"limits.{report.resource} raised (of {report.limit}, {report.used} are used)"
    more = "more than " if at_least else ""
    return f"limits.{report.resource} raised to {more}{wanted} (it is {report.limit})"


def _need_of_quota(asked: Asked, report: QuotaReport, now: int) -> Need:
    quotas, resource, left = asked.world.engine.quotas, report.resource, report.limit - report.used

    def concerns(amount: Amount) -> bool:
        return 0 < quotas.asked(resource, asked.claims_if(amount.applied(asked.written, 1))) < (now or left + 1)

    def fits(claims: PodClaims) -> bool:
        return 0 < quotas.asked(resource, claims) <= left

    leaves = f"limits.{resource} leaves {left} {report.unit}"
    amount = instead_of_percent(asked, resource, left, fits)
    otherwise = f"{amount} ({leaves})" if amount else f"ask for no more than the {left} that limits.{resource} leaves"
    return Need(fits, concerns, otherwise, leaves)
