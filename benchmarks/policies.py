"""What policies cost: finding out what is in force for each of many pods, first and again, and after a change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.kube import Namespace, Pod, decode_pod
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, Policies, PolicyDefaults, decode_policy

POLICIES = 100
PODS = 10_000
NAMESPACES = 50
APPS = 40


@dataclass(frozen=True, slots=True)
class Cost:
    """What one kind of resolution costs per pod, in microseconds."""

    what: str
    mean: float


def policies() -> Policies:
    """Return 100 policies: half of them of the cluster, every one with a selector, all sections in use."""
    made = Policies(PolicyDefaults())
    for number in range(NAMESPACES):
        tier = "shared" if number % 2 else "own"
        made.catalogue.put_namespace(Namespace(f"ns-{number}", {"tier": tier, "team": f"t{number % 7}"}, 1))
    for number in range(POLICIES):
        spec: dict[str, Any] = {"priority": number, "selector": {"matchLabels": {"app": f"app-{number % APPS}"}}}
        sections: list[dict[str, Any]] = [
            {"nodes": {"scorers": [{"name": "fragmentation", "weight": 3}, {"name": "binpack"}]}},
            {"devices": {"policy": "binpack", "types": {"deny": ["T4"]}}},
            {"limits": {"memoryPerPod": "24Gi", "devicesPerPod": 2}, "defaults": {"memory": "4Gi"}},
            {"nodeSelector": {"matchLabels": {"pool": "shared"}}, "podOverrides": {"allow": ["devicePolicy"]}},
        ]
        section = sections[number % 4]
        metadata: dict[str, Any] = {"name": f"p-{number}", "uid": str(number), "resourceVersion": str(number + 1)}
        if number % 2:
            metadata["namespace"] = f"ns-{number % NAMESPACES}"
        else:
            spec["namespaceSelector"] = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
        kind = NAMESPACED_KIND if number % 2 else CLUSTER_KIND
        made.catalogue.put(decode_policy({"kind": kind, "metadata": metadata, "spec": spec | section}))
    return made


def pods() -> list[Pod]:
    """Return 10,000 pods of 2,000 workloads, each with a label of its own beside those that selectors ask about."""
    found = []
    for number in range(PODS):
        metadata = {
            "name": f"pod-{number}",
            "uid": f"uid-{number}",
            "namespace": f"ns-{number % NAMESPACES}",
            "labels": {"app": f"app-{number // NAMESPACES % APPS}", "statefulset.kubernetes.io/pod-name": f"p{number}"},
        }
        found.append(decode_pod({"metadata": metadata, "spec": {"containers": []}}))
    return found


def measure() -> list[Cost]:
    """Resolve all pods: for the first time, again, and after a policy changed."""
    made, asked = policies(), pods()

    def all_of_them() -> None:
        for pod in asked:
            made.resolve(pod)

    costs = [Cost("first time", _per_pod(all_of_them)), Cost("again", _per_pod(all_of_them))]
    spec = {"priority": 7, "nodes": {"policy": "spread"}}
    metadata = {"name": "p-0", "uid": "0", "generation": 2, "resourceVersion": "1000"}
    made.catalogue.put(decode_policy({"kind": CLUSTER_KIND, "metadata": metadata, "spec": spec}))
    costs.append(Cost("after a policy changed", _per_pod(all_of_them)))
    return costs


def _per_pod(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6 / PODS


if __name__ == "__main__":
    for cost in measure():
        print(f"{cost.what}: {cost.mean:.1f} µs per pod")
