"""GiB-hours and card-hours of running pods, computed from when they were bound alone, without metering."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from vgpu_scheduler.engine import PARTS, cards_held
from vgpu_scheduler.kube import Pod, bound_at
from vgpu_scheduler.model import GIB
from vgpu_scheduler.whatif.world.world import World

_HOUR: Final = 3600.0


class HeldHours(NamedTuple):
    """What the pods of a namespace have held of the cards of one model.

    Attributes
    ----------
    model
        The model; empty for all models together.
    gib_hours
        Memory in GiB times hours.
    card_hours
        Cards times hours; a pod's share of a card is the largest of its shares of slots, memory and compute.
    """

    namespace: str
    model: str
    gib_hours: float
    card_hours: float

    def as_json(self) -> dict[str, Any]:
        """Return the hours as plain values."""
        of_model = {"model": self.model} if self.model else {}
        return {
            "namespace": self.namespace,
            **of_model,
            "gibHours": round(self.gib_hours, 3),
            "cardHours": round(self.card_hours, 3),
        }


def hours_of_running_pods(world: World, now: datetime, most_hours: float) -> list[HeldHours]:
    """Return the hours of all running pods with cards since they were bound, by namespace and model.

    Parameters
    ----------
    now
        The end of the period.
    most_hours
        The most hours that count for a pod.
    """
    sums: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    state = world.engine.state
    for row in state.nodes.rows().tolist():
        for held, model, memory, part in cards_held(state, world.engine.dialects, row):
            pod = world.bound.get(held.uid)
            hours = min(_hours_since_binding(world, pod, now), most_hours) if pod is not None else 0.0
            found = sums[held.namespace, model]
            found[0] += memory / GIB * hours
            found[1] += part / PARTS * hours
    return [HeldHours(*key, *found) for key, found in sorted(sums.items())]


def _hours_since_binding(world: World, pod: Pod, now: datetime) -> float:
    """Return for how long a pod has held its cards; 0 if its status does not say when it was bound."""
    began = bound_at(world.written(pod).get("status"))
    return max((now - began).total_seconds(), 0.0) / _HOUR if began is not None else 0.0


def summed_by_namespace(hours: Iterable[HeldHours]) -> list[HeldHours]:
    """Return the hours of each namespace over all models."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in hours:
        sums[each.namespace][0] += each.gib_hours
        sums[each.namespace][1] += each.card_hours
    return [HeldHours(namespace, "", *found) for namespace, found in sorted(sums.items())]
