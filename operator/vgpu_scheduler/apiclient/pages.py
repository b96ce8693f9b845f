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
    api: ApiClient, path: str, form: str = "application/json", fields: str = ""
) -> AsyncGenerator[tuple[ListPage, datetime | None] | None, None]:
    """Yield the pages of one consistent list with the API server's time of day, and None where the list begins anew.

    A page is asked for before the one before it is handed out: the API server makes it while that is read. It has made
    one page too many where a list ends early.

    Parameters
    ----------
    form
        The form in which objects are wanted.
    fields
        A field selector; empty for all objects.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page cannot be listed.
    DecodeError
        If one is no list.
    """

    def request_page(token: str) -> asyncio.Task[ApiResponse]:
        params = {"limit": str(_LIMIT)}
        params |= {"continue": token} if token else {}
        params |= {"fieldSelector": fields} if fields else {}
        return asyncio.create_task(api.request("GET", path, params=params, accept=form))

    token, asked = "", request_page("")
    try:
        while True:
            response = await asked
            if response.status == HTTPStatus.GONE and token:
                token, asked = "", request_page("")  # the snapshot behind the pages expired
                yield None
                continue
            if not response.ok:
                raise ApiError(response)
            page = decode_page(response.body)
            token = page.continue_token
            if token:
                asked = request_page(token)
                await asyncio.sleep(0)  # it is sent now, where a connection is open
            yield page, response.time
            if not token:
                return
    finally:
        await end_tasks([asked])
