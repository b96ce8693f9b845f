"""Turn observations and decisions into events: trimmed, without repetitions, and only if something changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from vgpu_scheduler.dialects import Dialects, is_text_of
from vgpu_scheduler.history.encoding import title_of
from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, HistoryEvent, Removed, Withdrawn
from vgpu_scheduler.history.trimming import Trimmer
from vgpu_scheduler.history.virtual import POD, annotations_of
from vgpu_scheduler.kube import Pod, Versioned
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import PolicyResource

_ANY: Final = 0
"""The version of objects without one."""


class ChangeTracker:
    """Keeps what was recorded of each object, and returns the changes as events.

    Parameters
    ----------
    dialects
        The dialects whose annotations are recorded.
    scheduler_names, coexist_with
        As for an engine: pods of the first arrive and are decided; pods of the second have announced placements.
    """

    def __init__(
        self, dialects: Dialects, scheduler_names: Collection[str], coexist_with: Collection[str] = ()
    ) -> None:
        self._trimmer = Trimmer(dialects)
        self._dialects = dialects
        self._ours = frozenset(scheduler_names)
        self._announcing = frozenset(coexist_with)
        self._pods: dict[str, Pod] = {}
        self._objects: dict[tuple[str, str], Versioned] = {}
        self._decided: dict[str, tuple[Decided, Mapping[str, str]]] = {}
        """Decisions about pods not yet seen bound, with the annotations as encoded."""

    def restart(self, objects: Iterable[tuple[str, Versioned]], at: float) -> None:
        """Replace the recorded state by these objects.

        Decisions about pods that still wait, and that were not seen carried out, are kept.
        """
        decided = self._decided
        self._pods, self._objects, self._decided = {}, {}, {}
        for kind, value in objects:
            for _ in self.seen(at, kind, value):
                pass
        self._decided = {uid: each for uid, each in decided.items() if uid in self._pods and not self._is_bound(uid)}

    def snapshot(self, at: float) -> Iterator[HistoryEvent]:
        """Yield the present state as events; objects come before the pods that refer to them."""
        for (kind, _), value in self._objects.items():
            yield Changed(at, kind, value)
        for pod in self._pods.values():
            yield self._as_event(at, pod)
        for decided, _ in self._decided.values():
            yield replace(decided, at=at)

    # Observations and decisions ---------------------------------------------------------------------------------------

    def seen(self, at: float, kind: str, value: Versioned) -> Iterator[HistoryEvent]:
        """Observe an object; yield what has changed."""
        if isinstance(value, Pod):
            yield from self._seen_pod(at, value)
            return
        key = (kind, title_of(value))
        before = self._objects.get(key)
        if before is not None and _is_older(value, before):
            return
        after = self._trimmer.trimmed(value)
        if before is None or not _same(before, after):
            self._objects[key] = after
            yield Changed(at, kind, after)

    def object_gone(self, at: float, kind: str, value: Versioned) -> Iterator[HistoryEvent]:
        """Observe that an object was deleted."""
        if isinstance(value, Pod):
            yield from self.pod_gone(at, value.uid)
        elif (before := self._objects.pop((kind, title_of(value)), None)) is not None:
            yield Removed(at, kind, before)

    def pod_gone(self, at: float, uid: str) -> Iterator[HistoryEvent]:
        """Observe that a pod was deleted, or has ended."""
        self._decided.pop(uid, None)
        if self._pods.pop(uid, None) is not None:
            yield Departed(at, uid)

    def decided(self, at: float, decisions: Iterable[Decision]) -> Iterator[HistoryEvent]:
        """Record decisions: placements and preemptions."""
        for decision in decisions:
            pod = self._pods.get(decision.uid)
            if pod is None:
                continue
            if decision.outcome is Outcome.PLACED and decision.placement is not None:
                annotations = annotations_of(decision, self._dialects, pod)
                written = {name: str(text) for name, text in annotations.items()}
                found = Decided(at, pod.uid, decision.node, written, pod.scheduler_name)
                self._decided[pod.uid] = found, annotations
                yield found
            elif decision.preemption is not None:
                evicted = tuple(victim.uid for victim in decision.preemption.victims)
                yield Decided(at, pod.uid, "", {}, pod.scheduler_name, evicted)

    def withdrawn(self, at: float, uid: str) -> Iterator[HistoryEvent]:
        """Record that a decision is not carried out: its Binding failed, or it was given up in the lane."""
        if self._decided.pop(uid, None) is not None:
            yield Withdrawn(at, uid)

    def _seen_pod(self, at: float, pod: Pod) -> Iterator[HistoryEvent]:
        before = self._pods.get(pod.uid)
        if before is not None and _is_older(pod, before):
            return
        if pod.terminal:
            yield from self.pod_gone(at, pod.uid)
            return
        if not pod.node_name and pod.scheduler_name not in self._ours | self._announcing:
            return
        if before is not None and before.node_name and _is_equivalent(before, pod):  # skip trimming
            self._pods[pod.uid] = msgspec.structs.replace(before, resource_version=pod.resource_version)
            return
        after = self._trimmed(pod)
        self._pods[pod.uid] = after
        if before is None:
            yield self._as_event(at, after)
        elif after.node_name and not before.node_name and before.scheduler_name in self._ours:
            yield from self._bound(at, before, after)
        elif not _is_equivalent(before, after):
            yield Changed(at, POD, after)

    def _bound(self, at: float, before: Pod, after: Pod) -> Iterator[HistoryEvent]:
        """Record that one of our pods was bound, if not as decided: by another component, or to other cards."""
        decided, encoded = self._decided.pop(after.uid, (None, {}))
        if decided is not None and decided.node == after.node_name and _is_carried_out(encoded, after):
            return
        written = {name: text for name, text in after.annotations.items() if before.annotations.get(name) != text}
        by = "" if decided is None else decided.by
        yield Decided(at, after.uid, after.node_name, written, by)

    def _trimmed(self, pod: Pod) -> Pod:
        trimmed = self._trimmer.trimmed(pod)
        assert isinstance(trimmed, Pod)
        waits = not pod.node_name and pod.scheduler_name in self._ours
        return trimmed.as_created() if waits else trimmed

    def _as_event(self, at: float, pod: Pod) -> HistoryEvent:
        waits = not pod.node_name and pod.scheduler_name in self._ours
        return Arrived(at, pod) if waits else Changed(at, POD, pod)

    def _is_bound(self, uid: str) -> bool:
        return bool(self._pods[uid].node_name)


def _is_older(value: Versioned, than: Versioned) -> bool:
    return _ANY < value.resource_version < than.resource_version and value.uid == than.uid


def _same(before: Versioned, after: Versioned) -> bool:
    """Tell whether two versions of an object are equal apart from their resource version."""
    if before.uid != after.uid:
        return False
    if isinstance(before, PolicyResource) and isinstance(after, PolicyResource):
        return before.generation == after.generation and before.written == after.written
    changed: Any = msgspec.structs.replace if isinstance(before, msgspec.Struct) else replace
    return bool(changed(before, resource_version=after.resource_version) == after)


def _is_equivalent(before: Pod, after: Pod) -> bool:
    """Tell whether two versions of a pod have equal requests, or equal usage if it is bound.

    Annotations that node sides write on bound pods are ignored.
    """
    return (
        before.node_name == after.node_name
        and before.spec is after.spec
        and before.labels == after.labels
        and before.resized_requests == after.resized_requests
        and before.pod_group == after.pod_group
        and (bool(after.node_name) or before.annotations == after.annotations)
    )


def _is_carried_out(encoded: Mapping[str, str], pod: Pod) -> bool:
    """Tell whether a pod was bound with the decided annotations, apart from times."""
    return all(is_text_of(pod.annotations.get(name), text) for name, text in encoded.items())
