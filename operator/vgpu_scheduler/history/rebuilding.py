"""A history out of one look at a cluster: what can be known of how its pods came and went, and what cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, Event, History
from vgpu_scheduler.history.virtual import POD, known_objects
from vgpu_scheduler.kube import NAMESPACE_NAME, Namespace, Object, Pod, bound_at, ended_at
from vgpu_scheduler.model import counted, first_of
from vgpu_scheduler.whatif import World

__all__ = ["placed_at", "rebuilt", "with_namespaces"]

_MOST_NAMED: Final = 5
"""Namespaces that are named of those that are not known."""


def rebuilt(world: World, read_at: datetime) -> tuple[History, list[str]]:
    """Return what must have happened to the pods that a cluster has now.

    Parameters
    ----------
    world
        The cluster as it was read.
    read_at
        When.

    Returns
    -------
    history : History
        From when the first pod of ours was made to when the cluster was read. All objects but pods were there
        throughout, as they are.
    lacks : list of str
        What it lacks, a sentence each.
    """
    names = world.engine.scheduler_names
    ours = [pod for pod in world.pods.values() if pod.scheduler_name in names]
    others = [pod for pod in world.pods.values() if pod.scheduler_name not in names and pod.node_name]
    unnamed = sorted({pod.namespace for pod in ours} - world.namespaces.keys())
    for namespace in unnamed:
        world.ensure_namespace(namespace)
    ended = read_at.timestamp()
    began = min((_made(pod, ended) for pod in ours), default=ended)
    objects = [Changed(began, kind, value) for kind, value in known_objects(world.engine) if kind != POD]
    events = [event for pod in ours for event in _of_ours(world, pod, ended)]
    events += [event for pod in others for event in _of_others(world, pod, began, ended)]
    events.sort(key=lambda event: event.at)
    return History(began, ended, tuple(objects), tuple(events)), list(_lacks(world, ours, unnamed))


def with_namespaces(history: History) -> tuple[History, list[str]]:
    """Return a history in which the namespaces of all pods are known, and a sentence where some were not.

    Policies that choose by the labels of namespaces would refuse pods of those that are not known.
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
    return f"it has no Namespace {first_of(namespaces, _MOST_NAMED)}: taken to have no labels but the name"


def _lacks(world: World, ours: list[Pod], unnamed: Sequence[str]) -> Iterator[str]:
    if unnamed:
        yield _unnamed(unnamed)
    yield "pods that were deleted before the snapshot are not in it: the queue was longer than it shows"
    yield "nodes, policies and quotas are taken to have been as they are in it all the time"
    running = sum(bool(pod.node_name) and not pod.terminal for pod in ours)
    if running:
        was, it, stays = ("was", "it", "stays") if running == 1 else ("were", "they", "stay")
        yield f"{counted(running, 'pod')} {was} still running: nobody knows for how long, so {it} {stays} to the end"
    unknown = sum(bool(pod.node_name) and placed_at(world.written(pod)) is None for pod in ours)
    if unknown:
        was, it_counts = ("it was", "it counts") if unknown == 1 else ("they were", "they count")
        came = "it came" if unknown == 1 else "they came"
        yield f"of {counted(unknown, 'pod')} it is not known when {was} placed: {it_counts} as placed when {came}"


def _of_ours(world: World, pod: Pod, ended: float) -> Iterator[Event]:
    at = _made(pod, ended)
    yield Arrived(at, pod.as_created())
    written = world.written(pod)
    if pod.node_name:
        placed = placed_at(written)
        yield Decided(max(at, at if placed is None else placed), pod.uid, pod.node_name, pod.annotations)
    if pod.terminal:
        yield Departed(max(at, _finished(written, ended)), pod.uid)


def _of_others(world: World, pod: Pod, began: float, ended: float) -> Iterator[Event]:
    written = world.written(pod)
    placed = placed_at(written)
    if pod.terminal:
        return  # it holds nothing, and when it did is nobody's business here
    yield Changed(max(began, min(_made(pod, ended), ended) if placed is None else placed), POD, pod)


def _made(pod: Pod, otherwise: float) -> float:
    """Return when a pod was created, in seconds since the epoch."""
    return otherwise if pod.created_at is None else min(pod.created_at, otherwise)


def placed_at(written: Object) -> float | None:
    """Return when a pod was placed, in seconds since the epoch; None if its status does not say."""
    found = bound_at(written.get("status"))
    return None if found is None else found.timestamp()


def _finished(written: Object, otherwise: float) -> float:
    """Return when the last container of a pod has ended."""
    found = ended_at(written.get("status"))
    return otherwise if found is None else min(found.timestamp(), otherwise)
