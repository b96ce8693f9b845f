"""All writes to the cluster: node locks, Bindings, conditions, evictions and events."""

from vgpu_scheduler.binding.answers import BindingAnswer, binding_result
from vgpu_scheduler.binding.bind_tasks import BindTask
from vgpu_scheduler.binding.binder import Binder
from vgpu_scheduler.binding.context import BindContext, BinderOptions
from vgpu_scheduler.binding.evictions import EvictionAnswer
from vgpu_scheduler.binding.evictor import Evictor
from vgpu_scheduler.binding.group_follow_up import GroupFollowUp
from vgpu_scheduler.binding.group_status import GroupStatusWriter
from vgpu_scheduler.binding.hooks import BinderHooks, HookPoint
from vgpu_scheduler.binding.policy_status import PolicyStatusWriter
from vgpu_scheduler.binding.reporter import Reporter
from vgpu_scheduler.binding.writes import (
    EventSource,
    LockChange,
    TokenPatch,
    binding_body,
    decision_record,
)

__all__ = [
    "BindContext",
    "BindTask",
    "Binder",
    "BinderHooks",
    "BinderOptions",
    "BindingAnswer",
    "EventSource",
    "EvictionAnswer",
    "Evictor",
    "GroupFollowUp",
    "GroupStatusWriter",
    "HookPoint",
    "LockChange",
    "PolicyStatusWriter",
    "Reporter",
    "TokenPatch",
    "binding_body",
    "binding_result",
    "decision_record",
]
