"""Carries placements out: lock, Binding, and the wait for the node side.

One bind is at most two writes: a JSON patch that takes the node lock, and the Binding, which carries node, annotations
and label in one transaction. Whatever happens in between, a reservation is only given back when it is known that the
pod was not bound, and a lock of ours is only left to the node side when it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.apiclient import ApiClient
from vgpu_scheduler.binding.answers import Answer, Verdict
from vgpu_scheduler.binding.clock import Clock
from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.lanes import BindUnit, Item
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.reporter import Reporter
from vgpu_scheduler.binding.sender import Sender, Step
from vgpu_scheduler.binding.turns import Turns
from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.engine import Cause, Closure, Engine
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Placement

log = logging.getLogger(__name__)


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
    unlocked
        Binds at a time that need no lock.
    label_first
        Write the label before the Binding: API servers before 1.35 ignore labels on Bindings.
    """

    timeout: float = 5.0
    longest_wait: float = 60.0
    patience: float = 5.0
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
        Told how many attempts and seconds a pod took from its coming to its binding.
    """

    on_step: Callable[[Step, Pod], Awaitable[None]] = _nothing
    on_bound: Callable[[int, float], None] = lambda _, __: None


@dataclass(slots=True)
class BindStats:
    """What the binder has done, for metrics."""

    bound: int = 0
    failed: int = 0
    refitted: int = 0
    expired: int = 0


class Binder:
    """Binds decided pods.

    Parameters
    ----------
    api, engine, reporter, clock
        What it works with.
    may_write
        Tells whether the lease will still be held in so many seconds; asked right before every write.
    options
        Times and limits.
    hooks
        Who else is told.
    """

    def __init__(
        self,
        api: ApiClient,
        engine: Engine,
        reporter: Reporter,
        clock: Clock,
        may_write: Callable[[float], bool],
        options: BinderOptions = BinderOptions(),
        hooks: BinderHooks = BinderHooks(),
    ) -> None:
        self._engine = engine
        self._reporter = reporter
        self._clock = clock
        self._may_write = may_write
        self._options = options
        self._hooks = hooks
        self.locker = NodeLocker(api, engine, reporter, clock, may_write, options.timeout)
        self._sender = Sender(api, engine, clock, may_write, options.timeout, options.label_first, hooks.on_step)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unlocked = asyncio.Semaphore(options.unlocked)
        self._serial = 0
        self._stopping = False
        self.wake = asyncio.Event()
        """Set when a pod went back to the queue."""
        self.stats = BindStats()
        self._turns = Turns(self, clock, options.longest_wait, options.patience, self._count_expired)
        self._closed = ClosedNodeWatch(engine, self.locker, reporter, clock, options.patience, self.wake.set)

    # Coming in -------------------------------------------------------------------------------------------------------

    def submit(self, *decisions: Decision) -> None:
        """Take over the placements of a unit, which the engine has assumed."""
        unit = BindUnit()
        self._serial += 1
        now = self._clock.monotonic()
        urgency = min(-self._priority(decision.uid) for decision in decisions)
        for number, decision in enumerate(decisions):
            assert decision.placement is not None
            queue = self._engine.queue
            in_turn = self._engine.dialect.node_side.in_turn(decision.claims)
            item = Item(
                (urgency, now, self._serial, number),
                decision.uid,
                decision,
                unit,
                node=decision.placement.node if in_turn else "",
                joined=now,
                came=now - queue.waited(decision.uid, now),
                attempts=queue.attempts(decision.uid),
            )
            unit.items.append(item)
            self._reporter.forget(decision.uid)  # what was said about it before must not be written any more
        for node in self._turns.join(unit):
            self._spawn(self._run_lane(node))

    def _priority(self, uid: str) -> int:
        pod = self._engine.state.pod(uid)
        return pod.priority if pod else 0

    def node_moved(self, name: str) -> None:
        """Note that a node, or a pod on it, was observed anew: whoever waits at it looks again."""
        self._turns.moved(name)
        if self._may_write(0.0):
            self._closed.notice(name)

    async def look_at_closed_nodes(self) -> None:
        """Find out which locks nobody uses any more, before anything is decided; wait for that only so long."""
        await self._closed.look(self._options.timeout)

    @property
    def depth(self) -> int:
        """How many pods wait at nodes."""
        return sum(self._turns.depths)

    @property
    def deepest(self) -> int:
        """How many pods wait at the node where most do."""
        return max(self._turns.depths, default=0)

    async def stop(self, grace: float) -> None:
        """Let the binds under way finish for at most ``grace`` seconds; what waits is given back."""
        self._stopping = True
        await self._closed.stop()
        self._turns.give_all_back()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_lane(self, node: str) -> None:
        try:
            while (item := await self._turns.next(node)) is not None:
                await self._guarded(item, self._bind_in_turn(item))
        finally:
            self._turns.close(node)

    # What becomes of pods that wait (see Turns) ----------------------------------------------------------------------

    async def clear(self, item: Item) -> bool:
        """Take away a lock that nobody uses, for a unit that would wait for it; False if its node is closed."""
        pod = self._engine.state.pod(item.uid)
        kind = self.locker.kind(pod) if pod else None
        if self._engine.closed_nodes.is_closed(item.node, kind):
            return False
        if pod and kind:
            await self.locker.clear(item.node, kind, pod)
        return True

    def is_served(self, item: Item) -> bool:
        """Tell whether the node side would serve a pod at once."""
        pod = self._engine.state.pod(item.uid)
        if pod is None:
            return True  # it does not hold any more
        kind = self.locker.kind(pod)
        held = kind is not None and self.locker.find(item.node, kind.annotation) is not None
        return not held and self.locker.in_the_way(item.node, pod) is None

    def holds(self, item: Item) -> bool:
        """Tell whether a placement holds now."""
        return not self._stopping and self._engine.recheck(item.uid) is not None

    def give_back(self, item: Item, delay: float | None) -> None:
        """Have a pod decided anew."""
        self._engine.give_back(item.uid, self._clock.monotonic(), delay)
        self.wake.set()

    def bind_at_once(self, item: Item) -> None:
        """Bind a pod whose node side serves it at any time."""
        self._spawn(self._bind_at_once(item))

    # One bind --------------------------------------------------------------------------------------------------------

    async def _bind_at_once(self, item: Item) -> None:
        async with self._unlocked:
            await self._guarded(item, self._bind_unlocked(item))

    async def _bind_unlocked(self, item: Item) -> None:
        checked = await self._check(item)
        if checked:
            await self._send(item, *checked, lock="")

    async def _guarded(self, item: Item, bind: Coroutine[Any, Any, None]) -> None:
        """Keep one bad pod from stopping the others; what was sent is followed up, never just dropped."""
        try:
            await bind
        except Exception:
            log.exception("bind of pod %s broke off", item.decision.pod)
            if item.sent is None:
                self.stats.failed += 1
                self._turns.give_back(item)
                return
            pod, placement, lock = item.sent
            await self._settle(item, pod, placement, lock, await self._sender.find_out(pod, placement, "broke off"))

    async def _bind_in_turn(self, item: Item) -> None:
        if not await self._wait_for_plugin(item):
            self._turns.give_back(item, None)
            return
        checked = await self._check(item)
        if checked is None:
            return
        pod, placement = checked
        if self.locker.kind(pod) is None:
            if await self._send(item, pod, placement, lock=""):
                await self._node_side(item, "")
            return
        lock = await self._take_lock(item, pod)
        if not lock:
            return
        await self._hooks.on_step(Step.LOCKED, pod)
        still = self._engine.recheck(item.uid)  # others may have come while the lock was waited for
        if still is None:
            await self.locker.release(item.node, lock)
            self._turns.give_back(item)
        elif await self._send(item, pod, still, lock):
            await self._node_side(item, lock)

    async def _wait_for_plugin(self, item: Item) -> bool:
        """Wait until no plugin of the node can take this pod for one that is there already.

        Those that this process has bound have been waited for; there may be others, of a process before it. Returns
        whether it is the pod's turn; if that takes longer than others would wait, the node is closed.
        """
        deadline = item.joined + self._options.longest_wait
        while not self._stopping:
            pod = self._engine.state.pod(item.uid)
            if pod is None:
                return True
            if self._engine.closed_nodes.is_closed(item.node, self.locker.kind(pod)):
                return False
            other = self.locker.in_the_way(item.node, pod)
            if other is None:
                return True
            if self._clock.monotonic() >= deadline:
                self._report_silence(other.uid, item.node)
                self._close(item.node, Closure(Cause.PLUGIN_SILENT, "", other.uid))
                return False
            self._turns.expire(item.node)
            await self._turns.wait(item.node)
        return False

    async def _check(self, item: Item) -> tuple[Pod, Placement] | None:
        """Check the placement at the head of its lane; a pod that must not be bound is given back."""
        placement = self._engine.recheck(item.uid)
        pod = self._engine.state.pod(item.uid)
        if placement is None or pod is None or self._stopping:
            self._turns.give_back(item)
            return None
        if placement != item.decision.placement:
            self.stats.refitted += 1
        await self._hooks.on_step(Step.CHECKED, pod)
        return pod, placement

    async def _take_lock(self, item: Item, pod: Pod) -> str:
        """Take the node lock; return its value, or an empty text if the pod has been given back."""
        deadline = item.joined + self._options.longest_wait
        while not self._stopping and not item.unit.given_back:
            node = self._engine.state.node(item.node)
            kind = self.locker.kind(pod)
            if node is None or kind is None or not self._may_write(self._options.timeout):
                break  # the node is gone, the pod has changed, or the lease may be lost
            if self._clock.monotonic() >= deadline:
                self._close_lock(item.node, kind)
            if self._engine.closed_nodes.is_closed(item.node, kind):
                self._turns.give_back(item, None)
                return ""
            lock, held = await self.locker.try_take(node, pod)
            if lock:
                return lock
            # What was decided on may have moved while the holder was read.
            if held and self._engine.state.node(item.node) is node:
                self._turns.expire(item.node)
                await self._turns.wait(item.node)
        self._turns.give_back(item)
        return ""

    async def _send(self, item: Item, pod: Pod, placement: Placement, lock: str) -> bool:
        """Send the Binding and follow its answer to the end; True if the pod is bound as decided."""
        while True:
            if item.unit.given_back:
                if lock:
                    await self.locker.release(placement.node, lock)
                return False
            item.unit.started = True
            item.sent = (pod, placement, lock)
            verdict = await self._sender.send(pod, placement, self._engine.restate(item.decision, placement))
            if verdict.answer is not Answer.THROTTLED or lock:
                break  # whoever else wants the node must not wait for the API server's patience
            await asyncio.sleep(verdict.retry_after)
            if self._engine.recheck(item.uid) != placement:
                break
        return await self._settle(item, pod, placement, lock, verdict)

    async def _settle(self, item: Item, pod: Pod, placement: Placement, lock: str, verdict: Verdict) -> bool:
        item.sent = None
        if verdict.answer is Answer.BOUND:
            self._hooks.on_bound(item.attempts, self._clock.monotonic() - item.came)
            self._engine.confirmed(pod.uid)
            self._reporter.forget(pod.uid)
            self.stats.bound += 1
            await self._hooks.on_step(Step.BOUND, pod)
            self._reporter.scheduled(pod, placement.node)
            await self._hooks.on_step(Step.REPORTED, pod)
            return True
        self.stats.failed += 1
        log.info("pod %s was not bound: %s", pod.key, verdict.message)
        if lock:
            await self.locker.release(placement.node, lock)
        if verdict.answer is Answer.GONE:
            self._engine.remove_pod(pod.uid, self._clock.monotonic())
        elif verdict.answer is Answer.CONFLICT:
            await self._sender.refresh(pod)
        elif verdict.answer is Answer.REFUSED:
            self._reporter.binding_failed(pod, verdict.message)
        self._turns.give_back(item, verdict.retry_after)
        return False

    async def _node_side(self, item: Item, lock: str) -> None:
        """Wait until the node side has answered, so that the next pod does not take the lock from under it.

        A node whose plugin does not answer is closed: who waits there is decided anew.
        """
        node = item.node
        started = looked = self._clock.monotonic()
        while not self._stopping and not self._lock_is_free(item.uid, node, lock):
            await self._turns.wait(node)
            if self._clock.monotonic() - looked >= self._options.patience:
                looked = self._clock.monotonic()
                await self.locker.refresh(node)  # a watch that lags must not hold the lane up
                pod = self._engine.state.pod(item.uid)
                if pod is None or self._has_answered(pod):
                    return  # the lock is left over; whoever wants it next finds that out
            self._turns.expire(node)
            if self._clock.monotonic() - started > self._options.longest_wait:
                self._report_silence(item.uid, node)
                annotation = self.locker.holding(node, lock) if lock else ""
                if annotation is not None:
                    self._close(node, Closure(Cause.PLUGIN_SILENT, annotation, lock or item.uid))
                return

    def _close_lock(self, node: str, kind: NodeLock) -> None:
        """Close a node whose lock somebody has held for as long as anybody waits."""
        found = self.locker.find(node, kind.annotation)
        if found is not None:
            self._close(node, Closure(Cause.PLUGIN_SILENT, found.kind.annotation, found.value))

    def _close(self, node: str, closure: Closure) -> None:
        self._engine.closed_nodes.close(node, closure)
        self._closed.notice(node)

    def _report_silence(self, uid: str, node: str) -> None:
        pod = self._engine.state.pod(uid)
        if pod:
            waited = f"{self._options.longest_wait:.0f} s"
            self._reporter.binding_failed(pod, f"the device plugin of node {node} has not answered for {waited}")

    # Small parts -----------------------------------------------------------------------------------------------------

    def _lock_is_free(self, uid: str, node_name: str, lock: str) -> bool:
        pod = self._engine.state.pod(uid)
        if self._engine.state.node(node_name) is None or pod is None or pod.terminal:
            return True
        if not lock:
            return self.locker.is_served(pod)
        return self.locker.holding(node_name, lock) is None

    def _has_answered(self, pod: Pod) -> bool:
        return self._engine.dialect.node_side.has_answered(pod.annotations)

    def _count_expired(self) -> None:
        self.stats.expired += 1

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
