"""The first page: an overview of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.ui.doctor_polling import DoctorResult
from vgpu_scheduler.ui.pages.waiting import Reason, waiting_page
from vgpu_scheduler.ui.recent import LastHour, RecentEvents
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import PLUGIN_SILENT, CardUsage, ModelUsage, NodeUsage, as_json

_ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class CardCounts:
    """How many cards are in each state; each card is counted once.

    Attributes
    ----------
    free
        Cards of which nothing is in use.
    partly
        Cards that are partly in use and have room for more.
    full
        Cards whose memory, compute or slots are used up.
    unhealthy, cordoned, plugin_silent
        Cards out of service.
    """

    free: int
    partly: int
    full: int
    unhealthy: int
    cordoned: int
    plugin_silent: int


@dataclass(frozen=True, slots=True)
class NowPage:
    """The content of the first page.

    Attributes
    ----------
    total
        The usage of all cards together.
    waiting
        Why pods wait; the reasons with most pods come first.
    lately
        The events of the last hour.
    looks
        Whether the doctor examines the cluster.
    found
        The doctor's last result; None before there is one.
    """

    cards: CardCounts
    total: NodeUsage
    models: Sequence[ModelUsage]
    waiting: Sequence[Reason]
    lately: LastHour
    looks: bool = False
    found: DoctorResult | None = None

    @property
    def pods(self) -> int:
        """How many pods wait."""
        return sum(len(reason.pods) for reason in self.waiting)

    def as_json(self) -> dict[str, Any]:
        """Return the page as plain values."""
        return {
            "cards": asdict(self.cards),
            "total": as_json(self.total),
            "models": [as_json(model) for model in self.models],
            "waiting": [{"reason": reason.text, "pods": len(reason.pods)} for reason in self.waiting],
            "changed": self.lately.as_json(),
            "doctor": _as_json(self.found),
        }


def now_page(
    world: World,
    now: datetime | None,
    recent: RecentEvents,
    visibility: Visibility,
    *,
    looks: bool = False,
    found: DoctorResult | None = None,
) -> NowPage:
    """Return the first page.

    Parameters
    ----------
    recent
        The recent events.
    visibility
        Which pods the visitor sees; amounts include all pods.
    looks, found
        The doctor's part; see :class:`NowPage`.
    """
    cards = usage.cards(world)
    models = usage.models(world, cards)
    reasons = waiting_page(world, now, "", visibility, most_asked=0).reasons
    lately = recent.lately(now).seen_by(visibility)
    return NowPage(_counts(cards), usage.summed(_ALL, cards), models, reasons, lately, looks, found)


def _as_json(found: DoctorResult | None) -> dict[str, Any] | None:
    """Return the doctor's result as plain values, with findings as in ``doctor -o json``."""
    if found is None:
        return None
    report = found.report
    return {
        "at": found.at.isoformat(timespec="seconds"),
        "trouble": found.trouble,
        "findings": [finding.as_json() for finding in report.findings] if report else [],
        "skipped": [{"check": skipped.check, "reason": skipped.reason} for skipped in report.skipped] if report else [],
    }


def _counts(cards: Sequence[CardUsage]) -> CardCounts:
    ready = [card for card in cards if card.state == "ready"]
    free = sum(card.idle for card in ready)
    full = sum(_is_full(card) for card in ready)
    return CardCounts(
        free=free,
        partly=len(ready) - free - full,
        full=full,
        unhealthy=sum(card.state == "unhealthy" for card in cards),
        cordoned=sum(card.state == "cordoned" for card in cards),
        plugin_silent=sum(card.state == PLUGIN_SILENT for card in cards),
    )


def _is_full(card: CardUsage) -> bool:
    return any(held.total and not held.free for held in (card.memory, card.cores, card.slots))
