"""Reads the forms that pages send."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from vgpu_scheduler.ui.errors import BadQueryError, RefusedError

__all__ = ["LARGEST", "fields_of"]

LARGEST: Final = 1024 * 1024
"""Bytes of a form."""
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 100
_SECONDS: Final = 30.0
"""In which a form has to come."""


async def fields_of(request: web.Request) -> list[tuple[str, str]]:
    """Return the fields of a form.

    Raises
    ------
    BadQueryError
        If it is none.
    RefusedError
        If it takes too long to come.
    """
    if request.content_type != _FORM:
        raise BadQueryError(f"a form comes as {_FORM}")
    try:
        async with asyncio.timeout(_SECONDS):
            body = (await request.read()).decode()
        return parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except TimeoutError:
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, f"the form did not come within {_SECONDS:.0f} seconds") from None
    except ValueError:
        raise BadQueryError("the form cannot be understood") from None
