"""The worked examples of MIG templates: by the rule as it is written, and by the product on a card that is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.naive.hami_mig import Held, select_instance

from vgpu_scheduler.dialects.hami import NvidiaRequests, hami_dialect, vendors
from vgpu_scheduler.dialects.hami.templates import MigGeometry
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import ALLOCATED_ANNOTATION
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.policy import PolicyDefaults

Obj = dict[str, Any]
NAME = "vgpu-scheduler"


def literal_mig(inputs: Obj) -> Obj:
    """Say what the document's rule says."""
    if "uuid" in inputs:
        return {"recorded": f"{inputs['uuid']}[{inputs['template_index']}-{inputs['instance_index']}]"}
    held = [Held("", slot, 1, 0) for slot in inputs["in_use"]]
    return {"passes": select_instance([inputs["instances"]], inputs["requested_memory"], held) is not None}


def product_mig(inputs: Obj) -> Obj:
    """Say what the product says."""
    if "uuid" not in inputs:
        allocated = _place("card", [inputs["instances"]], 0, inputs["in_use"], inputs["requested_memory"])
        return {"passes": allocated is not None}
    template, instance = inputs["template_index"], inputs["instance_index"]
    templates = [[1000] * 7] * template + [[1000] * (instance + 1)]
    allocated = _place(inputs["uuid"], templates, template, range(instance), 1000)
    return {"recorded": allocated and allocated.partition(",")[0]}


def _place(
    card: str, templates: Sequence[Sequence[int]], template: int, in_use: Sequence[int], memory: int
) -> str | None:
    """Place a pod on a card some instances of which are in use; its allocation."""
    geometry = MigGeometry(("T",), tuple(tuple(("", size, 1) for size in sizes) for sizes in templates))
    dialect = hami_dialect(vendors(NvidiaRequests(mig_geometries=(geometry,))))
    engine = Engine(EngineOptions([dialect], PolicyDefaults(), [NAME]))
    notes = {"hami.io/node-nvidia-register": f"{card},7,40960,100,T,0,true,0,mig:"}
    status = {"allocatable": {"pods": "99", "nvidia.com/gpu": "99"}}
    engine.observe_node(decode_node({"metadata": {"name": "n", "uid": "n", "annotations": notes}, "status": status}), 0)
    for slot in in_use:
        held = {ALLOCATED_ANNOTATION: f"{card}[{template}-{slot}],NVIDIA,{memory},0:;", "hami.io/vgpu-node": "n"}
        engine.observe_pod(_pod(f"held-{slot}", memory, held, nodeName="n"), 0)
    engine.observe_pod(_pod("new", memory, {}), 0)
    decision = engine.attempt(0)
    assert decision is not None
    return decision.placement and dialect.allocation.annotations(decision.placement, 0)[ALLOCATED_ANNOTATION]


def _pod(name: str, memory: int, annotations: dict[str, str], **spec: Any) -> Pod:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "d", "uid": name, "annotations": annotations},
            "spec": {"schedulerName": NAME, "containers": [{"name": "c", "resources": {"limits": limits}}], **spec},
            "status": {"phase": "Pending"},
        }
    )
