"""The routes: the address, parameters and maker of each page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web

from vgpu_scheduler.reading import ClusterView
from vgpu_scheduler.ui.access import Visitor
from vgpu_scheduler.ui.page_setup import PAGE_SOURCES
from vgpu_scheduler.ui.pages import (
    CardsView,
    ComparisonQuery,
    WhatIfQuery,
    card_page,
    cards_page,
    edited_page,
    forecast_page,
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
from vgpu_scheduler.ui.pages.namespaces import VALUES, NamespaceQuery
from vgpu_scheduler.ui.pages.what_if_query import PARAMETERS as SUPPOSED
from vgpu_scheduler.ui.pages.what_if_query import TEXTS
from vgpu_scheduler.ui.prometheus_polling import BEING_ASKED
from vgpu_scheduler.ui.query import FORMATS, Query
from vgpu_scheduler.whatif import World

TITLES: Final = {
    "now": "Now",
    "cards": "Cards",
    "waiting": "Waiting",
    "namespaces": "Namespaces",
    "policies": "Policies",
    "what-if": "What if",
}
"""The pages in the navigation bar."""
Make = Callable[[World, ClusterView], Any]


@dataclass(frozen=True, slots=True)
class Page:
    """The definition of a page.

    Attributes
    ----------
    name
        The name of its template.
    parameters
        The query parameters that it accepts.
    texts
        Those of the parameters that may be long; they may also come by a form.
    is_alone
        Tells whether the query needs a world of its own, which it may change; such a page is not refreshed.
    prefix
        The prefix of further parameters; empty if there are none.
    formats
        The formats that it offers.
    is_whole
        Whether only visitors who see the whole cluster may see it. This is the default, so that a new page shows
        nothing to restricted visitors until somebody has decided what they may see.
    """

    name: str
    make: Callable[[web.Request, Query, Visitor], Make]
    parameters: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    is_alone: Callable[[Query], bool] = lambda _: False
    prefix: str = ""
    formats: tuple[str, ...] = FORMATS
    is_whole: bool = True

    def seen_by(self, visitor: Visitor) -> Visitor:
        """Return the visitor as the key for cached answers: visitors with the same visibility share them.

        A pod's page also depends on where its user may delete pods, so users do not share it.
        """
        return visitor if self.name == "pod" else replace(visitor, user=None)


def _now(request: web.Request, _: Query, visitor: Visitor) -> Make:
    sources, visibility = request.app[PAGE_SOURCES], visitor.visibility
    doctor_poller = sources.doctor_poller if visibility.is_whole and visitor.sees_findings else None
    looks, found = doctor_poller is not None, doctor_poller.latest() if doctor_poller else None
    return lambda world, view: now_page(
        world, view.read_at, sources.current.recent, visibility, looks=looks, found=found
    )


def _cards(_: web.Request, query: Query, visitor: Visitor) -> Make:
    shown = CardsView.of(query)
    return lambda world, _: cards_page(world, shown, visitor.visibility)


def _card(request: web.Request, _: Query, visitor: Visitor) -> Make:
    node, name = request.match_info["node"], request.match_info["card"]
    return lambda world, _: card_page(world, node, name, visitor.visibility)


def _waiting(_: web.Request, query: Query, visitor: Visitor) -> Make:
    if namespace := query.get("namespace"):
        visitor.visibility.check(namespace)
    return lambda world, view: waiting_page(world, view.read_at, namespace, visitor.visibility)


def _pod(request: web.Request, query: Query, visitor: Visitor) -> Make:
    key = f"{request.match_info['namespace']}/{request.match_info['name']}"
    if query.get("edit"):
        return lambda world, view: edited_page(world, view, key, query, visitor.visibility)
    if query.get("forecast"):
        return lambda world, view: forecast_page(world, view, key, query.get("node"), visitor.visibility)
    return lambda world, view: pod_page(world, view, key, query.get("node"), visitor.visibility)


def _namespaces(request: web.Request, query: Query, visitor: Visitor) -> Make:
    prometheus_poller, name, values = (
        request.app[PAGE_SOURCES].prometheus_poller,
        query.get("namespace"),
        query.choice("values", VALUES),
    )
    metered = None if prometheus_poller is None else prometheus_poller.latest() or BEING_ASKED
    return lambda world, view: namespaces_page(
        world, name, visitor.visibility, NamespaceQuery(view.read_at, metered, values)
    )


def _what_if(_: web.Request, query: Query, visitor: Visitor) -> Make:
    supposed = WhatIfQuery.of(query)
    if supposed.something:
        return lambda world, view: what_if(world, view, supposed, visitor.visibility)
    return lambda world, _: what_if_form(world, supposed)


def _policies(_: web.Request, query: Query, __: Visitor) -> Make:
    compared = ComparisonQuery.of(query)
    return lambda world, view: policies_page(world, view, compared)


PAGES: Final = {
    "/": Page("now", _now, is_whole=False),
    "/cards": Page("cards", _cards, PARAMETERS, is_whole=False),
    "/cards/{node:[^/]+}/{card:.+}": Page("card", _card, is_whole=False),
    "/waiting": Page("waiting", _waiting, ("namespace",), is_whole=False),
    "/pods/{namespace:[^/]+}/{name:[^/]+}": Page(
        "pod",
        _pod,
        ("node", "forecast", "text", *EDITED),
        ("annotations",),
        lambda query: bool(query.get("edit") or query.get("forecast")),
        AMOUNT,
        (*FORMATS, "text"),
        is_whole=False,
    ),
    "/namespaces": Page("namespaces", _namespaces, ("namespace", "values"), formats=(*FORMATS, "csv"), is_whole=False),
    "/policies": Page(
        "policies", _policies, COMPARED, EDITED_POLICY, lambda query: ComparisonQuery.of(query).something
    ),
    "/what-if": Page(
        "what-if", _what_if, SUPPOSED, TEXTS, lambda query: WhatIfQuery.of(query).something, is_whole=False
    ),
}
_OF_ALL: Final = frozenset(page.name for page in PAGES.values() if page.is_whole)


def titles_for(visitor: Visitor) -> dict[str, str]:
    """Return the pages of the navigation bar that a visitor may see."""
    return {name: title for name, title in TITLES.items() if visitor.visibility.is_whole or name not in _OF_ALL}
