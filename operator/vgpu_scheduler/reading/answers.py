"""What servers answer over HTTP, which may be anybody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

__all__ = ["bounded_body", "text_in"]

_MOST_BYTES: Final = 64 * 2**20
_PIECE: Final = 2**16


async def bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """Return what a server answers.

    Raises
    ------
    ValueError
        If it is larger than 64 MiB.
    """
    body = b""
    async for piece in response.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError(f"its answer is larger than {_MOST_BYTES >> 20} MiB")
    return body


def text_in(body: bytes, field: str) -> str:
    """Return what an answer says in a field; empty where it has none, or is no JSON."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(answer.get(field, "")) if isinstance(answer, Mapping) else ""
