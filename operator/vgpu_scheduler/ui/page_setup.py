"""What the web server serves: the world, and other sources of pages."""

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
    """What the web server serves.

    Attributes
    ----------
    current
        The world that pages are made from.
    fresh
        Returns a view of the cluster as it is now.
    deletable
        Returns the given namespaces in which the user may delete pods; None if that makes no difference.
    look
        Reads the input of the doctor's checks; None if the doctor is not run.
    held
        Asks Prometheus for the usage of the given last seconds; None if no Prometheus is configured.
    """

    current: CurrentWorld
    fresh: Callable[[], ClusterView]
    deletable: Deletable | None = None
    look: Look | None = None
    held: Ask | None = None


@dataclass(frozen=True, slots=True)
class PageSources:
    """The sources of pages besides the world itself.

    Attributes
    ----------
    current
        The world.
    doctor_poller
        Holds the doctor's last result; None if the doctor is not run.
    prometheus_poller
        Holds the last answer of Prometheus; None if none is configured.
    """

    current: CurrentWorld
    doctor_poller: DoctorPoller | None
    prometheus_poller: PrometheusPoller | None = None


PAGE_SOURCES: web.AppKey[PageSources] = web.AppKey("page_sources", PageSources)
