"""How the memory of the process is kept."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from vgpu_scheduler.runtime import operator
from vgpu_scheduler.runtime.collecting import settle_memory, unmodified_mappings
from vgpu_scheduler.settings import load

SCRIPT = """
import numba
from pathlib import Path
from vgpu_scheduler.runtime.collecting import release_compiler_pages

def resident():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssFile"].split()[0]) / 1024

added = numba.njit(lambda a, b: a + b)
assert added(1, 2) == 3
before = resident()
release_compiler_pages()
print(before - resident())
assert added(1.5, 2.0) == 3.5  # compiled now
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is told by Linux alone")
def test_the_compiler_is_let_go_and_works_on() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) > 20.0


class Circle:
    """Holds itself."""

    def __init__(self) -> None:
        self.own = self


def test_what_was_held_for_good_and_is_not_any_more_is_given_back() -> None:
    circle = Circle()
    gone = weakref.ref(circle)
    try:
        settle_memory()
        assert gone() is circle
        del circle
        settle_memory()
        assert gone() is None
    finally:
        gc.unfreeze()


def mapping(name: str, *, first: int, rights: str = "r--p", **written: int) -> str:
    sizes = {"Size": 8, "Rss": 8, "Anonymous": 0, "Private_Dirty": 0, "Swap": 0, **written}
    lines = [f"{first:x}-{first + 8192:x} {rights} 00000000 fe:00 17 {name}"]
    return "\n".join(lines + [f"{size}: {kb} kB" for size, kb in sizes.items()] + ["VmFlags: rd mr mw me sd"]) + "\n"


def test_only_what_nobody_has_written_is_dropped() -> None:
    text = (
        mapping("/lib/libllvmlite.so", first=0x10000)
        + mapping("/lib/libllvmlite.so", first=0x20000, rights="r-xp")
        + mapping("/lib/libllvmlite.so", first=0x30000, rights="rw-p")
        + mapping("/lib/libllvmlite.so", first=0x40000, Anonymous=4)
        + mapping("/lib/libllvmlite.so", first=0x50000, Swap=4)
        + mapping("/lib/libllvmlite.so", first=0x60000, Private_Dirty=4)
        + mapping("/lib/libc.so.6", first=0x70000)
        + mapping("", first=0x80000)
        + mapping("[heap]", first=0x90000)
    )
    assert unmodified_mappings(text, "libllvmlite") == [(0x10000, 8192), (0x20000, 8192)]


async def test_garbage_is_collected_rarely_from_the_start_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(operator, "serve", serve)
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        with pytest.raises(ZeroDivisionError):
            await operator.Operator(load(None, {})).run()
        assert gc.get_threshold()[0] > 10_000
    finally:
        gc.set_threshold(*before)
