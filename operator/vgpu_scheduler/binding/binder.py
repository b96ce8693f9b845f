"""Carries placements out: lock, Binding, and the wait for the node side.

One bind is at most two writes: a JSON patch that takes the node lock, and the Binding, which carries node, annotations
and label in one transaction. A reservation is released only if the pod is known not to be bound, and a lock of ours is
left to the node side only if the pod was bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any
from weakref import WeakValueDictionary

from vgpu_scheduler.apiclient import TaskSet
from vgpu_scheduler.binding.answers import BindingAnswer, BindingResult
from vgpu_scheduler.binding.bind_tasks import BindGroup, BindState, BindTask, SentBinding
from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.context import BindContext, BinderOptions, BindStats
from vgpu_scheduler.binding.dry_runs import BindingDryRuns
from vgpu_scheduler.binding.hooks import NO_HOOKS, BinderHooks, HookPoint
from vgpu_scheduler.binding.in_doubt import InDoubtBindings
from vgpu_scheduler.binding.lanes import BindLanes
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.plugin_turn import PluginTurn
from vgpu_scheduler.binding.sender import BindingSender
from vgpu_scheduler.binding.volumes import VolumeBinder, VolumeConflictError, VolumeError
from vgpu_scheduler.engine import Requeue, TakenLock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Placement
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)


class Binder:
    """Binds decided pods.

    Parameters
    ----------
    context
        The shared context of binding.
    options
        Times and limits.
    hooks
        Called at steps and outcomes of binds.
    """

    def __init__(self, context: BindContext, options: BinderOptions, hooks: BinderHooks = NO_HOOKS) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._clock = context.clock
        self._may_write = context.may_write
        self._options = options
        self._hooks = hooks.guarded()
        self.locker = NodeLocker(context, options.timeout)
        self._sender = BindingSender(context, options.timeout, options.label_first, self._hooks.at_point)
        self._tasks = TaskSet()
        self._unlocked = asyncio.Semaphore(options.max_unlocked_binds)
        self._binds: WeakValueDictionary[str, BindTask] = WeakValueDictionary()
        """The last bind of each pod, by UID; weak, because a bind ends in many places."""
        self._serial = 0
        self.stats = BindStats()
        self._lanes = BindLanes(context, self.locker, options, self.stats, self._tasks, self)
        self._dry_runs = BindingDryRuns(context, self._sender, self._lanes, self.stats, self._not_carried_out)
        self._closed = ClosedNodeWatch(context, self.locker, options.poll_interval)
        self._in_doubt = InDoubtBindings(
            context, self.locker, self._sender, self._closed, options.poll_interval, self._settle_doubt
        )
        self._volumes = VolumeBinder(context, options)
        self._plugins = PluginTurn(context, self.locker, self._lanes, self._closed, options)
        context.signals.node_changed.listen(self._node_changed)
        context.signals.volume_claim_changed.listen(self._volumes.volume_claim_changed)

    # Coming in -------------------------------------------------------------------------------------------------------

    def submit(self, *decisions: Decision, nodes_left: frozenset[str] = frozenset()) -> None:
        """Bind the pods of a group, whose placements the engine has assumed.

        Parameters
        ----------
        nodes_left
            The slow nodes that the pod has left.
        """
        group = BindGroup()
        self._serial += 1
        now = self._clock.monotonic()
        urgency = min(-self._priority(decision.uid) for decision in decisions)
        for number, decision in enumerate(decisions):
            assert decision.placement is not None
            queue = self._engine.queue
            item = BindTask(
                (urgency, now, self._serial, number),
                decision.uid,
                decision,
                group,
                node=decision.placement.node if decision.placement.dialect or self._is_serialized(decision) else "",
                decided_at=now,
                queued_at=now - queue.waited(decision.uid, now),
                attempts=queue.attempts(decision.uid),
                nodes_left=nodes_left,
            )
            group.items.append(item)
            self._binds[decision.uid] = item
            self._reporter.forget(decision.uid)  # so that no earlier condition is written any more
        if any(decision.placement and decision.placement.volumes for decision in decisions):
            self._tasks.start(self._join_with_volumes(group), f"volumes-of-{decisions[0].pod}")
        else:
            self._lanes.join(group)

    def cancel_unsent(self, uid: str) -> bool:
        """Have a pod decided anew, wherever its bind waits; False if there is none, or a Binding was sent.

        After a Binding that was not carried out, the pod is decided anew by itself, no sooner than the answer allows.
        """
        item = self._binds.get(uid)
        if item is None or item.is_over or item.group.has_sent_bindings or item.group.is_failing:
            return False
        self._lanes.unreserve(item)
        return True

    def is_unsent(self, uid: str) -> bool:
        """Tell whether a pod waits to be bound and its Binding was not sent, so that only others can have bound it."""
        item = self._binds.get(uid)
        return item is not None and not item.is_over and not item.is_sent

    async def _join_with_volumes(self, group: BindGroup) -> None:
        """Bind the volumes of a group before it joins any lane; its cards stay reserved meanwhile."""
        try:
            async with asyncio.TaskGroup() as binds:
                for item in group.items:
                    placement = item.decision.placement
                    if placement is not None and placement.volumes:
                        binds.create_task(self._volumes.bind(item, placement))
        except* VolumeError as problems:
            self._volumes_failed(group, problems.exceptions[0])
        except* Exception:  # otherwise the pods would stay assumed for ever
            log.exception("binding the volumes of pod %s failed with an internal error", group.items[0].decision.pod)
            self.stats.failed += 1
            self._lanes.unreserve(group.items[0])
        else:
            if group.is_over:
                return
            for item in group.items:
                item.decided_at = self._clock.monotonic()
            self._lanes.join(group)

    def _volumes_failed(self, group: BindGroup, problem: Exception) -> None:
        """Have a group decided anew because its volumes cannot be bound as decided, unless it has left already."""
        if group.is_over:
            return
        log.info("volumes of pod %s were not bound: %s", group.items[0].decision.pod, problem)
        self.stats.failed += 1
        for item in group.items:
            pod = self._engine.state.pod(item.uid)
            if pod is not None and not self._lanes.stopping and not isinstance(problem, VolumeConflictError):
                self._reporter.binding_failed(pod, f"binding volumes: {problem}")
        self._lanes.unreserve(group.items[0])

    def _is_serialized(self, decision: Decision) -> bool:
        """Tell whether the node side has to finish with this pod before the next one is bound there."""
        return self._engine.dialects.node_side.serializes(decision.claims)

    def _priority(self, uid: str) -> int:
        """Return the priority of a pod in its lane, the same as in the queue; 0 if the pod is gone."""
        pod = self._engine.state.pod(uid)
        return self._engine.groups.priority(pod) if pod else 0

    def _node_changed(self, name: str) -> None:
        """Note that a node or one of its pods changed or is gone, and wake the binds that wait there."""
        if self._engine.state.node(name) is None:
            self.locker.forget(name)
        self._lanes.node_changed(name)
        self._in_doubt.node_changed(name)
        if self._may_write(0.0):
            self._closed.notice(name)

    async def look_at_closed_nodes(self) -> None:
        """Wait, with a timeout, until orphaned locks of closed nodes are found, before anything is decided."""
        await self._closed.wait_until_checked(self._options.timeout)

    @property
    def depth(self) -> int:
        """How many pods wait in lanes."""
        return sum(self._lanes.depths)

    @property
    def deepest(self) -> int:
        """How many pods wait in the longest lane."""
        return max(self._lanes.depths, default=0)

    async def stop(self, grace: float) -> None:
        """Unreserve the pods that wait, and let the binds under way finish for at most ``grace`` seconds."""
        self._lanes.stopping = True
        await self._in_doubt.stop()
        await self._closed.stop()
        await self._volumes.stop()
        self._lanes.stop()
        await self._tasks.stop(grace)

    # One bind --------------------------------------------------------------------------------------------------------

    async def bind(self, item: BindTask) -> None:
        """Bind a pod whose turn it is; called by the lanes. Concurrent binds without a lane are limited."""
        if item.node:
            await self._guarded(item, self._bind_serialized(item))
        else:
            async with self._unlocked:
                await self._guarded(item, self._bind_unlocked(item))

    async def _bind_unlocked(self, item: BindTask) -> None:
        checked = await self._check(item)
        if checked:
            await self._send(item, *checked, lock=None)

    async def _guarded(self, item: BindTask, bind: Coroutine[Any, Any, None]) -> None:
        """Run a bind; if it raises, unreserve the pod, or find out what became of a Binding that was sent."""
        try:
            await bind
        except Exception:
            log.exception("bind of pod %s failed with an internal error", item.decision.pod)
            if item.sent is None:
                self.stats.failed += 1
                if item.state is not BindState.BOUND:
                    self._lanes.unreserve(item)
                return
            result = await self._sender.find_out(item.sent.pod, item.sent.placement, "broke off")
            await self._end(item, item.sent, result)

    async def _bind_serialized(self, item: BindTask) -> None:
        if not await self._plugins.begin(item):
            self._lanes.unreserve(item, Requeue.NOW)
            return
        checked = await self._check(item)
        if checked is None:
            return
        pod, _ = checked
        taken = await self._plugins.take(item, pod)
        if taken is None:
            return
        lock = taken.lock
        if not item.is_over:
            item.enter(BindState.LOCKED)
        await self._hooks.at_point(HookPoint.LOCKED, pod)
        # While the bind waited for the lock, the node may have changed, or the pod may have been decided anew.
        still = None if item.is_over else self._engine.assumed.recheck(item.uid)
        pod = self._engine.state.pod(item.uid) or pod
        if still is None:
            await self._release(item.uid, item.node, lock)
            self._lanes.unreserve(item)
        elif await self._send(item, pod, still, lock) and self._is_serialized(item.decision):
            await self._plugins.finish(item, lock)

    async def _check(self, item: BindTask) -> tuple[Pod, Placement] | None:
        """Check a placement at the head of its lane; if it does not hold, unreserve the pod and return None."""
        item.lane_head_at = self._clock.monotonic()
        await self._dry_runs.ensure(item.group)
        placement = None if item.is_over else self._engine.assumed.recheck(item.uid)
        pod = self._engine.state.pod(item.uid)
        if placement is None or pod is None or self._lanes.stopping:
            self._lanes.unreserve(item)
            return None
        if placement != item.decision.placement:
            self.stats.refitted += 1
        item.enter(BindState.CHECKED)
        await self._hooks.at_point(HookPoint.CHECKED, pod)
        return pod, placement

    async def _send(self, item: BindTask, pod: Pod, placement: Placement, lock: TakenLock | None) -> bool:
        """Send the Binding and follow its answer to the end; True if the pod is bound as decided."""
        if item.is_over:
            await self._release(item.uid, item.node, lock)
            return False
        item.enter(BindState.SENT)
        while True:
            item.sent = SentBinding(pod, placement, lock)
            item.sent_at = self._clock.monotonic()
            decision = self._engine.assumed.after_recheck(item.decision, placement)
            result = await self._sender.send(pod, placement, decision)
            if result.answer is not BindingAnswer.UNKNOWN:
                self._answered(item, item.sent, result)
            if result.answer is not BindingAnswer.THROTTLED or lock is not None:
                break  # do not block the node for other pods
            await asyncio.sleep(result.retry_after)
            if item.is_over or self._engine.assumed.recheck(item.uid) != placement:
                break
        return await self._end(item, item.sent, result)

    def _answered(self, item: BindTask, sent: SentBinding, result: BindingResult) -> None:
        self._hooks.on_answer(sent.pod, result.answer, self._clock.monotonic() - item.sent_at)

    async def _end(self, item: BindTask, sent: SentBinding, result: BindingResult) -> bool:
        """End the turn of a pod whose Binding was sent; an unknown outcome is followed up after the turn."""
        if result.answer is not BindingAnswer.UNKNOWN:
            return await self._settle(item, sent, result)
        self._in_doubt.follow(item, sent, result.message)
        item.enter(BindState.IN_DOUBT)
        item.sent = None
        return False

    async def _settle_doubt(self, item: BindTask, sent: SentBinding, result: BindingResult) -> None:
        """Record the outcome of a Binding that was in doubt."""
        self._answered(item, sent, result)
        await self._settle(item, sent, result)

    async def _release(self, uid: str, node: str, lock: TakenLock | None) -> None:
        """Release the lock of a pod that was not bound to this node, if it has one.

        If an earlier leader has bound the pod to this node, the lock stays: the node side finds the pod through it.
        """
        pod = self._engine.state.pod(uid)
        if lock is not None and (pod is None or pod.node_name != node):
            await self.locker.release(node, lock)

    async def _settle(self, item: BindTask, sent: SentBinding, result: BindingResult) -> bool:
        """Record the outcome of a Binding and report it; True if the pod is bound as decided."""
        pod, placement, lock = sent
        bound = result.answer is BindingAnswer.BOUND
        if bound:  # first: if this raises, the Binding is still followed up
            self._engine.binding_succeeded(pod.uid)
        item.enter(BindState.BOUND if bound else BindState.FAILED)
        item.sent = None
        item.ended_at = self._clock.monotonic()
        self._hooks.on_attempt(item, pod, result.answer)
        if bound:
            self.stats.bound += 1
            self._reporter.forget(pod.uid)
            log.info(
                KeyedMessage(
                    "Successfully bound pod to node",
                    pod=pod.key,
                    node=placement.node,
                    evaluatedNodes=item.decision.nodes,
                    feasibleNodes=item.decision.feasible,
                )
            )
            await self._hooks.at_point(HookPoint.BOUND, pod)
            self._reporter.scheduled(pod, placement.node)
            await self._hooks.at_point(HookPoint.REPORTED, pod)
            return True
        self.stats.failed += 1
        log.info(KeyedMessage("Failed to bind pod", pod=pod.key, node=placement.node, err=result.message))
        requeue = await self._not_carried_out(pod, result)
        await self._release(pod.uid, placement.node, lock)
        self._lanes.unreserve(item, requeue, result.retry_after)
        return False

    async def _not_carried_out(self, pod: Pod, result: BindingResult) -> Requeue:
        """Record that a Binding (or its dry run) failed; return when the pod is decided anew."""
        if result.answer is BindingAnswer.CONFLICT:
            await self._sender.refresh(pod)
        current = self._engine.state.pod(pod.uid)
        if result.answer is BindingAnswer.GONE:
            self._engine.remove_pod(pod.uid, self._clock.monotonic())
        elif result.answer is BindingAnswer.CONFLICT:
            if current is not None and current.resource_version > pod.resource_version:
                return Requeue.NOW  # the pod merely changed after the decision
        elif result.answer is BindingAnswer.REFUSED:
            self._reporter.binding_failed(pod, result.message)
        return Requeue.BACK_OFF
