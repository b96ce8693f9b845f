"""Carries placements out: lock, Binding, and the wait for the node side.

One bind is at most two writes: a JSON patch that takes the node lock, and the Binding, which carries node, annotations
and label in one transaction. Whatever happens in between, a reservation is only given back when it is known that the
pod was not bound, and a lock of ours is only left to the node side when it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from vgpu_scheduler.binding.closed import ClosedNodeWatch
from vgpu_scheduler.binding.context import Background, BindContext, BinderOptions, BindStats
from vgpu_scheduler.binding.dry_runs import BindingDryRuns
from vgpu_scheduler.binding.in_doubt import InDoubtBindings
from vgpu_scheduler.binding.lanes import BindGroup, BindState, BindTask, SentBinding
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.plugin_turn import PluginTurn
from vgpu_scheduler.binding.sender import (
    NO_HOOKS,
    BindAttempt,
    BinderHooks,
    BindingAnswer,
    BindResult,
    BindStep,
    Sender,
)
from vgpu_scheduler.binding.turns import BindLanes
from vgpu_scheduler.binding.volumes import VolumeBinder, VolumeConflictError, VolumeError
from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Placement
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)


class Binder:
    """Binds decided pods.

    Parameters
    ----------
    context
        What it works with.
    options
        Times and limits.
    hooks
        Who else is told.
    """

    def __init__(self, context: BindContext, options: BinderOptions, hooks: BinderHooks = NO_HOOKS) -> None:
        self._engine = context.engine
        self._reporter = context.reporter
        self._clock = context.clock
        self._may_write = context.may_write
        self._options = options
        self._hooks = hooks.guarded()
        self.locker = NodeLocker(context, options.timeout)
        self._sender = Sender(context, options.timeout, options.label_first, self._hooks.on_step)
        self._tasks = Background()
        self._unlocked = asyncio.Semaphore(options.max_unlocked_binds)
        self._serial = 0
        self.stats = BindStats()
        self._lanes = BindLanes(
            context, self.locker, options, self.stats, self._tasks, self._bind, self._submit_elsewhere
        )
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
        """Take over the placements of a group, which the engine has assumed.

        Parameters
        ----------
        nodes_left
            The slow nodes that a pod has left.
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
                joined=now,
                came=now - queue.waited(decision.uid, now),
                attempts=queue.attempts(decision.uid),
                nodes_left=nodes_left,
            )
            group.items.append(item)
            self._reporter.forget(decision.uid)  # what was said about it before must not be written any more
        if any(decision.placement and decision.placement.volumes for decision in decisions):
            self._tasks.start(self._join_with_volumes(group))
        else:
            self._lanes.join(group)

    def leave(self, uid: str) -> bool:
        """Have a pod decided anew that waits at a node; see :meth:`BindLanes.leave`."""
        return self._lanes.leave(uid)

    def _submit_elsewhere(self, decision: Decision, nodes_left: frozenset[str]) -> None:
        self.submit(decision, nodes_left=nodes_left)

    async def _join_with_volumes(self, group: BindGroup) -> None:
        """Bind the volumes of all pods of a group before it joins any lane; its cards are kept meanwhile."""
        try:
            async with asyncio.TaskGroup() as binds:
                for item in group.items:
                    placement = item.decision.placement
                    if placement is not None and placement.volumes:
                        binds.create_task(self._volumes.bind(item.uid, placement))
        except* VolumeError as problems:
            self._volumes_failed(group, problems.exceptions[0])
        except* Exception:  # one bad group must not strand its pods
            log.exception("binding the volumes of pod %s broke off", group.items[0].decision.pod)
            self.stats.failed += 1
            self._lanes.unreserve(group.items[0])
        else:
            for item in group.items:
                item.joined = self._clock.monotonic()
            self._lanes.join(group)

    def _volumes_failed(self, group: BindGroup, problem: Exception) -> None:
        """Have a group decided anew whose volumes cannot be bound as decided."""
        log.info("volumes of pod %s were not bound: %s", group.items[0].decision.pod, problem)
        self.stats.failed += 1
        for item in group.items:
            pod = self._engine.state.pod(item.uid)
            if pod is not None and not self._lanes.stopping and not isinstance(problem, VolumeConflictError):
                self._reporter.binding_failed(pod, f"binding volumes: {problem}")
        self._lanes.unreserve(group.items[0])

    def _is_serialized(self, decision: Decision) -> bool:
        """Tell whether the node side has to be through with a pod before the next one is bound there."""
        return self._engine.dialects.node_side.serializes(decision.claims)

    def _priority(self, uid: str) -> int:
        pod = self._engine.state.pod(uid)
        return pod.priority if pod else 0

    def _node_changed(self, name: str) -> None:
        """Note that a node or one of its pods was observed anew or is gone, and wake the binds that wait there."""
        if self._engine.state.node(name) is None:
            self.locker.forget(name)
        self._lanes.node_changed(name)
        self._in_doubt.node_changed(name)
        if self._may_write(0.0):
            self._closed.notice(name)

    async def look_at_closed_nodes(self) -> None:
        """Find out which locks nobody uses any more, before anything is decided; wait for that only so long."""
        await self._closed.look(self._options.timeout)

    @property
    def depth(self) -> int:
        """How many pods wait at nodes."""
        return sum(self._lanes.depths)

    @property
    def deepest(self) -> int:
        """How many pods wait at the node where most do."""
        return max(self._lanes.depths, default=0)

    async def stop(self, grace: float) -> None:
        """Let the binds under way finish for at most ``grace`` seconds; what waits is given back."""
        self._lanes.stopping = True
        await self._in_doubt.stop()
        await self._closed.stop()
        await self._volumes.stop()
        self._lanes.stop()
        await self._tasks.stop(grace)

    # One bind --------------------------------------------------------------------------------------------------------

    async def _bind(self, item: BindTask) -> None:
        """Bind a pod whose turn it is; those that wait in no lane, so many at a time."""
        if item.node:
            await self._guarded(item, self._bind_serialized(item))
        else:
            async with self._unlocked:
                await self._guarded(item, self._bind_unlocked(item))

    async def _bind_unlocked(self, item: BindTask) -> None:
        checked = await self._check(item)
        if checked:
            await self._send(item, *checked, lock="")

    async def _guarded(self, item: BindTask, bind: Coroutine[Any, Any, None]) -> None:
        """Keep one bad pod from stopping the others; what was sent is followed up, never just dropped."""
        try:
            await bind
        except Exception:
            log.exception("bind of pod %s broke off", item.decision.pod)
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
        lock = await self._plugins.take(item, pod)
        if lock is None:
            return
        if not item.is_over:
            item.enter(BindState.LOCKED)
        await self._hooks.on_step(BindStep.LOCKED, pod)
        # Others may have come while the lock was waited for; a pod that was given back meanwhile may be elsewhere now.
        still = None if item.is_over else self._engine.assumed.recheck(item.uid)
        pod = self._engine.state.pod(item.uid) or pod
        if still is None:
            await self._release(item.uid, item.node, lock)
            self._lanes.unreserve(item)
        elif await self._send(item, pod, still, lock) and self._is_serialized(item.decision):
            await self._plugins.finish(item, lock)

    async def _check(self, item: BindTask) -> tuple[Pod, Placement] | None:
        """Check the placement at the head of its lane; a pod that must not be bound is given back."""
        item.turn_at = self._clock.monotonic()
        await self._dry_runs.ensure(item.group)
        placement = None if item.is_over else self._engine.assumed.recheck(item.uid)
        pod = self._engine.state.pod(item.uid)
        if placement is None or pod is None or self._lanes.stopping:
            self._lanes.unreserve(item)
            return None
        if placement != item.decision.placement:
            self.stats.refitted += 1
        item.enter(BindState.CHECKED)
        await self._hooks.on_step(BindStep.CHECKED, pod)
        return pod, placement

    async def _send(self, item: BindTask, pod: Pod, placement: Placement, lock: str) -> bool:
        """Send the Binding and follow its answer to the end; True if the pod is bound as decided."""
        if item.is_over:
            await self._release(item.uid, item.node, lock)
            return False
        item.enter(BindState.SENT)
        while True:
            item.sent = SentBinding(pod, placement, lock)
            item.sent_at = self._clock.monotonic()
            result = await self._sender.send(pod, placement, self._engine.after_recheck(item.decision, placement))
            if result.answer is not BindingAnswer.UNKNOWN:
                self._answered(item, item.sent, result)
            if result.answer is not BindingAnswer.THROTTLED or lock:
                break  # other pods that want the node must not wait for the API server
            await asyncio.sleep(result.retry_after)
            if self._engine.assumed.recheck(item.uid) != placement:
                break
        return await self._end(item, item.sent, result)

    def _answered(self, item: BindTask, sent: SentBinding, result: BindResult) -> None:
        self._hooks.on_answer(sent.pod, result.answer, self._clock.monotonic() - item.sent_at)

    async def _end(self, item: BindTask, sent: SentBinding, result: BindResult) -> bool:
        """End the turn of a pod whose Binding was sent; what nobody can tell is found out after it."""
        if result.answer is not BindingAnswer.UNKNOWN:
            return await self._settle(item, sent, result)
        self._in_doubt.follow(item, sent, result.message)
        item.enter(BindState.IN_DOUBT)
        item.sent = None
        return False

    async def _settle_doubt(self, item: BindTask, sent: SentBinding, result: BindResult) -> None:
        """Take in what became of a Binding that was in doubt."""
        self._answered(item, sent, result)
        await self._settle(item, sent, result)

    async def _release(self, uid: str, node: str, lock: str) -> None:
        """Release the lock of a pod that was not bound here, if it has one.

        An earlier leader, whose lock it was, may have bound the pod there all the same: then the lock is the node
        side's, which finds the pod by it.
        """
        pod = self._engine.state.pod(uid)
        if lock and (pod is None or pod.node_name != node):
            await self.locker.release(node, lock)

    async def _settle(self, item: BindTask, sent: SentBinding, result: BindResult) -> bool:
        """Book what became of a Binding, and tell; True if the pod is bound as decided."""
        pod, placement, lock = sent
        bound = result.answer is BindingAnswer.BOUND
        if bound:  # before anybody is told: as long as the ledger does not know, whatever breaks off is followed up
            self._engine.binding_succeeded(pod.uid)
        item.enter(BindState.BOUND if bound else BindState.FAILED)
        item.sent = None
        self._hooks.on_attempt(
            BindAttempt(
                *(pod, placement.node, result.answer, item.attempts),
                *(item.came, item.joined, item.turn_at, item.sent_at, self._clock.monotonic()),
            )
        )
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
            await self._hooks.on_step(BindStep.BOUND, pod)
            self._reporter.scheduled(pod, placement.node)
            await self._hooks.on_step(BindStep.REPORTED, pod)
            return True
        self.stats.failed += 1
        log.info(KeyedMessage("Failed to bind pod", pod=pod.key, node=placement.node, err=result.message))
        requeue = await self._not_carried_out(pod, result)
        await self._release(pod.uid, placement.node, lock)
        self._lanes.unreserve(item, requeue, result.retry_after)
        return False

    async def _not_carried_out(self, pod: Pod, result: BindResult) -> Requeue:
        """Take in that a Binding was not carried out, or would not be; return when its pod is decided anew."""
        if result.answer is BindingAnswer.CONFLICT:
            await self._sender.refresh(pod)
        current = self._engine.state.pod(pod.uid)
        if result.answer is BindingAnswer.GONE:
            self._engine.remove_pod(pod.uid, self._clock.monotonic())
        elif result.answer is BindingAnswer.CONFLICT:
            if current is not None and current.resource_version > pod.resource_version:
                return Requeue.NOW  # it has changed since it was decided on, no more
        elif result.answer is BindingAnswer.REFUSED:
            self._reporter.binding_failed(pod, result.message)
        return Requeue.BACK_OFF
