"""What the pages show: pure functions from a world to values, which have the JSON of the command line."""

from vgpu_scheduler.ui.pages.card import CardPage, card_page
from vgpu_scheduler.ui.pages.cards import CardsPage, CardsView, cards_page
from vgpu_scheduler.ui.pages.comparison import ComparisonQuery, PoliciesPage, policies_page
from vgpu_scheduler.ui.pages.namespaces import NamespacesPage, namespaces_page
from vgpu_scheduler.ui.pages.now import NowPage, now_page
from vgpu_scheduler.ui.pages.pod import PodPage, edited_page, forecast_page, pod_page
from vgpu_scheduler.ui.pages.waiting import Reason, WaitingPage, waiting_page
from vgpu_scheduler.ui.pages.what_if_page import WhatIfPage, WhatIfQuery, what_if, what_if_form

__all__ = [
    "CardPage",
    "CardsPage",
    "CardsView",
    "ComparisonQuery",
    "NamespacesPage",
    "NowPage",
    "PodPage",
    "PoliciesPage",
    "Reason",
    "WaitingPage",
    "WhatIfPage",
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
