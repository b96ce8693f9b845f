"""Answers ``vgpu-scheduler top``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.cli.cluster.messages import fail, on_terminal, progress, warn
from vgpu_scheduler.cli.cluster.namespaces import chosen_namespace, did_you_mean_namespace, label_selector
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, NAME, ListFormat, NamespaceOptions
from vgpu_scheduler.cli.cluster.output import Columns, dump
from vgpu_scheduler.cli.cluster.world import exit_on_error, make_world, open_namespace
from vgpu_scheduler.cli.from_page import TOLD_OF, page_for, top_from_page
from vgpu_scheduler.cli.named_rows import named_cards, named_rows
from vgpu_scheduler.cli.top_columns import CARDS, MODELS, NAMESPACES, NODES, PODS, PODS_OF_ALL
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.model import counted, did_you_mean
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    MissingRightsError,
    find_card,
    read_cluster,
    view_warnings,
)
from vgpu_scheduler.whatif import InvalidObjectsError, World
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import CardUsage, NodeUsage, PodUsage

_ALL: Final = "all"
_NAMESPACED: Final = frozenset({"pods", "namespaces"})
TABLES: Final[Mapping[str, Columns]] = {
    "nodes": NODES,
    "cards": CARDS,
    "models": MODELS,
    "pods": PODS,
    "namespaces": NAMESPACES,
}


@dataclass(frozen=True, slots=True)
class _Question:
    """What to show.

    Attributes
    ----------
    names
        Names of the rows to show; empty for all.
    namespace
        The namespace of the pods; None for all.
    labels
        The labels of the nodes, pods or namespaces; None for all.
    """

    subject: str
    names: Sequence[str]
    namespace: str | None
    labels: LabelSelector | None
    listing: ListFormat
    cluster: ClusterOptions


def run(
    *,
    subject: str,
    names: Sequence[str],
    namespaces: NamespaceOptions,
    cluster: ClusterOptions,
    listing: ListFormat,
    watch: bool,
    interval: float,
) -> None:
    """Show the rows once, or repeatedly until Ctrl-C."""
    if namespaces.name is not None and subject not in _NAMESPACED:
        raise click.UsageError(f"-n is for pods and namespaces; {subject} have no namespace")
    TABLES[subject].sorted([], listing.sort_by)  # reports a wrong column before anything is read
    names = [name.removeprefix(f"{TABLES[subject].kind}/") for name in names]  # as -o name writes them
    if page := page_for(cluster, _cannot(subject, listing, namespaces, watch=watch)):
        with exit_on_error():
            top_from_page(page, cluster, subject, names, listing)
        return
    with exit_on_error(), _other_way(cluster, namespaces.name):
        labels = label_selector(listing.selector)
        namespace = namespaces.name if subject == "namespaces" else chosen_namespace(namespaces, cluster)
        question = _Question(subject, names, None if namespaces.every else namespace, labels, listing, cluster)
        if not watch:
            world, view = _read(cluster, question)
            _warn(view_warnings(world, view))
            _warn(_show(world, question))
            return
    _watch(cluster, question, interval)


def _cannot(subject: str, listing: ListFormat, namespaces: NamespaceOptions, *, watch: bool) -> str:
    """Return why the page cannot answer; empty if it can."""
    if subject not in TOLD_OF:
        return f"the page shows only {', '.join(TOLD_OF)}; top {subject} reads the pods themselves"
    if listing.selector:
        return "the page cannot select by labels"
    return "the page answers once, and for the whole cluster: leave out -w and -n" if watch or namespaces.name else ""


@contextmanager
def _other_way(cluster: ClusterOptions, namespace: str | None) -> Iterator[None]:
    """Tell users who may not list nodes what they may see instead."""
    try:
        yield
    except MissingRightsError as error:
        meant = did_you_mean_namespace(namespace, cluster)
        fail(f"{error}; top pods -n NAMESPACE shows the pods of a namespace that you may see{meant}")


def _read(cluster: ClusterOptions, question: _Question) -> tuple[World, ClusterView]:
    """Read the cluster, or only the pods of one namespace if the user may see nothing else."""
    view = read_cluster(cluster, progress)
    try:
        return make_world(view), view
    except MissingRightsError:
        if question.subject != "pods" or question.namespace is None:
            raise
    return open_namespace(cluster, question.namespace, {"Pod"})


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _watch(cluster: ClusterOptions, question: _Question, interval: float) -> None:
    """Show the rows repeatedly; warnings follow each table on a terminal, and otherwise only when they change."""
    printed: list[str] = []
    shown = False
    while True:
        with exit_on_error():
            try:
                world, view = _read(cluster, question)
            except (ApiUnreachableError, MissingRightsError) as error:
                if not shown:
                    raise
                warn(f"{error}; trying again")
                time.sleep(interval)
                continue
            shown = True
            warnings = list(view_warnings(world, view))
            if on_terminal():
                click.clear()
            warnings += _show(world, question)
        if on_terminal() or warnings != printed:
            _warn(warnings)
        printed = warnings
        time.sleep(interval)


def _show(world: World, question: _Question) -> list[str]:
    """Print the rows; return notes about them."""
    subject, listing = question.subject, question.listing
    rows = _ROWS[subject](world, question)
    columns = PODS_OF_ALL if subject == "pods" and question.namespace is None else TABLES[subject]
    rows = columns.sorted(rows, listing.sort_by)
    if subject == "nodes" and question.names and listing.output != NAME:
        _show_whole_nodes(world, rows, listing)
        return []
    more = [usage.summed(_ALL, _cards(world, question))] if subject == "nodes" and len(rows) > 1 else []
    columns.print(rows, listing, _nothing(world, question), more)
    return list(_notes(rows)) if subject == "pods" and listing.output != NAME else []


def _notes(pods: Sequence[PodUsage]) -> Iterator[str]:
    """Explain why the compute of some pods is not shown."""
    unknown = sum(pod.cores is None for pod in pods)
    if unknown:
        nodes, were = ("its node says", "was") if unknown == 1 else ("their nodes say", "were")
        share = f"only {nodes} how much of a card the compute is, and {were} not seen"
        yield f"cores: not known of {counted(unknown, 'pod')}: {share}"


def _show_whole_nodes(world: World, rows: Sequence[NodeUsage], listing: ListFormat) -> None:
    """Show nodes together with their cards and pods."""
    every_card, every_pod = usage.cards(world), usage.pods(world)
    cards = [(row, [card for card in every_card if card.node == row.node]) for row in rows]
    pods = {row.node: [pod for pod in every_pod if pod.node == row.node] for row in rows}
    if listing.output not in FOR_PEOPLE:
        whole = [
            {
                **NODES.plain(row),
                "cards": [CARDS.plain(card) for card in listed],
                "pods": [PODS.plain(pod) for pod in pods[row.node]],
            }
            for row, listed in cards
        ]
        dump(whole, listing.output)
        return
    parts = [NODES.table(rows, listing), CARDS.table([card for _, listed in cards for card in listed], listing)]
    if any(pods.values()):
        parts.append(PODS.table([pod for listed in pods.values() for pod in listed], listing))
    click.echo("\n\n".join(parts))


# Rows ----------------------------------------------------------------------------------------------------------------


def _cards(world: World, question: _Question) -> list[CardUsage]:
    """Return the cards of the selected nodes."""
    found = usage.cards(world)
    labels = question.labels
    if labels is None:
        return found
    return [card for card in found if labels.matches(_labels_of_node(world, card.node))]


def _labels_of_node(world: World, name: str) -> Mapping[str, str]:
    node = world.engine.state.node(name)
    return node.labels if node is not None else {}


def _node_rows(world: World, question: _Question) -> list[Any]:
    return _named(usage.nodes(_cards(world, question)), question)


def _card_rows(world: World, question: _Question) -> list[Any]:
    return [*named_cards(_cards(world, question), question.names, lambda name: find_card(world, name))]


def _model_rows(world: World, question: _Question) -> list[Any]:
    return _named(usage.models(world, _cards(world, question)), question)


def _pod_rows(world: World, question: _Question) -> list[Any]:
    found = usage.pods(world)
    if question.labels is not None:
        keys = {pod.key for pod in world.bound.values() if question.labels.matches(pod.labels)}
        found = [row for row in found if f"{row.namespace}/{row.pod}" in keys]
    spaces = {name.partition("/")[0] for name in question.names if "/" in name}
    if question.namespace is not None:
        found = [row for row in found if row.namespace in {question.namespace, *spaces}]
    if not question.names:
        return found
    full = [
        name if "/" in name or question.namespace is None else f"{question.namespace}/{name}" for name in question.names
    ]
    known = {f"{row.namespace}/{row.pod}": row for row in found}
    rows: list[Any] = []
    for name in full:
        meant = [row for key, row in known.items() if name in {key, row.pod}]
        if not meant:
            raise InvalidObjectsError(f"pods: no pod {name} holds cards{did_you_mean(name, known)}")
        rows += [row for row in meant if row not in rows]
    return rows


def _namespace_rows(world: World, question: _Question) -> list[Any]:
    found = usage.namespaces(world)
    if question.labels is not None:
        known = world.engine.state.interpod.namespaces
        found = [row for row in found if question.labels.matches(known.get(row.namespace) or {})]
    if question.namespace is not None:
        found = [row for row in found if row.namespace == question.namespace]
    return _named(found, question)


def _named(rows: Sequence[Any], question: _Question) -> list[Any]:
    among = f" among those that match {question.listing.selector}" if question.labels is not None else ""
    return named_rows(question.subject, rows, question.names, among)


def _nothing(world: World, question: _Question) -> str:
    """Say that there is nothing to show."""
    chosen = f" that match {question.listing.selector}" if question.labels is not None else ""
    if question.subject not in _NAMESPACED:
        return f"{_NOTHING[question.subject]}{chosen}"
    where = f" in namespace {question.namespace}" if question.namespace is not None else ""
    elsewhere = len(usage.pods(world)) if question.namespace is not None and question.subject == "pods" else 0
    hint = f"; {elsewhere} in other namespaces do: -A shows them" if elsewhere and not chosen else ""
    meant = did_you_mean_namespace(question.namespace, question.cluster, world)
    return f"no {question.subject}{where}{chosen} hold cards{hint}{meant}"


_NOTHING: Final = {
    "nodes": "there are no nodes with cards",
    "cards": "there are no cards",
    "models": "there are no cards",
}
_ROWS: Final[Mapping[str, Callable[[World, _Question], list[Any]]]] = {
    "nodes": _node_rows,
    "cards": _card_rows,
    "models": _model_rows,
    "pods": _pod_rows,
    "namespaces": _namespace_rows,
}
