"""The requests that end a victim, and what each answer to them means."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding.eviction_rights import EVICT, MARK, EvictionRight, missing_right
from vgpu_scheduler.kube import Pod

__all__ = ["EvictionAnswer", "EvictionResult", "classify_eviction", "delete_options", "eviction_body", "eviction_path"]

_NOT_FOUND, _CONFLICT, _THROTTLED, _SERVER_ERROR = 404, 409, 429, 500
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""What API servers answer with status 500 where two budgets select a pod."""
_ANOTHER_POD = "precondition"
"""In what API servers say, in lower case, where a pod has another UID than the request names."""
_DEFAULT_RETRY = 5.0


class EvictionAnswer(Enum):
    """What is known after an eviction was asked for."""

    EVICTED = "evicted"
    GONE = "gone"
    """404, or 409: another pod has its name by now."""
    PROTECTED = "protected"
    """429: a disruption budget does not allow it now, or is still being looked at; the server may be busy, too."""
    SEVERAL_BUDGETS = "several budgets"
    """500 where two budgets select the pod: it is never evicted that way."""
    DENIED = "denied"
    """403, or 422 from the policy that narrows our patches: the right is missing."""
    REFUSED = "refused"
    """Any other 4xx: the same request will be refused again."""
    UNKNOWN = "unknown"
    """No answer, any other 5xx, or another write meanwhile: the request may be repeated, for it names the pod's UID."""


class EvictionResult(NamedTuple):
    """What an answer means.

    Attributes
    ----------
    message
        The text of the API server, which names the victim; where a right is missing, what that is, for everybody.
    retry_after
        After how many seconds to come again.
    right
        The right that was needed.
    """

    answer: EvictionAnswer
    message: str = ""
    retry_after: float = _DEFAULT_RETRY
    right: EvictionRight = EVICT

    @property
    def leaves_doubt(self) -> bool:
        """Whether the pod may end although nobody says so: what only marks it ends nobody."""
        return self.answer is EvictionAnswer.UNKNOWN and self.right is not MARK

    def is_to_be_tried_again(self, *, some_end: bool) -> bool:
        """Tell whether the same victim is asked for again, as nothing is clear or others end for the same pod."""
        return self.answer is EvictionAnswer.UNKNOWN or (self.answer is EvictionAnswer.PROTECTED and some_end)


_REFUSALS = {
    _NOT_FOUND: EvictionAnswer.GONE,
    _CONFLICT: EvictionAnswer.GONE,
    _THROTTLED: EvictionAnswer.PROTECTED,
}


def classify_eviction(response: ApiResponse | None, right: EvictionRight = EVICT) -> EvictionResult:
    """Classify the answer to an eviction or a deletion, which needs a right; None stands for no answer."""
    if response is None:
        return EvictionResult(EvictionAnswer.UNKNOWN, "no answer", 1.0, right)
    if response.ok:
        return EvictionResult(EvictionAnswer.EVICTED)
    message = f"{response.status}: {response.message}"
    if response.status == _CONFLICT and _ANOTHER_POD not in response.message.lower():
        return EvictionResult(EvictionAnswer.UNKNOWN, message, 1.0, right)  # somebody else wrote at the same time
    missing = missing_right(right, response)
    if missing:
        return EvictionResult(EvictionAnswer.DENIED, missing, right=right)
    if response.status >= _SERVER_ERROR:
        several = _SEVERAL_BUDGETS in response.message
        answer = EvictionAnswer.SEVERAL_BUDGETS if several else EvictionAnswer.UNKNOWN
        return EvictionResult(answer, message, 1.0, right)
    refused = _REFUSALS.get(response.status, EvictionAnswer.REFUSED)
    return EvictionResult(refused, message, response.retry_after or _DEFAULT_RETRY)


def eviction_path(pod: Pod) -> str:
    """Return where a pod's eviction is posted."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"


def eviction_body(pod: Pod) -> dict[str, Any]:
    """Return the eviction of this very pod, not of one that has its name later."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": delete_options(pod),
    }


def delete_options(pod: Pod) -> dict[str, Any]:
    """Return the options of a deletion of this very pod."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
