"""Rebuild a history from one snapshot of a cluster, as far as it tells when pods came and went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Final

from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, History, HistoryEvent
from vgpu_scheduler.history.virtual import POD, known_objects
from vgpu_scheduler.kube import NAMESPACE_NAME, Namespace, Object, Pod, bound_at, ended_at
from vgpu_scheduler.model import counted, first_of
from vgpu_scheduler.whatif import KNOWN_FROM, World, missing_class

_MOST_NAMED: Final = 5
"""The most unknown namespaces that are named."""


def rebuilt(world: World, read_at: datetime, pods_since: datetime | None = None) -> tuple[History, list[str]]:
    """Return the history that must have led to the pods of a cluster, and to the deleted pods of a snapshot.

    Parameters
    ----------
    world
        The cluster as it was read.
    read_at
        The time of the snapshot.
    pods_since
        The time since which deleted pods are included; None if they are not.

    Returns
    -------
    history : History
        The history from the creation of this scheduler's first pod, or from ``pods_since``, to the snapshot. All other
        objects exist throughout, as they are in the snapshot.
    lacks : list of str
        What the history lacks, a sentence each.
    """
    names = world.engine.scheduler_names
    ended = read_at.timestamp()
    since = -inf if pods_since is None else pods_since.timestamp()
    known = (*world.deleted_pods, *world.pods.values())
    ours = [pod for pod in known if pod.scheduler_name in names and _was_there(world, pod, since)]
    others = [pod for pod in world.bound.values() if pod.scheduler_name not in names]
    began = max(since, min((_made(pod, ended) for pod in ours), default=ended))
    objects = [Changed(began, kind, value) for kind, value in known_objects(world.engine) if kind != POD]
    events = [event for pod in ours for event in _of_ours(world, pod, began, ended)]
    events += [event for pod in others for event in _of_others(world, pod, began, ended)]
    events.sort(key=lambda event: event.at)
    gone = None if pods_since is None else sum(KNOWN_FROM in pod.annotations for pod in ours)
    history, unnamed = with_namespaces(History(began, ended, tuple(objects), tuple(events)))
    return history, [*unnamed, *_lacks(world, ours, gone)]


def with_namespaces(history: History) -> tuple[History, list[str]]:
    """Add missing namespaces of pods to a history; also return a sentence if there were any.

    Policies with namespace selectors would refuse pods of unknown namespaces.
    """
    events = (*history.first, *history.events)
    values = [event.value for event in events if isinstance(event, Changed)]
    known = {value.name for value in values if isinstance(value, Namespace)}
    pods = [*(event.pod for event in events if isinstance(event, Arrived)), *(v for v in values if isinstance(v, Pod))]
    unnamed = sorted({pod.namespace for pod in pods} - known)
    if not unnamed:
        return history, []
    made = (Changed(history.began, "Namespace", Namespace(name, {NAMESPACE_NAME: name})) for name in unnamed)
    return replace(history, first=(*made, *history.first)), [_unnamed(unnamed)]


def _unnamed(namespaces: Sequence[str]) -> str:
    return f"it has no Namespace {first_of(namespaces, _MOST_NAMED)}: assumed to have no labels but the name"


def _lacks(world: World, ours: list[Pod], gone: int | None) -> Iterator[str]:
    """Say what is not known; ``gone`` is the number of deleted pods, None if deleted pods are not included."""
    if gone is None:
        yield "pods that were deleted before the snapshot are not in it: the queue was longer than it shows"
    else:
        yield (
            f"of {counted(gone, 'deleted pod')} kube-state-metrics has times and requests: they are assumed to "
            "have had no"
            " affinity, node selectors or volumes, and no labels and annotations but those that Prometheus has"
        )
        yield "pods that ran when it begins are placed again"
    if classes := sorted({missing_class(world.written(pod)) for pod in ours} - {"", *world.priority_classes}):
        yield f"it has no PriorityClass {first_of(classes, _MOST_NAMED)}: its pods are assumed to have priority 0"
    yield "nodes, policies and quotas are assumed not to have changed"
    running = sum(bool(pod.node_name) and not pod.terminal for pod in ours)
    if running:
        was, it, stays = ("was", "it", "stays") if running == 1 else ("were", "they", "stay")
        yield f"{counted(running, 'pod')} {was} still running: when pods end is not known, so {it} {stays} to the end"
    unknown = sum(bool(pod.node_name) and placed_at(world.written(pod)) is None for pod in ours)
    if unknown:
        it = "it" if unknown == 1 else "they"
        yield (
            f"the time at which {counted(unknown, 'pod')} {'was' if unknown == 1 else 'were'} placed is not known:"
            f" {it} {'is' if unknown == 1 else 'are'} assumed to have been placed when {it} arrived"
        )


def _was_there(world: World, pod: Pod, since: float) -> bool:
    """Tell whether a pod still existed, without having ended, at a time."""
    return not pod.terminal or _finished(world.written(pod), inf) >= since


def _of_ours(world: World, pod: Pod, began: float, ended: float) -> Iterator[HistoryEvent]:
    at = max(_made(pod, ended), began)
    yield Arrived(at, pod.as_created())
    written = world.written(pod)
    if pod.node_name:
        placed = placed_at(written)
        at = at if placed is None else max(at, placed)
        yield Decided(at, pod.uid, pod.node_name, pod.annotations)
    if pod.terminal:
        yield Departed(max(at, _finished(written, ended)), pod.uid)


def _of_others(world: World, pod: Pod, began: float, ended: float) -> Iterator[HistoryEvent]:
    written = world.written(pod)
    placed = placed_at(written)
    yield Changed(max(began, min(_made(pod, ended), ended) if placed is None else placed), POD, pod)


def _made(pod: Pod, otherwise: float) -> float:
    """Return when a pod was created, in seconds since the epoch."""
    return otherwise if pod.created_at is None else min(pod.created_at, otherwise)


def placed_at(written: Object) -> float | None:
    """Return when a pod was placed, in seconds since the epoch; None if its status does not tell."""
    found = bound_at(written.get("status"))
    return None if found is None else found.timestamp()


def _finished(written: Object, otherwise: float) -> float:
    """Return when the last container of a pod ended, with a default and upper bound."""
    found = ended_at(written.get("status"))
    return otherwise if found is None else min(found.timestamp(), otherwise)
