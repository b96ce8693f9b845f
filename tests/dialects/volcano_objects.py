"""Nodes and pods of Volcano's vGPU plugin, for the tests of its dialect."""

from __future__ import annotations

from typing import Any

from vgpu_scheduler.dialects.volcano import VolcanoRequests, volcano_dialect
from vgpu_scheduler.kube import Node, Pod, decode_node, decode_pod
from vgpu_scheduler.state import State

Obj = dict[str, Any]

NAMES = VolcanoRequests(memory_percent="volcano.sh/vgpu-memory-percentage")
SHORT = {"n": NAMES.count, "mem": NAMES.memory, "pct": NAMES.memory_percent, "cores": NAMES.cores}
DIALECT = volcano_dialect(NAMES)

REGISTER = "volcano.sh/node-vgpu-register"
NODE = "volcano.sh/vgpu-node"
ALLOCATED = "volcano.sh/vgpu-ids-new"

A10 = "GPU-{0},10,24576,NVIDIA-NVIDIA A10,true,hami-core:"


def node(register: str, **allocatable: str) -> Node:
    advertised = {NAMES.count: "20", NAMES.memory: "49152", NAMES.cores: "200"}
    advertised |= {SHORT[name]: amount for name, amount in allocatable.items()}
    return decode_node(
        {
            "metadata": {"name": "node", "annotations": {REGISTER: register}},
            "spec": {},
            "status": {"allocatable": advertised},
        }
    )


def container(name: str, limits: str = "", requests: str = "") -> Obj:
    def amounts(text: str) -> Obj:
        return {SHORT[item.partition("=")[0]]: item.partition("=")[2] for item in text.split()}

    return {"name": name, "resources": {"limits": amounts(limits), "requests": amounts(requests)}}


def pod(
    *containers: Obj,
    uid: str = "uid",
    annotations: Obj | None = None,
    bound: str = "",
    init: tuple[Obj, ...] = (),
    phase: str = "Running",
    started: bool = True,
) -> Pod:
    wire: Obj = {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "annotations": annotations or {}},
        "spec": {"containers": list(containers), "initContainers": list(init), "nodeName": bound},
        "status": {"phase": phase if bound else "Pending"},
    }
    if started and bound:
        wire["status"]["containerStatuses"] = [{"name": containers[0]["name"]}]
    return decode_pod(wire)


CARDS = [("GPU-0", 8000, 1), ("GPU-1", 0, 0), ("GPU-2", 16000, 2)]
"""The cards of Volcano's scenarios V19 to V24: 24576 MiB each, what is used of them, and by how many."""


def used_cards(unhealthy: str = "") -> State:
    texts = [A10.format(i).replace("true", str(uuid != unhealthy).lower()) for i, (uuid, _, _) in enumerate(CARDS)]
    state, known = State({"volcano": 3}), node("".join(texts))
    state.observe_node(known, {DIALECT.name: DIALECT.inventory.devices(known)})
    for uuid, memory, shares in CARDS:
        position = state.devices.position(0, uuid)
        assert position is not None
        state.devices.charge(position, (shares, memory, 0), 1)
    return state
