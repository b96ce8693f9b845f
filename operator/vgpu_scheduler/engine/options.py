"""What an engine is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine.closed_nodes import KUBELET_REJECTION_WAIT
from vgpu_scheduler.engine.queue import FLUSH_AFTER
from vgpu_scheduler.policy import PolicyDefaults

__all__ = ["SCHEDULER_NAME", "EngineOptions"]

SCHEDULER_NAME = "vgpu-scheduler"


@dataclass(frozen=True)
class EngineOptions:
    """What settings say about decisions. The operator and what-if make their engines from the same.

    Attributes
    ----------
    dialects
        The wire formats of claims and registrations; if two define a resource, the first listed wins.
    defaults
        What holds where no policy says otherwise.
    scheduler_names
        Pods that name one of these in ``spec.schedulerName`` are placed here; all others only count.
    coexist_with
        Schedulers of the same ecosystem that place pods, too: what they announce counts before they have bound it.
    rejected_node_wait
        Seconds for which a node that rejected a pod is closed to those that replace it.
    bind_timeout
        Seconds that the API server may take for a Binding.
    node_side_timeout
        Seconds that a device plugin may take to answer a pod before its node is closed to others.
    system_spread
        Take in which pods Services and controllers select, and rank nodes by how few of these they have.
    preemption
        Take in disruption budgets, and have pods evicted for those of higher priority where policies allow it.
    protected_namespaces
        Namespaces of which no pod is ever evicted for another.
    unlisted
        The dialects that are known beside those in use: of their nodes and pods it is said that they are not served.
    flush_after
        Seconds after which pods are tried again, whatever happened: a missed event must not strand one. On a virtual
        clock no event is missed.
    """

    dialects: Sequence[Dialect]
    defaults: PolicyDefaults = field(default_factory=PolicyDefaults)
    scheduler_names: Sequence[str] = (SCHEDULER_NAME,)
    coexist_with: Sequence[str] = ()
    rejected_node_wait: float = KUBELET_REJECTION_WAIT
    bind_timeout: float = 5.0
    node_side_timeout: float = 60.0
    system_spread: bool = False
    preemption: bool = False
    protected_namespaces: Sequence[str] = ()
    unlisted: Sequence[Dialect] = ()
    flush_after: float = FLUSH_AFTER
