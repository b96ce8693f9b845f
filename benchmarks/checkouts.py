"""The checkouts that are measured: this one, and another one beside it, each in processes of its own."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.bytecode import keep_bytecode

from benchmarks.replay import Samples

T = TypeVar("T")
BEFORE: Final = "before"
"""What tables call the other checkout."""
_REPLAY: Final = Path(__file__).with_name("replay.py")
Step = tuple[Any, ...]
"""A step of :mod:`benchmarks.replay`."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of this project.

    Attributes
    ----------
    name
        What tables call it; empty for this one.
    folder
        Where it lies.
    """

    name: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What has a process import this checkout's modules, whatever is installed."""
        return {"PYTHONPATH": os.pathsep.join(str(self.folder / part) for part in ("operator", "devcluster", ""))}

    @property
    def python(self) -> str:
        """The interpreter of its own environment, whose packages it was made for; ours, where it has none."""
        own = self.folder / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def operator(self) -> tuple[str, ...]:
        """The command that runs its operator."""
        return (self.python, "-m", "vgpu_scheduler", "run")

    def interpreter(self) -> str:
        """Return which build of Python it runs on: two of the same release differ by a tenth, too."""
        command = (self.python, "-c", "import sys; print(sys.base_prefix, sys.version)")
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def compile_kernels(self) -> None:
        """Have its kernels compiled, so that no measurement does it."""
        command = (self.python, "-m", "vgpu_scheduler.runtime.warmup")
        subprocess.run(command, cwd=self.folder, env={**os.environ, **self.environment}, check=True)

    def replay(self, steps: Path) -> Samples:
        """Replay a file of steps.

        Raises
        ------
        subprocess.CalledProcessError
            If it cannot; standard error says why.
        """
        own = self.folder / "benchmarks" / _REPLAY.name
        command = (self.python, str(own if own.exists() else _REPLAY), str(steps))
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "operator")}
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        return {label: [(wall, cpu) for wall, cpu in found] for label, found in json.loads(done.stdout).items()}


OURS: Final = Checkout("", Path(__file__).parents[1])
"""This checkout."""


def checkouts(against: Path | None) -> list[Checkout]:
    """Return the checkouts to be measured, the other one first, with their kernels compiled.

    Raises
    ------
    ValueError
        If the other one is no checkout of this project, or its environment has another Python.
    """
    found = [OURS]
    if against is not None:
        if not (against / "operator" / "vgpu_scheduler").is_dir():
            raise ValueError(f"--against {against}: that is no checkout of this project")
        other = Checkout(BEFORE, against.resolve())
        if other.interpreter() != OURS.interpreter():
            raise ValueError(f"--against {against}: Python there is {other.interpreter()}, here {OURS.interpreter()}")
        found.insert(0, other)
    keep_bytecode()
    for each in found:
        each.compile_kernels()
    return found


def in_turns(candidates: Sequence[T], turns: int) -> Iterator[T]:
    """Yield each of the candidates in so many turns, in their order and back; one that is alone has a single turn.

    None so gains from a machine that steadily gets slower or faster, nor from a cluster that fills up.

    Parameters
    ----------
    turns
        An even number.
    """
    for turn in range(turns if len(candidates) > 1 else 1):
        yield from candidates if turn % 2 == 0 else reversed(candidates)


def replayed(steps: Iterable[Step], candidates: Sequence[Checkout], turns: int) -> dict[str, list[Samples]]:
    """Have checkouts replay the same steps in turns; return what each turn took, by the names of the checkouts."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as file:
        for step in steps:
            file.write(json.dumps(step) + "\n")
        file.flush()
        found: dict[str, list[Samples]] = {}
        for candidate in in_turns(candidates, turns):
            found.setdefault(candidate.name, []).append(candidate.replay(Path(file.name)))
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of two checkouts, less of which is better.

    Attributes
    ----------
    what, unit
        Which figure.
    before, now
        Of each turn of the other checkout and of this one.
    """

    what: str
    unit: str
    before: Sequence[float]
    now: Sequence[float]

    @property
    def ratio(self) -> float:
        """How many times that of before it is, the means."""
        return statistics.mean(self.now) / statistics.mean(self.before)

    @property
    def slower(self) -> bool:
        """Whether no turn was as good as the worst one of before: the noise of the machine does not explain that."""
        return min(self.now) > max(self.before)


def comparison(found: Iterable[Compared]) -> list[str]:
    """Return the table of what is compared in Markdown, line by line; none where nothing is."""
    lines: list[str] = []
    for each in found:
        lines = lines or [
            "| less is better, means of all turns | before | now | now / before | |",
            "|---|---|---|---|---|",
        ]
        before, now = (f"{_short(statistics.mean(turns))} {each.unit}" for turns in (each.before, each.now))
        verdict = "**slower in every turn**" if each.slower else ""
        lines.append(f"| {each.what} | {before} | {now} | {each.ratio:.2f} | {verdict} |")
    return lines


def _short(value: float) -> str:
    """Return a figure with three digits, or without decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def arguments(module: str, description: str | None) -> Path | None:
    """Read the command line of a benchmark; return the other checkout, if it names one."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--against", type=Path, help="another checkout, which is measured in turns with this one")
    against: Path | None = parser.parse_args().against
    return against
