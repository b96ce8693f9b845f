"""Watches closed nodes: opens them once the cause is over, and reports the cause meanwhile."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from vgpu_scheduler.apiclient import Backoff, TaskSet
from vgpu_scheduler.binding.change_events import ChangeEvents
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.locker import LockOwnerError, NodeLocker
from vgpu_scheduler.engine import (
    ClosedByLock,
    ClosedByPod,
    ClosedByUnreadablePod,
    ClosedByUnservedPods,
    ClosureCause,
    LockStatus,
    NodeClosure,
    Problem,
    StandingClosure,
)
from vgpu_scheduler.model import EventReason, first_of, quoted, vendors_of
from vgpu_scheduler.state import Phase

log = logging.getLogger(__name__)

_PACE = 0.1
"""The pause between an event and the check that it causes, as a fraction of the poll interval."""

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
        The shared context of binding, and the node locks.
    poll_interval
        Seconds between two checks of a node; see :class:`Backoff`.
    """

    def __init__(self, context: BindContext, locker: NodeLocker, poll_interval: float) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._clock = context.clock
        self._locker = locker
        self._poll_interval = poll_interval
        self._signals = context.signals
        self._changes = ChangeEvents()
        self._watched: set[str] = set()
        self._watches = TaskSet()
        self._not_looked_at: set[str] = set()
        self._looked = asyncio.Event()

    def notice(self, node: str) -> None:
        """Note that a node, or a pod on it, changed."""
        if node in self._watched:
            self._changes.changed(node)
        elif self._engine.closed_nodes and self._engine.closed_nodes.closures(node):
            self._watched.add(node)
            self._not_looked_at.add(node)
            self._looked.clear()
            self._watches.start(self._watch(node), f"closed-{node}")

    async def wait_until_checked(self, timeout: float) -> None:  # noqa: ASYNC109 - as long as it is worth waiting for
        """Wait until every closed node was checked once, so that orphaned locks keep no pod away.

        This includes nodes that were closed while another replica led.
        """
        for node in self._engine.closed_nodes:
            self.notice(node)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._not_looked_at:
                    await self._looked.wait()

    async def stop(self) -> None:
        """Stop watching."""
        await self._watches.stop()

    async def _watch(self, node: str) -> None:
        since: dict[NodeClosure, float] = {}
        backoff = Backoff(self._poll_interval)
        try:
            with self._changes.listening(node) as changed:
                while closures := self._engine.closed_nodes.closures(node):
                    changed.clear()
                    now = self._clock.monotonic()
                    since = {closure: since.get(closure, now) for closure in closures}
                    for closure in closures:
                        await self._look(node, closure, stood=now - since[closure])
                    self._was_looked_at(node)
                    if await backoff.wait(changed):
                        await asyncio.sleep(_PACE * self._poll_interval)  # several events cause one check
        except Exception:
            log.exception("closed node %s cannot be watched", node)  # the next observation starts a new watch
        finally:
            self._watched.remove(node)
            self._was_looked_at(node)

    def _was_looked_at(self, node: str) -> None:
        self._not_looked_at.discard(node)
        if not self._not_looked_at:
            self._looked.set()

    async def _look(self, node: str, closure: NodeClosure, *, stood: float) -> None:
        """Open a node if the cause of its closure is over; else report it, a held lock only after some seconds."""
        with suppress(LockOwnerError):
            if isinstance(closure, ClosedByUnservedPods):
                self._report(node, closure)  # the state ends this closure when it observes the pods
            elif await self._is_over(node, closure):
                self._engine.open_node(node, closure, self._clock.monotonic())
                self._signals.decide_again()
            elif closure.cause is not ClosureCause.LOCK_HELD or stood >= self._poll_interval:
                self._report(node, closure)

    async def _is_over(self, node: str, closure: StandingClosure) -> bool:
        if isinstance(closure, ClosedByUnreadablePod):
            return await self._locker.secure_last_allocation(node)
        if isinstance(closure, ClosedByPod):
            return self._is_through(closure)
        found = self._locker.find(node, closure.lock.kind)
        status = await self._locker.status(found)
        if status is LockStatus.HELD and closure.cause is ClosureCause.LOCK_HELD and found and found.parsed:
            # The lock is held by a pod of ours that was unknown when the lock was seen: the lane waits for that pod.
            known = self._engine.state.node(node)
            return known is not None and self._engine.closed_nodes.is_ours(known, found.parsed)
        return status in {LockStatus.FREE, LockStatus.ORPHANED}

    def _is_through(self, closure: ClosedByPod) -> bool:
        """Tell whether a pod no longer blocks others."""
        if closure.cause is ClosureCause.BINDING_IN_DOUBT:
            reservation = self._engine.state.reservation(closure.uid)
            return reservation is None or reservation.phase is not Phase.IN_DOUBT
        pod = self._engine.state.pod(closure.uid)
        return pod is None or pod.terminal or pod.started

    def _silence(self, closure: ClosedByLock | ClosedByPod) -> str:
        if isinstance(closure, ClosedByPod):
            pod, lock = self._engine.state.pod(closure.uid), ""
        else:
            parsed = self._engine.dialects.node_side.parse_lock(closure.lock.value)
            pod = self._engine.state.find(parsed.namespace, parsed.name)
            lock = f" (annotation {closure.lock.kind.annotation})"
        if pod is None:
            return f"a device plugin does not answer{lock}"
        vendors = sorted(vendors_of(self._engine.algorithm.classes.claims(pod)))
        return f"the device plugin of {', '.join(vendors)} does not answer pod {pod.key}{lock}"

    def _name(self, uid: str) -> str:
        pod = self._engine.state.pod(uid)
        return pod.key if pod else uid

    def _not_taken(self, node: str, plugin_key: str) -> str:
        uids = self._engine.closed_nodes.unserved_pods.pods(node, plugin_key)
        named = first_of([*map(self._name, uids)], _NAMED)
        which, them = ("pods", "them") if len(uids) > 1 else ("pod", "it")
        return (
            f"the device plugin never served {which} {named}, and would mistake {them} for the next pod that "
            f"asks for {plugin_key}: delete {them}; no such pod is placed there until then"
        )

    def _report(self, name: str, closure: NodeClosure) -> None:
        node = self._engine.state.node(name)
        if node is None:
            return
        if isinstance(closure, ClosedByUnservedPods):
            text = self._not_taken(name, closure.plugin_key)
        else:
            text = f"{self._held_up(closure)}; no pod that needs it is placed there until that ends"
        self._reporter.problem(Problem("Node", "", name, node.uid, _REASONS[closure.cause], text))

    def _held_up(self, closure: StandingClosure) -> str:
        match closure:
            case ClosedByUnreadablePod(pod=pod):
                return f"pod {pod} cannot be read, and may be on any card"
            case ClosedByLock(cause=ClosureCause.LOCK_MALFORMED, lock=lock):
                return f"annotation {lock.kind.annotation} is malformed: {quoted(lock.value)}"
            case ClosedByLock(cause=ClosureCause.LOCK_HELD, lock=lock):
                owner = self._engine.dialects.node_side.parse_lock(lock.value).owner
                holder = f"pod {owner}" if owner else "an owner that it does not name"
                return f"annotation {lock.kind.annotation} is held by {holder}"
            case ClosedByPod(cause=ClosureCause.POD_STARTING, uid=uid):
                return f"pod {self._name(uid)} has its devices and has not started"
            case ClosedByPod(cause=ClosureCause.BINDING_IN_DOUBT, uid=uid):
                return f"it is not known whether pod {self._name(uid)} was bound here"
        return self._silence(closure)
