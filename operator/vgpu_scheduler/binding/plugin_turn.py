"""A pod's turn with the device plugins of its node: waits for them, takes the lock, and waits for their answer."""

from __future__ import annotations

from functools import partial

from vgpu_scheduler.binding.bind_tasks import BindTask
from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.context import BindContext, BinderOptions
from vgpu_scheduler.binding.lanes import BindLanes
from vgpu_scheduler.binding.locker import NodeLocker, TakenTurn
from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.engine import (
    ClosedByLock,
    ClosedByPod,
    ClosedByUnreadablePod,
    ClosureCause,
    Requeue,
    StandingClosure,
    TakenLock,
)
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import worded_pod
from vgpu_scheduler.state import Phase


class PluginTurn:
    """Waits for the device plugins during a bind; a node whose plugins take too long is closed.

    Parameters
    ----------
    context, locker, lanes
        The shared context of binding, the node locks and the lanes.
    closed
        Watches the closed nodes.
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
        """Wait until no plugin of the node can confuse this pod with one that is there already.

        The lane has waited for the pods that this process bound; an earlier process may have left others. Return
        whether the pod's turn has come; if that takes too long, close the node and return False.
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
                self._close(item.node, ClosedByPod(self._why_it_waits(other, item.node), other.uid))
                return False
            self._lanes.check_waiting(item.node, partial(_not_served, other))
            await self._lanes.wait(item.node)
        return False

    def _why_it_waits(self, other: Pod, node: str) -> ClosureCause:
        """Return why a pod that a plugin may confuse with others has not started; report a silent plugin."""
        reservation = self._engine.state.reservation(other.uid)
        if reservation is not None and reservation.phase is Phase.IN_DOUBT:
            return ClosureCause.BINDING_IN_DOUBT
        if self._locker.has_answered(other):
            return ClosureCause.POD_STARTING
        self._report_silence(other.uid, node)
        return ClosureCause.PLUGIN_SILENT

    async def take(self, item: BindTask, pod: Pod) -> TakenTurn | None:
        """Claim the cards of the node for a pod: write its token, and take its lock if it needs one.

        Returns
        -------
        TakenTurn or None
            None if the pod was unreserved.
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
                self._close(item.node, ClosedByUnreadablePod(unreadable))
            if self._locker.is_closed(item.node, pod):
                self._lanes.unreserve(item, Requeue.NOW)
                return None
            if late:
                break  # the lock is free, but cannot be taken
            taken, held = await self._locker.try_take(node, pod)
            if taken is not None:
                self._lanes.note_progress(item.node)
                return taken
            self._lanes.check_waiting(item.node, partial(self._locker.who_holds, item.node, kind))
            # If the node changed while the holder was read, try again at once.
            if held and self._engine.state.node(item.node) is node:
                await self._lanes.wait(item.node)
        self._lanes.unreserve(item)
        return None

    async def finish(self, item: BindTask, lock: TakenLock | None) -> None:
        """Wait until the plugins have answered, so that the next pod does not take the lock too early.

        If a plugin does not answer in time, close the node; the pods that wait there are decided anew.
        """
        node = item.node
        began = looked = self._clock.monotonic()
        while not self._lanes.stopping and not self._has_answered(item.uid, node, lock):
            await self._lanes.wait(node)
            if self._clock.monotonic() - looked >= self._options.poll_interval:
                looked = self._clock.monotonic()
                await self._locker.refresh(node)  # a lagging watch must not block the lane
                pod = self._engine.state.pod(item.uid)
                if pod is None or self._locker.has_answered(pod):
                    return  # the lock is orphaned; the next pod that needs it replaces it
            self._lanes.check_waiting(node, partial(_not_answered, item))
            if self._clock.monotonic() - began > self._options.node_side_timeout:
                self._report_silence(item.uid, node)
                if lock is None:
                    self._close(node, ClosedByPod(ClosureCause.PLUGIN_SILENT, item.uid))
                elif self._locker.is_locked(node, lock):
                    self._close(node, ClosedByLock(ClosureCause.PLUGIN_SILENT, lock))
                return

    def _has_answered(self, uid: str, node: str, lock: TakenLock | None) -> bool:
        pod = self._engine.state.pod(uid)
        if self._engine.state.node(node) is None or pod is None or pod.terminal:
            return True
        return self._locker.was_served(pod) if lock is None else not self._locker.is_locked(node, lock)

    def _close_lock(self, node: str, kind: NodeLock) -> None:
        """Close a node whose lock was held for the whole wait; a malformed lock closes the node in any case."""
        found = self._locker.find(node, kind)
        if found is not None and found.parsed is not None:
            self._close(node, ClosedByLock(ClosureCause.PLUGIN_SILENT, found.taken))

    def _close(self, node: str, closure: StandingClosure) -> None:
        self._engine.closed_nodes.close(node, closure)
        self._closed.notice(node)

    def _report_silence(self, uid: str, node: str) -> None:
        pod = self._engine.state.pod(uid)
        if pod:
            waited = f"{self._options.node_side_timeout:.0f} s"
            self._reporter.binding_failed(pod, f"the device plugin of node {node} has not answered for {waited}")


def _not_served(other: Pod, reader: str) -> str:
    """Say for messages in a namespace that a pod of the node has not been served."""
    return f"{worded_pod(reader, other.key, other.uid)} there has not been served by its device plugin"


def _not_answered(item: BindTask, reader: str) -> str:
    """Say for messages in a namespace that a pod whose turn it is has not been answered."""
    return f"its device plugin does not answer {worded_pod(reader, item.decision.pod, item.uid)}"
