"""What would be if: pods that are not there, nodes more or fewer, other policies; computed in a world of its own."""

from __future__ import annotations

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
    is_at_home,
    new_pods,
    nothing_to_place,
    number_of_copies,
    objects_of_text,
    pod_warnings,
    policies_among,
    with_forecast,
)
from vgpu_scheduler.ui.errors import BadQueryError, NotFoundError, RefusedError
from vgpu_scheduler.ui.pages.forecasts import waits_of
from vgpu_scheduler.ui.pages.heat import MEASURES, HeatMap, Spot, heat_map
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility
from vgpu_scheduler.ui.what_if_thread import until_too_long
from vgpu_scheduler.whatif import (
    Capacity,
    FileObject,
    PodResult,
    World,
    WorldError,
    capacity_of,
    card_name,
    matches_nothing,
    place_copies,
)
from vgpu_scheduler.whatif.reasons.groups import group_named_by
from vgpu_scheduler.whatif.world import usage

TEXTS: Final = ("manifest", "policy")
PARAMETERS: Final = (*TEXTS, "pod", "count", "waiting", "forecast", "namespace", "add", "without", "by")
_WAITING: Final = ("", "namespace", "all")
_FORECAST: Final = ("", "yes")
_MANIFEST: Final = "the manifest"
_POLICY: Final = "the policy"
_MOST_TILES: Final = 2048
_MOST_WORDS: Final = 50
_MOST_ADDED: Final = 1000
"""Nodes that are added in one question."""
_LONG: Final = "ask for fewer copies or pods, or use vgpu-scheduler simulate"


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """What is supposed; empty texts are for nothing.

    Attributes
    ----------
    manifest
        Objects with pods, in YAML.
    pod
        One that is there, by namespace and name, of which one more is asked about.
    count
        How many copies; ``max`` for as many as fit, empty for the pods themselves.
    waiting
        Whose pods that wait are placed, too: those of the namespace, or all.
    forecast
        Whether it is said, too, how long those of them wait that fit nowhere.
    namespace
        That of objects which name none.
    policy
        Policies, in YAML.
    add
        Nodes that are there, to each of which one like it is added, or as many as stand behind ``=``.
    without
        What is taken away: ``node/NAME`` or ``pod/NAMESPACE/NAME``.
    by
        What colours a tile.
    """

    manifest: str = ""
    pod: str = ""
    count: str = ""
    waiting: str = ""
    forecast: bool = False
    namespace: str = "default"
    policy: str = ""
    add: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    by: str = "memory"

    @classmethod
    def of(cls, query: Query) -> WhatIfQuery:
        """Read it from an address or a form.

        Raises
        ------
        BadQueryError
            If a value is none that there is.
        """
        found = cls(
            **{name: query.get(name) for name in ("manifest", "pod", "count", "policy")},
            waiting=query.choice("waiting", _WAITING),
            forecast=query.choice("forecast", _FORECAST) == "yes",
            namespace=query.get("namespace") or "default",
            add=_words(query, "add"),
            without=_words(query, "without"),
            by=query.choice("by", MEASURES),
        )
        if found.count and found.waiting:
            raise BadQueryError("count: copies are counted of a manifest, not of pods that wait")
        if found.forecast and not found.waiting:
            raise BadQueryError("forecast: it is about pods that wait: say whose (waiting)")
        if found.manifest and found.pod:
            raise BadQueryError("pod: either a manifest is placed, or one more of a pod that is there")
        if found.count and not (found.manifest or found.pod):
            raise BadQueryError("count: there is no pod of which copies could be counted")
        return found

    @property
    def something(self) -> bool:
        """Whether something is asked."""
        return any((self.manifest, self.pod, self.waiting, self.policy, self.add, self.without))

    @property
    def copies(self) -> int:
        """How many copies; 0 for the pods themselves.

        Raises
        ------
        BadQueryError
            If it is no number.
        """
        try:
            return number_of_copies(self.count) if self.count else 0
        except WorldError as error:
            raise BadQueryError(f"count: {error}") from None


@dataclass(frozen=True, slots=True)
class PageState:
    """A cluster, before or after."""

    heat: HeatMap
    total: usage.NodeUsage


@dataclass(frozen=True, slots=True)
class WhatIfPage:
    """What would be.

    Attributes
    ----------
    nodes
        The names of the nodes with cards.
    now
        As of when; None where that is not known.
    forecasts
        How much longer pods wait that fit nowhere, by UID, where that is asked.
    said
        What somebody should know beside the answer.
    before, after
        None where nothing was asked, and after copies of several pods, of which each is counted alone.
    changed
        How many cards are not as they were.
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

    def as_json(self) -> list[dict[str, Any]]:
        """Return it as plain values, as ``simulate -o json`` does."""
        return [*(each.as_json() for each in self.capacities), *map(self._plain, self.answers)]

    def _plain(self, answer: PodResult) -> dict[str, Any]:
        return with_forecast(answer.as_json(), self.forecasts.get(answer.pod.uid))


def what_if_form(world: World, supposed: WhatIfQuery) -> WhatIfPage:
    """Return the page that asks what is to be supposed."""
    return WhatIfPage(supposed, _nodes(world))


def what_if(world: World, view: ClusterView, supposed: WhatIfQuery, visibility: Visibility = EVERYTHING) -> WhatIfPage:
    """Return what would be; the world is another one afterwards.

    Parameters
    ----------
    visibility
        Which namespaces may be asked about, and whose pods are named.

    Raises
    ------
    BadQueryError
        If something that is supposed cannot be understood.
    NotFoundError
        If a pod, node or card is not there.
    RefusedError
        If it takes too long, or is about what is not seen.
    """
    _check(supposed, visibility)
    nodes, said = _nodes(world), list[str]()
    cards = usage.cards(world)
    heat = heat_map(world, cards, supposed.by, most=_MOST_TILES, named=visibility.named)
    before = PageState(heat, usage.summed("before", cards))
    with told():
        policies = _change(world, view, supposed, visibility, said)
        asked = _asked(world, supposed, visibility)
        if supposed.copies:
            found, forecasts = _count(world, view, asked, supposed, said), {}
        else:
            check = until_too_long(_LONG)
            forecasts_of = waits_of(world, view, asked, visibility, check) if supposed.forecast else _no_forecasts
            found = _place(world, view, asked, said, check)
            forecasts = forecasts_of(found.answers)
        pods = [answer.pod for answer in found.answers] or found.counted
        for pod in pods:  # whatever made them
            visibility.check(pod.namespace)
        said += (text for policy in policies for text in matches_nothing(world, policy, pods))
        said += pod_warnings(world, pods, (answer.decision for answer in found.answers))
    page = WhatIfPage(supposed, nodes, view.read_at, found.shown, found.capacities, forecasts, said, before)
    if not found.is_whole:
        return page
    left = _with_placed(usage.cards(world), found.answers)
    changed = _changed(cards, left)
    heat = heat_map(world, left, supposed.by, marked=changed, most=_MOST_TILES, named=visibility.named)
    after = PageState(heat, usage.summed("after", left))
    return replace(page, after=after, changed=len(changed))


@dataclass(frozen=True, slots=True)
class _Found:
    """What became of pods.

    Attributes
    ----------
    answers
        Of all that were placed, copies included.
    shown
        Those that are told one by one.
    counted
        The pods of which copies were counted.
    is_whole
        Whether the world is as it would be.
    """

    answers: Sequence[PodResult] = ()
    shown: Sequence[PodResult] = ()
    capacities: Sequence[Capacity] = ()
    counted: Sequence[Pod] = ()
    is_whole: bool = True


def _words(query: Query, name: str) -> tuple[str, ...]:
    words = tuple(query.get(name).replace(",", " ").split())
    if len(words) > _MOST_WORDS:
        raise BadQueryError(f"{name}: there are more than {_MOST_WORDS}")
    return words


def _nodes(world: World) -> list[str]:
    return sorted({card.node for card in usage.cards(world)})


@contextmanager
def told() -> Iterator[None]:
    """Say what cannot be understood."""
    try:
        yield
    except (WorldError, FileError) as error:
        raise BadQueryError(str(error)) from None
    except RecursionError:
        raise BadQueryError(TOO_DEEP) from None


def _check(supposed: WhatIfQuery, visibility: Visibility) -> None:
    """Refuse to suppose anything of pods that are not seen, whether they are there or not."""
    if visibility.is_whole:
        return
    if supposed.waiting == "all":
        raise RefusedError(HTTPStatus.FORBIDDEN, "waiting: you may not see the pods of all namespaces")
    if supposed.waiting:
        visibility.check(supposed.namespace)
    if supposed.pod:
        visibility.check(supposed.pod.partition("/")[0])
    for text in supposed.without:
        kind, _, name = text.partition("/")
        if kind != "node":
            visibility.check(name.partition("/")[0])


def _check_objects(objects: Sequence[FileObject], visibility: Visibility) -> None:
    """Refuse objects of namespaces that are not seen, and those of none."""
    for obj in objects if not visibility.is_whole else ():
        metadata = obj.get("metadata")
        if not isinstance(metadata, Mapping) or not is_at_home(obj):
            kind = quoted(str(obj.get("kind") or "(none)"))
            raise RefusedError(HTTPStatus.FORBIDDEN, f"you may suppose no object of kind {kind}: it is of no namespace")
        visibility.check(str(metadata.get("namespace") or ""))


def _change(
    world: World, view: ClusterView, supposed: WhatIfQuery, visibility: Visibility, said: list[str]
) -> list[FileObject]:
    """Change a world, add what is assumed then, and return the policies that are supposed."""
    policies: list[FileObject] = []
    if supposed.policy:
        policies = policies_among(objects_of_text(supposed.policy, _POLICY), _POLICY, supposed.namespace)
        _check_objects(policies, visibility)
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
        _check_objects(written, visibility)
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
    )


def _no_forecasts(_: Sequence[PodResult]) -> dict[str, Forecast | NoForecast]:
    return {}


def _place(
    world: World, view: ClusterView, asked: SimulatedPods, said: list[str], check: Callable[[object], None]
) -> _Found:
    answers = answers_to(world, view, asked, said.append, on_answer=check)
    return _Found(answers, answers)


def _count(world: World, view: ClusterView, asked: SimulatedPods, supposed: WhatIfQuery, said: list[str]) -> _Found:
    pods = new_pods(world, view, asked.written, said.append, once=True)
    if not pods:
        raise nothing_to_place(world, _MANIFEST)
    alone = "which is not looked at: copies are counted one by one"
    said += (f"Pod {pod.key}: {named}, {alone}" for pod in pods if (named := group_named_by(pod)))
    check = until_too_long(_LONG)
    if len(pods) > 1:
        capacities = [capacity_of(world, pod, supposed.copies, check) for pod in pods]
        return _Found(capacities=capacities, counted=pods, is_whole=False)
    capacity, placed = place_copies(world, pods[0], supposed.copies, check)
    return _Found(placed, capacities=[capacity], counted=pods)


def _with_placed(cards: Sequence[usage.CardUsage], answers: Sequence[PodResult]) -> list[usage.CardUsage]:
    """Return cards with the pods that were placed on them; each counts, also where its name is that of another one."""
    held: dict[Spot, list[str]] = {}
    for number, answer in enumerate(answers):
        placement = answer.decision.placement
        for container in placement.containers if placement is not None else ():
            for each in container:
                spot = (answer.node, card_name(each.vendor, each.uuid))
                held.setdefault(spot, []).append(answer.pod.key if not number else f"{answer.pod.key} ({number + 1})")
    return [
        replace(card, pods=tuple(dict.fromkeys((*card.pods, *held.get((card.node, card.card), ()))))) for card in cards
    ]


def _changed(before: Sequence[usage.CardUsage], after: Sequence[usage.CardUsage]) -> set[Spot]:
    """Return the cards that are not as they were, or were not there."""
    known = {(card.node, card.card): card for card in before}
    return {(card.node, card.card) for card in after if known.get((card.node, card.card)) != card}
