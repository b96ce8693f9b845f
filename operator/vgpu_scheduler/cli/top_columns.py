"""The columns of ``vgpu-scheduler top``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import click

from vgpu_scheduler.cli.cluster.messages import in_colour
from vgpu_scheduler.cli.cluster.output import Column, Columns
from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.whatif.world.usage_rows import UsedAmount, as_json

_COLOURS: Final = ((90, "red"), (70, "yellow"))


def _share(percent: int) -> str:
    colour = next((colour for least, colour in _COLOURS if percent >= least), None)
    return click.style(f"{percent}%", fg=colour) if colour and in_colour() else f"{percent}%"


def _state(state: str) -> str:
    return click.style(state, fg="red") if state != "ready" and in_colour() else state


def _status(status: str) -> str:
    return click.style(status, fg="red") if status not in {"Ready", ""} and in_colour() else status


def _mebibytes(amount: object) -> str:
    return f"{amount}Mi"


def _percent(amount: object) -> str:
    return f"{amount}%"


def _known_percent(cores: int | None) -> str:
    return "-" if cores is None else _percent(cores)


def _quotas(reports: Sequence[QuotaReport]) -> str:
    return ", ".join(f"{each.resource.rpartition('/')[2]} {_used_of_limit(each)}" for each in reports)


def _used_of_limit(report: QuotaReport) -> str:
    unit = {"MiB": "Mi", "percent": "%"}.get(report.unit, "")
    return f"{report.used}/{report.limit}{unit}{report.written_text}"


def _fullest(reports: Sequence[QuotaReport]) -> float:
    """Return the used share of the fullest quota."""
    return max((each.used / each.limit if each.limit else float(each.used > 0) for each in reports), default=-1.0)


def _used(held: UsedAmount) -> int:
    return held.used


def _text(name: str, field: str = "", *, wide: bool = False) -> Column:
    return Column(name, attrgetter(field or name), wide=wide)


def _listed(name: str, field: str) -> Column:
    return Column(name, lambda row: ",".join(getattr(row, field)), wide=True)


_MEMORY: Final = Column("memory", attrgetter("memory"), _mebibytes, rank=_used)
_CORES: Final = Column("cores", attrgetter("cores"), _percent, rank=_used)
_MEMORY_PERCENT: Final = Column("mem%", attrgetter("memory.percent"), _share)
_CORES_PERCENT: Final = Column("cores%", attrgetter("cores.percent"), _share)
_HELD: Final = (
    Column("memory", attrgetter("memory"), _mebibytes),
    Column("cores", attrgetter("cores"), _known_percent, rank=lambda cores: cores or 0),
)


def _shares(*, wide: bool) -> Column:
    return Column("shares", attrgetter("slots"), rank=_used, wide=wide)


NODES: Final = Columns(
    "node",
    attrgetter("node"),
    (
        *(_text("node"), Column("status", attrgetter("status"), _status), _text("cards"), _text("idle")),
        *(_MEMORY, _MEMORY_PERCENT, _CORES, _CORES_PERCENT, _text("pods")),
        *(Column("frag", attrgetter("fragmentation"), _percent), _shares(wide=True)),
    ),
    as_json,
)
CARDS: Final = Columns(
    "card",
    lambda row: f"{row.node}/{row.card}",
    (
        *(_text("node"), _text("card"), _text("model"), _MEMORY, _MEMORY_PERCENT, _CORES, _shares(wide=False)),
        *(Column("pods", lambda row: len(row.pods)), Column("state", attrgetter("state"), _state)),
        *(_text("node-status", "node_status", wide=True), _text("numa", wide=True), _text("mode", wide=True)),
        _listed("names", "pods"),
    ),
    as_json,
)
MODELS: Final = Columns(
    "model",
    attrgetter("model"),
    (
        *(_text("model"), _text("cards"), _text("idle"), _text("unhealthy"), _MEMORY, _MEMORY_PERCENT),
        *(Column("mem-free", attrgetter("free_memory"), _mebibytes), _CORES),
        *(Column("cores-free", attrgetter("free_cores"), _percent), _text("pods")),
        *(_text("cordoned", wide=True), _text("plugin-silent", "plugin_silent", wide=True), _shares(wide=True)),
        _text("dialect", wide=True),
    ),
    as_json,
)
PODS: Final = Columns(
    "pod",
    attrgetter("pod"),
    (
        *(_text("namespace"), _text("pod"), _text("node"), Column("cards", lambda row: len(row.cards)), *_HELD),
        _listed("names", "cards"),
    ),
    as_json,
)
PODS_OF_ALL: Final = Columns("pod", lambda row: f"{row.namespace}/{row.pod}", PODS.listed, as_json)
"""Pods of several namespaces, with the namespace in their names."""
NAMESPACES: Final = Columns(
    "namespace",
    attrgetter("namespace"),
    (
        *(_text("namespace"), _text("pods"), _text("waiting"), _text("cards"), *_HELD),
        Column("quotas", attrgetter("quotas"), _quotas, rank=_fullest),
    ),
    as_json,
)
