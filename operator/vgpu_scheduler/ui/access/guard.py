"""Access control between requests and pages: who the visitor is, and how much they see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import web

from vgpu_scheduler.ui.errors import HttpStatusError
from vgpu_scheduler.ui.name_redaction import Names
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility

JSON: Final = "application/json"

_READING: Final = frozenset({"GET", "HEAD"})
_FORM: Final = "POST"
"""The method for queries that are too long for an address."""
_SAME: Final = frozenset({"", "none", "same-origin"})
"""Values of ``Sec-Fetch-Site`` for requests by the user or by the page itself."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer", the page's own forms would send no origin
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every answer."""


@dataclass(frozen=True, slots=True)
class User:
    """A user recognised by the API server or a proxy.

    Attributes
    ----------
    extra
        Further attributes from the API server's token review, which its access reviews take into account.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who requests a page.

    Attributes
    ----------
    user
        The user; None on a laptop, where the page serves only the user who started it.
    visibility
        What the visitor sees.
    sees_findings
        Whether the visitor sees the doctor's findings, which include who may do what.
    may_leave
        Whether the visitor has a session that they can end.
    """

    user: User | None = None
    visibility: Visibility = EVERYTHING
    sees_findings: bool = True
    may_leave: bool = False

    @property
    def user_name(self) -> str | None:
        """The name of the user; None on a laptop."""
        return None if self.user is None else self.user.name


class Guard(Protocol):
    """Decides whose requests are answered, and how much they see.

    Attributes
    ----------
    names
        The names to redact for visitors who do not see everything; None if there are no such visitors.
    stream_lasts
        Seconds after which a stream ends, so that its follower is authenticated again; None for no limit.
    """

    names: Names | None
    stream_lasts: float | None

    def headers(self, request: web.Request) -> Mapping[str, str]:
        """Return the headers of the answer to a request."""

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the routes of the guard itself."""

    def check(self, request: web.Request) -> None:
        """Refuse writes, and requests that another site makes.

        Raises
        ------
        HttpStatusError
            If the request uses another method, names another host, or comes from another site.
        """

    async def let_in(self, request: web.Request) -> Visitor | web.Response:
        """Return the visitor, or the answer to a visitor who is not admitted yet.

        Raises
        ------
        HttpStatusError
            If the visitor is not admitted.
        """

    async def deletable(self, visitor: Visitor, namespaces: Collection[str]) -> Collection[str]:
        """Return the given namespaces in which a visitor may delete pods, and so may know the names of victims."""


def check_request(
    request: web.Request, hosts: Collection[str], schemes: Collection[str], *, links: bool = False, where: str
) -> None:
    """Refuse writes, and requests that another site makes; a form must carry the page's own origin.

    Parameters
    ----------
    hosts
        The host names of this page.
    schemes
        The schemes of this page's origins.
    links
        Whether links on other sites may lead here.
    where
        The message for requests that name another host.

    Raises
    ------
    HttpStatusError
        If the request uses another method, names another host, or comes from another site.
    """
    is_form = request.method == _FORM and request.match_info.http_exception is None
    if request.method not in _READING and not is_form:
        raise HttpStatusError(HTTPStatus.METHOD_NOT_ALLOWED, "pages can only be read")
    host = request.headers.get("Host", "")
    if host.lower() not in hosts:
        raise HttpStatusError(HTTPStatus.MISDIRECTED_REQUEST, where)
    origin = request.headers.get("Origin", "")
    is_own = origin in {f"{scheme}://{host}" for scheme in schemes}
    is_from_here = request.headers.get("Sec-Fetch-Site", "") in _SAME or (links and _is_link(request))
    if ((origin or is_form) and not is_own) or not is_from_here:
        raise HttpStatusError(HTTPStatus.FORBIDDEN, "another site asked for this page")


def wants_json(request: web.Request) -> bool:
    """Tell whether a program sent the request; it gets errors as JSON."""
    return JSON in request.headers.get("Accept", "")


def _is_link(request: web.Request) -> bool:
    """Tell whether the user followed a link; the page is then shown to nobody else."""
    headers = request.headers
    is_visit = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    return request.method in _READING and is_visit


def local(location: str) -> str:
    """Return an address on this page; two slashes at its beginning would name another host."""
    return f"/{location.lstrip('/')}"
