"""The namespaces page: what each namespace holds of cards, its quotas, its waiting pods, and past usage."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from vgpu_scheduler.ui.prometheus_polling import DAY, PrometheusReading
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import HeldHours, World, hours_of_running_pods, summed_by_namespace
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import NamespaceUsage, as_json

_HEAD: Final = ("namespace", "pods", "waiting", "cards", "memory_mib", "compute_percent", "quotas")
_HOURS_HEAD: Final = ("gib_hours_24h", "card_hours_24h")
VALUES: Final = ("held", "hours", "usage")
"""What the JSON contains: current holdings, those of the last day, or the latter by model with their source."""
_HOUR: Final = 3600.0
_NOT_ASKED: Final = "Prometheus does not answer"


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """The query of the namespaces page, besides names.

    Attributes
    ----------
    now
        The time of day; None if it is not known.
    metered
        Prometheus' last answer; None if no Prometheus is configured.
    values
        One of ``VALUES``.
    """

    now: datetime | None = None
    metered: PrometheusReading | None = None
    values: str = "held"


@dataclass(frozen=True, slots=True)
class NamespacesPage:
    """The namespaces that hold, wait for or have held cards, or that have a quota.

    Attributes
    ----------
    rows
        The current holdings.
    by_model
        The usage of the last 24 hours by namespace and model; empty if not known.
    metered
        Prometheus' last answer; None if the hours are computed from the running pods.
    """

    rows: Sequence[NamespaceUsage]
    by_model: Sequence[HeldHours] = ()
    metered: PrometheusReading | None = None
    values: str = "held"

    @property
    def hours(self) -> list[HeldHours]:
        """The usage of the last 24 hours by namespace."""
        return summed_by_namespace(self.by_model)

    @property
    def whole(self) -> list[tuple[NamespaceUsage, HeldHours | None]]:
        """All namespaces with their past usage, including those that hold nothing any more."""
        hours = {each.namespace: each for each in self.hours}
        rows = {row.namespace: row for row in self.rows}
        gone = {name: NamespaceUsage(name, 0, 0, 0, 0, 0) for name in hours.keys() - rows.keys()}
        return [(row, hours.get(name)) for name, row in sorted({**rows, **gone}.items())]

    @property
    def trouble(self) -> str:
        """Why past usage is not known; empty if it is known."""
        return "" if self.metered is None else self.metered.trouble

    def as_json(self) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the page as plain values, as ``top namespaces -o json`` or ``usage -o json`` does."""
        if self.values == "usage":
            pending = self.metered is not None and self.metered.pending
            said = {"metered": self.metered is not None, "trouble": self.trouble, "pending": pending}
            return {**said, "hours": [each.as_json() for each in self.by_model]}
        if self.values == "hours":
            return [each.as_json() for each in self.hours]
        return [as_json(row) for row in self.rows]

    def as_csv(self) -> str:
        """Return the page as CSV."""
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow((*_HEAD, *_HOURS_HEAD))
        for row, held in self.whole:
            quotas = "; ".join(map(str, row.quotas))
            hours = ("", "") if self.trouble else _format_hours(held)
            table.writerow((row.namespace, row.pods, row.waiting, row.cards, row.memory, row.cores, quotas, *hours))
        return text.getvalue()


def _format_hours(held: HeldHours | None) -> tuple[str, str]:
    return ("0", "0") if held is None else (f"{held.gib_hours:.3f}", f"{held.card_hours:.3f}")


def namespaces_page(
    world: World, namespace: str, visibility: Visibility, asked: NamespaceQuery | None = None
) -> NamespacesPage:
    """Return the namespaces page.

    Parameters
    ----------
    namespace
        A substring of the namespaces' names; empty for all.
    visibility
        Which namespaces the visitor sees.
    """
    asked = asked or NamespaceQuery()
    if asked.metered is None:
        found = hours_of_running_pods(world, asked.now or datetime.now(UTC), DAY / _HOUR)
    else:
        found = list(asked.metered.hours)

    def is_meant(name: str) -> bool:
        return namespace in name and visibility.sees(name)

    metered = asked.metered
    if metered is not None and metered.trouble and not metered.pending and not visibility.is_whole:
        metered = PrometheusReading(trouble=_NOT_ASKED)  # the original message has an address and maybe names
    rows = [row for row in usage.namespaces(world) if is_meant(row.namespace)]
    by_model = [each for each in found if is_meant(each.namespace)]
    return NamespacesPage(rows, by_model, metered, asked.values)
