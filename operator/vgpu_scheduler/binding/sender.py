"""Sends Bindings: what the API server's answer to one means, what follows, and who else is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiResponse, ApiUnreachableError, collection_path, pod_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.writes import binding_body, decision_record
from vgpu_scheduler.dialects import stamped
from vgpu_scheduler.kube import DecodeError, Encoded, Pod, decode_page, decode_whereabouts
from vgpu_scheduler.model import DECISION, Decision, Placement
from vgpu_scheduler.telemetry import guarded, guarded_async


class BindingAnswer(Enum):
    """What is known after a Binding was sent."""

    BOUND = "bound"
    GONE = "gone"
    """404: the pod is deleted."""
    CONFLICT = "conflict"
    """409: another UID or version, already bound, gated or being deleted. Never retried blindly: the pod tells."""
    THROTTLED = "throttled"
    """429: not carried out; the server says when to come again."""
    REFUSED = "refused"
    """Any other 4xx: not carried out, and the same request will be refused again."""
    UNKNOWN = "unknown"
    """No answer, or a 5xx (504 included): it may have been carried out, or may still be. Only the pod can tell."""


@dataclass(frozen=True, slots=True)
class BindResult:
    """What an answer to a Binding means, with the text of the API server."""

    answer: BindingAnswer
    message: str = ""
    retry_after: float = 0.0


_DEFAULT_RETRY = 1.0
_REFUSALS: Mapping[int, BindingAnswer] = {
    HTTPStatus.NOT_FOUND: BindingAnswer.GONE,
    HTTPStatus.CONFLICT: BindingAnswer.CONFLICT,
}


def classify(response: ApiResponse | None) -> BindResult:
    """Classify the answer to a Binding; None stands for no answer."""
    if response is None:
        return BindResult(BindingAnswer.UNKNOWN, "no answer")
    if response.ok:
        return BindResult(BindingAnswer.BOUND)
    message = f"{response.status}: {response.message}"
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        return BindResult(BindingAnswer.THROTTLED, message, response.retry_after or _DEFAULT_RETRY)
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return BindResult(BindingAnswer.UNKNOWN, message)
    return BindResult(_REFUSALS.get(response.status, BindingAnswer.REFUSED), message)


log = logging.getLogger(__name__)

_RETRY = 1.0
"""Seconds between two readings of a pod whose fate is unknown."""
_READS = 3
"""How often such a pod is read before its turn is over."""


class BindStep(Enum):
    """Points of a bind at which a crash must lose nothing; tests stop the process there."""

    CHECKED = "checked"
    LOCKED = "locked"
    SENT = "sent"
    BOUND = "bound"
    REPORTED = "reported"


@dataclass(frozen=True, slots=True)
class BindAttempt:
    """An attempt to schedule a pod that went as far as a Binding, and its outcome; times in seconds (monotonic).

    Attributes
    ----------
    pod, node
        Which pod was to be bound where.
    answer
        What came of it.
    attempts
        How many attempts there were, with this one.
    came
        When the pod was first seen waiting.
    decided
        When the node was decided, and the volumes were bound.
    turn_at
        When the pod's turn at its node came.
    sent
        When the Binding was sent for the last time; the node's lock was taken between its turn and then.
    ended
        When the outcome was known.
    """

    pod: Pod
    node: str
    answer: BindingAnswer
    attempts: int
    came: float
    decided: float
    turn_at: float
    sent: float
    ended: float


async def _nothing(step: BindStep, pod: Pod) -> None:
    del step, pod


@dataclass(frozen=True, slots=True)
class BinderHooks:
    """Who else is told of binds; a hook that fails changes nothing of them.

    Attributes
    ----------
    on_step
        Awaited at each :class:`BindStep` of each bind; for tests that crash there.
    on_attempt
        Told of each attempt of which the outcome is known.
    on_answer
        Told of a pod of whose Binding the outcome is known, and how many seconds that took.
    """

    on_step: Callable[[BindStep, Pod], Awaitable[None]] = _nothing
    on_attempt: Callable[[BindAttempt], None] = lambda _: None
    on_answer: Callable[[Pod, BindingAnswer, float], None] = lambda *_: None

    def guarded(self) -> BinderHooks:
        """Return hooks that change nothing of a bind where they fail."""
        on_step = self.on_step if self.on_step is _nothing else guarded_async(self.on_step)
        return BinderHooks(on_step, guarded(self.on_attempt), guarded(self.on_answer))


NO_HOOKS = BinderHooks()


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends Bindings.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that the API server may take for a write; after that it can no longer happen.
    label_first
        Write the label by a patch of its own before the Binding.
    on_step
        Told when the Binding was sent.
    """

    context: BindContext
    timeout: float
    label_first: bool
    on_step: Callable[[BindStep, Pod], Awaitable[None]]

    async def send(self, pod: Pod, placement: Placement, decision: Decision) -> BindResult:
        """Bind a pod and return what is known for certain; an unknown outcome is that of :meth:`find_out`."""
        body = self._body(pod, placement, decision)
        metadata = body["metadata"]
        try:
            if self.label_first and metadata["labels"]:
                patch = {"metadata": {key: metadata[key] for key in ("uid", "resourceVersion", "labels")}}
                # Through the status subresource, which changes labels, too, and needs no right to patch pods.
                response, result = await self._write(
                    "PATCH", pod_path(pod.namespace, pod.name, "status"), patch, MERGE_PATCH
                )
                if response is None or result.answer is not BindingAnswer.BOUND:
                    return result
                metadata["resourceVersion"] = response.json()["metadata"]["resourceVersion"]
            _, result = await self._write("POST", pod_path(pod.namespace, pod.name, "binding"), body)
        except ApiUnreachableError as error:
            result = BindResult(BindingAnswer.UNKNOWN, str(error))
        await self.on_step(BindStep.SENT, pod)
        if result.answer is BindingAnswer.UNKNOWN:
            return await self.find_out(pod, placement, result.message)
        return result

    async def send_dry_run(self, pod: Pod, placement: Placement, decision: Decision) -> BindResult:
        """Ask whether a pod would be bound; nothing is written, so that no answer leaves no doubt."""
        try:
            path, body = pod_path(pod.namespace, pod.name, "binding"), self._body(pod, placement, decision)
            _, result = await self._write("POST", path, body, dry_run=True)
        except ApiUnreachableError as error:
            result = BindResult(BindingAnswer.UNKNOWN, str(error))
        return result

    def _body(self, pod: Pod, placement: Placement, decision: Decision) -> dict[str, Any]:
        dialects = self.context.engine.dialects
        now, encoded = self.context.clock.now().timestamp(), decision.annotations
        for_node_side = dialects.annotations(placement, now, pod) if encoded is None else stamped(encoded, now)
        annotations = {**for_node_side, DECISION: decision_record(decision)}
        return binding_body(pod, placement.node, annotations, dialects.labels(placement))

    async def _write(
        self, method: str, path: str, body: object, content_type: str = "application/json", *, dry_run: bool = False
    ) -> tuple[ApiResponse | None, BindResult]:
        """Send a write that cannot happen later than the lease is held; judge its answer as that of a Binding."""
        response = await self.context.fenced_request(method, path, body, self.timeout, content_type, dry_run=dry_run)
        if response is None:
            return None, BindResult(BindingAnswer.REFUSED, "the lease is about to be lost")
        return response, classify(response)

    async def find_out(self, pod: Pod, placement: Placement, message: str) -> BindResult:
        """Wait until a Binding without an answer can no longer happen, and read its pod to tell what became of it.

        Returns
        -------
        BindResult
            What is known for certain; ``UNKNOWN`` if the API server does not show the pod within a few tries.
        """
        log.warning("binding of pod %s has no clear answer, reading the pod: %s", pod.key, message)
        await asyncio.sleep(self.timeout)  # the write may still come until the server's own time is up
        for number in range(_READS):
            if number:
                await asyncio.sleep(_RETRY)
            result = await self.look(pod, placement, message)
            if result is not None:
                return result
        return BindResult(BindingAnswer.UNKNOWN, message)

    async def look(self, pod: Pod, placement: Placement, message: str) -> BindResult | None:
        """Read a pod whose Binding can no longer happen; None if the API server does not show it.

        Where the pod itself may not be read, a list of it tells as well: that is another right.
        """
        with suppress(ApiUnreachableError, DecodeError):
            response = await self._read(pod)
            if response.status == HTTPStatus.NOT_FOUND:
                return BindResult(BindingAnswer.GONE, message)
            if response.ok:
                return self._compare(pod, placement, response.body, message)
            response = await self._list(pod)
            if response.ok:
                found = decode_page(response.body).items
                return (
                    self._compare(pod, placement, found[0], message)
                    if found
                    else BindResult(BindingAnswer.GONE, message)
                )
        return None

    async def refresh(self, pod: Pod) -> None:
        """Read a pod whose Binding conflicted, so that what it says is accounted for."""
        with suppress(ApiUnreachableError):
            response = await self._read(pod)
            if response.ok:
                self.context.observe("Pod", response.body)

    def _compare(self, pod: Pod, placement: Placement, found: Encoded, message: str) -> BindResult:
        """Take in a pod as it is now; whether it is bound is told also by one that cannot be read otherwise."""
        self.context.observe("Pod", found)
        current = decode_whereabouts(found)
        if current.uid != pod.uid:
            return BindResult(BindingAnswer.GONE, message)
        if not current.node:
            return BindResult(BindingAnswer.THROTTLED, message, _RETRY)  # not carried out: try again
        return BindResult(BindingAnswer.BOUND if current.node == placement.node else BindingAnswer.CONFLICT, message)

    async def _list(self, pod: Pod) -> ApiResponse:
        selector = {"fieldSelector": f"metadata.name={pod.name}"}
        path = collection_path("/api/v1/pods", pod.namespace)
        return await self.context.api.request("GET", path, params=selector, timeout=self.timeout)

    async def _read(self, pod: Pod) -> ApiResponse:
        return await self.context.api.request("GET", pod_path(pod.namespace, pod.name), timeout=self.timeout)
