"""What pods and quotas hardly mean, in two columns: what a cluster does about it, and what is said offline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import run
from tests.engine.builders import cards, engine_with, node

from vgpu_scheduler.engine import ObservationSignals
from vgpu_scheduler.kube import Pod, decode_pod, decode_quota
from vgpu_scheduler.model import ConditionReason, Decision, EventReason
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.telemetry import Metrics

CLUSTER = Path(__file__).parents[1] / "whatif" / "cluster.yaml"
WARNING, SUSPICIOUS, REFUSED = (
    EventReason.POLICY_WARNING,
    EventReason.SUSPICIOUS_REQUEST,
    ConditionReason.SCHEDULER_ERROR,
)
GPU = {"nvidia.com/gpu": "1"}


@dataclass(frozen=True)
class Case:
    """An input, and what is said about it.

    Attributes
    ----------
    cluster
        The reason of the event, or of the condition where the pod is refused; None where the API server has said it.
    says
        The text of both.
    """

    title: str
    cluster: EventReason | ConditionReason | None
    says: str
    limits: Mapping[str, str] = field(default_factory=lambda: GPU)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pod(self) -> dict[str, Any]:
        """The pod as it is written."""
        containers = [{"name": "main", "image": "example", "resources": {"limits": dict(self.limits)}}]
        metadata = {"name": "p", "namespace": "default", "annotations": dict(self.annotations)}
        return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **self.spec}}


WHOLE = "150 is more than a whole card, and counts as 100"
CASES = [
    Case(
        "a field one letter off",
        None,
        "spec.schedularName: there is no such field, and it has no effect, did you mean schedulerName?",
        spec={"schedularName": "x"},
    ),
    Case(
        "more cores than a card has",
        SUSPICIOUS,
        f"container main: nvidia.com/gpucores: {WHOLE}",
        {**GPU, "nvidia.com/gpucores": "150"},
    ),
    Case(
        "more memory than a card has",
        SUSPICIOUS,
        f"container main: nvidia.com/gpumem-percentage: {WHOLE}",
        {**GPU, "nvidia.com/gpumem-percentage": "150"},
    ),
    Case(
        "no card, but memory of one",
        SUSPICIOUS,
        "container main: nvidia.com/gpu is 0, so it gets no card, whatever else it asks (nvidia.com/gpumem)",
        {"nvidia.com/gpu": "0", "nvidia.com/gpumem": "1024"},
    ),
    Case(
        "a resource one letter off",
        SUSPICIOUS,
        "container main: there is no device resource nvidia.com/gpumen, did you mean nvidia.com/gpumem?",
        {**GPU, "nvidia.com/gpumen": "1024"},
    ),
    Case(
        "an annotation one letter off",
        SUSPICIOUS,
        "annotation nvidia.com/use-gputyp has no effect, did you mean nvidia.com/use-gputype?",
        annotations={"nvidia.com/use-gputyp": "A100"},
    ),
    Case(
        "a resource as annotation",
        SUSPICIOUS,
        "annotation nvidia.com/gpumem has no effect: it is a resource, and belongs in the limits of a container",
        annotations={"nvidia.com/gpumem": "1024"},
    ),
    Case(
        "a policy that is not known",
        WARNING,
        "annotation hami.io/node-scheduler-policy: 'binpak' is unknown, binpack is used",
        annotations={"hami.io/node-scheduler-policy": "binpak"},
    ),
    Case(
        "none of the memory of a card in percent",
        SUSPICIOUS,
        "container main: nvidia.com/gpumem-percentage: 0 is not an amount, so it gets a whole card, unless a "
        "policy has",
        {**GPU, "nvidia.com/gpumem-percentage": "0"},
    ),
    Case(
        "an amount of memory and a percentage",
        SUSPICIOUS,
        "container main: nvidia.com/gpumem-percentage has no effect beside nvidia.com/gpumem",
        {**GPU, "nvidia.com/gpumem": "1000", "nvidia.com/gpumem-percentage": "50"},
    ),
    Case(
        "a priority of the plugin that there is not",
        SUSPICIOUS,
        "container main: nvidia.com/priority: 5 is not one of 0, 1: only the plugin knows its meaning",
        {**GPU, "nvidia.com/priority": "5"},
    ),
    Case(
        "a boolean that is none",
        WARNING,
        "annotation nvidia.com/numa-bind: 'yes' is not a boolean, and counts as false: write true or false",
        annotations={"nvidia.com/numa-bind": "yes"},
    ),
    Case(
        "a mode of sharing that there is not",
        REFUSED,
        "ModeNotFit: annotation nvidia.com/vgpu-mode: 'mgi' names no mode: write hami-core, mig or mps",
        annotations={"nvidia.com/vgpu-mode": "mgi"},
    ),
    Case(
        "a mode of sharing that there is not, beside one that there is",
        WARNING,
        "annotation nvidia.com/vgpu-mode: 'hami-core,mgi' has unknown words 'mgi', and counts as hami-core",
        annotations={"nvidia.com/vgpu-mode": "hami-core,mgi"},
    ),
    Case(
        "a gang",
        SUSPICIOUS,
        "annotation scheduling.k8s.io/group-name names a PodGroup, a kind that the API server does not serve: "
        "pods of this",
        annotations={"scheduling.k8s.io/group-name": "g"},
    ),
    Case(
        "an amount of twenty digits",
        REFUSED,
        'container "main": nvidia.com/gpumem: 12345678901234567890 is more than any node has',
        {**GPU, "nvidia.com/gpumem": "12345678901234567890"},
    ),
    Case(
        "a fraction",
        REFUSED,
        'container "main": nvidia.com/gpumem: 1500m is not a whole number: write an integer',
        {**GPU, "nvidia.com/gpumem": "1500m"},
    ),
]


@dataclass
class ConditionRemedies:
    """Plays clock, binder and reporter, and remembers what was said about pods."""

    said: list[tuple[object, str]] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def submit(self, *decisions: Decision) -> None:
        """Take a placement."""

    def adopt_unless_new(self, *_: object) -> bool:
        return True

    def tick(self, _: object) -> None:
        """Take note of the time."""

    def warning(self, pod: Pod, message: str, reason: EventReason = EventReason.POLICY_WARNING) -> None:
        self.said.append((reason, message))

    def not_scheduled(self, pod: Pod, reason: ConditionReason, message: str, note: str = "") -> None:
        self.said.append((reason, message))


async def in_a_cluster(case: Case) -> list[tuple[object, str]]:
    """Return what events and conditions say."""
    metadata = {**case.pod["metadata"], "uid": "p", "resourceVersion": "1"}
    pod = {**case.pod, "metadata": metadata}
    pod["spec"] = {**pod["spec"], "schedulerName": "vgpu-scheduler"}
    engine, told = engine_with([node("a", cards("a", 1))], [decode_pod(pod)]), ConditionRemedies()
    loop = SchedulingLoop(engine, DecisionHandlers(told, told, told), told, Metrics().attempts, ObservationSignals())  # type: ignore[arg-type]
    task = asyncio.create_task(loop.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return told.said


def offline(tmp_path: Path, case: Case) -> tuple[str, str]:
    """Return what ``simulate`` prints: the answer, and beside it."""
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(case.pod))
    found = run("simulate", "-f", str(file), "--cluster", str(CLUSTER))
    return found.stdout, found.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
async def test_what_is_hardly_meant_is_said_in_a_cluster_and_offline(tmp_path: Path, case: Case) -> None:
    told = [(reason, text) for reason, text in await in_a_cluster(case) if case.says in text]
    assert [reason for reason, _ in told] == [case.cluster] * bool(case.cluster)
    stdout, stderr = offline(tmp_path, case)
    assert case.says in (stdout if case.cluster is REFUSED else stderr)


@pytest.mark.parametrize(
    ("key", "limit", "says"),
    [
        (
            "limits.nvidia.com/gpumen",
            "1024",
            "there is no such limit on devices, did you mean limits.nvidia.com/gpumem?",
        ),
        ("limits.nvidia.com/gpumem", "8Gi", "8Gi counts as 8589934592 MiB, as HAMi reads it: write 8192"),
        ("limits.nvidia.com/gpucores", "1Ki", "1Ki counts as 1024 percent, as HAMi reads it: write 1024"),
        ("limits.metax-tech.com/vmemory", "500k", "500k is less than 1 MiB, and counts as 0"),
        ("limits.nvidia.com/gpu", "4", "limits nothing: write requests.nvidia.com/gpu"),
        ("nvidia.com/gpumem", "8192", "limits nothing: write limits.nvidia.com/gpumem"),
    ],
)
async def test_a_quota_that_limits_otherwise_than_it_looks_is_told_in_a_cluster_and_offline(
    tmp_path: Path, key: str, limit: str, says: str
) -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {key: limit}},
    }
    [problem] = engine_with([node("a", cards("a", 1))], []).quota_limits.observe(decode_quota(quota))
    assert (problem.reason, says in problem.message) == (EventReason.QUOTA_SUSPICIOUS, True)
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all([quota, Case("plain", None, "").pod]))
    assert says in run("simulate", "-f", str(file), "--cluster", str(CLUSTER)).stderr
