"""Records evictions in the status of the policies that limit them, before they happen."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.policy_status import policy_path
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import (
    Eviction,
    PolicyKey,
    PreemptionRules,
    recent_evictions,
    with_eviction,
    without_eviction,
)

log = logging.getLogger(__name__)

_CONFLICT = 409
_TRIES = 4
_FRESH = timedelta(minutes=1)
"""How old a record may be when its pod is evicted; else it is written anew."""


class Recorded(Enum):
    """What came of recording an eviction."""

    YES = "recorded"
    NO = "not recorded"
    """Nobody knows for sure; it may be tried again."""
    OVER_LIMIT = "over limit"
    """A policy allows no more within the hour: another leader, of which this one does not know yet, has had some."""


class EvictionRecord:
    """Writes which pods are about to be evicted: the next leader counts them, too.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that the API server may take for a write.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._context = context
        self._timeout = timeout

    async def write(self, rules: PreemptionRules, victim: Pod) -> Recorded:
        """Record a pod in all policies that limit evictions under some rules; what one does not take decides."""
        for key, limit in rules.quotas:
            recorded = await self._write_in(key, limit, victim)
            if recorded is not Recorded.YES:
                return recorded
        return Recorded.YES

    async def take_back(self, rules: PreemptionRules, victim: str) -> None:
        """Record a pod, by its UID, as evicted no more: it was not evicted, and nothing on its way will evict it.

        What cannot be written is counted for an hour.
        """
        for key, _ in rules.quotas:
            try:
                await self._take_back_from(key, victim)
            except ApiUnreachableError as error:
                log.warning("eviction is still recorded in policy %s: %s", key[-1], error)

    async def _take_back_from(self, key: PolicyKey, victim: str) -> None:
        path, now = policy_path(*key), self._context.clock.now()
        for _ in range(_TRIES):
            read = await self._context.api.request("GET", path, timeout=self._timeout)
            found = read.json() if read.ok else {}
            is_recorded = any(one.uid == victim for one in recent_evictions(found.get("status"), now))
            if not is_recorded or not self._context.may_write(self._timeout):
                return
            written = await self._patch(path, found, without_eviction(found.get("status"), victim, now))
            if written.status != _CONFLICT:
                return

    async def _patch(self, path: str, found: Mapping[str, Any], status: Mapping[str, Any]) -> ApiResponse:
        """Write the evictions in the status of a policy, if it is still as it was found."""
        metadata = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
        body = {"metadata": metadata, "status": {"evictions": status["evictions"]}}
        return await self._context.api.request(
            "PATCH", f"{path}/status", body, content_type=MERGE_PATCH, timeout=self._timeout
        )

    async def _write_in(self, key: PolicyKey, limit: int, victim: Pod) -> Recorded:
        path, now = policy_path(*key), self._context.clock.now()
        _, namespace, _ = key
        # Who may read a policy of a namespace need not see the pods of others: these are named by their UID alone.
        named = victim.uid if namespace and namespace != victim.namespace else victim.key
        eviction = Eviction(now, named, victim.uid, victim.node_name)
        try:
            for _ in range(_TRIES):
                read = await self._context.api.request("GET", path, timeout=self._timeout)
                if not read.ok:
                    break
                found = read.json()
                status = found.get("status")
                recent = recent_evictions(status, now)
                if any(one.uid == victim.uid and abs(now - one.time) < _FRESH for one in recent):
                    return Recorded.YES
                if sum(one.uid != victim.uid for one in recent) >= limit:
                    return Recorded.OVER_LIMIT
                if not self._context.may_write(self._timeout):
                    return Recorded.NO
                written = await self._patch(path, found, with_eviction(status, eviction, now))
                if written.ok:
                    return Recorded.YES
                if written.status != _CONFLICT:
                    log.warning("eviction was not recorded in policy %s: %s", key[-1], written.message)
                    return Recorded.NO
        except ApiUnreachableError as error:
            log.warning("eviction was not recorded in policy %s: %s", key[-1], error)
        return Recorded.NO
