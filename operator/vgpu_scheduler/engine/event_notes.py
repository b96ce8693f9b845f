"""What the event of a pod that waits says beside its condition: numbers that change all the time."""

from __future__ import annotations

from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.engine.nearest import lacks_amounts
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, Decision, Outcome


def event_note(engine: Engine, pod: Pod, decision: Decision) -> str:
    """Return the near miss of a pod that was not placed, and how its namespace stands where a quota keeps it there."""
    if decision.outcome is Outcome.ERROR:
        return ""
    near_miss = engine.cycle.nearest(pod) if lacks_amounts(decision.reasons) else None
    parts = [str(near_miss)] if near_miss else []
    if CardReason.ResourceQuotaNotFit.text in decision.reasons:
        parts.append(engine.quotas.describe(pod.namespace, engine.state))
    return f"({'; '.join(parts)})" if parts else ""
