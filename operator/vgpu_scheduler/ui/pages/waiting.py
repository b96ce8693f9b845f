"""The waiting pods, grouped by reason; the engine is asked about one pod of each of the first reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import World, ask
from vgpu_scheduler.whatif.world.queue_order import places_in_queue

_MOST_ASKED: Final = 8
"""The most reasons for which the engine is asked about a pod."""
_NOT_TRIED: Final = "No scheduler has reported anything about it yet"
_GATED: Final = "It has scheduling gates, which whoever set them removes"


@dataclass(frozen=True, slots=True)
class WaitingPodRow:
    """A waiting pod.

    Attributes
    ----------
    created
        The creation time as Kubernetes writes it; empty if not known.
    place
        The pod's place in the queue, starting at 1; 0 if it has none.
    group
        The pod group that it is placed with; empty for a pod without one.
    """

    namespace: str
    name: str
    scheduler: str
    priority: int
    created: str
    place: int = 0
    group: str = ""

    @property
    def key(self) -> str:
        """The pod as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason from pods' conditions, and the pods that wait for it, oldest first.

    Attributes
    ----------
    nearest
        The card that came closest to fitting the oldest pod, and what it lacks; empty if not known.
    """

    text: str
    pods: Sequence[WaitingPodRow]
    nearest: str = ""

    @property
    def rows(self) -> list[list[WaitingPodRow]]:
        """The pods in rows; the pods of a group share the row of their first pod."""
        found: dict[str, list[WaitingPodRow]] = {}
        for pod in self.pods:
            found.setdefault(f"group {pod.group}" if pod.group else pod.key, []).append(pod)
        return list(found.values())

    def as_json(self) -> dict[str, Any]:
        """Return the reason as plain values."""
        places = {each.key: each.place for each in self.pods if each.place}
        return {
            "reason": self.text,
            "nearest": self.nearest,
            "pods": [each.key for each in self.pods],
            "places": places,
        }


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """The content of the page of waiting pods.

    Attributes
    ----------
    reasons
        The reasons, those with most pods first.
    now
        The time of the cluster's state; None if it is not known.
    """

    reasons: Sequence[Reason]
    now: datetime | None

    @property
    def pods(self) -> int:
        """How many pods wait."""
        return sum(len(reason.pods) for reason in self.reasons)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the page as plain values."""
        return [reason.as_json() for reason in self.reasons]


def waiting_page(
    world: World,
    now: datetime | None,
    namespace: str,
    visibility: Visibility,
    most_asked: int = _MOST_ASKED,
) -> WaitingPage:
    """Return why pods wait that ask for cards or name this scheduler.

    Parameters
    ----------
    namespace
        Show only pods of this namespace; empty for all.
    visibility
        Which pods the visitor sees; places in the queue count all pods.
    most_asked
        The most reasons for which the engine is asked which card came closest.
    """
    found: dict[str, list[Pod]] = {}
    for pod in world.pending.values():
        if world.is_relevant(pod) and namespace in {"", pod.namespace} and visibility.sees(pod.namespace):
            found.setdefault(_reason(pod), []).append(pod)
    places = places_in_queue(world)
    first = sorted(found.items(), key=lambda reason: (-len(reason[1]), reason[0]))
    reasons = []
    for number, (text, pods) in enumerate(first):
        pods.sort(key=_age)
        nearest = _nearest(world, pods[0]) if number < most_asked else ""
        reasons.append(Reason(text, [_waiting(world, pod, places) for pod in pods], nearest))
    return WaitingPage(reasons, now)


def _nearest(world: World, pod: Pod) -> str:
    """Return the card that comes closest to fitting a pod now, in words."""
    if gated(pod):
        return ""
    found = ask(world, pod).decision.near_miss
    return str(found) if found is not None else ""


def _reason(pod: Pod) -> str:
    condition = pod.scheduled_condition
    if condition is not None and condition.message:
        return condition.message
    return _GATED if gated(pod) else _NOT_TRIED


def _age(pod: Pod) -> tuple[str, str]:
    return pod.creation_timestamp, pod.key


def _waiting(world: World, pod: Pod, places: Mapping[str, int]) -> WaitingPodRow:
    priority, membership = world.engine.groups.priority(pod), world.engine.groups.membership(pod)
    group = "" if membership is None or membership.problem else str(membership.key)
    place = places.get(pod.uid, 0)
    return WaitingPodRow(pod.namespace, pod.name, pod.scheduler_name, priority, pod.creation_timestamp, place, group)
