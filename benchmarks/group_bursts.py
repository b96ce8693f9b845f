"""How long a burst of groups takes on a real API server until all are bound, beside kube-scheduler with its gangs.

``python -m benchmarks.group_bursts`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.apiserver.pod_groups import API_FLAGS, FEATURES, VERSION

from benchmarks.checkouts import in_turns
from benchmarks.cluster import PODS, BenchmarkCluster, cluster, pod
from benchmarks.page import publish
from benchmarks.throughput import Candidate, KubeScheduler, Scheduler, create, until_bound
from vgpu_devcluster.process import OperatorProcess

MARK: Final = "<!-- group bursts -->"
NODES: Final = 500
GROUPS: Final = 100
MEMBERS: Final = 16
TURNS: Final = 2
"""Turns of each scheduler, for groups and for pods without one."""
POD_GROUPS: Final = f"/apis/{VERSION}/namespaces/default/podgroups"
TOGETHER, ALONE = f"{GROUPS} groups of {MEMBERS} plain pods", f"{GROUPS * MEMBERS:,} plain pods without a group"


def member(name: str, scheduler: str, group: str) -> dict[str, Any]:
    """Return a plain pod of a group; of none without a name."""
    found = pod(name, scheduler, {})
    if group:
        found["spec"]["schedulingGroup"] = {"podGroupName": group}
    return found


async def burst(found: BenchmarkCluster, each: Scheduler, prefix: str, *, together: bool) -> float:
    """Have pods wait, start a scheduler, and return the seconds from the first of them that is bound to the last."""
    groups = [f"{prefix}-{number}" for number in range(GROUPS)]
    if together:
        policy = {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}}
        await create(found.http, [(POD_GROUPS, {"metadata": {"name": name}, "spec": policy}) for name in groups])
    members = [(group, f"{group}-{number}") for group in groups for number in range(MEMBERS)]
    pods = [(PODS, member(name, each.scheduler, group if together else "")) for group, name in members]
    await create(found.http, pods)
    async with each.running():
        first, _, last = await until_bound(each.look, prefix, len(pods), pause=0.05)
    return last.at - first.at


async def measure() -> dict[tuple[str, str], list[float]]:
    """Return the seconds of every turn, by what was bound and by whom."""
    seconds: dict[tuple[str, str], list[float]] = {}
    async with cluster(NODES, api_flags=API_FLAGS) as found:
        ours = Candidate("", OperatorProcess(found.plane.kubeconfig(), found.folder / "operator.log"))
        for number, each in enumerate(in_turns([ours, KubeScheduler(found.plane, FEATURES)], TURNS)):
            for what in (ALONE, TOGETHER):
                took = await burst(found, each, f"t{number}-{len(what)}", together=what == TOGETHER)
                seconds.setdefault((what, each.name), []).append(took)
    return seconds


def table(seconds: Mapping[tuple[str, str], Sequence[float]]) -> str:
    """Return the table of the page."""
    lines = [f"| a burst on {NODES} nodes, from the first pod bound to the last | s |", "|---|---:|"]
    for (what, whose), took in seconds.items():
        lines.append(f"| {what}{f', {whose}' if whose else ''} | {statistics.mean(took):.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    publish(MARK, table(asyncio.run(measure())))


if __name__ == "__main__":
    main()
