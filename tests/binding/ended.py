"""Binds whose outcome is known."""

from vgpu_scheduler.binding import BindTask
from vgpu_scheduler.binding.bind_tasks import BindGroup
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Placement


def ended_bind(
    pod: Pod,
    node: str,
    attempts: int,
    queued_at: float,
    decided_at: float,
    lane_head_at: float,
    sent_at: float,
    ended_at: float,
) -> BindTask:
    """Return a bind of a pod to a node that has come to an end."""
    decision = Decision(pod.uid, pod.key, Outcome.PLACED, Placement(node, ()))
    return BindTask(
        (0, decided_at, 0, 0),
        *(pod.uid, decision, BindGroup(), node, decided_at, queued_at, attempts, lane_head_at, sent_at),
        ended_at=ended_at,
    )
