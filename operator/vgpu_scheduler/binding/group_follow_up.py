"""Follows pod groups: records how long each took to become whole, and reports or evicts groups that lost pods."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from vgpu_scheduler.apiclient import errors_logged
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.evictions import EvictionAnswer, EvictionSender
from vgpu_scheduler.engine import StaleGroup
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import EventReason
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

_PACE: Final = 1.0
"""Seconds between two checks."""
_REFUSED_FOR: Final = 60.0
"""Seconds without evictions after a right was missing, and without the eviction of a pod after it was refused."""


class GroupFollowUp:
    """Follows pod groups; for the leader only.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write.
    became_whole
        Called for each group that has become whole, with the seconds that it took.
    answers
        Counts the answers to evictions.
    """

    def __init__(
        self,
        context: BindContext,
        timeout: float,
        became_whole: Callable[[float], None],
        answers: Counter[EvictionAnswer],
    ) -> None:
        self._context = context
        self._progress = context.engine.group_progress
        self._sender = EvictionSender(context, timeout)
        self._became_whole = became_whole
        self._answers = answers
        self._not_before: dict[str, float] = {}
        """When the eviction of a pod may be tried again (seconds, monotonic), by UID."""
        self._denied_until = 0.0

    async def run(self) -> None:
        """Check all groups periodically, until cancelled."""
        while True:
            with errors_logged(log, "follow-up of pod groups"):
                await self.reconcile()
            await asyncio.sleep(_PACE)

    async def reconcile(self) -> None:
        """Record groups that became whole, report stale groups, and evict their pods where policies say so."""
        now = self._context.clock.monotonic()
        for seconds in self._progress.update(now):
            self._became_whole(seconds)
        stale = self._progress.stale_groups(now)
        running = {pod.uid for group in stale for pod in group.pods}
        self._not_before = {uid: until for uid, until in self._not_before.items() if uid in running}
        for group in stale:
            for pod in group.pods:
                self._context.reporter.warning(pod, group.message, EventReason.POD_GROUP_STALE)
        if self._context.engine.preemption:  # else there are no rights for evictions
            for group in stale:
                await self._end(group)

    async def _end(self, group: StaleGroup) -> None:
        """Evict the pods of a group that are due to end."""
        for pod in group.pods:
            if self._is_to_end(group, pod):
                await self._evict(group, pod)

    def _is_to_end(self, group: StaleGroup, pod: Pod) -> bool:
        """Tell whether to evict a pod now; called right before, because other pods of the group change meanwhile."""
        now = self._context.clock.monotonic()
        current = self._progress.stale_group(group.key, now)
        if current is None or not current.is_to_end or pod.uid not in {each.uid for each in current.pods}:
            return False
        return now >= max(self._not_before.get(pod.uid, 0.0), self._denied_until)

    async def _evict(self, group: StaleGroup, pod: Pod) -> None:
        result, now = await self._sender.evict(pod), self._context.clock.monotonic()
        if result is None:
            return  # the lease may be lost
        self._answers[result.answer] += 1
        if result.answer is EvictionAnswer.EVICTED:
            log.info(KeyedMessage("Evicted pod of a stale group", pod=pod.key, group=str(group.key)))
            text = f"evicted as a policy says (groups.whenStale): {group.message}"
            self._context.reporter.warning(pod, text, EventReason.POD_GROUP_STALE)
        elif result.answer is not EvictionAnswer.GONE:
            log.warning("pod %s of stale group %s could not be evicted: %s", pod.key, group.key, result.message)
            text = f"not evicted, although a policy says so (groups.whenStale): {result.message}"
            for each in group.pods if result.answer is EvictionAnswer.DENIED else (pod,):  # denied once, denied to all
                self._context.reporter.warning(each, text, EventReason.POD_GROUP_STALE)
        if result.answer is EvictionAnswer.DENIED:
            self._denied_until = now + _REFUSED_FOR
        is_short = result.answer in {EvictionAnswer.PROTECTED, EvictionAnswer.UNKNOWN}
        self._not_before[pod.uid] = now + (result.retry_after if is_short else _REFUSED_FOR)
