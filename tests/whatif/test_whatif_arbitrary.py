"""Manifests that somebody mistyped: each is placed, told or refused, and none crashes what reads it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml
from tests.fuzz.mutating import applied, random_edits
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.whatif import (
    WORKLOADS,
    World,
    WorldError,
    ask,
    claims_of,
    flatten,
    make_dialect,
    pods_of,
    remedies,
    unknown_fields,
)

MOST = 20_000
MANIFESTS: list[dict[str, Any]] = [
    pod("p", {GPU: 1, MEMORY: 4000, CORES: 10, "cpu": "2"}, nodeSelector={"pool": "x"}, tolerations=[{"key": "k"}]),
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"app": "d"}},
        "spec": {
            "replicas": 2,
            "template": {
                "metadata": {"annotations": {"nvidia.com/use-gputype": "A100"}},
                "spec": {**pod("t", {GPU: 2})["spec"], "affinity": {"nodeAffinity": {}}},
            },
        },
    },
    {
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {
            "template": {"spec": pod("t", {GPU: 1})["spec"]},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}],
        },
    },
    node("another"),
    {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {f"limits.{MEMORY}": "9"}},
    },
    {"kind": "ClusterVGPUPolicy", "metadata": {"name": "c"}, "spec": {"limits": {"memoryPerPod": "4Gi"}}},
]


def cluster() -> World:
    made = World([make_dialect("hami")])
    made.add([node("a"), running("r", "a", "GPU-a-0", 4000)])
    return made


def read(text: bytes) -> Any:
    """Read a manifest as JSON, else as YAML; what is neither is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def attempt(world: World, manifest: Any) -> str:
    """Do with a manifest what the commands do; return what became of it."""
    objects = list(flatten([manifest]))
    world.add(obj for obj in objects if obj.get("kind") not in WORKLOADS)
    found = "taken in"
    for workload in objects:
        if workload.get("kind") not in WORKLOADS:
            continue
        world.make_claims(claims_of(workload))
        for written in pods_of(workload)[:2]:
            list(unknown_fields(written))
            asked = world.pod(written)
            list(world.engine.suspicions.of_pod(asked))
            found = ask(world, asked).decision.outcome.value
            if found != "placed":
                remedies(world, asked)
    return found


@pytest.mark.parametrize("part", range(10))
def test_mutated_manifests(part: int) -> None:
    chance = random.Random(part)
    world, became = cluster(), set()
    for number in range(1000):
        if number % 100 == 0:
            world = cluster()
        manifest = read(applied(json.dumps(chance.choice(MANIFESTS)).encode(), random_edits(chance), MOST))
        if manifest is None:
            continue
        try:
            became.add(attempt(world, manifest))
        except (WorldError, RecursionError) as error:  # which the commands turn into one line
            became.add(type(error).__name__)
    assert {"placed", "taken in", "WorldError"} <= became
