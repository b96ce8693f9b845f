"""Access to the page on a laptop: one browser on the same machine, which knows the key.

The printed address contains the key. The browser that opens it gets a cookie in exchange, which other sites can neither
read nor send. The ``Host`` header exposes a site that resolves its own name to this machine, and the browser's fetch
headers expose requests that another site makes.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.access.guard import HEADERS, Guard, Visitor, check_request, local
from vgpu_scheduler.ui.errors import HttpStatusError
from vgpu_scheduler.ui.query import Query

Deletable = Callable[[Collection[str]], Awaitable[Collection[str]]]
KEY: Final = "key"
_BYTES: Final = 32
_VISITOR: Final = Visitor()
_WRONG_HOST: Final = "this page is served only to this machine"


class LocalKeyGuard(Guard):
    """Admits the browser that has the key; it sees everything that the user's own rights allow.

    Parameters
    ----------
    port
        The port of the page.
    deletable
        Returns the given namespaces in which the user may delete pods; None if that makes no difference.
    """

    names = None
    stream_lasts = None

    def __init__(self, port: int, deletable: Deletable | None) -> None:
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._address = f"http://127.0.0.1:{port}/"
        self._cookie = f"vgpu-scheduler-{port}"  # cookies do not tell ports apart
        self._deletable = deletable
        self._key = secrets.token_urlsafe(_BYTES)
        self._session = secrets.token_urlsafe(_BYTES)

    @property
    def address(self) -> str:
        """The address with the key, which admits a browser."""
        return f"{self._address}?{KEY}={self._key}"

    def headers(self, request: web.Request) -> Mapping[str, str]:
        """Return the headers of every answer."""
        del request
        return HEADERS

    def routes(self) -> Iterable[web.RouteDef]:
        """Return no routes: this guard has none of its own."""
        return ()

    def check(self, request: web.Request) -> None:
        """Refuse writes, and requests that another site makes.

        Raises
        ------
        HttpStatusError
            If the request uses another method, names another host, or comes from another site.
        """
        check_request(request, self._hosts, ("http",), where=_WRONG_HOST)

    async def let_in(self, request: web.Request) -> Visitor | web.Response:
        """Return the visitor, or the answer that gives the browser its cookie.

        Raises
        ------
        HttpStatusError
            If the browser has neither cookie nor key.
        """
        if _is(request.cookies.get(self._cookie, ""), self._session):
            return _VISITOR
        given = request.query.getall(KEY, [])
        if len(given) == 1 and _is(given[0], self._key):
            rest = Query({name: value for name, value in request.query.items() if name != KEY})
            location = request.rel_url.raw_path + (rest.with_values() if rest.values else "")
            answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": local(location)})
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="Strict", path="/")
            return answer
        wrong = "the key in this address is wrong" if given else "this page is shown to the browser that has its key"
        raise HttpStatusError(
            HTTPStatus.UNAUTHORIZED, f"{wrong}: open the whole address that vgpu-scheduler ui has printed"
        )

    async def deletable(self, visitor: Visitor, namespaces: Collection[str]) -> Collection[str]:
        """Return the given namespaces in which the user may delete pods; all of them if that makes no difference."""
        del visitor
        return namespaces if self._deletable is None else await self._deletable(namespaces)


def _is(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())
