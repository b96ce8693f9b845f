"""How long a decision takes, without any I/O: new classes and repeated ones, on clusters of different sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.checkouts import OURS, Checkout, Compared, Step, replayed
from benchmarks.replay import NAME
from vgpu_devcluster import Card, equip, registration

CARDS = 8
TURNS = 4
"""Turns of each checkout, where there are several."""
WARM = 5
"""Decisions of each kind that do not count."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods: how many, and each of its own class or all of one.

    Attributes
    ----------
    linked
        Whether their two cards are chosen by their links.
    apart
        Whether they keep to one zone and away from each other's nodes.
    spread
        Whether they lie evenly on nodes and zones, as they must.
    mounts
        Whether each mounts a claim of its own, bound to a volume that one zone reaches.
    disturbed
        Whether labels and room of a node change before each decision.
    """

    name: str
    count: int
    distinct: bool
    linked: bool = False
    apart: bool = False
    spread: bool = False
    mounts: bool = False
    disturbed: bool = False


REPEATED = "repeated class"
WITH_TERMS = "repeated class with inter-pod terms"
NEW_WITH_TERMS = "new class with inter-pod terms"
KINDS = (
    Kind(REPEATED, 2000, distinct=False),
    Kind("repeated class, after one node changed", 500, distinct=False, disturbed=True),
    Kind(WITH_TERMS, 300, distinct=False, apart=True),
    Kind("repeated class with spread constraints", 300, distinct=False, spread=True),
    Kind("repeated class with a bound volume", 300, distinct=False, mounts=True),
    Kind("new class", 200, distinct=True),
    Kind(NEW_WITH_TERMS, 200, distinct=True, apart=True),
    Kind("new class by links", 200, distinct=True, linked=True),
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Quantiles of one kind of decision, in microseconds."""

    nodes: int
    kind: str
    p50: float
    p99: float


def linked(cards: Sequence[Card], score: Callable[[int, int], int]) -> dict[str, str]:
    """Return what a node says of its cards, and of how close each two of them are, by their numbers."""
    links = [
        {"uuid": one.uuid, "score": {other.uuid: score(i, j) for j, other in enumerate(cards)}}
        for i, one in enumerate(cards)
    ]
    return {"hami.io/node-nvidia-register": registration(cards), "hami.io/node-nvidia-score": json.dumps(links)}


def node(number: int, version: int = 1) -> dict[str, Any]:
    """Return a node with 8 cards; a third of them are tainted, and they are in three zones."""
    name = f"node-{number:05d}"
    cards = equip(name, ("A100-80G",) * CARDS)
    allocatable = {
        "cpu": "64",
        "memory": "512Gi",
        "pods": str(109 + version),
        "ephemeral-storage": "1Ti",
        "nvidia.com/gpu": str(CARDS * 10),
    }
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/hostname": name, "zone": f"zone-{number % 3}", "beat": str(version)},
            "annotations": linked(cards, lambda one, other: 600 if one // 2 == other // 2 else 20),
        },
        "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]} if number % 3 == 0 else {},
        "status": {"allocatable": allocatable},
    }


def bound_claim(name: str) -> Iterator[Step]:
    """Yield a claim that is bound to a volume of zone 1, and the volume."""
    expression = {"key": "zone", "operator": "In", "values": ["zone-1"]}
    claim = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": f"pv-{name}", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }
    volume = {
        "metadata": {"name": f"pv-{name}", "uid": f"pv-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": name, "uid": name},
            "csi": {"driver": "disks.example.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
        "status": {"phase": "Bound"},
    }
    yield "observe", "PersistentVolumeClaim", claim
    yield "observe", "PersistentVolume", volume


def inter_pod_terms(kind: Kind) -> dict[str, Any]:
    """Return required terms that keep pods of a kind in one zone, each on a node of its own."""
    selector = {"matchLabels": {"app": kind.name.replace(" ", "-")}}
    return {
        name: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}]}
        for name, key in (("podAffinity", "zone"), ("podAntiAffinity", "kubernetes.io/hostname"))
    }


def spread_constraints(kind: Kind) -> list[dict[str, Any]]:
    """Return hard constraints that have pods of a kind lie evenly on nodes and zones."""
    selector = {"matchLabels": {"app": kind.name.replace(" ", "-")}}
    keys = (("kubernetes.io/hostname", 1), ("zone", 5000))
    return [
        {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        for key, skew in keys
    ]


def pods(kind: Kind) -> Iterator[dict[str, Any]]:
    """Yield pending pods, with a selector and a toleration as users write them."""
    for number in range(kind.count):
        memory = 2048 + (number if kind.distinct else 0)
        cards = "2" if kind.linked else "1"
        limits = {"nvidia.com/gpu": cards, "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": "10"}
        name = f"{kind.name.replace(' ', '-')}-{number}"
        yield {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": {"app": kind.name.replace(" ", "-")},
                "annotations": {"hami.io/gpu-scheduler-policy": "topology-aware"} if kind.linked else {},
            },
            "spec": {
                "affinity": inter_pod_terms(kind) if kind.apart else {},
                "topologySpreadConstraints": spread_constraints(kind) if kind.spread else [],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}] if kind.mounts else [],
                "schedulerName": NAME,
                "nodeSelector": {"zone": "zone-1"},
                "tolerations": [{"key": "team", "operator": "Equal", "value": "a"}],
                "containers": [
                    {
                        "name": "main",
                        "resources": {"limits": limits, "requests": {**limits, "cpu": "500m", "memory": "1Gi"}},
                    }
                ],
            },
            "status": {"phase": "Pending"},
        }


def steps(nodes: int) -> Iterator[Step]:
    """Yield what happens on a cluster of this size; every placement is assumed before the next decision."""
    for number in range(nodes):
        yield "observe", "Node", node(number)
    for kind in KINDS:
        for number, pod in enumerate(pods(kind)):
            if kind.mounts:
                yield from bound_claim(pod["metadata"]["name"])
            if kind.disturbed:
                yield "observe", "Node", node(number % nodes, version=2 + number)
            yield "observe", "Pod", pod
            yield "place", kind.name


def measure(nodes: int, candidates: Sequence[Checkout] = (OURS,)) -> tuple[list[Timing], list[Compared]]:
    """Time decisions on a cluster of this size; return those of this checkout, and how others compare."""
    found = replayed(steps(nodes), candidates, TURNS)
    timings, compared = [], []
    for kind in KINDS:
        turns = {name: [_quantiles(samples[kind.name]) for samples in all_of] for name, all_of in found.items()}
        p50, p99 = np.mean(turns[OURS.name], axis=0)
        timings.append(Timing(nodes, kind.name, float(p50), float(p99)))
        for other in candidates:
            if other is not OURS:
                halves = ([p50 for p50, _ in turns[each.name]] for each in (other, OURS))
                compared.append(Compared(f"decision, {kind.name}, {nodes:,} nodes, p50", "µs", *halves))
    return timings, compared


def _quantiles(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return half and 99 of 100 of what some decisions took, in microseconds; the first ones do not count."""
    p50, p99 = np.quantile([seconds * 1e6 for seconds, _ in samples[WARM:]], (0.5, 0.99))
    return float(p50), float(p99)
