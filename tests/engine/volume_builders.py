"""Engines that know claims and volumes, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.engine.builders import cards, engine_with, node, pod
from tests.kube.objects import Obj
from tests.kube.storage_objects import claim, claim_volume, storage_class, volume

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import (
    decode_attachment,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_capacity,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)
from vgpu_scheduler.model import NO_VOLUMES, Decision, VolumePlan

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
DECODE: dict[str, Callable[[Any], Any]] = {
    CLAIM: decode_volume_claim,
    VOLUME: decode_volume,
    CLASS: decode_storage_class,
    "CSINode": decode_csi_node,
    "CSIDriver": decode_csi_driver,
    "CSIStorageCapacity": decode_storage_capacity,
    "VolumeAttachment": decode_attachment,
}
LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"


def take(engine: Engine, kind: str, *objects: Obj, version: int = 5, now: float = 0.0) -> None:
    for obj in objects:
        found = DECODE[kind]({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}})
        engine.kinds[kind].observe(found, now)


def gone(engine: Engine, kind: str, obj: Obj, now: float = 0.0) -> None:
    engine.kinds[kind].remove(DECODE[kind](obj), 9, now)


def cluster(*volumes: Obj, claims: int = 2) -> Engine:
    """Return an engine with nodes a and b, local volumes, and claims c0, c1, … for such."""
    engine = engine_with([node(name, cards(name, 2), labels={"host": name}) for name in ("a", "b")])
    take(engine, CLASS, LOCAL, storage_class("made"))
    take(engine, VOLUME, *volumes)
    take(engine, CLAIM, *(claim(f"c{index}", "default", storage_class="local") for index in range(claims)))
    return engine


def local(name: str, host: str, **more: Any) -> Obj:
    return volume(name, storage_class="local", nodes={"host": [host]}, **more)


def using(*claims: str) -> dict[str, Any]:
    """Return the part of a spec that names claims."""
    return {"volumes": [claim_volume(name) for name in claims]}


def decide(engine: Engine, now: float = 0.0, **more: Any) -> Decision:
    decision = engine.attempt(now, **more)
    assert decision is not None
    return decision


def placed(engine: Engine, name: str, now: float = 0.0, **more: Any) -> tuple[str, VolumePlan]:
    """Decide a pod; return its node, empty if it waits, and what is to be done about its claims."""
    engine.observe_pod(pod(name, **more), now)
    decision = decide(engine, now)
    assert decision.pod.endswith(f"/{name}")
    return (decision.placement.node, decision.placement.volumes) if decision.placement else ("", NO_VOLUMES)


def bound(name: str, to: Obj | str, **more: Any) -> Obj:
    """Return claim ``name`` as it is once it is bound."""
    about = to if isinstance(to, str) else to["metadata"]["name"]
    return claim(name, "default", storage_class="local", volume=about, **more)
