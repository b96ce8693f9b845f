"""Each defect that is planted in a healthy cluster is found, with the name of the object, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.doctor.clusters import (
    EXPECTED,
    NOW,
    SERVER,
    SYSTEM,
    Objects,
    ago,
    found,
    healthy,
    look,
    messages,
    policy,
    tenant,
)
from tests.doctor.ecosystems import PLANTED as OF_OTHERS
from tests.doctor.planted import (
    PLANTED,
    Plant,
    drop,
    guard_audits,
    guard_unbound,
    hami_scheduler,
    left_behind,
    lock,
    missing_right,
    named,
    no_guard,
    nominee,
    not_running,
    phantom,
    plugin_elsewhere,
    preemption_off,
    sick_card,
    stale_lock,
    stock_plugin,
    twice_in_a_list,
    two_schedulers,
    unanswered_lock,
    unbound_role,
)
from tests.engine.builders import asks, node_object, pod_object
from tests.policy.malformed_policies import MALFORMED
from tests.policy.policy_cases import Case

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.doctor import CHECKS, DIAGNOSES, ExpectedSettings, Report
from vgpu_scheduler.kube import parse_label_selector
from vgpu_scheduler.model import LAST_ALLOCATED
from vgpu_scheduler.policy import PolicyDefaults


def names(report: Report) -> set[str]:
    return {finding.diagnosis.id for finding in report.findings}


def expecting(**options: Any) -> ExpectedSettings:
    return replace(EXPECTED, options=replace(EXPECTED.options, **options))


def test_a_healthy_cluster_has_no_finding() -> None:
    report = look(healthy())
    assert found(report) == set()
    assert report.healthy
    assert report.complete
    assert report.checks == len(CHECKS)


# Each plants one defect; what must be found is beside it -------------------------------------------------------------


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
    planted |= {name for _, _, _, expected in OF_OTHERS.values() for name, _ in expected}
    assert planted | elsewhere == {diagnosis.id for diagnosis in DIAGNOSES}
    assert not planted & elsewhere


# What findings say ---------------------------------------------------------------------------------------------------


def test_only_cards_are_taken_for_those_of_another_node() -> None:
    """Devices of other kinds are called by their place in the node."""
    objects = healthy()
    objects["Node"] += [node_object("c"), node_object("d")]
    share = {
        "type": "rdma",
        "minor": 0,
        "id": "0000:1f:00.0",
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
    }
    gpu = {"type": "gpu", "id": "GPU-x", "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    objects["Device"] = [
        {"metadata": {"name": name}, "spec": {"devices": [share, {**gpu, "minor": minor}]}}
        for minor, name in enumerate("cd")
    ]
    report = look(objects, expected=expecting(dialects=(hami_dialect(), koordinator_dialect())))
    (told,) = [each for each in report.findings if each.diagnosis.id == "device-on-two-nodes"]
    assert (str(told.ref), told.message) == ("Node d", "it lists 1 card that node c lists, too: GPU-x")


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
    assert "was taken 6.7 min ago by pod default/deleted-long-ago (which does not exist)" in messages(look(objects))


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


@pytest.mark.parametrize("token", ["uid-waits", ""])
def test_a_lock_that_names_nobody_is_left_over_once_its_taker_cannot_be_bound_any_more(token: str) -> None:
    """The scheduler replaces such a lock of its own at once, whoever took it, and one of others after five minutes."""
    objects = healthy()
    objects["Pod"].append(pod_object("waits", asks()))
    lock(objects, ago(100))
    objects["Node"][0]["metadata"]["annotations"][LAST_ALLOCATED] = token
    report = look(objects)
    assert {each for each in found(report) if each[0].startswith("lock")} == (
        {("lock-stale", "Node a")} if token else set()
    )
    assert ("by pod default/waits, which it does not name" in messages(report)) is bool(token)


@pytest.mark.parametrize(
    ("part", "value"),
    [("status", {"allocatable": {"cpu": "much"}}), ("status", {"allocatable": []}), ("spec", {"taints": "none"})],
)
def test_pods_of_a_node_that_cannot_be_read_hold_cards_of_a_node_that_exists(part: str, value: Any) -> None:
    objects = healthy()
    objects["Pod"].append(tenant("there", "a", ("a-gpu-1", 1000, 10)))
    objects["Node"][0][part] = value
    report = look(objects)
    assert {each for each in found(report) if each[0].startswith("allocation-")} == set()
    assert ("object-unreadable", "Node a") in found(report)


@pytest.mark.parametrize("registered", ["", "a-gpu-0,10,", "{", "[{}]"])
def test_cards_are_no_phantoms_where_the_registration_of_their_node_cannot_be_read(registered: str) -> None:
    objects = healthy()
    objects["Pod"].append(tenant("there", "a", ("a-gpu-1", 1000, 10)))
    objects["Node"][0]["metadata"]["annotations"]["hami.io/node-nvidia-register"] = registered
    names = {name for name, _ in found(look(objects))}
    assert ("registration-unreadable" in names) is not ("allocation-phantom" in names)


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
    [
        (no_guard, "this policy does not exist"),
        (guard_unbound, "no binding names this policy"),
        (guard_audits, "this policy denies nothing"),
    ],
)
def test_why_nothing_guards_does_not_contradict_what_is_said_of_the_policy(
    breaking: Callable[[Objects], None], why: str
) -> None:
    objects = healthy()
    breaking(objects)
    (message,) = (one.message for one in look(objects).findings if one.diagnosis.id == "annotations-unguarded")
    assert message == f"tenants can write annotations that allocate cards, because {why}"


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


@pytest.mark.parametrize("is_announced", [False, True])
def test_a_pod_that_its_scheduler_has_announced_was_looked_at(*, is_announced: bool) -> None:
    objects = healthy()
    pod = pod_object("waits")
    pod["spec"]["schedulerName"] = "other"
    pod["metadata"]["creationTimestamp"] = ago(600)
    if is_announced:
        pod["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "GPU-x,NVIDIA,1000,0:;"}
    objects["Pod"].append(pod)
    assert (("pod-unserved", "Pod default/waits") in found(look(objects))) is not is_announced


@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler"])
def test_a_pod_at_which_a_scheduler_of_coexist_with_has_not_looked_is_told(scheduler: str, *, looked_at: bool) -> None:
    objects = healthy()
    pod = pod_object("waits")
    pod["spec"]["schedulerName"] = scheduler
    pod["metadata"]["creationTimestamp"] = ago(600)
    if looked_at:
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    objects["Pod"].append(pod)
    told = list(look(objects, expected=expecting(coexist_with=(scheduler,))).findings)
    assert [(each.diagnosis.id, each.message) for each in told] == (
        []
        if looked_at
        else [("pod-unserved", f"it names {scheduler}, which has not looked at it; ours are vgpu-scheduler")]
    )


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
    report = look(healthy(), expected=expecting(preemption=True))
    assert found(report) == {("right-missing", f"ServiceAccount {SYSTEM}/vgpu-scheduler")}
    assert "create pods/eviction" in messages(report)
    assert "(manifests/preemption/rbac.yaml)" in messages(report)
    assert "beyond" not in messages(report)


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


def test_a_victim_is_overdue_only_where_somebody_more_important_waits_for_it_and_only_after_its_grace_period() -> None:
    for node, priority, late in (("b", 5, 31), ("a", 0, 31), ("a", 5, 29), ("a", 5, -10)):
        objects = healthy()
        nominee(objects, node, priority)
        named(objects, "Pod", "web")["metadata"]["deletionTimestamp"] = ago(late)
        assert "victim-overdue" not in names(look(objects)), (node, priority, late)


@pytest.mark.parametrize("how", ["by the scheduler", "by an eviction", "by its record"])
def test_a_victim_is_overdue_though_nobody_waits_for_it_any_more(how: str) -> None:
    """The pod that it should have ended for has chosen another node after two minutes."""
    objects = healthy()
    victim = named(objects, "Pod", "web")
    victim["metadata"]["deletionTimestamp"] = ago(700)
    assert names(look(objects)) == set()
    reason = {"by the scheduler": "PreemptionByScheduler", "by an eviction": "EvictionByEvictionAPI"}.get(how)
    if reason is None:
        metadata = victim["metadata"]
        record = {"time": ago(800), "pod": "default/web", "uid": metadata["uid"], "node": "a"}
        made = policy("house")
        objects["ClusterVGPUPolicy"] = [{**made, "status": {**made["status"], "evictions": [record]}}]
    else:
        victim["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    report = look(objects, expected=expecting(preemption=how == "by an eviction"))
    assert ("victim-overdue", "Pod default/web") in found(report)
    assert "it was evicted and should have ended 700 s ago; it is still on node a" in messages(report)


def test_a_pod_that_a_drain_evicts_is_nobodys_victim_where_preemption_is_off() -> None:
    objects = healthy()
    victim = named(objects, "Pod", "web")
    victim["metadata"]["deletionTimestamp"] = ago(700)
    victim["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    assert names(look(objects)) == set()


def test_nominations_that_nobody_takes_back_are_named_where_preemption_is_off() -> None:
    objects = healthy()
    nominee(objects, "a")
    assert ("nominated-while-off", "Pod default/waits") in found(look(objects))
    assert look(objects).healthy, "an autoscaler may have nominated it"
    assert "nominated-while-off" not in names(look(objects, expected=expecting(preemption=True)))


def test_preemption_that_is_on_or_not_asked_for_is_no_finding() -> None:
    objects = healthy()
    preemption_off(objects)
    rights = {"preemption": True}
    assert "preemption-off" not in names(look(objects, expected=expecting(**rights)))
    objects["ClusterVGPUPolicy"][0]["spec"] = {"preemption": {"mayPreempt": False}}
    assert names(look(objects)) == set()


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_policy_that_nobody_has_judged_is_judged_here(case: Case) -> None:
    objects = healthy()
    objects[case.kind] = [{**case.policy(), "status": {}}]
    report = look(objects)
    if isinstance(case.policy()["spec"] or {}, dict):
        assert "policy-not-ready" in names(report)
        assert case.path in messages(report)
    else:
        assert "object-unreadable" in names(report)
