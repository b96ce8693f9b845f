"""A pod's way through an engine, from when it waits to what is written on it."""

from __future__ import annotations

from typing import Any

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Placement


def place(engine: Engine, waiting: dict[str, Any], now: float) -> tuple[Placement, dict[str, str]] | None:
    """Have an engine decide a pod, the only one that waits; None where there is no room for it, and it is gone again.

    Returns
    -------
    tuple
        Where it was placed, and the annotations that are written on it.
    """
    pod = decode_pod(waiting)
    engine.observe_pod(pod, now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.uid == pod.uid
    if decision.placement is None:
        engine.remove_pod(pod.uid, now)
        return None
    written = engine.dialects.annotations(decision.placement, now, pod)
    engine.binding_succeeded(pod.uid)
    return decision.placement, written
