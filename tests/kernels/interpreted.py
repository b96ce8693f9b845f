"""What the interpreter makes of kernels that are compiled elsewhere in the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_interpreted(module: str, worlds: int) -> str:
    """Run a module of worlds without the compiler, with overflow and division as errors; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"tests.kernels.{module}", str(worlds)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
