"""A page that is deployed, with an API server behind it that knows some people and what they may do."""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from tests.apiserver.control_plane import free_ports
from tests.ui.browsers import Browser, Object, view_of

from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.reading import keep_room, make_world, settings_from_file
from vgpu_scheduler.ui import CurrentWorld, PageSetup, serve_guarded
from vgpu_scheduler.ui.access import Bounds, DeployedGuard, PageAddresses, Proxies, Reviews
from vgpu_scheduler.ui.name_redaction import Names

HOST = "page.test"
ADMIN, NOBODY = "administrator", "nobody"
ALL = ""
"""Stands for all namespaces."""


@dataclass
class People:
    """Stands for the API server: who is known by which token, and who may do what where.

    Attributes
    ----------
    rights
        Verb, resource and namespace by user.
    groups
        Those of everybody.
    asked
        How often who was reviewed.
    answers
        Whether it does; else it is as if it were gone.
    """

    users: dict[str, str] = field(default_factory=dict)
    rights: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    specs: list[Mapping[str, Any]] = field(default_factory=list)
    groups: list[str] = field(default_factory=lambda: ["people"])
    answers: bool = True
    status: int = 201

    def add(self, name: str, *rights: tuple[str, str, str], token: str = "") -> str:
        """Have there be somebody, and return their token."""
        token = token or f"token-of-{name}"
        self.users[token] = name
        self.rights[name] = set(rights)
        return token

    async def request(self, method: str, path: str, body: Any = None, *, timeout: float = 30.0) -> ApiResponse:  # noqa: ASYNC109 - as ApiClient has it
        """Answer a review."""
        assert method == "POST"
        if not self.answers:
            raise ApiUnreachableError("gone")
        spec = body["spec"]
        self.specs.append(spec)
        if path == "/apis/authentication.k8s.io/v1/tokenreviews":
            name = self.users.get(spec["token"])
            self.asked["token"] += 1
            user = {"username": name, "groups": self.groups, "uid": "1", "extra": {"x": ["y"]}}
            status: Object = {"authenticated": True, "user": user} if name else {"error": "no"}
        else:
            assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            self.asked["rights"] += 1
            asked = spec["resourceAttributes"]
            mine = self.rights.get(spec["user"], set())
            where = asked.get("namespace", ALL)
            status = {"allowed": bool({(asked["verb"], asked["resource"], home) for home in (where, ALL)} & mine)}
        return ApiResponse(self.status, json.dumps({"status": status}).encode())


EVERYTHING = (("list", "pods", ALL), ("list", "nodes", ALL), ("delete", "pods", ALL), ("list", "clusterroles", ALL))


def seeing(*namespaces: str) -> list[tuple[str, str, str]]:
    """Return the rights of somebody who sees some namespaces."""
    return [("list", "pods", name) for name in namespaces]


class Clock:
    """Seconds as a test has them pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Deployed:
    """A page that is deployed."""

    people: People
    guard: DeployedGuard
    clock: Clock
    names: Names
    current: CurrentWorld
    browser: Browser

    def headers(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def deployed(
    objects: Iterable[Object],
    people: People,
    *,
    settings: Any = None,
    proxies: Proxies | None = None,
    look: Any = None,
    tls: ssl.SSLContext | None = None,
    lasts: float | None = None,
    most: int = 512,
    quiet: float = 75.0,
) -> AsyncIterator[Deployed]:
    """Serve the objects of a cluster to people.

    Parameters
    ----------
    look
        What the doctor looks with.
    tls
        What TLS is spoken with; by browsers, which ask for the address.
    lasts
        Seconds that streams last, if these are others.
    most, quiet
        Connections at a time, and seconds without a request after which one ends.
    """
    view = view_of(objects)
    if settings is not None:
        view = type(view)(
            view.objects, {}, settings_from_file(settings), origin="a file", read_at=view.read_at, kinds=view.kinds
        )
    world = make_world(view)
    keep_room(world, view)
    current = CurrentWorld(world, view)
    names = Names()
    names.note_all(view.objects)
    homes = {str(obj["metadata"].get("namespace") or "") for obj in view.objects} - {""}
    clock = Clock()
    (port,) = free_ports(1)
    doors = PageAddresses(
        frozenset({HOST, f"127.0.0.1:{port}", f"localhost:{port}", "localhost"}), is_tls=True, proxies=proxies
    )
    guard = DeployedGuard(Reviews(people, clock), doors, names, lambda: homes, clock, lambda: clock() + 1e9)
    guard.stream_lasts = lasts or guard.stream_lasts
    bounds = Bounds(most, quiet)
    runner = await serve_guarded(PageSetup(current, lambda: view, look=look), guard, ("127.0.0.1", port), tls, bounds)
    address = f"{'https' if tls else 'http'}://127.0.0.1:{port}/"
    try:
        async with aiohttp.ClientSession(
            headers={"Host": HOST}, cookie_jar=aiohttp.DummyCookieJar(), connector=aiohttp.TCPConnector(limit=0)
        ) as session:
            yield Deployed(people, guard, clock, names, current, Browser(session, address))
    finally:
        await runner.cleanup()
        current.close()
