"""kube-scheduler's scores of nodes: the product, from columns and counts, against the naive twin, from all objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kube.objects import Obj, node, pod
from tests.naive import allocation as naive
from tests.seeds import seeds

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.scorers import AllocationRule, AllocationScorer, ImageLocalityScorer, NodeScorer, ScoredPod
from vgpu_scheduler.state import State

WEIGHTS = (("cpu", 2), ("ephemeral-storage", 1), ("example.com/foo", 5), ("memory", 1), ("none.com/none", 3))
SHAPE = [(10, 2), (50, 9), (80, 3)]
IMAGES = ["a", "a:1", "registry:5000/b", "registry:5000/b:latest", "c@sha256:00", "d:2", "huge:1"]
NO_FIT = FitColumns.empty(0)


def scores(state: State, obj: Obj, scorer: NodeScorer) -> dict[str, int]:
    """Return what the product says of every node."""
    spec, rows = decode_pod(obj).spec, state.nodes.rows()
    workload = ScoredPod(
        spec.requests, (), unrequested=spec.unrequested, images=spec.images, containers=len(spec.containers)
    )
    found = scorer.compile(workload).score(state, rows, NO_FIT)
    return {state.nodes.name(row): int(score) for row, score in zip(rows.tolist(), found.tolist(), strict=True)}


class Cluster:
    """A few nodes, and pods that come and go on them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.state = State({"hami": 3})
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self.version = 1

    def some(self, **fields: Any) -> dict[str, Any]:
        """Return about half of the fields."""
        return {name: value for name, value in fields.items() if self.rng.random() < 0.5}

    def one(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def amounts(self) -> dict[str, str]:
        return self.some(**{
            "cpu": self.one("0", "50m", "100m", "1", "2500m"), "memory": self.one("0", "1Mi", "300Mi", "1G", "3Gi"),
            "ephemeral-storage": self.one("1Gi", "5G"), "example.com/foo": self.one("1", "2"),
        })  # fmt: skip

    def container(self, **more: Any) -> Obj:
        return {"name": f"c{self.rng.integers(1 << 30)}", "image": self.one(*IMAGES),
                "resources": {"requests": self.amounts()}, **more}  # fmt: skip

    def pod(self, name: str) -> Obj:
        """Return a pod of some containers, with or without requests."""
        apps = [self.container() for _ in range(self.one(1, 1, 2))]
        first = [self.container(**self.some(restartPolicy="Always")) for _ in range(self.one(0, 0, 1, 2))]
        whole = {"requests": {"cpu": self.one("2", "4"), **self.some(memory="2Gi")}} if self.one(*range(5)) == 0 else {}
        obj = pod(*apps, name=name, initContainers=first, resources=whole, **self.some(overhead={"cpu": "10m"}))
        obj["spec"]["volumes"] = [{"name": "v", "image": {"reference": self.one(*IMAGES)}}] if self.one(0, 1) else []
        obj["metadata"] |= {"resourceVersion": str(self.version)}
        return obj

    def move(self) -> None:
        """Let a node come, change or go, or a pod come or go."""
        self.version += 1
        name = f"node-{self.rng.integers(5)}"
        match self.one(0, 1, 1, 2, 2, 2, 2, 3, 4):
            case 0:
                self.nodes.pop(name, None)
                self.state.remove_node(name)
            case 1:
                self._observe(name)
            case 2:
                obj = self.pod(f"p{self.version}")
                obj["spec"]["nodeName"] = name
                self.pods[obj["metadata"]["uid"]] = obj
                self.state.observe_pod(decode_pod(obj), {})
            case 3 if self.pods:
                uid = self.one(*sorted(self.pods))
                del self.pods[uid]
                self.state.remove_pod(uid)
            case _ if name in self.nodes:
                self._observe(name, self.nodes[name]["status"]["allocatable"])  # other images only

    def _observe(self, name: str, offered: dict[str, str] | None = None) -> None:
        obj = node(name)
        offers = {"cpu": self.one("2", "4"), "memory": self.one("2Gi", "10G"), "pods": "9"}
        obj["status"] = {
            "allocatable": offered or {**offers, **self.some(**{"example.com/foo": "4", "ephemeral-storage": "20Gi"})},
            "images": [
                {"names": [image, f"{image}x"], "sizeBytes": size}
                for image, size in zip(IMAGES, (10, 700 << 20, 0, 2000 << 20, 90 << 20, 23 << 20, 1 << 40), strict=True)
                if self.rng.random() < 0.5
            ],
        }
        obj["metadata"] |= {"uid": f"{name}-{self.version}", "resourceVersion": str(self.version)}
        self.nodes[name] = obj
        self.state.observe_node(decode_node(obj), {})


@pytest.mark.parametrize("part", seeds(1, 5))
def test_agrees_with_the_naive_twin(part: int) -> None:
    """Hundreds of clusters, each one move from the one before."""
    rng, weights, seen = np.random.default_rng(31 + part), dict(WEIGHTS), {}
    for _ in range(3):
        cluster = Cluster(rng)
        for _ in range(100):
            cluster.move()
            obj = cluster.pod("asks")
            nodes = list(cluster.nodes.values())
            there = {
                name: [other for other in cluster.pods.values() if other["spec"]["nodeName"] == name]
                for name in cluster.nodes
            }
            for rule, twin in {
                AllocationRule.LEAST: lambda *of: naive.least_allocated(*of, weights),
                AllocationRule.MOST: lambda *of: naive.most_allocated(*of, weights),
                AllocationRule.RATIO: lambda *of: naive.ratio(*of, weights, SHAPE),
                AllocationRule.BALANCED: lambda *of: naive.balanced(*of, sorted(weights)),
            }.items():
                expected = {name: twin(obj, each, there[name]) for name, each in cluster.nodes.items()}
                found = scores(cluster.state, obj, AllocationScorer(rule, WEIGHTS, tuple(SHAPE)))
                assert found == expected, rule
                seen.setdefault(rule.value, set()).update(found.values())
            expected = {name: naive.image_locality(obj, each, nodes) for name, each in cluster.nodes.items()}
            found = scores(cluster.state, obj, ImageLocalityScorer())
            assert found == expected
            seen.setdefault("images", set()).update(found.values())
    assert all(len(values) > 20 for values in seen.values()), {name: len(values) for name, values in seen.items()}


def test_equal_arguments_are_equal_scorers() -> None:
    one = AllocationScorer(AllocationRule.RATIO, (("memory", 2), ("cpu", 1)), ((100, 10), (0, 0)))
    assert one == AllocationScorer(AllocationRule.RATIO, (("memory", 2),))
    assert hash(one) == hash(AllocationScorer(AllocationRule.RATIO, (("memory", 2),)))
    assert one != AllocationScorer(AllocationRule.MOST, (("memory", 2),))


@pytest.mark.parametrize(("rule", "worth"), [(AllocationRule.LEAST, 60), (AllocationRule.MOST, 40)])
def test_managed_nodes_are_scored_by_what_they_offer(rule: AllocationRule, worth: int) -> None:
    """Resources that the node does not offer, or that nobody offers, count for nothing."""
    state = State({"hami": 3})
    obj = node("n")
    obj["status"]["allocatable"] = {"cpu": "10", "pods": "5"}
    state.observe_node(decode_node(obj), {})
    asked = pod({"name": "c", "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}}})
    weights = (("memory", 50), ("nvidia.com/gpu", 100), ("pods", 1000))
    assert scores(state, asked, AllocationScorer(rule, weights)) == {"n": worth}
