"""Carries preemptions out: the pod is nominated to its node, then the victims are evicted, one after the other.

The engine keeps the room from the moment of the decision on. Here everything is asked again right before each write:
whether the lease is held, whether the preemption is still wanted, and whether the victim is still there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from vgpu_scheduler.apiclient import MERGE_PATCH, STRATEGIC_PATCH, ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding.context import Background, BindContext
from vgpu_scheduler.binding.eviction_record import EvictionRecord, Recorded
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
from vgpu_scheduler.model import Decision, EventReason, Preemption, Victim
from vgpu_scheduler.policy import Budgets, PreemptionRules
from vgpu_scheduler.telemetry import Keyed

log = logging.getLogger(__name__)

_PACE = 1.0
"""Seconds between two looks at what is under way."""
_LEAVES_LANE_AFTER = 0.2
"""Seconds between two looks at a victim that is about to be bound."""
_OVERDUE_AFTER = 30.0
"""Seconds after its grace period from which on a victim is overdue."""
_GIVEN_UP_AFTER = 120.0
"""Seconds after its grace period from which on nobody waits for a victim any more."""
_RIGHTS_AGAIN = 60.0
"""Seconds for which no evictions are tried after one was denied."""
_LATE = 60.0
"""Seconds for which writes of an earlier leader may still arrive."""
_NOT_FOUND = 404
_DONE = frozenset({EvictionAnswer.EVICTED, EvictionAnswer.GONE})


@dataclass(slots=True)
class EvictorStats:
    """What the evictor has done, for metrics."""

    answers: Counter[EvictionAnswer] = field(default_factory=Counter)
    nominated: int = 0
    overdue: int = 0
    """Victims that should have ended and have not, now."""


class Evictor:
    """Has the victims of preemptions evicted.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that the API server may take for a write.
    leave_lane
        Takes back the placement of a pod whose Binding was not sent, by its UID; tells whether there was any.
    """

    def __init__(self, context: BindContext, timeout: float, leave_lane: Callable[[str], bool]) -> None:
        self._context = context
        self._preemptions = context.engine.preemptions
        self._state = context.engine.state
        self._timeout = timeout
        self._leave_lane = leave_lane
        self._record = EvictionRecord(context, timeout)
        self._tasks = Background()
        self._nominated: dict[str, str] = {}
        """The nodes that pods were nominated to, by UID, until they are bound or that is taken back."""
        self._adopt_until = 0.0
        self._asked_for: dict[str, float] = {}
        """Since when nothing is left to be asked for, of the pods whose victims were all asked to end."""
        self.stats = EvictorStats()

    def submit(self, decision: Decision, note: str = "") -> None:
        """Take over a pod for which room was found that others have to leave.

        Parameters
        ----------
        note
            What the event about the pod adds to the message.
        """
        assert decision.preemption is not None
        self._tasks.start(self._nominate_and_evict(decision, decision.preemption, note), f"preempt-{decision.pod}")

    def resume(self) -> None:
        """Go on with the preemptions that an earlier leader began, as far as the engine knows them."""
        self._adopt_until = self._now() + _LATE
        self._adopt_nominations()
        for uid, preemption in self._preemptions.under_way():
            self._tasks.start(self._evict_all(uid, preemption), f"preempt-{uid}")

    async def stop(self) -> None:
        """Evict nobody any more."""
        await self._tasks.stop()

    async def run(self) -> None:
        """Look after what is under way, until cancelled."""
        while True:
            try:
                self._look_for_overdue()
                if self._now() < self._adopt_until:
                    self._adopt_nominations()
                await self._clear_nominations()
            except ApiUnreachableError as error:
                log.warning("nominations: %s", error)
            except Exception:  # pods must be placed, whatever becomes of one preemption
                log.exception("preemptions")
            await asyncio.sleep(_PACE)

    # One preemption --------------------------------------------------------------------------------------------------

    async def _nominate_and_evict(self, decision: Decision, preemption: Preemption, note: str) -> None:
        uid = decision.uid
        pod = self._state.pod(uid)
        if pod is None or not self._is_wanted(uid, preemption):
            return
        if not self._context.may_write(self._timeout):
            return  # who leads next decides it anew
        self._nominated[uid] = preemption.node
        self.stats.nominated += 1
        reason = decision.condition_reason
        response = await self._context.reporter.nominated(pod, reason, decision.message, note, preemption.node)
        if response is None or not response.ok:
            message = "no answer" if response is None else f"{response.status}: {response.message}"
            log.info(Keyed("Pod was not nominated", pod=pod.key, node=preemption.node, err=message))
            if response is not None and response.status == 403:
                self._preemptions.evaluator.deny(f"pods/status: {response.message}", self._now() + _RIGHTS_AGAIN)
            self._preemptions.retry(uid, self._now(), _PACE)
            self._context.port.decide_again()
            return
        self._context.observe("Pod", response.body)
        await self._evict_all(uid, preemption)

    async def _evict_all(self, uid: str, preemption: Preemption) -> None:
        try:
            await self._evict_one_by_one(uid, preemption)
        except Exception:  # nothing is kept for ever for a pod that nobody evicts others for
            log.exception("the preemption for pod %s broke off", uid)
        if self._is_wanted(uid, preemption):
            self._asked_for[uid] = self._now()

    async def _evict_one_by_one(self, uid: str, preemption: Preemption) -> None:
        evicted = 0
        for victim in preemption.victims:
            result = await self._end(uid, preemption, victim, evicted)
            if result is None:
                return  # it is not wanted any more
            evicted += result.answer is EvictionAnswer.EVICTED
            if result.answer not in _DONE:
                self._give_up(uid, victim, result)
                return

    async def _end(self, uid: str, preemption: Preemption, victim: Victim, evicted: int) -> EvictionResult | None:
        """Have a victim end; return what came of it, None if that is not wanted any more.

        Whatever takes time is followed by another look at everything: who may end then is evicted, and nobody else.
        """
        is_recorded = False
        while self._is_wanted(uid, preemption):
            if not self._context.may_write(self._timeout):
                await asyncio.sleep(_PACE)
                continue
            pod = self._state.pod(victim.uid)
            if pod is None or pod.terminal or self._state.reservation(victim.uid) is None:
                return EvictionResult(EvictionAnswer.GONE)
            if pod.deleting:
                return EvictionResult(EvictionAnswer.EVICTED)
            if not pod.node_name:
                if not self._leave_lane(victim.uid):
                    await asyncio.sleep(_LEAVES_LANE_AFTER)  # its Binding is on its way: it will be bound, or not
                continue
            forbidden = self._preemptions.forbids(uid, pod, self._now())
            if forbidden:
                self._withdraw(uid, victim, forbidden)
                continue
            rules = self._preemptions.rules_of(uid)
            if not is_recorded:
                is_recorded = await self._recorded(uid, rules, pod, victim)
                continue
            result = await self._try_to_end(uid, pod, rules, preemption, victim)
            is_recorded = False  # where it takes long to evict it, the record says when it was tried last
            if result.answer is EvictionAnswer.UNKNOWN or (result.answer is EvictionAnswer.PROTECTED and evicted):
                await asyncio.sleep(result.retry_after)
                continue
            return result
        return None

    async def _recorded(self, uid: str, rules: PreemptionRules, pod: Pod, victim: Victim) -> bool:
        """Record the eviction of a victim; tell whether it is recorded."""
        recorded = await self._record.write(rules, pod)
        if recorded is Recorded.OVER_LIMIT:
            self._withdraw(uid, victim, "its policy has allowed all evictions of this hour to others")
        elif recorded is Recorded.NO:
            await asyncio.sleep(_PACE)
        return recorded is Recorded.YES

    async def _try_to_end(
        self, uid: str, pod: Pod, rules: PreemptionRules, preemption: Preemption, victim: Victim
    ) -> EvictionResult:
        """Send what ends a victim once."""
        if not self._context.may_write(self._timeout):
            return EvictionResult(EvictionAnswer.UNKNOWN, "", _PACE)
        result = EvictionResult(EvictionAnswer.PROTECTED)
        if not victim.budgets:
            result = classify_eviction(await self._request("POST", eviction_path(pod), eviction_body(pod)))
        if rules.budgets is Budgets.EXCEED and result.answer in {
            EvictionAnswer.PROTECTED,
            EvictionAnswer.SEVERAL_BUDGETS,
        }:
            result = await self._delete(pod)
        self.stats.answers[result.answer] += 1
        if result.answer is EvictionAnswer.EVICTED:
            self._preemptions.evicted(pod.uid)
            self._context.reporter.preempted(pod, uid, preemption.node)
            log.info(Keyed("Preempted pod", pod=pod.key, node=preemption.node, preemptor=uid))
        return result

    async def _delete(self, pod: Pod) -> EvictionResult:
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
        marked = classify_eviction(await self._request("PATCH", f"{path}/status", body, STRATEGIC_PATCH))
        if marked.answer is not EvictionAnswer.EVICTED:
            return marked
        if not self._context.may_write(self._timeout):
            return EvictionResult(EvictionAnswer.UNKNOWN, "", _PACE)
        return classify_eviction(await self._request("DELETE", path, delete_options(pod)))

    def _give_up(self, uid: str, victim: Victim, result: EvictionResult) -> None:
        """Have a pod decided anew of which a victim cannot be evicted."""
        log.info(Keyed("Victim was not evicted", pod=victim.pod, preemptor=uid, err=result.message))
        now = self._now()
        if result.answer is EvictionAnswer.DENIED:
            self._preemptions.evaluator.deny(f"pods/eviction: {result.message}", now + _RIGHTS_AGAIN)
        if result.answer in {EvictionAnswer.SEVERAL_BUDGETS, EvictionAnswer.REFUSED}:
            self._preemptions.evaluator.spare(victim.uid, result.message)
        self._preemptions.retry(uid, now, result.retry_after)
        self._context.port.decide_again()

    def _withdraw(self, uid: str, victim: Victim, reason: str) -> None:
        """Have a pod decided anew for which a victim must not end any more."""
        log.info(Keyed("Victim is not evicted", pod=victim.pod, preemptor=uid, err=reason))
        self._preemptions.retry(uid, self._now(), _PACE)
        self._context.port.decide_again()

    def _is_wanted(self, uid: str, preemption: Preemption) -> bool:
        return self._preemptions.of(uid) is preemption

    async def _request(
        self, method: str, path: str, body: object, content_type: str = "application/json"
    ) -> ApiResponse | None:
        try:
            return await self._context.api.request(method, path, body, content_type=content_type, timeout=self._timeout)
        except ApiUnreachableError as error:
            log.warning("%s %s: %s", method, path, error)
            return None

    # All that is under way -------------------------------------------------------------------------------------------

    def _look_for_overdue(self) -> None:
        """Tell of victims that should have ended long ago; who waits too long for one is decided anew."""
        moment, overdue = self._context.clock.now().timestamp(), 0
        under_way = self._preemptions.under_way()
        self._asked_for = {uid: self._asked_for[uid] for uid, _ in under_way if uid in self._asked_for}
        for uid, _ in under_way:
            asked = self._asked_for.get(uid)
            for victim in self._preemptions.still_there(uid):
                pod = self._state.pod(victim.uid)
                if asked is not None and pod and not pod.deleting and self._now() - asked >= _OVERDUE_AFTER:
                    self._withdraw(uid, victim, "its eviction was answered, and it does not end")
                    break
                late = 0.0 if pod is None or pod.ends_by is None else moment - pod.ends_by
                if late < _OVERDUE_AFTER:
                    continue
                overdue += 1
                waiting = self._state.pod(uid)
                if waiting is not None:
                    text = (
                        f"pod {victim.pod} on node {pod.node_name if pod else ''} has not ended within its grace period"
                    )
                    self._context.reporter.warning(waiting, text, EventReason.VICTIM_OVERDUE)
                if late >= _GIVEN_UP_AFTER:
                    self._preemptions.evaluator.spare(victim.uid, "it does not end")
                    self._preemptions.retry(uid, self._now(), 0.0)
                    self._context.port.decide_again()
                    break
        self.stats.overdue = overdue

    async def _clear_nominations(self) -> None:
        """Take back the nominations of pods for which no room is kept any more, and which still wait."""
        for uid, node in list(self._nominated.items()):
            if self._preemptions.of(uid) is not None:
                continue
            pod = self._state.pod(uid)
            if pod is None or pod.node_name or pod.terminal or pod.nominated_node_name not in {"", node}:
                del self._nominated[uid]
                continue
            if not pod.nominated_node_name or self._state.reservation(uid) is not None:
                continue  # whether it is nominated has to be shown yet, or it is about to be bound
            if not self._context.may_write(self._timeout):
                return
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
            # The version makes it fail where the pod was nominated anew meanwhile.
            metadata = {"uid": pod.uid, "resourceVersion": str(pod.resource_version)}
            body = {"metadata": metadata, "status": {"nominatedNodeName": None}}
            response = await self._request("PATCH", path, body, MERGE_PATCH)
            if response is not None and response.ok:
                self._context.observe("Pod", response.body)
            elif response is not None and response.status == _NOT_FOUND:
                self._nominated.pop(uid, None)

    def _adopt_nominations(self) -> None:
        """Take over the nominations that earlier leaders have written, or still have on their way."""
        for uid, node in self._preemptions.nominated():
            self._nominated.setdefault(uid, node)

    def _now(self) -> float:
        return self._context.clock.monotonic()
