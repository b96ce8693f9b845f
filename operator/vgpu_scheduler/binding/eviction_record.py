"""Records evictions in the status of the policies that limit them, before they happen."""

from __future__ import annotations

import logging

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.policy_status import policy_path
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import Eviction, PolicyKey, PreemptionRules, recent_evictions, with_eviction

log = logging.getLogger(__name__)

_CONFLICT = 409
_TRIES = 4


class EvictionRecord:
    """Writes which pods are about to be evicted: whoever leads next counts them, too.

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

    async def write(self, rules: PreemptionRules, victim: Pod) -> bool:
        """Record a pod in all policies that limit evictions under some rules; False if it is not in each of them."""
        for key, _ in rules.quotas:
            if not await self._write_in(key, victim):
                return False
        return True

    async def _write_in(self, key: PolicyKey, victim: Pod) -> bool:
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
                if any(one.uid == victim.uid for one in recent_evictions(status, now)):
                    return True
                if not self._context.may_write(self._timeout):
                    return False
                metadata = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
                evictions = with_eviction(status, eviction, now)["evictions"]
                body = {"metadata": metadata, "status": {"evictions": evictions}}
                written = await self._context.api.request(
                    "PATCH", f"{path}/status", body, content_type=MERGE_PATCH, timeout=self._timeout
                )
                if written.ok:
                    return True
                if written.status != _CONFLICT:
                    log.warning("eviction was not recorded in policy %s: %s", key[-1], written.message)
                    return False
        except ApiUnreachableError as error:
            log.warning("eviction was not recorded in policy %s: %s", key[-1], error)
        return False
