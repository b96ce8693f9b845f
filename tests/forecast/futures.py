"""Small clusters of which it is known how long pods run there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.engine.builders import allocation, asks
from tests.history.recorded import BEGAN, HOUR, fleet, waiting

from vgpu_scheduler.forecast import CurrentCluster, RunningPod, WorkloadHistory
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, History, HistoryEvent
from vgpu_scheduler.kube import Pod, rfc3339

WHOLE = asks(1, 8000, 100)
NOW = BEGAN + 10 * HOUR


def waits(name: str, since: float = 0.0, **more: Any) -> Pod:
    """Return a pod that waits for a whole card, since some seconds ago."""
    pod = waiting(name, **{"resources": WHOLE, **more})
    created = rfc3339(datetime.fromtimestamp(NOW - since, UTC))
    return msgspec.structs.replace(pod, creation_timestamp=created)


def runs(name: str, node: int, age: float, percent: int = 100, **more: Any) -> RunningPod:
    """Return a pod that has had so much of the first card of a node for some seconds."""
    notes = allocation(f"node-{node}", (f"node-{node}-gpu-0", 80 * percent, percent))
    pod = waiting(name, **{"resources": WHOLE, **more}, annotations=notes, nodeName=f"node-{node}", started=True)
    return RunningPod(pod, NOW - age)


def present(nodes: int, running: Sequence[RunningPod], waiting_: Sequence[Pod], cards_each: int = 1) -> CurrentCluster:
    """Return a cluster as it is now."""
    objects = [Changed(NOW, "Node", each) for each in fleet(nodes, cards_each)]
    return CurrentCluster(NOW, objects, running, waiting_)


def of_service(pod: Pod) -> Pod:
    """Return a pod of a Deployment, which says nothing of those that nobody made."""
    return msgspec.structs.replace(pod, owner="web", owner_kind="ReplicaSet")


def past(
    seconds: Iterable[float], running: Iterable[float] = (), services: Iterable[float] = (), **more: Any
) -> WorkloadHistory:
    """Return what is known where pods have ended after so many seconds, and others have run so long.

    ``services`` are those of pods of a Deployment that have ended.

    Nobody came in the last hours, so that nobody is expected.
    """
    events: list[HistoryEvent] = []
    for number, each in enumerate(seconds):
        pod = waiting(f"old-{number}", **{"resources": WHOLE, **more})
        events += [Arrived(BEGAN, pod), Decided(BEGAN, pod.uid, "node-0"), Departed(BEGAN + each, pod.uid)]
    for number, each in enumerate(services):
        pod = of_service(waiting(f"service-{number}", **{"resources": WHOLE, **more}))
        events += [Arrived(BEGAN, pod), Decided(BEGAN, pod.uid, "node-0"), Departed(BEGAN + each, pod.uid)]
    for number, each in enumerate(running):
        pod = waiting(f"still-{number}", **{"resources": WHOLE, **more})
        events += [Arrived(NOW - each, pod), Decided(NOW - each, pod.uid, "node-0")]
    events.sort(key=lambda event: event.at)
    return WorkloadHistory(History(BEGAN, NOW, (), tuple(events)), since=NOW)
