"""The page of one pod: why it waits and what would help, or why it is where it is."""

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
    why_no_more_in,
    with_forecast,
)
from vgpu_scheduler.ui.errors import BadQueryError, NotFoundError
from vgpu_scheduler.ui.pages.edited import Field, annotations_of, edited, fields_of
from vgpu_scheduler.ui.pages.forecasts import BUDGET, as_visible_to
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.ui.what_if_thread import until_too_long
from vgpu_scheduler.whatif import InvalidObjectsError, World
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import CardUsage

_INSTEAD: Final = "vgpu-scheduler explain --forecast estimates it for users who may read the cluster"


@dataclass(frozen=True, slots=True)
class PodPage:
    """The content of a pod's page.

    Attributes
    ----------
    told
        The explanation of the pod.
    cards
        The cards on which the pod holds something.
    fields
        The amounts that the pod asks for, or could ask for.
    annotations
        The pod's annotations, one per line.
    own
        The parts of the pod that its owner wrote, as text.
    is_edited
        Whether this is a hypothetical version of the pod with other requests.
    waits
        How much longer the pod will wait; None if that was not asked, or the pod is or could be placed.
    """

    told: ExplainedPod
    cards: Sequence[CardUsage]
    fields: Sequence[Field] = ()
    annotations: str = ""
    own: str = ""
    is_edited: bool = False
    waits: Forecast | NoForecast | None = None

    def without_others(self, mine: Collection[str]) -> PodPage:
        """Hide names of pods in namespaces in which the user may not delete pods."""
        return replace(self, told=self.told.without_others(mine))

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self.told.pod

    @property
    def record(self) -> list[str]:
        """The recorded reasons of its placement, in lines."""
        return self.told.record

    @property
    def left_to(self) -> str:
        """Which other scheduler places the pod; empty if this scheduler does."""
        scheduler = self.told.scheduler.settings
        return "" if self.told.ours else f"{left_to_whom(self.pod.scheduler_name, scheduler)}."

    @property
    def condition(self) -> str:
        """The message of the pod's PodScheduled condition; empty once it is bound."""
        found = self.pod.scheduled_condition
        return found.message if found is not None and not self.told.is_bound else ""

    @property
    def may_wait_long(self) -> bool:
        """Whether a forecast makes sense: the pod is ours, not bound, and fits nowhere now."""
        return self.told.ours and not (self.told.is_bound or self.is_edited or self.told.found.answer.node)

    @property
    def said(self) -> list[str]:
        """Notes beside nodes, cards and remedies, in sentences."""
        found = self.told.found
        said = (found.group, found.quotas, found.models, *found.first, found.none_proposed)
        return [text for text in said if text]

    @property
    def today(self) -> dict[str, Any]:
        """The decision that would be made now, as plain values."""
        return self.told.found.as_json()

    def as_text(self) -> str:
        """Return the page as text, as ``explain`` prints it."""
        awaited = ["", *self.told.waits_for] if self.told.waits_for else []
        condition = [f"\nIts condition says: {self.condition}"] if self.condition else []
        waits = [] if self.waits is None else [self.waits.text()]
        return "\n".join([*self.told.lines(), *awaited, *condition, *waits, ""])

    def as_json(self) -> dict[str, Any]:
        """Return the page as plain values, as ``explain -o json`` does."""
        return with_forecast(self.told.as_json(), self.waits)


def pod_page(world: World, view: ClusterView, key: str, node: str, visibility: Visibility) -> PodPage:
    """Return the page of a pod that waits or runs.

    Parameters
    ----------
    key
        The pod as ``namespace/name``.
    node
        A node whose cards' verdicts to show.
    visibility
        Which pods the visitor sees.

    Raises
    ------
    NotFoundError
        If the pod or node does not exist, or the visitor may not see the pod.
    """
    pod = _present_pod(world, view, key, node, visibility)
    cards = visibility.cards(card for card in usage.cards(world) if key in card.pods)
    written = world.written(pod)
    told = explain_one(world, view.scheduler, pod, node)
    return PodPage(told, cards, fields_of(world, written), annotations_of(written), _own(written))


def forecast_page(world: World, view: ClusterView, key: str, node: str, visibility: Visibility) -> PodPage:
    """Return the page of a pod with a forecast of its waiting time; see :func:`pod_page`.

    Raises
    ------
    HttpStatusError
        If the forecast takes too long.
    """
    waits = any(pod.key == key for pod in world.pending.values()) and visibility.sees_pod(key)
    forecaster = Forecaster(world, view) if waits else None
    shown = pod_page(world, view, key, node, visibility)
    uid = shown.pod.uid
    told: Forecast | NoForecast | None = waits_for_volumes({uid: shown.told.awaited}).get(uid)
    if forecaster is not None and shown.may_wait_long:
        told = forecaster.of([shown.pod], BUDGET, until_too_long(_INSTEAD))[uid]
    return replace(shown, waits=told and as_visible_to(told, visibility))


def edited_page(world: World, view: ClusterView, key: str, query: Query, visibility: Visibility) -> PodPage:
    """Return the page of a pod as if it asked for something else; this changes the world.

    Parameters
    ----------
    visibility
        Which pods the visitor sees.

    Raises
    ------
    NotFoundError
        If no such pod waits or runs, or the visitor may not see it.
    BadQueryError
        If the new request cannot be understood.
    """
    node = query.get("node")
    known = _present_pod(world, view, key, node, visibility)
    changed = edited(world, world.written(known), query)
    keep_room(world, view)
    world.forget_pod(key)
    try:
        wrong = world.add([changed])
        if key not in world.pods:
            raise BadQueryError("; ".join(map(str, wrong)))
        pod = world.pods[key]
        told = explain_one(world, view.scheduler, pod, node)
    except InvalidObjectsError as error:
        raise BadQueryError(str(error)) from None
    return PodPage(told, (), fields_of(world, changed), annotations_of(changed), _own(changed), is_edited=True)


def _own(written: Object) -> str:
    """Return a pod's metadata and spec as text; the status, which others write, is left out."""
    return json.dumps({part: written.get(part) for part in ("metadata", "spec")})


def _present_pod(world: World, view: ClusterView, key: str, node: str, visibility: Visibility) -> Pod:
    """Return a pod that waits or runs; one that the visitor may not see is treated as missing.

    Raises
    ------
    NotFoundError
        If there is no such pod, or no such node as the one that the question names.
    """
    sees = visibility.sees_pod(key)
    pod = next((pod for pod in world.present_pods if pod.key == key), None) if sees else None
    if pod is None:
        why = why_no_more_in(world, key, view.scheduler.settings) if sees else ""
        unseen = "" if visibility.is_whole else ", or you may not see it"
        raise NotFoundError(f"pod {key} {why}" if why else f"there is no pod {key} that waits or runs{unseen}")
    if node and not world.has_node(node):
        raise NotFoundError(f"there is no node {node}")
    return pod
