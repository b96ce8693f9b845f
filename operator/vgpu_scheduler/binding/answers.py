"""What the API server's answer to a Binding means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from vgpu_scheduler.apiclient import ApiResponse


class BindingAnswer(Enum):
    """What is known after a Binding was sent."""

    BOUND = "bound"
    GONE = "gone"
    """404: the pod is deleted."""
    CONFLICT = "conflict"
    """409: another UID or version, already bound, gated or being deleted. The pod is read before a retry."""
    THROTTLED = "throttled"
    """429: not carried out; the server says when to retry. Also if only the write of the label has no clear answer."""
    REFUSED = "refused"
    """Any other 4xx: not carried out, and the same request will be refused again."""
    UNKNOWN = "unknown"
    """No answer, or a 5xx (504 included): it may have been carried out, or may still be. Only reading the pod tells."""


@dataclass(frozen=True, slots=True)
class BindingResult:
    """What an answer to a Binding means, with the text of the API server."""

    answer: BindingAnswer
    message: str = ""
    retry_after: float = 0.0


_DEFAULT_RETRY = 1.0
_REFUSALS: Mapping[int, BindingAnswer] = {
    HTTPStatus.NOT_FOUND: BindingAnswer.GONE,
    HTTPStatus.CONFLICT: BindingAnswer.CONFLICT,
}


def binding_result(response: ApiResponse | None) -> BindingResult:
    """Classify the answer to a Binding; None stands for no answer."""
    if response is None:
        return BindingResult(BindingAnswer.UNKNOWN, "no answer")
    if response.ok:
        return BindingResult(BindingAnswer.BOUND)
    message = response.refusal
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        return BindingResult(BindingAnswer.THROTTLED, message, response.retry_after or _DEFAULT_RETRY)
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return BindingResult(BindingAnswer.UNKNOWN, message)
    return BindingResult(_REFUSALS.get(response.status, BindingAnswer.REFUSED), message)
