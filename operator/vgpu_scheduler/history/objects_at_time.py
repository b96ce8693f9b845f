"""The state of a cluster after some events of a history."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from vgpu_scheduler.history.encoding import title_of
from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, HistoryEvent, Removed, Withdrawn
from vgpu_scheduler.history.virtual import POD, as_bound
from vgpu_scheduler.kube import Pod


class ObjectsAtTime:
    """The objects and pods that exist after the events applied so far.

    Attributes
    ----------
    objects
        The last change of each object other than a pod, by kind and title.
    pods
        The pods by UID; those without a node are waiting.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Changed] = {}
        self.pods: dict[str, Pod] = {}

    def take(self, event: HistoryEvent) -> None:
        """Apply an event."""
        if isinstance(event, Arrived):
            self.pods[event.pod.uid] = event.pod
        elif isinstance(event, Departed):
            self.pods.pop(event.uid, None)
        elif isinstance(event, Decided | Withdrawn):
            self._move(event)
        elif isinstance(event, Removed):
            self.objects.pop((event.kind, title_of(event.value)), None)
        elif isinstance(event, Changed):
            if isinstance(event.value, Pod):
                self._change(event.value)
            else:
                self.objects[event.kind, title_of(event.value)] = event

    def first(self, began: float) -> tuple[Changed | Arrived, ...]:
        """Return the state as the beginning of a history."""
        pods = (
            Changed(began, POD, pod) if pod.node_name else Arrived(began, pod.as_created())
            for pod in self.pods.values()
        )
        return (*(replace(each, at=began) for each in self.objects.values()), *pods)

    def _move(self, event: Decided | Withdrawn) -> None:
        pod = self.pods.get(event.uid)
        if pod is not None and isinstance(event, Withdrawn):
            self.pods[event.uid] = pod.as_created()
        elif pod is not None and isinstance(event, Decided) and event.node:
            self.pods[event.uid] = as_bound(pod, event)

    def _change(self, pod: Pod) -> None:
        """Apply a change of a pod; a stale version does not undo its placement."""
        before = self.pods.get(pod.uid)
        if before is not None and before.node_name and not pod.node_name:
            pod = msgspec.structs.replace(
                pod,
                node_name=before.node_name,
                annotations={**before.annotations, **pod.annotations},
                phase=before.phase,
                started=before.started,
                start_time=before.start_time,
            )
        self.pods[pod.uid] = pod
