"""Access to a page deployed in the cluster: users known to the API server, within their rights.

A browser logs in with a token and gets a session in exchange. Programs send the token with each request. A proxy that
has authenticated a user names the user in a header. The API server says who a token belongs to and which pods they may
list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from vgpu_scheduler.ui.access.guard import HEADERS, Guard, User, Visitor, check_request, local, wants_json
from vgpu_scheduler.ui.access.limits import FailureLimiter
from vgpu_scheduler.ui.access.proxies import Proxies
from vgpu_scheduler.ui.access.reviews import AccessRight, Reviews
from vgpu_scheduler.ui.access.sessions import Sessions
from vgpu_scheduler.ui.errors import BadQueryError, HttpStatusError
from vgpu_scheduler.ui.forms import fields_of
from vgpu_scheduler.ui.name_redaction import Names
from vgpu_scheduler.ui.templating import render
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility

COOKIE: Final = "__Host-vgpu-scheduler"
"""With this prefix browsers accept the cookie only from this host, only over TLS, and for all paths."""
LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
PROBES: Final = ("/livez", "/readyz")
_STATIC: Final = "/static/"
_BEARER: Final = "bearer"
_LONGEST_TOKEN: Final = 16 * 1024
_STREAM_LASTS: Final = 60.0
_LIST_PODS: Final = AccessRight("list", "pods")
_LIST_NODES: Final = AccessRight("list", "nodes")
_LIST_ROLES: Final = AccessRight("list", "clusterroles", "rbac.authorization.k8s.io")
_DELETE_PODS: Final = AccessRight("delete", "pods")
_AT_ONCE, _ONE_MORE_AFTER = 10, 3.0
"""The most failed attempts of one address at once, and seconds until it may have one more."""
_NOBODY: Final = Visitor(visibility=Visibility(frozenset()), sees_findings=False)
_STRICT: Final = "max-age=31536000"
_LOCAL: Final = "localhost"
_WRONG_HOST: Final = "this page is not served under this host name: --host lists the names"
_LOG_IN: Final = "send a token with each request: Authorization: Bearer TOKEN"
_REFUSED: Final = "the API server rejects this token"
_TOO_OFTEN: Final = "there were too many failed attempts from your address: try again in a minute"


@dataclass(frozen=True, slots=True)
class PageAddresses:
    """How the page is reached.

    Attributes
    ----------
    hosts
        The host names in requests, with a port if their address has one.
    is_tls
        Whether browsers reach the page over TLS, possibly ended by a proxy.
    proxies
        The proxies that may name users; None if there are none.
    """

    hosts: frozenset[str]
    is_tls: bool = True
    proxies: Proxies | None = None


class DeployedGuard(Guard):
    """Admits users whom the API server knows and who may list pods in some namespace.

    Parameters
    ----------
    namespaces
        Returns the existing namespaces.
    clock
        A monotonic clock (seconds).
    wall
        The time of day (seconds since 1970).
    """

    stream_lasts = _STREAM_LASTS

    def __init__(
        self,
        reviews: Reviews,
        doors: PageAddresses,
        names: Names,
        namespaces: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.names: Names | None = names
        self.sessions = Sessions(clock, wall)
        self._reviews = reviews
        self._doors = doors
        self._namespaces = namespaces
        self._attempts = FailureLimiter(_AT_ONCE, _ONE_MORE_AFTER, clock)

    def headers(self, request: web.Request) -> Mapping[str, str]:
        """Return the headers of every answer; under a name of its own, the page also demands TLS from browsers.

        Through a port-forward the page is ``localhost``, where other programs of the machine serve without TLS.
        """
        is_local = request.headers.get("Host", "").partition(":")[0].lower() == _LOCAL
        if is_local or not self._doors.is_tls:
            return HEADERS
        return {**HEADERS, "Strict-Transport-Security": _STRICT}

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the routes for login, logout and probes."""
        return (
            web.get(LOGIN, self._login_page),
            web.post(LOGIN, self._login),
            web.post(LOGOUT, self._logout),
            *(web.get(path, _well) for path in PROBES),
        )

    def check(self, request: web.Request) -> None:
        """Refuse writes, and requests that another site makes; links from other sites are allowed.

        Raises
        ------
        HttpStatusError
            If the request uses another method, names another host, or comes from another site.
        """
        if request.method == "GET" and request.path in PROBES:
            return  # kubelets send the pod's address as the host
        schemes = ("https",) if self._doors.is_tls else ("http",)
        check_request(request, self._doors.hosts, schemes, links=True, where=_WRONG_HOST)

    async def let_in(self, request: web.Request) -> Visitor | web.Response:
        """Return the visitor, or the login page.

        Raises
        ------
        HttpStatusError
            If the visitor is not admitted.
        """
        if request.path in {LOGIN, LOGOUT, *PROBES} or request.path.startswith(_STATIC):
            return _NOBODY
        if self._doors.proxies is not None and (user := self._doors.proxies.user_of(request)) is not None:
            return await self._visitor(user)
        if given := request.headers.getall("Authorization", []):
            return await self._visitor(await self._bearer(request, given))
        shown = request.cookies.get(COOKIE, "")
        session = self.sessions.find(shown) if shown else None
        if session is None:
            return self._ask_visitor(request, "your session has ended" if shown else "")
        user = await self._reviews.user_of(session.token)
        if user is None or (user.name, user.uid) != (session.user.name, session.user.uid):
            self.sessions.end(shown)
            return self._ask_visitor(request, "your session has ended because its token expired")
        return await self._visitor(user, may_leave=True)  # with the user's current groups

    async def deletable(self, visitor: Visitor, namespaces: Collection[str]) -> Collection[str]:
        """Return the given namespaces in which a visitor may delete pods, as far as the visitor sees them."""
        if visitor.user is None:
            return ()
        seen = [name for name in namespaces if visitor.visibility.sees(name)]
        return await self._reviews.allowed_in(visitor.user, _DELETE_PODS, seen)

    # Who it is ----------------------------------------------------------------------------------------------------

    async def _bearer(self, request: web.Request, given: list[str]) -> User:
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != _BEARER:
            raise HttpStatusError(HTTPStatus.UNAUTHORIZED, "Authorization: write Bearer and a token")
        return await self._recognised(request, token.strip())

    async def _recognised(self, request: web.Request, token: str) -> User:
        """Return the user of a token.

        Raises
        ------
        HttpStatusError
            If the token is not valid, or the address had too many failed attempts.
        """
        if (known := self._reviews.known(token)) is not None:
            return known  # failed attempts from the same address do not lock out a known user
        address = request.remote or ""
        if not self._attempts.may(address):
            raise HttpStatusError(HTTPStatus.TOO_MANY_REQUESTS, _TOO_OFTEN)
        could_be = 0 < len(token) <= _LONGEST_TOKEN and token.isascii() and token.isprintable() and " " not in token
        user = await self._reviews.user_of(token) if could_be else None
        if user is None:
            self._attempts.failed(address)
            raise HttpStatusError(HTTPStatus.UNAUTHORIZED, _REFUSED)
        return user

    async def _visitor(self, user: User, *, may_leave: bool = False) -> Visitor:
        """Return a user as a visitor, with what they may see.

        Raises
        ------
        HttpStatusError
            If the user may see nothing, or the API server does not answer.
        """
        known = self._namespaces()
        if not await self._reviews.allows(user, _LIST_PODS):
            mine = await self._reviews.allowed_in(user, _LIST_PODS, known)
            if not mine:
                raise HttpStatusError(
                    HTTPStatus.FORBIDDEN, "you may not list the pods of any namespace, so this page shows you nothing"
                )
            return Visitor(user, Visibility(mine), sees_findings=False, may_leave=may_leave)
        if not await self._reviews.allows(user, _LIST_NODES):
            return Visitor(user, Visibility(frozenset(known)), sees_findings=False, may_leave=may_leave)
        findings = await self._reviews.allows(user, _LIST_ROLES)
        return Visitor(user, EVERYTHING, sees_findings=findings, may_leave=may_leave)

    # Sessions -----------------------------------------------------------------------------------------------------

    async def _login_page(self, request: web.Request) -> web.Response:
        return self._ask(request.query.get("to", "/"), status=HTTPStatus.OK)

    async def _login(self, request: web.Request) -> web.Response:
        given = await fields_of(request)
        form = dict(given)
        if len(form) != len(given) or not form.keys() <= {"token", "to"}:
            raise BadQueryError("this form takes a token and the page to open next, and nothing else")
        to = _within(form.get("to", ""))
        try:
            token = form.get("token", "").strip()
            user = await self._recognised(request, token)
            await self._visitor(user)
        except HttpStatusError as error:
            return self._ask(to, str(error), error.status)
        self.sessions.end(request.cookies.get(COOKIE, ""))
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": to})
        shown = self.sessions.begin(user, token)
        answer.set_cookie(COOKIE, shown, httponly=True, secure=True, samesite="Strict", path="/")
        return answer

    async def _logout(self, request: web.Request) -> web.Response:
        self.sessions.end(request.cookies.get(COOKIE, ""))
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": LOGIN})
        answer.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
        return answer

    def _ask_visitor(self, request: web.Request, message: str) -> web.Response:
        """Return the login page for a browser; a program is told to send a token instead.

        Raises
        ------
        HttpStatusError
            If a program sent the request.
        """
        if wants_json(request):
            raise HttpStatusError(HTTPStatus.UNAUTHORIZED, _LOG_IN)
        return self._ask(request.rel_url.raw_path_qs, message)

    @staticmethod
    def _ask(to: str, message: str = "", status: HTTPStatus = HTTPStatus.UNAUTHORIZED) -> web.Response:
        """Return the login page."""
        values = {"page": "", "titles": {}, "message": message, "to": _within(to), "status": status}
        headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
        text = render("login.html", values)
        return web.Response(text=text, status=status, headers=headers, content_type="text/html", charset="utf-8")


async def _well(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _within(to: str) -> str:
    """Return an address on this page; ``/`` if it is anything else."""
    try:
        parts = urlsplit(to)
    except ValueError:
        return "/"
    is_printable = to.isascii() and to.isprintable() and "\\" not in to
    is_other = parts.scheme or parts.netloc or parts.path in {LOGIN, LOGOUT} or not to.startswith("/")
    return local(to) if is_printable and not is_other else "/"
