"""No upgrade runs old code: what numba compiled is kept apart by what it was compiled from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vgpu_scheduler
from vgpu_scheduler.kernels.cache import digest_of

CALL = """
import numpy as np
from vgpu_scheduler.kernels import PodDemand, ShareRequest, ShareTerms
from vgpu_scheduler.kernels.shares import score_devices
from vgpu_scheduler.state import DeviceMatrix
from vgpu_scheduler.model import Device

matrix = DeviceMatrix(1)
matrix.replace(0, [Device("card", "V", "T", (100,))])
ints = lambda *values: np.array(values, dtype=np.int64)
number = np.array([matrix.vendor_number("V")], dtype=np.int32)
terms = ShareTerms(True, ints(1), number, ints(0), np.zeros(1, dtype=np.bool_))
claims = PodDemand(ints(0), ints(2), number, ints(1), ints(30).reshape(1, 1), ints(0).reshape(1, 1))
request = ShareRequest(claims, np.zeros(0, dtype=np.int8), ints(0), False, terms)
score = np.zeros(1, dtype=np.int64)
score_devices(matrix.columns, request, 0, 0, matrix.columns.used[:1], score)
print(score[0], sum(score_devices.stats.cache_hits.values()))
"""
"""Scores a card of 100 of which 30 are asked; the function that does it calls one of another file."""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package, and beside it places to write to."""
    copy = tmp_path / "operator" / "vgpu_scheduler"
    shutil.copytree(Path(vgpu_scheduler.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    yield copy
    for folder in (copy.parent, copy / "kernels"):
        folder.chmod(0o755)


def call(package: Path, code: str = CALL, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def change(package: Path) -> None:
    """Change a function that kernels of other files call: twice as much is asked."""
    file = package / "kernels" / "deviceshare.py"
    text = file.read_text()
    before = "allocated += min(asked.amounts[dimension], _MOST_AMOUNT)"
    assert text.count(before) == 1
    file.write_text(text.replace(before, before.replace("min(", "2 * min(")))


@pytest.mark.long
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_changed_callee_is_compiled_anew_with_its_callers(package: Path, tmp_path: Path, variable: str) -> None:
    place = {variable: str(tmp_path / "cache")}
    assert call(package, **place) == "30 0"
    assert call(package, **place) == "30 1", "nothing was kept"
    change(package)
    assert call(package, **place) == "60 0"
    kept = tmp_path / "cache" if variable == "NUMBA_CACHE_DIR" else tmp_path / "cache" / "vgpu-scheduler" / "kernels"
    assert len(list(kept.iterdir())) == 2, "the directory of the other version is left alone"


@pytest.mark.long
def test_copies_of_the_same_sources_share_what_is_compiled(package: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "vgpu_scheduler"
    shutil.copytree(package, other)
    place = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert call(package, **place) == "30 0"
    assert call(other, **place) == "30 1", "it was compiled for each place"
    change(other)
    assert call(other, **place) == "60 0"
    assert call(package, **place) == "30 1"


@pytest.mark.long
def test_it_is_kept_with_the_kernels_where_the_user_has_no_place(package: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    place = {"NUMBA_CACHE_DIR": str(blocked), "XDG_CACHE_HOME": str(blocked)}
    assert [call(package, **place) for _ in range(2)] == ["30 0", "30 1"]
    change(package)
    assert call(package, **place) == "60 0"
    assert len(list((package / "kernels" / "__pycache__").iterdir())) == 2


def test_that_kernels_are_compiled_is_told_once_and_only_where_they_are_kept(package: Path, tmp_path: Path) -> None:
    ask = "from vgpu_scheduler.kernels.cache import compiles_first; print(compiles_first(), compiles_first())"

    def told() -> str:
        return call(package, ask, HOME=str(tmp_path / "home"), **places)

    places = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert [told(), told()] == ["True False", "False False"]
    change(package)
    assert told() == "True False", "these are other kernels"
    nowhere = tmp_path / "file"
    nowhere.touch()
    (package / "kernels" / "__pycache__").touch()
    places = {"NUMBA_CACHE_DIR": str(nowhere), "XDG_CACHE_HOME": str(nowhere)}
    assert told() == "False False"


@pytest.mark.long
def test_it_compiles_where_nothing_can_be_kept(package: Path, tmp_path: Path) -> None:
    """As under a root file system that is read-only."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    (package / "kernels" / "__pycache__").write_text("")
    place = {"NUMBA_CACHE_DIR": str(blocked), "XDG_CACHE_HOME": str(blocked), "TMPDIR": str(tmp_path)}
    assert [call(package, **place) for _ in range(2)] == ["30 0", "30 0"]
    assert not list(tmp_path.glob("vgpu-scheduler-kernels-*")), "what a process keeps for itself goes with it"


@pytest.mark.long
def test_what_an_image_brings_is_used_wherever_it_is_copied_to(package: Path, tmp_path: Path) -> None:
    generic = {"NUMBA_CPU_NAME": "generic"}
    assert call(package, **generic, NUMBA_CACHE_DIR=str(package / "kernels" / "compiled")) == "30 0"
    brought = sorted((package / "kernels" / "compiled").rglob("*"))
    assert call(package, **generic, NUMBA_CACHE_DIR=str(tmp_path / "empty")) == "30 1"
    blocked = tmp_path / "file"
    blocked.write_text("")
    (package / "kernels" / "__pycache__").write_text("")
    nowhere = {"NUMBA_CACHE_DIR": str(blocked), "XDG_CACHE_HOME": str(blocked), "TMPDIR": str(tmp_path)}
    assert call(package, **generic, **nowhere) == "30 1"
    assert sorted((package / "kernels" / "compiled").rglob("*")) == brought, "nothing is written there"
    change(package)
    assert call(package, **generic, NUMBA_CACHE_DIR=str(tmp_path / "later")) == "60 0", "it is of another version"


AHEAD = (
    "choose",
    "add_choice_score",
    "offer_card",
    "open_container",
    "why_not_on_node",
    "write_keys",
    "sort_cards",
    "book",
)
"""Kernels that one of two processes compiles before the other calls them."""
WARM_UP = """
import gc
from numba.core.dispatcher import Dispatcher
from vgpu_scheduler.runtime.warmup import warm_up

warm_up()
kernels = [found for found in gc.get_objects() if isinstance(found, Dispatcher) and found.signatures]
print(len(kernels), sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""


@pytest.mark.long
def test_a_new_pod_compiles_nothing(tmp_path: Path) -> None:
    """As the image is built, and run with an empty cache."""
    package = tmp_path / "operator" / "vgpu_scheduler"
    shutil.copytree(Path(vgpu_scheduler.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    image = {"NUMBA_CPU_NAME": "generic", "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    compiled = str(package / "kernels" / "compiled")
    for command, place in (
        (["-m", "vgpu_scheduler.runtime.warmup"], compiled),
        (["-c", WARM_UP], str(tmp_path / "empty")),
    ):
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, **image, "NUMBA_CACHE_DIR": place},
            cwd=package.parent,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for compiled_ahead in AHEAD:
        kept = [file.name for file in Path(compiled).rglob(f"*.{compiled_ahead}-*.nbc")]
        assert len(kept) == 1, f"what is compiled ahead has the types with which it is called: {kept}"
    kernels, compiled_anew = map(int, done.stdout.split())
    assert kernels >= 5, "numba loads those that are called from Python, with all that they call"
    assert not compiled_anew


def test_names_and_contents_count(tmp_path: Path) -> None:
    def digest(**files: str) -> str:
        folder = tmp_path / "k"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "inner").mkdir(parents=True)
        for name, text in files.items():
            (folder / "inner" / f"{name}.py").write_text(text)
        return digest_of([folder])

    assert digest(a="x", b="y") == digest(b="y", a="x")
    different = [digest(a="x", b="y"), digest(a="y", b="x"), digest(a="xy", b=""), digest(a="x"), digest(c="x", b="y")]
    assert len(set(different)) == len(different)
