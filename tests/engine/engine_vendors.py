"""Nodes with the cards of many vendors, what pods ask of them, and engines over them."""

from __future__ import annotations

import json
from typing import Any

from tests.engine.builders import OURS, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Decision
from vgpu_scheduler.policy import PolicyDefaults

Obj = dict[str, Any]

DRS = {"enflame.com/gcu-drs-capacity": json.dumps(
    {"devices": [{"index": "0", "minor": "0", "capacity": 6}], "profiles": {"1g.6gb": "0", "6g.40gb": "2"}}
)}  # fmt: skip


def engine_on(annotations: Obj, amounts: Obj, dialect: hami_dialect | None = None, **more: Any) -> Engine:
    """Return an engine with one node, ``n``, whose capacity is allocatable unless ``more`` says otherwise."""
    engine = Engine(EngineOptions([dialect or hami_dialect()], PolicyDefaults(), [OURS]))
    wire = node_object("n", annotations=annotations, allocatable=amounts, **more)
    wire["status"]["capacity"] = amounts
    engine.observe_node(decode_node(wire), 0.0)
    return engine


def decide(
    engine: Engine, limits: Obj, annotations: Obj | None = None, name: str = "p", now: float = 100.0
) -> Decision:
    wire = pod_object(name, {"limits": limits, "requests": limits}, annotations=annotations)
    engine.observe_pod(decode_pod(wire), now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.error is None
    return decision


def given(decision: Decision) -> list[tuple[int, ...]] | str:
    """Return shares, memory and cores of each card, or why there are none."""
    if decision.placement is None:
        return decision.message
    return [card.amounts[:3] for container in decision.placement.containers for card in container]


AMD_CARDS = (("M0", 304), ("M1", 110))
AMD = {"hami.io/node-amd-register": json.dumps(
    [{"id": uuid, "index": i, "count": 10, "devmem": 1000, "devcore": cores, "type": "AMD", "health": True}
     for i, (uuid, cores) in enumerate(AMD_CARDS)]
)}  # fmt: skip
SGPU = {"metax-tech.com/node-gpu-devices": json.dumps(
    [{"uuid": "S0", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True, "linkZone": 1}]
)}  # fmt: skip


def amd(count: int = 1, cores: int | None = None) -> Obj:
    said = {} if cores is None else {"amd.com/gpucores": str(cores)}
    return {"amd.com/gpu": str(count), "amd.com/gpumem": "10", **said}


def json_cards(*cards: Obj) -> str:
    return json.dumps([{"count": 4, "health": True, "index": i, **card} for i, card in enumerate(cards)])


ALL_VENDORS = {
    "hami.io/node-nvidia-register": json_cards(
        *({"id": f"G{i}", "devmem": 8000, "devcore": 100, "type": "T4", "mode": "hami-core"} for i in (0, 1))
    ),
    "hami.io/node-dcu-register": "D0,4,65536,100,DCU-Z100,0,true:D1,4,65536,100,DCU-Z100,1,true:",
    "hami.io/node-register-Ascend910B4": json_cards(
        *({"id": f"A{i}", "devmem": 32768, "devcore": 20, "type": "Ascend910B4", "numa": i} for i in (0, 1))
    ),
    "hami.io/node-va-register": json_cards({"id": "V0", "devmem": 1000, "count": 1}, {"id": "V1", "devmem": 1000}),
    **AMD,
    **DRS,
    "metax-tech.com/node-gpu-devices": json.dumps(
        [{"uuid": "S0", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True,
          "qosPolicy": "best-effort", "linkZone": 1}]
    ),
}  # fmt: skip
AMOUNTS = {
    "nvidia.com/gpu": "8", "hygon.com/dcunum": "8", "huawei.com/Ascend910B4": "8", "amd.com/gpu": "20",
    "enflame.com/drs-gcu": "6", "metax-tech.com/sgpu": "16", "aws.amazon.com/neuron": "2",
    "aws.amazon.com/neuroncore": "4", "mthreads.com/vgpu": "100", "mthreads.com/sgpu-core": "32",
    "mthreads.com/sgpu-memory": "192", "cambricon.com/vmlu": "4", "cambricon.com/mlu.smlu.vcore": "200",
    "cambricon.com/mlu.smlu.vmemory": "200", "vastaitech.com/va": "4",
}  # fmt: skip
ASKS = {
    "NVIDIA": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"},
    "Hygon": {"hygon.com/dcunum": "1"},
    "Ascend": {"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": "8192"},
    "AMD": amd(),
    "Enflame": {"enflame.com/drs-gcu": "1"},
    "MetaX": {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "1"},
    "Neuron devices": {"aws.amazon.com/neuron": "1"},
    "Neuron cores": {"aws.amazon.com/neuroncore": "1"},
    "Moore Threads": {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "4"},
    "Cambricon": {"cambricon.com/vmlu": "1"},
    "Vastai": {"vastaitech.com/va": "1"},
}


def under(spec: Obj) -> Engine:
    engine = engine_on(ALL_VENDORS, AMOUNTS)
    engine.policy_tracker.observe(policy("p", spec))
    return engine
