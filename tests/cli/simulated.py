"""Pods and clusters for the tests of ``vgpu-scheduler simulate``, and the command itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from vgpu_scheduler.cli import main

ASSUMED = "settings: assumed (the defaults; use --config for others)"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def simulate(*arguments: str) -> Result:
    return run("-f", "pods.yaml", "--cluster", "cluster.yaml", *arguments)


def write(name: str, *objects: Any) -> str:
    Path(name).write_text(yaml.safe_dump_all(objects))
    return name


def pod(name: str = "p", memory: int = 1024, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory}
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "c", "resources": {"limits": limits}}],
            **spec,
        },
    }


def policy(spec: dict[str, Any], name: str = "p") -> dict[str, Any]:
    return {"kind": "ClusterVGPUPolicy", "metadata": {"name": name}, "spec": spec}
