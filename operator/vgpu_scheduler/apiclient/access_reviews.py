"""Access reviews: asks the API server who may do what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.apiclient.client import ApiClient, ApiError, ApiUnreachableError

_OWN: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OF_OTHERS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def is_allowed(
    api: ApiClient,
    attributes: Mapping[str, str],
    of: tuple[str, Sequence[str]] | None = None,
    *,
    timeout: float = 30.0,  # noqa: ASYNC109 - a bound on one request, which the client enforces
) -> bool:
    """Ask the API server whether a user may do something.

    Parameters
    ----------
    attributes
        The action, as in ``resourceAttributes`` of a SubjectAccessReview: ``verb``, ``resource`` and so on.
    of
        The user name and groups to ask about; None for the caller.

    Raises
    ------
    ApiError
        If the API server refuses to answer.
    ApiUnreachableError
        If there is no answer, or none that can be decoded.
    """
    spec: dict[str, Any] = {"resourceAttributes": dict(attributes)}
    if of is not None:
        user, groups = of
        spec |= {"user": user, "groups": list(groups)}
    response = await api.request("POST", _OWN if of is None else _OF_OTHERS, {"spec": spec}, timeout=timeout)
    if not response.ok:
        raise ApiError(response)
    try:
        return bool(response.json()["status"]["allowed"])
    except (ValueError, KeyError, TypeError) as error:
        raise ApiUnreachableError(f"access review: {error!r}") from error
