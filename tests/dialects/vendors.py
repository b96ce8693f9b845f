"""Random nodes and pods of every vendor, as Kubernetes has them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from vgpu_scheduler.allocators import CardChoice, FitColumns, verdict
from vgpu_scheduler.dialects.hami import RegisteredDevice, Vendor, encode_register_json, hami_dialect
from vgpu_scheduler.dialects.hami.mig import MigProfile, SliceSpan
from vgpu_scheduler.dialects.hami.vendors.shares import CountRequests, ShareRequests
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Amounts, Placement
from vgpu_scheduler.state import State

Obj = dict[str, Any]

NODES = ("node-0", "node-1", "node-2")
UNIT_CAPACITIES = {"MLU": (400, 512), "Mthreads": (64, 384), "AWSNeuron": (12, 24)}
"""What a node has of vendors whose cards are counted in other units than cards."""
REGISTERED = {"AMD": (304, 196288), "XPU": (100, 98304)}
"""Compute and memory of cards that have others than most."""
MIG = (
    MigProfile("1g.10gb", 9728, 14, 1, tuple(SliceSpan(start, 1) for start in range(7))),
    MigProfile("3g.40gb", 40192, 42, 4, (SliceSpan(0, 4), SliceSpan(4, 4))),
)
MODES = ("hami-core", "hami-core", "mps", "mig", "mig by templates")
"""What cards of NVIDIA may be; those by templates are registered without profiles."""
WISHES: dict[str, tuple[str, ...]] = {
    "huawei.com/vnpu-mode": ("hami-core", ""),
    "metax-tech.com/sgpu-app-class": ("online", "offline", "", ""),
    "metax-tech.com/sgpu-qos-policy": ("best-effort", "fixed-share", ""),
    "metax-tech.com/sgpu-topology-aware": ("true", "false"),
}


def node(name: str, vendors: list[Vendor], rng: np.random.Generator) -> Obj:
    """A node with some cards of each vendor."""
    annotations, capacity = {}, {}
    for vendor in vendors:
        if annotation := vendor.cards.source.annotation:
            annotations[annotation] = registration(name, vendor, rng)
        else:
            amounts = UNIT_CAPACITIES.get(vendor.key, (8,))
            resources = getattr(vendor.cards, "counted", vendor.cards).resources
            capacity |= {resource: str(amount) for resource, amount in zip(resources, amounts, strict=True)}
    if rng.random() < 0.5:
        annotations["hami-vnpu-core"] = "true"
    labels = {"node.kubernetes.io/instance-type": str(rng.choice(["inf2.48xlarge", "trn1.32xlarge"]))}
    return {
        "metadata": {"name": name, "uid": name, "annotations": annotations, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def registration(node: str, vendor: Vendor, rng: np.random.Generator) -> str:
    if vendor.key == "Enflame":
        devices = [{"index": str(i), "minor": str(i), "capacity": 6} for i in range(3)]
        profiles = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"} if rng.random() < 0.5 else {"2g.16gb": "0"}
        return json.dumps({"devices": devices, "profiles": profiles})
    if vendor.key == "Metax-SGPU":
        return json.dumps(
            [
                {
                    "uuid": f"{node}-sgpu-{i}", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536,
                    "numa": i // 2, "healthy": True, "qosPolicy": str(rng.choice(["", "best-effort", "fixed-share"])),
                    "linkZone": i // 2,
                }
                for i in range(5)
            ]
        )  # fmt: skip
    cores, memory = REGISTERED.get(vendor.key, (20 if vendor.key.startswith("Ascend") else 100, 65536))
    mode, model = "hami-core", vendor.key
    if vendor.key == "NVIDIA":
        mode, model = str(rng.choice(MODES)), "NVIDIA A100-SXM4-80GB"
    return encode_register_json(
        [
            RegisteredDevice(
                id=f"{node}-{vendor.key}-{i}",
                index=i,
                count=10 if mode.startswith("mig") else 4,
                devmem=memory,
                devcore=cores,
                type=model,
                numa=i // 4,
                mode=mode.split()[0],
                health=True,
                mig_profiles=MIG if mode == "mig" else (),
            )
            for i in range(8)
        ]
    )


def wants(vendor: Vendor, rng: np.random.Generator) -> Obj:
    """What a container asks of a vendor."""
    names = vendor.claims
    if isinstance(names, ShareRequests):
        asked = {names.count: str(rng.choice([1, 1, 1, 2, 4]))}
        if names.memory and rng.random() < 0.8:
            asked[names.memory] = str(max(int(rng.choice([1000, 6000, 16384, 30000])) // names.memory_factor, 1))
        if names.cores and rng.random() < 0.8:
            asked[names.cores] = str(rng.choice([0, 5, 10, 30, 100]))
        return asked
    if isinstance(names, CountRequests):
        return {names.count: str(rng.choice([1, 2, 4]))}
    if vendor.key == "AWSNeuron":
        return {str(rng.choice(names.resources)): str(rng.choice([1, 2, 4]))}
    slices, memory, cores = names.resources  # of Enflame's profiles
    if rng.random() < 0.5:
        return {slices: str(rng.choice([1, 2, 3]))}
    return {memory: str(rng.choice([4, 6000, 16])), cores: str(rng.choice([0, 10, 40]))}


def pod(uid: str, vendors: list[Vendor], rng: np.random.Generator) -> Obj:
    """A pending pod of some containers, each of which asks one of the vendors or nothing."""
    lists: dict[str, list[Obj]] = {"initContainers": [], "containers": []}
    for number in range(rng.integers(1, 4)):
        vendor = vendors[rng.integers(len(vendors))]
        limits = wants(vendor, rng) if number == 0 or rng.random() < 0.7 else {}
        container: Obj = {"name": f"c{number}", "resources": {"limits": limits}}
        first = rng.random() < 0.3
        if first and rng.random() < 0.5:
            container["restartPolicy"] = "Always"
        lists["initContainers" if first else "containers"].append(container)
    annotations = {name: str(rng.choice(values)) for name, values in WISHES.items() if rng.random() < 0.7}
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": annotations},
        "spec": lists,
        "status": {"phase": "Pending"},
    }


def bound(wire: Obj, node: str, written: dict[str, str]) -> Obj:
    """The pod after its Binding, before its plugin has heard of it."""
    metadata = {**wire["metadata"], "annotations": {**wire["metadata"]["annotations"], **written}}
    return {"metadata": metadata, "spec": {**wire["spec"], "nodeName": node}, "status": {"phase": "Pending"}}


def asking(limits: Obj, annotations: Obj | None = None, *more: Obj) -> Obj:
    """A pending pod of app containers with these limits."""
    containers = [{"name": f"c{i}", "resources": {"limits": each}} for i, each in enumerate((limits, *more))]
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "p", "annotations": annotations or {}},
        "spec": {"containers": containers},
        "status": {"phase": "Pending"},
    }


class Bench:
    """One node, on which pods are placed one after the other.

    Parameters
    ----------
    annotations, labels, capacity
        What the node says.
    dialect
        What is known of vendors; what HAMi's chart configures without it.
    """

    def __init__(
        self,
        annotations: Obj | None = None,
        labels: Obj | None = None,
        capacity: Obj | None = None,
        dialect: hami_dialect | None = None,
    ) -> None:
        self.dialect = dialect or hami_dialect()
        self.state = State({self.dialect.name: len(self.dialect.inventory.dimensions)})
        self.node = decode_node(
            {
                "metadata": {"name": "n", "uid": "n", "annotations": annotations or {}, "labels": labels or {}},
                "status": {"capacity": capacity or {}},
            }
        )
        self.state.observe_node(self.node, {self.dialect.name: self.dialect.inventory.devices(self.node)})
        self.placed = 0
        self.affinity: tuple[float, float] = (0.0, 0.0)

    def try_(self, wire: Obj, policy: str = "binpack") -> dict[str, str] | str:
        """Return what would be written for a pod, or why the node does not fit."""
        waiting = decode_pod(wire)
        claims = self.dialect.claims.read(waiting)
        allocator = self.dialect.claims.allocator(waiting.annotations, claims, CardChoice(policy))
        row = self.state.nodes.row("n")
        assert row is not None
        fit = FitColumns.empty(self.state.nodes.capacity)
        allocator.fit(self.state.devices, np.array([row], dtype=np.int64), fit)
        containers = allocator.place(self.state.devices, row)
        if containers is None:
            return verdict(fit.counts[row], int(fit.cards[row])).detail
        self.affinity = (float(fit.choice_score[row, 0]), float(fit.choice_score[row, 1]))
        written = self.dialect.allocation.annotations(Placement("n", containers), 1, waiting)
        assert written.keys() <= self.dialect.allocation.written
        return written

    def take(self, wire: Obj, policy: str = "binpack") -> dict[str, str]:
        """Place a pod, and book what it gets."""
        written = self.try_(wire, policy)
        assert isinstance(written, dict), written
        self.book(wire, written)
        return written

    def book(self, wire: Obj, written: dict[str, str]) -> None:
        """Book a pod that got something, here or elsewhere."""
        self.placed += 1
        uid = {"name": f"p{self.placed}", "uid": f"p{self.placed}"}
        tenant = decode_pod(bound({**wire, "metadata": {**wire["metadata"], **uid}}, "n", written))
        self.state.observe_pod(tenant, {self.dialect.name: self.dialect.allocation.usage(tenant)})

    def used(self) -> dict[str, Amounts]:
        """What is used of each card that is in use."""
        return dict(self.state.ledger().get("n", {}))
