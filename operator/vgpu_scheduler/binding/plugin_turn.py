"""A pod's turn with the device plugins of its node: until they can serve it, its lock, and until they have answered."""

from __future__ import annotations

from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.context import BindContext, BinderOptions
from vgpu_scheduler.binding.lanes import BindTask
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.turns import BindLanes
from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.engine import ANY_CARD, IN_TURN, ClosureCause, NodeClosure, Requeue
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import Phase


class PluginTurn:
    """What binds wait for on their nodes; a node whose plugins keep them waiting too long is closed.

    Parameters
    ----------
    context, locker, lanes
        What it works with.
    closed
        Looks after the nodes that are closed.
    options
        Times and limits.
    """

    def __init__(
        self,
        context: BindContext,
        locker: NodeLocker,
        lanes: BindLanes,
        closed: ClosedNodeWatch,
        options: BinderOptions,
    ) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._clock = context.clock
        self._may_write = context.may_write
        self._locker = locker
        self._lanes = lanes
        self._closed = closed
        self._options = options

    async def begin(self, item: BindTask) -> bool:
        """Wait until no plugin of the node can take this pod for one that is there already.

        Those that this process has bound have been waited for; there may be others, of a process before it. Returns
        whether it is the pod's turn; if that takes longer than others would wait, the node is closed.
        """
        deadline = self._clock.monotonic() + self._options.node_side_timeout
        while not self._lanes.stopping and not item.is_over:
            pod = self._engine.state.pod(item.uid)
            if pod is None:
                return True
            if self._locker.is_closed(item.node, pod):
                return False
            other = self._locker.pod_awaiting_plugin(item.node, pod)
            if other is None:
                return True
            if self._clock.monotonic() >= deadline:
                self._close(item.node, NodeClosure(self._why_it_waits(other, item.node), IN_TURN, other.uid))
                return False
            self._lanes.check_waiting(item.node, f"pod {other.key} there has not been served by its device plugin")
            await self._lanes.wait(item.node)
        return False

    def _why_it_waits(self, other: Pod, node: str) -> ClosureCause:
        """Return why a pod that a plugin may take for others has kept them waiting; say it if that is not known yet."""
        held = self._engine.state.reservation(other.uid)
        if held is not None and held.phase is Phase.IN_DOUBT:
            return ClosureCause.BINDING_IN_DOUBT
        if self._locker.has_answered(other):
            return ClosureCause.POD_STARTING
        self._report_silence(other.uid, node)
        return ClosureCause.PLUGIN_SILENT

    async def take(self, item: BindTask, pod: Pod) -> str | None:
        """Claim the cards of the node for a pod: write its token, and take its lock if there is one.

        Returns
        -------
        str or None
            The lock's value, empty where there is none; None if the pod has been given back.
        """
        deadline = self._clock.monotonic() + self._options.node_side_timeout
        while not self._lanes.stopping and not item.is_over:
            node = self._engine.state.node(item.node)
            if node is None or not self._may_write(self._options.timeout):
                break  # the node is gone, or the lease may be lost
            kind = self._locker.kind(pod)
            late = self._clock.monotonic() >= deadline
            if late and kind is not None:
                self._close_lock(item.node, kind)
            unreadable = self._locker.blocking_pod(item.node)
            if unreadable:
                self._close(item.node, NodeClosure(ClosureCause.POD_UNREADABLE, ANY_CARD, unreadable))
            if self._locker.is_closed(item.node, pod):
                self._lanes.unreserve(item, Requeue.NOW)
                return None
            if late:
                break  # nobody holds the lock, and it cannot be taken
            taken, held = await self._locker.try_take(node, pod)
            if taken is not None:
                self._lanes.note_progress(item.node)
                return taken
            self._lanes.check_waiting(item.node, self._locker.who_holds(item.node, kind))
            # What was decided on may have moved while the holder was read.
            if held and self._engine.state.node(item.node) is node:
                await self._lanes.wait(item.node)
        self._lanes.unreserve(item)
        return None

    async def finish(self, item: BindTask, lock: str) -> None:
        """Wait until the plugins have answered, so that the next pod does not take the lock from under this one.

        A node whose plugin does not answer is closed: who waits there is decided anew.
        """
        node = item.node
        began = looked = self._clock.monotonic()
        while not self._lanes.stopping and not self._has_answered(item.uid, node, lock):
            await self._lanes.wait(node)
            if self._clock.monotonic() - looked >= self._options.poll_interval:
                looked = self._clock.monotonic()
                await self._locker.refresh(node)  # a watch that lags must not hold the lane up
                pod = self._engine.state.pod(item.uid)
                if pod is None or self._locker.has_answered(pod):
                    return  # the lock is left over; the next pod that wants it finds that out
            self._lanes.check_waiting(node, f"its device plugin does not answer pod {item.decision.pod}")
            if self._clock.monotonic() - began > self._options.node_side_timeout:
                self._report_silence(item.uid, node)
                annotation = self._locker.holding(node, lock) if lock else ""
                if annotation is not None:
                    self._close(node, NodeClosure(ClosureCause.PLUGIN_SILENT, annotation or IN_TURN, lock or item.uid))
                return

    def _has_answered(self, uid: str, node: str, lock: str) -> bool:
        pod = self._engine.state.pod(uid)
        if self._engine.state.node(node) is None or pod is None or pod.terminal:
            return True
        return self._locker.holding(node, lock) is None if lock else self._locker.is_served(pod)

    def _close_lock(self, node: str, kind: NodeLock) -> None:
        """Close a node whose lock somebody has held for as long as anybody waits."""
        found = self._locker.find(node, kind.annotation)
        if found is not None:
            self._close(node, NodeClosure(ClosureCause.PLUGIN_SILENT, found.kind.annotation, found.value))

    def _close(self, node: str, closure: NodeClosure) -> None:
        self._engine.closed_nodes.close(node, closure)
        self._closed.notice(node)

    def _report_silence(self, uid: str, node: str) -> None:
        pod = self._engine.state.pod(uid)
        if pod:
            waited = f"{self._options.node_side_timeout:.0f} s"
            self._reporter.binding_failed(pod, f"the device plugin of node {node} has not answered for {waited}")
