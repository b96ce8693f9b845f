"""Prints answers of the deployed page: with a user's token it tells tenants what they cannot read themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import quote

import click
import msgspec
import yaml

from vgpu_scheduler.cli.cluster.messages import warn
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, NAME, WIDE, ListFormat
from vgpu_scheduler.cli.cluster.output import Column, dump, table
from vgpu_scheduler.cli.named_rows import named_cards, named_rows
from vgpu_scheduler.cli.simulated import show_capacity
from vgpu_scheduler.cli.top_columns import CARDS, MODELS, NAMESPACES, NODES
from vgpu_scheduler.forecast import forecast_of_json
from vgpu_scheduler.reading import (
    IGNORED,
    CardPlace,
    ClusterOptions,
    PageOptions,
    ask_page,
    find_card_among,
    read_files,
)
from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.whatif import HeldHours, InvalidObjectsError
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import CardUsage, ModelUsage, NamespaceUsage

NO_LOG: Final = "the page has no history log: leave out --log"

_FITS_NOWHERE: Final = 1
_LONGEST: Final = 30.0
_AGAIN_AFTER: Final = 0.5
"""The longest time to wait for the page's answer from Prometheus, and the pause between two requests (seconds)."""
_PODS: Final = "pods"
_NODES_WITHOUT_PODS: Final = replace(
    NODES,
    listed=[Column(_PODS, lambda _: "") if column.name == _PODS else column for column in NODES.listed],
    plain=lambda row: {**NODES.plain(row), _PODS: None},
)
"""Node rows if names of pods are hidden: a pod on two cards cannot be told from two pods, so pods are not counted."""
_JSON: Final = {"format": "json"}
_FORECAST: Final = "forecast"
"""A parameter that makes the answer slow, so it is left out where only the name is printed."""
_Answer = TypeVar("_Answer")
_HEAD: Final = ("pod", "outcome", "node", "cards")
TOLD_OF: Final = {"cards": "/cards", "nodes": "/cards", "models": "/", "namespaces": "/namespaces"}


def page_for(cluster: ClusterOptions, cannot: str) -> PageOptions | None:
    """Return the page that should answer; None for none.

    Parameters
    ----------
    cannot
        Why the page cannot answer this question; empty if it can.

    Raises
    ------
    click.UsageError
        If the page cannot answer, although the user named it for this question.
    """
    page = cluster.page
    if page is None or (page.by_default and (cannot or cluster.files)):
        return None
    if cluster.files:
        raise click.UsageError("--ui is for the live cluster, and --cluster for files")
    if cannot:
        raise click.UsageError(f"--ui: {cannot}")
    return page


def explain_from_page(
    page: PageOptions, cluster: ClusterOptions, key: str, asked: Mapping[str, str], output: str
) -> NoReturn:
    """Print the page's explanation of a pod, and its place in the queue.

    Parameters
    ----------
    asked
        The query parameters of the pod's page.

    Raises
    ------
    InvalidObjectsError
        If the page does not answer.
    """
    path = "/pods/" + "/".join(quote(part, safe="") for part in key.split("/", 1))
    is_text = output in FOR_PEOPLE
    needed = {name: text for name, text in asked.items() if name != _FORECAST or output != NAME}
    needed |= {"text": "yes"} if is_text else {}  # one answer, so that the text agrees with the exit status
    plain = _plain(ask_page(page, cluster, path, {**needed, **_JSON}), dict)
    ours = (plain.get("scheduler") or {}).get("ours", "announcedBy" not in plain)
    fits = bool(plain.get("node")) and ours
    if output == NAME:
        click.echo(f"pod/{key}")
    elif not is_text:
        dump(plain, output)
    else:
        click.echo(str(plain.get("text", "")).rstrip("\n"))
        if "today" not in plain and (place := _place(page, cluster, key)):
            click.echo(f"Its place in the queue: {place}")
    raise SystemExit(0 if fits else _FITS_NOWHERE)


def _place(page: PageOptions, cluster: ClusterOptions, key: str) -> int:
    """Return the place of a pod in the queue; 0 if it has none."""
    reasons = _plain(ask_page(page, cluster, "/waiting", {"namespace": key.partition("/")[0], **_JSON}), list)
    return next((int(reason["places"][key]) for reason in reasons if key in reason.get("places", {})), 0)


def top_from_page(
    page: PageOptions, cluster: ClusterOptions, subject: str, names: Sequence[str], listing: ListFormat
) -> None:
    """Print the page's rows of cards, nodes, models or namespaces.

    Raises
    ------
    InvalidObjectsError
        If the page does not answer, or nothing has a given name.
    """
    answer = _plain(ask_page(page, cluster, TOLD_OF[subject], _JSON), dict if subject == "models" else list)
    try:
        columns, rows = _rows(subject, answer)
    except msgspec.ValidationError as error:
        raise InvalidObjectsError(f"--ui {page.address}: its answer cannot be decoded: {error}") from None
    columns.print(columns.sorted(_named(subject, names, rows), listing.sort_by), listing, f"there are no {subject}")


def _rows(subject: str, answer: Any) -> tuple[Any, list[Any]]:
    if subject == "models":
        return MODELS, msgspec.convert(answer.get("models"), list[ModelUsage])
    if subject == "namespaces":
        return NAMESPACES, msgspec.convert(answer, list[NamespaceUsage])
    cards = msgspec.convert(answer, list[CardUsage])
    if subject == "cards":
        return CARDS, cards
    hidden = any(OTHERS in card.pods for card in cards)
    return _NODES_WITHOUT_PODS if hidden else NODES, usage.nodes(cards)


def _named(subject: str, names: Sequence[str], rows: Sequence[Any]) -> Sequence[Any]:
    """Return the named rows, or all rows if none is named."""
    if subject != "cards":
        return named_rows(subject, rows, names)
    places = [CardPlace(row.node, row.card, row.card, row.vendor, "") for row in rows]
    return named_cards(rows, names, lambda name: find_card_among(places, name))


class _Simulated(msgspec.Struct):
    """The page's answer about pods to place: the pods or numbers of copies, and lines of warnings."""

    answers: list[dict[str, Any]]
    warnings: list[str]


def simulate_from_page(
    page: PageOptions, cluster: ClusterOptions, files: Sequence[Path], asked: Mapping[str, str], output: str
) -> NoReturn:
    """Print where the page would place pods, or how many of them fit.

    Parameters
    ----------
    asked
        The fields of the page's form, except the pods.

    Raises
    ------
    InvalidObjectsError
        If the page does not answer.
    FileError
        If a file cannot be read.
    """
    manifest = yaml.safe_dump_all([dict(obj) for obj in read_files(files)]) if files else ""
    form = {"manifest": manifest, **asked, "warnings": "yes", **_JSON}
    found = _decoded(page, _plain(ask_page(page, cluster, "/what-if", form, post=True), dict), _Simulated)
    answers = found.answers
    for text in found.warnings:
        if text.startswith(IGNORED):
            click.echo(text, err=True)
        else:
            warn(text)
    if output not in FOR_PEOPLE:
        dump(answers, output)
    elif "count" in asked:
        for each in answers:
            show_capacity(each, wide=output == WIDE)
    else:
        click.echo(table([_row(each) for each in answers], _HEAD, wide=output == WIDE))
        for each in answers:
            if told := each.get("message") or each.get("after"):
                click.echo(f"{each['pod']}: {told}")
            if waits := each.get(_FORECAST):
                click.echo(f"{each['pod']}: {_forecast_text(page, waits)}")
    has_place = all(each["count"] if "count" in each else each["node"] for each in answers)
    raise SystemExit(0 if has_place else _FITS_NOWHERE)


def _forecast_text(page: PageOptions, waits: Mapping[str, Any]) -> str:
    try:
        return forecast_of_json(waits).text()
    except ValueError as error:
        raise InvalidObjectsError(f"--ui {page.address}: its answer cannot be decoded: {error}") from None


def usage_from_page(page: PageOptions, cluster: ClusterOptions) -> tuple[list[HeldHours], bool]:
    """Return the page's usage of the last day by namespace and model, and whether it was metered.

    Raises
    ------
    InvalidObjectsError
        If the page does not answer, or does not know the usage; the message says why.
    """
    answer, end = _usage(page, cluster), time.monotonic() + _LONGEST
    while answer.pending and time.monotonic() < end:
        time.sleep(_AGAIN_AFTER)
        answer = _usage(page, cluster)
    if answer.trouble:
        raise InvalidObjectsError(f"--ui {page.address}: the usage is not known: {answer.trouble}")
    hours = [HeldHours(each.namespace, each.model, each.gib_hours, each.card_hours) for each in answer.hours]
    return hours, answer.metered


class _Hours(msgspec.Struct, rename="camel"):
    """The usage of a namespace and a model."""

    namespace: str
    gib_hours: float
    card_hours: float
    model: str = ""


class _Usage(msgspec.Struct):
    """The page's answer about usage.

    Attributes
    ----------
    metered
        Whether Prometheus has measured it.
    trouble
        Why it is not known; empty if it is.
    pending
        Whether it will be known soon.
    """

    metered: bool
    trouble: str
    hours: list[_Hours]
    pending: bool = False


def _usage(page: PageOptions, cluster: ClusterOptions) -> _Usage:
    found = _plain(ask_page(page, cluster, "/namespaces", {"values": "usage", **_JSON}), dict)
    return _decoded(page, found, _Usage)


def _decoded(page: PageOptions, found: Mapping[str, Any], kind: type[_Answer]) -> _Answer:
    """Decode an answer from its plain values.

    Raises
    ------
    InvalidObjectsError
        If it cannot be decoded.
    """
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise InvalidObjectsError(f"--ui {page.address}: its answer cannot be decoded: {error}") from None


def _row(answer: Mapping[str, Any]) -> tuple[str, ...]:
    cards = [device["device"] for container in answer["containers"] for device in container]
    return answer["pod"], answer["outcome"], answer["node"] or "-", ",".join(cards) or "-"


def _plain(text: str, kind: type) -> Any:
    """Return an answer as plain values.

    Raises
    ------
    InvalidObjectsError
        If the answer is not from the page.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        raise InvalidObjectsError("--ui: the server there is not the page of vgpu-scheduler")
    return found
