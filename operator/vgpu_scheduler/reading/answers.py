"""Read HTTP responses of untrusted servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

_MOST_BYTES: Final = 64 * 2**20
_PIECE: Final = 2**16


async def bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response.

    Raises
    ------
    ValueError
        If it is larger than 64 MiB.
    """
    body = bytearray()  # extended in place
    async for piece in response.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError(f"its answer is larger than {_MOST_BYTES >> 20} MiB")
    return bytes(body)


def text_in(body: bytes, field: str) -> str:
    """Return a field of a JSON response; empty if it is missing, or the response is not JSON."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(answer.get(field, "")) if isinstance(answer, Mapping) else ""
