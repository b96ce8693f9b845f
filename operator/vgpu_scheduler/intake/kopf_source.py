"""Our own pods and the nodes, through kopf."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import kopf

from vgpu_scheduler.apiclient import Credentials
from vgpu_scheduler.intake.sink import Sink
from vgpu_scheduler.intake.supervised import SupervisedKopf
from vgpu_scheduler.kube import DecodeError, decode_node, decode_pod

log = logging.getLogger(__name__)


class KopfSource(SupervisedKopf):
    """Watches the pods of one scheduler name, and the nodes if asked to.

    Parameters
    ----------
    credentials
        How the API server is reached.
    sink
        Where observations go.
    scheduler_name
        Selected by the server: ``spec.schedulerName``. Field selectors know no "or", so each name has its own source.
    nodes
        Watch the nodes, too.
    lost_track, after_spawn
        See :class:`SupervisedKopf`.
    """

    def __init__(
        self,
        credentials: Credentials,
        sink: Sink,
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
            restarted=sink.stats.restarted,
        )
        self._sink = sink
        self._nodes = nodes
        self._known: set[str] = set()

    def _register(self, registry: kopf.OperatorRegistry) -> None:
        @kopf.on.event("pods", registry=registry)
        async def pod_event(event: Any, **_: Any) -> None:
            self._take(event, decode_pod, self._sink.pod, self._sink.pod_gone)

        if self._nodes:

            @kopf.on.event("nodes", registry=registry)
            async def node_event(event: Any, **_: Any) -> None:
                self._take(event, decode_node, self._sink.node, self._sink.node_gone)

    def _configure(self, settings: kopf.OperatorSettings) -> None:
        settings.watching.field_selectors["v1", "pods"] = f"spec.schedulerName={self._name}"
        settings.scanning.disabled = True

    def _take(
        self, event: Any, decode: Callable[[Any], Any], seen: Callable[[Any], None], gone: Callable[[Any], None]
    ) -> None:
        """Translate and observe, nothing else; no exception may reach kopf, which would try the handler again."""
        kind = event["type"]
        try:
            decoded = decode(event["object"])
        except DecodeError as error:
            self._sink.stats.undecodable += 1
            log.warning("%s", error)
            return
        if kind == "DELETED":
            self._known.discard(decoded.uid)
            self._hand_over(gone, decoded)
            return
        if kind is None and decoded.uid in self._known:
            self._lost_track()  # a second initial listing: whatever vanished before it was never reported
        self._known.add(decoded.uid)
        self._hand_over(seen, decoded)

    def _hand_over(self, observe: Callable[[Any], None], decoded: Any) -> None:
        try:
            observe(decoded)
        except Exception:  # one object must not end the watch; the next sweep sees it again
            log.exception("%s %s could not be taken in", type(decoded).__name__, decoded.name)
            self._lost_track()
