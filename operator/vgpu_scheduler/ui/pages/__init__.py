"""The content of pages: pure functions from a world to values, with the same JSON as the command line."""

from vgpu_scheduler.ui.pages.card import card_page
from vgpu_scheduler.ui.pages.cards import CardsView, cards_page
from vgpu_scheduler.ui.pages.comparison import ComparisonQuery, policies_page
from vgpu_scheduler.ui.pages.namespaces import namespaces_page
from vgpu_scheduler.ui.pages.now import now_page
from vgpu_scheduler.ui.pages.pod import edited_page, forecast_page, pod_page
from vgpu_scheduler.ui.pages.waiting import waiting_page
from vgpu_scheduler.ui.pages.what_if_page import what_if, what_if_form
from vgpu_scheduler.ui.pages.what_if_query import WhatIfQuery

__all__ = [
    "CardsView",
    "ComparisonQuery",
    "WhatIfQuery",
    "card_page",
    "cards_page",
    "edited_page",
    "forecast_page",
    "namespaces_page",
    "now_page",
    "pod_page",
    "policies_page",
    "waiting_page",
    "what_if",
    "what_if_form",
]
