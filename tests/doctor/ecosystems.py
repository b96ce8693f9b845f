"""Healthy clusters whose nodes have Volcano's plugin or Koordinator's koordlet, and what can be wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.doctor.clusters import (
    EXPECTED,
    KUBE_SYSTEM,
    PLUGIN_FOLDER,
    Obj,
    Objects,
    daemon_pod,
    healthy,
    shipped_objects,
    workload,
)
from tests.engine.builders import cards, node_object, pod_object

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import PluginVersion, volcano_dialect
from vgpu_scheduler.doctor import ExpectedSettings
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import parse_label_selector
from vgpu_scheduler.policy import PolicyDefaults

KOORDINATOR = "koordinator-system"
VOLCANO_PLUGIN, KOORDLET = "volcano-device-plugin", "koordlet"
GATES = "Accelerators=true,GPUEnvInject=true,RDMADeviceInject=true"
WRITER = "vgpu-scheduler-allocation-writer"
MANAGED = PolicyDefaults(managed=parse_label_selector("pool=vgpu"))
BESIDE_VOLCANO = (hami_dialect(), koordinator_dialect())
BESIDE_KOORDINATOR = (hami_dialect(), volcano_dialect())
EXPECTED_VOLCANO = replace(EXPECTED, options=EngineOptions((volcano_dialect(),), MANAGED, unlisted=BESIDE_VOLCANO))
EXPECTED_OLDER = replace(EXPECTED, options=EngineOptions((volcano_dialect(plugin=PluginVersion.V1_11),), MANAGED))
EXPECTED_KOORDINATOR = replace(
    EXPECTED, options=EngineOptions((koordinator_dialect(),), MANAGED, unlisted=BESIDE_KOORDINATOR)
)

Plant = Callable[[Objects], None]


def healthy_volcano() -> Objects:
    """Return a cluster that has moved: one node is ours, one is left to Volcano's scheduler, which keeps to it."""
    objects = healthy()
    scheduler = workload("volcano-scheduler", "docker.io/volcanosh/vc-scheduler:v1.12.0", "volcano-system")
    scheduler["metadata"]["labels"] = {"app": "volcano-scheduler"}
    main(scheduler)["args"] = ["--logtostderr", "--node-selector=pool:batch"]
    plugin = workload(
        VOLCANO_PLUGIN, "docker.io/projecthami/volcano-vgpu-device-plugin:v1.12.0", volumes=[PLUGIN_FOLDER]
    )
    objects["Node"] = [volcano_node("v1", pool="vgpu"), volcano_node("v2", pool="batch")]
    objects["Pod"] = [daemon_pod(VOLCANO_PLUGIN, "v1"), daemon_pod(VOLCANO_PLUGIN, "v2"), volcano_pod("old", "v1")]
    objects["DaemonSet"], objects["Deployment"] = [plugin], [*objects["Deployment"], scheduler]
    let_write(objects, "kube-system", VOLCANO_PLUGIN)
    let_write(objects, "volcano-system", "volcano-scheduler")
    return objects


def healthy_koordinator() -> Objects:
    """Return a cluster that has moved: one node is ours, and a taint keeps koord-scheduler's pods off it."""
    objects = healthy()
    for kind, more in shipped_objects("koordinator/rbac.yaml").items():
        objects[kind] = [*objects.get(kind, []), *more]
    scheduler = workload("koord-scheduler", "registry.example/koord-scheduler:v1.6.1", KOORDINATOR)
    manager = workload("koord-manager", "registry.example/koord-manager:v1.6.1", KOORDINATOR)
    for component in (scheduler, manager):
        component["metadata"]["labels"] = {"koord-app": component["metadata"]["name"]}
    koordlet = workload(KOORDLET, "registry.example/koordlet:v1.6.1", KOORDINATOR)
    main(koordlet).update(command=["/koordlet"], args=["-addr=:9316", f"-feature-gates={GATES}", "--v=4"])
    taint = {"key": "pool", "value": "vgpu", "effect": "NoSchedule"}
    objects["Node"] = [koordinator_node("k1", "vgpu", taints=[taint]), koordinator_node("k2", "batch")]
    objects["Device"] = [device_object("k1"), device_object("k2")]
    objects["Pod"] = [daemon_pod(KOORDLET, "k1"), daemon_pod(KOORDLET, "k2"), koordinator_pod("old", "k1")]
    objects["DaemonSet"], objects["Deployment"] = [koordlet], [*objects["Deployment"], scheduler, manager]
    let_write(objects, KOORDINATOR, "koord-scheduler")
    return objects


def volcano_node(name: str, pool: str, **spec: Any) -> Obj:
    """Return a node with two cards of Volcano's plugin."""
    cards = "".join(f"{name}-gpu-{number},10,24576,NVIDIA-A10,true,hami-core:" for number in range(2))
    offered = {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "49152", "volcano.sh/vgpu-cores": "200"}
    notes = {"volcano.sh/node-vgpu-register": cards}
    return node_object(name, annotations=notes, allocatable=offered, labels={"pool": pool}, **spec)


def volcano_pod(name: str, node: str = "", **more: Any) -> Obj:
    """Return a pod of Volcano's scheduler with a share; it runs where a node is named."""
    limits = {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1024"}}
    if not node:
        return looked_at(pod_object(name, limits, scheduler="volcano", **more))
    held = f"{node}-gpu-0,NVIDIA,1024,0:;"
    notes = {"volcano.sh/vgpu-ids-new": held, "volcano.sh/vgpu-node": node, "volcano.sh/bind-phase": "success",
             "volcano.sh/devices-to-allocate": ";"}  # fmt: skip
    return pod_object(name, limits, scheduler="volcano", annotations=notes, started=True, nodeName=node, **more)


def koordinator_node(name: str, pool: str, **spec: Any) -> Obj:
    """Return a node of koordlet's with a GPU and an RDMA device."""
    offered = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi",
               "koordinator.sh/gpu-memory-ratio": "100", "koordinator.sh/rdma": "100"}  # fmt: skip
    return node_object(name, allocatable=offered, labels={"pool": pool}, **spec)


def device_object(name: str) -> Obj:
    """Return what koordlet lists of a node."""
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"}
    gpu = {"type": "gpu", "minor": 0, "id": f"{name}-gpu-0", "health": True,
           "resources": {**amounts, "koordinator.sh/gpu-memory-ratio": "100"}}  # fmt: skip
    rdma = {"type": "rdma", "minor": 0, "id": "0000:1f:00.0", "health": True,
            "resources": {"koordinator.sh/rdma": "100"}}  # fmt: skip
    return {"metadata": {"name": name}, "spec": {"devices": [gpu, rdma]}}


def koordinator_pod(name: str, node: str = "", **more: Any) -> Obj:
    """Return a pod of koord-scheduler with half a GPU; it runs where a node is named."""
    limits = {"limits": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}}
    if not node:
        return looked_at(pod_object(name, limits, scheduler="koord-scheduler", **more))
    amounts = (
        '{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"8Gi","koordinator.sh/gpu-memory-ratio":"50"}'
    )
    held = f'{{"gpu":[{{"minor":0,"id":"{node}-gpu-0","resources":{amounts}}}]}}'
    notes = {"scheduling.koordinator.sh/device-allocated": held}
    return pod_object(name, limits, scheduler="koord-scheduler", annotations=notes, started=True, nodeName=node, **more)


def looked_at(pod: Obj) -> Obj:
    """Return a pod for which its scheduler has found no room."""
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return pod


def main(obj: Obj) -> Obj:
    """Return the container of a workload."""
    container: Obj = obj["spec"]["template"]["spec"]["containers"][0]
    return container


def named(objects: Objects, kind: str, name: str) -> Obj:
    """Return an object."""
    return next(obj for obj in objects[kind] if obj["metadata"]["name"] == name)


def let_write(objects: Objects, namespace: str, account: str) -> None:
    """Let an account write allocations, as the guides say."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role = {"kind": "ClusterRole", "name": WRITER}
    objects["ClusterRoleBinding"].append({"metadata": {"name": account}, "roleRef": role, "subjects": [subject]})


def gates(text: str) -> Plant:
    """Return what gives koordlet other arguments."""

    def plant(objects: Objects) -> None:
        main(named(objects, "DaemonSet", KOORDLET))["args"] = text.split()

    return plant


def script(text: str) -> Plant:
    """Return what has a shell start koordlet."""

    def plant(objects: Objects) -> None:
        main(named(objects, "DaemonSet", KOORDLET)).update(command=["sh", "-c"], args=[text])

    return plant


def manager(*arguments: str) -> Plant:
    """Return what gives koord-manager other arguments."""

    def plant(objects: Objects) -> None:
        main(named(objects, "Deployment", "koord-manager"))["args"] = list(arguments)

    return plant


def image(name: str, text: str) -> Plant:
    """Return what gives a DaemonSet another image."""

    def plant(objects: Objects) -> None:
        main(named(objects, "DaemonSet", name))["image"] = text

    return plant


def selects(*arguments: str) -> Plant:
    """Return what gives Volcano's scheduler other arguments."""

    def plant(objects: Objects) -> None:
        main(named(objects, "Deployment", "volcano-scheduler"))["args"] = list(arguments)

    return plant


def five_fields(objects: Objects) -> None:
    """The plugin is so old that it says no mode of its cards."""
    notes = objects["Node"][1]["metadata"]["annotations"]
    notes["volcano.sh/node-vgpu-register"] = "v2-gpu-0,10,24576,NVIDIA-A10,true:"


def no_taint(objects: Objects) -> None:
    objects["Node"][0]["spec"] = {}


def tolerated(objects: Objects) -> None:
    """The taint is one that all pods with GPUs tolerate anyway."""
    objects["Pod"].append(koordinator_pod("new", tolerations=[{"key": "pool", "operator": "Exists"}]))


LOCKED = ("--feature-gates=BindingAdmissionWebhook=true", "--binding-admission-user-name=koord-scheduler,other")
UNLOCKED = (LOCKED[0], "--binding-admission-user-name=vgpu-scheduler")
EVERYWHERE = ("--binding-admission-namespaces=*",)
KOORDLET_REF = f"DaemonSet {KOORDINATOR}/{KOORDLET}"
MANAGER_REF = f"Deployment {KOORDINATOR}/koord-manager"
PLUGIN_REF = f"DaemonSet {KUBE_SYSTEM}/{VOLCANO_PLUGIN}"
VOLCANO_REF = "Deployment volcano-system/volcano-scheduler"
KOORD_REF = f"Deployment {KOORDINATOR}/koord-scheduler"
PLUGIN_IMAGE = "projecthami/volcano-vgpu-device-plugin"
NO_LIST, NO_CARDS, NO_RDMA = "koordlet-lists-no-devices", "koordlet-injects-no-cards", "koordlet-injects-no-rdma"


def _of(ref: str, *ids: str) -> set[tuple[str, str]]:
    return {(name, ref) for name in ids}


def another_dialect(objects: Objects) -> None:
    """One node that is ours has HAMi's plugin, and one has none that registers; a third is somebody else's."""
    objects["Node"] += [
        node_object("h1", cards("h1", 1), labels={"pool": "vgpu"}),
        node_object("h2", cards("h2", 1), labels={"pool": "batch"}),
    ]
    objects["Pod"].append(pod_object("asks", {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}))
    objects["Pod"].append(
        pod_object("theirs", {"limits": {"nvidia.com/gpumem": "1000"}}, scheduler="hami-scheduler", nodeName="h2")
    )


PLANTED: dict[str, tuple[Callable[[], Objects], ExpectedSettings, Plant, set[tuple[str, str]]]] = {
    name: (healthy_koordinator, EXPECTED_KOORDINATOR, plant, expected)
    for name, plant, expected in (
        ("no gates", gates("-v=4"), _of(KOORDLET_REF, NO_LIST, NO_CARDS, NO_RDMA)),
        (
            "the chart's gates",
            gates("-feature-gates=BECPUEvict=true,Accelerators=true"),
            _of(KOORDLET_REF, NO_CARDS, NO_RDMA),
        ),
        ("all but one", gates("--feature-gates AllAlpha=true,RDMADeviceInject=false"), _of(KOORDLET_REF, NO_RDMA)),
        ("all", gates("--feature-gates AllAlpha=true"), set()),
        (
            "in two flags",
            gates("--feature-gates=Accelerators=true,GPUEnvInject=false -feature-gates=GPUEnvInject=true"),
            _of(KOORDLET_REF, NO_RDMA),
        ),
        ("in a script", script(f"exec /koordlet -feature-gates='{GATES}' -v=4"), set()),
        ("an old koordlet", image(KOORDLET, "koordlet:v1.5.0"), _of(KOORDLET_REF, "plugin-version")),
        ("a newer koordlet", image(KOORDLET, "registry.example:5000/koordlet:v1.8.0@sha256:0"), set()),
        ("bindings locked", manager(*LOCKED, "--binding-admission-namespaces=*"), _of(MANAGER_REF, "binding-refused")),
        (
            "bindings locked somewhere",
            manager(*LOCKED, "--binding-admission-namespaces=kube-system,ml"),
            _of(MANAGER_REF, "binding-refused"),
        ),
        ("bindings locked nowhere", manager(*LOCKED), set()),
        (
            "bindings locked by the last flag",
            manager(*UNLOCKED, *LOCKED[1:], *EVERYWHERE),
            _of(MANAGER_REF, "binding-refused"),
        ),
        ("bindings unlocked by the last flag", manager(*LOCKED, *UNLOCKED, *EVERYWHERE), set()),
        (
            "bindings locked where they are spared",
            manager(*LOCKED, "--binding-admission-namespaces=kube-system"),
            set(),
        ),
        (
            "bindings watched",
            manager(*LOCKED, "--binding-admission-namespaces=*", "--binding-admission-dry-run"),
            set(),
        ),
        ("bindings without the gate", manager(LOCKED[1], "--binding-admission-namespaces=*"), set()),
        (
            "bindings of ours let in",
            manager(
                LOCKED[0],
                "--binding-admission-user-name=koord-scheduler, vgpu-system:vgpu",
                "--binding-admission-namespaces=*",
            ),
            set(),
        ),
        (
            "a node of HAMi's plugin",
            another_dialect,
            {("dialect-not-listed", "Node h1"), ("dialect-not-listed", "Pod default/asks")},
        ),
        ("no taint", no_taint, _of(KOORD_REF, "scheduler-not-kept-off")),
        ("a taint that is tolerated", tolerated, _of(KOORD_REF, "scheduler-not-kept-off")),
    )
} | {
    name: (healthy_volcano, expecting, plant, expected)
    for name, expecting, plant, expected in (
        ("no node selector", EXPECTED_VOLCANO, selects("--logtostderr"), _of(VOLCANO_REF, "scheduler-not-kept-off")),
        (
            "another node selector, too",
            EXPECTED_VOLCANO,
            selects("--node-selector=pool:batch,pool:vgpu"),
            _of(VOLCANO_REF, "scheduler-not-kept-off"),
        ),
        (
            "a node selector that selects nothing",
            EXPECTED_VOLCANO,
            selects("--node-selector", "pool=batch"),
            _of(VOLCANO_REF, "scheduler-not-kept-off"),
        ),
        (
            "a plugin that is newer than the setting",
            EXPECTED_OLDER,
            image(VOLCANO_PLUGIN, f"{PLUGIN_IMAGE}:v1.12.0"),
            _of(PLUGIN_REF, "plugin-version"),
        ),
        (
            "a plugin that is older than the setting",
            EXPECTED_VOLCANO,
            image(VOLCANO_PLUGIN, f"{PLUGIN_IMAGE}:v1.9.4"),
            _of(PLUGIN_REF, "plugin-version"),
        ),
        (
            "a node of HAMi's plugin beside Volcano's",
            EXPECTED_VOLCANO,
            another_dialect,
            {("dialect-not-listed", "Node h1"), ("dialect-not-listed", "Pod default/asks")},
        ),
        ("a plugin of five fields", EXPECTED_VOLCANO, five_fields, _of("Node v2", "registration-unreadable")),
        (
            "a plugin of a newer version still",
            EXPECTED_VOLCANO,
            image(VOLCANO_PLUGIN, f"{PLUGIN_IMAGE}:v1.13.1"),
            set(),
        ),
    )
}
"""What is planted: into which cluster, with which settings, and what has to be found."""
