"""The lanes of all nodes; a group waits until it is first in all lanes of its pods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final, Protocol

from vgpu_scheduler.apiclient import TaskSet, wait_for_event
from vgpu_scheduler.binding.bind_tasks import BindGroup, BindState, BindTask
from vgpu_scheduler.binding.change_events import ChangeEvents
from vgpu_scheduler.binding.context import BindContext, BinderOptions, BindStats
from vgpu_scheduler.binding.lane import Lane
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.model import Decision, EventReason, TokenBucket, internal_error
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

SLOW_AFTER: Final = 10.0
"""Seconds of a turn after which its node is slow: waiting pods move to other nodes, or get an event."""
_MOST_FRUITLESS: Final = 16
"""Pods of a lane that are tried on other nodes at a time and fit on none."""
_PASSED_AFTER: Final = 2.0
"""Seconds for which a group may hold up a lane before lower ranks pass it there."""
_MOST_GONE: Final = 64
"""Pods of a lane that move to other nodes at a time."""

_MOST_ERRORS: Final = 5
"""Burst of logged errors when deciding pods for other nodes; each such pod is tried again and again."""
_ERROR_EVERY: Final = 60.0
"""Seconds after which one more error may be logged."""


class TurnTaker(Protocol):
    """What the lanes call of the binder."""

    async def bind(self, item: BindTask) -> None:
        """Bind a pod whose turn it is; the lane of its node waits until this returns."""

    def submit(self, decision: Decision, /, *, nodes_left: frozenset[str]) -> None:
        """Bind a pod that was decided anew for another node; ``nodes_left`` are the slow nodes that it has left."""


class BindLanes:
    """The lanes of all nodes: they order binds, and move or unreserve pods that wait too long.

    Parameters
    ----------
    context, locker, options
        The shared context of binding, the node locks, and times and limits.
    stats
        The counters to update.
    tasks
        Runs the tasks that serve lanes, and the binds of pods that need no lane.
    binder
        Binds the pods whose turn it is.

    Attributes
    ----------
    stopping
        Whether the scheduler is stopping, so that no pod waits any more.
    """

    def __init__(
        self,
        context: BindContext,
        locker: NodeLocker,
        options: BinderOptions,
        stats: BindStats,
        tasks: TaskSet,
        binder: TurnTaker,
    ) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._clock = context.clock
        self._signals = context.signals
        self._withdrawn = context.withdrawn
        self._locker = locker
        self._options = options
        self._poll_interval = options.poll_interval
        self._stats = stats
        self._tasks = tasks
        self._binder = binder
        self._lanes: dict[str, Lane] = {}
        self._changes = ChangeEvents()
        self._errors = TokenBucket(_MOST_ERRORS, _ERROR_EVERY, self._clock.monotonic())
        self.stopping = False

    @property
    def depths(self) -> list[int]:
        """How many pods wait in each lane."""
        return [len(lane) for lane in self._lanes.values()]

    def join(self, group: BindGroup) -> None:
        """Queue the pods of a group in the lanes of their nodes; if none of them needs a lane, bind them at once."""
        for item in group.items:
            item.enter(BindState.QUEUED)
            if not item.node:
                continue
            if item.node not in self._lanes:
                self._lanes[item.node] = Lane()
                self._tasks.start(self._serve(item.node), f"lane-{item.node}")
            self._lanes[item.node].push(item)
            self.node_changed(item.node)
        if not any(item.node for item in group.items):
            self._try_commit(group)

    async def _serve(self, node: str) -> None:
        """Bind the pods of a lane one after the other, until it is empty."""
        try:
            while (item := await self._next(node)) is not None:
                await self._binder.bind(item)
        finally:
            self._close(node)

    def node_changed(self, node: str) -> None:
        """Note that a node, one of its pods or its lane has changed, and wake the binds that wait at the node."""
        self._changes.changed(node)

    async def _next(self, node: str) -> BindTask | None:
        """Wait until a pod has its turn at a node, and return it; None if no pod waits there any more."""
        lane = self._lanes[node]
        lane.current = None
        while len(lane):
            item = lane.head
            if len(item.group.items) > 1 and item.state is BindState.QUEUED:
                if not await self._clear_lock(item):
                    self.unreserve(item, Requeue.NOW)
                if not len(lane) or lane.head is not item:
                    continue  # the head of the lane changed meanwhile
            if self._try_begin(lane):
                return lane.begin(self._clock.monotonic())
            if item.is_over:
                continue
            self._expire(node)
            if len(lane) and lane.head.group is item.group:
                await self.wait(node, min(self._poll_interval, _PASSED_AFTER))
        return None

    def _try_begin(self, lane: Lane) -> bool:
        """Commit the group whose turn has come, if any; one of its pods is then first in the lane."""
        if lane.head.state is BindState.COMMITTED or self._try_commit(lane.head.group):
            return True
        if len(lane) and lane.head.group.held_up is None:
            lane.head.group.held_up = self._clock.monotonic()
        for item in lane.in_order() if len(lane) > 1 else ():
            if not item.is_over and self._try_commit(item.group):
                return True
            if not self._may_be_passed(item.group):
                return False
        return False

    def _may_be_passed(self, group: BindGroup) -> bool:
        """Tell whether lower ranks may pass a group: not once it has waited for half of the maximum wait."""
        now = self._clock.monotonic()
        if group.held_up is None or now - group.items[0].decided_at >= self._options.node_side_timeout / 2:
            return False
        return now - group.held_up >= _PASSED_AFTER

    def _is_next(self, lane: Lane, group: BindGroup) -> bool:
        """Tell whether a group is first in a lane, or may pass all groups before it."""
        if lane.head.group is group:
            return True
        for item in lane.in_order():
            if item.group is group:
                return True
            if item.state is BindState.COMMITTED or not self._may_be_passed(item.group):
                return False
        return False

    async def _clear_lock(self, item: BindTask) -> bool:
        """Remove an orphaned lock that a group would wait for; False if the node is closed."""
        pod = self._engine.state.pod(item.uid)
        if pod is None:
            return True  # the recheck of the placement will fail
        if self._locker.is_closed(item.node, pod):
            return False
        kind = self._locker.kind(pod)
        if kind:
            await self._locker.clear(item.node, kind, pod)
        return True

    async def wait(self, node: str, at_most: float | None = None) -> None:
        """Wait until a node, a pod on it or its lane changes, or the wait times out.

        Parameters
        ----------
        at_most
            The timeout in seconds; None for the interval between polls.
        """
        with self._changes.listening(node) as changed:
            await wait_for_event(changed, self._poll_interval if at_most is None else at_most)

    def _expire(self, node: str) -> None:
        """Unreserve the pods of a lane that have waited too long."""
        for item in self._lanes[node].expired(self._clock.monotonic() - self._options.node_side_timeout):
            if not item.is_over:
                self._stats.expired += 1
                self.unreserve(item)

    def _slow_nodes(self) -> frozenset[str]:
        """Return the nodes where the current turn takes too long."""
        now = self._clock.monotonic()
        return frozenset(node for node, lane in self._lanes.items() if self._is_slow(lane, now))

    def _is_slow(self, lane: Lane, now: float) -> bool:
        return lane.current is not None and now - lane.since >= SLOW_AFTER

    def check_waiting(self, node: str, why: Callable[[str], str]) -> None:
        """Look after the pods that wait at a node while the current turn goes on.

        Pods that have waited too long are unreserved. Once the node is slow, pods whose Binding was not sent move to
        other nodes where they fit; the others get an event that says why they wait. Pods of groups do not move.

        Parameters
        ----------
        why
            Returns why the current turn does not end, in words for those who read of it in a namespace.
        """
        self._expire(node)
        lane, now = self._lanes[node], self._clock.monotonic()
        if not self._is_slow(lane, now) or now - lane.looked_at < self._poll_interval:
            return
        lane.looked_at = now
        slow, fruitless, gone = self._slow_nodes(), 0, 0
        waiting = [
            item
            for item in filter(None, (lane.current, *lane.all()))
            if not item.group.has_sent_bindings and not item.is_over
        ]
        for item in sorted(waiting, key=lambda item: item.asked):
            if len(item.group.items) == 1 and fruitless < _MOST_FRUITLESS:
                item.asked = now
                if self._go_elsewhere(item, slow):
                    gone += 1
                    if gone == _MOST_GONE:
                        # The other pods move next time, so that other work is not delayed.
                        lane.looked_at = now - self._poll_interval
                        return
                    continue
                fruitless += 1
            self._tell_why(item, why)

    def _go_elsewhere(self, item: BindTask, slow: Collection[str]) -> bool:
        """Move a pod whose Binding was not sent to a node that is not slow; False if it fits on none."""
        nodes_left = item.nodes_left | {item.node}
        try:
            decision = None if self.stopping else self._engine.decide_elsewhere(item.uid, nodes_left.union(slow))
        except Exception:  # the error concerns this pod alone; it goes on waiting here
            if self._errors.take(self._clock.monotonic()):
                log.exception("pod %s could not be decided for another node than %s", item.decision.pod, item.node)
            return False
        if decision is None or decision.placement is None:
            return False
        self._stats.moved += 1
        log.info(
            KeyedMessage("Moved pod away from slow node", pod=decision.pod, node=item.node, to=decision.placement.node)
        )
        item.enter(BindState.MOVED)
        self._lanes[item.node].leave(item)
        self._binder.submit(decision, nodes_left=nodes_left)
        return True

    def _tell_why(self, item: BindTask, why: Callable[[str], str]) -> None:
        """Report on a pod why its turn does not come."""
        pod = self._engine.state.pod(item.uid)
        if pod is not None and not self.stopping:
            text = f"waits for its turn on node {item.node}: {why(pod.namespace)}"
            self._reporter.warning(pod, text, EventReason.WAITING_FOR_NODE)

    def note_progress(self, node: str) -> None:
        """Note that the pod whose turn it is has got what it waited for, so that the node is not slow."""
        self._lanes[node].since = self._clock.monotonic()

    def unreserve(self, item: BindTask, requeue: Requeue = Requeue.BACK_OFF, at_least: float = 0.0) -> None:
        """Have an unbound pod decided anew, together with its group unless a Binding of the group was sent.

        Parameters
        ----------
        requeue, at_least
            When the pod is tried again, and the minimum back-off in seconds.
        """
        if item.is_over:
            return
        group = item.group
        members = [item] if group.has_sent_bindings else [member for member in group.items if not member.is_over]
        for member in members:
            member.enter(BindState.UNRESERVED)
        for member in members:
            if member.node in self._lanes:
                self._lanes[member.node].remove([member])
                self.node_changed(member.node)
            self._engine.unreserve(member.uid, self._clock.monotonic(), requeue, at_least)
            self._withdrawn(member.uid)
            self._signals.decide_again()

    def stop(self) -> None:
        """Unreserve all pods whose turn has not come, and wake the binds of the current turns."""
        self.stopping = True
        for node, lane in self._lanes.items():
            for item in lane.all():
                self.unreserve(item)
            self.node_changed(node)

    def _close(self, node: str) -> None:
        """Remove the lane of a node; pods left in it (after an error) are unreserved."""
        for item in self._lanes[node].all():
            self.unreserve(item)
        del self._lanes[node]

    def _try_commit(self, group: BindGroup) -> bool:
        """Commit a group if it is next in every lane, and return whether; unreserve it if a placement does not hold."""
        try:
            return self._commit_if_next(group)
        except Exception as error:  # the error concerns this group alone
            log.exception("the turn of pod %s could not begin", group.items[0].decision.pod)
            for item in group.items:
                pod = self._engine.state.pod(item.uid)
                if pod is not None:
                    self._reporter.binding_failed(pod, internal_error(error))
            self.unreserve(group.items[0])
            return False

    def _commit_if_next(self, group: BindGroup) -> bool:
        nodes = {item.node for item in group.items if item.node}
        for node in nodes:
            lane = self._lanes[node]
            if lane.current is not None or not self._is_next(lane, group):
                return False
        if len(group.items) > 1:
            if not all(self._can_be_served(item) for item in group.items if item.node):
                return False
            if self.stopping or any(self._engine.assumed.recheck(item.uid) is None for item in group.items):
                self.unreserve(group.items[0])
                return False
        for item in group.items:
            item.enter(BindState.COMMITTED)
        for node in nodes:
            self._lanes[node].commit(group)
            self.node_changed(node)
        for item in group.items:
            if not item.node:
                self._tasks.start(self._binder.bind(item), f"bind-{item.decision.pod}")
        return True

    def _can_be_served(self, item: BindTask) -> bool:
        """Tell whether the node side would serve a pod at once."""
        pod = self._engine.state.pod(item.uid)
        if pod is None:
            return True  # the recheck of the placement will fail
        kind = self._locker.kind(pod)
        held = kind is not None and self._locker.find(item.node, kind) is not None
        return not held and self._locker.pod_awaiting_plugin(item.node, pod) is None
