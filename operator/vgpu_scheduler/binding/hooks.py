"""Hooks of binds, for metrics, traces, and tests that crash at a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.apiclient import guarded, guarded_async
from vgpu_scheduler.binding.answers import BindingAnswer
from vgpu_scheduler.binding.bind_tasks import BindTask
from vgpu_scheduler.kube import Pod


class HookPoint(Enum):
    """Points of a bind at which hooks are called. A crash there must lose nothing; tests stop the process there."""

    CHECKED = "checked"
    LOCKED = "locked"
    ANSWERED = "answered"
    """The API server has answered the Binding, or has not in time."""
    BOUND = "bound"
    REPORTED = "reported"


async def _nothing(point: HookPoint, pod: Pod) -> None:
    del point, pod


@dataclass(frozen=True, slots=True)
class BinderHooks:
    """Callbacks during binds.

    Attributes
    ----------
    at_point
        Awaited at each :class:`HookPoint` of each bind; for tests that crash there.
    on_attempt
        Called for each bind with a known outcome, with the pod as it was when its Binding was sent.
    on_answer
        Called with the pod and the outcome of a Binding once it is known, and the seconds that this took.
    """

    at_point: Callable[[HookPoint, Pod], Awaitable[None]] = _nothing
    on_attempt: Callable[[BindTask, Pod, BindingAnswer], None] = lambda *_: None
    on_answer: Callable[[Pod, BindingAnswer, float], None] = lambda *_: None

    def guarded(self) -> BinderHooks:
        """Return hooks whose exceptions do not affect a bind."""
        at_point = self.at_point if self.at_point is _nothing else guarded_async(self.at_point)
        return BinderHooks(at_point, guarded(self.on_attempt), guarded(self.on_answer))


NO_HOOKS = BinderHooks()
