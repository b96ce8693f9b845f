"""``vgpu-scheduler demo``: runs the demo of the embedded cluster's package, if that is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

_PACKAGE: Final = "vgpu_devcluster"
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--once", is_flag=True, help="Run the six checks without pauses or colours, and end with OK or a failure."
)
@click.option("--keep", is_flag=True, help="Keep the cluster and the operator running afterwards, until Ctrl-C.")
@click.option(
    "--kubeconfig", type=_FILE, help="With --keep: write the kubeconfig to this path; it is removed at the end."
)
@click.option("--pods", type=click.IntRange(min=1), default=200, show_default=True, help="Number of slices in a burst.")
@click.option("--keep-log", type=_FILE, help="Write the operator's log to this path.")
def demo(*, once: bool, keep: bool, kubeconfig: Path | None, pods: int, keep_log: Path | None) -> None:
    """Show placements on an embedded cluster with simulated cards."""
    if kubeconfig is not None and not keep:
        raise click.UsageError("--kubeconfig requires --keep: otherwise the cluster is removed at the end")
    if kubeconfig is not None and kubeconfig.exists():
        raise click.UsageError(f"--kubeconfig {kubeconfig}: the file exists already, and would be overwritten")
    for option, file in (("--kubeconfig", kubeconfig), ("--keep-log", keep_log)):
        if file is not None and not file.parent.is_dir():
            raise click.UsageError(f"{option} {file}: there is no folder {file.parent}")
    if find_spec(_PACKAGE) is None:
        raise click.ClickException(
            "the demo runs on an embedded cluster, which is a package of its own and not installed here: "
            "`pip install vgpu-devcluster` adds it; in a checkout, `make demo` does"
        )
    session = import_module(f"{_PACKAGE}.demo.session")  # half a second, which help and errors need not wait for
    sys.exit(session.run(session.output_for(plain=once), pods, log=keep_log, keep=keep, kubeconfig=kubeconfig))
