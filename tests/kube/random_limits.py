"""Random LimitRanges and pods, near enough to each other that about as many pods are refused as are not."""

from __future__ import annotations

from random import Random
from typing import Any

Obj = dict[str, Any]
CARDS = ("nvidia.com/gpu", "nvidia.com/gpumem")
STEPS = {
    "cpu": ["100m", "250m", "500m", "1", "1500m", "2", "4", "8"],
    "memory": ["64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "1536Mi", "2Gi", "4Gi"],
    "ephemeral-storage": ["1Gi", "2Gi", "3Gi", "4Gi", "5Gi", "6Gi", "8Gi", "10Gi"],
    "nvidia.com/gpu": ["1", "2", "3", "4", "5", "6", "7", "8"],
    "nvidia.com/gpumem": ["500", "1000", "2000", "3000", "4000", "6000", "8000", "16000"],
}
"""Amounts of each resource in rising order."""


def random_range(rng: Random, name: str, namespace: str = "default") -> Obj:
    """Return a LimitRange that the API server accepts, or nearly so."""
    kinds = rng.sample(["Container", "Pod"], rng.choice([1, 1, 2]))
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"limits": [_item(rng, kind) for kind in kinds]},
    }


def _item(rng: Random, kind: str) -> Obj:
    item: Obj = {"type": kind}
    for resource in rng.sample(sorted(STEPS), rng.randint(1, 3)):
        steps, (least, request, limit, most) = STEPS[resource], sorted(rng.choices(range(8), k=4))
        given = {"min": steps[min(least, 2)], "max": steps[max(most, 4 if kind == "Container" else 6)]}
        if kind == "Container":
            given |= {"default": steps[limit], "defaultRequest": steps[limit if resource in CARDS else request]}
        for field, amount in given.items():
            if rng.random() < 0.4:
                item.setdefault(field, {})[resource] = amount
        if resource not in CARDS and rng.random() < 0.25:
            item.setdefault("maxLimitRequestRatio", {})[resource] = rng.choice(["1", "1500m", "2", "3", "10"])
    return item


def random_pod(rng: Random, name: str) -> Obj:
    """Return a pod without any amount, or with a few."""
    numbers = iter(range(99))
    spec: Obj = {"containers": [_container(rng, f"c{next(numbers)}") for _ in range(rng.choice([1, 1, 1, 2, 3]))]}
    first = [_container(rng, f"c{next(numbers)}") for _ in range(rng.choice([0, 0, 1, 2]))]
    for each in first:
        if rng.random() < 0.4:
            each["restartPolicy"] = "Always"
    if first:
        spec["initContainers"] = first
    if rng.random() < 0.15:
        spec["resources"] = {place: {"cpu": "100", "memory": "800Gi"} for place in ("requests", "limits")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _container(rng: Random, name: str) -> Obj:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for resource, steps in STEPS.items():
        low, high = sorted(rng.choices(range(7), k=2))
        match rng.choice(["", "", "", "limit", "request", "both"]):
            case "limit":
                limits[resource] = steps[high]
            case "request" if resource not in CARDS:
                requests[resource] = steps[low]
            case "both":
                limits[resource], requests[resource] = steps[high], steps[high if resource in CARDS else low]
    resources = {place: amounts for place, amounts in (("limits", limits), ("requests", requests)) if amounts}
    return {"name": name, "image": "example", **({"resources": resources} if resources else {})}
