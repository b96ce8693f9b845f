"""Lists of objects as they are written, with the rights of whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from vgpu_scheduler.apiclient import ApiClient, ApiResponse
from vgpu_scheduler.kube import of_any_depth

_PAGE = 500
_FORBIDDEN, _NOT_FOUND, _GONE = (401, 403), 404, 410


@dataclass(slots=True)
class ListResult:
    """The outcome of a list request.

    Attributes
    ----------
    items
        The objects as JSON; none where the API server does not know the kind.
    refusal
        The answer that kept them from being listed; None if all are there.
    read_at
        The API server's time of day; None if it does not say.
    """

    items: list[msgspec.Raw] = field(default_factory=list)
    refusal: ApiResponse | None = None
    read_at: datetime | None = None

    def right(self, wanted: str) -> str:
        """Word what is missing: the right alone, or the answer beside it if it was not about rights."""
        assert self.refusal is not None
        return wanted if self.refusal.status in _FORBIDDEN else f"{wanted}: {self.refusal.message}"


class _Page(msgspec.Struct):
    """A page of a list."""

    items: list[msgspec.Raw] | None = None
    metadata: dict[str, Any] = {}


_PAGES = msgspec.json.Decoder(_Page)


async def list_objects(api: ApiClient, paths: Sequence[str]) -> ListResult:
    """List all objects of a kind page by page, at the first path that the API server knows.

    Raises
    ------
    ApiUnreachableError
        If the API server does not answer.
    """
    for path in paths:
        found, token = ListResult(), ""
        while True:
            page = {"limit": str(_PAGE), **({"continue": token} if token else {})}
            response = await api.request("GET", path, params=page)
            if response.status == _NOT_FOUND:
                break
            if response.status == _GONE and token:
                found, token = ListResult(), ""  # the snapshot behind the pages expired: begin again
                continue
            if not response.ok:
                return ListResult(refusal=response)
            content = of_any_depth(response.body, _PAGES.decode)
            found.items += content.items or ()
            found.read_at = response.time
            token = str(content.metadata.get("continue") or "")
            if not token:
                return found
    return ListResult()
