"""Records evictions in the status of the policies that limit them, before they happen."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.policy_status import policy_path
from vgpu_scheduler.binding.status_patches import StatusPatcher
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import shown_pod
from vgpu_scheduler.policy import (
    EvictionLimit,
    PolicyKey,
    PreemptionRules,
    RecordedEviction,
    recent_evictions,
    with_eviction,
    without_eviction,
)

log = logging.getLogger(__name__)

_TRIES = 4
_FRESH = timedelta(minutes=1)
"""The maximum age of a record when its pod is evicted; an older one is written anew."""


class RecordOutcome(Enum):
    """The outcome of recording an eviction."""

    RECORDED = "recorded"
    NOT_RECORDED = "not recorded"
    """Not recorded, or unknown; it may be tried again."""
    OVER_LIMIT = "over limit"
    """A policy allows no more evictions this hour; its status has evictions by another leader, not yet known here."""


@dataclass(slots=True)
class EvictionAttempt:
    """The progress of one attempt to evict a victim.

    Attributes
    ----------
    recorded
        The limits of policies under which the next eviction request was recorded; None if it is not recorded.
    relied_on
        The policies whose records the attempt relies on.
    evicted
        Whether the attempt has evicted the victim.
    unsure
        Whether an eviction was sent whose outcome is unknown.
    tries
        The number of tries, including those that only prepared the eviction.
    """

    recorded: tuple[EvictionLimit, ...] | None = None
    relied_on: set[PolicyKey] = field(default_factory=set)
    evicted: bool = False
    unsure: bool = False
    tries: int = 0


@dataclass(slots=True)
class _Entry:
    """The record of one pod in one policy, kept while any attempt to evict the pod relies on it.

    Attributes
    ----------
    mine
        The records that this process wrote, or may have written, while no other process had recorded the pod.
    trials
        How many attempts rely on the record.
    counts
        Whether one of them has evicted the pod, or may have.
    """

    mine: set[RecordedEviction] = field(default_factory=set)
    trials: int = 0
    counts: bool = False


class EvictionRecord:
    """Records pods that are about to be evicted, so that the next leader counts them, too.

    Several preemptions may have the same victim and then share one record. It is removed only after the last of them
    has ended and none has evicted the victim. A record that another process wrote before is never removed.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._context = context
        self._timeout = timeout
        self._patcher = StatusPatcher(context.writer, timeout)
        self._entries: defaultdict[tuple[PolicyKey, str], _Entry] = defaultdict(_Entry)
        """By policy and by the UID of the pod."""
        self._locks: defaultdict[PolicyKey, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By policy; held from reading its records until an attempt relies on one, so that none is removed between."""

    async def write(self, rules: PreemptionRules, victim: Pod, relied_on: set[PolicyKey]) -> RecordOutcome:
        """Record a pod in all policies that limit evictions under the rules; return the first outcome but ``YES``.

        Parameters
        ----------
        relied_on
            The policies whose records the attempt relies on so far; those of the rules are added.
        """
        for key, limit in rules.eviction_limits:
            async with self._locks[key]:
                entry = self._entries[key, victim.uid]
                entry.trials += key not in relied_on
                relied_on.add(key)
                recorded = await self._write_in(key, limit, victim, entry)
            if recorded is not RecordOutcome.RECORDED:
                return recorded
        return RecordOutcome.RECORDED

    async def settle(self, victim: str, relied_on: Collection[PolicyKey], *, counts: bool) -> None:
        """Note that an attempt to evict a pod has ended.

        A record of this process on which no attempt relies any more is removed, unless it counts. If the removal fails,
        the record counts for an hour.

        Parameters
        ----------
        victim
            The UID of the pod.
        relied_on
            The policies whose records the attempt relied on.
        counts
            Whether the attempt has evicted the pod, or may have.
        """
        for key in relied_on:
            async with self._locks[key]:
                entry = self._entries[key, victim]
                entry.trials -= 1
                entry.counts |= counts
                if entry.trials:
                    continue
                del self._entries[key, victim]
                if entry.mine and not entry.counts:
                    await self._take_back_from(key, victim, entry)

    async def _write_in(self, key: PolicyKey, limit: int, victim: Pod, entry: _Entry) -> RecordOutcome:
        now = self._context.clock.now().replace(microsecond=0)  # the precision of the record
        _, namespace, _ = key
        eviction = RecordedEviction(now, shown_pod(namespace, victim.key, victim.uid), victim.uid, victim.node_name)

        def with_it(status: object) -> dict[str, Any] | RecordOutcome:
            recent = recent_evictions(status, now)
            known = [one for one in recent if one.uid == victim.uid]
            if len(recent) - len(known) >= limit:
                return RecordOutcome.OVER_LIMIT
            if any(abs(now - one.time) < _FRESH for one in known):
                return RecordOutcome.RECORDED
            if entry.mine.issuperset(known):  # else another process may have evicted it and needs the record
                entry.mine.add(eviction)
            return with_eviction(status, eviction, now)

        return await self._change(key, with_it)

    async def _take_back_from(self, key: PolicyKey, victim: str, entry: _Entry) -> None:
        now = self._context.clock.now()

        def without_it(status: object) -> dict[str, Any] | RecordOutcome:
            known = {one for one in recent_evictions(status, now) if one.uid == victim}
            is_mine = bool(known) and known <= entry.mine
            return without_eviction(status, victim, now) if is_mine else RecordOutcome.RECORDED

        await self._change(key, without_it)

    async def _change(
        self, key: PolicyKey, change: Callable[[object], dict[str, Any] | RecordOutcome]
    ) -> RecordOutcome:
        """Read a policy and write its changed status; retry on conflicts.

        Parameters
        ----------
        change
            Returns the new status, or the outcome if nothing is to be written.
        """
        path = policy_path(*key)
        try:
            for _ in range(_TRIES):
                read = await self._context.api.request("GET", path, timeout=self._timeout)
                if not read.ok:
                    break
                found = read.json()
                changed = change(found.get("status"))
                if isinstance(changed, RecordOutcome):
                    return changed
                uid, version = found["metadata"]["uid"], int(found["metadata"]["resourceVersion"])
                status = {"evictions": changed["evictions"]}
                written = await self._patcher.patch(path, uid, status, MERGE_PATCH, version=version)
                if written is None:
                    break
                if written.ok:
                    return RecordOutcome.RECORDED
                if written.status != HTTPStatus.CONFLICT:
                    log.warning("evictions were not recorded in policy %s: %s", key[-1], written.message)
                    break
        except ApiUnreachableError as error:
            log.warning("evictions were not recorded in policy %s: %s", key[-1], error)
        return RecordOutcome.NOT_RECORDED
