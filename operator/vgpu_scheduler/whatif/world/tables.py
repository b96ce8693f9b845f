"""Format answers as text for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap

from tabulate import tabulate

from vgpu_scheduler.model import CardReason, NodeVerdict, ScorePart, counted
from vgpu_scheduler.policy import shown_sources
from vgpu_scheduler.whatif.world.simulation import PodResult

_HEAD = ("NODE", "SCORE", "WHY")
_MOST_ROWS = 40
"""The most rows that are shown of feasible nodes, and of the others."""
_MOST_UNFIT = 20
"""The number of infeasible nodes above which there is one row per reason."""
_TOO_FEW = re.compile(rf"\b(\d+)/(\d+) {CardReason.AllocatedCardsInsufficientRequest.text}")
_GAP = "  "
"""The space between columns."""
_LEAST = 12
"""The least width of a column, however narrow the table."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WIDTH = 118
"""The width of a table that is indented by two characters."""
_MOST_NAMES = 3
"""The most nodes that are named in the row of a reason."""
Row = tuple[str, str, str]


def aligned(rows: Sequence[Sequence[str]], width: int | None = None, *, wrapped: bool = False) -> list[str]:
    """Align rows in columns and return them as lines.

    Parameters
    ----------
    width
        The most characters of a line; None for no limit. The widest columns are narrowed first, none below a dozen
        characters.
    wrapped
        Wrap long cells onto further lines instead of cutting them.
    """
    if width is not None:
        rows = _fitted(rows, width, wrapped=wrapped)
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)
    return [line.rstrip() for line in text.splitlines()]


def _fitted(rows: Sequence[Sequence[str]], width: int, *, wrapped: bool) -> list[list[str]]:
    widths = [max(map(_visible, column)) for column in zip(*rows, strict=True)]
    left = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > left and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    return [
        [
            cell if _visible(cell) <= most else _shortened(cell, most, wrapped=wrapped)
            for cell, most in zip(row, widths, strict=True)
        ]
        for row in rows
    ]


def _visible(cell: str) -> int:
    return len(_COLOUR.sub("", cell))


def _shortened(cell: str, width: int, *, wrapped: bool) -> str:
    return "\n".join(wrap(cell, width)) if wrapped else f"{cell[: width - 1]}…"


def indented(rows: Sequence[Sequence[str]], *, wide: bool = False) -> list[str]:
    """Return rows as indented lines; long cells are wrapped unless ``wide``."""
    return [f"  {line}" for line in aligned(rows, None if wide else _WIDTH, wrapped=True)]


def number(value: float) -> str:
    """Format a score with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def explain(answer: PodResult, *, wide: bool = False) -> str:
    """Describe the outcome for a pod, the score of every feasible node (best first), and why the others are infeasible.

    Parameters
    ----------
    wide
        Show every node in a row of its own.
    """
    decision = answer.decision
    became = f"goes to {answer.node}" if answer.node else f"waits ({decision.outcome.value})"
    became += f", {', '.join(answer.cards)}" if answer.cards else ""
    gates = answer.pod.spec.scheduling_gates
    if gates:
        removed = "its scheduling gate is removed" if len(gates) == 1 else "its scheduling gates are removed"
        lines = [f"{answer.pod.key} is not tried until {removed}: {', '.join(gates)} (spec.schedulingGates)"]
        lines += (
            [f"  Without them, it {became}."] if decision.placement or decision.verdicts or decision.reasons else []
        )
    else:
        lines = [f"{answer.pod.key} {became}"]
    if decision.message:
        lines.append(f"  {decision.message}")
    if answer.after:
        lines.append(f"  {answer.after}")
    if decision.near_miss is not None:
        lines.append(f"  {decision.near_miss}")
    if decision.placement is not None:
        volumes = decision.placement.volumes
        lines += [f"  claim {claim} gets volume {volume}" for claim, volume in sorted(volumes.matched.items())]
        lines += [f"  claim {claim} has a volume made for {answer.node}" for claim in sorted(volumes.provisioned)]
    lines += [f"  {section} by {source}" for section, source in sorted(shown_sources(answer.sources).items())]
    lines += [f"  warning: {warning}" for warning in decision.warnings]
    unscored = "no scorer is on" if decision.preemption is None else "not scored: other pods have to end there first"
    fitting = [
        (node, number(sum(part.value for part in parts if not part.within)), _reckoned(parts) or unscored)
        for node, parts in _best_first(decision.scores, answer.node)
    ]
    others = _unfit(decision.verdicts, single=wide or len(decision.verdicts) <= _MOST_UNFIT)
    if fitting or others:
        rows = [_HEAD, *(fitting if wide else _cut(fitting)), *(others if wide else _cut(others))]
        lines += indented(rows, wide=wide)
    return "\n".join(lines)


def _unfit(verdicts: Mapping[str, NodeVerdict], *, single: bool) -> list[Row]:
    """Return a row for each infeasible node or, unless ``single``, for each reason, the most frequent first."""
    if single:
        return [(node, "-", readable(verdict.detail)) for node, verdict in sorted(verdicts.items())]
    nodes_by_reasons: dict[str, list[str]] = {}
    for node, verdict in sorted(verdicts.items()):
        nodes_by_reasons.setdefault(verdict.text or verdict.detail, []).append(node)
    groups = sorted(nodes_by_reasons.items(), key=lambda group: (-len(group[1]), group[0]))
    return [(few(nodes), "-", reasons) for reasons, nodes in groups]


def readable(detail: str) -> str:
    """Return a node's verdict, with an explanation where it counts more pieces than the node has cards."""

    def with_counts(found: re.Match[str]) -> str:
        pieces, cards = int(found[1]), int(found[2])
        if pieces <= cards:
            return found[0]
        have = "has" if pieces == 1 else "have"
        return f"{found[0]} ({counted(pieces, 'piece')} {have} a place on {counted(cards, 'card')})"

    return _TOO_FEW.sub(with_counts, detail)


def few(names: Sequence[str], of_what: str = "nodes") -> str:
    """Name the first few nodes, or other things, with the total if there are more."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{len(names)} {of_what}: {', '.join(names[:_MOST_NAMES])}, …"


def rank(parts: Sequence[ScorePart]) -> float:
    """Return the sum by which nodes are ranked: normalised, since HAMi's spread prefers the lowest raw score."""
    return sum(part.normalised * part.weight for part in parts if not part.within)


def _best_first(scores: Mapping[str, tuple[ScorePart, ...]], chosen: str) -> list[tuple[str, tuple[ScorePart, ...]]]:
    return sorted(scores.items(), key=lambda entry: (entry[0] != chosen, -rank(entry[1]), entry[0]))


def _reckoned(parts: Sequence[ScorePart], within: str = "") -> str:
    """Write the score of a node, or of a part of it, as a sum, each part followed by what it is made of."""
    words = []
    for part in parts:
        if part.within == within:
            made_of = _reckoned(parts, part.scorer)
            words.append(_format_score_part(part) + (f" [{made_of}]" if made_of else ""))
    return " + ".join(words)


def _format_score_part(part: ScorePart) -> str:
    raw, of_hundred = number(part.raw), number(part.normalised)
    words = f"{part.scorer} {raw}" + (f" ({of_hundred} of 100)" if of_hundred != raw else "")
    return words + (f" x {part.weight}" if part.weight != 1 else "")


def _cut(rows: Sequence[Row]) -> list[Row]:
    more = len(rows) - _MOST_ROWS
    return [*rows[:_MOST_ROWS], *([(f"and {more} more", "", "")] if more > 0 else [])]
