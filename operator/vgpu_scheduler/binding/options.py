"""How binds are carried out, and who else is told of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vgpu_scheduler.binding.sender import Answer, Step
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.telemetry import guarded, guarded_async


@dataclass(frozen=True, slots=True)
class BinderOptions:
    """How binds are carried out.

    Attributes
    ----------
    timeout
        Seconds that the API server may take for a Binding; shorter than the lease, so that time fences late writes.
    longest_wait
        Seconds that a pod waits at its node before it is decided anew.
    slow_after
        Seconds after which a node is slow whose turn does not end: who waits there goes elsewhere, or is told why.
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
    slow_after: float = 10.0
    patience: float = 5.0
    volume_wait: float = 600.0
    ask_again: float = 30.0
    unlocked: int = 64
    label_first: bool = False


@dataclass(frozen=True, slots=True)
class BindAttempt:
    """An attempt to schedule a pod that went as far as a Binding, and its outcome; times in seconds (monotonic).

    Attributes
    ----------
    pod, node
        Which pod was to be bound where.
    answer
        What came of it.
    attempts
        How many attempts there were, with this one.
    came
        When the pod was first seen waiting.
    decided
        When the node was decided, and the volumes were bound.
    turn
        When the pod's turn at its node came.
    sent
        When the Binding was sent for the last time; the node's lock was taken between its turn and then.
    ended
        When the outcome was known.
    """

    pod: Pod
    node: str
    answer: Answer
    attempts: int
    came: float
    decided: float
    turn: float
    sent: float
    ended: float


async def _nothing(step: Step, pod: Pod) -> None:
    del step, pod


@dataclass(frozen=True, slots=True)
class BinderHooks:
    """Who else is told of binds; a hook that fails changes nothing of them.

    Attributes
    ----------
    on_step
        Awaited at each :class:`Step` of each bind; for tests that crash there.
    on_attempt
        Told of each attempt of which the outcome is known.
    on_answer
        Told of a pod of whose Binding the outcome is known, and how many seconds that took.
    """

    on_step: Callable[[Step, Pod], Awaitable[None]] = _nothing
    on_attempt: Callable[[BindAttempt], None] = lambda _: None
    on_answer: Callable[[Pod, Answer, float], None] = lambda *_: None

    def guarded(self) -> BinderHooks:
        """Return hooks that change nothing of a bind where they fail."""
        on_step = self.on_step if self.on_step is _nothing else guarded_async(self.on_step)
        return BinderHooks(on_step, guarded(self.on_attempt), guarded(self.on_answer))


NO_HOOKS = BinderHooks()
