"""What users see: the ``PodScheduled`` condition and events, each said once.

Reports are best effort and never hold up a bind: they go through a bounded queue of their own. A condition is only
written when it changes, an event only when its text does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiClient, ApiUnreachableError
from vgpu_scheduler.binding.clock import Clock
from vgpu_scheduler.binding.writes import EventSource, Regarding, condition_body, event_body
from vgpu_scheduler.engine import Problem
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ConditionReason

log = logging.getLogger(__name__)

_WORKERS = 8
_QUEUED = 10_000
_REMEMBERED = 20_000


class Reporter:
    """Writes conditions and events.

    Parameters
    ----------
    api
        The API server.
    source
        Who the events come from.
    clock
        For time stamps.
    """

    def __init__(self, api: ApiClient, source: EventSource, clock: Clock) -> None:
        self._api = api
        self._source = source
        self._clock = clock
        self._said: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(_QUEUED)
        self._workers: list[asyncio.Task[None]] = []
        self.dropped = 0

    def start(self) -> None:
        """Start writing."""
        self._workers = [asyncio.create_task(self._work(), name=f"reporter-{n}") for n in range(_WORKERS)]

    async def stop(self, grace: float) -> None:
        """Write what is queued for at most ``grace`` seconds, then end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._queue.join()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def scheduled(self, pod: Pod, node: str) -> None:
        """Say that a pod was bound."""
        self._event(_about(pod), "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {node}")

    def is_news(self, pod: Pod, reason: ConditionReason, message: str) -> bool:
        """Tell whether a pod does not say yet why it was not placed; if it does, that is remembered."""
        known = pod.scheduled_condition
        if known and (known.status, known.reason, known.message) == ("False", reason, message):
            self._remember((pod.uid, "condition"), _condition(reason, message))
        return self._said.get((pod.uid, "condition")) != _condition(reason, message)

    def not_scheduled(self, pod: Pod, reason: ConditionReason, message: str, note: str = "") -> None:
        """Say why a pod was not placed: the condition, and an event with it.

        Parameters
        ----------
        reason
            The condition's reason: autoscalers act on ``Unschedulable`` only.
        message
            The condition's text; news, or this is a repetition.
        note
            What the event adds to it.
        """
        self._write_condition(pod, reason, message)
        text = f"{message} {note}" if note else message
        self._event(_about(pod), "Warning", "FailedScheduling", "Scheduling", text)

    def binding_failed(self, pod: Pod, message: str) -> None:
        """Say that a decided pod could not be bound; autoscalers must not act on that."""
        self._event(_about(pod), "Warning", "BindingFailed", "Binding", message, once=True)

    def warning(self, pod: Pod, message: str) -> None:
        """Say something about a pod once; there may be several such things about one pod."""
        self._event(_about(pod), "Warning", "PolicyWarning", "Scheduling", message, once=True, among=message)

    def problem(self, problem: Problem) -> None:
        """Say that an object could not be understood, once per text."""
        about = Regarding(problem.kind, problem.namespace, problem.name, problem.uid)
        self._event(about, "Warning", problem.reason, "Observing", problem.message, once=True)

    def forget(self, uid: str) -> None:
        """Forget what was said about an object that is gone or bound."""
        self._said.pop((uid, "condition"), None)

    def _write_condition(self, pod: Pod, reason: ConditionReason, message: str) -> None:
        self._remember((pod.uid, "condition"), _condition(reason, message))
        if not self._put(lambda: self._condition(pod, reason, message)):
            self.forget(pod.uid)  # what was never written must be said again

    def _event(
        self, about: Regarding, kind: str, reason: str, action: str, note: str, *, once: bool = False, among: str = ""
    ) -> None:
        if once:
            key = (about.uid, reason + among)
            if self._said.get(key) == note:
                return
            self._remember(key, note)
        body = event_body(self._source, about, kind, reason, action, note, self._clock.now())
        namespace = about.namespace or "default"
        self._put(lambda: self._post(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body))

    def _remember(self, key: tuple[str, str], text: str) -> None:
        self._said[key] = text
        self._said.move_to_end(key)
        if len(self._said) > _REMEMBERED:
            self._said.popitem(last=False)

    def _put(self, write: Callable[[], Awaitable[None]]) -> bool:
        try:
            self._queue.put_nowait(write)
        except asyncio.QueueFull:
            self.dropped += 1
            return False
        return True

    async def _condition(self, pod: Pod, reason: ConditionReason, message: str) -> None:
        if self._said.get((pod.uid, "condition")) != _condition(reason, message):
            return  # said anew since, or the pod is on its way to a node: a late condition must not contradict that
        try:
            response = await self._api.request(
                "PATCH",
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status",
                # The UID makes a pod of the same name that came later refuse the patch.
                {"metadata": {"uid": pod.uid}, **condition_body(reason, message, self._clock.now())},
                content_type=STRATEGIC_PATCH,
            )
        except ApiUnreachableError:
            self.forget(pod.uid)
            raise
        if not response.ok and response.status not in {404, 409}:
            self.forget(pod.uid)
            log.warning("condition of pod %s was refused: %s", pod.key, response.message)

    async def _post(self, path: str, body: object) -> None:
        response = await self._api.request("POST", path, body)
        if not response.ok and response.status not in {404, 409}:
            log.warning("event was refused: %s", response.message)

    async def _work(self) -> None:
        while True:
            write = await self._queue.get()
            try:
                await write()
            except ApiUnreachableError as error:
                log.warning("report lost: %s", error)
            except Exception:
                log.exception("report lost")  # one bad report must not end the worker
            finally:
                self._queue.task_done()


def _condition(reason: ConditionReason, message: str) -> str:
    """Return what is remembered of a condition."""
    return f"{reason}: {message}"


def _about(pod: Pod) -> Regarding:
    return Regarding("Pod", pod.namespace, pod.name, pod.uid)
