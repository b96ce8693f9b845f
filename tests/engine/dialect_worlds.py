"""Engines that hold several dialects, with their nodes and pods."""

from __future__ import annotations

from typing import Any

from tests.engine.builders import OURS, cards, node_object, pod_object

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments, volcano_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import Decision
from vgpu_scheduler.policy import CLUSTER_KIND, PolicyDefaults, decode_policy

Obj = dict[str, Any]

HAMI, VOLCANO, KOORDINATOR = hami_dialect(), volcano_dialect(), koordinator_dialect()
GPU, CORE, RATIO = "nvidia.com/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
NUMBER, MEMORY, PERCENT = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
HAMI_KEY, VOLCANO_KEY = "hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"
KOORDINATOR_KEY = "scheduling.koordinator.sh/device-allocated"
GIB = 2**30


def engine_of(*dialects: Dialect) -> Engine:
    defaults = PolicyDefaults(read_arguments=parse_binpack_arguments)
    return Engine(EngineOptions(dialects or (HAMI, VOLCANO, KOORDINATOR), defaults, [OURS]))


def volcano_node(name: str, *ids: str, version: int = 1) -> Obj:
    listed = "".join(f"{uuid},10,24576,NVIDIA-NVIDIA A10,true,hami-core:" for uuid in ids)
    amounts = {NUMBER: "80", MEMORY: "196608", PERCENT: "800"}
    notes = {"volcano.sh/node-vgpu-register": listed}
    return node_object(name, annotations=notes, allocatable=amounts, version=version)


def beside(*ids: str) -> Obj:
    amounts = {CORE: "100", RATIO: "100", "koordinator.sh/gpu-memory": "16Gi"}
    listed = [
        {"type": "gpu", "minor": minor, "id": uuid, "health": True, "resources": amounts}
        for minor, uuid in enumerate(ids)
    ]
    return {"spec": {"devices": listed}}


def koordinator_node(name: str, cards: int = 2) -> Obj:
    amounts = {CORE: f"{cards}00", RATIO: f"{cards}00", "koordinator.sh/gpu-memory": f"{cards * 16}Gi"}
    return node_object(name, allocatable=amounts)


def limits(**amounts: object) -> Obj:
    return {"limits": {name: str(amount) for name, amount in amounts.items()}}


def asking(name: str, amounts: dict[str, object], **more: Any) -> Pod:
    given = {resource: str(amount) for resource, amount in amounts.items()}
    return decode_pod(pod_object(name, {"limits": given, "requests": given}, **more))


def decided(engine: Engine, waiting: Pod, now: float = 0.0) -> Decision:
    engine.observe_pod(waiting, now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.uid == waiting.uid
    return decision


def mixed() -> Engine:
    """One node of each dialect, each with two cards."""
    engine = engine_of()
    engine.observe_node(decode_node(node_object("h", cards("h", 2))), 0.0)
    engine.observe_node(decode_node(volcano_node("v", "GPU-v0", "GPU-v1")), 0.0)
    engine.observe_node(decode_node(koordinator_node("k")), 0.0)
    engine.observe_inventory("k", beside("GPU-k0", "GPU-k1"), 0.0)
    return engine


def under(spec: Obj, engine: Engine | None = None) -> Engine:
    engine = engine or mixed()
    metadata = {"name": "policy", "uid": "u", "generation": 1, "resourceVersion": "1"}
    engine.policy_tracker.observe(decode_policy({"kind": CLUSTER_KIND, "metadata": metadata, "spec": spec}))
    return engine
