"""Reads the forms that pages send."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from vgpu_scheduler.ui.errors import BadQueryError

__all__ = ["LARGEST", "fields_of"]

LARGEST: Final = 1024 * 1024
"""Bytes of a form."""
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 100


async def fields_of(request: web.Request) -> list[tuple[str, str]]:
    """Return the fields of a form.

    Raises
    ------
    BadQueryError
        If it is none.
    """
    if request.content_type != _FORM:
        raise BadQueryError(f"a form comes as {_FORM}")
    try:
        body = (await request.read()).decode()
        return parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadQueryError("the form cannot be understood") from None
