"""The scheduling loop: takes the next pod, has it decided, and hands the placement over to be bound."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vgpu_scheduler.apiclient import Clock, wait_for_event
from vgpu_scheduler.binding import Binder, Evictor, Reporter
from vgpu_scheduler.engine import Engine, ObservationSignals, event_note
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, EventReason, Outcome
from vgpu_scheduler.telemetry import AttemptMetrics, KeyedMessage

_MOST_DECISIONS = 8
"""Decisions between two looks at everything else that the loop has to do, at most."""
_MOST_SECONDS = 0.004
"""How long they may take together; a decision under way is finished."""
_MOST_LOOKS = 32
"""Pods that are put back after a look at changed nodes, without a decision, between two such looks at most."""
_HEARTBEAT = 1.0

_RESULTS = {
    Outcome.UNSCHEDULABLE: "unschedulable",
    Outcome.REFUSED: "unschedulable",
    Outcome.ERROR: "error",
}

_REFUSALS = {
    Outcome.UNSCHEDULABLE: "Unable to schedule pod; no fit; waiting",
    Outcome.REFUSED: "Unable to schedule pod; refused; waiting",
}
_MOST_SCORED = 5
"""Nodes whose scores the log shows for a pod at debug level."""

log = logging.getLogger(__name__)


class DecisionHandlers(NamedTuple):
    """Who carries decisions out, and tells of them."""

    binder: Binder
    evictor: Evictor
    reporter: Reporter


class SchedulingLoop:
    """Decides pods as long as there are any.

    Parameters
    ----------
    engine, hands, clock
        What it works with.
    attempts
        Where attempts are recorded.
    signals
        Tells when a decision may come out differently.
    on_decisions
        Told of all decisions, before they are carried out.
    """

    def __init__(
        self,
        engine: Engine,
        hands: DecisionHandlers,
        clock: Clock,
        attempts: AttemptMetrics,
        signals: ObservationSignals,
        on_decisions: Callable[[Sequence[Decision]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._binder, self._evictor, self._reporter = hands
        self._clock = clock
        self._attempts = attempts
        self._on_decisions = on_decisions
        self._wake = asyncio.Event()
        signals.decide_again.listen(self._wake.set)
        self.beat = clock.monotonic()
        """When the loop last ran."""

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            self.beat = self._clock.monotonic()
            busy = self._decide_some()
            self._reporter.tick(self._waiting_pod)
            if busy:
                await asyncio.sleep(0)
            else:
                await self._wait()

    def _decide_some(self) -> bool:
        explain = log.isEnabledFor(logging.DEBUG)
        first = self._clock.monotonic()
        for _ in range(_MOST_DECISIONS):
            began = self._clock.monotonic()
            if began > first + _MOST_SECONDS:
                break
            decisions = self._engine.attempt_group(began, explain=explain, most_looks=_MOST_LOOKS)
            if not decisions:
                return False
            seconds = (self._clock.monotonic() - began) / len(decisions)
            self._on_decisions(decisions)
            if decisions[0].outcome is Outcome.PLACED:  # all of a group are, or none
                self._binder.submit(*decisions)
            if decisions[0].outcome is Outcome.NOT_READY:  # nor is any of a group, and there is nothing to say
                continue
            for decision in decisions:
                if explain:
                    _log_explanation(decision)
                self._record(decision, seconds)
                try:
                    self._tell(decision)
                except Exception:  # what is said about one pod must not end the loop
                    log.exception("the decision about pod %s could not be told", decision.pod)
            self._begin_preemption([decision for decision in decisions if decision.preemption is not None])
        return True

    def _record(self, decision: Decision, seconds: float) -> None:
        """Record an attempt; that of a pod which was placed goes on until it is bound."""
        self._attempts.decided(seconds)
        pod = self._engine.state.pod(decision.uid)
        if pod is not None and decision.outcome is not Outcome.PLACED:
            self._attempts.attempted(_RESULTS[decision.outcome], pod.scheduler_name, seconds)

    def _tell(self, decision: Decision) -> None:
        """Say on the pod what its decision is worth saying."""
        pod = self._engine.state.pod(decision.uid)
        if pod is None:
            return
        for warning in decision.warnings:
            self._reporter.warning(pod, warning)
        for warning in self._engine.usage_warnings.of_pod(pod):
            self._reporter.warning(pod, warning, EventReason.SUSPICIOUS_REQUEST)
        if decision.outcome is Outcome.PLACED:
            return
        if decision.outcome is Outcome.ERROR:
            text = KeyedMessage("Error scheduling pod; retrying", pod=decision.pod, err=decision.message)
            log.error(text, exc_info=decision.error)
        if decision.preemption is not None:
            return  # that is written together with its nomination
        reason = decision.condition_reason
        if self._reporter.is_news(pod, reason, decision.message):
            if decision.outcome is not Outcome.ERROR:
                log.info(KeyedMessage(_REFUSALS[decision.outcome], pod=decision.pod, err=decision.message))
            self._reporter.not_scheduled(pod, reason, decision.message, event_note(self._engine, pod, decision))

    def _begin_preemption(self, decisions: Sequence[Decision]) -> None:
        """Have others evicted for a pod, or for all of a group that get room together."""
        notes, victims = dict[str, str](), 0
        for decision in decisions:
            pod, found = self._engine.state.pod(decision.uid), decision.preemption
            if pod is not None and found is not None:
                number = len(found.victims)
                log.info(
                    KeyedMessage("Preempting pods of lower priority", pod=decision.pod, node=found.node, victims=number)
                )
                notes[decision.uid], victims = event_note(self._engine, pod, decision), victims + number
        if notes:
            self._attempts.preempted(victims)
            self._evictor.submit(*decisions, notes=notes)

    def _waiting_pod(self, uid: str) -> Pod | None:
        """Return a pod that waits to be placed."""
        return self._engine.state.pod(uid) if uid in self._engine.queue else None

    async def _wait(self) -> None:
        now = self._clock.monotonic()
        due = self._engine.queue.tick(now)
        if self._engine.queue.ready:  # its time came between the last attempt and now, or there was a break
            await asyncio.sleep(0)
            return
        timeout = _HEARTBEAT if due is None else max(min(due - now, _HEARTBEAT), 0.0)
        self._wake.clear()
        await wait_for_event(self._wake, timeout)


def _log_explanation(decision: Decision) -> None:
    """Log how many nodes were passed over for what, and the scores of the best."""
    rejected = Counter(reason for verdict in decision.verdicts.values() for reason in verdict.reasons)
    for reason, nodes in sorted((rejected or decision.reasons).items()):
        log.debug(KeyedMessage("Nodes were passed over", pod=decision.pod, nodes=nodes, reason=reason))
    totals = {node: sum(part.value for part in parts if not part.within) for node, parts in decision.scores.items()}
    for node in sorted(totals, key=lambda name: (-totals[name], name))[:_MOST_SCORED]:
        parts = ", ".join(f"{part.scorer} {part.value:.4g}" for part in decision.scores[node])
        log.debug(KeyedMessage("Node score", pod=decision.pod, node=node, score=round(totals[node], 4), parts=parts))
