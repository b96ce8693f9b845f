"""Runs golden cases wherever they are: finds them by content, decides them, and counts per suite.

A case is known by what is in it, never by the name of its file: HAMi's by ``profile`` and ``kind`` or ``op``, and by
the makers it configures; kube-scheduler's by ``family``, those of the source documents by ``check``, all others by
``suite``. Suites that are deliberately not run are listed with the reason, and counted as not implemented under their
own names; a case of any other that nothing here can run is a mismatch.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.golden import (
    documented,
    hami,
    hami26,
    hami_codec,
    hami_vendors,
    hami_webhook,
    koordinator,
    koordinator_webhook,
    kubernetes,
    kubernetes_groups,
    volcano,
    volcano_ascend,
    volcano_sequence,
    volcano_session,
    volcano_vgpu,
)
from tests.golden.deviations import Deviations
from tests.golden.outcome import Case, Outcome

SUFFIXES = (".json", ".jsonl", ".jsonl.gz")


BY_SUITE = {
    "koordinator_alloc": koordinator.run_allocation,
    "koordinator_alloc_fixed": koordinator.run_allocation,
    "koordinator_args": koordinator.run_arguments,
    "koordinator_request": koordinator.run_request,
    "koordinator_score": koordinator.run_score,
    "koordinator_score_seed": koordinator.run_score,
    "koordinator_webhook_mutate": koordinator_webhook.run_case,
    "volcano_ascend_hami": volcano_ascend.run_case,
    "volcano_binpack_args": volcano.run_arguments,
    "volcano_binpack_score": volcano.run_score,
    "volcano_session": volcano_session.run_case,
    "volcano_vgpu": volcano_vgpu.run_case,
    "volcano_vgpu_mig": volcano_vgpu.run_case,
    "volcano_vgpu_seq": volcano_sequence.run_case,
}


BY_FAMILY = {
    **dict.fromkeys(kubernetes.FAMILIES, kubernetes.run_case),
    kubernetes_groups.FAMILY: kubernetes_groups.run_case,
}
"""Of kube-scheduler."""


PLACEMENT = {hami.PROFILE: hami.run_case, hami26.PROFILE: hami26.run_case}
"""By the version of HAMi."""


NOT_RUN = {
    "koordinator_numa_hints": "nothing is said to Koordinator's topology manager",
    "koordinator_webhook_validate": "pods of Koordinator's names are refused when they are decided, not when they come",
    "volcano_gpushare": "the names of Volcano's earlier sharing are not read",
    "volcano_nodeorder": "kube-scheduler's own scores rank nodes, not Volcano's plugin of them",
}
"""Suites that are deliberately not run, and why."""


class UnreadableError(Exception):
    """A file that looks like cases and cannot be read."""


class Suite(NamedTuple):
    """The suite of a case: its name, and how to run the case, if anything here can."""

    name: str
    run: Callable[[Case], Outcome] | None


@dataclass
class Tally:
    """What became of the cases of one suite."""

    total: int = 0
    passed: int = 0
    decided: int = 0
    not_implemented: int = 0
    mismatches: list[str] = field(default_factory=list)
    beyond: dict[str, int] = field(default_factory=dict)
    quirks: dict[str, list[str]] = field(default_factory=dict)

    def line(self, suite: str) -> str:
        """Say it in one line; the decided cases are among the passed ones."""
        return (
            f"{suite} {self.passed + self.decided}/{self.total}"
            f" ({self.decided} decided, {self.not_implemented} not implemented)"
        )


def suite_of(case: object, where: str) -> Suite:
    """Tell by its content which suite a case belongs to."""
    if not isinstance(case, dict):
        return Suite(f"unrecognised {where}", None)
    if "profile" in case and _ours(case) and hami_webhook.runs(case):
        return Suite(
            f"{case['profile']} {'vendors' if hami_vendors.makers(case) else 'codec'} webhook", hami_webhook.run_case
        )
    if "profile" in case and _ours(case) and hami_vendors.runs(case):
        return Suite(f"{case['profile']} vendors {case.get('op', case.get('kind'))}", hami_vendors.run_case)
    if "profile" in case and "op" in case:
        known = _ours(case) and case["op"] in hami_codec.OPERATIONS
        return Suite(f"{case['profile']} codec {case['op']}", hami_codec.run_case if known else None)
    if "profile" in case and "kind" in case:
        placement = PLACEMENT.get(case["profile"]) if case["kind"] == "placement" else None
        return Suite(f"{case['profile']} {case['kind']}", placement)
    if "family" in case:
        return Suite(f"kubernetes {case['family']}", BY_FAMILY.get(case["family"]))
    if "check" in case:
        name = f"documented {str(case.get('id', ''))[:2]} {case['check']}"
        return Suite(name, documented.run_case if documented.knows(case["check"]) else None)
    name = str(case.get("suite", f"unrecognised {where}"))
    return Suite(name, BY_SUITE.get(name))


def _ours(case: Case) -> bool:
    return bool(case["profile"] == hami.PROFILE)


def find(directory: Path) -> Iterator[tuple[str, object]]:
    """Yield every case under a directory with the file that it is in.

    Raises
    ------
    UnreadableError
        If a file is not what its name says.
    """
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name.endswith(SUFFIXES):
            where = path.relative_to(directory).as_posix()
            try:
                yield from ((where, case) for case in read(path))
            except (OSError, EOFError, ValueError, zlib.error) as error:
                raise UnreadableError(f"{path} cannot be read: {error}") from error


def read(path: Path) -> Iterator[Any]:
    """Yield the cases of one file: one per line, or a list, or a single one."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    if path.name.endswith(".json"):
        content = json.loads(text)
        yield from content if isinstance(content, list) else [content]
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error


def judge(case: Case, suite: Suite, deviations: Deviations, *, by_case: bool = True) -> Outcome:
    """Run a case and hold its outcome against the list of intended differences.

    Parameters
    ----------
    case, suite, deviations
        The case, how to run it, and the list.
    by_case
        The list must name the case with each quirk that it shows, and with no other. Of cases that it cannot know,
        the quirks alone are looked up.
    """
    if suite.run is None:
        if suite.name in NOT_RUN:
            return Outcome("not_implemented", NOT_RUN[suite.name])
        return Outcome("failed", "there is no such suite, nor is it listed among those that are not run")
    try:
        outcome = suite.run(case)
    except Exception as error:  # noqa: BLE001 - whatever a case breaks, the others still run
        return Outcome("failed", f"{type(error).__name__}: {error}")
    if by_case:
        listed = deviations.listed(str(case.get("id")))
        found = [f"deviation {name} is not listed for this case" for name in sorted(outcome.quirks - listed)]
        found += [f"deviation {name} is listed and does not occur" for name in sorted(listed - outcome.quirks)]
    else:
        found = [f"deviation {name} has no reason" for name in sorted(deviations.unlisted(outcome.quirks))]
    if outcome.status != "failed" and found:
        return Outcome("failed", "; ".join(found), outcome.quirks)
    return outcome


def run(cases: Iterable[tuple[str, object]], deviations: Deviations, *, by_case: bool = True) -> dict[str, Tally]:
    """Run all cases, as :func:`judge` does; the tallies are in the order of the suites' names."""
    tallies: dict[str, Tally] = {}
    for where, case in cases:
        suite = suite_of(case, where)
        tally = tallies.setdefault(suite.name, Tally())
        tally.total += 1
        fields = case if isinstance(case, dict) else {}
        outcome = judge(fields, suite, deviations, by_case=by_case)
        for quirk in outcome.quirks:
            tally.quirks.setdefault(quirk, []).append(str(fields["id"]))
        if outcome.status == "failed":
            tally.mismatches.append(f"{fields.get('id', where)}: {outcome.detail}")
        elif outcome.status == "not_implemented":
            tally.not_implemented += 1
            tally.beyond[outcome.detail] = tally.beyond.get(outcome.detail, 0) + 1
        elif outcome.status == "decided":
            tally.decided += 1
        else:
            tally.passed += 1
    return dict(sorted(tallies.items()))
