"""kubectl, command by command: the same cases on both servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.contract.kubectl import node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.kubectl import Kubectl, Object

pytestmark = pytest.mark.long

CRDS = Path(__file__).parents[2] / "crds"
LIMITS = [{"name": "main", "image": "example.com/image:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]


def bind(kubectl: Kubectl, name: str, where: str) -> None:
    """Bind a pod as a scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": f"{kubectl.namespace}-{where}"}
    binding: Object = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}/binding"
    kubectl("create", "--raw", path, "-f", "-", stdin=binding)


# ---------------------------------------------------------------------------------------------------- get


def test_get_prints_tables(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    kubectl("create", "-f", "-", stdin=node(kubectl, "n1", unschedulable=True))
    bind(kubectl, "a", "n1")
    heading, row = kubectl.rows("pods")
    assert heading == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["a", "0/1", "Pending", "0"]
    heading, row = kubectl.rows("pods", "-o", "wide")
    assert heading[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert row[5:] == ["<none>", f"{kubectl.namespace}-n1", "<none>", "<none>"]
    heading, row = kubectl.rows("nodes", "-l", f"made-by={kubectl.namespace}")
    assert heading == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert row[1:3] == ["Unknown,SchedulingDisabled", "<none>"]
    everywhere = kubectl.rows("pods", "-A")
    assert everywhere[0][0] == "NAMESPACE"
    assert kubectl.namespace in [row[0] for row in everywhere[1:]]


def test_get_selects_and_sorts(kubectl: Kubectl) -> None:
    for name in ("b", "c", "a"):
        kubectl("create", "-f", "-", stdin=pod(name))
    assert kubectl("get", "pods", "-l", "app in (a,c)", "-o", "name").split() == ["pod/a", "pod/c"]
    assert kubectl("get", "pods", "--field-selector", "metadata.name=b", "-o", "name").split() == ["pod/b"]
    assert kubectl("get", "pods", "--field-selector", "spec.nodeName!=", "-o", "name") == ""
    rows = kubectl.rows("pods", "--sort-by", "{.metadata.labels.app}")
    assert [row[0] for row in rows[1:]] == ["a", "b", "c"]
    newest = kubectl("get", "pods", "--show-labels", "--no-headers").splitlines()
    assert newest[0].split()[-1] == "app=a"
    assert kubectl("get", "pod", "a", "-o", "jsonpath={.metadata.labels.app}") == "a"
    assert "kind: Pod" in kubectl("get", "pod", "a", "-o", "yaml")
    assert kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name").split() == ["N", "a", "b", "c"]


def test_get_watches_a_table(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    command = [str(kubectl.binary), f"--kubeconfig={kubectl.kubeconfig}", "-n", kubectl.namespace, "get", "pods", "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline().split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
            assert watching.stdout.readline().split()[:3] == ["a", "0/1", "Pending"]
            kubectl("create", "-f", "-", stdin=pod("b"))
            assert watching.stdout.readline().split()[:3] == ["b", "0/1", "Pending"]
        finally:
            watching.kill()


def test_what_is_not_there(kubectl: Kubectl) -> None:
    assert 'pods "none" not found' in kubectl.fails("get", "pod", "none")
    assert "the server doesn't have a resource type" in kubectl.fails("get", "nonsense")
    assert "No resources found" in kubectl.run("get", "pods").stderr


# ---------------------------------------------------------------------------------------------------- describe, events


def test_describe_shows_conditions_and_events(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a", containers=LIMITS))
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no card has room"}
    kubectl("patch", "pod", "a", "--subresource=status", "-p", json.dumps({"status": {"conditions": [waits]}}))
    uid = kubectl.get("pod", "a")["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": kubectl.namespace},
        "involvedObject": {"kind": "Pod", "namespace": kubectl.namespace, "name": "a", "uid": uid, "apiVersion": "v1"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available.",
        "source": {"component": "vgpu-scheduler"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 3,
    }
    kubectl("create", "-f", "-", stdin=event)
    described = kubectl("describe", "pod", "a")
    assert "nvidia.com/gpu:  1" in described
    assert "PodScheduled   False" in described
    assert "FailedScheduling" in described
    assert "0/1 nodes are available." in described
    listed = kubectl("events", "--for", "pod/a")
    assert "FailedScheduling" in listed
    heading, row = kubectl.rows("events")
    assert heading == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[1:] == ["Warning", "FailedScheduling", "pod/a", "0/1 nodes are available."]


def test_describe_shows_what_a_node_carries(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=node(kubectl, "n1"))
    amounts = {"nvidia.com/gpu": "4", "cpu": "8"}
    status = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    kubectl("patch", "node", f"{kubectl.namespace}-n1", "--subresource=status", "-p", status)
    kubectl("create", "-f", "-", stdin=pod("a", containers=LIMITS))
    bind(kubectl, "a", "n1")
    described = kubectl("describe", "node", f"{kubectl.namespace}-n1")
    assert "Non-terminated Pods:          (1 in total)" in described
    assert ["nvidia.com/gpu", "1", "1"] in [line.split() for line in described.splitlines()]


def test_containers_are_out_of_reach(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    assert kubectl("logs", "a") == ""
    for command in (["exec", "a", "--", "ls"], ["attach", "a"]):
        assert "pod a does not have a host assigned" in kubectl.fails(*command)


# ---------------------------------------------------------------------------------------------------- create and apply


def test_apply_creates_changes_and_prunes(kubectl: Kubectl) -> None:
    config: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"a": "1", "b": "2"}},
        "data": {"x": "1", "y": "2"},
    }
    assert kubectl("apply", "-f", "-", stdin=config) == "configmap/c created\n"
    assert kubectl("apply", "-f", "-", stdin=config) == "configmap/c unchanged\n"
    kubectl("label", "configmap", "c", "c=3")
    config["metadata"]["labels"] = {"a": "9"}
    config["data"] = {"x": "1"}
    assert kubectl("apply", "-f", "-", stdin=config) == "configmap/c configured\n"
    found = kubectl.get("configmap", "c")
    assert found["metadata"]["labels"] == {"a": "9", "c": "3"}
    assert found["data"] == {"x": "1"}


def test_apply_knows_lists_of_pods(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=pod("a")) == "pod/a created\n"
    assert kubectl("apply", "-f", "-", stdin=pod("a")) == "pod/a unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=pod("a", "example.com/image:2")) == "pod/a configured\n"
    assert [one["image"] for one in kubectl.get("pod", "a")["spec"]["containers"]] == ["example.com/image:2"]
    assert "pod updates may not change fields" in kubectl.fails("apply", "-f", "-", stdin=pod("a", hostname="other"))
    differs = [line.split() for line in kubectl.run("diff", "-f", "-", stdin=pod("a")).stdout.splitlines()]
    assert ["+", "-", "image:", "example.com/image:1"] in differs


def test_apply_on_the_server_side(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, stdin=pod("a")) == "pod/a serverside-applied\n"
    assert kubectl(*apply, stdin=pod("a")) == "pod/a serverside-applied\n"
    kubectl("label", "pod", "a", "app=other", "--overwrite")
    refused = kubectl.fails(*apply, stdin=pod("a"))
    assert 'conflict with "kubectl-label" using v1: .metadata.labels.app' in refused
    kubectl(*apply, "--force-conflicts", stdin=pod("a"))
    assert kubectl.get("pod", "a")["metadata"]["labels"] == {"app": "a"}


UNKNOWN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bad", "lables": {"a": "b"}},
    "spec": {
        "schedularName": "vgpu-scheduler",
        "containers": [{"name": "main", "image": "example", "resources": {"limit": {"nvidia.com/gpu": 1}}}],
    },
}
UNKNOWN_FIELDS = ("metadata.lables", "spec.containers[0].resources.limit", "spec.schedularName")


def test_unknown_fields_are_refused(kubectl: Kubectl) -> None:
    listed = ", ".join(f'unknown field "{field}"' for field in UNKNOWN_FIELDS)
    for command in ("create", "apply"):
        refused = kubectl.fails(command, "-f", "-", stdin=UNKNOWN)
        assert f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {listed}' in refused
    assert "field not declared in schema" in kubectl.fails("apply", "--server-side", "-f", "-", stdin=UNKNOWN)
    told = kubectl.run("create", "--validate=warn", "-f", "-", stdin=UNKNOWN)
    assert told.returncode == 0
    assert told.stderr.splitlines() == [f'Warning: unknown field "{field}"' for field in UNKNOWN_FIELDS]
    found = kubectl.get("pod", "bad")
    assert found["spec"]["schedulerName"] == "default-scheduler"
    assert "lables" not in found["metadata"]


def test_create_makes_what_it_has_words_for(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert kubectl.get("configmap", "c")["data"] == {"a": "b"}
    kubectl("create", "quota", "q", "--hard=requests.nvidia.com/gpu=4,pods=10")
    assert kubectl.get("quota", "q")["spec"]["hard"] == {"requests.nvidia.com/gpu": "4", "pods": "10"}
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=a", "--min-available=50%")
    budget = kubectl.get("pdb", "b")["spec"]
    assert (budget["minAvailable"], budget["selector"]) == ("50%", {"matchLabels": {"app": "a"}})
    kubectl("create", "serviceaccount", "s")
    kubectl("run", "r", "--image=example.com/image:1", "--labels=run=r")
    assert kubectl("get", "pod,serviceaccount", "-l", "run=r", "-o", "name").split() == ["pod/r"]
    name = f"{kubectl.namespace}-high"
    kubectl("create", "priorityclass", name, "--value=-7", "--description=low in fact")
    found = kubectl.get("priorityclass", name)
    kubectl("delete", "priorityclass", name)
    assert (found["value"], found["description"]) == (-7, "low in fact")


# ---------------------------------------------------------------------------------------------------- change


def test_patch_in_three_ways(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    kubectl("patch", "pod", "a", "-p", json.dumps({"metadata": {"labels": {"s": "1"}}}))
    kubectl("patch", "pod", "a", "--type=merge", "-p", json.dumps({"metadata": {"labels": {"m": "2", "app": None}}}))
    add = [{"op": "add", "path": "/metadata/labels/j", "value": "3"}]
    kubectl("patch", "pod", "a", "--type=json", "-p", json.dumps(add))
    assert kubectl.get("pod", "a")["metadata"]["labels"] == {"s": "1", "m": "2", "j": "3"}
    unknown = kubectl.run("patch", "pod", "a", "-p", json.dumps({"spec": {"nodeselectr": {"a": "b"}}}))
    assert (unknown.returncode, unknown.stderr) == (0, 'Warning: unknown field "spec.nodeselectr"\n')


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    assert "already has a value" in kubectl.fails("label", "pod", "a", "app=b")
    assert kubectl("label", "pod", "a", "app=b", "new=1", "--overwrite") == "pod/a labeled\n"
    assert kubectl("label", "pod", "a", "app-") == "pod/a unlabeled\n"
    assert kubectl("annotate", "pod", "a", "hami.io/x=y") == "pod/a annotated\n"
    metadata = kubectl.get("pod", "a")["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"new": "1"}, {"hami.io/x": "y"})


def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/app: a/app: edited/" "$1"\n')
    editor.chmod(0o755)
    assert kubectl("edit", "pod", "a", KUBE_EDITOR=str(editor)) == "pod/a edited\n"
    assert kubectl.get("pod", "a")["metadata"]["labels"] == {"app": "edited"}


def test_cordon_taint_and_uncordon(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=node(kubectl, "n1"))
    name = f"{kubectl.namespace}-n1"
    assert kubectl("cordon", name) == f"node/{name} cordoned\n"
    assert kubectl.get("node", name)["spec"]["unschedulable"] is True
    assert kubectl("cordon", name) == f"node/{name} already cordoned\n"
    kubectl("taint", "node", name, "gpu=broken:NoSchedule")
    assert {"key": "gpu", "value": "broken", "effect": "NoSchedule"} in kubectl.get("node", name)["spec"]["taints"]
    assert kubectl("uncordon", name) == f"node/{name} uncordoned\n"
    assert "unschedulable" not in kubectl.get("node", name)["spec"]


def test_drain_evicts(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-n1"
    kubectl("create", "-f", "-", stdin=node(kubectl, "n1"))
    for one in ("a", "b"):
        kubectl("create", "-f", "-", stdin=pod(one))
    bind(kubectl, "a", "n1")
    refused = kubectl.fails("drain", name)
    assert "cannot delete Pods that declare no controller" in refused
    assert f"node/{name} drained" in kubectl("drain", name, "--force", "--grace-period=0")
    assert kubectl("get", "pods", "-o", "name").split() == ["pod/b"]
    assert kubectl.get("node", name)["spec"]["unschedulable"] is True


# ---------------------------------------------------------------------------------------------------- delete


def test_delete_with_grace_and_without(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=node(kubectl, "n1"))
    for one in ("a", "b"):
        kubectl("create", "-f", "-", stdin=pod(one))
    assert "deleted" in kubectl("delete", "pod", "b")
    bind(kubectl, "a", "n1")
    kubectl("delete", "pod", "a", "--wait=false", "--grace-period=40")
    found = kubectl.get("pod", "a")["metadata"]
    assert (found["deletionGracePeriodSeconds"], "deletionTimestamp" in found) == (40, True)
    assert kubectl.rows("pods")[1][2] == "Terminating"
    kubectl("delete", "pod", "a", "--force", "--grace-period=0")
    assert kubectl("get", "pods", "-o", "name") == ""
    assert 'pods "a" not found' in kubectl.fails("delete", "pod", "a")


# ---------------------------------------------------------------------------------------------------- policies


@pytest.fixture
def defined(kubectl: Kubectl) -> Iterator[Kubectl]:
    """kubectl on a server that knows our kinds."""
    kubectl("apply", "-k", str(CRDS))
    files = (f"--filename={CRDS / name}" for name in ("vgpupolicies.yaml", "clustervgpupolicies.yaml"))
    kubectl("wait", "--for=condition=Established", "--timeout=120s", *files)
    yield kubectl
    kubectl("delete", "-k", str(CRDS), "--timeout=120s")


def test_policies_are_kinds_like_others(defined: Kubectl) -> None:
    policy: Object = {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "VGPUPolicy",
        "metadata": {"name": "house"},
        "spec": {"nodes": {"policy": "binpack"}},
    }
    assert defined("apply", "-f", "-", stdin=policy).endswith("/house created\n")
    policy["spec"] = {"nodes": {"policy": "spread"}, "priority": 5}
    assert defined("apply", "-f", "-", stdin=policy).endswith("/house configured\n")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "InForce",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = json.dumps({"status": {"conditions": [ready], "nodes": "spread"}})
    defined("patch", "vgp", "house", "--type=merge", "--subresource=status", "-p", status)
    heading, row = defined.rows("vgp")
    shown = dict(zip(heading, row, strict=True))
    assert (shown["NAME"], shown["READY"], shown["PRIORITY"], shown["NODES"]) == ("house", "True", "5", "spread")
    assert "REASON" not in heading
    assert dict(zip(*defined.rows("vgp", "-o", "wide"), strict=True))["REASON"] == "InForce"
    described = [line.split() for line in defined("describe", "vgp", "house").splitlines()]
    assert ["Priority:", "5"] in described
    assert ["Policy:", "spread"] in described
    refused = defined.fails("apply", "-f", "-", stdin={**policy, "spec": {"nodes": {"polcy": "spread"}}})
    assert 'strict decoding error: unknown field "spec.nodes.polcy"' in refused
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert defined(*apply, stdin={**policy, "spec": {"devices": {"policy": "spread"}}}).endswith("serverside-applied\n")
    assert defined.get("vgp", "house")["spec"]["devices"] == {"policy": "spread"}


# ---------------------------------------------------------------------------------------------------- asking


def test_wait_sees_a_condition_come(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "a", "--subresource=status", "-p", json.dumps(ready))
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=10s")


def test_auth_says_that_an_administrator_may_everything(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "system:masters" in kubectl("auth", "whoami")


@pytest.mark.parametrize(
    ("field", "said"),
    [("pod.spec.schedulerName", "FIELD: schedulerName <string>"), ("node.spec.taints", "FIELD: taints <[]Taint>")],
)
def test_explain_knows_the_fields(kubectl: Kubectl, field: str, said: str) -> None:
    assert said in kubectl("explain", field)
    assert "does not exist" in kubectl.fails("explain", f"{field}.nonsense")
