"""What the engine tells others: what could not be understood, and what has moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, ParamSpec

from vgpu_scheduler.model import EventReason

__all__ = ["ObservationSignals"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in an observed object that could not be understood or went wrong, for an event and a metric.

    Attributes
    ----------
    each_time
        Whether it is told each time that it happens, and not once per text.
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
    """One thing that may happen; calling it tells all who listen, in the order in which they came."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[_About, object]] = []

    def listen(self, listener: Callable[_About, object]) -> None:
        """Have somebody told from now on."""
        self._listeners.append(listener)

    def __call__(self, *about: _About.args, **named: _About.kwargs) -> None:
        """Tell all who listen."""
        for listener in self._listeners:
            listener(*about, **named)


@dataclass(frozen=True, slots=True)
class ObservationSignals:
    """What those who observe tell those who wait, so that neither knows the other.

    Attributes
    ----------
    node_changed
        A node, by its name, or a pod on it, was observed anew or is gone.
    volume_claim_changed
        A persistent volume claim, by its ``namespace/name``, or its volume was observed anew.
    storage_needed
        A pod that waits was observed that names claims or disks.
    decide_again
        A decision may come out differently now.
    """

    node_changed: Signal[[str]] = field(default_factory=Signal)
    volume_claim_changed: Signal[[str]] = field(default_factory=Signal)
    storage_needed: Signal[[]] = field(default_factory=Signal)
    decide_again: Signal[[]] = field(default_factory=Signal)
