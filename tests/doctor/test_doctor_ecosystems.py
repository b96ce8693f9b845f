"""What the doctor says of clusters that come from Volcano or Koordinator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.doctor.clusters import Objects, found, look
from tests.doctor.ecosystems import (
    EXPECTED_KOORDINATOR,
    EXPECTED_VOLCANO,
    KOORDLET,
    PLANTED,
    VOLCANO_PLUGIN,
    VOLCANO_REF,
    WRITER,
    Plant,
    gates,
    healthy_koordinator,
    healthy_volcano,
    image,
    koordinator_pod,
    main,
    manager,
    named,
    no_taint,
    script,
    selects,
    volcano_pod,
)
from tests.doctor.planted import drop
from tests.whatif.test_whatif_remedies_dialects import HALF, cluster

from vgpu_scheduler.doctor import ExpectedSettings

HEALTHY = {
    "volcano": (healthy_volcano, EXPECTED_VOLCANO),
    "koordinator": (healthy_koordinator, EXPECTED_KOORDINATOR),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_cluster_that_has_moved_has_no_finding(name: str) -> None:
    make, expected = HEALTHY[name]
    report = look(make(), expected=expected)
    assert found(report) == set()
    assert report.skipped == ()


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found_and_nothing_else(name: str) -> None:
    make, expected, plant, wanted = PLANTED[name]
    objects = make()
    plant(objects)
    report = look(objects, expected=expected)
    assert found(report) == wanted
    assert report.skipped == ()


FLAG, VERSION = "the flag --feature-gates", "does not say a version"
NO_DAEMON_SET = "the flags of koordlet on node k1, where no DaemonSet runs it"
DIGEST = "volcano-vgpu-device-plugin@sha256:0"
SELECTOR = "the flag --node-selector"
WORDS = "the flag --binding-admission-user-name"


def no_koordlet(objects: Objects) -> None:
    drop(objects, "DaemonSet", KOORDLET)


UNKNOWN: dict[str, tuple[str, Plant, str, str]] = {
    "gates from elsewhere": ("koordinator", gates("-feature-gates=$(GATES)"), "koordlet-gates", FLAG),
    "all flags from elsewhere": ("koordinator", gates("$(FLAGS)"), "koordlet-gates", FLAG),
    "a script with a variable": ("koordinator", script("exec /koordlet $FLAGS"), "koordlet-gates", FLAG),
    "a koordlet without a version": ("koordinator", image(KOORDLET, "koordlet:latest"), "plugin-versions", VERSION),
    "a manager whose flags are elsewhere": ("koordinator", manager("$(FLAGS)"), "koord-manager", WORDS),
    "no koordlet": ("koordinator", no_koordlet, "koordlet-gates", NO_DAEMON_SET),
    "a plugin by its digest": ("volcano", image(VOLCANO_PLUGIN, DIGEST), "plugin-versions", VERSION),
    "a node selector from elsewhere": ("volcano", selects("--node-selector=$(POOL)"), "other-schedulers", SELECTOR),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_told_is_skipped_and_says_what_it_takes(name: str) -> None:
    ecosystem, plant, check, reason = UNKNOWN[name]
    make, expected = HEALTHY[ecosystem]
    objects = make()
    plant(objects)
    report = look(objects, expected=expected)
    assert found(report) == set()
    (skipped,) = report.skipped
    assert skipped.check == check
    assert reason in skipped.reason
    assert not report.complete


@pytest.mark.parametrize("may_list", [False, True])
def test_cards_are_no_phantoms_where_nobody_may_read_which_there_are(*, may_list: bool) -> None:
    objects = healthy_koordinator()
    made = cluster("koordinator", [[HALF]])
    asked = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
    for container in (each for obj in made for each in obj.get("spec", {}).get("containers", ())):
        container["resources"] = {"limits": asked, "requests": asked}
    objects |= {kind: [each for each in made if each["kind"] == kind] for kind in ("Node", "Pod")} | {"Device": []}
    report = look(objects, expected=EXPECTED_KOORDINATOR, missing={} if may_list else {"Device": "list devices"})
    assert ("allocation-phantom" in {name for name, _ in found(report)}) is may_list


@pytest.mark.parametrize("kind", ["DaemonSet", "Device", "Deployment"])
def test_what_may_not_be_read_is_skipped(kind: str) -> None:
    report = look(healthy_koordinator(), expected=EXPECTED_KOORDINATOR, missing={kind: f"list {kind}"})
    skipped = {each.check for each in report.skipped if each.reason == f"list {kind}"}
    about = {"koordlet-gates", "plugin-versions", "other-schedulers", "koord-manager"}
    of_deployments = {"other-schedulers", "koord-manager"}
    wanted = {"DaemonSet": about - of_deployments, "Device": about - {"koord-manager"}, "Deployment": of_deployments}
    assert skipped & about == wanted[kind]


def test_gates_that_a_variable_gives_are_read_where_it_is_written() -> None:
    objects = healthy_koordinator()
    container = main(named(objects, "DaemonSet", KOORDLET))
    container.update(args=["-feature-gates=$(GATES)"], env=[{"name": "GATES", "value": "GPUEnvInject=true"}])
    told = {name for name, _ in found(look(objects, expected=EXPECTED_KOORDINATOR))}
    assert told == {"koordlet-lists-no-devices", "koordlet-injects-no-rdma"}


def test_a_koordlet_on_other_nodes_needs_no_gates() -> None:
    """Nodes without devices may have a koordlet of their own; but where no node lists any, all should."""
    objects = healthy_koordinator()
    gates("-v=4")(objects)
    objects["Pod"] = [pod for pod in objects["Pod"] if pod["spec"]["nodeName"] != "k1"]
    report = look(objects, expected=EXPECTED_KOORDINATOR)
    assert found(report) == set()
    assert "koordlet on node k1, where no DaemonSet runs it" in report.skipped[0].reason
    objects = healthy_koordinator()
    gates("-v=4")(objects)
    objects["Device"], objects["Pod"] = [], objects["Pod"][:2]
    told = look(objects, expected=EXPECTED_KOORDINATOR)
    assert {name for name, _ in found(told)} == {"koordlet-lists-no-devices"}
    assert "Accelerators is off on node k1" in told.findings[0].message


def nobody_names_it(objects: Objects) -> None:
    for pod in objects["Pod"]:
        pod["spec"]["schedulerName"] = "vgpu-scheduler"


def without_cards(objects: Objects) -> None:
    for pod in objects["Pod"]:
        pod["spec"]["containers"][0]["resources"], pod["metadata"]["annotations"] = {}, {}


def scaled_down(objects: Objects) -> None:
    for deployment in objects["Deployment"][1:]:
        deployment["spec"]["replicas"] = 0


def cordoned(objects: Objects) -> None:
    objects["Node"][0]["spec"]["unschedulable"] = True


def elsewhere(objects: Objects) -> None:
    for pod in objects["Pod"]:
        pod["spec"]["nodeSelector"] = {"pool": "batch"}


def not_ours(objects: Objects) -> None:
    objects["Deployment"], objects["Lease"] = objects["Deployment"][1:], []


@pytest.mark.parametrize("mending", [nobody_names_it, without_cards, scaled_down, cordoned, elsewhere, not_ours])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_scheduler_whose_pods_cannot_come_is_no_matter(mending: Callable[[Objects], None], name: str) -> None:
    make, expected = HEALTHY[name]
    objects = make()
    (selects("--v=3") if name == "volcano" else no_taint)(objects)
    assert not_kept_off(objects, expected)
    mending(objects)
    assert not not_kept_off(objects, expected)


def not_kept_off(objects: Objects, expected: ExpectedSettings) -> bool:
    return "scheduler-not-kept-off" in {name for name, _ in found(look(objects, expected=expected))}


def test_who_is_not_kept_off_is_told_with_nodes_and_pods() -> None:
    objects = healthy_volcano()
    selects("--scheduler-name=volcano", "--scheduler-name=batch")(objects)
    objects["Pod"].append(volcano_pod("waits"))
    objects["Pod"][-1]["spec"]["schedulerName"] = "batch"
    (finding,) = look(objects, expected=EXPECTED_VOLCANO).findings
    assert str(finding.ref) == VOLCANO_REF
    assert finding.message == (
        "Volcano's scheduler may place pods with cards on node v1: 2 such pods name it, the first one is default/old"
    )


def test_a_waiting_pod_of_koord_scheduler_that_tolerates_nothing_stays_away() -> None:
    objects = healthy_koordinator()
    objects["Pod"].append(koordinator_pod("waits"))
    assert found(look(objects, expected=EXPECTED_KOORDINATOR)) == set()


def test_an_account_under_the_old_name_of_its_field_is_read() -> None:
    """Volcano's chart has it; the API server writes both names, files have but one."""
    objects = healthy_volcano()
    template = named(objects, "Deployment", "volcano-scheduler")["spec"]["template"]["spec"]
    template["serviceAccount"] = template.pop("serviceAccountName")
    assert found(look(objects, expected=EXPECTED_VOLCANO)) == set()


@pytest.mark.parametrize("name", HEALTHY)
def test_the_account_of_the_other_scheduler_is_named_where_the_guard_refuses_it(name: str) -> None:
    make, expected = HEALTHY[name]
    objects = make()
    bindings = objects["ClusterRoleBinding"]
    objects["ClusterRoleBinding"] = [
        each for each in bindings if each["roleRef"]["name"] != WRITER or "scheduler" not in each["metadata"]["name"]
    ]
    account = {"volcano": "volcano-system/volcano-scheduler", "koordinator": "koordinator-system/koord-scheduler"}[name]
    assert ("plugin-refused", f"ServiceAccount {account}") in found(look(objects, expected=expected))
