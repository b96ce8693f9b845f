"""How many steps a slice takes: the calls of this project's functions, and its files, from the watch event to the end.

An API server of a few lines answers at once, and the node side does its part right after the Binding, so that the count
is the same on every machine. ``python -m benchmarks.slice_calls`` prints it; with ``-v`` the functions that are called
most, too, and with ``-f`` the files, each with its calls.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.binding.quick import QuickBench
from tests.engine.builders import asks

import vgpu_scheduler

_OURS: Final = str(Path(vgpu_scheduler.__file__).parent)
_WARM, _COUNTED, _NODES = 20, 100, 50
_MOST_CALLED: Final = 40


@contextmanager
def counted(found: Counter[tuple[str, str]]) -> Iterator[None]:
    """Count the calls of this project's functions, by file and name."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_OURS):
            found[code.co_filename[len(_OURS) + 1 :], code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


async def slice_of(bench: QuickBench, name: str, resources: dict[str, Any]) -> None:
    """Have a pod come, bound, served and started."""
    bench.ended.clear()
    bench.binder.submit(bench.decide(name, resources))
    await bench.ended.wait()
    bench.serve(name)
    await bench.until(lambda: not bench.binder._tasks)


async def count(resources: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Return the calls of many pods, after some that do not count."""
    bench, found = QuickBench(_NODES), Counter[tuple[str, str]]()
    for number in range(_WARM):
        await slice_of(bench, f"warm-{number}", resources)
    with counted(found):
        for number in range(_COUNTED):
            await slice_of(bench, f"pod-{number}", resources)
    await bench.binder.stop(0.0)
    return found


def main() -> None:
    """Count, and print."""
    for what, resources in (("slice", asks(1, 1000)), ("plain pod", asks(0, cpu="1m"))):
        found = asyncio.run(count(resources))
        files, functions = {file for file, _ in found}, len(found)
        print(f"{what}: {found.total() / _COUNTED:.0f} calls of {functions} functions in {len(files)} files")
        if "-v" in sys.argv:
            for (file, name), number in found.most_common(_MOST_CALLED):
                print(f"{number / _COUNTED:7.1f}  {file}:{name}")
        if "-f" in sys.argv:
            for file in sorted(files):
                calls = sum(number for (of, _), number in found.items() if of == file)
                print(f"{calls / _COUNTED:7.1f}  {file}")


if __name__ == "__main__":
    main()
