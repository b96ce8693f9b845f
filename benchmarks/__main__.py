"""Runs all benchmarks and writes their table to docs/performance.md."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from pathlib import Path

from benchmarks import decisions, policies, throughput, topology

TARGET = Path(__file__).parents[1] / "docs" / "performance.md"
MARK = "<!-- measured -->"


def table() -> str:
    """Measure, and return the tables in Markdown."""
    lines = [f"Measured on {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.", ""]
    lines += ["| decision on nodes with 8 cards | nodes | p50 | p99 |", "|---|---|---|---|"]
    for timing in [found for nodes in (1000, 5000) for found in decisions.measure(nodes)]:
        lines.append(f"| {timing.kind} | {timing.nodes:,} | {timing.p50:,.0f} µs | {timing.p99:,.0f} µs |")
    lines += ["", f"| what is in force: {policies.POLICIES} policies, {policies.PODS:,} pods | per pod |", "|---|---|"]
    lines += [f"| {cost.what} | {cost.mean:.1f} µs |" for cost in policies.measure()]
    lines += ["", "| a pod whose cards are chosen by their links, by the hardest number of them | asks | decision |"]
    lines += ["|---|---|---|"]
    linked = list(topology.measure())
    lines += [f"| {found.what} | {found.wanted} | {found.worst:.2f} ms |" for found in linked]
    slow = [found.what for found in linked if found.worst > topology.AIM]
    if slow:
        raise SystemExit(f"more than {topology.AIM:.0f} ms to decide: {', '.join(slow)}")
    results, _ = asyncio.run(throughput.measure())
    bare = results[0].rate
    lines += ["", f"| end to end, {throughput.NODES} nodes, {throughput.ROUND} pods | pods/s | of bare Bindings |"]
    lines += ["|---|---|---|"]
    lines += [f"| {found.what} | {found.rate:,.0f} | {found.rate / bare:.2f} |" for found in results]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    measured = table()
    sys.stdout.write(measured + "\n")
    head, _, rest = TARGET.read_text().partition(MARK)
    tail = rest.partition(MARK)[2]
    TARGET.write_text(f"{head}{MARK}\n\n{measured}\n\n{MARK}{tail}")


if __name__ == "__main__":
    main()
