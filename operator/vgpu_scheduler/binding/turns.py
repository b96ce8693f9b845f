"""Whose turn it is at each node: lanes, and groups that wait to be first in all of theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from vgpu_scheduler.apiclient import wait_for_event
from vgpu_scheduler.binding.context import Background, BindContext, BinderOptions, BindStats
from vgpu_scheduler.binding.lanes import BindGroup, BindState, BindTask, Lane
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.model import Decision, EventReason
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

_MOST_FRUITLESS: Final = 16
"""Pods of a lane that are asked at a time whether they fit elsewhere, and do not."""
_PASSED_AFTER: Final = 2.0
"""Seconds for which a group holds up a lane until lower ranks pass it there."""
_MOST_GONE: Final = 64
"""Pods of a lane that go elsewhere at a time."""


class BindLanes:
    """The lanes of all nodes, and what becomes of the pods that wait there.

    Parameters
    ----------
    context, locker, options
        What it works with.
    stats
        Where it counts.
    tasks
        Where lanes are served, and pods are bound that wait in none.
    bind
        Binds a pod whose turn it is.
    submit
        Takes over a pod that was decided for another node, with the slow nodes that it has left.

    Attributes
    ----------
    stopping
        Nobody waits any more.
    """

    def __init__(
        self,
        context: BindContext,
        locker: NodeLocker,
        options: BinderOptions,
        stats: BindStats,
        tasks: Background,
        bind: Callable[[BindTask], Coroutine[Any, Any, None]],
        submit: Callable[[Decision, frozenset[str]], None],
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
        self._bind = bind
        self._submit = submit
        self._lanes: dict[str, Lane] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self.stopping = False

    @property
    def depths(self) -> list[int]:
        """How many pods wait at each node."""
        return [len(lane) for lane in self._lanes.values()]

    def join(self, group: BindGroup) -> None:
        """Have the pods of a group wait in the lanes of their nodes; those that need none are bound at once."""
        for item in group.items:
            item.enter(BindState.QUEUED)
            if not item.node:
                continue
            if item.node not in self._lanes:
                self._lanes[item.node] = Lane()
                self._changed[item.node] = asyncio.Event()
                self._tasks.start(self._serve(item.node))
            self._lanes[item.node].push(item)
            self.node_changed(item.node)
        if not any(item.node for item in group.items):
            self._commit(group)

    async def _serve(self, node: str) -> None:
        """Bind those who wait at a node, one after the other, as long as there are any."""
        try:
            while (item := await self._next(node)) is not None:
                await self._bind(item)
        finally:
            self._close(node)

    def node_changed(self, node: str) -> None:
        """Note that a node, one of its pods or its lane has changed, and wake the binds that wait at the node."""
        event = self._changed.get(node)
        if event is not None:
            event.set()

    async def _next(self, node: str) -> BindTask | None:
        """Wait for the next turn at a node; None when nobody waits there any more."""
        lane = self._lanes[node]
        lane.current = None
        while len(lane):
            item = lane.head
            if len(item.group.items) > 1 and item.state is BindState.QUEUED:
                if not await self._clear_lock(item):
                    self.unreserve(item, Requeue.NOW)
                if not len(lane) or lane.head is not item:
                    continue  # others came or went meanwhile
            if self._lets_go(lane):
                return lane.begin(self._clock.monotonic())
            if item.is_over:
                continue
            self._expire(node)
            if len(lane) and lane.head.group is item.group:
                await self.wait(node, min(self._poll_interval, _PASSED_AFTER))
        return None

    def _lets_go(self, lane: Lane) -> bool:
        """Tell whether the turn of a pod has come, which is the first in its lane then."""
        if lane.head.state is BindState.COMMITTED or self._commit(lane.head.group):
            return True
        if len(lane) and lane.head.group.held_up is None:
            lane.head.group.held_up = self._clock.monotonic()
        for item in lane.in_order() if len(lane) > 1 else ():
            if not item.is_over and self._commit(item.group):
                return True
            if not self._may_be_passed(item.group):
                return False
        return False

    def _may_be_passed(self, group: BindGroup) -> bool:
        """Tell whether lower ranks go before a group: not once it has waited for half of what it may wait at most."""
        now = self._clock.monotonic()
        if group.held_up is None or now - group.items[0].joined >= self._options.node_side_timeout / 2:
            return False
        return now - group.held_up >= _PASSED_AFTER

    def _is_next(self, lane: Lane, group: BindGroup) -> bool:
        """Tell whether a group is first in a lane, or all before it may be passed."""
        if lane.head.group is group:
            return True
        for item in lane.in_order():
            if item.group is group:
                return True
            if item.state is BindState.COMMITTED or not self._may_be_passed(item.group):
                return False
        return False

    async def _clear_lock(self, item: BindTask) -> bool:
        """Take away a lock that nobody uses, for a group that would wait for it; False if its node is closed."""
        pod = self._engine.state.pod(item.uid)
        if pod is None:
            return True  # it does not hold any more
        if self._locker.is_closed(item.node, pod):
            return False
        kind = self._locker.kind(pod)
        if kind:
            await self._locker.clear(item.node, kind, pod)
        return True

    async def wait(self, node: str, at_most: float | None = None) -> None:
        """Wait until a node, a pod on it or its lane is not what it was, or for the interval between polls.

        Parameters
        ----------
        at_most
            Seconds, if they are less than that interval.
        """
        event, seconds = self._changed[node], self._poll_interval if at_most is None else at_most
        event.clear()
        await wait_for_event(event, seconds)

    def _expire(self, node: str) -> None:
        """Give back the pods of a lane that have waited too long."""
        for item in self._lanes[node].expired(self._clock.monotonic() - self._options.node_side_timeout):
            if not item.is_over:
                self._stats.expired += 1
                self.unreserve(item)

    def _slow_nodes(self) -> frozenset[str]:
        """Return the nodes where a turn has not ended for long."""
        now = self._clock.monotonic()
        return frozenset(node for node, lane in self._lanes.items() if self._is_slow(lane, now))

    def _is_slow(self, lane: Lane, now: float) -> bool:
        return lane.current is not None and now - lane.since >= self._options.slow_after

    def check_waiting(self, node: str, why: str) -> None:
        """Look at those that wait at a node while a turn goes on.

        Those that have waited too long are given back. Once the node is slow, those of which nothing was sent go
        elsewhere, where they fit; the others are told why they wait. Pods of larger groups stay with their group.

        Parameters
        ----------
        why
            Why the turn does not end.
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
                        # The others go next time, so that nothing else waits.
                        lane.looked_at = now - self._poll_interval
                        return
                    continue
                fruitless += 1
            self._tell_why(item, why)

    def _go_elsewhere(self, item: BindTask, slow: Collection[str]) -> bool:
        """Have a pod of which nothing was sent wait at a node that is not slow; False if it fits at none."""
        nodes_left = item.nodes_left | {item.node}
        decision = None if self.stopping else self._engine.decide_elsewhere(item.uid, nodes_left.union(slow))
        if decision is None or decision.placement is None:
            return False
        self._stats.moved += 1
        log.info(
            KeyedMessage("Moved pod away from slow node", pod=decision.pod, node=item.node, to=decision.placement.node)
        )
        item.enter(BindState.MOVED)
        self._lanes[item.node].leave(item)
        self._submit(decision, nodes_left)
        return True

    def _tell_why(self, item: BindTask, why: str) -> None:
        """Tell a pod why its turn does not come."""
        pod = self._engine.state.pod(item.uid)
        if pod is not None and not self.stopping:
            self._reporter.warning(pod, f"waits for its turn on node {item.node}: {why}", EventReason.WAITING_FOR_NODE)

    def note_progress(self, node: str) -> None:
        """Note that the plugins of a node serve the pod whose turn it is: what it waited for has come."""
        self._lanes[node].since = self._clock.monotonic()

    def unreserve(self, item: BindTask, requeue: Requeue = Requeue.BACK_OFF, at_least: float = 0.0) -> None:
        """Have a pod decided anew that is not bound: with all of its group, unless a Binding of that was sent.

        Parameters
        ----------
        requeue, at_least
            When it is tried again, and how many seconds a back-off lasts at least.
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

    def leave(self, uid: str) -> bool:
        """Have a pod decided anew that waits at a node; False if it waits nowhere, or if its Binding was sent."""
        waiting = (item for lane in self._lanes.values() for item in (lane.current, *lane.all()) if item is not None)
        item = next((item for item in waiting if item.uid == uid and not item.is_over), None)
        if item is None or item.group.has_sent_bindings:
            return False
        self.unreserve(item)
        return True

    def stop(self) -> None:
        """Give back all pods whose turn has not come, and have those look again whose turn it is."""
        self.stopping = True
        for node, lane in self._lanes.items():
            for item in lane.all():
                self.unreserve(item)
            self.node_changed(node)

    def _close(self, node: str) -> None:
        """Close the lane of a node; whatever broke it off, who waited in it is not left behind."""
        for item in self._lanes[node].all():
            self.unreserve(item)
        del self._lanes[node], self._changed[node]

    def _commit(self, group: BindGroup) -> bool:
        """Let a group go whose turn it is in every lane that it uses; one that does not hold any more is given back."""
        nodes = {item.node for item in group.items if item.node}
        for node in nodes:
            lane = self._lanes[node]
            if lane.current is not None or not self._is_next(lane, group):
                return False
        if len(group.items) > 1:
            if not all(self._is_served(item) for item in group.items if item.node):
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
                self._tasks.start(self._bind(item))
        return True

    def _is_served(self, item: BindTask) -> bool:
        """Tell whether the node side would serve a pod at once."""
        pod = self._engine.state.pod(item.uid)
        if pod is None:
            return True  # it does not hold any more
        kind = self._locker.kind(pod)
        held = kind is not None and self._locker.find(item.node, kind.annotation) is not None
        return not held and self._locker.pod_awaiting_plugin(item.node, pod) is None
