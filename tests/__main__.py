"""Runs the suites, and says at the end how long each took: ``python -m tests SELECTION [arguments of pytest]``.

What needs neither an API server nor processes of its own runs on several cores. The rest follows: two at a time,
and what takes long because it measures times one after the other.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.apiserver.rights import REQUESTS

from vgpu_scheduler.runtime.warmup import warm_up

_ROOT = Path(__file__).resolve().parents[1]
_REPORTS = _ROOT / "build" / "tests"
_WORKERS = min(len(os.sched_getaffinity(0)) + 1, 4)
"""One more than there are cores to be used, since some tests wait for seconds; each takes more than a GB."""
_NO_TESTS = 5


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the tests, run by one pytest.

    Attributes
    ----------
    title
        What they have in common.
    marked
        Which tests they are, as pytest's ``-m`` has it.
    arguments
        Further arguments of pytest.
    """

    title: str
    marked: str
    arguments: tuple[str, ...] = ()


_PURE = "what needs neither an API server nor processes"
_REAL = "on the real API server, with the operator as a process, and in a browser"
_PARALLEL = (f"--numprocesses={_WORKERS}", "--dist=worksteal")
"""Who has none left takes tests over: the longest ones come last."""
_TWO = ("--numprocesses=2", "--dist=loadfile")
"""A worker has a control plane of its own, for all of its files."""
SELECTIONS = {
    "short": (
        Part(_PURE, "not apiserver and not e2e and not browser and not long", _PARALLEL),
        Part(_REAL, "(apiserver or e2e or browser) and not long", _TWO),
    ),
    "pure": (
        Part(_PURE, "not apiserver and not e2e and not browser and not helm and not koordlet and not long", _PARALLEL),
    ),
    "long": (
        Part(f"{_PURE}, at length", "not apiserver and not e2e and long", _PARALLEL),
        Part("faults, on the real and on the embedded API server", "faults and long", ("--numprocesses=2",)),
        Part(f"{_REAL}, at length", "(apiserver or e2e) and long and not faults"),
    ),
}


def main(arguments: list[str]) -> int:
    """Run a selection; return pytest's exit status, the first that is none of success."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("selection", choices=SELECTIONS)
    options, rest = parser.parse_known_args(arguments)
    parts = SELECTIONS[options.selection]
    _REPORTS.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = defaultdict(float)
    status = 0
    if options.selection == "short" and not rest:
        shutil.rmtree(REQUESTS, ignore_errors=True)
    warm_up()  # under no test's clock; where all is compiled, it takes a second
    for number, part in enumerate(parts, start=1):
        print(f"tests {number}/{len(parts)}: {part.title}", flush=True)
        report = _REPORTS / f"{options.selection}-{number}.xml"
        report.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            f"-m={part.marked}",
            f"--junitxml={report}",
            "--tb=short",
            *part.arguments,
            *rest,
        ]
        began = time.monotonic()
        ended = subprocess.run(command, cwd=_ROOT, check=False).returncode
        print(f"tests {number}/{len(parts)}: {_spelled(time.monotonic() - began)}", flush=True)
        status = status or (0 if ended == _NO_TESTS and rest else ended)
        if ended > 1 and ended != _NO_TESTS:
            break  # interrupted, or pytest itself failed
        if report.exists():
            for suite, taken in suite_seconds(report).items():
                seconds[suite] += taken
    print(table(seconds))
    if status:
        print("tests failed, see above")
    return status


def suite_seconds(report: Path) -> dict[str, float]:
    """Return the seconds that the tests of each suite took, from a report in JUnit's format."""
    found: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):
        suite = case.get("classname", "").split(".")
        found["/".join(suite[:2])] += float(case.get("time", "0"))
    return found


def table(seconds: dict[str, float]) -> str:
    """Return a line per suite, the slowest first: seconds of tests, which several cores may have shared."""
    lines = [f"  {_spelled(taken):>8}  {suite}" for suite, taken in sorted(seconds.items(), key=lambda item: -item[1])]
    return "\n".join(["how long the tests of each suite took:", *lines])


def _spelled(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
