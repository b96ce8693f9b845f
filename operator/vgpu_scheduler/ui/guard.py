"""Who may see the page on a laptop: one browser of the same machine, which knows the key.

The address that is printed has the key. Whoever opens it gets a cookie in its place, which other sites can neither read
nor have sent. A page of another site that resolves its own name to this machine is told apart by the name that it asks
for, and a request that another site makes by the headers that browsers write.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.errors import RefusedError
from vgpu_scheduler.ui.query import Query

__all__ = ["HEADERS", "Guard"]

KEY: Final = "key"
_BYTES: Final = 32
_READING: Final = frozenset({"GET", "HEAD"})
_FORM: Final = "POST"
"""How a question is asked that is too long for an address."""
_SAME: Final = frozenset({"", "none", "same-origin"})
"""What browsers say of requests that are their user's own or the page's (``Sec-Fetch-Site``)."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any, forms of the page itself would name no origin
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""What every answer has."""


class Guard:
    """Tells whose requests are answered.

    Parameters
    ----------
    port
        On which the page is served.
    """

    def __init__(self, port: int) -> None:
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._address = f"http://127.0.0.1:{port}/"
        self._cookie = f"vgpu-scheduler-{port}"  # cookies do not tell ports apart
        self._key = secrets.token_urlsafe(_BYTES)
        self._session = secrets.token_urlsafe(_BYTES)

    @property
    def address(self) -> str:
        """The address that lets a browser in."""
        return f"{self._address}?{KEY}={self._key}"

    def check(self, request: web.Request) -> None:
        """Refuse what is no reading, and what another site asks for; a form has to say that it is the page's own.

        Raises
        ------
        RefusedError
            If it is another method, for another host, or from another site.
        """
        is_form = request.method == _FORM and request.match_info.http_exception is None
        if request.method not in _READING and not is_form:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "pages can only be read")
        host = request.headers.get("Host", "")
        if host not in self._hosts:
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, "this page is served to this machine only")
        origin, own = request.headers.get("Origin", ""), f"http://{host}"
        is_other = origin != own and (origin or is_form)
        if is_other or request.headers.get("Sec-Fetch-Site", "") not in _SAME:
            raise RefusedError(HTTPStatus.FORBIDDEN, "another site asked for this page")

    def let_in(self, request: web.Request) -> web.Response | None:
        """Return the answer that gives a browser its cookie; None for one that has it.

        Raises
        ------
        RefusedError
            If it has neither cookie nor key.
        """
        if _is(request.cookies.get(self._cookie, ""), self._session):
            return None
        given = request.query.getall(KEY, [])
        if len(given) == 1 and _is(given[0], self._key):
            rest = Query({name: value for name, value in request.query.items() if name != KEY})
            location = request.rel_url.raw_path + (rest.with_values() if rest.values else "")
            answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": _local(location)})
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="Strict", path="/")
            return answer
        wrong = "the key in this address is wrong" if given else "this page is shown to the browser that has its key"
        raise RefusedError(
            HTTPStatus.UNAUTHORIZED, f"{wrong}: open the address that vgpu-scheduler ui has printed, with all of it"
        )


def _is(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _local(location: str) -> str:
    """Return an address within this page: two slashes at its beginning would name another host."""
    return f"/{location.lstrip('/')}"
