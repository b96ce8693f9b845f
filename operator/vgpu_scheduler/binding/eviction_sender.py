"""Sends what ends a victim: its eviction, or its deletion where a policy allows that against disruption budgets."""

from __future__ import annotations

import logging

from vgpu_scheduler.apiclient import STRATEGIC_PATCH
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.eviction_rights import DELETE, EVICT, MARK, EvictionRight
from vgpu_scheduler.binding.evictions import (
    EvictionAnswer,
    EvictionResult,
    classify_eviction,
    delete_options,
    eviction_body,
    eviction_path,
)
from vgpu_scheduler.binding.writes import rfc3339
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Preemption
from vgpu_scheduler.policy import Budgets
from vgpu_scheduler.telemetry import Keyed

__all__ = ["EvictionSender"]

log = logging.getLogger(__name__)


class EvictionSender:
    """Sends what ends victims.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that the API server may take for a write.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._context = context
        self._preemptions = context.engine.preemptions
        self._timeout = timeout

    async def send(self, uid: str, pod: Pod, preemption: Preemption) -> EvictionResult | None:
        """Send what ends a victim once; return what the answer means, None if the lease is late and it was not sent."""
        rules = self._preemptions.rules_of(uid)
        if not self._context.may_write(self._timeout):
            return None
        asked = await self._send(EVICT, "POST", eviction_path(pod), eviction_body(pod))
        is_protected = asked.answer in {EvictionAnswer.PROTECTED, EvictionAnswer.SEVERAL_BUDGETS}
        result = await self._delete(pod) if is_protected and rules.budgets is Budgets.EXCEED else asked
        if result is not None and result.answer is EvictionAnswer.EVICTED:
            self.tell(uid, pod, preemption)
        return result

    def tell(self, uid: str, victim: Pod, preemption: Preemption) -> None:
        """Count a victim as evicted for a pod, and say so."""
        self._preemptions.evicted(victim.uid)
        self._context.reporter.preempted(victim, uid, preemption.node)
        log.info(Keyed("Preempted pod", pod=victim.key, node=preemption.node, preemptor=uid))

    async def _send(
        self, right: EvictionRight, method: str, path: str, body: object, form: str = "application/json"
    ) -> EvictionResult:
        return classify_eviction(await self._context.request(method, path, body, self._timeout, form), right)

    async def _delete(self, pod: Pod) -> EvictionResult | None:
        """Delete a pod against its budgets, as kube-scheduler does: the condition says why."""
        now = self._context.clock.now()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(now),
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        marked = await self._send(MARK, "PATCH", f"{path}/status", body, STRATEGIC_PATCH)
        if marked.answer is not EvictionAnswer.EVICTED:
            return marked
        if not self._context.may_write(self._timeout):
            return None
        return await self._send(DELETE, "DELETE", path, delete_options(pod))
