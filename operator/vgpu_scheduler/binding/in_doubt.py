"""Follows up Bindings with an unknown outcome after the turn of their pods."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from vgpu_scheduler.apiclient import Backoff, TaskSet
from vgpu_scheduler.binding.answers import BindingAnswer, BindingResult
from vgpu_scheduler.binding.bind_tasks import BindTask, SentBinding
from vgpu_scheduler.binding.change_events import ChangeEvents
from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.sender import BindingSender
from vgpu_scheduler.engine import ClosedByPod, ClosureCause, TakenLock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import EventReason
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

Settle = Callable[[BindTask, SentBinding, BindingResult], Awaitable[object]]


class InDoubtBindings:
    """The pods whose Binding has an unknown outcome: each keeps its reservation, and is read until it is known.

    The Binding itself can no longer be carried out. If a lock names the pod, its node stays open, because other pods
    wait for the lock. If a plugin might confuse another pod with this one, the node is closed.

    Parameters
    ----------
    context, locker, sender
        The shared context of binding, the node locks, and the sender of Bindings.
    closed
        Watches the closed nodes.
    poll_interval
        Seconds between two reads of a pod; see :class:`Backoff`.
    settle
        Called with the outcome of a Binding.
    """

    def __init__(
        self,
        context: BindContext,
        locker: NodeLocker,
        sender: BindingSender,
        closed: ClosedNodeWatch,
        poll_interval: float,
        settle: Settle,
    ) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._locker = locker
        self._sender = sender
        self._closed = closed
        self._poll_interval = poll_interval
        self._settle = settle
        self._changes = ChangeEvents()
        self._looks = TaskSet()

    def follow(self, item: BindTask, sent: SentBinding, message: str) -> None:
        """Follow up a Binding; ``message`` says why its outcome is unknown."""
        pod, node = sent.pod, sent.placement.node
        self._engine.state.mark_in_doubt(pod.uid)
        log.warning(KeyedMessage("Binding is in doubt", pod=pod.key, node=node, err=message))
        text = f"it is not known whether the pod was bound to node {node}; its resources stay reserved there: {message}"
        self._reporter.warning(pod, text, EventReason.BINDING_IN_DOUBT)
        if self._may_be_mistaken(pod, sent.lock):
            self._engine.closed_nodes.close(node, ClosedByPod(ClosureCause.BINDING_IN_DOUBT, pod.uid))
            self._closed.notice(node)
        self._looks.start(self._follow(item, sent, message), f"doubt-{pod.key}")

    def node_changed(self, node: str) -> None:
        """Note that a node, or a pod on it, changed."""
        self._changes.changed(node)

    async def stop(self) -> None:
        """Stop following up; the pods keep their reservations, and a later process finds out the outcomes."""
        await self._looks.stop()

    def _may_be_mistaken(self, pod: Pod, lock: TakenLock | None) -> bool:
        """Tell whether a plugin may confuse the next pod of the node with this one."""
        if self._locker.needs(pod).ambiguous:
            return True
        return lock is not None and self._engine.dialects.node_side.parse_lock(lock.value).owner != pod.key

    async def _follow(self, item: BindTask, sent: SentBinding, message: str) -> None:
        node, backoff = sent.placement.node, Backoff(self._poll_interval)
        try:
            with self._changes.listening(node) as changed:
                while not await self._is_settled(item, sent, message):
                    changed.clear()
                    await backoff.wait(changed)
        finally:
            self._closed.notice(node)

    async def _is_settled(self, item: BindTask, sent: SentBinding, message: str) -> bool:
        """Check a pod once; return whether the outcome is known and recorded."""
        try:
            result = self._known(sent, message) or await self._sender.read_outcome(*sent[:2], message)
            if result is None:
                return False
            await self._settle(item, sent, result)
        except Exception:  # try again: otherwise reservation and closure would stay for ever
            log.exception("it is not known yet whether pod %s was bound to node %s", sent.pod.key, sent.placement.node)
            return False
        return True

    def _known(self, sent: SentBinding, message: str) -> BindingResult | None:
        """Return the outcome from what a watch or a relist has observed of the pod; None if that does not tell."""
        pod = self._engine.state.pod(sent.pod.uid)
        if pod is None:
            return BindingResult(BindingAnswer.GONE, message)
        if not pod.node_name:
            return None  # the observation may be older than the Binding
        return BindingResult(
            BindingAnswer.BOUND if pod.node_name == sent.placement.node else BindingAnswer.CONFLICT, message
        )
