"""``vgpu-scheduler demo``: what the package of the embedded cluster shows, if it is installed."""

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
@click.option("--once", is_flag=True, help="No pauses, no colours: run the six checks and end with OK or a failure.")
@click.option("--keep", is_flag=True, help="Leave cluster and operator running afterwards, until Ctrl-C.")
@click.option("--kubeconfig", type=_FILE, help="With --keep: write the kubeconfig here; it is removed in the end.")
@click.option("--pods", type=click.IntRange(min=1), default=200, show_default=True, help="Slices in a burst.")
@click.option("--keep-log", type=_FILE, help="Write the operator's log here.")
def demo(*, once: bool, keep: bool, kubeconfig: Path | None, pods: int, keep_log: Path | None) -> None:
    """Show placements on an embedded cluster with simulated cards."""
    if kubeconfig is not None and not keep:
        raise click.UsageError("--kubeconfig goes with --keep: the cluster is gone at the end otherwise")
    if kubeconfig is not None and kubeconfig.exists():
        raise click.UsageError(f"--kubeconfig {kubeconfig}: there is such a file already, and it would be lost")
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
