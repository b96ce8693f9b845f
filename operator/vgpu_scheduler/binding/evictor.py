"""Carries preemptions out: the pod is nominated to its node, then the victims are evicted, one after the other.

The engine keeps the room from the moment of the decision on. Here everything is asked again right before each write:
whether the lease is held, whether the preemption is still wanted, and whether the victim is still there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiResponse, ApiUnreachableError
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
from vgpu_scheduler.binding.nominations import Nominations
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
OVERDUE_AFTER = 30.0
"""Seconds after its grace period from which on a victim is overdue."""
GIVEN_UP_AFTER = 120.0
"""Seconds after its grace period from which on nobody waits for a victim any more."""
_RIGHTS_AGAIN = 60.0
"""Seconds for which no evictions are tried after one was denied."""
_MOST_PROTECTED = 3
"""So often the API server may protect a pod until it is nobody's victim for a while."""
_EXCLUDED_FOR = 600.0
"""Seconds."""
_MOST_TRIES = 240
"""How often a victim is tried to be evicted, or its record to be written, before its pod is decided anew."""
_LATE = 60.0
"""Seconds for which writes of an earlier leader may still arrive."""
_DONE = frozenset({EvictionAnswer.EVICTED, EvictionAnswer.GONE})


@dataclass(slots=True)
class EvictorStats:
    """What the evictor has done, for metrics."""

    answers: Counter[EvictionAnswer] = field(default_factory=Counter)
    nominated: int = 0
    overdue: int = 0
    """Victims that should have ended and have not, now."""
    longest: float = 0.0
    """Seconds since the oldest preemption began that is under way; 0 if none is."""


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
        self._nominations = Nominations(context, timeout, self._request)
        self._since: dict[str, float] = {}
        """When the preemption for a pod was seen first, by its UID."""
        self._protected: Counter[str] = Counter()
        """How often the API server has protected a pod that no budget seems to protect, by UID."""
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
        work = self._nominate_and_evict(decision, decision.preemption, note)
        self._tasks.start(self._guarded(decision.uid, work), f"preempt-{decision.pod}")

    def resume(self) -> None:
        """Go on with the preemptions that an earlier leader began, as far as the engine knows them."""
        self._adopt_until = self._now() + _LATE
        self._nominations.adopt()
        for uid, preemption in self._preemptions.under_way():
            self._tasks.start(self._guarded(uid, self._evict_all(uid, preemption)), f"preempt-{uid}")

    async def stop(self) -> None:
        """Evict nobody any more."""
        await self._tasks.stop()

    async def run(self) -> None:
        """Look after what is under way, until cancelled."""
        while True:
            try:
                self._look_for_overdue()
                if self._now() < self._adopt_until:
                    self._nominations.adopt()
                    await self._nominations.adopt_of_former_rights()
                await self._nominations.take_back()
            except ApiUnreachableError as error:
                log.warning("nominations: %s", error)
            except Exception:  # pods must be placed, whatever becomes of one preemption
                log.exception("preemptions")
            await asyncio.sleep(_PACE)

    # One preemption --------------------------------------------------------------------------------------------------

    async def _guarded(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        """Carry a preemption out; one that breaks off is given up, so that its pod is decided anew."""
        try:
            await work
        except Exception:  # whatever it is, it must not leave a pod waiting for nothing
            log.exception("the preemption for pod %s broke off", uid)
            self._preemptions.retry(uid, self._now(), _RIGHTS_AGAIN)
            self._context.port.decide_again()

    async def _nominate_and_evict(self, decision: Decision, preemption: Preemption, note: str) -> None:
        uid = decision.uid
        pod = self._state.pod(uid)
        if pod is None or not self._is_wanted(uid, preemption):
            return
        if not self._context.may_write(self._timeout):
            return  # who leads next decides it anew
        self._nominations.add(uid, preemption.node)
        self.stats.nominated += 1
        reason = decision.condition_reason
        response = await self._context.reporter.nominated(pod, reason, decision.message, note, preemption.node)
        if response is None or not response.ok:
            message = "no answer" if response is None else f"{response.status}: {response.message}"
            log.info(Keyed("Pod was not nominated", pod=pod.key, node=preemption.node, err=message))
            if response is not None and response.status in {403, 422}:  # the right is missing, or its component
                self._preemptions.evaluator.deny(f"pods/status: {response.message}", self._now() + _RIGHTS_AGAIN)
                self._context.reporter.not_scheduled(pod, reason, decision.message, note)
            self._preemptions.retry(uid, self._now(), _PACE)
            self._context.port.decide_again()
            return
        self._context.observe("Pod", response.body)
        await self._evict_all(uid, preemption)

    async def _evict_all(self, uid: str, preemption: Preemption) -> None:
        known = (self._state.pod(victim.uid) for victim in preemption.victims)
        some_end = any(pod.deleting for pod in known if pod is not None)  # an earlier leader may have evicted them
        for victim in preemption.victims:
            result = await self._end(uid, preemption, victim, some_end=some_end)
            if result is None:
                return  # it is not wanted any more
            some_end |= result.answer is EvictionAnswer.EVICTED
            if result.answer not in _DONE:
                self._give_up(uid, victim, result)
                return
        if self._is_wanted(uid, preemption):
            self._asked_for[uid] = self._now()

    async def _end(self, uid: str, preemption: Preemption, victim: Victim, *, some_end: bool) -> EvictionResult | None:
        """Have a victim end; return what came of it, None if that is not wanted any more.

        Whatever takes time is followed by another look at everything: who may end then is evicted, and nobody else.

        Parameters
        ----------
        some_end
            Whether other victims end already: one that a budget protects is asked for again then.
        """
        is_recorded, tries = False, 0
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
            forbidden = self._preemptions.forbids(uid, pod, self._now()) if victim.bound else "it is bound by now"
            rules, tries = self._preemptions.rules_of(uid), tries + 1
            if not forbidden and not is_recorded:
                recorded = await self._record.write(rules, pod)
                is_recorded = recorded is Recorded.YES
                if recorded is not Recorded.OVER_LIMIT:
                    await asyncio.sleep(0.0 if is_recorded else _PACE)
                    continue
                forbidden = "its policy has allowed all evictions of this hour to others"
            if forbidden or tries > _MOST_TRIES:
                self._withdraw(uid, victim, forbidden or "the API server gives no clear answer")
                return None
            result = await self._try_to_end(uid, pod, rules, preemption, victim)
            is_recorded = False  # where it takes long to evict it, the record says when it was tried last
            if result.answer is not EvictionAnswer.UNKNOWN and not (
                result.answer is EvictionAnswer.PROTECTED and some_end
            ):
                return result
            await asyncio.sleep(result.retry_after)
        return None

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
            self._preemptions.evaluator.exclude(victim.uid, now + _EXCLUDED_FOR)
        if result.answer is EvictionAnswer.PROTECTED:
            self._protected[victim.uid] += 1
            if self._protected[victim.uid] >= _MOST_PROTECTED:  # by a budget that looks otherwise from here
                del self._protected[victim.uid]
                self._preemptions.evaluator.exclude(victim.uid, now + _EXCLUDED_FOR)
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
        under_way = [uid for uid, _ in self._preemptions.under_way()]
        self._since = {uid: self._since.get(uid, self._now()) for uid in under_way}
        self.stats.longest = self._now() - min(self._since.values(), default=self._now())
        self._asked_for = {uid: self._asked_for[uid] for uid in under_way if uid in self._asked_for}
        for uid in under_way:
            asked = self._asked_for.get(uid)
            for victim in self._preemptions.still_there(uid):
                pod = self._state.pod(victim.uid)
                if asked is not None and pod and not pod.deleting and self._now() - asked >= OVERDUE_AFTER:
                    self._withdraw(uid, victim, "its eviction was answered, and it does not end")
                    break
                late = 0.0 if pod is None or pod.ends_by is None else moment - pod.ends_by
                if late < OVERDUE_AFTER:
                    continue
                overdue += 1
                waiting = self._state.pod(uid)
                if waiting is not None:
                    text = (
                        f"pod {victim.pod} on node {pod.node_name if pod else ''} has not ended within its grace period"
                    )
                    self._context.reporter.warning(waiting, text, EventReason.VICTIM_OVERDUE)
                if late >= GIVEN_UP_AFTER:
                    self._preemptions.evaluator.exclude(victim.uid)
                    self._preemptions.retry(uid, self._now(), 0.0)
                    self._context.port.decide_again()
                    break
        self.stats.overdue = overdue

    def _now(self) -> float:
        return self._context.clock.monotonic()
