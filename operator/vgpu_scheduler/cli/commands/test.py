"""``vgpu-scheduler test``: unit tests for policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import run_module


@click.command("test")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write the results to this path, as JUnit XML."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only cases that fail.")
def test(**options: Any) -> None:
    """Run unit tests for policies: files of cases, or folders of such files.

    Each case is a cluster in a few lines, a pod, and the expected outcome; docs/policies.md describes the format. In
    folders, files with Kubernetes objects (policies beside their tests) are skipped. Exits with 1 if a case fails, and
    with 2 if there is no case or one cannot be read.
    """
    run_module("policy_tests", **options)
