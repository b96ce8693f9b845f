"""The options that say which cluster a command is about; imports nothing that takes time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from vgpu_scheduler.reading import STDIN, ClusterOptions, PageOptions

TABLE, WIDE, NAME, JSON, YAML = "table", "wide", "name", "json", "yaml"
TEXT = "text"
NONE, CLIENT, SERVER = "none", "client", "server"
"""Who only says what a write would do."""
FOR_PEOPLE = frozenset({TABLE, WIDE, TEXT})
"""Outputs that are no data for scripts."""
FILE = click.Path(exists=True, path_type=Path, allow_dash=True)


_Callback = Callable[..., Any]
_LIVE: tuple[Callable[[_Callback], _Callback], ...] = (
    click.option("--kubeconfig", help="Kubeconfig file; default: kubectl's."),
    click.option("--context", help="Context of the kubeconfig."),
    click.option(
        "--scheduler-namespace",
        default="vgpu-system",
        show_default=True,
        help="Where the scheduler is installed: its settings are read there.",
    ),
    click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Settings file of the scheduler (YAML), instead of the cluster's ConfigMap.",
    ),
)
_PAGE: tuple[Callable[[_Callback], _Callback], ...] = (
    click.option(
        "--ui",
        metavar="https://HOST",
        envvar="KUBECTL_VGPU_UI",
        help="Have the page in the cluster answer, with the token of the kubeconfig: it tells those with rights in one"
        " namespace, too, where their pods fit.",
    ),
    click.option(
        "--ui-ca",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="KUBECTL_VGPU_UI_CA",
        help="The authority of that page's certificate (PEM), if it is none that this machine knows.",
    ),
)
_COPY = click.option(
    "--cluster",
    "files",
    multiple=True,
    type=FILE,
    help="A file or folder with the objects of a cluster, instead of the live one (- is stdin): what"
    " `vgpu-scheduler snapshot` wrote, or kubectl get ... -A -o yaml.",
)


_FORECAST = click.option(
    "--forecast",
    "is_forecast",
    is_flag=True,
    help="Say, too, how long pods that fit nowhere will wait, by replays of what may come (seconds in large clusters).",
)
_LOG = click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file of the scheduler's log of what happened, or a folder of such files: from it is known how long pods"
    " run, and so how long those that wait will: --forecast goes by it.",
)


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """From what it is forecast how long pods will wait.

    Attributes
    ----------
    logs
        Files of the scheduler's log, and folders of them; without any, the pods that are there tell.
    """

    logs: tuple[Path, ...] = ()


def forecast_options(command: _Callback) -> _Callback:
    """Add the options of a forecast, and hand them over together, as ``forecast``: None where none is wanted."""

    def with_forecast(*, is_forecast: bool, logs: tuple[Path, ...], **given: Any) -> Any:
        return command(forecast=ForecastOptions(logs) if is_forecast or logs else None, **given)

    return _FORECAST(_LOG(functools.wraps(command)(with_forecast)))


def live_options(command: _Callback) -> _Callback:
    """Add the options of a live cluster, and hand them to the command together, as ``cluster``."""
    return _together(command, _LIVE)


def cluster_options(command: _Callback) -> _Callback:
    """Add the options of a live cluster or a copy of one, and hand them to the command together, as ``cluster``."""
    return _together(command, (*_LIVE, _COPY))


def _together(command: _Callback, options: tuple[Callable[[_Callback], _Callback], ...]) -> _Callback:
    def with_cluster(**given: Any) -> Any:
        names = ("kubeconfig", "context", "scheduler_namespace", "config", "files")
        cluster = ClusterOptions(**{name: given.pop(name) for name in names if name in given})
        check_stdin(cluster.files)
        return command(cluster=cluster, **given)

    wrapped: _Callback = functools.wraps(command)(with_cluster)
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def page_options(command: _Callback) -> _Callback:
    """Add the options that name the page in the cluster to those of the live cluster, which go before them."""

    def with_page(*, cluster: ClusterOptions, ui: str | None, ui_ca: Path | None, **given: Any) -> Any:
        source = click.get_current_context().get_parameter_source
        if ui is None and ui_ca is not None and source("ui_ca") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--ui-ca is for --ui")
        page = PageOptions(ui, ui_ca, source("ui") is not ParameterSource.COMMANDLINE) if ui else None
        return command(cluster=replace(cluster, page=page), **given)

    wrapped: _Callback = functools.wraps(command)(with_page)
    for option in reversed(_PAGE):
        wrapped = option(wrapped)
    return wrapped


def check_stdin(files: Sequence[Path]) -> None:
    """Refuse files of which several are stdin."""
    if files.count(STDIN) > 1:
        raise click.UsageError("stdin (-) can be read only once: give a file instead")


@dataclass(frozen=True, slots=True)
class NamespaceOptions:
    """Whose objects are meant.

    Attributes
    ----------
    name
        The namespace that is named, if one is; else that of the context is meant.
    every
        All of them are meant, whatever is named.
    """

    name: str | None = None
    every: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """How a list is shown.

    Attributes
    ----------
    selector
        A label selector, as it was written; empty for all.
    sort_by
        A column; None for the order that it has.
    headers
        Whether its table has a head.
    """

    output: str = TABLE
    selector: str = ""
    sort_by: str | None = None
    headers: bool = True


def namespace_options(command: _Callback) -> _Callback:
    """Add ``-n`` and ``-A``, and hand them to the command together, as ``namespaces``."""

    @functools.wraps(command)
    def with_namespaces(**given: Any) -> Any:
        chosen = NamespaceOptions(given.pop("namespace"), given.pop("all_namespaces"))
        return command(namespaces=chosen, **given)

    every = click.option("-A", "--all-namespaces", is_flag=True, help="The pods of all namespaces.")
    return namespace_option(every(with_namespaces))


def namespace_option(command: _Callback) -> _Callback:
    """Add ``-n``; one that names nothing counts as not given."""
    text = "Namespace of the pods; default: that of the context, and `default` where files stand for a cluster."
    given = click.option(
        "-n",
        "--namespace",
        help=text,
        shell_complete=offer("namespaces"),
        callback=lambda *passed: passed[-1] or None,  # an empty name is none, as for kubectl
    )
    return given(command)


def listing_options(command: _Callback) -> _Callback:
    """Add what lists of kubectl take, and hand it to the command together, as ``listing``."""

    @functools.wraps(command)
    def with_listing(**given: Any) -> Any:
        listing = Listing(given.pop("output"), given.pop("selector"), given.pop("sort_by"), not given.pop("no_headers"))
        return command(listing=listing, **given)

    wrapped = _outputs(TABLE, WIDE, NAME, JSON, YAML)(with_listing)
    for option in (
        click.option("--no-headers", is_flag=True, help="Only rows: no head, and no sum."),
        click.option(
            "--sort-by", metavar="COLUMN", help="Sort by a column: numbers from the greatest on, texts from a on."
        ),
        click.option(
            "-l", "--selector", default="", help="Only what has these labels: pool=shared,tier in (a, b),!old."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def output_option(command: _Callback) -> _Callback:
    """Add ``-o``; ``wide`` is the table, with more in it where there is more."""
    return _outputs(TABLE, WIDE, JSON, YAML)(command)


def named_output_option(command: _Callback) -> _Callback:
    """Add ``-o`` to a command whose answer names objects; ``name`` prints these alone."""
    return _outputs(TABLE, WIDE, NAME, JSON, YAML)(command)


def report_option(command: _Callback) -> _Callback:
    """Add ``-o`` to a command that answers in sentences."""
    return _outputs(TEXT, NAME, JSON, YAML)(command)


def _outputs(*choices: str) -> Callable[[_Callback], _Callback]:
    return click.option("-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True)


def offer(what: str = "") -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what completes the names of objects of a kind; of the subject of the command, unless one is named."""

    def names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        kind = what or context.params.get("subject") or "nodes"
        found = import_module("vgpu_scheduler.cli.completing").names(kind, context.params, incomplete)
        return [CompletionItem(name) for name in found]

    return names


def run_module(module: str, /, **options: Any) -> None:
    """Import a module of this room and call its ``run`` with the options of a command.

    The modules that answer commands import the kernels, which takes a second; help and wrong options must not wait for
    that.
    """
    import_module(f"vgpu_scheduler.cli.{module}").run(**options)
