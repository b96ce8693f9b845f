"""Carries out preemptions: nominates the pod to its node, then evicts the victims one after the other.

The engine keeps the room from the moment of the decision. Right before each write, the evictor checks again whether the
lease is held, the preemption is still wanted, and the victim still exists.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import TaskSet, errors_logged, unix_ahead
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.eviction_record import EvictionRecord
from vgpu_scheduler.binding.eviction_rights import NOMINATE, EvictionRight, missing_right
from vgpu_scheduler.binding.evictions import EvictionAnswer, EvictionResult, EvictionSender
from vgpu_scheduler.binding.nominations import NominationWriter
from vgpu_scheduler.binding.overdue import OverdueVictims
from vgpu_scheduler.binding.reports import ConditionText
from vgpu_scheduler.binding.victim_eviction import EXCLUDED_FOR, EvictionContext, VictimEviction, withdraw
from vgpu_scheduler.engine import OVERDUE_AFTER
from vgpu_scheduler.model import Decision, Preemption, Victim
from vgpu_scheduler.telemetry import KeyedMessage

log = logging.getLogger(__name__)

_PACE = 1.0
"""Seconds between two checks of the preemptions under way."""
_RIGHTS_AGAIN = 60.0
"""Seconds without evictions after one was denied for a missing right."""
_MOST_PROTECTED = 3
"""After this many evictions refused because of a budget, the pod is excluded as a victim for a while."""
_MOST_READS = 5
"""Attempts of a new leader to find out who wrote the nominations that exist."""
_LATE = 60.0
"""Seconds within which writes of an earlier leader may still arrive."""
_REFUSED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY})
_DONE = frozenset({EvictionAnswer.EVICTED, EvictionAnswer.GONE})


@dataclass(slots=True)
class EvictorStats:
    """What the evictor has done, for metrics."""

    answers: Counter[EvictionAnswer] = field(default_factory=Counter)
    nominated: int = 0
    overdue: int = 0
    """How many victims are overdue now, including those for which no pod waits any more."""
    longest: float = 0.0
    """The age of the oldest preemption under way, in seconds; 0 if there is none."""


@dataclass(slots=True)
class _UnderWay:
    """A preemption that is being carried out.

    Attributes
    ----------
    since
        When the preemption was first seen.
    asked_at
        When the last of its victims was asked to end; None before.
    """

    preemption: Preemption
    since: float
    asked_at: float | None = None


class Evictor:
    """Evicts the victims of preemptions.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write.
    cancel_unsent
        Takes back the placement of a pod whose Binding was not sent, by UID; returns whether there was one.
    """

    def __init__(self, context: BindContext, timeout: float, cancel_unsent: Callable[[str], bool]) -> None:
        self._context = context
        self._preemptions = context.engine.preemptions
        self._earlier = context.engine.earlier_nominations
        self._state = context.engine.state
        self._timeout = timeout
        self._tasks = TaskSet()
        self._nominations = NominationWriter(context, timeout)
        self._under_way: dict[str, _UnderWay] = {}
        """By the UID of the preempting pod."""
        self._protected: Counter[str] = Counter()
        """How often the API server refused to evict a pod that no known budget protects, by UID."""
        self._adopts, self._adopt_until = False, 0.0
        self._overdue = OverdueVictims(context)
        self.stats = EvictorStats()
        record, sender = EvictionRecord(context, timeout), EvictionSender(context, timeout)
        self._shared = EvictionContext(
            context, timeout, cancel_unsent, record, sender, self._nominations, self.stats.answers
        )

    def submit(self, *decisions: Decision, notes: Mapping[str, str] | None = None) -> None:
        """Carry out the preemption for a pod, or for all pods of a group.

        Parameters
        ----------
        notes
            Text that the event about a pod adds to the message, by UID.
        """
        first = decisions[0]
        work = self._nominate_and_evict(decisions, notes or {})
        self._tasks.start(self._guarded(first.uid, work), f"preempt-{first.pod}")

    async def take_over(self) -> None:
        """Restore the room that an earlier leader kept, and continue its preemptions.

        The nominated pods are read first to find out who wrote each nomination. A nomination that another component
        wrote, or whose writer stays unknown for some seconds, keeps no room and evicts no pod.
        """
        for _ in range(_MOST_READS):
            if await self._nominations.adopt(self._earlier.restorable()):
                break
            await asyncio.sleep(_PACE)
        foreign = {uid for uid, node in self._earlier.restorable() if not self._nominations.is_own(uid, node)}
        self._earlier.restore(self._now(), foreign)
        self.resume()

    def resume(self) -> None:
        """Continue the preemptions of an earlier leader that the engine knows."""
        self._adopts, self._adopt_until = True, self._now() + _LATE
        self._nominations.adopt_under_way()
        for uid, preemption in self._preemptions.under_way():
            self._tasks.start(self._guarded(uid, self._evict_all(uid, preemption)), f"preempt-{uid}")

    async def stop(self) -> None:
        """Stop evicting."""
        await self._tasks.stop()

    async def run(self) -> None:
        """Watch the preemptions under way, until cancelled."""
        while True:
            with errors_logged(log, "preemptions"):
                self._preemptions.evaluator.unix_ahead = unix_ahead(self._context.clock)
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
        """Run a preemption; if it raises, have its pod decided anew."""
        try:
            await work
        except Exception:  # otherwise the pod would wait for ever
            log.exception("the preemption for pod %s failed with an internal error", uid)
            self._preemptions.retry(uid, self._now(), _RIGHTS_AGAIN)
            self._context.signals.decide_again()

    async def _nominate_and_evict(self, decisions: Sequence[Decision], notes: Mapping[str, str]) -> None:
        """Nominate all pods, then evict the victims of each; no victim is evicted before all pods are nominated."""
        wanted = [(decision, decision.preemption) for decision in decisions if decision.preemption is not None]
        for decision, preemption in wanted:
            if not await self._nominate(decision, preemption, notes.get(decision.uid, "")):
                return
        for decision, preemption in wanted:
            if not await self._evict_all(decision.uid, preemption):
                return

    async def _nominate(self, decision: Decision, preemption: Preemption, note: str) -> bool:
        """Nominate a pod; return whether that succeeded and the preemption is still wanted."""
        uid = decision.uid
        while not self._context.may_write(self._timeout):  # the lease may be renewed, or another leader takes over
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
            self._timeout,
            lambda: self._context.may_write(self._timeout) and self._is_wanted(uid, preemption),
        )
        if response is None and not self._is_wanted(uid, preemption):
            return False
        if response is None or not response.ok:
            message = "no answer" if response is None else response.refusal
            log.info(KeyedMessage("Pod was not nominated", pod=pod.key, node=preemption.node, err=message))
            is_refused = response is not None and response.status in _REFUSED
            if response is not None and is_refused:
                self._deny(NOMINATE, missing_right(NOMINATE, response))
                self._context.reporter.not_scheduled(pod, reason, decision.message, note)
            # The refusal may concern this pod alone, so other preemptions continue.
            self._preemptions.retry(uid, self._now(), _RIGHTS_AGAIN if is_refused else _PACE)
            self._context.signals.decide_again()
            return False
        self._context.observe("Pod", response.body)
        return True

    async def _evict_all(self, uid: str, preemption: Preemption) -> bool:
        """Evict the victims of a pod one after the other; return whether all were asked to end or are gone."""
        known = (self._state.pod(victim.uid) for victim in preemption.victims)
        some_end = any(pod.deleting for pod in known if pod is not None)  # an earlier leader may have evicted them
        # The room is complete once the victims on this node have left, so victims on other nodes are evicted first.
        for victim in sorted(preemption.victims, key=lambda victim: victim.node in {"", preemption.node}):
            result = await VictimEviction(self._shared, uid, preemption, victim, some_end=some_end).run()
            if result is None:
                return False  # the preemption is not wanted any more
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

    def _give_up(self, uid: str, victim: Victim, result: EvictionResult) -> None:
        """Have a pod decided anew because one of its victims cannot be evicted."""
        log.info(KeyedMessage("Victim was not evicted", pod=victim.pod, preemptor=uid, err=result.message))
        now = self._now()
        if result.answer is EvictionAnswer.DENIED:
            self._deny(result.right, result.message)
        if result.answer in {EvictionAnswer.SEVERAL_BUDGETS, EvictionAnswer.REFUSED}:
            self._preemptions.evaluator.exclude(victim.uid, now + EXCLUDED_FOR)
        if result.answer is EvictionAnswer.PROTECTED:
            self._protected[victim.uid] += 1
            if self._protected[victim.uid] >= _MOST_PROTECTED:  # by a budget whose known state differs
                del self._protected[victim.uid]
                self._preemptions.evaluator.exclude(victim.uid, now + EXCLUDED_FOR)
        self._preemptions.retry(uid, now, result.retry_after)
        self._context.signals.decide_again()

    def _deny(self, right: EvictionRight, missing: str) -> None:
        """Suspend preemptions that need a missing right for a while; ``missing`` is empty if no right is missing."""
        if missing:
            self._preemptions.evaluator.deny(missing, self._now() + _RIGHTS_AGAIN, exceeding=right.exceeding)

    def _is_wanted(self, uid: str, preemption: Preemption) -> bool:
        return self._preemptions.of(uid) is preemption

    # All that is under way -------------------------------------------------------------------------------------------

    def _look_for_overdue(self) -> None:
        """Report overdue victims; a pod that has waited too long for one is decided anew."""
        self._under_way = {uid: self._entry(uid, found) for uid, found in self._preemptions.under_way()}
        self.stats.longest = self._now() - min((of.since for of in self._under_way.values()), default=self._now())
        for uid, found in list(self._under_way.items()):
            there = self._preemptions.still_there(uid)
            unmoved = self._unmoved(found, there)
            given_up = self._overdue.check(uid, there)
            if unmoved is not None:
                withdraw(self._context, uid, unmoved, "its eviction was answered, and it does not end")
            elif given_up is not None:
                self._preemptions.evaluator.exclude(given_up.uid)
                self._preemptions.retry(uid, self._now(), 0.0)
                self._context.signals.decide_again()
        self._overdue.forget_gone()
        self.stats.overdue = len(self._overdue)

    def _unmoved(self, found: _UnderWay, there: Collection[Victim]) -> Victim | None:
        """Return a victim that was asked to end long ago and is not being deleted; None if there is none."""
        if found.asked_at is None or self._now() - found.asked_at < OVERDUE_AFTER:
            return None
        known = ((victim, self._state.pod(victim.uid)) for victim in there)
        return next((victim for victim, pod in known if pod is not None and not pod.deleting), None)

    def _now(self) -> float:
        return self._context.clock.monotonic()
