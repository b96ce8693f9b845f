"""The demo checks its own numbers; here it has to come to the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_keeps_its_promises(tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    command = [sys.executable, "-m", "vgpu_scheduler", "demo", "--once", "--keep-log", str(log)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]
    assert result.stdout.rstrip().endswith("OK 6/6")
    assert "Traceback" not in log.read_text()
