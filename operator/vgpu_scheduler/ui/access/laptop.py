"""Who may see the page on a laptop: one browser of the same machine, which knows the key.

The address that is printed has the key. Whoever opens it gets a cookie in its place, which other sites can neither read
nor have sent. A page of another site that resolves its own name to this machine is told apart by the name that it asks
for, and a request that another site makes by the headers that browsers write.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.access.guard import HEADERS, Guard, Visitor, check_request, local
from vgpu_scheduler.ui.errors import RefusedError
from vgpu_scheduler.ui.query import Query

__all__ = ["Deletable", "LocalKeyGuard"]

Deletable = Callable[[Collection[str]], Awaitable[Collection[str]]]
KEY: Final = "key"
_BYTES: Final = 32
_VISITOR: Final = Visitor()
_WRONG_HOST: Final = "this page is served to this machine only"


class LocalKeyGuard(Guard):
    """Lets the browser in that has the key; it sees all that the user's own rights show.

    Parameters
    ----------
    port
        On which the page is served.
    deletable
        Returns in which of some namespaces the user may delete pods; None where it makes no difference.
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
        """The address that lets a browser in."""
        return f"{self._address}?{KEY}={self._key}"

    def headers(self, request: web.Request) -> Mapping[str, str]:
        """Return what every answer has."""
        del request
        return HEADERS

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the pages of its own."""
        return ()

    def check(self, request: web.Request) -> None:
        """Refuse what is no reading, and what another site asks for.

        Raises
        ------
        RefusedError
            If it is another method, for another host, or from another site.
        """
        check_request(request, self._hosts, ("http",), where=_WRONG_HOST)

    async def let_in(self, request: web.Request) -> Visitor | web.Response:
        """Return who asks, or the answer that gives a browser its cookie.

        Raises
        ------
        RefusedError
            If it has neither cookie nor key.
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
        raise RefusedError(
            HTTPStatus.UNAUTHORIZED, f"{wrong}: open the address that vgpu-scheduler ui has printed, with all of it"
        )

    async def deletable(self, visitor: Visitor, namespaces: Collection[str]) -> Collection[str]:
        """Return in which of some namespaces the user may delete pods; all where it makes no difference."""
        del visitor
        return namespaces if self._deletable is None else await self._deletable(namespaces)


def _is(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())
