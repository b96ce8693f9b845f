"""The requests that evict pods, the meaning of their answers, and the sender.

A victim is evicted, or deleted if a policy allows exceeding disruption budgets.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any, NamedTuple

from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError, pod_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.eviction_rights import DELETE, EVICT, MARK, EvictionRight, missing_right
from vgpu_scheduler.binding.status_patches import StatusPatcher
from vgpu_scheduler.binding.writes import condition
from vgpu_scheduler.kube import Pod, rfc3339
from vgpu_scheduler.model import Preemption, worded_pod
from vgpu_scheduler.policy import DisruptionBudgetMode
from vgpu_scheduler.telemetry import KeyedMessage

_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""Part of the message of the status 500 with which API servers answer if two budgets select a pod."""
_ANOTHER_POD = "precondition"
"""Part of the message (in lower case) if the pod has another UID than the request names."""
_DEFAULT_RETRY = 5.0


class EvictionAnswer(Enum):
    """What is known after an eviction was requested."""

    EVICTED = "evicted"
    GONE = "gone"
    """404, or 409 because another pod has its name by now."""
    PROTECTED = "protected"
    """429: a disruption budget does not allow it now or is not processed yet, or the server is busy."""
    SEVERAL_BUDGETS = "several_budgets"
    """500 because two budgets select the pod: it cannot be evicted."""
    DENIED = "denied"
    """403, or 422 from the policy that narrows our patches: the right is missing."""
    REFUSED = "refused"
    """Any other 4xx: the same request will be refused again."""
    UNKNOWN = "unknown"
    """No answer, any other 5xx, or a conflict: the request names the pod's UID, so it may be repeated."""


class EvictionResult(NamedTuple):
    """What an answer means.

    Attributes
    ----------
    message
        The text of the API server, which names the victim; if a right is missing, a text without the victim.
    retry_after
        Seconds until the next try.
    right
        The right that was needed.
    """

    answer: EvictionAnswer
    message: str = ""
    retry_after: float = _DEFAULT_RETRY
    right: EvictionRight = EVICT

    @property
    def leaves_doubt(self) -> bool:
        """Whether the pod may be ending without a confirmation; marking a pod alone does not end it."""
        return self.answer is EvictionAnswer.UNKNOWN and self.right is not MARK

    def is_to_be_tried_again(self, *, some_end: bool) -> bool:
        """Tell whether to retry the victim: the answer is unclear, or other victims of the same pod are ending."""
        return self.answer is EvictionAnswer.UNKNOWN or (self.answer is EvictionAnswer.PROTECTED and some_end)


_PROTECTED = frozenset({EvictionAnswer.PROTECTED, EvictionAnswer.SEVERAL_BUDGETS})
_REFUSALS: Mapping[int, EvictionAnswer] = {
    HTTPStatus.NOT_FOUND: EvictionAnswer.GONE,
    HTTPStatus.CONFLICT: EvictionAnswer.GONE,
    HTTPStatus.TOO_MANY_REQUESTS: EvictionAnswer.PROTECTED,
}


def classify_eviction(response: ApiResponse | None, right: EvictionRight = EVICT) -> EvictionResult:
    """Classify the answer to a request that needs a right; None stands for no answer."""
    if response is None:
        return EvictionResult(EvictionAnswer.UNKNOWN, "no answer", 1.0, right)
    if response.ok:
        return EvictionResult(EvictionAnswer.EVICTED)
    message = response.refusal
    if response.status == HTTPStatus.CONFLICT and _ANOTHER_POD not in response.message.lower():
        return EvictionResult(EvictionAnswer.UNKNOWN, message, 1.0, right)  # a concurrent write
    missing = missing_right(right, response)
    if missing:
        return EvictionResult(EvictionAnswer.DENIED, missing, right=right)
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        several = _SEVERAL_BUDGETS in response.message
        answer = EvictionAnswer.SEVERAL_BUDGETS if several else EvictionAnswer.UNKNOWN
        return EvictionResult(answer, message, 1.0, right)
    refused = _REFUSALS.get(response.status, EvictionAnswer.REFUSED)
    return EvictionResult(refused, message, response.retry_after or _DEFAULT_RETRY)


def _delete_options(pod: Pod) -> dict[str, Any]:
    """Return the options to delete a pod only if its UID matches."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}


log = logging.getLogger(__name__)


class EvictionSender:
    """Sends the requests that end pods.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._context = context
        self._preemptions = context.engine.preemptions
        self._timeout = timeout
        self._writer = context.writer
        self._patcher = StatusPatcher(context.writer, timeout)

    async def send(
        self, uid: str, pod: Pod, preemption: Preemption, is_allowed: Callable[[], bool]
    ) -> EvictionResult | None:
        """Try once to evict or delete a victim, in up to three writes.

        Parameters
        ----------
        is_allowed
            Tells before each write whether the victim may still be evicted for the pod.

        Returns
        -------
        EvictionResult or None
            What the answer means; None if the lease may be lost or the eviction is not allowed any more, so that
            nothing was sent that ends the victim.
        """
        if not is_allowed():
            return None
        result = await self.evict(pod)
        is_protected = result is not None and result.answer in _PROTECTED
        if is_protected and self._preemptions.rules_of(uid).budget_mode is DisruptionBudgetMode.EXCEED:
            result = await self._delete(pod, is_allowed)
        if result is not None and result.answer is EvictionAnswer.EVICTED:
            self.tell(uid, pod, preemption)
        return result

    async def evict(self, pod: Pod) -> EvictionResult | None:
        """Request the eviction of a pod, and return what the answer means; None if the lease may be lost."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _delete_options(pod),
        }
        path = pod_path(pod.namespace, pod.name, "eviction")
        return await _result(EVICT, self._writer.request_within_lease("POST", path, body, self._timeout))

    def tell(self, uid: str, victim: Pod, preemption: Preemption) -> None:
        """Record that a victim was evicted for a pod, and report it."""
        self._preemptions.evicted(victim.uid)
        preemptor = self._context.engine.state.pod(uid)
        whom = worded_pod(victim.namespace, preemptor.key if preemptor else "", uid)
        self._context.reporter.preempted(victim, whom, preemption.node)
        log.info(KeyedMessage("Preempted pod", pod=victim.key, node=preemption.node, preemptor=uid))

    async def _delete(self, pod: Pod, is_allowed: Callable[[], bool]) -> EvictionResult | None:
        """Delete a pod despite its budgets, after setting the condition that kube-scheduler sets."""
        if not is_allowed():
            return None
        message = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
        now = rfc3339(self._context.clock.now())
        marked = condition("DisruptionTarget", "True", "PreemptionByScheduler", message, now)
        path = pod_path(pod.namespace, pod.name)
        result = await _result(MARK, self._patcher.patch(path, pod.uid, {"conditions": [marked]}))
        if result is None or result.answer is not EvictionAnswer.EVICTED:
            return result
        if not is_allowed():
            return None
        deletion = self._writer.request_within_lease("DELETE", path, _delete_options(pod), self._timeout)
        return await _result(DELETE, deletion)


async def _result(right: EvictionRight, request: Awaitable[ApiResponse | None]) -> EvictionResult | None:
    """Send a request that needs a right, and return what its answer means; None if it was not sent."""
    try:
        response = await request
    except ApiUnreachableError as error:
        log.warning("%s", error)
        return classify_eviction(None, right)
    return None if response is None else classify_eviction(response, right)
