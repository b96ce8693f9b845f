"""Ask the web page in a cluster, with the caller's own token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from vgpu_scheduler.reading.answers import bounded_body, text_in
from vgpu_scheduler.reading.options import ClusterOptions, PageOptions
from vgpu_scheduler.reading.view import connect_to
from vgpu_scheduler.whatif import InvalidObjectsError

OTHERS: Final = "(of another namespace)"
"""What the page shows in place of the name of a pod that the user may not see."""
_TIMEOUT: Final = 60.0
"""Timeout of a request in seconds."""
_MOST_SHOWN: Final = 300
"""The most characters of the page's error messages that are shown."""
_CANNOT_LOG_IN: Final = (
    "your kubeconfig has no token that could be sent there (client certificates cannot be used): name "
    "another one with --kubeconfig that has one (`kubectl create token NAME` prints a token of a service "
    "account), or leave out --ui"
)


def ask_page(
    page: PageOptions, cluster: ClusterOptions, path: str, form: Mapping[str, str], *, post: bool = False
) -> str:
    """Return the page's response.

    Parameters
    ----------
    cluster
        The cluster whose token is sent, only over TLS and only to the page's address.
    form
        The parameters of the question.
    post
        Whether to send them as a form instead of in the URL.

    Raises
    ------
    InvalidObjectsError
        If the page cannot be reached, or refuses; the message says why.
    ConfigException
        If the kubeconfig cannot be read.
    """
    try:
        parts = urlsplit(page.address)
        is_page = parts.scheme == "https" and bool(parts.hostname) and (parts.port or 1) > 0
        is_page &= not (parts.username or parts.password or parts.query or parts.fragment or parts.path.strip("/"))
    except ValueError:
        is_page = False
    if not is_page:
        raise InvalidObjectsError(f"--ui {page.address}: write https://HOST[:PORT]; tokens are sent over TLS only")
    address = page.address.rstrip("/")
    try:
        return asyncio.run(_asked(page, address, cluster, path, form, post=post))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        if isinstance(error, InvalidObjectsError):
            raise
        raise InvalidObjectsError(f"--ui {address}: {str(error)[:_MOST_SHOWN] or type(error).__name__}") from None


async def _asked(
    page: PageOptions, address: str, cluster: ClusterOptions, path: str, form: Mapping[str, str], *, post: bool
) -> str:
    headers = {"Authorization": f"Bearer {await _token(cluster)}", "Accept": "application/json"}
    context = ssl.create_default_context(cafile=str(page.authority) if page.authority is not None else None)
    asked: dict[str, Any] = {"data": form, "headers": {**headers, "Origin": address}} if post else {"params": form}
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT),
            connector=aiohttp.TCPConnector(ssl=context),
            headers=headers,
            trust_env=True,
        ) as session,
        session.request("POST" if post else "GET", f"{address}{path}", allow_redirects=False, **asked) as response,
    ):
        moved = response.headers.get("Location", "")
        if post and response.status == HTTPStatus.SEE_OTHER and moved.startswith("/") and not moved.startswith("//"):
            url = f"{address}{moved}"
            async with session.get(URL(url, encoded=True), allow_redirects=False) as answer:
                return await _read(answer)
        return await _read(response)


async def _token(cluster: ClusterOptions) -> str:
    async with await connect_to(cluster) as api:
        token = await api.credentials.token()
    if not token:
        raise InvalidObjectsError(f"--ui: {_CANNOT_LOG_IN}")
    return token


async def _read(response: aiohttp.ClientResponse) -> str:
    body = await bounded_body(response)
    if response.status != HTTPStatus.OK:
        raise ValueError(text_in(body, "message") or f"it answers {response.status} {response.reason}")
    return body.decode(errors="replace")
