"""How the cluster is now, in one look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.ui.doctor_polling import DoctorResult
from vgpu_scheduler.ui.pages.waiting import Reason, waiting_page
from vgpu_scheduler.ui.recent import LastHour, RecentEvents
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.world import usage

_ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class CardCounts:
    """How many cards there are of each kind; each is counted once.

    Attributes
    ----------
    free
        Nobody has anything of them.
    partly
        Somebody has a part of them, and there is room for more.
    full
        Memory, compute or shares are used up.
    """

    free: int
    partly: int
    full: int
    unhealthy: int
    cordoned: int


@dataclass(frozen=True, slots=True)
class NowPage:
    """How the cluster is now.

    Attributes
    ----------
    total
        All cards together.
    waiting
        Why pods wait, the reason for which most wait first.
    lately
        What has changed in the last hour.
    looks
        Whether the doctor looks at the cluster.
    found
        What it has found; None before it has.
    """

    cards: CardCounts
    total: usage.NodeUsage
    models: Sequence[usage.ModelUsage]
    waiting: Sequence[Reason]
    lately: LastHour
    looks: bool = False
    found: DoctorResult | None = None

    @property
    def pods(self) -> int:
        """How many pods wait."""
        return sum(len(reason.pods) for reason in self.waiting)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "cards": asdict(self.cards),
            "total": usage.as_json(self.total),
            "models": [usage.as_json(model) for model in self.models],
            "waiting": [{"reason": reason.text, "pods": len(reason.pods)} for reason in self.waiting],
            "changed": self.lately.as_json(),
            "doctor": _as_json(self.found),
        }


def now_page(
    world: World,
    now: datetime | None,
    recent: RecentEvents,
    visibility: Visibility = EVERYTHING,
    *,
    looks: bool = False,
    found: DoctorResult | None = None,
) -> NowPage:
    """Return how the cluster is now.

    Parameters
    ----------
    recent
        What has happened to it.
    visibility
        Which pods are seen; amounts are of all.
    looks, found
        What the doctor has to say; see :class:`NowPage`.
    """
    cards = usage.cards(world)
    models = usage.models(world, cards)
    reasons = waiting_page(world, now, visibility=visibility, most_asked=0).reasons
    lately = recent.lately(now).seen_by(visibility)
    return NowPage(_counts(cards), usage.summed(_ALL, cards), models, reasons, lately, looks, found)


def _as_json(found: DoctorResult | None) -> dict[str, Any] | None:
    """Return what the doctor has found as plain values, the findings as ``doctor -o json`` has them."""
    if found is None:
        return None
    report = found.report
    return {
        "at": found.at.isoformat(timespec="seconds"),
        "trouble": found.trouble,
        "findings": [finding.as_json() for finding in report.findings] if report else [],
        "skipped": [{"check": skipped.check, "reason": skipped.reason} for skipped in report.skipped] if report else [],
    }


def _counts(cards: Sequence[usage.CardUsage]) -> CardCounts:
    ready = [card for card in cards if card.state == "ready"]
    free = sum(card.idle for card in ready)
    full = sum(_is_full(card) for card in ready)
    return CardCounts(
        free=free,
        partly=len(ready) - free - full,
        full=full,
        unhealthy=sum(card.state == "unhealthy" for card in cards),
        cordoned=sum(card.state == "cordoned" for card in cards),
    )


def _is_full(card: usage.CardUsage) -> bool:
    return any(held.total and not held.free for held in (card.memory, card.cores, card.slots))
