"""Follows up Bindings of which nobody could tell whether they were carried out, after their pods' turn was over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from vgpu_scheduler.apiclient import Backoff
from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.context import Background, BindContext
from vgpu_scheduler.binding.lanes import BindTask, SentBinding
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.sender import BindingAnswer, BindResult, Sender
from vgpu_scheduler.engine import IN_TURN, ClosureCause, NodeClosure
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import EventReason
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

Settle = Callable[[BindTask, SentBinding, BindResult], Awaitable[object]]


class InDoubtBindings:
    """The pods that may be bound or not: each stays charged, and is looked at until that is known.

    The write itself can no longer happen. A node where a lock names the pod serves others as ever, for they wait for
    the lock; where a plugin might take another pod for this one the node is closed.

    Parameters
    ----------
    context, locker, sender
        What it works with.
    closed
        Looks after the nodes that are closed.
    poll_interval
        Seconds between two looks at a pod; see :class:`Backoff`.
    settle
        Called with what became of a Binding.
    """

    def __init__(
        self,
        context: BindContext,
        locker: NodeLocker,
        sender: Sender,
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
        self._changed: dict[str, tuple[str, asyncio.Event]] = {}
        self._looks = Background()

    def follow(self, item: BindTask, sent: SentBinding, message: str) -> None:
        """Look after a pod from now on; ``message`` is why nobody can tell."""
        pod, node = sent.pod, sent.placement.node
        self._engine.state.mark_in_doubt(pod.uid)
        log.warning(KeyedMessage("Binding is in doubt", pod=pod.key, node=node, err=message))
        text = f"whether the pod was bound to node {node} is not known; it keeps what it would have there: {message}"
        self._reporter.warning(pod, text, EventReason.BINDING_IN_DOUBT)
        if self._may_be_mistaken(pod, sent.lock):
            self._engine.closed_nodes.close(node, NodeClosure(ClosureCause.BINDING_IN_DOUBT, IN_TURN, pod.uid))
            self._closed.notice(node)
        self._changed[pod.uid] = (node, asyncio.Event())
        self._looks.start(self._follow(item, sent, message), f"doubt-{pod.key}")

    def node_changed(self, node: str) -> None:
        """Note that a node, or a pod on it, was observed anew."""
        for where, event in self._changed.values():
            if where == node:
                event.set()

    async def stop(self) -> None:
        """End all looking: what was sent stays charged, for a later process to find out."""
        await self._looks.stop()

    def _may_be_mistaken(self, pod: Pod, lock: str) -> bool:
        """Tell whether a plugin may take the next pod of the node for this one, or this one for that."""
        if self._locker.needs(pod).ambiguous:
            return True
        return bool(lock) and self._engine.dialects.node_side.parse_lock(lock).owner != pod.key

    async def _follow(self, item: BindTask, sent: SentBinding, message: str) -> None:
        uid, node = sent.pod.uid, sent.placement.node
        backoff, (_, changed) = Backoff(self._poll_interval), self._changed[uid]
        try:
            while not await self._is_settled(item, sent, message):
                changed.clear()
                await backoff.wait(changed)
        finally:
            del self._changed[uid]
            self._closed.notice(node)

    async def _is_settled(self, item: BindTask, sent: SentBinding, message: str) -> bool:
        """Look at a pod once; tell whether what became of it is known now, and was taken in."""
        try:
            result = self._known(sent, message) or await self._sender.look(*sent[:2], message)
            if result is None:
                return False
            await self._settle(item, sent, result)
        except Exception:  # an error of ours must not leave the pod charged, and its node closed, for ever
            log.exception("what became of pod %s on node %s cannot be told yet", sent.pod.key, sent.placement.node)
            return False
        return True

    def _known(self, sent: SentBinding, message: str) -> BindResult | None:
        """Return what was observed of a pod since, by a watch or a sweep; None if that does not tell."""
        pod = self._engine.state.pod(sent.pod.uid)
        if pod is None:
            return BindResult(BindingAnswer.GONE, message)
        if not pod.node_name:
            return None  # it may have been observed before the Binding was carried out
        return BindResult(
            BindingAnswer.BOUND if pod.node_name == sent.placement.node else BindingAnswer.CONFLICT, message
        )
