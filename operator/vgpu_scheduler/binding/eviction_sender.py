"""Sends what ends a victim: its eviction, or its deletion where a policy allows that against disruption budgets."""

from __future__ import annotations

import logging
from collections.abc import Callable

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

    async def send(
        self, uid: str, pod: Pod, preemption: Preemption, is_allowed: Callable[[], bool]
    ) -> EvictionResult | None:
        """Send what ends a victim once, in up to three writes.

        Parameters
        ----------
        is_allowed
            Tells before each write whether the victim may still end for the pod.

        Returns
        -------
        EvictionResult or None
            What the answer means; None if the lease is late, or it is not allowed any more, and nothing was ended.
        """

        def may_be_sent() -> bool:
            return self._context.may_write(self._timeout) and is_allowed()

        if not may_be_sent():
            return None
        asked = await self._send(EVICT, "POST", eviction_path(pod), eviction_body(pod))
        is_protected = asked.answer in {EvictionAnswer.PROTECTED, EvictionAnswer.SEVERAL_BUDGETS}
        exceeds = is_protected and self._preemptions.rules_of(uid).budgets is Budgets.EXCEED
        result = await self._delete(pod, may_be_sent) if exceeds else asked
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

    async def _delete(self, pod: Pod, may_be_sent: Callable[[], bool]) -> EvictionResult | None:
        """Delete a pod against its budgets, as kube-scheduler does: the condition says why."""
        if not may_be_sent():
            return None
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
        if not may_be_sent():
            return None
        return await self._send(DELETE, "DELETE", path, delete_options(pod))
