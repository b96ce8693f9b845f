"""How binds are carried out, and who else is told of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vgpu_scheduler.binding.answers import Answer
from vgpu_scheduler.binding.sender import Step
from vgpu_scheduler.kube import Pod


@dataclass(frozen=True, slots=True)
class BinderOptions:
    """How binds are carried out.

    Attributes
    ----------
    timeout
        Seconds that the API server may take for a Binding; shorter than the lease, so that time fences late writes.
    longest_wait
        Seconds that a pod waits at its node before it is decided anew.
    patience
        Seconds between looks at a node that does not move.
    volume_wait
        Seconds that a pod's volumes may take to be bound, its cards being kept for it.
    ask_again
        Seconds between two questions whether a right that was missing is there now.
    unlocked
        Binds at a time that need no lock.
    label_first
        Write the label before the Binding: API servers before 1.35 ignore labels on Bindings.
    """

    timeout: float = 5.0
    longest_wait: float = 60.0
    patience: float = 5.0
    volume_wait: float = 600.0
    ask_again: float = 30.0
    unlocked: int = 64
    label_first: bool = False


async def _nothing(step: Step, pod: Pod) -> None:
    del step, pod


@dataclass(frozen=True, slots=True)
class BinderHooks:
    """Who else is told of binds.

    Attributes
    ----------
    on_step
        Awaited at each :class:`Step` of each bind; for tests that crash there.
    on_bound
        Told of a pod that was bound, how many attempts and seconds that took since it came.
    on_attempt
        Told of a pod whose attempt ended with an answer, and how many seconds ago it was decided.
    on_answer
        Told of a pod of whose Binding the outcome is known, and how many seconds that took.
    """

    on_step: Callable[[Step, Pod], Awaitable[None]] = _nothing
    on_bound: Callable[[Pod, int, float], None] = lambda *_: None
    on_attempt: Callable[[Pod, Answer, float], None] = lambda *_: None
    on_answer: Callable[[Pod, Answer, float], None] = lambda *_: None


NO_HOOKS = BinderHooks()
