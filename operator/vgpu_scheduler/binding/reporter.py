"""What users see: the ``PodScheduled`` condition and events.

Reports are best effort and never delay a bind: they go through a bounded queue of their own. :class:`WaitingPods`
decides when to write a condition, :class:`EventSeries` which events to write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from weakref import WeakValueDictionary

from vgpu_scheduler.apiclient import (
    MERGE_PATCH,
    ApiClient,
    ApiResponse,
    ApiUnreachableError,
    Clock,
    end_tasks,
    guarded,
    pod_path,
)
from vgpu_scheduler.binding.leased_writes import LeasedWriter
from vgpu_scheduler.binding.reports import ConditionText, Event, EventSeries, Occurrences, Regarding, WaitingPods
from vgpu_scheduler.binding.status_patches import StatusPatcher
from vgpu_scheduler.binding.writes import (
    CONDITION_LIMIT,
    NOTE_LIMIT,
    EventSource,
    event_body,
    event_path,
    not_scheduled_condition,
    series_patch,
)
from vgpu_scheduler.engine import Problem
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, ConditionReason, EventReason, bytes_of, cut

log = logging.getLogger(__name__)

_WORKERS = 8
_TIMEOUT = 30.0
"""Seconds that the API server may take for a condition."""
_QUEUED = 10_000
_QUEUED_BYTES = 16 * 2**20
"""Limit of the memory of queued reports, in case the API server accepts no writes."""
_SAID_BYTES = 12 * 2**20
"""Limit of the memory of warnings that were reported once: about 12,000 of the usual length."""
_AT_A_TIME = 50
"""Waiting pods that are reported on per tick, so that many due pods make no burst."""


_FIRST, _LATER = 0, 1
"""Conditions are written before events, because users and autoscalers wait for them."""


class _Addressed(NamedTuple):
    """The fields of a pod that writing its condition needs; whole pods may be large."""

    namespace: str
    name: str
    uid: str
    generation: int

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class _Write(NamedTuple):
    """A queued write, its place in the order, and its size in memory in bytes."""

    order: int
    number: int
    send: Callable[[], Awaitable[None]]
    size: int


class Reporter:
    """Writes conditions and events; reporting never raises.

    Parameters
    ----------
    api
        The API server.
    source
        The source of the events.
    clock
        For durations and time stamps.
    leads
        Tells whether the Lease is held: conditions are written only while it is, events always.
    observes_generation
        Whether conditions have ``observedGeneration``: API servers keep it since Kubernetes 1.34, drop it in 1.33, and
        warn of an unknown field before that.
    """

    def __init__(
        self,
        api: ApiClient,
        source: EventSource,
        clock: Clock,
        leads: Callable[[], bool] = lambda: True,
        *,
        observes_generation: bool = False,
    ) -> None:
        self._api = api
        self._source = source
        self._clock = clock
        self._observes_generation = observes_generation
        self._patcher = StatusPatcher(LeasedWriter(api, lambda _: leads()), _TIMEOUT)
        self._waiting = WaitingPods()
        self._series = EventSeries()
        self._said: BoundedCache[tuple[str, str], str] = BoundedCache(_SAID_BYTES)
        self._queue: asyncio.PriorityQueue[_Write] = asyncio.PriorityQueue(_QUEUED)
        self._put_so_far = 0
        self._queued_bytes = 0
        self._workers: list[asyncio.Task[None]] = []
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One lock per pod (by UID), held while its status is written."""
        self.dropped = 0

    @property
    def limited(self) -> int:
        """How many events were not written because of the limit per object."""
        return self._series.limited

    def start(self) -> None:
        """Start the workers that write."""
        self._workers = [asyncio.create_task(self._work(), name=f"reporter-{n}") for n in range(_WORKERS)]

    async def flush(self) -> None:
        """Wait until the queue is written."""
        await self._queue.join()

    async def stop(self, grace: float) -> None:
        """Write the queue for at most ``grace`` seconds, then end the workers."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.flush()
        await end_tasks(self._workers)

    # Pods that wait --------------------------------------------------------------------------------------------------

    def adopt_unless_new(self, pod: Pod, reason: ConditionReason, message: str) -> bool:
        """Remember that the pod's condition has this reason and message already; return True if it has not."""
        return self._waiting.adopt_unless_new(pod, reason, cut(message, CONDITION_LIMIT), self._clock.monotonic())

    @guarded
    def not_scheduled(self, pod: Pod, reason: ConditionReason, message: str, note: str = "") -> None:
        """Report why a pod was not placed, as a condition and an event.

        If only numbers in the message changed within a minute, the report is delayed until the minute is over.

        Parameters
        ----------
        reason
            The condition's reason: autoscalers act on ``Unschedulable`` only.
        message
            The condition's message.
        note
            Text that the event adds to the message.
        """
        report = ConditionText(reason, cut(message, CONDITION_LIMIT), cut(note, NOTE_LIMIT))
        if self._waiting.report(pod, report, self._clock.monotonic()):
            self._write_condition(pod, report)
            self._tell(pod, report)

    async def nominated(
        self, pod: Pod, report: ConditionText, node: str, seconds: float, is_allowed: Callable[[], bool]
    ) -> ApiResponse | None:
        """Write a pod's condition and nominated node in one request; return the answer, None if there is none.

        The event is written as in :meth:`not_scheduled`.

        Parameters
        ----------
        seconds
            The time limit, after which the API server itself gives up.
        is_allowed
            Tells whether the write is still allowed; asked right before it, after waiting for other writes to the pod.
        """
        report = ConditionText(report.reason, cut(report.message, CONDITION_LIMIT), cut(report.note, NOTE_LIMIT))
        now = self._clock.monotonic()
        is_news = self._waiting.adopt_unless_new(pod, report.reason, report.message, now)
        if is_news:
            self._waiting.report(pod, report, now)
        about = _Addressed(pod.namespace, pod.name, pod.uid, pod.generation)
        try:
            async with self._lock(pod.uid):
                if not is_allowed():
                    if is_news:
                        self._waiting.was_lost(pod.uid, self._clock.monotonic())  # so that it is still news
                    return None
                response = await self._patch_condition(about, report, {"nominatedNodeName": node}, seconds)
        except ApiUnreachableError:
            return None
        if is_news:
            self._tell(pod, report)
        return response

    @guarded
    def preempted(self, victim: Pod, preemptor: str, node: str) -> None:
        """Report that a pod is preempted.

        Parameters
        ----------
        preemptor
            The pod that gets its room, in words for readers of the victim's namespace.
        """
        note, now = f"Preempted by {preemptor} on node {node}", self._clock.now()
        self._put_event(
            Occurrences(Event(_about(victim), "Normal", EventReason.PREEMPTED, "Preempting", note), now, now)
        )

    @guarded
    def tick(self, waiting_pod: Callable[[str], Pod | None]) -> None:
        """Write the reports that are due now; cheap if there are none, however many pods wait.

        Parameters
        ----------
        waiting_pod
            Returns a pod by its UID; None if the pod does not wait any more.
        """
        now = self._clock.monotonic()
        for uid in self._waiting.due(now, _AT_A_TIME):
            pod = waiting_pod(uid)
            if pod is None:
                self.forget(uid)
            elif (due := self._waiting.catch_up(uid, now)) is not None:
                report, condition_too = due
                if condition_too:
                    self._write_condition(pod, report)
                self._tell(pod, report)
        self._finish_series(now)

    @guarded
    def forget(self, uid: str) -> None:
        """Forget the reports about a pod that is gone or bound."""
        self._waiting.forget(uid)

    # Everything else -------------------------------------------------------------------------------------------------

    @guarded
    def scheduled(self, pod: Pod, node: str) -> None:
        """Report that a pod was bound."""
        note = f"Successfully assigned {pod.key} to {node}"
        now = self._clock.now()  # a pod is bound only once, so this event needs no series
        self._put_event(Occurrences(Event(_about(pod), "Normal", EventReason.SCHEDULED, "Binding", note), now, now))

    @guarded
    def binding_failed(self, pod: Pod, message: str) -> None:
        """Report that a decided pod could not be bound: an event alone, so that autoscalers do not act on it."""
        self._warn(_about(pod), EventReason.BINDING_FAILED, "Binding", message)

    @guarded
    def warning(self, pod: Pod, message: str, reason: EventReason = EventReason.POLICY_WARNING) -> None:
        """Report a warning about a pod once; different warnings about one pod are all reported."""
        message = cut(message, NOTE_LIMIT)
        if self._is_first(pod.uid, f"{reason}{message}", message):
            self._warn(_about(pod), reason, "Scheduling", message)

    @guarded
    def problem(self, problem: Problem) -> None:
        """Report a problem with an object: once per text, or each time it happens."""
        message = cut(problem.message, NOTE_LIMIT)
        if problem.each_time or self._is_first(problem.uid, problem.reason, message):
            about = Regarding(problem.kind, problem.namespace, problem.name, problem.uid)
            self._warn(about, problem.reason, "Observing", message)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _is_first(self, uid: str, topic: str, text: str) -> bool:
        """Tell whether a text differs from the last one about a topic, and remember it."""
        key = (uid, topic)
        if self._said.get(key) == text:
            return False
        self._said.put(key, text, bytes_of(key) + bytes_of(text))
        return True

    def _tell(self, pod: Pod, report: ConditionText) -> None:
        self._warn(_about(pod), EventReason.FAILED_SCHEDULING, "Scheduling", report.text)

    def _warn(self, about: Regarding, reason: EventReason, action: str, note: str) -> None:
        event, now = Event(about, "Warning", reason, action, cut(note, NOTE_LIMIT)), self._clock.monotonic()
        self._finish_series(now)
        told = self._series.happened(event, now, self._clock.now())
        if told is not None:
            self._put_event(told)

    def _finish_series(self, now: float) -> None:
        for told in self._series.finished(now):
            self._put_event(told)

    def _put_event(self, told: Occurrences) -> None:
        self._put(_LATER, lambda: self._write_event(told), told.event.bytes)

    def _write_condition(self, pod: Pod, report: ConditionText) -> None:
        about = _Addressed(pod.namespace, pod.name, pod.uid, pod.generation)
        if not self._put(_FIRST, lambda: self._condition(about, report), bytes_of(report)):
            self._waiting.was_lost(pod.uid, self._clock.monotonic())  # so that the condition is reported again

    def _put(self, order: int, send: Callable[[], Awaitable[None]], size: int) -> bool:
        if self._queue.full() or self._queued_bytes + size > _QUEUED_BYTES:
            self.dropped += 1
            return False
        self._put_so_far += 1
        self._queue.put_nowait(_Write(order, self._put_so_far, send, size))
        self._queued_bytes += size
        return True

    async def _condition(self, pod: _Addressed, report: ConditionText) -> None:
        async with self._lock(pod.uid):
            # Skip an outdated condition: a newer one may be queued, or the pod may be about to be bound.
            if self._waiting.written(pod.uid, report):
                await self._patch_condition(pod, report, {}, _TIMEOUT)

    def _lock(self, uid: str) -> asyncio.Lock:
        """Return the lock for writes to the status of a pod: of two at a time the older one might arrive last."""
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _patch_condition(
        self, pod: _Addressed, report: ConditionText, more: Mapping[str, str], seconds: float
    ) -> ApiResponse | None:
        """Write a condition and other status fields while this replica leads; the caller holds the lock of the pod."""
        changed = None if self._waiting.is_false(pod.uid) else self._clock.now()
        generation = pod.generation if self._observes_generation else 0
        status = {"conditions": [not_scheduled_condition(report.reason, report.message, changed, generation)], **more}
        try:
            path = pod_path(pod.namespace, pod.name)
            response = await self._patcher.patch(path, pod.uid, status, seconds=seconds)
        except ApiUnreachableError:
            self._waiting.was_lost(pod.uid, self._clock.monotonic())
            raise
        if response is None:
            self._waiting.was_lost(pod.uid, self._clock.monotonic())
            return None
        if response.ok:
            self._waiting.was_written(pod.uid)
        elif response.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            self._waiting.was_lost(pod.uid, self._clock.monotonic())
            log.warning("condition of pod %s was refused: %s", pod.key, response.message)
        return response

    async def _write_event(self, told: Occurrences) -> None:
        """Post an event, or update the count of its series; post it anew if it does not exist (any more)."""
        path, name = event_path(told)
        methods = ("PATCH", "POST", "PATCH") if told.count > 1 else ("POST",)
        for method in methods:
            is_patch = method == "PATCH"
            response = await self._api.request(
                method,
                f"{path}/{name}" if is_patch else path,
                series_patch(told) if is_patch else event_body(self._source, told),
                content_type=MERGE_PATCH if is_patch else "application/json",
            )
            if response.status != (HTTPStatus.NOT_FOUND if is_patch else HTTPStatus.CONFLICT):
                break
        if not response.ok and response.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            log.warning("event was refused: %s", response.message)

    async def _work(self) -> None:
        while True:
            write = await self._queue.get()
            self._queued_bytes -= write.size
            try:
                await write.send()
            except ApiUnreachableError as error:
                log.warning("report lost: %s", error)
            except Exception:
                log.exception("report lost")  # one bad report must not end the worker
            finally:
                self._queue.task_done()


def _about(pod: Pod) -> Regarding:
    return Regarding("Pod", pod.namespace, pod.name, pod.uid)
