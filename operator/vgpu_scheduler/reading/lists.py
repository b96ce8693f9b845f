"""Lists of objects as they are written, with the rights of the user."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse, list_pages

_FORBIDDEN, _NOT_FOUND = (401, 403), 404


_LIST: Final = "list "


@dataclass(frozen=True, slots=True)
class MissingList:
    """A list that could not be had.

    Attributes
    ----------
    right
        What one has to be allowed for it, as in ``list nodes``.
    error
        What was answered; None where it was that one may not.
    where
        In which namespaces, as in ``in all namespaces``; empty where the objects are in none.
    """

    right: str
    error: str | None = None
    where: str = ""

    def __str__(self) -> str:
        told = f"{self.right} {self.where}".rstrip()
        return told if self.error is None else f"{told}: {self.error}"

    @property
    def is_forbidden(self) -> bool:
        """Whether it is a right that is missing."""
        return self.error is None

    @property
    def resource(self) -> str:
        """What is listed, as the API server calls it."""
        return self.right.removeprefix(_LIST)


def right_to_list(path: str) -> str:
    """Return what one has to be allowed to list what is at a path."""
    return f"{_LIST}{path.rpartition('/')[2]}"


@dataclass(slots=True)
class ListResult:
    """The outcome of a list request.

    Attributes
    ----------
    items
        The objects as JSON; none where the API server does not serve the kind.
    served
        Whether it serves the kind.
    refusal
        The answer that kept them from being listed; None if all are there.
    read_at
        The API server's time of day; None if it does not say.
    version
        Where a watch starts that follows the list; empty where there is none.
    """

    items: list[msgspec.Raw] = field(default_factory=list)
    served: bool = True
    refusal: ApiResponse | None = None
    read_at: datetime | None = None
    version: str = ""

    def right(self, wanted: str) -> str:
        """Word what is missing: the right alone, or the answer beside it if it was not about rights."""
        return str(self.missing(wanted))

    def missing(self, wanted: str, where: str = "") -> MissingList:
        """Return what is missing: the right alone, or the answer beside it if it was not about rights.

        Parameters
        ----------
        where
            In which namespaces; empty where the objects are in none, or the right names them.
        """
        assert self.refusal is not None
        refusal = self.refusal
        error = None if refusal.status in _FORBIDDEN else refusal.message or f"status {refusal.status}"
        return MissingList(wanted, error, where)


async def list_objects(api: ApiClient, paths: Sequence[str]) -> ListResult:
    """List all objects of a kind page by page, at the first path that the API server knows.

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
