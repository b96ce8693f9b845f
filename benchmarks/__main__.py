"""Runs all benchmarks and writes their tables, and what they come to, to docs/performance.md."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import (
    decisions,
    evicting,
    footprint,
    group_bursts,
    group_packing,
    groups,
    latency,
    packing,
    policies,
    preemption,
    reasons,
    scale,
    slice_time,
    throughput,
    topology,
    waiting,
)
from benchmarks.checkouts import OURS, Checkout, Compared, arguments, checkouts, comparison
from benchmarks.page import publish

MARK = "<!-- measured -->"
COMPARED = "<!-- compared -->"


@dataclass(frozen=True, slots=True)
class Aim:
    """What is aimed at, and what the run came to."""

    what: str
    measured: str
    met: bool


@dataclass(frozen=True, slots=True)
class Run:
    """All that one run measured."""

    timings: Sequence[decisions.Timing]
    costs: Sequence[policies.Cost]
    linked: Sequence[topology.Decision]
    ends: Sequence[throughput.Throughput]
    idle: latency.Latencies
    slices: slice_time.SliceTime
    large: Sequence[footprint.Footprint]
    waiting: Sequence[waiting.Waiting]
    told: dict[str, list[reasons.Told]]
    compared: Sequence[Compared]
    """How this checkout compares with another one, if there is one."""

    @property
    def bare_rate(self) -> float:
        """Bare Bindings per second."""
        return next(found.rate for found in self.ends if found.whose == throughput.BARE)


def measure(candidates: Sequence[Checkout]) -> Run:
    """Measure everything."""
    small, compared = decisions.measure(1000, candidates)
    large, more = decisions.measure(5000, candidates)
    waits, of_waits = waiting.measure(candidates)
    costs, linked = list(policies.measure()), list(topology.measure())
    ends, idle = asyncio.run(throughput.measure(candidates)), asyncio.run(latency.measure(candidates))
    slices, of_slices = asyncio.run(slice_time.measure(idle.steps, candidates))
    size, told = asyncio.run(footprint.measure(candidates)), asyncio.run(reasons.measure(candidates))
    compared += [*more, *of_waits, *throughput.compared(ends), *latency.compared(idle), *of_slices]
    compared += [*footprint.compared(size), *reasons.compared(told)]
    return Run([*small, *large], costs, linked, ends, idle, slices, size, waits, told, compared)


def aims(run: Run) -> list[Aim]:
    """Hold a run against what is aimed at."""
    repeated = {found.nodes: found for found in run.timings if found.kind == decisions.REPEATED}
    terms = next(found for found in run.timings if found.kind == decisions.WITH_TERMS and found.nodes == 5000)
    small, large = repeated[1000], repeated[5000]
    growth = large.p50 / small.p50
    hardest = max(found.worst for found in run.linked)
    bare = run.bare_rate
    ours = {found.what: found for found in run.ends if not found.whose}
    theirs = {found.what: found for found in run.ends if found.whose == throughput.KubeScheduler.name}
    new_terms = next(t for t in run.timings if t.kind == decisions.NEW_WITH_TERMS and t.nodes == 5000)
    many = ours[throughput.PLAIN_ON_MANY]
    few_ratio = ours[throughput.PLAIN].rate / theirs[throughput.PLAIN].rate
    many_ratio = many.rate / theirs[throughput.PLAIN_ON_MANY].rate
    plain, slices = ours[throughput.PLAIN], ours[throughput.SLICES]
    size = footprint.mean_of(run.large, OURS.name)
    waits = {found.what: found.p50 for found in run.idle.found if not found.whose}
    crowd = max(run.waiting, key=lambda found: found.pods)
    told, told_there = (reasons.mean_of(run.told[name]) for name in (OURS.name, throughput.KubeScheduler.name))
    return [
        Aim(
            "a repeated class at 5,000 nodes × 8 cards: p50 < 250 µs, p99 < 1 ms",
            f"{large.p50:,.0f} and {large.p99:,.0f} µs",
            large.p50 < 250 and large.p99 < 1000,
        ),
        Aim("the same with inter-pod terms: p50 < 500 µs", f"{terms.p50:,.0f} µs", terms.p50 < 500),
        Aim("a new class with them: p50 < 8 ms", f"{new_terms.p50 / 1000:.1f} ms", new_terms.p50 < 8000),
        Aim(
            f"cards by their links, the hardest decision: {topology.AIM:.0f} ms",
            f"{hardest:.2f} ms",
            hardest <= topology.AIM,
        ),
        Aim("from 1,000 to 5,000 nodes it grows less than 1.5 times", f"{growth:.2f} times", growth < 1.5),
        Aim("slices with a node lock: 170 a second", f"{slices.rate:,.0f} a second", slices.rate >= 170),
        Aim("the operator's CPU per slice: 2.0 ms", f"{slices.cpu_per_pod:.1f} ms", slices.cpu_per_pod <= 2.0),
        Aim("the operator's CPU per plain pod: 0.8 ms", f"{plain.cpu_per_pod:.1f} ms", plain.cpu_per_pod <= 0.8),
        Aim(
            "an idle cluster binds a plain pod: p50 < 8 ms", f"{waits[latency.PLAIN]:.1f} ms", waits[latency.PLAIN] < 8
        ),
        Aim(
            "an idle cluster binds a slice: p50 < 12 ms", f"{waits[latency.SLICES]:.1f} ms", waits[latency.SLICES] < 12
        ),
        Aim(
            "plain pods: most of what bare Binding calls reach",
            f"{plain.rate:,.0f} a second, {plain.rate / bare:.2f} of them",
            plain.rate > bare / 2,
        ),
        Aim("plain pods beside kube-scheduler, 500 nodes: 1.1 times", f"{few_ratio:.2f} times", few_ratio >= 1.1),
        Aim("plain pods beside kube-scheduler, 5,000 nodes: 1.7 times", f"{many_ratio:.2f} times", many_ratio >= 1.7),
        Aim(
            "5,000 nodes, 20,000 pods: 350 MiB, 450 at most",
            f"{size.steady:,.0f}, {size.peak:,.0f} MiB",
            size.steady < 350 and size.peak < 450,
        ),
        Aim("the start there: 6 s", f"{size.start:.1f} s", size.start < 6),
        Aim(
            f"{crowd.pods:,} pods wait, a node is freed: < 50 ms of CPU until one is placed",
            f"{crowd.placed:.1f} ms",
            crowd.placed < 50,
        ),
        Aim(
            f"a burst of {reasons.BURST:,} pods that fit nowhere is told: p50 half of kube-scheduler's, all no later",
            f"{told.p50 / told_there.p50:.2f} and {told.last / told_there.last:.2f} of its",
            told.p50 <= told_there.p50 / 2 and told.last <= told_there.last,
        ),
    ]


def text(run: Run) -> str:
    """Return the tables in Markdown."""
    lines = [f"Measured on {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.", ""]
    lines += ["| aim | measured | |", "|---|---|---|"]
    lines += [f"| {aim.what} | {aim.measured} | {'met' if aim.met else '**missed**'} |" for aim in aims(run)]
    lines += ["", "| decision on nodes with 8 cards | nodes | p50 | p99 |", "|---|---|---|---|"]
    for timing in run.timings:
        lines.append(f"| {timing.kind} | {timing.nodes:,} | {timing.p50:,.0f} µs | {timing.p99:,.0f} µs |")
    lines += [
        "",
        f"| effective policies: {policies.POLICIES} policies, {policies.PODS:,} pods | per pod |",
        "|---|---|",
    ]
    lines += [f"| {cost.what} | {cost.mean:.1f} µs |" for cost in run.costs]
    lines += ["", "| a pod whose cards are chosen by their links, by the hardest number of them | asks | decision |"]
    lines += ["|---|---|---|"]
    lines += [f"| {found.what} | {found.wanted} | {found.worst:.2f} ms |" for found in run.linked]
    bare = run.bare_rate
    turns = f"turns of {throughput.PLAIN_ROUND:,} plain pods or {throughput.ROUND:,} slices"
    title = f"end to end, {throughput.NODES} nodes, {turns}"
    lines += ["", f"| {title} | pods/s | after a third | of bare Bindings | CPU per pod |", "|---|---|---|---|---|"]
    for found in run.ends:
        cpu = "" if found.whose == throughput.BARE else f"{found.cpu_per_pod:.2f} ms"
        what = f"{found.what} ({found.whose})" if found.whose else found.what
        late = f"{found.late_rate:,.0f}" if found.late_rate else ""
        lines.append(f"| {what} | {found.rate:,.0f} | {late} | {found.rate / bare:.2f} | {cpu} |")
    return "\n".join([*lines, "", *latency.table(run.idle)])


def main() -> None:
    """Measure and write."""
    run = measure(checkouts(arguments("benchmarks", __doc__)))
    publish(MARK, text(run))
    slice_time.write(run.slices)
    publish(footprint.MARK, footprint.text(run.large))
    publish(waiting.MARK, waiting.text(run.waiting))
    publish(reasons.MARK, reasons.text(run.told))
    if run.compared:
        publish(COMPARED, "\n".join(comparison(run.compared)))
    scale.main()
    preemption.main()
    groups.main()
    group_packing.main()
    group_bursts.main()
    evicting.main()
    if folder := os.environ.get(packing.DATA):
        packing.write(packing.measured(packing.Plan(folder), packing.say))
    else:
        print(f"packing skipped: {packing.DATA} does not name the folder of the trace openb")


if __name__ == "__main__":
    main()
