"""The text that a waiting pod's event adds to its condition: numbers that change too often for conditions."""

from __future__ import annotations

import re
from typing import Final

from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.engine.keeping_out import for_whom, holds_keeping_out
from vgpu_scheduler.engine.nearest import lacks_amounts
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, Decision, NearMiss, Outcome

_AT_ONCE: Final = "pods of its group count at once"
_COUNTED: Final = re.compile(rf"\b(\d+) {_AT_ONCE}")


def event_note(engine: Engine, pod: Pod, decision: Decision) -> str:
    """Return the near miss of a pod that was not placed, and what keeps it out beside what others use.

    That is room that is kept for another pod, and the quota usage of its namespace if a quota rejects it.
    """
    if decision.outcome is Outcome.ERROR:
        return ""
    near_miss = engine.algorithm.nearest(pod) if lacks_amounts(decision.reasons) else None
    parts = [str(near_miss)] if near_miss else []
    if decision.outcome is Outcome.UNSCHEDULABLE:
        parts += _kept_room(engine, pod, near_miss)
    if CardReason.ResourceQuotaNotFit in decision.reasons:
        parts.append(engine.quota_limits.describe(pod.namespace, engine.state))
        parts += _counted_with(engine, pod)
    return f"({'; '.join(parts)})" if parts else ""


def _kept_room(engine: Engine, pod: Pod, near_miss: NearMiss | None) -> list[str]:
    """Say on which node room is kept for which pod; pods of other namespaces are not named, as all may read events."""
    found = holds_keeping_out(engine.algorithm, pod, near_miss)
    nearest = [hold for hold in found if near_miss is not None and hold.node == near_miss.node]
    holds = nearest or found[:1]
    return [f"room on node {holds[0].node} is kept for {for_whom(holds, pod.namespace)}"] if holds else []


def _counted_with(engine: Engine, pod: Pod) -> list[str]:
    """Say how many pods of a group count in a quota at once; empty for a pod that is placed alone."""
    group = engine.groups.status_of(pod)
    return [f"{group.needed} {_AT_ONCE}"] if group is not None and group.needed > 1 else []


def counted_at_once(event: str) -> int | None:
    """Return how many pods of a group count in a quota at once, as an event says; None if it does not say so."""
    found = _COUNTED.search(event)
    return None if found is None else int(found[1])
