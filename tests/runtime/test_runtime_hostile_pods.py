"""Tenants who create pods and delete them again, whatever these say, do not fill the memory of the leader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PODS = 50_000
MOST_MIB = 32.0
"""What the second half of the pods may add to what is resident: by then all stores are full."""


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nothing says what is resident")
@pytest.mark.long
def test_pods_that_come_and_go_leave_the_memory_as_it_is() -> None:
    run = [sys.executable, "-m", "tests.runtime.hostile", str(PODS)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    _, half, whole = told["resident"]
    assert whole - half < MOST_MIB, told
    assert told["over"] == [], "each store stays within its bytes"
    assert told["longest"]["note"] <= 1024
    assert told["longest"]["message"] <= 4096
    assert told["placed"] > PODS // 100
    assert (told["pods"], told["dropped"]) == (0, 0)
