"""Dry runs of Bindings: checks that the API server would bind all pods of a group before the first one is bound."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from vgpu_scheduler.apiclient import map_concurrently
from vgpu_scheduler.binding.answers import BindingAnswer, BindingResult
from vgpu_scheduler.binding.bind_tasks import BindGroup, BindTask
from vgpu_scheduler.binding.context import BindContext, BindStats
from vgpu_scheduler.binding.lanes import BindLanes
from vgpu_scheduler.binding.sender import BindingSender
from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
"""The number of concurrent dry runs of one group."""
_TRIES: Final = 3
"""The number of tries while the API server is busy or gives no clear answer."""
_AGAIN: Final = 0.2
"""Seconds until the next try if the API server gives no delay."""
_Failure = tuple[BindTask, Pod, BindingResult]


class BindingDryRuns:
    """Sends the Bindings of groups as dry runs, so that no group is bound in part if the rest would be refused.

    Parameters
    ----------
    context, sender, lanes
        The shared context of binding, the sender of Bindings, and the lanes.
    stats
        The counters to update.
    not_carried_out
        Records that a Binding would fail, and returns when its pod is decided anew.
    """

    def __init__(
        self,
        context: BindContext,
        sender: BindingSender,
        lanes: BindLanes,
        stats: BindStats,
        not_carried_out: Callable[[Pod, BindingResult], Awaitable[Requeue]],
    ) -> None:
        self._engine = context.engine
        self._sender = sender
        self._lanes = lanes
        self._stats = stats
        self._not_carried_out = not_carried_out

    async def ensure(self, group: BindGroup) -> None:
        """Send the dry runs of a group whose turn has come, once; if one fails, unreserve the group.

        Concurrent calls wait for the first. Once a Binding of the group was sent, no dry runs are sent.
        """
        if len(group.items) == 1:
            return
        async with group.dry_run_lock:
            if group.are_dry_runs_sent or group.has_sent_bindings:
                return
            tried = await map_concurrently(self._try, group.items, _AT_ONCE)
            group.are_dry_runs_sent = True
            for item, pod, result in filter(None, tried):
                await self._fail(item, pod, result)

    async def _try(self, item: BindTask) -> _Failure | None:
        """Send the dry run of one pod; None if it would be bound, or its placement does not hold (rechecked later)."""
        placement = None if item.is_over else self._engine.assumed.recheck(item.uid)
        pod = self._engine.state.pod(item.uid)
        if placement is None or pod is None:
            return None
        decision = self._engine.assumed.after_recheck(item.decision, placement)
        for number in range(_TRIES):
            result = await self._sender.send_dry_run(pod, placement, decision)
            if result.answer not in {BindingAnswer.THROTTLED, BindingAnswer.UNKNOWN} or number == _TRIES - 1:
                break
            await asyncio.sleep(result.retry_after or _AGAIN)
        return None if result.answer is BindingAnswer.BOUND else (item, pod, result)

    async def _fail(self, item: BindTask, pod: Pod, result: BindingResult) -> None:
        """Unreserve the group of a pod that would not be bound."""
        self._stats.failed += 1
        log.info(KeyedMessage("Failed to bind pod in a dry run", pod=pod.key, node=item.node, err=result.message))
        self._lanes.unreserve(item, await self._not_carried_out(pod, result), result.retry_after)
