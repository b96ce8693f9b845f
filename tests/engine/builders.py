"""Nodes with cards and pods that ask for slices of them, as the API would show them, and engines over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vgpu_scheduler.dialects.hami import RegisteredDevice, encode_register_json, hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions, SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import NodePart, SchedulableClass
from vgpu_scheduler.kube import Node, Pod, decode_node, decode_pod
from vgpu_scheduler.policy import PolicyDefaults

OURS = "vgpu-scheduler"
REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
ALLOCATED_NODE = "hami.io/vgpu-node"

Obj = dict[str, Any]


def card(uuid: str, *, memory: int = 8000, count: int = 4, healthy: bool = True, **more: Any) -> RegisteredDevice:
    """Return one card of a registration."""
    fields = {"devcore": 100, "type": "NVIDIA-Tesla T4", "mode": "hami-core", **more}
    return RegisteredDevice(id=uuid, count=count, devmem=memory, health=healthy, **fields)


def cards(node: str, number: int, **more: Any) -> list[RegisteredDevice]:
    """Return the cards of a node: ``<node>-gpu-<index>``."""
    return [card(f"{node}-gpu-{index}", index=index, **more) for index in range(number)]


def node_object(
    name: str,
    registered: Sequence[RegisteredDevice] | str | None = None,
    *,
    version: int = 1,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Obj:
    """Return a node; a text is its registration as written, None none at all."""
    notes = dict(annotations or {})
    if registered is not None:
        notes[REGISTER] = registered if isinstance(registered, str) else encode_register_json(registered)
    return {
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "annotations": notes,
            "labels": dict(labels or {}),
        },
        "spec": spec,
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": "32"}
                   | dict(allocatable or {})},
    }  # fmt: skip


def node(name: str, registered: Sequence[RegisteredDevice] | str | None = None, **more: Any) -> Node:
    """Return a node as the program sees it."""
    return decode_node(node_object(name, registered, **more))


def asks(gpu: int = 1, gpumem: int = 1000, gpucores: int = 0, **others: str) -> Obj:
    """Return the resources of a container that asks for slices; a gpu of 0 asks for none."""
    limits = {}
    if gpu:
        limits = {"nvidia.com/gpu": str(gpu), "nvidia.com/gpumem": str(gpumem), "nvidia.com/gpucores": str(gpucores)}
    return {"limits": {**limits, **others}, "requests": {**limits, **others}}


def pod_object(
    name: str,
    resources: Obj | None = None,
    *,
    version: int = 1,
    uid: str = "",
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    phase: str = "",
    started: bool = False,
    deleting: bool = False,
    scheduler: str = OURS,
    **spec: Any,
) -> Obj:
    """Return a pod with one container; without resources it asks for one slice of 1000 MiB."""
    metadata: Obj = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "annotations": dict(annotations or {}),
        "labels": dict(labels or {}),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: Obj = {"phase": phase or ("Running" if started else "Pending")}
    if started:
        status["containerStatuses"] = [{"name": "main", "state": {"running": {}}}]
    containers = [{"name": "main", "resources": asks() if resources is None else resources}]
    return {
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "containers": containers, **spec},
        "status": status,
    }


def pod(name: str, resources: Obj | None = None, **more: Any) -> Pod:
    """Return a pod as the program sees it."""
    return decode_pod(pod_object(name, resources, **more))


def allocation(node_name: str, *slices: tuple[str, int, int]) -> dict[str, str]:
    """Return the annotations of a pod with one container that was given slices: UUID, MiB, percent."""
    value = "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in slices)
    return {ALLOCATED: f"{value};", ALLOCATED_NODE: node_name}


def in_group(name: str, minimum: int) -> dict[str, str]:
    """Return the annotations of a pod of a group of which at least some have to be placed, as Koordinator has them."""
    gang = "gang.scheduling.koordinator.sh"
    return {f"{gang}/name": name, f"{gang}/min-available": str(minimum)}


def make_engine(defaults: PolicyDefaults | None = None, **options: Any) -> Engine:
    """Return an engine that knows nothing."""
    return Engine(EngineOptions([hami_dialect()], defaults or PolicyDefaults(), [OURS], **options))


def engine_with(nodes: Iterable[Node] = (), pods: Iterable[Pod] = (), defaults: PolicyDefaults | None = None) -> Engine:
    """Return an engine that has observed these objects, at time 0."""
    engine = make_engine(defaults)
    for known in nodes:
        engine.observe_node(known, 0.0)
    for waiting in pods:
        engine.observe_pod(waiting, 0.0)
    return engine


def node_part(algorithm: SchedulingAlgorithm, asking: Pod) -> NodePart:
    """Return the node part of a pod's class, which must not be refused."""
    pod_class = algorithm.classes.of(asking)
    assert isinstance(pod_class, SchedulableClass), pod_class
    return pod_class.node
