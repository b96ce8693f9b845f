"""What the answer to a Binding means: the table that every case of it follows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.apiclient import ApiResponse


class Answer(Enum):
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
    """An answer with what the server said."""

    answer: Answer
    message: str = ""
    retry_after: float = 0.0


_DEFAULT_RETRY = 1.0
_THROTTLED = 429
_SERVER_ERROR = 500
_REFUSALS = {404: Answer.GONE, 409: Answer.CONFLICT}


def classify(response: ApiResponse | None) -> BindResult:
    """Classify the answer to a Binding; None stands for no answer."""
    if response is None:
        return BindResult(Answer.UNKNOWN, "no answer")
    if response.ok:
        return BindResult(Answer.BOUND)
    message = f"{response.status}: {response.message}"
    if response.status == _THROTTLED:
        return BindResult(Answer.THROTTLED, message, response.retry_after or _DEFAULT_RETRY)
    if response.status >= _SERVER_ERROR:
        return BindResult(Answer.UNKNOWN, message)
    return BindResult(_REFUSALS.get(response.status, Answer.REFUSED), message)
