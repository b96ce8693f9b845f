"""The options that say which cluster a command is about; imports nothing that takes time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import click

TABLE, WIDE, JSON, YAML = "table", "wide", "json", "yaml"
FOR_PEOPLE = frozenset({TABLE, WIDE})
"""Outputs that are no data for scripts."""
FILE = click.Path(exists=True, path_type=Path, allow_dash=True)
STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which cluster.

    Attributes
    ----------
    kubeconfig, context
        How the live cluster is reached; None for kubectl's defaults.
    scheduler_namespace
        Where its scheduler is installed.
    config
        A settings file that stands for the settings of the cluster.
    files
        Files with the objects of a cluster, which stand for a live one.
    overrides
        Settings by name that rank above those.
    """

    kubeconfig: str | None
    context: str | None
    scheduler_namespace: str
    config: Path | None
    files: tuple[Path, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)


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
_COPY = click.option(
    "--cluster",
    "files",
    multiple=True,
    type=FILE,
    help="A file or folder with the objects of a cluster, instead of the live one (- is stdin): what"
    " `vgpu-scheduler snapshot` wrote, or kubectl get ... -A -o yaml.",
)


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


def check_stdin(files: Sequence[Path]) -> None:
    """Refuse files of which several are stdin."""
    if files.count(STDIN) > 1:
        raise click.UsageError("stdin (-) can be read only once: give a file instead")


def namespace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-n`` and ``-A``, handed on as ``namespace``: None means all."""

    @functools.wraps(command)
    def with_namespace(**given: Any) -> Any:
        namespace, every = given.pop("namespace"), given.pop("all_namespaces")
        return command(namespace=None if every else namespace, **given)

    with_namespace = click.option("-A", "--all-namespaces", is_flag=True, help="The pods of all namespaces.")(
        with_namespace
    )
    return click.option("-n", "--namespace", help="Only the pods of this namespace.")(with_namespace)


def output_option(command: _Callback) -> _Callback:
    """Add ``-o``; ``wide`` is the table, with more in it where there is more."""
    choices = click.Choice([TABLE, WIDE, JSON, YAML])
    return click.option("-o", "--output", type=choices, default=TABLE, show_default=True)(command)


def run_module(module: str, /, **options: Any) -> None:
    """Import a module of this room and call its ``run`` with the options of a command.

    The modules that answer commands import the kernels, which takes a second; help and wrong options must not wait for
    that.
    """
    import_module(f"vgpu_scheduler.cli.{module}").run(**options)
