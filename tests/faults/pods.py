"""What the bursts are made of: pods of vendors with a lock, of vendors without one, and plain ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpu_devcluster import CAMBRICON, ENFLAME_DRS, MTHREADS, NVIDIA, Card, Vendor, equip, made_cards

Object = dict[str, Any]
SchedulableClass = Callable[[str], list[Card]]

LIMITS: Mapping[Vendor | None, Mapping[str, str]] = {
    NVIDIA: {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "10"},
    CAMBRICON: {
        "cambricon.com/vmlu": "1",
        "cambricon.com/mlu.smlu.vmemory": "20",
        "cambricon.com/mlu.smlu.vcore": "10",
    },
    MTHREADS: {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "12", "mthreads.com/sgpu-core": "2"},
    ENFLAME_DRS: {"enflame.com/drs-gcu": "1"},
    None: {"cpu": "100m"},
}
"""What a pod asks for: a slice of a card with HAMi's lock, with one that names nobody, of two without one, or none."""
CARDS: Mapping[Vendor, SchedulableClass] = {
    NVIDIA: lambda node: equip(node, ["T4"] * 2, count=5),
    CAMBRICON: lambda node: made_cards(node, CAMBRICON, 2, 25600),
    MTHREADS: lambda node: made_cards(node, MTHREADS, 2, 49152),
    ENFLAME_DRS: lambda node: made_cards(node, ENFLAME_DRS, 2, 49152),
}
NODES: Mapping[str, tuple[Vendor, ...]] = {
    "gpu-0": (NVIDIA,),
    "gpu-1": (NVIDIA,),
    "mixed": (NVIDIA, MTHREADS),
    "mlu": (CAMBRICON,),
    "gcu": (ENFLAME_DRS,),
}
"""The vendors whose cards a node has."""
NUMBERS: Mapping[Vendor | None, int] = {NVIDIA: 8, CAMBRICON: 2, MTHREADS: 2, ENFLAME_DRS: 2, None: 3}
"""Pods of a burst."""
OPEN = "faults/open"
"""The label of nodes for which one pod of each burst waits."""


def pod(name: str, vendor: Vendor | None = NVIDIA, *, limits: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """Return a pod of ours; keywords go into its spec."""
    resources = {"limits": dict(limits or LIMITS[vendor])}
    return {
        "metadata": {"name": name, "annotations": {}},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "main", "image": "example", "resources": resources}],
            **spec,
        },
    }


def on(node: str) -> Object:
    """Return what of a spec keeps a pod on a node."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def away_from(node: str) -> Object:
    """Return what of a spec keeps a pod away from a node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def burst(prefix: str = "", times: int = 1, **spec: Any) -> list[Object]:
    """Return the pods of a burst, all of them schedulable at once; keywords go into their specs."""
    return [
        pod(f"{prefix}{vendor.word.lower() if vendor else 'plain'}-{number}", vendor, **spec)
        for vendor, count in NUMBERS.items()
        for number in range(count * times)
    ]
