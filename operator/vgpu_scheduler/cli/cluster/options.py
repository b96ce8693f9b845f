"""Options that select a cluster; this module imports nothing slow."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from vgpu_scheduler.reading import STDIN, ClusterOptions, PageOptions, PrometheusServer

TABLE, WIDE, NAME, JSON, YAML = "table", "wide", "name", "json", "yaml"
TEXT = "text"
NONE, CLIENT, SERVER = "none", "client", "server"
"""The values of ``--dry-run``: who checks a write without carrying it out."""
FOR_PEOPLE = frozenset({TABLE, WIDE, TEXT})
"""Output formats for people, not scripts."""
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
FILE = click.Path(exists=True, path_type=Path, allow_dash=True)


_Callback = Callable[..., Any]
_LIVE: tuple[Callable[[_Callback], _Callback], ...] = (
    click.option("--kubeconfig", help="Path to the kubeconfig file; default: kubectl's."),
    click.option("--context", help="Name of the kubeconfig context to use."),
    click.option(
        "--scheduler-namespace",
        default="vgpu-system",
        show_default=True,
        help="Namespace of the scheduler, from which its settings are read.",
    ),
    click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Path to the scheduler's settings file (YAML), instead of the cluster's ConfigMap.",
    ),
)
_PAGE: tuple[Callable[[_Callback], _Callback], ...] = (
    click.option(
        "--ui",
        metavar="https://HOST",
        envvar="KUBECTL_VGPU_UI",
        help="Address of the page in the cluster, which answers the command with the kubeconfig's token: it also tells"
        " users with rights in one namespace only where their pods fit.",
    ),
    click.option(
        "--ui-ca",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="KUBECTL_VGPU_UI_CA",
        help="Path to the CA certificate (PEM) of that page, if this machine does not trust its CA.",
    ),
)
_COPY = click.option(
    "--cluster",
    "files",
    multiple=True,
    type=FILE,
    help="Path to a file or folder with the objects of a cluster, instead of the live one (- is stdin): output of"
    " `vgpu-scheduler snapshot`, or of kubectl get ... -A -o yaml.",
)


_FORECAST = click.option(
    "--forecast",
    "is_forecast",
    is_flag=True,
    help="Also estimate how long pods that fit nowhere will wait, by simulation (takes seconds in large clusters).",
)
_LOG = click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Path to a file of the scheduler's history log, or to a folder of such files. --forecast, which this option"
    " implies, takes from it how long pods run.",
)


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """The basis of a forecast of waiting times.

    Attributes
    ----------
    logs
        Files of the scheduler's log, and folders of them; without any, the existing pods are the basis.
    """

    logs: tuple[Path, ...] = ()


def forecast_options(command: _Callback) -> _Callback:
    """Add the options of a forecast; the command gets them as ``forecast``, None if no forecast is wanted."""

    def with_forecast(*, is_forecast: bool, logs: tuple[Path, ...], **given: Any) -> Any:
        return command(forecast=ForecastOptions(logs) if is_forecast or logs else None, **given)

    return _FORECAST(_LOG(functools.wraps(command)(with_forecast)))


def live_options(command: _Callback) -> _Callback:
    """Add the options of a live cluster; the command gets them as ``cluster``."""
    return _together(command, _LIVE)


def cluster_options(command: _Callback) -> _Callback:
    """Add the options of a live cluster or a copy in files; the command gets them as ``cluster``."""
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
    """Add the options that name the deployed page; they become part of ``cluster``, whose options must come first."""

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


def prometheus_options(text: str) -> Callable[[_Callback], _Callback]:
    """Add the options that name Prometheus; the command gets them as ``prometheus``, None if none is named.

    Parameters
    ----------
    text
        What the command does with Prometheus, for its help.
    """
    address = click.option(
        "--prometheus",
        "address",
        metavar="ADDRESS",
        envvar="VGPU_SCHEDULER_PROMETHEUS",
        show_envvar=True,
        help=f"Address of Prometheus, such as http://127.0.0.1:9090: {text}",
    )
    labels = click.option(
        "--prometheus-label",
        "labels",
        metavar="NAME=VALUE",
        multiple=True,
        envvar="VGPU_SCHEDULER_PROMETHEUS_LABELS",
        show_envvar=True,
        callback=_labels,
        help="Label of the cluster's series, such as cluster=west, if --prometheus stores those of several clusters.",
    )

    def decorate(command: _Callback) -> _Callback:
        def with_prometheus(*, address: str | None, labels: tuple[tuple[str, str], ...], **given: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            if not address and labels and source("labels") is ParameterSource.COMMANDLINE:
                raise click.UsageError("--prometheus-label is for --prometheus")
            return command(prometheus=PrometheusServer(address, labels) if address else None, **given)

        return address(labels(functools.wraps(command)(with_prometheus)))

    return decorate


def _labels(_: click.Context, __: click.Parameter, given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return labels of series; refuse what cannot be one."""
    found = [each.partition("=") for each in given]
    for name, separator, value in found:
        if not separator or not _LABEL_NAME.fullmatch(name):
            raise click.BadParameter(f"{name}{separator}{value} is no label: write NAME=VALUE, such as cluster=west")
    return tuple((name, value) for name, _, value in found)


def check_stdin(files: Sequence[Path]) -> None:
    """Refuse stdin if it is given more than once."""
    if files.count(STDIN) > 1:
        raise click.UsageError("stdin (-) can be read only once: give a file instead")


@dataclass(frozen=True, slots=True)
class NamespaceOptions:
    """The namespaces of a question.

    Attributes
    ----------
    name
        The given namespace; None for that of the context.
    every
        Whether all namespaces are meant, whatever ``name`` says.
    """

    name: str | None = None
    every: bool = False


@dataclass(frozen=True, slots=True)
class ListFormat:
    """The format of a list.

    Attributes
    ----------
    selector
        A label selector as given; empty for all.
    sort_by
        The column to sort by; None to keep the order.
    headers
        Whether the table has a header.
    """

    output: str = TABLE
    selector: str = ""
    sort_by: str | None = None
    headers: bool = True


def namespace_options(command: _Callback) -> _Callback:
    """Add ``-n`` and ``-A``; the command gets them as ``namespaces``."""

    @functools.wraps(command)
    def with_namespaces(**given: Any) -> Any:
        chosen = NamespaceOptions(given.pop("namespace"), given.pop("all_namespaces"))
        return command(namespaces=chosen, **given)

    every = click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces.")
    return namespace_option(every(with_namespaces))


def namespace_option(command: _Callback) -> _Callback:
    """Add ``-n``; an empty value counts as not given."""
    text = "Namespace of the pods; default: the namespace of the context, or `default` with --cluster."
    given = click.option(
        "-n",
        "--namespace",
        help=text,
        shell_complete=offer("namespaces"),
        callback=lambda *passed: passed[-1] or None,  # an empty name means none, as in kubectl
    )
    return given(command)


def listing_options(command: _Callback) -> _Callback:
    """Add kubectl's options for lists; the command gets them as ``listing``."""

    @functools.wraps(command)
    def with_listing(**given: Any) -> Any:
        listing = ListFormat(
            given.pop("output"), given.pop("selector"), given.pop("sort_by"), not given.pop("no_headers")
        )
        return command(listing=listing, **given)

    wrapped = _outputs(TABLE, WIDE, NAME, JSON, YAML)(with_listing)
    for option in (
        click.option("--no-headers", is_flag=True, help="Print rows only: no header and no totals."),
        click.option("--sort-by", metavar="COLUMN", help="Sort by this column: numbers descending, text ascending."),
        click.option("-l", "--selector", default="", help="Label selector, such as pool=shared,tier in (a, b),!old."),
    ):
        wrapped = option(wrapped)
    return wrapped


def output_option(command: _Callback) -> _Callback:
    """Add ``-o``; ``wide`` is the table with further columns."""
    return _outputs(TABLE, WIDE, JSON, YAML)(command)


def named_output_option(command: _Callback) -> _Callback:
    """Add ``-o`` to a command whose answer names objects; ``name`` prints only the names."""
    return _outputs(TABLE, WIDE, NAME, JSON, YAML)(command)


def report_option(command: _Callback) -> _Callback:
    """Add ``-o`` to a command that answers in sentences."""
    return _outputs(TEXT, NAME, JSON, YAML)(command)


def _outputs(*choices: str) -> Callable[[_Callback], _Callback]:
    return click.option("-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True)


def offer(what: str = "") -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completion of object names; the kind is the command's subject unless given."""

    def names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        kind = what or context.params.get("subject") or "nodes"
        found = import_module("vgpu_scheduler.cli.completing").names(kind, context.params, incomplete)
        return [CompletionItem(name) for name in found]

    return names


def run_module(module: str, /, **options: Any) -> None:
    """Import a module of this room, and call its ``run`` with the options of a command.

    These modules import the kernels, which takes a second; help texts and wrong options must not wait for that.
    """
    import_module(f"vgpu_scheduler.cli.{module}").run(**options)
