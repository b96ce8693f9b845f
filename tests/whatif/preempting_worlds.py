"""Clusters where pods of higher priority may have others evicted, as files show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from tests.policy.resources import policy_object
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import Explanation, World, explain_pod, make_dialect, take_up_preemptions

Obj = dict[str, Any]
OURS = "vgpu-scheduler"
INSTALL = "have an administrator of the scheduler install manifests/preemption (preemption.enabled of the chart)"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
CREATED = "2026-01-01T00:00:{:02d}Z"


def allows(**rules: Any) -> Obj:
    """Return a cluster policy that lets all pods preempt others."""
    return policy_object("house", {"preemption": {"mayPreempt": True, **rules}})


def tenant(name: str, where: str, card: str, memory: int, priority: int = 0, **more: Any) -> Obj:
    """Return a pod of ours that runs since the first of January."""
    made = running(name, where, card, memory, priority=priority)
    made["metadata"] |= {"labels": {"app": name.partition("-")[0]}, "creationTimestamp": CREATED.format(0)}
    made["metadata"] |= more.pop("metadata", {})
    made["status"] = {"phase": "Running", "startTime": CREATED.format(0), **more}
    return made


def waiting(name: str, memory: int, priority: int = 0, cards: int = 1, second: int = 1, **more: Any) -> Obj:
    """Return a pod of ours that waits."""
    metadata = {"creationTimestamp": CREATED.format(second), **more.pop("metadata", {})}
    spec: Obj = {"priority": priority, "schedulerName": OURS, "metadata": metadata}
    made = pod(name, {GPU: cards, MEMORY: memory}, **spec)
    made["status"] = {"phase": "Pending", **more}
    return made


def terminating(obj: Obj, reason: str = "EvictionByEvictionAPI", at: str = "2026-01-02T00:00:30Z") -> Obj:
    """Return a pod as it is once it was evicted."""
    obj["metadata"] |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": ""}
    obj["status"]["conditions"] = [condition]
    return obj


def budget(app: str, allowed: int) -> Obj:
    """Return a disruption budget for the pods of an app."""
    metadata = {"name": app, "namespace": "default", "uid": f"uid-budget-{app}"}
    spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
    return {
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": {"disruptionsAllowed": allowed},
    }


def world(*objects: Obj, preemption: bool = True) -> World:
    """Return a world of them, as of the second of January."""
    made = World(EngineOptions([make_dialect("hami")], preemption=preemption))
    made.add(objects)
    take_up_preemptions(made, NOW)
    return made


def random_objects(rng: np.random.Generator) -> list[Obj]:
    """Return a few nodes that are rather full, pods that wait, budgets and a policy."""
    rules: Obj = {}
    if rng.random() < 0.3:
        rules["budgets"] = "Exceed"
    if rng.random() < 0.2:
        rules["perHour"] = int(rng.integers(1, 4))
    objects: list[Obj] = [allows(**rules)]
    for number in range(int(rng.integers(1, 4))):
        name, cards = f"n{number}", int(rng.integers(1, 4))
        objects.append(node(name, cards, 16384))
        for card in range(cards):
            free = 16384
            for _ in range(int(rng.integers(0, 4))):
                memory = int(rng.integers(1, 9)) * 1000
                if memory <= free:
                    free -= memory
                    app = str(rng.choice(["a", "b", "c"]))
                    priority = int(rng.choice([0, 1, 2, 5, 9]))
                    objects.append(tenant(f"{app}-{len(objects)}", name, f"GPU-{name}-{card}", memory, priority))
    objects += [budget(app, int(rng.integers(0, 3))) for app in ("a", "b") if rng.random() < 0.5]
    for number in range(int(rng.integers(1, 6))):
        memory, cards = int(rng.integers(2, 17)) * 1000, int(rng.choice([1, 1, 1, 2]))
        priority = int(rng.choice([1, 3, 6, 10]))
        objects.append(waiting(f"waits-{number}", min(memory, 16384), priority, cards, second=number))
    return objects


def explained(made: World, name: str = "high") -> Explanation:
    """Return what explain says of a pod that waits."""
    (found,) = (each for each in made.pending.values() if each.name == name)
    return explain_pod(made, found)
