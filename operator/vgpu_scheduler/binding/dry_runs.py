"""Rehearsals: before the first pod of a group is bound the API server is asked whether it would bind all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from vgpu_scheduler.apiclient import map_concurrently
from vgpu_scheduler.binding.context import BindContext, BindStats
from vgpu_scheduler.binding.lanes import BindGroup, BindTask
from vgpu_scheduler.binding.sender import BindingAnswer, BindResult, Sender
from vgpu_scheduler.binding.turns import BindLanes
from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.telemetry import KeyedMessage

__all__ = ["BindingDryRuns"]

log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
"""Bindings of one group that are tried at a time."""
_TRIES: Final = 3
"""So often a Binding is tried that the API server is too busy for, or says nothing of."""
_AGAIN: Final = 0.2
"""Seconds until it is tried again where the API server does not say when."""
_Failure = tuple[BindTask, Pod, BindResult]


class BindingDryRuns:
    """Tries the Bindings of groups as dry runs, so that none is bound in part that could not be bound as a whole.

    Parameters
    ----------
    context, sender, lanes
        What it works with.
    stats
        Where it counts.
    not_carried_out
        Takes in that a Binding would not be carried out, and returns when its pod is decided anew.
    """

    def __init__(
        self,
        context: BindContext,
        sender: Sender,
        lanes: BindLanes,
        stats: BindStats,
        not_carried_out: Callable[[Pod, BindResult], Awaitable[Requeue]],
    ) -> None:
        self._engine = context.engine
        self._sender = sender
        self._lanes = lanes
        self._stats = stats
        self._not_carried_out = not_carried_out

    async def ensure(self, group: BindGroup) -> None:
        """Try the Bindings of a group whose turn has come, once; it is given back where one would not be carried out.

        Whoever asks meanwhile waits for that. Once a Binding was sent there is nothing to be tried any more.
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
        """Try the Binding of one pod; None if it would be bound, or must not be any more, which its turn shows."""
        placement = None if item.is_over else self._engine.assumed.recheck(item.uid)
        pod = self._engine.state.pod(item.uid)
        if placement is None or pod is None:
            return None
        decision = self._engine.after_recheck(item.decision, placement)
        for number in range(_TRIES):
            result = await self._sender.send_dry_run(pod, placement, decision)
            if result.answer not in {BindingAnswer.THROTTLED, BindingAnswer.UNKNOWN} or number == _TRIES - 1:
                break
            await asyncio.sleep(result.retry_after or _AGAIN)
        return None if result.answer is BindingAnswer.BOUND else (item, pod, result)

    async def _fail(self, item: BindTask, pod: Pod, result: BindResult) -> None:
        """Take in that a pod would not be bound: its group is given back."""
        self._stats.failed += 1
        log.info(KeyedMessage("Failed to bind pod in a dry run", pod=pod.key, node=item.node, err=result.message))
        self._lanes.unreserve(item, await self._not_carried_out(pod, result), result.retry_after)
