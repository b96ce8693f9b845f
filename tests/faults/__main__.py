"""Plays all faults many times and writes the report: ``python -m tests.faults --times 20``.

Each time each fault is played once, with a seed of its own. The report says how often each was injected, and what
failed. Ends with 0 when nothing failed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.plane import EmbeddedPlane, Plane, RealPlane
from tests.faults.stage import Stage, opened
from tests.faults.table import FAULTS, Fault

REPORT = Path(__file__).parents[2] / "docs" / "faults.md"

_HEAD = """# Faults

What was done to the operator on a real API server while pods came in bursts. The pods ask for slices of cards with a
node lock (HAMi's lock and Cambricon's), of cards without one (Moore Threads and Enflame), or for no cards. After each
fault the same is checked (`tests/faults/invariants.py`):

- every pod that fits somewhere is bound and runs;
- what the operator counts as used equals what it would count after a restart, and what bound pods' annotations say;
- no card is used beyond its capacity, and no pod has annotations that name another node or cards of another node;
- no node lock is left;
- the device plugins have seen no mistake of the scheduler, such as two pods that allocate on one node at a time.

`make faults` plays each fault once and writes this page, `make faults ARGS="--times 20"` plays each 20 times. Each run
of a fault has another seed, which says which writes fail, in which order pods come and go, and when a process dies.
CI plays each once; `--only TEXT` plays those with this text in their names, and leaves the other rows as they are.

"""


@dataclass
class Record:
    """What came of one fault.

    Attributes
    ----------
    played, failures
        How often, and the seeds and first lines of what failed.
    injected
        What was done, and how often.
    """

    played: int = 0
    failures: list[str] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)


async def play(plane: Plane, faults: Sequence[Fault], seeds: Iterable[int], records: dict[str, Record]) -> None:
    """Play faults on a control plane, once with each seed."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        await asyncio.to_thread(plane.start)
        try:
            async with opened(plane, Path(folder)) as stage:
                for seed in seeds:
                    for fault in faults:
                        await play_once(stage, fault, seed, records[title(fault)])
        finally:
            await asyncio.to_thread(plane.stop)


async def play_beside(
    planes: Sequence[Plane], faults: Sequence[Fault], seeds: range, records: dict[str, Record]
) -> None:
    """Play faults with the seeds dealt out to several control planes, each with a stage of its own."""
    async with asyncio.TaskGroup() as group:
        for number, plane in enumerate(planes):
            group.create_task(play(plane, faults, seeds[number :: len(planes)], records))


async def play_once(stage: Stage, fault: Fault, seed: int, record: Record) -> None:
    """Play one fault once, and record what came of it; after a failure the next one starts with new operators."""
    began = time.monotonic()
    outcome = "ok"
    try:
        record.injected.update(await fault.play(stage, seed))
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are played
        outcome = f"{type(error).__name__}: {str(error) or traceback.format_exc()}"
        record.failures.append(f"seed {seed}: {outcome.splitlines()[0]}")  # the rest is printed
        await stage.dismiss()
    record.played += 1
    print(f"{title(fault)}, seed {seed}: {time.monotonic() - began:.1f} s, {outcome}", flush=True)


def title(fault: Fault) -> str:
    return f"{fault.group}: {fault.name}"


def rendered(records: Mapping[str, Record], before: str) -> str:
    """Return the page: a row of each fault that was played, and those of the others as they are on the page before."""
    rows, failures = _known_rows(before), _known_failures(before)
    for fault in FAULTS:
        record = records.get(title(fault))
        if record is not None:
            rows[title(fault)] = _row(fault, record)
            failures[title(fault)] = record.failures
    cells = {name: row.split(" | ") for name, row in rows.items()}
    runs = sum(int(each[2]) for each in cells.values())
    injected = sum(int(count) for each in cells.values() for count in re.findall(r": (\d+)(?:;|$)", each[3]))
    failed = sum(int(each[5].rstrip(" |")) for each in cells.values())
    lines = [
        f"This page: {len(rows)} faults, {runs} runs, {injected} injected faults, {failed} failures. Each row is of",
        "the last time that its fault was played.",
        "",
    ]
    for group in dict.fromkeys(fault.group for fault in FAULTS):
        lines += [f"## {group[0].upper()}{group[1:]}", ""]
        lines += [
            "| fault | how | runs | injected, and how often | also checked | failures |",
            "|---|---|---|---|---|---|",
        ]
        lines += [rows[title(fault)] for fault in FAULTS if fault.group == group and title(fault) in rows]
        lines.append("")
    told = [f"- {name}: {text}" for name, texts in failures.items() if name in rows for text in texts]
    lines += ["## Failures", "", *(told or ["None."]), ""]
    return _HEAD + "\n".join(lines)


def _row(fault: Fault, record: Record) -> str:
    injected = "; ".join(f"{what}: {count}" for what, count in sorted(record.injected.items()))
    cells = (fault.name, fault.how, record.played, injected, fault.checked, len(record.failures))
    return "| " + " | ".join(map(str, cells)) + " |"


def _known_rows(page: str) -> dict[str, str]:
    """Return the rows of a page by the titles of their faults, of those that there still are."""
    of_group = {section.partition("\n")[0].lower(): section for section in re.split(r"^## ", page, flags=re.MULTILINE)}
    found: dict[str, str] = {}
    for fault in FAULTS:
        lines = of_group.get(fault.group.lower(), "").splitlines()
        found.update((title(fault), line) for line in lines if line.startswith(f"| {fault.name} | "))
    return found


def _known_failures(page: str) -> dict[str, list[str]]:
    lines = re.findall(r"^- (.+?): (seed \d+: .*)$", page.partition("## Failures")[2], flags=re.MULTILINE)
    found: dict[str, list[str]] = {}
    for name, text in lines:
        found.setdefault(name, []).append(text)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Play faults on the operator.")
    parser.add_argument("--times", type=int, default=1, help="how often each fault is played")
    parser.add_argument("--seed", type=int, default=1, help="of the first time; each further one has the next")
    parser.add_argument("--only", default="", help="those with this text in their names; other rows stay")
    parser.add_argument("--report", type=Path, default=REPORT, help="where the report goes")
    parser.add_argument("--servers", type=int, default=1, help="on how many API servers they are played at a time")
    parser.add_argument("--embedded", action="store_true", help="on the embedded API server; nothing is written then")
    options = parser.parse_args(arguments)
    planes = [EmbeddedPlane() if options.embedded else RealPlane() for _ in range(options.servers)]
    faults = [fault for fault in FAULTS if options.only in title(fault) and (fault.embedded or not options.embedded)]
    records = {title(fault): Record() for fault in faults}
    asyncio.run(play_beside(planes, faults, range(options.seed, options.seed + options.times), records))
    if not options.embedded:
        before = options.report.read_text() if options.report.exists() else ""
        options.report.write_text(rendered(records, before))
    return 1 if any(record.failures for record in records.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
