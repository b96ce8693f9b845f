"""Worlds by a seed in which a scheduler decides about a group: nodes, pods that are bound, a PodGroup and its members.

A world is small enough for a twin that tries everything: at most six nodes and six members. Its members ask for a share
of what is free, so that about half of the groups fit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

Obj = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
KINDS = (
    "gang", "mixed", "topology", "gang", "mixed topology", "basic", "mixed", "topology", "selectors", "apart",
    "bound", "bound topology", "gang", "basic topology", "topology", "incomplete", "mixed topology", "impossible",
)  # fmt: skip
"""What a world is about; they come in turns."""

_GIB = 1024
_DEDICATED = {"key": "dedicated", "value": "others", "effect": "NoSchedule"}


def worlds(seed: int, number: int) -> Iterator[Obj]:
    """Yield so many worlds: a beginning of the same longer series."""
    for position, kind in islice(enumerate(cycle(KINDS)), number):
        name = f"g{seed}-{position:03}"
        yield _world(random.Random(name), name, kind)


def _world(rng: random.Random, name: str, kind: str) -> Obj:
    nodes = [_node(rng, f"{name}-n{number}") for number in range(rng.randint(2, 6))]
    pods = [_filler(rng, f"{name}-f{number}", nodes) for number in range(rng.randint(0, len(nodes)))]
    key = rng.choice(("rack", "rack", "zone", "zone", HOSTNAME)) if "topology" in kind else ""
    members = _members(rng, name, kind, nodes, key)
    return {
        "id": name,
        "family": "groups",
        "kind": kind,
        "nodes": nodes,
        "pods": pods,
        "group": _group(rng, name, kind, len(members), key),
        "members": members,
    }


def _node(rng: random.Random, name: str) -> Obj:
    rack = rng.randint(0, 2)
    labels = {HOSTNAME: name, "rack": f"r{rack}", "zone": f"z{rack % 2}"}
    for key in ("rack", "zone"):
        if rng.random() < 0.1:
            del labels[key]
    spec: Obj = {}
    if rng.random() < 0.1:
        spec["taints"] = [_DEDICATED]
    elif rng.random() < 0.05:
        spec["unschedulable"] = True
    few = str(rng.randint(2, 4))
    allocatable = {
        "cpu": str(rng.choice((2, 4, 4, 8))),
        "memory": f"{rng.choice((4, 8, 8, 16))}Gi",
        "pods": few if rng.random() < 0.15 else "110",
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}


def _pod(name: str, cpu: int, memory: int, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    containers = [{"name": "main", "image": "example", "resources": {"requests": requests}}]
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": containers, **spec}}


def _filler(rng: random.Random, name: str, nodes: list[Obj]) -> Obj:
    """Return a pod that is bound; two of them fit on each node."""
    node = rng.choice(nodes)
    cpu, memory = _size(node)
    share = rng.choice((0.1, 0.25, 0.5)) * 2 / len(nodes)
    return _pod(name, int(cpu * share) // 50 * 50, int(memory * share), nodeName=node["metadata"]["name"])


def _size(node: Obj) -> tuple[int, int]:
    """Return how many thousandths of a CPU and how many MiB a node has."""
    allocatable = node["status"]["allocatable"]
    return int(allocatable["cpu"]) * 1000, int(allocatable["memory"].removesuffix("Gi")) * _GIB


def _members(rng: random.Random, name: str, kind: str, nodes: list[Obj], key: str) -> list[Obj]:
    number = rng.randint(2, 6) if kind != "apart" else rng.randint(2, len(nodes))
    scope = _scope(rng, nodes, key)
    cpu, memory = (sum(amounts) for amounts in zip(*map(_size, scope), strict=True))
    share = rng.uniform(*((0.1, 0.5) if kind in ("apart", "selectors") else (0.25, 0.95))) / number
    base = max(100, int(cpu * share) // 50 * 50), max(64, int(memory * share * rng.uniform(0.3, 1.0)))
    factors = (0.5, 0.75, 1.0, 1.5) if "mixed" in kind else (1.0,)
    made = []
    for position in range(number):
        factor = rng.choice(factors)
        pod = _pod(
            f"{name}-m{position}",
            int(base[0] * factor),
            int(base[1] * factor),
            {"group": name},
            schedulingGroup={"podGroupName": name},
        )
        if kind == "selectors" and rng.random() < 0.7:
            pod["spec"]["nodeSelector"] = {"zone": rng.choice(("z0", "z1"))}
        if kind == "apart":
            term = {"labelSelector": {"matchLabels": {"group": name}}, "topologyKey": HOSTNAME}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            pod["spec"]["affinity"] = {"podAntiAffinity": required}
        made.append(pod)
    if kind == "impossible":
        largest = max(_size(node)[0] for node in nodes)
        made[-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{largest + 500}m"
    if "bound" in kind:
        for pod in made[: rng.randint(1, number - 1)]:
            pod["spec"]["nodeName"] = rng.choice(nodes if rng.random() < 0.1 else scope)["metadata"]["name"]
    return made


def _scope(rng: random.Random, nodes: list[Obj], key: str) -> list[Obj]:
    """Return the nodes for which a group is made: those of one domain."""
    domains = sorted({node["metadata"]["labels"][key] for node in nodes if key in node["metadata"]["labels"]})
    if not domains:
        return nodes
    chosen = rng.choice(domains)
    return [node for node in nodes if node["metadata"]["labels"].get(key) == chosen]


def _group(rng: random.Random, name: str, kind: str, members: int, key: str) -> Obj:
    minimum = members if rng.random() < 0.7 or kind == "impossible" else rng.randint(2, members)
    if kind == "incomplete":
        minimum = members + rng.randint(1, 2)
    spec: Obj = {"schedulingPolicy": {"basic": {}} if "basic" in kind else {"gang": {"minCount": minimum}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    return {"metadata": {"name": name}, "spec": spec}
