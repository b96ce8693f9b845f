"""How much of its quotas of devices a namespace uses, as events and people are told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import QUOTA_LIMITS

_LIMIT_DESCRIBED: Final = re.compile(
    r"(\d+) of (\d+) ((?:x \d+ )?\S+)(?: \((\S+) in the quota\))? of limits\.([^,;)\s]+)"
)
_DESCRIBED: Final = re.compile(rf"namespace (\S+) uses ((?:(?:, )?{_LIMIT_DESCRIBED.pattern})+)")


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """The usage and the limit of one resource in a namespace.

    Attributes
    ----------
    used, limit
        In the unit of the devices' dimension (MiB, percent), whatever the unit of the resource; in percent of a card
        where a vendor counts compute in its own units and the resource in percent.
    unit
        That unit.
    written
        The limit as the quota writes it, if it counts as less than that; empty otherwise.
    """

    namespace: str
    resource: str
    used: int
    limit: int
    unit: str
    written: str = ""

    def __str__(self) -> str:
        """Word it."""
        return f"{self.used} of {self.limit} {self.unit}{self.written_text} of {self.key}"

    @property
    def written_text(self) -> str:
        """What the quota says, if it counts as less than that, to follow the limit; empty otherwise."""
        return f" ({self.written} in the quota)" if self.written else ""

    @property
    def key(self) -> str:
        """The name of the limit in a quota."""
        return QUOTA_LIMITS + self.resource


def used_by(namespace: str, reports: Iterable[QuotaReport]) -> str:
    """Word the usage of a namespace; empty where nothing is limited."""
    told = ", ".join(map(str, reports))
    return f"namespace {namespace} uses {told}" if told else ""


def quotas_from_event(text: str) -> tuple[QuotaReport, ...]:
    """Return the usage of a namespace that an event states in the words of :func:`used_by`."""
    told = _DESCRIBED.search(text)
    if told is None:
        return ()
    return tuple(
        QuotaReport(told[1], resource, int(used), int(limit), unit, written)
        for used, limit, unit, written, resource in _LIMIT_DESCRIBED.findall(told[2])
    )
