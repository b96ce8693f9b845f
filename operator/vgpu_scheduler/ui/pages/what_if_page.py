"""The what-if page: hypothetical pods, nodes and policies, evaluated on a world of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import quoted
from vgpu_scheduler.reading import (
    TOO_DEEP,
    ClusterView,
    FileError,
    SimulatedPods,
    answers_to,
    at_home,
    change_nodes,
    creation_warnings,
    ignored_kinds,
    is_at_home,
    is_ours,
    keep_room_for_others,
    new_pods,
    nothing_to_place,
    objects_of_text,
    pod_warnings,
    policies_among,
    with_forecast,
)
from vgpu_scheduler.ui.errors import BadQueryError, HttpStatusError, NotFoundError
from vgpu_scheduler.ui.pages.forecasts import waits_of
from vgpu_scheduler.ui.pages.heat import HeatMap, heat_map
from vgpu_scheduler.ui.pages.what_if_query import WhatIfQuery
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.ui.what_if_thread import until_too_long
from vgpu_scheduler.whatif import (
    Capacity,
    FileObject,
    InvalidObjectsError,
    PodResult,
    World,
    capacity_of,
    card_name,
    is_workload,
    matches_nothing,
    place_copies,
)
from vgpu_scheduler.whatif.moves.moves import NodeCard
from vgpu_scheduler.whatif.reasons.groups import group_named_by
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import CardUsage, NodeUsage

_MANIFEST: Final = "the manifest"
_POLICY: Final = "the policy"
_MOST_TILES: Final = 2048
_MOST_ADDED: Final = 1000
"""The most nodes that one question may add."""
_LONG: Final = "ask for fewer copies or pods, or use vgpu-scheduler simulate"


@dataclass(frozen=True, slots=True)
class PageState:
    """The cluster before or after the assumed changes."""

    heat: HeatMap
    total: NodeUsage


@dataclass(frozen=True, slots=True)
class WhatIfPage:
    """The content of the what-if page.

    Attributes
    ----------
    nodes
        The names of the nodes with cards.
    now
        The time of the cluster's state; None if it is not known.
    forecasts
        How much longer pods that fit nowhere will wait, by UID, if requested.
    said
        Notes to show beside the answer.
    before, after
        None if nothing was asked; ``after`` is also None for copies of several pods, each of which is counted alone.
    changed
        How many cards differ from before.
    """

    supposed: WhatIfQuery
    nodes: Sequence[str]
    now: datetime | None = None
    answers: Sequence[PodResult] = ()
    capacities: Sequence[Capacity] = ()
    forecasts: Mapping[str, Forecast | NoForecast] = field(default_factory=dict)
    said: Sequence[str] = ()
    before: PageState | None = None
    after: PageState | None = None
    changed: int = 0

    def as_json(self) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the answers as plain values, as ``simulate -o json`` does, with the notes if they are wanted."""
        answers = [*(each.as_json() for each in self.capacities), *map(self._plain, self.answers)]
        return {"answers": answers, "warnings": list(self.said)} if self.supposed.warnings else answers

    def _plain(self, answer: PodResult) -> dict[str, Any]:
        return with_forecast(answer.as_json(), self.forecasts.get(answer.pod.uid))


def what_if_form(world: World, supposed: WhatIfQuery) -> WhatIfPage:
    """Return the page with an empty question."""
    return WhatIfPage(supposed, _nodes(world))


def what_if(world: World, view: ClusterView, supposed: WhatIfQuery, visibility: Visibility) -> WhatIfPage:
    """Return the answer to a what-if question; this changes the world.

    Parameters
    ----------
    visibility
        Which namespaces may be asked about, and whose pods are named.

    Raises
    ------
    BadQueryError
        If a part of the question cannot be understood.
    NotFoundError
        If a pod, node or card does not exist.
    HttpStatusError
        If the answer takes too long, or the question is about something that the visitor may not see.
    """
    _check(supposed, visibility)
    nodes, said = _nodes(world), list[str]()
    ignored = Counter(world.ignored)
    cards = usage.cards(world)
    heat = heat_map(world, cards, supposed.by, most=_MOST_TILES, named=visibility.named)
    before = PageState(heat, usage.summed("before", cards))
    with bad_query_errors():
        policies = _change(world, view, supposed, visibility, said)
        known = len(world.problems)  # those of copied nodes are about pods of any namespace
        asked = _asked(world, supposed, visibility)
        if supposed.copies:
            outcome, forecasts = _count(world, view, asked, supposed, said), {}
        else:
            check = until_too_long(_LONG)
            forecasts_of = waits_of(world, view, asked, visibility, check) if supposed.forecast else _no_forecasts
            outcome = _place(world, view, asked, said, check)
            forecasts = forecasts_of(outcome.answers)
        pods = [answer.pod for answer in outcome.answers] or outcome.counted
        for pod in pods:  # also pods that a controller in the manifest makes
            visibility.check(pod.namespace)
        said += map(str, world.problems[known:])
        said += ignored_kinds(Counter(world.ignored) - ignored)
        said += (text for policy in policies for text in matches_nothing(world, policy, pods))
        said += pod_warnings(world, pods, (answer.decision for answer in outcome.answers))
        said += outcome.uncreated
    page = WhatIfPage(supposed, nodes, view.read_at, outcome.shown, outcome.capacities, forecasts, said, before)
    if not outcome.is_whole:
        return page
    left = _with_placed(usage.cards(world), outcome.answers)
    changed = _changed(cards, left)
    heat = heat_map(world, left, supposed.by, marked=changed, most=_MOST_TILES, named=visibility.named)
    after = PageState(heat, usage.summed("after", left))
    return replace(page, after=after, changed=len(changed))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome for the pods of a question.

    Attributes
    ----------
    answers
        The answers for all placed pods, copies included.
    shown
        The answers to show one by one.
    counted
        The pods whose copies were counted.
    uncreated
        Warnings about pods that may not be created.
    is_whole
        Whether the world now shows the state with all pods placed.
    """

    answers: Sequence[PodResult] = ()
    shown: Sequence[PodResult] = ()
    capacities: Sequence[Capacity] = ()
    counted: Sequence[Pod] = ()
    uncreated: Sequence[str] = ()
    is_whole: bool = True


def _nodes(world: World) -> list[str]:
    return sorted({card.node for card in usage.cards(world)})


@contextmanager
def bad_query_errors() -> Iterator[None]:
    """Turn errors about files and worlds into errors about the query."""
    try:
        yield
    except (InvalidObjectsError, FileError) as error:
        raise BadQueryError(str(error)) from None
    except RecursionError:
        raise BadQueryError(TOO_DEEP) from None


def _check(supposed: WhatIfQuery, visibility: Visibility) -> None:
    """Refuse questions about pods that the visitor may not see, whether they exist or not."""
    if visibility.is_whole:
        return
    if supposed.waiting == "all":
        raise HttpStatusError(HTTPStatus.FORBIDDEN, "waiting: you may not see the pods of all namespaces")
    if supposed.waiting:
        visibility.check(supposed.namespace)
    if supposed.pod:
        visibility.check(supposed.pod.partition("/")[0])
    for text in supposed.without:
        kind, _, name = text.partition("/")
        if kind != "node":
            visibility.check(name.partition("/")[0])


def _check_objects(world: World, objects: Sequence[FileObject], visibility: Visibility) -> None:
    """Refuse cluster-scoped objects, and objects of namespaces that the visitor may not see; ignored ones pass."""
    for obj in objects if not visibility.is_whole else ():
        metadata = obj.get("metadata")
        if world.ignores(obj) and not is_workload(obj):
            continue
        if not isinstance(metadata, Mapping) or not is_at_home(obj):
            kind = quoted(str(obj.get("kind") or "(none)"))
            raise HttpStatusError(
                HTTPStatus.FORBIDDEN, f"you may not add objects of kind {kind} here: they have no namespace"
            )
        visibility.check(str(metadata.get("namespace") or ""))


def _change(
    world: World, view: ClusterView, supposed: WhatIfQuery, visibility: Visibility, said: list[str]
) -> list[FileObject]:
    """Apply the assumed changes to a world, note assumptions in ``said``, and return the assumed policies."""
    policies: list[FileObject] = []
    if supposed.policy:
        policies = policies_among(objects_of_text(supposed.policy, _POLICY), _POLICY, supposed.namespace)
        _check_objects(world, policies, visibility)
        if wrong := world.add(policies):
            raise BadQueryError("; ".join(map(str, wrong)))
    numbers = [text.partition("=")[2] or "1" for text in supposed.add]
    if len(numbers) > 1 and sum(int(number) for number in numbers if number.isdecimal()) > _MOST_ADDED:
        raise BadQueryError(f"add: these are more than {_MOST_ADDED} nodes in all")
    said += change_nodes(world, view, supposed.add, supposed.without)
    return policies


def _asked(world: World, supposed: WhatIfQuery, visibility: Visibility) -> SimulatedPods:
    written: list[FileObject] = []
    if supposed.manifest:
        written = at_home(objects_of_text(supposed.manifest, _MANIFEST), supposed.namespace)
        _check_objects(world, written, visibility)
    if supposed.pod:
        known = world.pods.get(supposed.pod)
        if known is None:
            raise NotFoundError(f"pod: there is no pod {supposed.pod}")
        written = [FileObject(world.written(known))]
    return SimulatedPods(
        written=written,
        where=_MANIFEST if supposed.manifest else "",
        pending=bool(supposed.waiting),
        home=supposed.namespace,
        every=supposed.waiting == "all",
        sees=visibility.sees,
    )


def _no_forecasts(_: Sequence[PodResult]) -> dict[str, Forecast | NoForecast]:
    return {}


def _place(
    world: World, view: ClusterView, asked: SimulatedPods, said: list[str], check: Callable[[object], None]
) -> _Outcome:
    waiting = {pod.uid for pod in asked.waiting(world) if is_ours(pod.scheduler_name, view.scheduler.settings)}
    answers = answers_to(world, view, asked, said.append, on_answer=check)
    new = [answer.pod for answer in answers if answer.pod.uid not in waiting]
    return _Outcome(answers, answers, uncreated=list(creation_warnings(world, new)))


def _count(world: World, view: ClusterView, asked: SimulatedPods, supposed: WhatIfQuery, said: list[str]) -> _Outcome:
    pods = new_pods(world, view, asked.written, said.append, once=True)
    if not pods:
        raise nothing_to_place(world, _MANIFEST)
    keep_room_for_others(world, pods, said.append, asked.sees)
    alone = "which is ignored: copies are counted one by one"
    said += (f"Pod {pod.key}: {named}, {alone}" for pod in pods if (named := group_named_by(pod)))
    uncreated = list(creation_warnings(world, pods, supposed.copies))
    check = until_too_long(_LONG)
    if len(pods) > 1:
        capacities = [capacity_of(world, pod, supposed.copies, check) for pod in pods]
        return _Outcome(capacities=capacities, counted=pods, uncreated=uncreated, is_whole=False)
    capacity, placed = place_copies(world, pods[0], supposed.copies, check)
    return _Outcome(placed, capacities=[capacity], counted=pods, uncreated=uncreated)


def _with_placed(cards: Sequence[CardUsage], answers: Sequence[PodResult]) -> list[CardUsage]:
    """Return cards with the newly placed pods; pods of the same name count separately."""
    held: dict[NodeCard, list[str]] = {}
    for number, answer in enumerate(answers):
        placement = answer.decision.placement
        for container in placement.containers if placement is not None else ():
            for each in container:
                node_card = (answer.node, card_name(each.vendor, each.uuid))
                held.setdefault(node_card, []).append(
                    answer.pod.key if not number else f"{answer.pod.key} ({number + 1})"
                )
    return [
        replace(card, pods=tuple(dict.fromkeys((*card.pods, *held.get((card.node, card.card), ()))))) for card in cards
    ]


def _changed(before: Sequence[CardUsage], after: Sequence[CardUsage]) -> set[NodeCard]:
    """Return the cards that differ from before or did not exist."""
    known = {(card.node, card.card): card for card in before}
    return {(card.node, card.card) for card in after if known.get((card.node, card.card)) != card}
