"""The options of an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine.kubelet_rejections import KUBELET_REJECTION_WAIT
from vgpu_scheduler.engine.queue import FLUSH_AFTER
from vgpu_scheduler.policy import PolicyDefaults

SCHEDULER_NAME = "vgpu-scheduler"


@dataclass(frozen=True)
class EngineOptions:
    """What settings determine about decisions. The operator and what-if make their engines from the same options.

    Attributes
    ----------
    dialects
        The dialects of claims and registrations; if two define a resource, the first listed one owns it.
    defaults
        What holds where no policy says otherwise.
    scheduler_names
        Pods that name one of these in ``spec.schedulerName`` are placed here; other pods only count as usage.
    coexist_with
        Other schedulers of the same ecosystem: their announced placements count before the pods are bound.
    rejected_node_wait
        Seconds for which a node that rejected a pod is closed to the pod's replacements.
    bind_timeout
        Seconds that the API server may take for a Binding.
    node_side_timeout
        Seconds that a device plugin may take to answer a pod before its node is closed to others.
    system_spread
        Take in which pods Services and controllers select, and prefer nodes with few pods of the same one.
    preemption
        Take in disruption budgets, and evict pods for pods of higher priority where policies allow it.
    protected_namespaces
        Namespaces whose pods are never evicted for others.
    home
        The operator's own namespace: the admission webhook is not called for pods created there.
    unlisted
        The known dialects that are not in use: warnings say that their nodes and pods are not served.
    renamed
        The resource names that the settings replaced, with those in use.
    flush_after
        Seconds after which unschedulable pods are tried again without an event: a missed event must not strand a pod.
        On a virtual clock no event is missed.
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
    home: str = ""
    unlisted: Sequence[Dialect] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    flush_after: float = FLUSH_AFTER
