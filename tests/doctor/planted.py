"""Defects that are planted into a healthy cluster, and what the doctor says of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.doctor.clusters import (
    KUBE_SYSTEM,
    PLUGIN_FOLDER,
    SYSTEM,
    Objects,
    ago,
    daemon_pod,
    lease,
    policy,
    scheduler_pod,
    tenant,
    workload,
)
from tests.engine.builders import allocation, card, cards, node_object, pod_object

LOCK = "hami.io/mutex.lock"


GUARD = "ValidatingAdmissionPolicy vgpu-scheduler-allocations"


Plant = Callable[[Objects], None]


def drop(objects: Objects, kind: str, name: str) -> None:
    objects[kind] = [obj for obj in objects[kind] if obj["metadata"]["name"] != name]


def named(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    return next(obj for obj in objects[kind] if obj["metadata"]["name"] == name)


def lock(objects: Objects, value: str) -> None:
    objects["Node"][0]["metadata"]["annotations"][LOCK] = value


def unreadable_registration(objects: Objects) -> None:
    objects["Node"].append(node_object("c", "[{"))


def renamed_node(objects: Objects) -> None:
    objects["Node"].append(node_object("c", [card("a-gpu-1"), card("c-gpu-0")]))


def twice_in_a_list(objects: Objects) -> None:
    objects["Node"].append(node_object("c", cards("c", 1), allocatable={"nvidia.com/gpu": "0"}))


def sick_card(objects: Objects) -> None:
    objects["Node"].append(node_object("c", [card("c-gpu-0"), card("c-gpu-1", healthy=False)]))


def uncut_card(objects: Objects) -> None:
    objects["Node"].append(node_object("c", [card("c-gpu-0"), card("c-gpu-1", mode="mig", type="NVIDIA-New")]))


def cordoned_nothing(objects: Objects) -> None:
    objects["Node"][0]["metadata"]["annotations"]["hami.io/device-cordon"] = "a-gpu-7"


def unaccounted(objects: Objects) -> None:
    objects["Pod"].append(pod_object("rogue", started=True, nodeName="a", scheduler="default-scheduler"))


def unreadable_allocation(objects: Objects) -> None:
    pod = tenant("garbled", "a", ("a-gpu-1", 1000, 10))
    pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "a-gpu-1,NVIDIA,much,10:;"
    objects["Pod"].append(pod)


def elsewhere(objects: Objects) -> None:
    objects["Pod"].append(
        pod_object("moved", annotations=allocation("b", ("b-gpu-1", 1, 1)), started=True, nodeName="a")
    )


def quota_of(limit: str, key: str = "limits.nvidia.com/gpumem") -> Plant:
    def plant(objects: Objects) -> None:
        metadata = {"name": "q", "namespace": "default", "uid": "q"}
        objects["ResourceQuota"] = [{"metadata": metadata, "spec": {"hard": {key: limit}}}]

    return plant


def phantom(objects: Objects) -> None:
    objects["Pod"].append(tenant("ghost", "a", ("a-gpu-9", 1000, 10)))


def orphan(objects: Objects) -> None:
    objects["Pod"].append(tenant("lost", "gone", ("gone-gpu-0", 1000, 10)))


def over_capacity(objects: Objects) -> None:
    objects["Pod"] += [tenant(f"big-{n}", "a", ("a-gpu-1", 5000, 10)) for n in range(2)]


def malformed_lock(objects: Objects) -> None:
    lock(objects, "yes")


def stale_lock(objects: Objects) -> None:
    lock(objects, f"{ago(400)},default,deleted-long-ago")


def unanswered_lock(objects: Objects) -> None:
    notes = {**allocation("a", ("a-gpu-1", 1, 1)), "hami.io/bind-phase": "allocating"}
    objects["Pod"].append(pod_object("starting", annotations=notes, nodeName="a"))
    lock(objects, f"{ago(400)},default,starting")


def not_running(objects: Objects) -> None:
    objects["Lease"], objects["Deployment"][0]["status"] = [], {}


def no_deployment(objects: Objects) -> None:
    objects["Lease"], objects["Deployment"] = [], []


def stale_lease(objects: Objects) -> None:
    objects["Lease"] = [lease(renewed=90)]


def no_lease(objects: Objects) -> None:
    objects["Lease"] = []


def two_leaders(objects: Objects) -> None:
    objects["Lease"].append(lease("elsewhere", holder="r_2"))


def unserved(objects: Objects) -> None:
    pod = pod_object("typo", scheduler="vgpu-schedulr")
    pod["metadata"]["creationTimestamp"] = ago(600)
    objects["Pod"].append(pod)


def wrong_scheduler(objects: Objects) -> None:
    objects["Pod"].append(pod_object("plain", scheduler="default-scheduler"))


def stock_plugin(objects: Objects) -> None:
    objects["DaemonSet"].append(workload("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"))
    objects["Pod"].append(daemon_pod("nvidia-device-plugin", "b"))


def mig_manager(objects: Objects) -> None:
    objects["DaemonSet"].append(workload("nvidia-mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.12"))
    objects["Pod"].append(daemon_pod("nvidia-mig-manager", "a"))


def time_slicing(objects: Objects) -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    objects["Node"].append(node_object("c", cards("c", 1), labels=labels))


def resource_slice(objects: Objects) -> None:
    objects["ResourceSlice"].append({"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "b"}})


def hami_scheduler(objects: Objects) -> None:
    found = workload("hami-scheduler", "projecthami/hami:v2.10.0")
    found["metadata"]["labels"] = {"app.kubernetes.io/component": "hami-scheduler"}
    objects["Deployment"].append(found)


def two_schedulers(objects: Objects) -> None:
    hami_scheduler(objects)
    objects["Pod"].append(tenant("theirs", "b", ("b-gpu-1", 1000, 10), scheduler="hami-scheduler"))


def no_guard(objects: Objects) -> None:
    drop(objects, "ValidatingAdmissionPolicy", "vgpu-scheduler-allocations")


def guard_unbound(objects: Objects) -> None:
    drop(objects, "ValidatingAdmissionPolicyBinding", "vgpu-scheduler-allocations")


def no_node_policy(objects: Objects) -> None:
    drop(objects, "ValidatingAdmissionPolicy", "vgpu-scheduler-nodes")


def node_policy_unbound(objects: Objects) -> None:
    drop(objects, "ValidatingAdmissionPolicyBinding", "vgpu-scheduler-nodes")


def guard_audits(objects: Objects) -> None:
    binding = named(objects, "ValidatingAdmissionPolicyBinding", "vgpu-scheduler-allocations")
    binding["spec"]["validationActions"] = ["Audit", "Warn"]


def fails_open(objects: Objects) -> None:
    named(objects, "ValidatingAdmissionPolicy", "vgpu-scheduler-nodes")["spec"]["failurePolicy"] = "Ignore"


def plugin_elsewhere(objects: Objects) -> None:
    plugin = workload("dcu-vgpu-device-plugin", "projecthami/dcu-vgpu-device-plugin:v1", "dcu", "dcu-plugin")
    objects["DaemonSet"].append(plugin)


def plugin_by_folder(objects: Objects) -> None:
    objects["DaemonSet"].append(workload("hami", "registry.example/hami", "own", "own", volumes=[PLUGIN_FOLDER]))


def plugin_by_label(objects: Objects) -> None:
    plugin = workload("gpu-agent", "registry.example/agent", "own", "agent")
    plugin["spec"]["template"]["metadata"] = {"labels": {"app.kubernetes.io/component": "hami-device-plugin"}}
    objects["DaemonSet"].append(plugin)


def missing_right(objects: Objects) -> None:
    role = named(objects, "ClusterRole", "vgpu-scheduler")
    role["rules"] = [rule for rule in role["rules"] if "resourcequotas" not in rule["resources"]]


def unbound_role(objects: Objects) -> None:
    objects["RoleBinding"] = []


def no_volumes(objects: Objects) -> None:
    drop(objects, "ClusterRoleBinding", "vgpu-scheduler-volume-binding")


def no_definition(objects: Objects) -> None:
    drop(objects, "CustomResourceDefinition", "vgpupolicies.vgpu-scheduler.io")


def other_version(objects: Objects) -> None:
    objects["CustomResourceDefinition"][0]["spec"]["versions"][0]["name"] = "v1alpha0"


def not_established(objects: Objects) -> None:
    objects["CustomResourceDefinition"][0]["status"]["conditions"][0]["status"] = "False"


def outdated(objects: Objects) -> None:
    schema = objects["CustomResourceDefinition"][0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["limits"]


def not_ready(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [policy("strict", ready="False")]


def conflicted(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [policy("strict", conflicted="True")]


def warned(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [policy("strict", warnings="True")]


def unjudged(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [policy("strict", generation=2)]


def nominee(objects: Objects, node: str, priority: int = 5) -> None:
    waiting = pod_object("waits", priority=priority)
    waiting["status"] = {"phase": "Pending", "nominatedNodeName": node}
    objects["Pod"].append(waiting)


def overdue(objects: Objects) -> None:
    nominee(objects, "a")
    named(objects, "Pod", "web")["metadata"]["deletionTimestamp"] = ago(31)


def nominated_while_off(objects: Objects) -> None:
    nominee(objects, "a")


def nominated_nowhere(objects: Objects) -> None:
    nominee(objects, "gone")


def preemption_off(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [{**policy("house"), "spec": {"preemption": {"mayPreempt": True}}}]


def stale_group(objects: Objects) -> None:
    """Of three pods one has run for six minutes, and another one waits."""
    running = tenant("g0", "a", ("a-gpu-1", 1000, 10))
    running["status"]["startTime"] = ago(360)
    waiting = pod_object("g1")
    for pod in (running, waiting):
        pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "team"
        objects["Pod"].append(pod)
    meta = {"name": "team", "namespace": "default", "uid": "team"}
    objects["PodGroup.scheduling.x-k8s.io"] = [{"metadata": meta, "spec": {"minMember": 3}}]


def group_under_namespace_labels(objects: Objects) -> None:
    """Have the labels of namespaces matter: they decide which policy says when a group is stale."""
    stale_group(objects)
    spec = {"namespaceSelector": {"matchLabels": {"tier": "batch"}}, "groups": {"staleAfter": "1h"}}
    objects["ClusterVGPUPolicy"].append({**policy("batch"), "spec": spec})


def groups_not_evicted(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [{**policy("house"), "spec": {"groups": {"whenStale": "Evict"}}}]


def other_images(objects: Objects) -> None:
    objects["Pod"].append(scheduler_pod("vgpu-scheduler-2", "vgpu-scheduler:0.0.9"))


def lease_ahead(objects: Objects) -> None:
    objects["Lease"] = [lease(renewed=-60, written=0)]


def lease_behind(objects: Objects) -> None:
    objects["Lease"] = [lease(renewed=60, written=0)]


def left_behind(objects: Objects) -> None:
    objects["Pod"].append(pod_object("annotated", annotations=allocation("a", ("a-gpu-0", 1, 1))))


def no_quantity(objects: Objects) -> None:
    objects["Node"].append(node_object("odd", cards("odd", 1), allocatable={"cpu": "many"}))


def volcano_registration(objects: Objects) -> None:
    offered = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "16384", "volcano.sh/vgpu-cores": "100"}
    notes = {"volcano.sh/node-vgpu-register": "GPU-0,10,16384,NVIDIA-A100,true,hami-core:"}
    objects["Node"].append(node_object("v", annotations=notes, allocatable=offered))
    limits = {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "4000"}
    objects["Pod"].append(pod_object("asks", {"limits": limits}))


def unreadable_volcano_registration(objects: Objects) -> None:
    volcano_registration(objects)
    objects["Pod"].pop()
    objects["Node"][-1]["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = "nonsense"


def koordlet_node(objects: Objects) -> None:
    offered = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"}
    objects["Node"].append(node_object("k", allocatable=offered))
    objects["Pod"].append(pod_object("asks", {"limits": {"koordinator.sh/gpu": "50"}}))


def vendors_own_plugin(resource: str) -> Plant:
    def plant(objects: Objects) -> None:
        none = {"nvidia.com/gpu": "0"}
        objects["Node"].append(node_object("own", allocatable={**none, resource: "8", "example.com/nic": "1"}))
        objects["Node"].append(node_object("none", allocatable={**none, resource: "0"}))
        objects["Pod"].append(pod_object("asks", {"limits": {resource: "1"}}))

    return plant


PLANTED: list[tuple[Plant, set[tuple[str, str]]]] = [
    (unreadable_registration, {("registration-unreadable", "Node c")}),
    (renamed_node, {("device-on-two-nodes", "Node c")}),
    (twice_in_a_list, {("plugin-silent", "Node c")}),
    (volcano_registration, {("dialect-not-listed", "Node v"), ("dialect-not-listed", "Pod default/asks")}),
    (unreadable_volcano_registration, {("dialect-not-listed", "Node v")}),
    (koordlet_node, {("dialect-not-listed", "Node k"), ("dialect-not-listed", "Pod default/asks")}),
    (vendors_own_plugin("nvidia.com/gpu"), {("cards-not-registered", "Node own")}),
    (vendors_own_plugin("huawei.com/Ascend910B4"), {("cards-not-registered", "Node own")}),
    (sick_card, {("card-unhealthy", "Node c")}),
    (uncut_card, {("card-without-geometry", "Node c")}),
    (cordoned_nothing, {("cordon-without-card", "Node a")}),
    (unaccounted, {("pod-unaccounted", "Pod default/rogue")}),
    (unreadable_allocation, {("allocation-unreadable", "Pod default/garbled")}),
    (elsewhere, {("allocation-elsewhere", "Pod default/moved")}),
    (quota_of("8Gi"), {("quota-suspicious", "ResourceQuota default/q")}),
    (quota_of("8", "limits.nvida.com/gpumem"), {("quota-suspicious", "ResourceQuota default/q")}),
    (quota_of("8", "requests.nvidia.com/gpumme"), {("quota-suspicious", "ResourceQuota default/q")}),
    (quota_of("1500m"), {("quota-unreadable", "ResourceQuota default/q")}),
    (phantom, {("allocation-phantom", "Pod default/ghost")}),
    (orphan, {("allocation-orphan", "Pod default/lost")}),
    (over_capacity, {("card-over-capacity", "Node a")}),
    (left_behind, {("allocation-unbound", "Pod default/annotated")}),
    (malformed_lock, {("lock-malformed", "Node a")}),
    (stale_lock, {("lock-stale", "Node a")}),
    (unanswered_lock, {("lock-unanswered", "Node a")}),
    (not_running, {("scheduler-not-running", f"Deployment {SYSTEM}/vgpu-scheduler")}),
    (no_deployment, {("scheduler-not-running", f"Deployment {SYSTEM}/vgpu-scheduler")}),
    (stale_lease, {("lease-stale", f"Lease {SYSTEM}/vgpu-scheduler")}),
    (no_lease, {("lease-stale", f"Lease {SYSTEM}/vgpu-scheduler")}),
    (two_leaders, {("two-leaders", f"Lease {where}/vgpu-scheduler") for where in (SYSTEM, "elsewhere")}),
    (unserved, {("pod-unserved", "Pod default/typo")}),
    (wrong_scheduler, {("pod-names-another-scheduler", "Pod default/plain")}),
    (stock_plugin, {("stock-plugin", f"DaemonSet {KUBE_SYSTEM}/nvidia-device-plugin")}),
    (mig_manager, {("mig-manager", f"DaemonSet {KUBE_SYSTEM}/nvidia-mig-manager")}),
    (time_slicing, {("time-slicing", "Node c")}),
    (resource_slice, {("resource-slices", "Node b")}),
    (hami_scheduler, {("hami-scheduler-uncounted", f"Deployment {KUBE_SYSTEM}/hami-scheduler")}),
    (
        two_schedulers,
        {
            ("hami-scheduler-uncounted", f"Deployment {KUBE_SYSTEM}/hami-scheduler"),
            ("two-schedulers", "Pod default/theirs"),
        },
    ),
    (no_guard, {("annotations-unguarded", GUARD)}),
    (guard_unbound, {("annotations-unguarded", GUARD)}),
    (no_node_policy, {("admission-policy-missing", "ValidatingAdmissionPolicy vgpu-scheduler-nodes")}),
    (node_policy_unbound, {("admission-policy-unbound", "ValidatingAdmissionPolicy vgpu-scheduler-nodes")}),
    (
        guard_audits,
        {
            ("admission-policy-audit-only", "ValidatingAdmissionPolicyBinding vgpu-scheduler-allocations"),
            ("annotations-unguarded", GUARD),
        },
    ),
    (fails_open, {("admission-policy-fails-open", "ValidatingAdmissionPolicy vgpu-scheduler-nodes")}),
    (plugin_elsewhere, {("plugin-refused", "ServiceAccount dcu/dcu-plugin")}),
    (plugin_by_folder, {("plugin-refused", "ServiceAccount own/own")}),
    (plugin_by_label, {("plugin-refused", "ServiceAccount own/agent")}),
    (missing_right, {("right-missing", f"ServiceAccount {SYSTEM}/vgpu-scheduler")}),
    (unbound_role, {("right-missing", f"ServiceAccount {SYSTEM}/vgpu-scheduler")}),
    (no_volumes, {("volume-right-missing", f"ServiceAccount {SYSTEM}/vgpu-scheduler")}),
    (no_definition, {("definition-missing", "CustomResourceDefinition vgpupolicies.vgpu-scheduler.io")}),
    (other_version, {("definition-version", "CustomResourceDefinition vgpupolicies.vgpu-scheduler.io")}),
    (not_established, {("definition-version", "CustomResourceDefinition vgpupolicies.vgpu-scheduler.io")}),
    (outdated, {("definition-outdated", "CustomResourceDefinition vgpupolicies.vgpu-scheduler.io")}),
    (not_ready, {("policy-not-ready", "ClusterVGPUPolicy strict")}),
    (conflicted, {("policy-conflicted", "ClusterVGPUPolicy strict")}),
    (warned, {("policy-warned", "ClusterVGPUPolicy strict")}),
    (unjudged, {("policy-unjudged", "ClusterVGPUPolicy strict")}),
    (overdue, {("victim-overdue", "Pod default/web"), ("nominated-while-off", "Pod default/waits")}),
    (nominated_while_off, {("nominated-while-off", "Pod default/waits")}),
    (nominated_nowhere, {("nominated-nowhere", "Pod default/waits")}),
    (preemption_off, {("preemption-off", "ClusterVGPUPolicy house")}),
    (stale_group, {("pod-group-stale", "Pod default/g0")}),
    (groups_not_evicted, {("groups-not-evicted", "ClusterVGPUPolicy house")}),
    (other_images, {("replica-images-differ", f"Deployment {SYSTEM}/vgpu-scheduler")}),
    (lease_ahead, {("lease-clock-skew", f"Lease {SYSTEM}/vgpu-scheduler")}),
    (lease_behind, {("lease-clock-skew", f"Lease {SYSTEM}/vgpu-scheduler")}),
    (no_quantity, {("object-unreadable", "Node odd")}),
]
