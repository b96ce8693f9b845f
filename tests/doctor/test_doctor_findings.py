"""Each defect that is planted in a healthy cluster is found, with the name of the object, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.doctor.clusters import (
    EXPECTED,
    KUBE_SYSTEM,
    NOW,
    PLUGIN_FOLDER,
    SERVER,
    SYSTEM,
    Objects,
    ago,
    daemon_pod,
    found,
    healthy,
    lease,
    look,
    policy,
    scheduler_pod,
    tenant,
    workload,
)
from tests.engine.builders import allocation, card, cards, node_object, pod_object

from vgpu_scheduler.doctor import CHECKS, DIAGNOSES, Expected, Report
from vgpu_scheduler.kube import parse_label_selector
from vgpu_scheduler.policy import PolicyDefaults

LOCK = "hami.io/mutex.lock"
GUARD = "ValidatingAdmissionPolicy vgpu-scheduler-allocations"
Plant = Callable[[Objects], None]


def names(report: Report) -> set[str]:
    return {finding.diagnosis.id for finding in report.findings}


def expecting(**options: Any) -> Expected:
    return replace(EXPECTED, options=replace(EXPECTED.options, **options))


def messages(report: Report) -> str:
    return "\n".join(finding.message for finding in report.findings)


def drop(objects: Objects, kind: str, name: str) -> None:
    objects[kind] = [obj for obj in objects[kind] if obj["metadata"]["name"] != name]


def named(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    return next(obj for obj in objects[kind] if obj["metadata"]["name"] == name)


def lock(objects: Objects, value: str) -> None:
    objects["Node"][0]["metadata"]["annotations"][LOCK] = value


def test_a_healthy_cluster_has_no_finding() -> None:
    report = look(healthy())
    assert found(report) == set()
    assert report.healthy
    assert report.complete
    assert report.checks == len(CHECKS)


# Each plants one defect; what must be found is beside it -------------------------------------------------------------


def unreadable_registration(objects: Objects) -> None:
    objects["Node"].append(node_object("c", "[{"))


def twice_in_a_list(objects: Objects) -> None:
    objects["Node"].append(node_object("c", cards("c", 1), allocatable={"nvidia.com/gpu": "0"}))


def sick_card(objects: Objects) -> None:
    objects["Node"].append(node_object("c", [card("c-gpu-0"), card("c-gpu-1", healthy=False)]))


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


def quota_of(limit: str) -> Plant:
    def plant(objects: Objects) -> None:
        metadata = {"name": "q", "namespace": "default", "uid": "q"}
        objects["ResourceQuota"] = [{"metadata": metadata, "spec": {"hard": {"limits.nvidia.com/gpumem": limit}}}]

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


def unjudged(objects: Objects) -> None:
    objects["ClusterVGPUPolicy"] = [policy("strict", generation=2)]


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


PLANTED: list[tuple[Plant, set[tuple[str, str]]]] = [
    (unreadable_registration, {("registration-unreadable", "Node c")}),
    (twice_in_a_list, {("plugin-silent", "Node c")}),
    (sick_card, {("card-unhealthy", "Node c")}),
    (unaccounted, {("pod-unaccounted", "Pod default/rogue")}),
    (unreadable_allocation, {("allocation-unreadable", "Pod default/garbled")}),
    (elsewhere, {("allocation-elsewhere", "Pod default/moved")}),
    (quota_of("8Gi"), {("quota-suspicious", "ResourceQuota default/q")}),
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
    (no_guard, {("admission-policy-missing", GUARD), ("annotations-unguarded", GUARD)}),
    (guard_unbound, {("admission-policy-unbound", GUARD), ("annotations-unguarded", GUARD)}),
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
    (unjudged, {("policy-unjudged", "ClusterVGPUPolicy strict")}),
    (other_images, {("replica-images-differ", f"Deployment {SYSTEM}/vgpu-scheduler")}),
    (lease_ahead, {("lease-clock-skew", f"Lease {SYSTEM}/vgpu-scheduler")}),
    (lease_behind, {("lease-clock-skew", f"Lease {SYSTEM}/vgpu-scheduler")}),
    (no_quantity, {("object-unreadable", "Node odd")}),
]


@pytest.mark.parametrize(("plant", "expected"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_defect_is_found_and_nothing_else(plant: Plant, expected: set[tuple[str, str]]) -> None:
    objects = healthy()
    plant(objects)
    report = look(objects)
    assert found(report) == expected
    assert report.complete
    assert all(finding.message and finding.docs.endswith(f"#{finding.diagnosis.id}") for finding in report.findings)


def test_every_diagnosis_is_tested() -> None:
    """What follows from more than objects has a test of its own below, or in those of the command."""
    elsewhere = {
        "plugin-not-let-in",
        "kubernetes-too-old",
        "clock-skew",
        "device-registered-twice",
        "settings-unreadable",
    }
    planted = {name for _, expected in PLANTED for name, _ in expected}
    assert planted | elsewhere == {diagnosis.id for diagnosis in DIAGNOSES}
    assert not planted & elsewhere


# What findings say ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_over_capacity_says_how_much_of_what_by_whom(seed: int) -> None:
    rng, objects = np.random.default_rng(seed), healthy()
    shares = [(int(rng.integers(1000, 9000)), int(rng.integers(1, 80))) for _ in range(int(rng.integers(2, 6)))]
    objects["Pod"] += [tenant(f"big-{n}", "a", ("a-gpu-1", *share)) for n, share in enumerate(shares)]
    (total,) = {each["devmem"] for each in json.loads(registered(objects)) if each["id"] == "a-gpu-1"}
    told = messages(look(objects))
    for column, most, unit in ((0, total, "MiB memory"), (1, 100, "percent cores")):
        used = sum(share[column] for share in shares)
        by = ", ".join(f"default/big-{n} ({share[column]})" for n, share in enumerate(shares))
        assert (f"{used} of {most} {unit} by {by}" in told) is (used > most)


def registered(objects: Objects) -> str:
    return str(named(objects, "Node", "a")["metadata"]["annotations"]["hami.io/node-nvidia-register"])


@pytest.mark.parametrize("seed", range(60))
def test_who_has_an_allocation_that_cannot_be_read_is_to_be_placed_anew(seed: int) -> None:
    rng, objects = np.random.default_rng(seed), healthy()
    pod = tenant("garbled", "a", ("a-gpu-1", 1000, 10))
    notes, key = pod["metadata"]["annotations"], "hami.io/vgpu-devices-allocated"
    cut = int(rng.integers(1, len(notes[key])))
    wrong = [notes[key][:cut].rstrip(":;") + "x" * int(rng.integers(0, 3)), "", "null", "a-gpu-1", ";", "?" * cut]
    notes[key] = str(rng.choice(wrong))
    if gone := bool(rng.random() < 0.2):
        del notes[key]
    objects["Pod"].append(pod)
    ids = {finding for finding, ref in found(look(objects)) if ref == "Pod default/garbled"}
    assert ("pod-unaccounted" in ids) is gone


def test_a_lock_names_its_owner_and_its_age() -> None:
    objects = healthy()
    stale_lock(objects)
    assert "was taken 6 min 40 s ago by pod default/deleted-long-ago (which is not there)" in messages(look(objects))


def test_a_lock_of_a_moment_ago_is_none_of_our_business() -> None:
    objects = healthy()
    lock(objects, f"{ago(5)},default,deleted")
    assert found(look(objects)) == set()


def test_a_lock_whose_plugin_has_answered_is_about_to_go() -> None:
    objects = healthy()
    unanswered_lock(objects)
    objects["Pod"][-1]["metadata"]["annotations"]["hami.io/bind-phase"] = "success"
    lock(objects, f"{ago(120)},default,starting")
    assert found(look(objects)) == set()


def test_a_phantom_says_which_node_has_the_card() -> None:
    objects = healthy()
    objects["Pod"].append(tenant("astray", "a", ("b-gpu-1", 1000, 10)))
    report = look(objects)
    assert found(report) == {("allocation-phantom", "Pod default/astray")}
    assert "(node b does)" in messages(report)


def test_a_missing_right_is_named() -> None:
    objects = healthy()
    missing_right(objects)
    assert "it may not list resourcequotas, watch resourcequotas" in messages(look(objects))


def test_rights_of_the_lease_are_those_of_its_name() -> None:
    objects = healthy()
    unbound_role(objects)
    lacking = messages(look(objects))
    assert "update leases.coordination.k8s.io vgpu-scheduler in namespace vgpu-system" in lacking


def test_the_silent_plugin_of_an_old_cluster_shows_its_handshake() -> None:
    objects = healthy()
    twice_in_a_list(objects)
    objects["Node"][-1]["metadata"]["annotations"]["hami.io/node-handshake"] = "Deleted_2026-03-04 05:00:00"
    assert "'Deleted_2026-03-04 05:00:00'" in messages(look(objects))


# What depends on settings, versions and clocks -----------------------------------------------------------------------


def test_before_the_guard_is_there_plugins_are_named_that_it_would_refuse() -> None:
    objects = healthy()
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole", "ClusterRoleBinding"):
        objects[kind] = []
    plugin_elsewhere(objects)
    report = look(objects)
    assert ("plugin-not-let-in", "ServiceAccount dcu/dcu-plugin") in found(report)
    assert ("plugin-not-let-in", "ServiceAccount kube-system/hami-device-plugin") not in found(report)


def test_a_guard_that_audits_names_plugins_that_it_would_refuse() -> None:
    objects = healthy()
    guard_audits(objects)
    plugin_elsewhere(objects)
    assert ("plugin-not-let-in", "ServiceAccount dcu/dcu-plugin") in found(look(objects))


@pytest.mark.parametrize(
    ("breaking", "why"),
    [(no_guard, "is not there"), (guard_unbound, "denies nothing"), (guard_audits, "denies nothing")],
)
def test_why_nothing_guards_does_not_contradict_what_is_said_of_the_policy(
    breaking: Callable[[Objects], None], why: str
) -> None:
    objects = healthy()
    breaking(objects)
    (message,) = (one.message for one in look(objects).findings if one.diagnosis.id == "annotations-unguarded")
    assert message == f"tenants can write annotations that allocate cards, because this policy {why}"


def test_a_guard_that_leaves_out_namespaces_does_not_guard() -> None:
    objects = healthy()
    binding = named(objects, "ValidatingAdmissionPolicyBinding", "vgpu-scheduler-allocations")
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    assert "annotations-unguarded" in names(look(objects))


def test_hami_beside_us_is_fine_where_it_is_named_and_keeps_to_its_nodes() -> None:
    objects = healthy()
    two_schedulers(objects)
    objects["Node"][0]["metadata"]["labels"]["pool"] = "vgpu"
    managed = parse_label_selector("pool=vgpu")
    beside = expecting(coexist_with=("hami-scheduler",), defaults=PolicyDefaults(managed=managed))
    assert found(look(objects, expected=beside)) == set()


def test_hami_scaled_to_zero_does_not_run() -> None:
    objects = healthy()
    two_schedulers(objects)
    objects["Deployment"][-1]["spec"]["replicas"] = 0
    assert found(look(objects)) == set()


def test_hami_alone_decides_where_ours_is_not_installed() -> None:
    objects = healthy()
    two_schedulers(objects)
    drop(objects, "Deployment", "vgpu-scheduler")
    objects["Lease"] = []
    assert names(look(objects)) == {"scheduler-not-running"}


def test_hami_under_another_name_is_told_by_its_flag() -> None:
    objects = healthy()
    hami_scheduler(objects)
    container = objects["Deployment"][-1]["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["scheduler", "--scheduler-name=gpu-scheduler"]
    assert found(look(objects, expected=expecting(coexist_with=("gpu-scheduler",)))) == set()
    assert "hami-scheduler-uncounted" in names(look(objects))


def test_pods_of_ours_wait_for_nobody_when_nobody_leads() -> None:
    objects = healthy()
    not_running(objects)
    pod = pod_object("waits")
    pod["metadata"]["creationTimestamp"] = ago(600)
    objects["Pod"].append(pod)
    assert ("pod-unserved", "Pod default/waits") in found(look(objects))


def test_a_stock_plugin_on_other_nodes_is_none_of_our_business() -> None:
    objects = healthy()
    stock_plugin(objects)
    objects["Node"].append(node_object("theirs"))
    objects["Pod"][-1]["spec"]["nodeName"] = "theirs"
    assert found(look(objects)) == set()


def test_an_old_api_server_is_named() -> None:
    report = look(healthy(), server=replace(SERVER, version=(1, 29)))
    assert found(report) == {("kubernetes-too-old", "APIServer https://example")}


@pytest.mark.parametrize("seconds", [-30, 30])
def test_a_clock_that_is_not_the_servers_is_named(seconds: int) -> None:
    report = look(healthy(), server=replace(SERVER, local=NOW + timedelta(seconds=seconds)))
    assert found(report) == {("clock-skew", "APIServer https://example")}
    assert ("behind" if seconds < 0 else "ahead of") in messages(report)


def test_components_add_rights_only_where_they_are_used() -> None:
    report = look(healthy(), expected=expecting(system_spread=True))
    assert found(report) == {("right-missing", f"ServiceAccount {SYSTEM}/vgpu-scheduler")}
    assert "(manifests/system-spread/rbac.yaml)" in messages(report)


def test_a_check_whose_objects_cannot_be_seen_is_skipped_with_the_right() -> None:
    report = look({}, missing={"Node": "list nodes", "Pod": "list pods"})
    skipped = {skip.check: skip.reason for skip in report.skipped}
    assert skipped["registrations"] == "list nodes"
    assert skipped["allocations"] == "list nodes, list pods"
    assert "guarded-annotations" not in skipped
    assert not report.complete


def test_the_worst_comes_first() -> None:
    objects = healthy()
    for plant in (left_behind, sick_card, phantom):
        plant(objects)
    assert [finding.severity.value for finding in look(objects).findings] == ["error", "warning", "info"]


@pytest.mark.parametrize(("age", "findings"), [(200, set()), (400, {("lock-stale", "Node a")})])
def test_a_pod_that_waits_for_another_scheduler_keeps_its_lock_for_five_minutes(
    age: float, findings: set[tuple[str, str]]
) -> None:
    objects = healthy()
    objects["Pod"].append(pod_object("holder", scheduler="default-scheduler"))
    lock(objects, f"{ago(age)},default,holder")
    assert {each for each in found(look(objects)) if each[0].startswith("lock")} == findings


def test_information_alone_is_healthy() -> None:
    objects = healthy()
    left_behind(objects)
    assert look(objects).healthy
