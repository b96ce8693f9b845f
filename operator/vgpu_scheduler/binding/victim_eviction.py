"""The eviction of one victim: prepared, sent, and tried again until its outcome is clear."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.eviction_record import EvictionAttempt, EvictionRecord, RecordOutcome
from vgpu_scheduler.binding.evictions import EvictionAnswer, EvictionResult, EvictionSender
from vgpu_scheduler.binding.nominations import NominationWriter
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Preemption, Victim
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

EXCLUDED_FOR = 600.0
"""Seconds for which a pod is excluded as a victim."""
_RETRY_AFTER = 1.0
"""Seconds before what failed is tried again: a lease that is not held, a nomination, a record; then the whole pod."""
_LEAVES_LANE_AFTER = 0.2
"""Seconds between two checks of a victim that is about to be bound."""
_MOST_TRIES = 240
"""Attempts to record and evict a victim, before the preempting pod is decided anew."""


@dataclass(frozen=True, slots=True)
class EvictionContext:
    """What the evictions of all victims share.

    Attributes
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write.
    cancel_unsent
        Takes back the placement of a pod whose Binding was not sent, by UID; returns whether there was one.
    record, sender, nominations
        Write the records of evictions, the evictions, and the nominations of preempting pods.
    answers
        How often the API server gave each answer.
    """

    context: BindContext
    timeout: float
    cancel_unsent: Callable[[str], bool]
    record: EvictionRecord
    sender: EvictionSender
    nominations: NominationWriter
    answers: Counter[EvictionAnswer]


def withdraw(context: BindContext, uid: str, victim: Victim, reason: str) -> None:
    """Have a pod decided anew because one of its victims must not be evicted any more."""
    log.info(KeyedMessage("Victim is not evicted", pod=victim.pod, preemptor=uid, err=reason))
    context.engine.preemptions.retry(uid, context.clock.monotonic(), _RETRY_AFTER)
    context.signals.decide_again()


class VictimEviction:
    """Evicts one victim of a preemption.

    Parameters
    ----------
    shared
        What the evictions of all victims share.
    uid
        The UID of the preempting pod.
    preemption
        Its preemption.
    victim
        The victim.
    some_end
        Whether other victims are ending already; eviction of a victim that a budget protects is then retried.
    """

    def __init__(
        self, shared: EvictionContext, uid: str, preemption: Preemption, victim: Victim, *, some_end: bool
    ) -> None:
        self._shared = shared
        self._state = shared.context.engine.state
        self._preemptions = shared.context.engine.preemptions
        self._uid = uid
        self._preemption = preemption
        self._victim = victim
        self._some_end = some_end
        self._attempt = EvictionAttempt()

    async def run(self) -> EvictionResult | None:
        """Evict the victim; return the result, or None if the preemption is not wanted any more.

        The recorded eviction counts towards the limits of policies only if the victim was or may have been evicted.
        """
        attempt = self._attempt
        counts = True  # unless the victim is known not to have been evicted
        try:
            result = await self._try_until_clear()
            counts = attempt.unsure or attempt.evicted
        finally:
            await self._shared.record.settle(self._victim.uid, attempt.relied_on, counts=counts)
        return result

    async def _try_until_clear(self) -> EvictionResult | None:
        """Try to evict the victim until the answer is clear; return it, or None if the eviction is not wanted any more.

        After every wait, all conditions are checked again: only a victim that may end now is evicted.
        """
        shared, attempt = self._shared, self._attempt
        while self._is_wanted():
            if not shared.context.may_write(shared.timeout):
                await asyncio.sleep(_RETRY_AFTER)
                continue
            pod = self._state.pod(self._victim.uid)
            if pod is None or pod.terminal or pod.deleting or self._state.reservation(pod.uid) is None:
                return self._result_without_eviction(pod)
            if not pod.node_name:
                if not await self._leaves_lane():
                    return None
                continue
            if forbidden := self._forbidden(pod):
                self._withdraw(forbidden)
                return None
            attempt.tries += 1
            if not self._is_prepared():
                if await self._prepare(pod):
                    continue
                self._withdraw("the evictions that its policy allows per hour are used up")
                return None
            is_allowed = partial(self._may_be_evicted, pod)
            result = await shared.sender.send(self._uid, pod, self._preemption, is_allowed)
            attempt.recorded = None  # so that the next try renews the time in the record
            if result is None:
                continue
            shared.answers[result.answer] += 1
            attempt.unsure |= result.leaves_doubt
            attempt.evicted |= result.answer is EvictionAnswer.EVICTED
            if not result.is_to_be_tried_again(some_end=self._some_end):
                return result
            await asyncio.sleep(result.retry_after)
        return None

    async def _leaves_lane(self) -> bool:
        """Have an unbound victim leave, or wait for the answer to its Binding; False if that takes too long."""
        if self._shared.cancel_unsent(self._victim.uid):
            return True
        self._attempt.tries += 1
        if self._attempt.tries >= _MOST_TRIES:
            now = self._shared.context.clock.monotonic()
            self._preemptions.evaluator.exclude(self._victim.uid, now + EXCLUDED_FOR)  # or it is chosen again
            self._withdraw("the API server does not say whether it was bound")
            return False
        await asyncio.sleep(_LEAVES_LANE_AFTER)
        return True

    def _result_without_eviction(self, pod: Pod | None) -> EvictionResult:
        """Return the result for a victim that is ending or gone without a (further) eviction."""
        if pod is None or pod.terminal or not pod.deleting:
            return EvictionResult(EvictionAnswer.GONE)
        if self._attempt.unsure:  # the eviction was carried out, but its answer was lost
            self._shared.answers[EvictionAnswer.EVICTED] += 1
            self._shared.sender.tell(self._uid, pod, self._preemption)
        return EvictionResult(EvictionAnswer.EVICTED)

    def _may_be_evicted(self, pod: Pod) -> bool:
        """Tell whether the victim may still be evicted, and the preparations for that still hold."""
        return self._is_prepared() and self._is_wanted() and not self._forbidden(pod)

    def _is_wanted(self) -> bool:
        return self._preemptions.of(self._uid) is self._preemption

    def _is_prepared(self) -> bool:
        """Tell whether the pod is nominated, and the eviction recorded under the limits now in force for the pod."""
        is_recorded = self._attempt.recorded == self._preemptions.rules_of(self._uid).eviction_limits
        return is_recorded and self._shared.nominations.is_nominated(self._uid, self._preemption.node)

    async def _prepare(self, pod: Pod) -> bool:
        """Renew the nomination, or else record the eviction; False if the limits no longer allow the eviction."""
        shared, attempt = self._shared, self._attempt
        if not shared.nominations.is_nominated(self._uid, self._preemption.node):
            renewed = await shared.nominations.renew(self._uid, self._preemption.node)
            await asyncio.sleep(0.0 if renewed else _RETRY_AFTER)
            return True
        rules = self._preemptions.rules_of(self._uid)
        recorded = await shared.record.write(rules, pod, attempt.relied_on)
        attempt.recorded = rules.eviction_limits if recorded is RecordOutcome.RECORDED else None
        await asyncio.sleep(_RETRY_AFTER if recorded is RecordOutcome.NOT_RECORDED else 0.0)
        return recorded is not RecordOutcome.OVER_LIMIT

    def _forbidden(self, pod: Pod) -> str:
        """Return why the victim must not be evicted any more; empty if it may be."""
        if self._attempt.tries >= _MOST_TRIES:
            return "the API server gives no clear answer"
        if not self._victim.bound:
            return "it is bound now"
        return self._preemptions.forbids(self._uid, pod, self._shared.context.clock.monotonic())

    def _withdraw(self, reason: str) -> None:
        withdraw(self._shared.context, self._uid, self._victim, reason)
