"""What is served, and what pages are made from beside a world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from vgpu_scheduler.reading import ClusterView
from vgpu_scheduler.ui.access import Deletable
from vgpu_scheduler.ui.current import CurrentWorld
from vgpu_scheduler.ui.doctor_polling import DoctorPoller, Look
from vgpu_scheduler.ui.prometheus_polling import Ask, PrometheusPoller


@dataclass(frozen=True, slots=True)
class PageSetup:
    """What is served.

    Attributes
    ----------
    current
        The world that pages are made from.
    fresh
        Returns what is known of the cluster now.
    deletable
        Returns in which of some namespaces the user may delete pods; None where it makes no difference.
    look
        Reads what the doctor's checks need; None where these are not made.
    held
        Has Prometheus say what was held in the last seconds; None where nobody names one.
    """

    current: CurrentWorld
    fresh: Callable[[], ClusterView]
    deletable: Deletable | None = None
    look: Look | None = None
    held: Ask | None = None


@dataclass(frozen=True, slots=True)
class PageSources:
    """What pages are made from beside what a world says.

    Attributes
    ----------
    current
        The world.
    doctor_poller
        What the doctor has found; None where it does not look.
    prometheus_poller
        What Prometheus knows; None where nobody names one.
    """

    current: CurrentWorld
    doctor_poller: DoctorPoller | None
    prometheus_poller: PrometheusPoller | None = None


PAGE_SOURCES: web.AppKey[PageSources] = web.AppKey("page_sources", PageSources)
