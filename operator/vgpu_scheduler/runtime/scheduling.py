"""The scheduling loop: takes the next pod or group from the queue, decides, and hands placements to the binder."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vgpu_scheduler.apiclient import Clock, errors_logged, guarded, wait_for_event
from vgpu_scheduler.binding import Binder, Evictor, Reporter
from vgpu_scheduler.engine import Engine, ObservationSignals, event_note
from vgpu_scheduler.engine.group_attempts import error_decision
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, EventReason, Outcome
from vgpu_scheduler.telemetry import AttemptMetrics, KeyedMessage

_MOST_DECISIONS = 8
"""The most decisions in a row before the loop yields to other tasks."""
_MOST_SECONDS = 0.004
"""The time (seconds) after which such a run of decisions ends; a decision in progress is finished."""
_MOST_LOOKS = 32
"""The most pods per attempt that are requeued after a check of changed nodes alone, without a decision."""
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
"""How many of the best nodes the log shows with their scores at debug level."""

log = logging.getLogger(__name__)


class DecisionHandlers(NamedTuple):
    """The components that carry out decisions and report them."""

    binder: Binder
    evictor: Evictor
    reporter: Reporter


class SchedulingLoop:
    """Decides pods while any are ready, and waits otherwise.

    Parameters
    ----------
    engine, handlers, clock
        The components it works with.
    attempts
        Where attempts are counted.
    signals
        Wakes the loop when a pending pod may have become schedulable.
    on_decisions
        Called with all decisions before they are carried out.
    on_withdrawn
        Called with the UID of each pod whose placement the loop takes back itself, because it could not be handed over.
    """

    def __init__(
        self,
        engine: Engine,
        handlers: DecisionHandlers,
        clock: Clock,
        attempts: AttemptMetrics,
        signals: ObservationSignals,
        on_decisions: Callable[[Sequence[Decision]], None] = lambda _: None,
        on_withdrawn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._binder, self._evictor, self._reporter = handlers
        self._clock = clock
        self._attempts = attempts
        self._on_decisions = guarded(on_decisions)
        self._on_withdrawn = guarded(on_withdrawn)
        self._wake = asyncio.Event()
        signals.decide_again.listen(self._wake.set)
        self.beat = clock.monotonic()
        """When the last iteration began (monotonic seconds)."""

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
            decisions = self._engine.schedule_next(began, explain=explain, most_partial_attempts=_MOST_LOOKS)
            if not decisions:
                return False
            seconds = (self._clock.monotonic() - began) / len(decisions)
            try:
                self._carry_out(decisions, seconds, explain=explain)
            except Exception as error:  # the error concerns these pods alone
                log.exception("the decision about pod %s could not be carried out", decisions[0].pod)
                self._give_up(decisions, error)
        return True

    def _carry_out(self, decisions: Sequence[Decision], seconds: float, *, explain: bool) -> None:
        """Hand the decisions about a pod or group, of which each took so many seconds, to those who carry them out."""
        self._on_decisions(decisions)
        if decisions[0].outcome is Outcome.PLACED:  # a group is placed as a whole or not at all
            self._binder.submit(*decisions)
        if decisions[0].outcome is Outcome.NOT_READY:  # likewise for the whole group; there is nothing to report
            return
        for decision in decisions:
            if explain:
                _log_explanation(decision)
            self._record(decision, seconds)
            self._tell(decision)
        self._begin_preemption([decision for decision in decisions if decision.preemption is not None])

    def _give_up(self, decisions: Sequence[Decision], error: Exception) -> None:
        """Have pods decided anew, after their back-off, whose decisions could not be carried out, and tell them why.

        Refused pods are told why they were refused, as far as they were not told yet.
        """
        now = self._clock.monotonic()
        for decision in decisions:
            uid = decision.uid
            if decision.preemption is not None:
                self._engine.preemptions.retry(uid, now, 0.0)
            elif decision.outcome is not Outcome.PLACED:
                self._tell(decision)
                continue
            elif not self._binder.cancel_unsent(uid) and self._engine.state.reservation(uid) is not None:
                self._engine.unreserve(uid, now)
                self._on_withdrawn(uid)
            pod = self._engine.state.pod(uid)
            if pod is not None:
                self._tell(error_decision(pod, error))

    def _record(self, decision: Decision, seconds: float) -> None:
        """Count a decision; the attempt of a placed pod ends only with its Binding, which counts it."""
        self._attempts.decided(seconds)
        pod = self._engine.state.pod(decision.uid)
        if pod is not None and decision.outcome is not Outcome.PLACED:
            self._attempts.attempted(_RESULTS[decision.outcome], pod.scheduler_name, seconds)

    def _tell(self, decision: Decision) -> None:
        """Report a decision in the pod's condition and events; a report about one pod must not end the loop."""
        with errors_logged(log, f"the decision about pod {decision.pod} could not be reported"):
            self._report(decision)

    def _note(self, pod: Pod, decision: Decision) -> str:
        """Return what the event adds to the message; an error in it costs neither the report nor a preemption."""
        with errors_logged(log, f"the note about pod {decision.pod} could not be made"):
            return event_note(self._engine, pod, decision)
        return ""

    def _report(self, decision: Decision) -> None:
        pod = self._engine.state.pod(decision.uid)
        if pod is None:
            return
        for warning in decision.warnings:
            self._reporter.warning(pod, warning)
        with errors_logged(log, f"the requests of pod {decision.pod} could not be checked"):
            for warning in self._engine.request_warnings.of_pod(pod):
                self._reporter.warning(pod, warning, EventReason.SUSPICIOUS_REQUEST)
        if decision.outcome is Outcome.PLACED:
            return
        if decision.outcome is Outcome.ERROR:
            text = KeyedMessage("Error scheduling pod; retrying", pod=decision.pod, err=decision.message)
            log.error(text, exc_info=decision.error)
        if decision.preemption is not None:
            return  # the evictor writes the condition together with the nomination
        reason = decision.condition_reason
        if self._reporter.adopt_unless_new(pod, reason, decision.message):
            if decision.outcome is not Outcome.ERROR:
                log.info(KeyedMessage(_REFUSALS[decision.outcome], pod=decision.pod, err=decision.message))
            self._reporter.not_scheduled(pod, reason, decision.message, self._note(pod, decision))

    def _begin_preemption(self, decisions: Sequence[Decision]) -> None:
        """Start the evictions for a pod, or for the pods of a group that preempt together."""
        notes, victims = dict[str, str](), 0
        for decision in decisions:
            pod, found = self._engine.state.pod(decision.uid), decision.preemption
            if pod is not None and found is not None:
                number = len(found.victims)
                log.info(
                    KeyedMessage("Preempting pods of lower priority", pod=decision.pod, node=found.node, victims=number)
                )
                notes[decision.uid], victims = self._note(pod, decision), victims + number
        if notes:
            self._attempts.preempted(victims)
            self._evictor.submit(*decisions, notes=notes)

    def _waiting_pod(self, uid: str) -> Pod | None:
        """Return a pod if it is in the queue."""
        return self._engine.state.pod(uid) if uid in self._engine.queue else None

    async def _wait(self) -> None:
        now = self._clock.monotonic()
        due = self._engine.queue.flush_due(now)
        if self._engine.queue.ready:  # a back-off ended after the last attempt, or that attempt stopped early
            await asyncio.sleep(0)
            return
        timeout = _HEARTBEAT if due is None else max(min(due - now, _HEARTBEAT), 0.0)
        self._wake.clear()
        await wait_for_event(self._wake, timeout)


def _log_explanation(decision: Decision) -> None:
    """Log how many nodes were rejected for each reason, and the scores of the best nodes."""
    rejected = Counter(reason.text for verdict in decision.verdicts.values() for reason in verdict.reasons)
    for reason, nodes in sorted((rejected or {each.text: count for each, count in decision.reasons.items()}).items()):
        log.debug(KeyedMessage("Nodes were passed over", pod=decision.pod, nodes=nodes, reason=reason))
    totals = {node: sum(part.value for part in parts if not part.within) for node, parts in decision.scores.items()}
    for node in sorted(totals, key=lambda name: (-totals[name], name))[:_MOST_SCORED]:
        parts = ", ".join(f"{part.scorer} {part.value:.4g}" for part in decision.scores[node])
        log.debug(KeyedMessage("Node score", pod=decision.pod, node=node, score=round(totals[node], 4), parts=parts))
