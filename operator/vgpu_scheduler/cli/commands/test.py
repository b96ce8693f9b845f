"""``vgpu-scheduler test``: unit tests for policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import run_module


@click.command("test")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write the results there, as JUnit XML.")
@click.option("-q", "--quiet", is_flag=True, help="Name only what is not as expected.")
def test(**options: Any) -> None:
    """Run unit tests for policies: files of cases, or folders of such files.

    Each case is a cluster in a few lines, a pod, and what is expected of it; docs/policies.md describes the format. In
    folders, files that hold Kubernetes objects (policies beside their tests) are passed over. Ends with 1 when a case
    fails, and with 2 when there is none or one cannot be read.
    """
    run_module("policy_tests", **options)
