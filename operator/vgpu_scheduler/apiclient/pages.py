"""Consistent lists, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from http import HTTPStatus

from vgpu_scheduler.apiclient.client import ApiClient, ApiError, ApiResponse
from vgpu_scheduler.apiclient.tasks import end_tasks
from vgpu_scheduler.kube import ListPage, decode_page

_LIMIT = 500


async def list_pages(
    api: ApiClient, path: str, accept: str = "application/json", fields: str = ""
) -> AsyncGenerator[tuple[ListPage, datetime | None] | None, None]:
    """Yield the pages of one consistent list with the API server's time of day, and None when the list restarts.

    The next page is requested before the current one is yielded, so that the API server prepares it meanwhile. A
    caller that stops early has caused one request too many.

    Parameters
    ----------
    accept
        The media type of the answer.
    fields
        A field selector; empty for all objects.

    Raises
    ------
    ApiError, ApiUnreachableError
        If the API server refuses a page or does not answer.
    DecodeError
        If a page is not a list.
    """

    def request_page(token: str) -> asyncio.Task[ApiResponse]:
        params = {"limit": str(_LIMIT)}
        params |= {"continue": token} if token else {}
        params |= {"fieldSelector": fields} if fields else {}
        return asyncio.create_task(api.request("GET", path, params=params, accept=accept))

    token, asked = "", request_page("")
    try:
        while True:
            response = await asked
            if response.status == HTTPStatus.GONE and token:
                token, asked = "", request_page("")  # the snapshot of the list expired
                yield None
                continue
            if not response.ok:
                raise ApiError(response)
            page = decode_page(response.body)
            token = page.continue_token
            if token:
                asked = request_page(token)
                await asyncio.sleep(0)  # lets the task send the request
            yield page, response.time
            if not token:
                return
    finally:
        await end_tasks([asked])
