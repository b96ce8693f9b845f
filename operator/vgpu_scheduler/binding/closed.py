"""Looks after closed nodes: finds out when nobody uses their locks any more, and says who closes them meanwhile."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from vgpu_scheduler.apiclient import ApiUnreachableError, Backoff
from vgpu_scheduler.binding.context import Background, BindContext
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.engine import IN_TURN, ClosureCause, LockStatus, NodeClosure, Problem
from vgpu_scheduler.model import EventReason, first_of, quoted
from vgpu_scheduler.state import Phase

log = logging.getLogger(__name__)

_PACE = 0.1
"""Of the interval between polls, between an event and the look that it causes."""

_REASONS = {
    ClosureCause.LOCK_HELD: EventReason.DEVICE_LOCK_HELD,
    ClosureCause.LOCK_MALFORMED: EventReason.DEVICE_LOCK_MALFORMED,
    ClosureCause.PLUGIN_SILENT: EventReason.DEVICE_PLUGIN_SILENT,
    ClosureCause.POD_STARTING: EventReason.POD_STARTING,
    ClosureCause.BINDING_IN_DOUBT: EventReason.BINDING_IN_DOUBT,
    ClosureCause.POD_UNREADABLE: EventReason.POD_UNREADABLE,
    ClosureCause.DEVICES_NOT_TAKEN: EventReason.DEVICES_NOT_TAKEN,
}
_NAMED = 3
"""How many pods an event names."""


class ClosedNodeWatch:
    """Watches the nodes that are closed, one task each, until they are open again.

    Parameters
    ----------
    context, locker
        What it works with.
    poll_interval
        Seconds between two looks at a node; see :class:`Backoff`.
    """

    def __init__(self, context: BindContext, locker: NodeLocker, poll_interval: float) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._clock = context.clock
        self._locker = locker
        self._poll_interval = poll_interval
        self._signals = context.signals
        self._changed: dict[str, asyncio.Event] = {}
        self._watches = Background()
        self._not_looked_at: set[str] = set()
        self._looked = asyncio.Event()

    def notice(self, node: str) -> None:
        """Note that a node, or a pod on it, was observed anew."""
        event = self._changed.get(node)
        if event is not None:
            event.set()
        elif self._engine.closed_nodes and self._engine.closed_nodes.closures(node):
            self._changed[node] = asyncio.Event()
            self._not_looked_at.add(node)
            self._looked.clear()
            self._watches.start(self._watch(node), f"closed-{node}")

    async def look(self, timeout: float) -> None:  # noqa: ASYNC109 - as long as it is worth waiting for
        """Wait until every closed node was looked at once: a lock that nobody uses any more keeps nobody away.

        This includes nodes that were closed while another replica led.
        """
        for node in self._engine.closed_nodes:
            self.notice(node)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._not_looked_at:
                    await self._looked.wait()

    async def stop(self) -> None:
        """End all watching."""
        await self._watches.stop()

    async def _watch(self, node: str) -> None:
        since: dict[NodeClosure, float] = {}
        backoff = Backoff(self._poll_interval)
        try:
            while closures := self._engine.closed_nodes.closures(node):
                self._changed[node].clear()
                now = self._clock.monotonic()
                since = {closure: since.get(closure, now) for closure in closures}
                for closure in closures:
                    await self._look(node, closure, stood=now - since[closure])
                self._was_looked_at(node)
                if await backoff.wait(self._changed[node]):
                    await asyncio.sleep(_PACE * self._poll_interval)  # several events make one look
        except Exception:
            log.exception("closed node %s cannot be watched", node)  # the next observation begins anew
        finally:
            del self._changed[node]
            self._was_looked_at(node)

    def _was_looked_at(self, node: str) -> None:
        self._not_looked_at.discard(node)
        if not self._not_looked_at:
            self._looked.set()

    async def _look(self, node: str, closure: NodeClosure, *, stood: float) -> None:
        """Open a node if what closes it is over; else say who closes it, once a lock has stood for some seconds."""
        with suppress(ApiUnreachableError):
            if await self._is_over(node, closure):
                self._engine.open_node(node, closure, self._clock.monotonic())
                self._signals.decide_again()
            elif closure.cause is not ClosureCause.LOCK_HELD or stood >= self._poll_interval:
                self._report(node, closure)

    async def _is_over(self, node: str, closure: NodeClosure) -> bool:
        if closure.plugin_key:
            return False  # it is over when that is seen on the pod, or that it is gone
        if closure.cause is ClosureCause.BINDING_IN_DOUBT:
            held = self._engine.state.reservation(closure.value)
            return held is None or held.phase is not Phase.IN_DOUBT
        if closure.cause is ClosureCause.POD_UNREADABLE:
            return await self._locker.make_sure(node)
        if closure.lock == IN_TURN:
            pod = self._engine.state.pod(closure.value)
            return pod is None or pod.terminal or pod.started
        found = self._locker.find(node, closure.lock)
        status = await self._locker.status(found)
        if status is LockStatus.HELD and closure.cause is ClosureCause.LOCK_HELD and found and found.parsed:
            # A pod of ours that was not known when the lock was seen: it is waited for in the node's lane.
            known = self._engine.state.node(node)
            return known is not None and self._engine.closed_nodes.is_ours(known, found.parsed)
        return status in {LockStatus.FREE, LockStatus.ORPHANED}

    def _silence(self, closure: NodeClosure) -> str:
        pod = self._engine.state.pod(closure.value)
        lock = f" (annotation {closure.lock})" if closure.lock else ""
        if pod is None and closure.lock:
            parsed = self._engine.dialects.node_side.parse_lock(closure.value)
            pod = self._engine.state.find(parsed.namespace, parsed.name)
        if pod is None:
            return f"a device plugin does not answer{lock}"
        vendors = {
            claim.vendor for container in self._engine.algorithm.classes.claims(pod) for claim in container.claims
        }
        return f"the device plugin of {', '.join(sorted(vendors))} does not answer pod {pod.key}{lock}"

    def _name(self, uid: str) -> str:
        pod = self._engine.state.pod(uid)
        return pod.key if pod else uid

    def _not_taken(self, node: str, plugin_key: str) -> str:
        uids = self._engine.closed_nodes.unserved_pods.pods(node, plugin_key)
        named = first_of([*map(self._name, uids)], _NAMED)
        which, them = ("pods", "them") if len(uids) > 1 else ("pod", "it")
        return (
            f"the device plugin never served {which} {named}, and would take {them} for the next pod that asks "
            f"for {plugin_key}: delete {them}; no such pod is placed there until then"
        )

    def _report(self, name: str, closure: NodeClosure) -> None:
        node = self._engine.state.node(name)
        if node is None:
            return
        if closure.cause is ClosureCause.DEVICES_NOT_TAKEN:
            text = self._not_taken(name, closure.plugin_key)
        else:
            text = f"{self._held_up(closure)}; no pod that needs it is placed there until that ends"
        self._reporter.problem(Problem("Node", "", name, node.uid, _REASONS[closure.cause], text))

    def _held_up(self, closure: NodeClosure) -> str:
        if closure.cause is ClosureCause.LOCK_MALFORMED:
            return f"annotation {closure.lock} is malformed: {quoted(closure.value)}"
        if closure.cause is ClosureCause.LOCK_HELD:
            owner = self._engine.dialects.node_side.parse_lock(closure.value).owner
            holder = f"pod {owner}" if owner else "somebody whom it does not name"
            return f"annotation {closure.lock} is held by {holder}"
        if closure.cause is ClosureCause.POD_STARTING:
            return f"pod {self._name(closure.value)} has its devices and has not started"
        if closure.cause is ClosureCause.BINDING_IN_DOUBT:
            return f"whether pod {self._name(closure.value)} was bound here is not known"
        if closure.cause is ClosureCause.POD_UNREADABLE:
            return f"pod {closure.value} cannot be read, and may be on any card"
        return self._silence(closure)
