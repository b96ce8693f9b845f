"""The pods that wait, those that wait for the same together; the engine is not asked for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif import World

_NOT_TRIED: Final = "No scheduler has said anything about it yet"
_GATED: Final = "It has scheduling gates, which somebody else removes"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits.

    Attributes
    ----------
    created
        When it was created, as Kubernetes writes it; empty where that is not known.
    """

    namespace: str
    name: str
    scheduler: str
    priority: int
    created: str

    @property
    def key(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some pods wait, as their condition says it, and these pods: the oldest first."""

    text: str
    pods: Sequence[WaitingPod]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"reason": self.text, "pods": [each.key for each in self.pods]}


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """Why pods wait.

    Attributes
    ----------
    reasons
        The one for which most wait first.
    now
        The time of day when that was so; None where it is not known.
    """

    reasons: Sequence[Reason]
    now: datetime | None

    @property
    def pods(self) -> int:
        """How many wait."""
        return sum(len(reason.pods) for reason in self.reasons)

    def as_json(self) -> list[dict[str, Any]]:
        """Return it as plain values."""
        return [reason.as_json() for reason in self.reasons]


def waiting_page(world: World, now: datetime | None, namespace: str = "") -> WaitingPage:
    """Return why pods wait that ask for cards, or that name this scheduler.

    Parameters
    ----------
    namespace
        Of this one only; empty for all.
    """
    found: dict[str, list[Pod]] = {}
    for pod in world.pending.values():
        counts = pod.scheduler_name == world.scheduler_name or world.engine.dialects.owners(pod)
        if counts and namespace in {"", pod.namespace}:
            found.setdefault(_reason(pod), []).append(pod)
    reasons = [Reason(text, [_waiting(world, pod) for pod in sorted(pods, key=_age)]) for text, pods in found.items()]
    reasons.sort(key=lambda reason: (-len(reason.pods), reason.text))
    return WaitingPage(reasons, now)


def _reason(pod: Pod) -> str:
    condition = pod.scheduled_condition
    if condition is not None and condition.message:
        return condition.message
    return _GATED if gated(pod) else _NOT_TRIED


def _age(pod: Pod) -> tuple[str, str]:
    return pod.creation_timestamp, pod.key


def _waiting(world: World, pod: Pod) -> WaitingPod:
    priority = world.engine.groups.priority(pod)
    return WaitingPod(pod.namespace, pod.name, pod.scheduler_name, priority, pod.creation_timestamp)
