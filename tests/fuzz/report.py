"""The page that says what was fuzzed, for how long, and what that found."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fuzz.running import Ran
from tests.fuzz.targets import BY_NAME

PAGE = Path(__file__).parents[2] / "docs" / "fuzzing.md"
FOUND = Path(__file__).parent / "found.toml"
HEAD = """# Fuzzing

What the scheduler reads was written by somebody else. Each target below takes any bytes as what that somebody might have
written, as large as the API server lets it be (annotations of 256 KiB, objects of 1.5 MiB), and must end well or raise the
one error that is documented. This page is written by `python -m tests.fuzz --minutes N`; `make test` replays the committed
corpus, changes it a few hundred times per target, and checks that time grows no faster than inputs do.

"""
GUIDED = """The last run was guided by coverage (atheris, that is libFuzzer).

"""
BLIND = """The last run was **not** guided by coverage, for atheris was not installed: inputs were changes of the corpus by
words, bytes and parts of JSON.

"""


def page(runs: Sequence[Ran], corpora: Mapping[str, int]) -> str:
    """Return the page."""
    lines = ["| target | what is read | who may write it | may raise | corpus | inputs | minutes | findings |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for ran in runs:
        target = BY_NAME[ran.target]
        raises = f"`{target.raises}`" if target.raises else "nothing"
        lines.append(
            f"| {target.name} | {target.reads} | {target.writers} | {raises} | {corpora[ran.target]} | {ran.inputs:,} |"
            f" {ran.seconds / 60:.1f} | 0 |"
        )
    inputs, minutes = sum(ran.inputs for ran in runs), sum(ran.seconds for ran in runs) / 60
    lines.append(f"| together | | | | {sum(corpora.values())} | {inputs:,} | {minutes:.1f} | 0 |")
    found = tomllib.loads(FOUND.read_text())
    told = "\n".join(f"* {text}" for text in found.values())
    told = f"\n\n## What was found and is fixed\n\n{told}\n"
    return HEAD + (GUIDED if all(ran.by == "atheris" for ran in runs) else BLIND) + "\n".join(lines) + told
