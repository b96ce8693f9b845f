"""Manifests that somebody mistyped: each is placed, told or refused, and none crashes what reads it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.fuzz.mutating import applied, random_edits
from tests.seeds import seeds
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running
from tests.whatif.workloads import EVERY

from vgpu_scheduler.cli import main
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import (
    InvalidObjectsError,
    World,
    ask,
    flatten,
    is_workload,
    made_by,
    make_dialect,
    remedies,
    unknown_fields,
)

MOST = 20_000
_WORKLOADS = 3 + len(EVERY)
"""How many of the manifests are workloads."""
MANIFESTS: list[dict[str, Any]] = [  # workloads first
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
    *EVERY.values(),
    node("another"),
    {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {f"limits.{MEMORY}": "9"}},
    },
    {"kind": "ClusterVGPUPolicy", "metadata": {"name": "c"}, "spec": {"limits": {"memoryPerPod": "4Gi"}}},
]


def cluster() -> World:
    made = World(EngineOptions([make_dialect("hami")]))
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
    world.add(obj for obj in objects if not is_workload(obj))
    found = "taken in"
    for workload in objects:
        if not is_workload(workload):
            continue
        made = made_by(workload)
        world.make_volume_claims(made.claims)
        world.add(made.groups)
        for written in made.pods[:2]:
            list(unknown_fields(written))
            asked = world.pod(written)
            list(world.engine.request_warnings.of_pod(asked))
            found = ask(world, asked).decision.outcome.value
            if found != "placed":
                remedies(world, asked)
    return found


def mutated(chance: random.Random, number: int) -> Iterator[Any]:
    """Yield so many mutated manifests that can still be read, half of them workloads."""
    while number:
        original = chance.choice(chance.choice((MANIFESTS[:_WORKLOADS], MANIFESTS[_WORKLOADS:])))
        manifest = read(applied(json.dumps(original).encode(), random_edits(chance), MOST))
        if manifest is not None:
            number -= 1
            yield manifest


@pytest.mark.long
@pytest.mark.parametrize("part", seeds(2, 10))
def test_mutated_manifests(part: int) -> None:
    chance = random.Random(part)
    world, became = cluster(), set()
    for number, manifest in enumerate(mutated(chance, 400)):
        if number % 100 == 0:
            world = cluster()
        try:
            became.add(attempt(world, manifest))
        except (InvalidObjectsError, RecursionError) as error:  # which the commands turn into one line
            became.add(type(error).__name__)
    assert {"placed", "taken in", "InvalidObjectsError"} <= became


@pytest.mark.long
@pytest.mark.parametrize("part", seeds(5, 10))
def test_commands_end_with_an_answer_or_an_error_whatever_their_files_hold(part: int, tmp_path: Path) -> None:
    objects = [node("a"), running("r", "a", "GPU-a-0", 4000), pod("waits", {GPU: 1, MEMORY: 99_999})]
    around, odd, asked = (tmp_path / f"{name}.yaml" for name in ("cluster", "odd", "asked"))
    around.write_text(json.dumps({"kind": "List", "items": objects}))
    asked.write_text(json.dumps(pod("asked", {GPU: 1})))
    both = ["--cluster", str(around), "--cluster", str(odd)]
    ended: Counter[int] = Counter()
    for manifest in mutated(random.Random(100 + part), 10):
        odd.write_text(json.dumps(manifest, default=str))
        for command in (
            ["simulate", "-f", str(odd), "--cluster", str(around), "--explain"],
            ["simulate", "-f", str(asked), *both, "-o", "json"],
            ["explain", "waits", *both],
            ["top", "pods", *both],
            ["defrag", *both],
            ["defrag", "--for", "waits", *both],
        ):
            result = CliRunner().invoke(main, command)
            assert isinstance(result.exception, SystemExit | None), (command, manifest, result.exception)
            ended[result.exit_code] += 1
    assert set(ended) <= {0, 1, 2}
