"""Carries preemptions out: the pod is nominated to its node, then the victims are evicted, one after the other.

The engine keeps the room from the moment of the decision on. Here everything is asked again right before each write:
whether the lease is held, whether the preemption is still wanted, and whether the victim is still there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.binding.context import Background, BindContext, errors_logged
from vgpu_scheduler.binding.eviction_record import EvictionAttempt, EvictionRecord, RecordOutcome
from vgpu_scheduler.binding.eviction_rights import NOMINATE, EvictionRight, missing_right
from vgpu_scheduler.binding.evictions import EvictionAnswer, EvictionResult, EvictionSender
from vgpu_scheduler.binding.nominations import NominationWriter
from vgpu_scheduler.binding.overdue import OverdueVictims
from vgpu_scheduler.binding.reports import ConditionText
from vgpu_scheduler.engine import OVERDUE_AFTER
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Preemption, Victim
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

_PACE = 1.0
"""Seconds between two looks at what is under way."""
_LEAVES_LANE_AFTER = 0.2
"""Seconds between two looks at a victim that is about to be bound."""
_RIGHTS_AGAIN = 60.0
"""Seconds for which no evictions are tried after one was denied."""
_MOST_PROTECTED = 3
"""So often the API server may protect a pod until it is nobody's victim for a while."""
_EXCLUDED_FOR = 600.0
"""Seconds."""
_MOST_TRIES = 240
"""How often a victim is tried to be evicted, or its record to be written, before its pod is decided anew."""
_MOST_READS = 5
"""How often it is tried to find out who has written the nominations that a new leader finds."""
_LATE = 60.0
"""Seconds for which writes of an earlier leader may still arrive."""
_REFUSED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY})
_DONE = frozenset({EvictionAnswer.EVICTED, EvictionAnswer.GONE})


@dataclass(slots=True)
class EvictorStats:
    """What the evictor has done, for metrics."""

    answers: Counter[EvictionAnswer] = field(default_factory=Counter)
    nominated: int = 0
    overdue: int = 0
    """Victims that should have ended and have not, now: those that nobody waits for any more, too."""
    longest: float = 0.0
    """Seconds since the oldest preemption began that is under way; 0 if none is."""


@dataclass(slots=True)
class _UnderWay:
    """A preemption that is being carried out.

    Attributes
    ----------
    since
        When it was seen first.
    asked_at
        Since when nothing is left to be asked for, as all its victims were asked to end; None before.
    """

    preemption: Preemption
    since: float
    asked_at: float | None = None


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
        self._earlier = context.engine.earlier_nominations
        self._state = context.engine.state
        self._timeout = timeout
        self._leave_lane = leave_lane
        self._record = EvictionRecord(context, timeout)
        self._sender = EvictionSender(context, timeout)
        self._tasks = Background()
        self._nominations = NominationWriter(context, timeout)
        self._under_way: dict[str, _UnderWay] = {}
        """By the UID of the pod that gets the room."""
        self._protected: Counter[str] = Counter()
        """How often the API server has protected a pod that no budget seems to protect, by UID."""
        self._adopts, self._adopt_until = False, 0.0
        self._overdue = OverdueVictims(context)
        self.stats = EvictorStats()

    def submit(self, *decisions: Decision, notes: Mapping[str, str] | None = None) -> None:
        """Take over a pod for which room was found that others have to leave, or all pods that get room together.

        Parameters
        ----------
        notes
            What the event about a pod adds to the message, by its UID.
        """
        first = decisions[0]
        work = self._nominate_and_evict(decisions, notes or {})
        self._tasks.start(self._guarded(first.uid, work), f"preempt-{first.pod}")

    async def take_over(self) -> None:
        """Keep the room again that an earlier leader kept, and go on with what it began.

        The pods of a nomination are asked first who wrote it: for one of anybody else nothing is kept and nobody is
        evicted. If nobody says so for some seconds, nothing is kept for it either.
        """
        for _ in range(_MOST_READS):
            if await self._nominations.adopt(self._earlier.restorable()):
                break
            await asyncio.sleep(_PACE)
        foreign = {uid for uid, node in self._earlier.restorable() if not self._nominations.is_own(uid, node)}
        self._earlier.restore(self._now(), foreign)
        self.resume()

    def resume(self) -> None:
        """Go on with the preemptions that an earlier leader began, as far as the engine knows them."""
        self._adopts, self._adopt_until = True, self._now() + _LATE
        self._nominations.adopt_under_way()
        for uid, preemption in self._preemptions.under_way():
            self._tasks.start(self._guarded(uid, self._evict_all(uid, preemption)), f"preempt-{uid}")

    async def stop(self) -> None:
        """Evict nobody any more."""
        await self._tasks.stop()

    async def run(self) -> None:
        """Look after what is under way, until cancelled."""
        while True:
            with errors_logged(log, "preemptions"):
                self._preemptions.evaluator.unix_ahead = self._context.clock.now().timestamp() - self._now()
                for gone in [uid for uid in self._protected if self._state.pod(uid) is None]:
                    del self._protected[gone]
                self._look_for_overdue()
                if self._adopts:
                    is_complete = await self._nominations.adopt(self._earlier.nominated())
                    self._adopts = not is_complete or self._now() < self._adopt_until
                await self._nominations.take_back()
                for uid, found in list(self._under_way.items()):
                    if found.asked_at is not None and self._is_wanted(uid, found.preemption):
                        await self._nominations.renew(uid, found.preemption.node)
            await asyncio.sleep(_PACE)

    # One preemption --------------------------------------------------------------------------------------------------

    async def _guarded(self, uid: str, work: Coroutine[Any, Any, object]) -> None:
        """Carry a preemption out; one that breaks off is given up, so that its pod is decided anew."""
        try:
            await work
        except Exception:  # whatever it is, it must not leave a pod waiting for nothing
            log.exception("the preemption for pod %s broke off", uid)
            self._preemptions.retry(uid, self._now(), _RIGHTS_AGAIN)
            self._context.signals.decide_again()

    async def _nominate_and_evict(self, decisions: Sequence[Decision], notes: Mapping[str, str]) -> None:
        """Nominate all pods, and then have the victims of each end; nobody ends before all are nominated."""
        wanted = [(decision, decision.preemption) for decision in decisions if decision.preemption is not None]
        for decision, preemption in wanted:
            if not await self._nominate(decision, preemption, notes.get(decision.uid, "")):
                return
        for decision, preemption in wanted:
            if not await self._evict_all(decision.uid, preemption):
                return

    async def _nominate(self, decision: Decision, preemption: Preemption, note: str) -> bool:
        """Nominate a pod; tell whether it is, and still wanted."""
        uid = decision.uid
        while not self._context.may_write(self._timeout):  # the lease may be renewed yet, or another one leads
            await asyncio.sleep(_PACE)
            if not self._is_wanted(uid, preemption):
                return False
        pod = self._state.pod(uid)
        if pod is None or not self._is_wanted(uid, preemption):
            return False
        self._nominations.add(uid, preemption.node)
        self.stats.nominated += 1
        reason = decision.condition_reason
        response = await self._context.reporter.nominated(
            pod,
            ConditionText(reason, decision.message, note),
            preemption.node,
            lambda: self._context.may_write(self._timeout) and self._is_wanted(uid, preemption),
        )
        if response is None and not self._is_wanted(uid, preemption):
            return False
        if response is None or not response.ok:
            message = "no answer" if response is None else f"{response.status}: {response.message}"
            log.info(KeyedMessage("Pod was not nominated", pod=pod.key, node=preemption.node, err=message))
            is_refused = response is not None and response.status in _REFUSED
            if response is not None and is_refused:
                self._deny(NOMINATE, missing_right(NOMINATE, response))
                self._context.reporter.not_scheduled(pod, reason, decision.message, note)
            # It may be about this pod alone: others go on meanwhile.
            self._preemptions.retry(uid, self._now(), _RIGHTS_AGAIN if is_refused else _PACE)
            self._context.signals.decide_again()
            return False
        self._context.observe("Pod", response.body)
        return True

    async def _evict_all(self, uid: str, preemption: Preemption) -> bool:
        """Have the victims of a pod end, one after the other; tell whether all were asked to, or are gone."""
        known = (self._state.pod(victim.uid) for victim in preemption.victims)
        some_end = any(pod.deleting for pod in known if pod is not None)  # an earlier leader may have evicted them
        # The room is complete when those on the node have left: who ends with them elsewhere is asked before that.
        for victim in sorted(preemption.victims, key=lambda victim: victim.node in {"", preemption.node}):
            result = await self._end(uid, preemption, victim, some_end=some_end)
            if result is None:
                return False  # it is not wanted any more
            some_end |= result.answer is EvictionAnswer.EVICTED
            if result.answer not in _DONE:
                self._give_up(uid, victim, result)
                return False
        if self._is_wanted(uid, preemption):
            self._entry(uid, preemption).asked_at = self._now()
        return self._is_wanted(uid, preemption)

    def _entry(self, uid: str, preemption: Preemption) -> _UnderWay:
        found = self._under_way.get(uid)
        if found is None or found.preemption is not preemption:
            found = self._under_way[uid] = _UnderWay(preemption, self._now())
        return found

    async def _end(self, uid: str, preemption: Preemption, victim: Victim, *, some_end: bool) -> EvictionResult | None:
        """Have a victim end; return what came of it, None if that is not wanted any more.

        What was recorded counts towards the limits of policies only if the victim ends for it, or may have.

        Parameters
        ----------
        some_end
            Whether other victims end already: one that a budget protects is asked for again then.
        """
        attempt = EvictionAttempt()
        counts = True  # unless it is known to have come to nothing
        try:
            result = await self._try_until_clear(uid, preemption, victim, attempt, some_end=some_end)
            counts = attempt.unsure or attempt.evicted
        finally:
            await self._record.settle(victim.uid, attempt.relied_on, counts=counts)
        return result

    async def _try_until_clear(
        self, uid: str, preemption: Preemption, victim: Victim, attempt: EvictionAttempt, *, some_end: bool
    ) -> EvictionResult | None:
        """Ask for the end of a victim until the answer is clear; return it, None if that is not wanted any more.

        Whatever takes time is followed by another look at everything: who may end then is evicted, and nobody else.
        """
        while self._is_wanted(uid, preemption):
            if not self._context.may_write(self._timeout):
                await asyncio.sleep(_PACE)
                continue
            pod = self._state.pod(victim.uid)
            if pod is None or pod.terminal or pod.deleting or self._state.reservation(victim.uid) is None:
                return self._ended(uid, preemption, pod, attempt)
            if not pod.node_name:
                if not self._leave_lane(victim.uid):
                    await asyncio.sleep(_LEAVES_LANE_AFTER)  # its Binding is on its way: it will be bound, or not
                continue
            forbidden, attempt.tries = self._forbidden(uid, pod, victim, attempt), attempt.tries + 1
            if not forbidden and not self._is_prepared(uid, preemption, attempt):
                if await self._prepare(uid, preemption, pod, attempt):
                    continue
                forbidden = "its policy has allowed all evictions of this hour to others"
            if forbidden:
                self._withdraw(uid, victim, forbidden)
                return None
            is_allowed = partial(self._may_still_end, uid, preemption, pod, victim, attempt)
            result = await self._sender.send(uid, pod, preemption, is_allowed)
            attempt.recorded = None  # where it takes long to evict it, the record says when it was tried last
            if result is None:
                continue
            self.stats.answers[result.answer] += 1
            attempt.unsure |= result.leaves_doubt
            attempt.evicted |= result.answer is EvictionAnswer.EVICTED
            if not result.is_to_be_tried_again(some_end=some_end):
                return result
            await asyncio.sleep(result.retry_after)
        return None

    def _ended(self, uid: str, preemption: Preemption, victim: Pod | None, attempt: EvictionAttempt) -> EvictionResult:
        """Say what has become of a victim that need not be evicted any more."""
        if victim is None or victim.terminal or not victim.deleting:
            return EvictionResult(EvictionAnswer.GONE)
        if attempt.unsure:  # its eviction was carried out, and the answer is lost
            self.stats.answers[EvictionAnswer.EVICTED] += 1
            self._sender.tell(uid, victim, preemption)
        return EvictionResult(EvictionAnswer.EVICTED)

    def _may_still_end(
        self, uid: str, preemption: Preemption, pod: Pod, victim: Victim, attempt: EvictionAttempt
    ) -> bool:
        """Tell whether a victim that was about to be ended may still end for a pod, as all was prepared for."""
        is_prepared = self._is_prepared(uid, preemption, attempt)
        return is_prepared and self._is_wanted(uid, preemption) and not self._forbidden(uid, pod, victim, attempt)

    def _is_prepared(self, uid: str, preemption: Preemption, attempt: EvictionAttempt) -> bool:
        """Tell whether a pod is nominated, and the eviction recorded under the limits that are in force for it now."""
        is_recorded = attempt.recorded == self._preemptions.rules_of(uid).eviction_limits
        return is_recorded and self._nominations.is_nominated(uid, preemption.node)

    def _forbidden(self, uid: str, pod: Pod, victim: Victim, attempt: EvictionAttempt) -> str:
        """Say why a victim must not be evicted any more; empty if it may."""
        if attempt.tries >= _MOST_TRIES:
            return "the API server gives no clear answer"
        return self._preemptions.forbids(uid, pod, self._now()) if victim.bound else "it is bound by now"

    async def _prepare(self, uid: str, preemption: Preemption, victim: Pod, attempt: EvictionAttempt) -> bool:
        """Do what comes before an eviction: the nomination, and its record; False if the limits allow it no more."""
        if not self._nominations.is_nominated(uid, preemption.node):
            renewed = await self._nominations.renew(uid, preemption.node)
            await asyncio.sleep(0.0 if renewed else _PACE)
            return True
        rules = self._preemptions.rules_of(uid)
        recorded = await self._record.write(rules, victim, attempt.relied_on)
        attempt.recorded = rules.eviction_limits if recorded is RecordOutcome.YES else None
        await asyncio.sleep(_PACE if recorded is RecordOutcome.NO else 0.0)
        return recorded is not RecordOutcome.OVER_LIMIT

    def _give_up(self, uid: str, victim: Victim, result: EvictionResult) -> None:
        """Have a pod decided anew of which a victim cannot be evicted."""
        log.info(KeyedMessage("Victim was not evicted", pod=victim.pod, preemptor=uid, err=result.message))
        now = self._now()
        if result.answer is EvictionAnswer.DENIED:
            self._deny(result.right, result.message)
        if result.answer in {EvictionAnswer.SEVERAL_BUDGETS, EvictionAnswer.REFUSED}:
            self._preemptions.evaluator.exclude(victim.uid, now + _EXCLUDED_FOR)
        if result.answer is EvictionAnswer.PROTECTED:
            self._protected[victim.uid] += 1
            if self._protected[victim.uid] >= _MOST_PROTECTED:  # by a budget that looks otherwise from here
                del self._protected[victim.uid]
                self._preemptions.evaluator.exclude(victim.uid, now + _EXCLUDED_FOR)
        self._preemptions.retry(uid, now, result.retry_after)
        self._context.signals.decide_again()

    def _deny(self, right: EvictionRight, missing: str) -> None:
        """Have nobody preempt others for a while who needs a right that is missing, if one is."""
        if missing:
            self._preemptions.evaluator.deny(missing, self._now() + _RIGHTS_AGAIN, exceeding=right.exceeding)

    def _withdraw(self, uid: str, victim: Victim, reason: str) -> None:
        """Have a pod decided anew for which a victim must not end any more."""
        log.info(KeyedMessage("Victim is not evicted", pod=victim.pod, preemptor=uid, err=reason))
        self._preemptions.retry(uid, self._now(), _PACE)
        self._context.signals.decide_again()

    def _is_wanted(self, uid: str, preemption: Preemption) -> bool:
        return self._preemptions.of(uid) is preemption

    # All that is under way -------------------------------------------------------------------------------------------

    def _look_for_overdue(self) -> None:
        """Tell of victims that should have ended long ago; who waits too long for one is decided anew."""
        self._under_way = {uid: self._entry(uid, found) for uid, found in self._preemptions.under_way()}
        self.stats.longest = self._now() - min((of.since for of in self._under_way.values()), default=self._now())
        for uid, found in list(self._under_way.items()):
            there = self._preemptions.still_there(uid)
            unmoved = self._unmoved(found, there)
            given_up = self._overdue.look(uid, there)
            if unmoved is not None:
                self._withdraw(uid, unmoved, "its eviction was answered, and it does not end")
            elif given_up is not None:
                self._preemptions.evaluator.exclude(given_up.uid)
                self._preemptions.retry(uid, self._now(), 0.0)
                self._context.signals.decide_again()
        self._overdue.forget_gone()
        self.stats.overdue = len(self._overdue)

    def _unmoved(self, found: _UnderWay, there: Collection[Victim]) -> Victim | None:
        """Return a victim that is still there, was asked to end long ago and does not; None if there is none."""
        if found.asked_at is None or self._now() - found.asked_at < OVERDUE_AFTER:
            return None
        known = ((victim, self._state.pod(victim.uid)) for victim in there)
        return next((victim for victim, pod in known if pod is not None and not pod.deleting), None)

    def _now(self) -> float:
        return self._context.clock.monotonic()
