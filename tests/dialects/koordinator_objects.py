"""Nodes, Device objects and pods as Koordinator's users write them, and where the dialect puts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_scheduler.allocators import CardChoice
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.kube import Node, Pod, decode_node, decode_pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.state import State, canonical

Obj = dict[str, Any]

DIALECT = koordinator_dialect()
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
GIB = 2**30
LONG = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "npu": "huawei.com/npu-core",
    "gpu": "koordinator.sh/gpu",
    "core": "koordinator.sh/gpu-core",
    "memory": "koordinator.sh/gpu-memory",
    "ratio": "koordinator.sh/gpu-memory-ratio",
    "shared": "koordinator.sh/gpu.shared",
    "rdma": "koordinator.sh/rdma",
    "fpga": "koordinator.sh/fpga",
    "cpu": "cpu",
}


def long(amounts: Mapping[str, Any]) -> Obj:
    return {LONG[name]: amount for name, amount in amounts.items()}


def gpu(minor: int, memory: str = "16Gi", **more: Any) -> Obj:
    resources = long({"core": "100", "memory": memory, "ratio": "100"})
    return {"type": "gpu", "minor": minor, "id": f"GPU-{minor}", "health": True, "resources": resources, **more}


def other(kind: str, minor: int, **more: Any) -> Obj:
    resources = {LONG[kind]: "100"}
    return {"type": kind, "minor": minor, "id": f"{kind}{minor}", "health": True, "resources": resources, **more}


def functions(*buses: str, **labels: str) -> Obj:
    return {"labels": labels, "vfs": [{"minor": -1, "busID": bus} for bus in buses]}


def inventory(*devices: Obj, **labels: str) -> Obj:
    named = {f"node.koordinator.sh/{name.replace('_', '-')}": value for name, value in labels.items()}
    return {"kind": "Device", "metadata": {"name": "node", "labels": named}, "spec": {"devices": list(devices)}}


def node(name: str = "node", **labels: str) -> Node:
    return decode_node({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})


def container(name: str = "main", **requests: str) -> Obj:
    amounts = long(requests)
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def pod(
    *containers: Obj,
    uid: str = "uid",
    annotations: Obj | None = None,
    labels: Obj | None = None,
    bound: str = "",
    phase: str = "Running",
    started: bool = True,
    init: Sequence[Obj] = (),
    **requests: str,
) -> Pod:
    listed = list(containers) or [container(**requests)]
    wire: Obj = {
        "metadata": {
            "name": uid,
            "namespace": "ns",
            "uid": uid,
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": {"containers": listed, "initContainers": list(init), "nodeName": bound, "schedulerName": "vgpu"},
        "status": {"phase": phase if bound else "Pending"},
    }
    if started and bound:
        wire["status"]["containerStatuses"] = [{"name": listed[0]["name"]}]
    return decode_pod(wire)


def state_of(*devices: Obj, **labels: str) -> State:
    state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
    state.observe_node(
        node(), {DIALECT.name: canonical(DIALECT.inventory.devices(node(), inventory(*devices, **labels)))}
    )
    return state


def charge(state: State, name: str, amounts: tuple[int, ...]) -> None:
    position = next(state.devices.position(0, d.uuid) for d in state.devices.devices(0) if d.uuid.startswith(name))
    assert position is not None
    state.devices.charge(position, amounts, 1)


def place(state: State, wanted: Pod, choice: CardChoice | None = None) -> Placement | None:
    allocator = DIALECT.claims.allocator(wanted.annotations, DIALECT.claims.read(wanted), choice or CardChoice())
    placed = allocator.place(state.devices, 0)
    return None if placed is None else Placement("node", placed, DIALECT.name)


def minors(placement: Placement | None) -> list[str]:
    assert placement is not None
    return [a.uuid.rpartition("/")[0] for held in placement.containers for a in held]


def written(placement: Placement | None) -> str:
    assert placement is not None
    return DIALECT.allocation.annotations(placement, 0)[ALLOCATED]
