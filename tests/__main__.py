"""Runs the suites, and says at the end how long each took: ``python -m tests SELECTION [arguments of pytest]``.

What needs neither an API server nor processes of its own runs on several cores. The rest follows, two at a time, and
at the end, one after the other, what measures times.

Each test that fails beside others is run once more alone. If it passes then, the run does not fail for it, and its last
lines name the test: it depends on how busy the machine is, and has to be mended. More than three such tests of a part
are a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tests.apiserver.rights import REQUESTS

from vgpu_scheduler.runtime.warmup import warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).resolve().parents[1]
_REPORTS = _ROOT / "build" / "tests"
_WORKERS = min(len(os.sched_getaffinity(0)) + 1, 4)
"""One more than there are cores to be used, since some tests wait for seconds; each takes more than a GB."""
_FAILED, _NO_TESTS = 1, 5
"""Of pytest's exit statuses: some tests failed; none was found."""
_UNSTEADY = 3
"""How many failed tests of a part are run again."""


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
        Part(f"{_REAL}, at length", "(apiserver or e2e) and long and not faults and not alone", _TWO),
        Part("what measures times, one after the other", "alone"),
    ),
    "older": (Part("end to end, on an API server that does less", "not long", (*_TWO, "tests/e2e")),),
}


def main(arguments: list[str]) -> int:
    """Run a selection; return pytest's exit status, the first that is none of success."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("selection", choices=SELECTIONS)
    options, rest = parser.parse_known_args(arguments)
    parts = SELECTIONS[options.selection]
    _REPORTS.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = defaultdict(float)
    status, unsteady = 0, list[str]()
    if options.selection == "short" and not rest:
        shutil.rmtree(REQUESTS, ignore_errors=True)
    warm_up()  # under no test's clock; where all is compiled, it takes a second
    for number, part in enumerate(parts, start=1):
        print(f"tests {number}/{len(parts)}: {part.title}", flush=True)
        report = _REPORTS / f"{options.selection}-{number}.xml"
        report.unlink(missing_ok=True)
        began = time.monotonic()
        ended, alone = _run(part, report, rest)
        unsteady += alone
        print(f"tests {number}/{len(parts)}: {_spelled(time.monotonic() - began)}", flush=True)
        status = status or (0 if ended == _NO_TESTS and rest else ended)
        if ended > 1 and ended != _NO_TESTS:
            break  # interrupted, or pytest itself failed
        if report.exists():
            for suite, taken in suite_seconds(report).items():
                seconds[suite] += taken
    print(table(seconds))
    for test in unsteady:
        print(f"UNSTEADY: {test} failed beside others, and passed alone")
    if status:
        print("tests failed, see above")
    return status


def _run(part: Part, report: Path, rest: Sequence[str]) -> tuple[int, list[str]]:
    """Run a part; return pytest's exit status, and the tests that failed beside others and passed alone."""
    cache = report.with_suffix(".cache")
    shutil.rmtree(cache, ignore_errors=True)
    ended = _pytest(
        f"-m={part.marked}", f"--junitxml={report}", f"--override-ini=cache_dir={cache}", *part.arguments, *rest
    )
    failed = failed_tests(cache)
    if ended != _FAILED or not part.arguments or not 0 < len(failed) <= _UNSTEADY:
        return ended, []
    print(f"{len(failed)} failed of {part.title}: run again alone", flush=True)
    again = _pytest(*failed, *(argument for argument in rest if argument.startswith("--seeds=")))
    return again, [] if again else failed


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "--tb=short", *arguments], cwd=_ROOT, check=False).returncode


def failed_tests(cache: Path) -> list[str]:
    """Return the tests that failed, or could not be set up or ended, by pytest's names, from its cache."""
    path = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(path.read_text("utf-8"))) if path.exists() else []


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
