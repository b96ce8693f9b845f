"""Sends Bindings, and finds out their outcome if the API server's answer is unclear."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiResponse, ApiUnreachableError, collection_path, pod_path
from vgpu_scheduler.binding.answers import BindingAnswer, BindingResult, binding_result
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.hooks import HookPoint
from vgpu_scheduler.binding.writes import binding_body, decision_record
from vgpu_scheduler.dialects import stamped
from vgpu_scheduler.kube import API_RESOURCES, DecodeError, Encoded, Pod, decode_page, decode_whereabouts
from vgpu_scheduler.model import DECISION, Decision, Placement

log = logging.getLogger(__name__)

_RETRY = 1.0
"""Seconds between two reads of a pod whose Binding has an unknown outcome."""
_READS = 3
"""How often such a pod is read before its turn ends."""


@dataclass(frozen=True, slots=True)
class BindingSender:
    """Sends Bindings.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write, which is not carried out later.
    label_first
        Write the label by a separate patch before the Binding.
    at_point
        Awaited when the API server has answered, or has not in time.
    """

    context: BindContext
    timeout: float
    label_first: bool
    at_point: Callable[[HookPoint, Pod], Awaitable[None]]

    async def send(self, pod: Pod, placement: Placement, decision: Decision) -> BindingResult:
        """Bind a pod and return the outcome; if the answer is unclear, that of :meth:`find_out`."""
        body = self._body(pod, placement, decision)
        metadata = body["metadata"]
        if self.label_first and metadata["labels"]:
            labelled = await self._write_label(pod, metadata)
            if labelled.answer is not BindingAnswer.BOUND:
                return labelled
        try:
            _, result = await self._write("POST", pod_path(pod.namespace, pod.name, "binding"), body)
        except ApiUnreachableError as error:
            result = BindingResult(BindingAnswer.UNKNOWN, str(error))
        await self.at_point(HookPoint.ANSWERED, pod)
        if result.answer is BindingAnswer.UNKNOWN:
            return await self.find_out(pod, placement, result.message)
        return result

    async def _write_label(self, pod: Pod, metadata: dict[str, Any]) -> BindingResult:
        """Write the labels of a Binding, update its resource version, and classify the answer like that of a Binding.

        No Binding was sent yet, so the pod is certainly not bound. If it is unknown whether the labels were written,
        the version of the pod is unknown; a Binding with the wrong version conflicts.
        """
        patch = {"metadata": {key: metadata[key] for key in ("uid", "resourceVersion", "labels")}}
        # The status subresource can change labels, and needs no right to patch pods.
        path = pod_path(pod.namespace, pod.name, "status")
        try:
            response, result = await self._write("PATCH", path, patch, MERGE_PATCH)
        except ApiUnreachableError as error:
            return BindingResult(BindingAnswer.THROTTLED, str(error), _RETRY)
        if result.answer is BindingAnswer.UNKNOWN:
            return BindingResult(BindingAnswer.THROTTLED, result.message, _RETRY)
        if response is not None and response.ok:
            metadata["resourceVersion"] = response.json()["metadata"]["resourceVersion"]
        return result

    async def send_dry_run(self, pod: Pod, placement: Placement, decision: Decision) -> BindingResult:
        """Send a Binding as a dry run; it writes nothing, so even a missing answer leaves no doubt."""
        try:
            path, body = pod_path(pod.namespace, pod.name, "binding"), self._body(pod, placement, decision)
            _, result = await self._write("POST", path, body, dry_run=True)
        except ApiUnreachableError as error:
            result = BindingResult(BindingAnswer.UNKNOWN, str(error))
        return result

    def _body(self, pod: Pod, placement: Placement, decision: Decision) -> dict[str, Any]:
        dialects = self.context.engine.dialects
        now, encoded = self.context.clock.now().timestamp(), decision.annotations
        for_node_side = dialects.annotations(placement, now, pod) if encoded is None else stamped(encoded, now)
        annotations = {**for_node_side, DECISION: decision_record(decision)}
        return binding_body(pod, placement.node, annotations, dialects.labels(placement))

    async def _write(
        self, method: str, path: str, body: object, content_type: str = "application/json", *, dry_run: bool = False
    ) -> tuple[ApiResponse | None, BindingResult]:
        """Send a write that cannot be carried out after the lease ends; classify its answer like that of a Binding."""
        response = await self.context.writer.request_within_lease(
            method, path, body, self.timeout, content_type, dry_run=dry_run
        )
        if response is None:
            return None, BindingResult(BindingAnswer.REFUSED, "the lease is about to be lost")
        return response, binding_result(response)

    async def find_out(self, pod: Pod, placement: Placement, message: str) -> BindingResult:
        """Wait until a Binding without a clear answer can no longer be carried out, then read its pod for the outcome.

        Returns
        -------
        BindingResult
            The outcome; ``UNKNOWN`` if the pod cannot be read within a few tries.
        """
        log.warning("binding of pod %s has no clear answer, reading the pod: %s", pod.key, message)
        await asyncio.sleep(self.timeout)  # the server may carry out the write until its own timeout
        for number in range(_READS):
            if number:
                await asyncio.sleep(_RETRY)
            result = await self.read_outcome(pod, placement, message)
            if result is not None:
                return result
        return BindingResult(BindingAnswer.UNKNOWN, message)

    async def read_outcome(self, pod: Pod, placement: Placement, message: str) -> BindingResult | None:
        """Read a pod whose Binding can no longer be carried out; None if the pod cannot be read.

        If reading the pod is refused, list it instead, which needs another right.
        """
        read = await self.context.read_pod(pod.namespace, pod.name, self.timeout)
        if read.is_gone:
            return BindingResult(BindingAnswer.GONE, message)
        with suppress(ApiUnreachableError, DecodeError):
            if read.shown is not None:
                return self._compare(pod, placement, read.shown, message)
            response = await self._list(pod) if read.is_refused else None
            if response is not None and response.ok:
                found = decode_page(response.body).items
                return (
                    self._compare(pod, placement, found[0], message)
                    if found
                    else BindingResult(BindingAnswer.GONE, message)
                )
        return None

    async def refresh(self, pod: Pod) -> None:
        """Read a pod whose Binding conflicted, and observe it."""
        read = await self.context.read_pod(pod.namespace, pod.name, self.timeout)
        if read.shown is not None:
            self.context.observe("Pod", read.shown)

    def _compare(self, pod: Pod, placement: Placement, found: Encoded, message: str) -> BindingResult:
        """Observe the current pod and return the outcome; its node is read even if the pod cannot be decoded fully."""
        self.context.observe("Pod", found)
        current = decode_whereabouts(found)
        if current.uid != pod.uid:
            return BindingResult(BindingAnswer.GONE, message)
        if not current.node:
            return BindingResult(BindingAnswer.THROTTLED, message, _RETRY)  # not carried out: try again
        return BindingResult(BindingAnswer.BOUND if current.node == placement.node else BindingAnswer.CONFLICT, message)

    async def _list(self, pod: Pod) -> ApiResponse:
        selector = {"fieldSelector": f"metadata.name={pod.name}"}
        path = collection_path(API_RESOURCES["Pod"].path, pod.namespace)
        return await self.context.api.request("GET", path, params=selector, timeout=self.timeout)
