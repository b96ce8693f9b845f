"""What stands between requests and pages: who asks, and how much that somebody sees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import web

from vgpu_scheduler.ui.errors import RefusedError
from vgpu_scheduler.ui.name_redaction import Names
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility

__all__ = ["HEADERS", "JSON", "Guard", "User", "Visitor", "check_request", "local", "wants_json"]

JSON: Final = "application/json"

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


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whom the API server, or a proxy, has recognised.

    Attributes
    ----------
    extra
        What else the API server told of them, by names; it decides with it what they may do.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks for a page.

    Attributes
    ----------
    user
        None on a laptop, where it is the one who started the page.
    visibility
        What they see.
    sees_findings
        Whether they see what the doctor has found, who may do what among it.
    may_leave
        Whether they have a session that they can end.
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
    """Tells whose requests are answered, and how much these see.

    Attributes
    ----------
    names
        Which names there are, where there are visitors who do not see all; None where there are none.
    stream_lasts
        Seconds after which a stream ends, so that whoever follows it is asked anew who they are; None for ever.
    """

    names: Names | None
    stream_lasts: float | None

    def headers(self, request: web.Request) -> Mapping[str, str]:
        """Return what every answer to such a request has."""

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the pages of its own."""

    def check(self, request: web.Request) -> None:
        """Refuse what is no reading, and what another site asks for.

        Raises
        ------
        RefusedError
            If it is another method, for another host, or from another site.
        """

    async def let_in(self, request: web.Request) -> Visitor | web.Response:
        """Return who asks, or the answer to somebody who is not let in, or not yet.

        Raises
        ------
        RefusedError
            If they are not let in.
        """

    async def deletable(self, visitor: Visitor, namespaces: Collection[str]) -> Collection[str]:
        """Return in which of some namespaces a visitor may delete pods, and so may know who would end."""


def check_request(
    request: web.Request, hosts: Collection[str], schemes: Collection[str], *, links: bool = False, where: str
) -> None:
    """Refuse what is no reading, and what another site asks for; a form has to say that it is the page's own.

    Parameters
    ----------
    hosts
        By which names this page is asked for.
    schemes
        Those of its origins.
    links
        Whether a link on another site may lead here.
    where
        What is said to somebody who asks for another host.

    Raises
    ------
    RefusedError
        If it is another method, for another host, or from another site.
    """
    is_form = request.method == _FORM and request.match_info.http_exception is None
    if request.method not in _READING and not is_form:
        raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "pages can only be read")
    host = request.headers.get("Host", "")
    if host.lower() not in hosts:
        raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, where)
    origin = request.headers.get("Origin", "")
    is_own = origin in {f"{scheme}://{host}" for scheme in schemes}
    is_from_here = request.headers.get("Sec-Fetch-Site", "") in _SAME or (links and _is_link(request))
    if ((origin or is_form) and not is_own) or not is_from_here:
        raise RefusedError(HTTPStatus.FORBIDDEN, "another site asked for this page")


def wants_json(request: web.Request) -> bool:
    """Tell whether a program asks, to which errors are told as JSON."""
    return JSON in request.headers.get("Accept", "")


def _is_link(request: web.Request) -> bool:
    """Tell whether somebody followed a link, which shows the page to nobody but them."""
    headers = request.headers
    is_visit = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    return request.method in _READING and is_visit


def local(location: str) -> str:
    """Return an address within this page: two slashes at its beginning would name another host."""
    return f"/{location.lstrip('/')}"
