"""How the memory of the process is kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import numba
from pathlib import Path
from vgpu_scheduler.runtime.collecting import let_go_of_compiler

def resident():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssFile"].split()[0]) / 1024

added = numba.njit(lambda a, b: a + b)
assert added(1, 2) == 3
before = resident()
let_go_of_compiler()
print(before - resident())
assert added(1.5, 2.0) == 3.5  # compiled now
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is told by Linux alone")
def test_the_compiler_is_let_go_and_works_on() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) > 20.0
