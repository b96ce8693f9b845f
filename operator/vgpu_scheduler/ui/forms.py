"""Reads submitted forms."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from vgpu_scheduler.ui.errors import BadQueryError, HttpStatusError

LARGEST: Final = 1024 * 1024
"""The largest form (bytes)."""
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 100
_SECONDS: Final = 30.0
"""The longest time to receive a form."""


async def fields_of(request: web.Request) -> list[tuple[str, str]]:
    """Return the fields of a form.

    Raises
    ------
    BadQueryError
        If the body is not a form.
    HttpStatusError
        If the body takes too long to arrive.
    """
    if request.content_type != _FORM:
        raise BadQueryError(f"a form must be sent as {_FORM}")
    try:
        async with asyncio.timeout(_SECONDS):
            body = (await request.read()).decode()
        return parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except TimeoutError:
        raise HttpStatusError(
            HTTPStatus.REQUEST_TIMEOUT, f"the form did not arrive within {_SECONDS:.0f} seconds"
        ) from None
    except ValueError:
        raise BadQueryError("the form cannot be decoded") from None
