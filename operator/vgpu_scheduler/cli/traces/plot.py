"""The picture of a comparison: allocation against demand, a line for each policy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from vgpu_scheduler.whatif.traces import Summary

_FORMATS: Final = (".svg", ".png")
_SIZE: Final = (6.4, 4.2)
_LEAST: Final = 60
"""Percent of demand from which is drawn: below, nothing is rejected, and all lines are one."""


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is replayed for it.

    Raises
    ------
    UsageError
        If it is of another format, its folder is not there, or matplotlib is missing.
    """
    if path.suffix.lower() not in _FORMATS:
        raise click.UsageError(f"--plot {path}: its name ends in {' or '.join(_FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise click.UsageError(f"--plot {path}: there is no folder {path.parent}")
    if find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib: pip install 'vgpu-scheduler[plots]'")


def draw(summaries: Sequence[Summary], path: Path) -> None:
    """Write the picture: one panel for each workload.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    import matplotlib as mpl  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    workloads = list(dict.fromkeys(summary.workload for summary in summaries))
    width, height = _SIZE
    figure = Figure(figsize=(width * len(workloads), height), layout="constrained")
    panels = figure.subplots(1, len(workloads), squeeze=False)[0]
    for panel, workload in zip(panels, workloads, strict=True):
        shown = [summary for summary in summaries if summary.workload == workload]
        for summary in shown:
            curve = summary.curve
            panel.plot(range(_LEAST, len(curve)), curve[_LEAST:], label=summary.policy)
        panel.plot([_LEAST, 100], [_LEAST, 100], color="grey", linestyle=":", label="all that arrived")
        panel.set(title=workload, xlabel="arrived demand (% of the cards)", ylabel="allocated (% of the cards)")
        panel.grid(visible=True, alpha=0.3)
        panel.legend()
    with mpl.rc_context({"svg.hashsalt": "vgpu-scheduler"}):  # the same picture is the same file
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
