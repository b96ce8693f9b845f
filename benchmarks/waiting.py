"""What a freed card costs while many pods wait that all ask for something else, without any I/O.

``python -m benchmarks.waiting`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.checkouts import OURS, Checkout, Compared, Step, arguments, checkouts, comparison, replayed
from benchmarks.cluster import CARDS, registered_node
from benchmarks.page import publish
from benchmarks.replay import NAME, Samples

MARK: Final = "<!-- waiting -->"
NODES: Final = 5000
PODS: Final = (32, 200, 2000)
"""How many pods wait."""
TURNS: Final = 2
"""Turns of each checkout, where there are several."""
_USED: Final = 61_920
"""MiB of each card that a pod holds which has all cards of its node."""
_LEAST: Final = 21_000
"""MiB that the pod asks for that asks for least, more than is free of any card."""
FREED: Final = 200
"""Nodes whose cards become free within a second."""
COLUMNS: Final = (
    ("first", "first attempt", "ms"),
    ("placed", "a node is freed: until the first is placed", "ms"),
    ("rest", "until all know", "ms"),
    ("burst", f"{FREED} nodes in a second", "s"),
)
"""The figures: their name, the head of their column, and their unit."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What it costs while so many pods wait.

    Attributes
    ----------
    pods
        How many wait, each for another amount.
    first
        Milliseconds of CPU to find that one of them fits nowhere.
    placed
        Milliseconds of CPU from the moment that the cards of a node become free until a pod is placed on one.
    rest
        Milliseconds of CPU until all others know that there is nothing for them.
    burst
        Seconds of CPU for :data:`FREED` nodes, of which the cards become free in one second.
    """

    pods: int
    first: float
    placed: float
    rest: float
    burst: float


def _pod(name: str, memory: int, cards: int = 1) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory)}
    spec = {
        "schedulerName": NAME,
        "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def steps(pods: int) -> Iterator[Step]:
    """Yield what happens on a cluster of which all cards are in use, while so many pods wait."""
    for number in range(NODES):
        yield "observe", "Node", registered_node(number, NODES)
    for number in range(NODES):
        yield "observe", "Pod", _pod(f"holder-{number}", _USED, len(CARDS))
        yield "place", ""
    yield "tick", 1.0
    for number in range(pods):
        yield "observe", "Pod", _pod(f"waits-{number}", _LEAST + number)
    yield "reject", "first"
    yield "tick", 99.0  # longer than any back-off, and not so long that all are tried anew
    yield "remove", "holder-0", "placed"
    yield "place", "placed"
    yield "drain", "rest"
    for number in range(1, FREED + 1):
        yield "tick", 1.0 / FREED
        yield "remove", f"holder-{number}", "burst"
        yield "units", "burst", len(CARDS)
    yield "drain", "burst"


def _read(pods: int, samples: Samples) -> Waiting:
    first, placed, rest, burst = (sum(cpu for _, cpu in samples[name]) for name, _, _ in COLUMNS)
    return Waiting(pods, 1e3 * first / pods, 1e3 * placed, 1e3 * rest, burst)


def measure(candidates: Sequence[Checkout] = (OURS,)) -> tuple[list[Waiting], list[Compared]]:
    """Measure; return what it costs with this checkout, and how others compare."""
    found, compared = [], []
    for pods in PODS:
        all_turns = replayed(steps(pods), candidates, TURNS)
        turns = {name: [_read(pods, samples) for samples in each] for name, each in all_turns.items()}
        ours = turns[OURS.name]
        found.append(Waiting(pods, *(statistics.mean(getattr(turn, name) for turn in ours) for name, _, _ in COLUMNS)))
        for name, what, unit in COLUMNS if len(candidates) > 1 else ():
            figures = ([getattr(turn, name) for turn in turns[each.name]] for each in candidates)
            compared.append(Compared(f"{pods:,} pods wait: {what}", unit, *figures))
    return found, compared


def text(found: Sequence[Waiting]) -> str:
    """Return the table in Markdown."""
    lines = [
        f"| pods that wait, {NODES:,} nodes × {len(CARDS)} cards | {' | '.join(what for _, what, _ in COLUMNS)} |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.pods:,} | {each.first:.1f} ms | {each.placed:.1f} ms | {each.rest:,.0f} ms | {each.burst:.2f} s |"
        for each in found
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    found, compared = measure(checkouts(arguments("benchmarks.waiting", __doc__)))
    publish(MARK, text(found))
    print("\n".join(comparison(compared)))


if __name__ == "__main__":
    main()
