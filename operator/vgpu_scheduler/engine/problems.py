"""What the engine reports to its environment: problems with objects, and signals that something has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, ParamSpec

from vgpu_scheduler.model import EventReason


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in an observed object that could not be understood or went wrong, for an event and a metric.

    Attributes
    ----------
    each_time
        Whether it is reported at each occurrence, not once per text.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    reason: EventReason
    message: str
    each_time: bool = False


_About = ParamSpec("_About")


class Signal(Generic[_About]):
    """An occurrence; calling it notifies all listeners, in the order in which they were added."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[_About, object]] = []

    def listen(self, listener: Callable[_About, object]) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def __call__(self, *about: _About.args, **named: _About.kwargs) -> None:
        """Notify all listeners."""
        for listener in self._listeners:
            listener(*about, **named)


@dataclass(frozen=True, slots=True)
class ObservationSignals:
    """Signals from observers to waiting tasks, so that neither depends on the other.

    Attributes
    ----------
    node_changed
        A node (by name), or a pod on it, changed or is gone.
    volume_claim_changed
        A PersistentVolumeClaim (by ``namespace/name``), or its volume, changed.
    storage_needed
        A waiting pod was observed that names claims or disks.
    selection_left
        A pod (by UID) left its selection of unbound pods.
    decide_again
        A decision may come out differently now.
    """

    node_changed: Signal[[str]] = field(default_factory=Signal)
    volume_claim_changed: Signal[[str]] = field(default_factory=Signal)
    storage_needed: Signal[[]] = field(default_factory=Signal)
    selection_left: Signal[[str]] = field(default_factory=Signal)
    decide_again: Signal[[]] = field(default_factory=Signal)
