"""Our waiting pods, and the nodes, through kopf."""

from __future__ import annotations

from collections.abc import Callable

import kopf

from vgpu_scheduler.apiclient import Credentials
from vgpu_scheduler.intake.kinds import NODES, PODS, UNBOUND
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.intake.supervised import SupervisedKopf
from vgpu_scheduler.intake.watching import EventHandler


class KopfSource(SupervisedKopf):
    """Watches the unbound pods of one scheduler name, and optionally the nodes.

    A pod leaves the selection when it is bound or deleted. kopf reports both as a deletion, with the object from before
    the change, so the event only means that the pod no longer waits. The stream of bound pods tells what became of it.

    Parameters
    ----------
    credentials
        How the API server is reached.
    observer
        Where observations go.
    scheduler_name
        The ``spec.schedulerName`` to select. Field selectors have no "or", so each name has its own source.
    nodes
        Whether to watch the nodes, too.
    lost_track, after_spawn
        See :class:`SupervisedKopf`.
    """

    def __init__(
        self,
        credentials: Credentials,
        observer: Observer,
        scheduler_name: str,
        *,
        nodes: bool,
        lost_track: Callable[[], None],
        after_spawn: Callable[[], None],
    ) -> None:
        super().__init__(
            credentials,
            scheduler_name,
            lost_track=lost_track,
            after_spawn=after_spawn,
            restarted=observer.stats.restarted,
        )
        self._pods = EventHandler(PODS, observer, lost_track, observer.left_selection)
        self._nodes = EventHandler(NODES, observer, lost_track) if nodes else None

    def _register(self, registry: kopf.OperatorRegistry) -> None:
        self._watch(registry, self._pods, "pods")
        if self._nodes is not None:
            self._watch(registry, self._nodes, "nodes")

    def _configure(self, settings: kopf.OperatorSettings) -> None:
        settings.watching.field_selectors["v1", "pods"] = f"spec.schedulerName={self._name},{UNBOUND}"
        settings.scanning.disabled = True
