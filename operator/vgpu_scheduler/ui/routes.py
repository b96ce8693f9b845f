"""Which page is at which address, and what it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from vgpu_scheduler.reading import ClusterView
from vgpu_scheduler.ui.pages import (
    CardsView,
    Compared,
    Supposed,
    card_page,
    cards_page,
    edited_page,
    namespaces_page,
    now_page,
    pod_page,
    policies_page,
    waiting_page,
    what_if,
    what_if_form,
)
from vgpu_scheduler.ui.pages.cards import PARAMETERS
from vgpu_scheduler.ui.pages.comparison import PARAMETERS as COMPARED
from vgpu_scheduler.ui.pages.comparison import TEXTS as EDITED_POLICY
from vgpu_scheduler.ui.pages.edited import AMOUNT, EDITED
from vgpu_scheduler.ui.pages.supposed import PARAMETERS as SUPPOSED
from vgpu_scheduler.ui.pages.supposed import TEXTS
from vgpu_scheduler.ui.query import FORMATS, Query
from vgpu_scheduler.ui.window import BESIDE
from vgpu_scheduler.whatif import World

__all__ = ["PAGES", "TITLES", "Page"]

TITLES: Final = {
    "now": "Now",
    "cards": "Cards",
    "waiting": "Waiting",
    "namespaces": "Namespaces",
    "policies": "Policies",
    "what-if": "What if",
}
"""The pages that all others lead to."""
Make = Callable[[World, ClusterView], Any]


@dataclass(frozen=True, slots=True)
class Page:
    """How a page is made.

    Attributes
    ----------
    name
        Of its template.
    parameters
        What its address may say.
    texts
        Those of them that may be long: they may come by a form.
    is_alone
        Tells whether it is made of a world of its own, which it may change; such a page stays as it is.
    prefix
        What other parameters begin with; empty where there are none.
    formats
        As what it can be had.
    """

    name: str
    make: Callable[[web.Request, Query], Make]
    parameters: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    is_alone: Callable[[Query], bool] = lambda _: False
    prefix: str = ""
    formats: tuple[str, ...] = FORMATS


def _now(request: web.Request, _: Query) -> Make:
    beside = request.app[BESIDE]
    looks, found = beside.checkup is not None, beside.checkup.latest() if beside.checkup else None
    return lambda world, view: now_page(world, view.read_at, beside.current.recent, looks=looks, found=found)


def _cards(_: web.Request, query: Query) -> Make:
    shown = CardsView.of(query)
    return lambda world, _: cards_page(world, shown)


def _card(request: web.Request, _: Query) -> Make:
    node, name = request.match_info["node"], request.match_info["card"]
    return lambda world, _: card_page(world, node, name)


def _waiting(_: web.Request, query: Query) -> Make:
    return lambda world, view: waiting_page(world, view.read_at, query.get("namespace"))


def _pod(request: web.Request, query: Query) -> Make:
    key = f"{request.match_info['namespace']}/{request.match_info['name']}"
    if query.get("edit"):
        return lambda world, view: edited_page(world, view, key, query)
    return lambda world, view: pod_page(world, view, key, query.get("node"))


def _namespaces(_: web.Request, query: Query) -> Make:
    return lambda world, _: namespaces_page(world, query.get("namespace"))


def _what_if(_: web.Request, query: Query) -> Make:
    supposed = Supposed.of(query)
    if supposed.something:
        return lambda world, view: what_if(world, view, supposed)
    return lambda world, _: what_if_form(world, supposed)


def _policies(_: web.Request, query: Query) -> Make:
    compared = Compared.of(query)
    return lambda world, view: policies_page(world, view, compared)


PAGES: Final = {
    "/": Page("now", _now),
    "/cards": Page("cards", _cards, PARAMETERS),
    "/cards/{node:[^/]+}/{card:.+}": Page("card", _card),
    "/waiting": Page("waiting", _waiting, ("namespace",)),
    "/pods/{namespace:[^/]+}/{name:[^/]+}": Page(
        "pod", _pod, ("node", *EDITED), ("annotations",), lambda query: bool(query.get("edit")), AMOUNT
    ),
    "/namespaces": Page("namespaces", _namespaces, ("namespace",), formats=(*FORMATS, "csv")),
    "/policies": Page("policies", _policies, COMPARED, EDITED_POLICY, lambda query: Compared.of(query).something),
    "/what-if": Page("what-if", _what_if, SUPPOSED, TEXTS, lambda query: Supposed.of(query).something),
}
