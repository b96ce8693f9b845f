"""Access reviews: asks the API server who may do what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from vgpu_scheduler.apiclient.client import ApiError, ApiResponse, ApiUnreachableError

_OWN: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OF_OTHERS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Requests(Protocol):
    """Sends requests to the API server."""

    async def request(self, method: str, path: str, body: object = None, *, timeout: float = 30.0) -> ApiResponse:  # noqa: ASYNC109 - as ApiClient has it
        """Send one request and read its whole answer."""


@dataclass(frozen=True, slots=True)
class ReviewedUser:
    """A user as authenticated, whom an access review is about.

    Attributes
    ----------
    extra
        Further attributes from the authentication, which authorizers may take into account.
    """

    name: str
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        """Return the user's fields in the spec of a SubjectAccessReview."""
        found: dict[str, Any] = {"user": self.name, "groups": list(self.groups)}
        found |= {"uid": self.uid} if self.uid else {}
        return found | ({"extra": {key: list(values) for key, values in self.extra.items()}} if self.extra else {})


async def is_allowed(
    api: Requests,
    attributes: Mapping[str, str],
    user: ReviewedUser | None = None,
    *,
    timeout: float = 30.0,  # noqa: ASYNC109 - a bound on one request, which the client enforces
) -> bool:
    """Ask the API server whether a user may do something.

    Parameters
    ----------
    attributes
        The action, as in ``resourceAttributes`` of a SubjectAccessReview: ``verb``, ``resource`` and so on.
    user
        The user to ask about; None for the caller.

    Raises
    ------
    ApiError
        If the API server refuses to answer.
    ApiUnreachableError
        If there is no answer, or none that can be decoded.
    """
    spec = {"resourceAttributes": dict(attributes), **(user.spec() if user is not None else {})}
    response = await api.request("POST", _OWN if user is None else _OF_OTHERS, {"spec": spec}, timeout=timeout)
    if not response.ok:
        raise ApiError(response)
    try:
        return response.json()["status"]["allowed"] is True
    except (ValueError, KeyError, TypeError) as error:
        raise ApiUnreachableError(f"access review: {error!r}") from error
