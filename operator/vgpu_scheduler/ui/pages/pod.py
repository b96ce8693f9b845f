"""One pod: why it waits and what would help, or why it is where it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import ClusterView, ExplainedPod, explain_one, left_to_whom, record_of, worded_record
from vgpu_scheduler.ui.errors import NotFoundError
from vgpu_scheduler.whatif import World, usage


@dataclass(frozen=True, slots=True)
class PodPage:
    """One pod.

    Attributes
    ----------
    told
        What is to be said of it.
    cards
        The cards that it has a part of.
    """

    told: ExplainedPod
    cards: Sequence[usage.CardUsage]

    def without_others(self, mine: Collection[str]) -> PodPage:
        """Leave out the names of pods of other namespaces than those in which the user may delete pods."""
        return replace(self, told=self.told.without_others(mine))

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self.told.pod

    @property
    def record(self) -> list[str]:
        """What was written down when it was decided, in lines."""
        return worded_record(record_of(self.pod.annotations))

    @property
    def left_to(self) -> str:
        """Who places it; empty where this scheduler does."""
        scheduler = self.told.scheduler.settings
        return "" if self.told.ours else left_to_whom(self.pod.scheduler_name, scheduler)

    @property
    def condition(self) -> str:
        """What its condition says of why it waits."""
        found = self.pod.scheduled_condition
        return found.message if found is not None and not self.told.is_bound else ""

    @property
    def said(self) -> list[str]:
        """What there is to know beside nodes, cards and remedies, in sentences."""
        found = self.told.found
        said = (found.group, found.quotas, found.models, *found.first, found.not_searched)
        return [text for text in said if text]

    @property
    def today(self) -> dict[str, Any]:
        """What would become of it today, as plain values."""
        return self.told.found.as_json()

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, as ``explain -o json`` does."""
        return self.told.as_json()


def pod_page(world: World, view: ClusterView, key: str, node: str = "") -> PodPage:
    """Return what is to be said of a pod that waits or runs.

    Parameters
    ----------
    key
        Its namespace and name.
    node
        Show what the cards of this node say.

    Raises
    ------
    NotFoundError
        If there is no such pod, or no such node.
    """
    if node and not world.has_node(node):
        raise NotFoundError(f"there is no node {node}")
    pods = [pod for pod in (*world.pending.values(), *world.bound.values()) if pod.key == key]
    if not pods:
        raise NotFoundError(f"there is no pod {key} that waits or runs")
    cards = [card for card in usage.cards(world) if key in card.pods]
    return PodPage(explain_one(world, view.scheduler, pods[0], node), cards)
