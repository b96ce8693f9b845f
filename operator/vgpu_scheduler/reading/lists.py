"""List objects as raw JSON with the rights of the user."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse, list_pages
from vgpu_scheduler.kube import ApiResource, in_namespaces

_FORBIDDEN, _NOT_FOUND = (401, 403), 404


@dataclass(frozen=True, slots=True)
class MissingList:
    """A list request that failed.

    Attributes
    ----------
    resource
        The resource, by the API server's name.
    error
        The error; None if the request was forbidden.
    where
        The namespaces, such as ``in all namespaces``; empty for cluster-scoped objects.
    """

    resource: str
    error: str | None = None
    where: str = ""

    @classmethod
    def of(cls, resource: ApiResource, listed: ListResult, namespace: str = "") -> MissingList:
        """Return what a refused list says.

        Parameters
        ----------
        namespace
            The only namespace that was asked for; empty for all.
        """
        return cls(resource.plural, listed.error, in_namespaces(namespace) if resource.namespaced else "")

    def __str__(self) -> str:
        return _with_error(f"{self.right} {self.where}".rstrip(), self.error)

    @property
    def is_forbidden(self) -> bool:
        """Whether the request was forbidden."""
        return self.error is None

    @property
    def right(self) -> str:
        """The required right."""
        return f"list {self.resource}"


def _with_error(right: str, error: str | None) -> str:
    return right if error is None else f"{right}: {error}"


@dataclass(slots=True)
class ListResult:
    """The outcome of a list request.

    Attributes
    ----------
    items
        The objects as JSON; empty if the API server does not serve the kind.
    served
        Whether the API server serves the kind.
    refusal
        The response that refused the list; None on success.
    read_at
        The API server's time of day; None if unknown.
    version
        The resource version from which a watch can continue; empty if unknown.
    """

    items: list[msgspec.Raw] = field(default_factory=list)
    served: bool = True
    refusal: ApiResponse | None = None
    read_at: datetime | None = None
    version: str = ""

    @property
    def error(self) -> str | None:
        """The error of the request; None if it was forbidden."""
        assert self.refusal is not None
        return None if self.refusal.status in _FORBIDDEN else self.refusal.message or f"status {self.refusal.status}"

    def message(self, right: str) -> str:
        """Return the required right, with the error if the request failed for another reason."""
        return _with_error(right, self.error)


async def list_objects(api: ApiClient, *paths: str) -> ListResult:
    """List all objects of a kind page by page, at the first path that the API server serves.

    Raises
    ------
    ApiUnreachableError
        If the API server does not answer.
    """
    for path in paths:
        found = ListResult()
        try:
            async with aclosing(list_pages(api, path)) as pages:
                async for listed in pages:
                    if listed is None:
                        found = ListResult()
                        continue
                    page, found.read_at = listed
                    found.items += page.items
                    found.version = page.resource_version or found.version
        except ApiError as error:
            if error.response.status == _NOT_FOUND:
                continue
            return ListResult(refusal=error.response)
        return found
    return ListResult(served=False)
