"""Random clusters in files, for the rules that all lists follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tests.whatif.test_whatif_remedies import GPU, MEMORY, pod, running

Object = dict[str, Any]
SUBJECTS = ("nodes", "cards", "models", "pods", "namespaces")
POOLS, TIERS = ("shared", "spare", "big"), ("a", "b")
MODELS = (
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA H100 80GB HBM3",
    "Tesla T4",
    "NVIDIA-" + "RTX-6000-Ada-Generation-" * 3 + "X",
)


def cluster(rng: np.random.Generator) -> list[Object]:
    """Return nodes with cards, labels and long names, and pods of several namespaces on them."""
    spaces = [f"team-{'x' * int(rng.integers(0, 40))}{n}" for n in range(int(rng.integers(1, 5)))]
    objects: list[Object] = [
        {"kind": "Namespace", "metadata": {"name": space, "labels": labels(rng)}} for space in spaces
    ]
    for number in range(int(rng.integers(1, 6))):
        name = f"node-{number}" + "-rack" * int(rng.integers(0, 10))
        uuids = [f"GPU-{rng.bytes(4).hex()}-{rng.bytes(6).hex()}-{number}{n}" for n in range(int(rng.integers(1, 5)))]
        model, memory = str(rng.choice(MODELS)), int(rng.choice([16384, 81920]))
        health = [bool(rng.random() < 0.9) for _ in uuids]
        registered = [
            {"id": uuid, "index": n, "count": 10, "devmem": memory, "devcore": 100, "type": model, "numa": 0}
            | {"mode": "hami-core", "health": healthy}
            for n, (uuid, healthy) in enumerate(zip(uuids, health, strict=True))
        ]
        notes = {"hami.io/node-nvidia-register": json.dumps(registered)}
        if rng.random() < 0.3:
            notes["hami.io/device-cordon"] = uuids[0]
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(10 * len(uuids))}
        metadata = {"name": name, "labels": labels(rng), "annotations": notes}
        objects.append({"kind": "Node", "metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}})
        for n in range(int(rng.integers(0, 4))):
            called = f"p{number}-{n}" + "-worker" * int(rng.integers(0, 8))
            asked = int(rng.choice([500, 2000, 4096])), int(rng.choice([0, 10, 30]))
            held = running(called, name, str(rng.choice(uuids)), *asked)
            objects.append(_placed(held, str(rng.choice(spaces)), rng))
    for n in range(int(rng.integers(0, 4))):
        waiting = pod(f"w{n}", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler")
        objects.append(_placed(waiting, str(rng.choice(spaces)), rng))
    return objects


def labels(rng: np.random.Generator) -> dict[str, str]:
    """Return some labels."""
    found = {}
    if rng.random() < 0.8:
        found["pool"] = str(rng.choice(POOLS))
    if rng.random() < 0.6:
        found["tier"] = str(rng.choice(TIERS))
    return found


def _placed(obj: Object, namespace: str, rng: np.random.Generator) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    obj["metadata"] |= {"namespace": namespace, "labels": labels(rng), "ownerReferences": [owner]}
    return obj


def selector(rng: np.random.Generator) -> str:
    """Return a label selector."""
    terms = [
        *(f"pool={pool}" for pool in POOLS),
        *(f"pool!={pool}" for pool in POOLS),
        *("tier", "!tier", "tier==a", "pool in (shared, big)", "pool notin (spare)", "tier in (b)"),
    ]
    return ",".join(str(term) for term in rng.choice(terms, size=int(rng.integers(1, 3)), replace=False))


def matches(text: str, given: dict[str, str]) -> bool:
    """Tell whether labels match one of these selectors."""
    return all(_matches(term, given) for term in text.replace(", ", ";").split(","))


def _matches(term: str, given: dict[str, str]) -> bool:
    if " in " in term or " notin " in term:
        key, word, values = term.split(" ", 2)
        return (given.get(key) in values.strip("()").split(";")) == (word == "in")
    if "!=" in term:
        key, _, value = term.partition("!=")
        return given.get(key) != value
    if "=" in term:
        key, value = term.replace("==", "=").split("=")
        return given.get(key) == value
    return term not in ("!tier", "tier") or ("tier" in given) == (term == "tier")


def write(objects: list[Object], folder: Path) -> str:
    """Write a cluster into a file, and return its path."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return str(path)


def kubeconfig(folder: Path, namespace: str) -> str:
    """Write a kubeconfig whose context has a namespace."""
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)
