"""One pod: why it waits and what would help, or why it is where it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.reading import (
    ClusterView,
    ExplainedPod,
    Forecaster,
    explain_one,
    keep_room,
    left_to_whom,
    waits_for_volumes,
    why_no_more,
    with_forecast,
)
from vgpu_scheduler.ui.errors import BadQueryError, NotFoundError
from vgpu_scheduler.ui.pages.edited import Field, annotations_of, edited, fields_of
from vgpu_scheduler.ui.pages.forecasts import BUDGET, told_to
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility
from vgpu_scheduler.ui.what_if_thread import until_too_long
from vgpu_scheduler.whatif import World, WorldError
from vgpu_scheduler.whatif.world import usage

_INSTEAD: Final = "vgpu-scheduler explain --forecast says it, for those who may read the cluster"


@dataclass(frozen=True, slots=True)
class PodPage:
    """One pod.

    Attributes
    ----------
    told
        What is to be said of it.
    cards
        The cards that it has a part of.
    fields
        The amounts that it asks for, and could ask for.
    annotations
        Its annotations, a line each.
    own
        What its owner has written of it.
    is_edited
        Whether it is not the pod that is there, but would be if it asked for this.
    waits
        How much longer it waits; None where that was not asked, or it has or would have a place.
    """

    told: ExplainedPod
    cards: Sequence[usage.CardUsage]
    fields: Sequence[Field] = ()
    annotations: str = ""
    own: str = ""
    is_edited: bool = False
    waits: Forecast | NoForecast | None = None

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
        return self.told.record

    @property
    def left_to(self) -> str:
        """Who places it; empty where this scheduler does."""
        scheduler = self.told.scheduler.settings
        return "" if self.told.ours else f"{left_to_whom(self.pod.scheduler_name, scheduler)}."

    @property
    def condition(self) -> str:
        """What its condition says of why it waits."""
        found = self.pod.scheduled_condition
        return found.message if found is not None and not self.told.is_bound else ""

    @property
    def may_wait_long(self) -> bool:
        """Whether there is something to forecast: it fits nowhere now, and this scheduler is to place it."""
        return self.told.ours and not (self.told.is_bound or self.is_edited or self.told.found.answer.node)

    @property
    def said(self) -> list[str]:
        """What there is to know beside nodes, cards and remedies, in sentences."""
        found = self.told.found
        said = (found.group, found.quotas, found.models, *found.first, found.none_proposed)
        return [text for text in said if text]

    @property
    def today(self) -> dict[str, Any]:
        """What would become of it today, as plain values."""
        return self.told.found.as_json()

    def as_text(self) -> str:
        """Return what ``explain`` says of it."""
        awaited = ["", *self.told.waits_for] if self.told.waits_for else []
        condition = [f"\nIts condition says: {self.condition}"] if self.condition else []
        waits = [] if self.waits is None else [self.waits.text()]
        return "\n".join([*self.told.lines(), *awaited, *condition, *waits, ""])

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, as ``explain -o json`` does."""
        return with_forecast(self.told.as_json(), self.waits)


def pod_page(world: World, view: ClusterView, key: str, node: str = "", visibility: Visibility = EVERYTHING) -> PodPage:
    """Return what is to be said of a pod that waits or runs.

    Parameters
    ----------
    key
        Its namespace and name.
    node
        Show what the cards of this node say.
    visibility
        Which pods are seen.

    Raises
    ------
    NotFoundError
        If there is no such pod, it is not seen, or there is no such node.
    """
    _check(key, visibility)
    if node and not world.has_node(node):
        raise NotFoundError(f"there is no node {node}")
    pods = [pod for pod in (*world.pending.values(), *world.bound.values()) if pod.key == key]
    if not pods:
        raise _missing(key, visibility, world.pods.get(key))
    cards = visibility.cards(card for card in usage.cards(world) if key in card.pods)
    written = world.written(pods[0])
    told = explain_one(world, view.scheduler, pods[0], node)
    return PodPage(told, cards, fields_of(world, written), annotations_of(written), _own(written))


def forecast_page(
    world: World, view: ClusterView, key: str, node: str = "", visibility: Visibility = EVERYTHING
) -> PodPage:
    """Return what is to be said of a pod, and how much longer it will wait; see :func:`pod_page`.

    Raises
    ------
    RefusedError
        If that takes too long.
    """
    waits = any(pod.key == key for pod in world.pending.values()) and visibility.sees_pod(key)
    forecaster = Forecaster(world, view) if waits else None
    shown = pod_page(world, view, key, node, visibility)
    uid = shown.pod.uid
    told: Forecast | NoForecast | None = waits_for_volumes({uid: shown.told.awaited}).get(uid)
    if forecaster is not None and shown.may_wait_long:
        told = forecaster.of([shown.pod], BUDGET, until_too_long(_INSTEAD))[uid]
    return replace(shown, waits=told and told_to(told, visibility))


def edited_page(
    world: World, view: ClusterView, key: str, query: Query, visibility: Visibility = EVERYTHING
) -> PodPage:
    """Return what is to be said of a pod if it asked for something else; the world is another one afterwards.

    Parameters
    ----------
    visibility
        Which pods are seen.

    Raises
    ------
    NotFoundError
        If there is no such pod that waits or runs, or it is not seen.
    BadQueryError
        If what it asks for cannot be understood.
    """
    _check(key, visibility)
    known = world.pods.get(key)
    if known is None or known.uid not in {*world.pending, *world.bound}:
        raise _missing(key, visibility, known)
    if (node := query.get("node")) and not world.has_node(node):
        raise NotFoundError(f"there is no node {node}")
    changed = edited(world, world.written(known), query)
    keep_room(world, view)
    world.forget_pod(key)
    try:
        wrong = world.add([changed])
        if key not in world.pods:
            raise BadQueryError("; ".join(map(str, wrong)))
        pod = world.pods[key]
        told = explain_one(world, view.scheduler, pod, node)
    except WorldError as error:
        raise BadQueryError(str(error)) from None
    return PodPage(told, (), fields_of(world, changed), annotations_of(changed), _own(changed), is_edited=True)


def _own(written: Object) -> str:
    """Return the texts of a pod that are not its status, which others write."""
    return json.dumps({part: written.get(part) for part in ("metadata", "spec")})


def _check(key: str, visibility: Visibility) -> None:
    """Refuse what is not seen as if it were not there."""
    if not visibility.sees_pod(key):
        raise _missing(key, visibility)


def _missing(key: str, visibility: Visibility, known: Pod | None = None) -> NotFoundError:
    if why := why_no_more(known):
        return NotFoundError(f"pod {key} {why}")
    unseen = "" if visibility.is_whole else ", or you may not see it"
    return NotFoundError(f"there is no pod {key} that waits or runs{unseen}")
