"""What is observed and decided becomes events: each once, trimmed, and only if it says something new."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from vgpu_scheduler.dialects import Dialects, is_text_of
from vgpu_scheduler.history.encoding import title_of
from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, Event, Removed, Withdrawn
from vgpu_scheduler.history.trimming import Trimmer
from vgpu_scheduler.history.virtual import POD
from vgpu_scheduler.kube import Pod, Versioned
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import PolicyResource

__all__ = ["Recording"]

_ANY: Final = 0
"""The version of objects that have none."""


class Recording:
    """Knows what was written of each object, and says what is news.

    Parameters
    ----------
    dialects
        Whose annotations are read.
    scheduler_names, coexist_with
        As for an engine: pods that name one of the first arrive and are decided, those of the second announce places.
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
        """What was decided of pods that were not seen bound since, with their annotations as they were encoded."""

    def restart(self, objects: Iterable[tuple[str, Versioned]], at: float) -> None:
        """Forget what was written, and take these objects for all that there are.

        Decisions stay that were not seen carried out, of pods that still wait.
        """
        decided = self._decided
        self._pods, self._objects, self._decided = {}, {}, {}
        for kind, value in objects:
            for _ in self.seen(at, kind, value):
                pass
        self._decided = {uid: each for uid, each in decided.items() if uid in self._pods and not self._is_bound(uid)}

    def picture(self, at: float) -> Iterator[Event]:
        """Yield what is there now, as events of this time; what pods refer to comes first."""
        for (kind, _), value in self._objects.items():
            yield Changed(at, kind, value)
        for pod in self._pods.values():
            yield self._as_event(at, pod)
        for decided, _ in self._decided.values():
            yield replace(decided, at=at)

    # What happens ----------------------------------------------------------------------------------------------------

    def seen(self, at: float, kind: str, value: Versioned) -> Iterator[Event]:
        """Take in an object; yield what is news in it."""
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

    def object_gone(self, at: float, kind: str, value: Versioned) -> Iterator[Event]:
        """Take in that an object is gone."""
        if isinstance(value, Pod):
            yield from self.pod_gone(at, value.uid)
        elif (before := self._objects.pop((kind, title_of(value)), None)) is not None:
            yield Removed(at, kind, before)

    def pod_gone(self, at: float, uid: str) -> Iterator[Event]:
        """Take in that a pod is gone, or has run to its end."""
        self._decided.pop(uid, None)
        if self._pods.pop(uid, None) is not None:
            yield Departed(at, uid)

    def decided(self, at: float, decisions: Iterable[Decision]) -> Iterator[Event]:
        """Take in what was decided: places, and who has to end."""
        for decision in decisions:
            pod, placement = self._pods.get(decision.uid), decision.placement
            if pod is None:
                continue
            if decision.outcome is Outcome.PLACED and placement is not None:
                annotations = decision.annotations
                if annotations is None:
                    annotations = self._dialects.encoded(placement, pod)
                written = {name: str(text) for name, text in annotations.items()}
                found = Decided(at, pod.uid, placement.node, written, pod.scheduler_name)
                self._decided[pod.uid] = found, annotations
                yield found
            elif decision.preemption is not None:
                evicted = tuple(victim.uid for victim in decision.preemption.victims)
                yield Decided(at, pod.uid, "", {}, pod.scheduler_name, evicted)

    def withdrawn(self, at: float, uid: str) -> Iterator[Event]:
        """Take in that what was decided of a pod is not carried out: its Binding failed, or its turn did not come."""
        if self._decided.pop(uid, None) is not None:
            yield Withdrawn(at, uid)

    def _seen_pod(self, at: float, pod: Pod) -> Iterator[Event]:
        before = self._pods.get(pod.uid)
        if before is not None and _is_older(pod, before):
            return
        if pod.terminal:
            yield from self.pod_gone(at, pod.uid)
            return
        if not pod.node_name and pod.scheduler_name not in self._ours | self._announcing:
            return
        if before is not None and before.node_name and _says_the_same(before, pod):  # nothing that needs a closer look
            self._pods[pod.uid] = msgspec.structs.replace(before, resource_version=pod.resource_version)
            return
        after = self._trimmed(pod)
        self._pods[pod.uid] = after
        if before is None:
            yield self._as_event(at, after)
        elif after.node_name and not before.node_name and before.scheduler_name in self._ours:
            yield from self._bound(at, before, after)
        elif not _says_the_same(before, after):
            yield Changed(at, POD, after)

    def _bound(self, at: float, before: Pod, after: Pod) -> Iterator[Event]:
        """Take in that a pod of ours is bound: as was decided, or by somebody else, or to other cards."""
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

    def _as_event(self, at: float, pod: Pod) -> Event:
        waits = not pod.node_name and pod.scheduler_name in self._ours
        return Arrived(at, pod) if waits else Changed(at, POD, pod)

    def _is_bound(self, uid: str) -> bool:
        return bool(self._pods[uid].node_name)


def _is_older(value: Versioned, than: Versioned) -> bool:
    return _ANY < value.resource_version < than.resource_version and value.uid == than.uid


def _same(before: Versioned, after: Versioned) -> bool:
    """Tell whether two versions of an object say the same."""
    if before.uid != after.uid:
        return False
    if isinstance(before, PolicyResource) and isinstance(after, PolicyResource):
        return before.generation == after.generation and before.written == after.written
    changed: Any = msgspec.structs.replace if isinstance(before, msgspec.Struct) else replace
    return bool(changed(before, resource_version=after.resource_version) == after)


def _says_the_same(before: Pod, after: Pod) -> bool:
    """Tell whether two versions of a pod ask for the same, or hold the same where it is bound.

    Of what node sides note on a pod that is bound nothing is read again.
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
    """Tell whether a pod was bound with what was decided to be written on it, times aside."""
    return all(is_text_of(pod.annotations.get(name), text) for name, text in encoded.items())
