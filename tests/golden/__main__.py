"""Runs the golden cases under a directory: ``python -m tests.golden [DIR]``.

One line per suite: how many cases passed, decided ones included, of how many; a decided case is one in which this
scheduler differs from the recorded one on purpose (``tests/vectors/deviations.toml``, or the example's own decision).
The list names every case under ``tests/vectors``; of cases elsewhere it cannot, so that it has the quirk is enough.
Suites that are deliberately not run are listed in :mod:`tests.golden.runner`; an unknown one is a mismatch.
Ends with 0 when all is well, 1 when a case does not come out as it must, 2 when nothing could be run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.golden.deviations import Deviations
from tests.golden.runner import Tally, UnreadableError, find, run

DEFAULT = Path(__file__).parent.parent / "vectors"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="Run the golden cases.")
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT, help="where to look for case files")
    parser.add_argument("--mismatches", type=int, default=5, metavar="N", help="how many to print per suite")
    parser.add_argument("--reasons", action="store_true", help="say what is not implemented, and which quirks occur")
    options = parser.parse_args(arguments)
    if not options.directory.is_dir():
        print(f"{options.directory} is not a directory", file=sys.stderr)
        return 2
    try:
        ours = options.directory.resolve().is_relative_to(DEFAULT.resolve())
        tallies = run(find(options.directory), Deviations.read(), by_case=ours)
    except (UnreadableError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    for suite, tally in tallies.items():
        print(tally.line(suite))
        if options.reasons:
            explain(tally)
    failed = {suite: tally for suite, tally in tallies.items() if tally.mismatches}
    for suite, tally in failed.items():
        print(f"\n{suite}: {len(tally.mismatches)} mismatches")
        for mismatch in tally.mismatches[: options.mismatches]:
            print("  " + mismatch.replace("; ", "\n      "))
    if not any(tally.passed + tally.decided + len(tally.mismatches) for tally in tallies.values()):
        print(f"no case under {options.directory} could be run", file=sys.stderr)
        return 2
    return 1 if failed else 0


def explain(tally: Tally) -> None:
    """Print what the counts are made of."""
    for reason, count in sorted(tally.beyond.items()):
        print(f"    not implemented {count}: {reason}")
    for quirk, cases in sorted(tally.quirks.items()):
        print(f"    {quirk} {len(cases)}")


if __name__ == "__main__":
    sys.exit(main())
