"""``vgpu-scheduler doctor`` on a real API server: silent where all is well, and plain about what is not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.as_hami import annotate
from tests.e2e.conftest import OTHER_PLUGIN, TENANT, Cluster, dump, kustomized, slice_pod

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.doctor import CHECKS

LOCK = "hami.io/mutex.lock"
BINDING = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/vgpu-scheduler-allocations"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/vgpu-system/leases/vgpu-scheduler"
MOST_SKEW = 5.0
LIMITS = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024"}


async def doctor(cluster: Cluster, folder: Path, *flags: str, user: str = "admin") -> tuple[int, str, str]:
    """Run the command as a user; return its status and what it said on stdout and stderr."""
    config = folder / f"kubeconfig-of-{user}"
    shutil.copy(cluster.plane.kubeconfig(user), config)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vgpu_scheduler", "doctor", "--kubeconfig", str(config), *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert b"Traceback" not in out + err, err.decode()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def report(cluster: Cluster, folder: Path, *, user: str = "admin") -> tuple[int, dict[str, Any]]:
    """Return the status and the decoded report."""
    status, out, err = await doctor(cluster, folder, "-o", "json", user=user)
    assert not err
    return status, json.loads(out)


def found(told: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Return id, namespace and name of all findings."""
    return {(f["id"], f["object"]["namespace"], f["object"]["name"]) for f in told["findings"]}


def running_pod(name: str, node: str, **annotations: str) -> dict[str, Any]:
    """Return a pod that somebody put on a node, asking for a slice."""
    containers = [{"name": "main", "image": "example", "resources": {"limits": LIMITS}}]
    metadata = {"name": name, "annotations": {f"hami.io/{key}": value for key, value in annotations.items()}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": containers}}


def daemon_set(name: str, namespace: str, image: str) -> dict[str, Any]:
    """Return a DaemonSet with an account of its own name."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": name, "containers": [{"name": "plugin", "image": image}]},
    }
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


async def started(cluster: Cluster, name: str) -> None:
    """Say of a pod that it runs, as a kubelet does."""
    waiting = {"name": "main", "image": "example", "imageID": "", "ready": True, "restartCount": 0}
    status = {"phase": "Running", "containerStatuses": [waiting | {"state": {"running": {}}}]}
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    headers = {"Content-Type": "application/merge-patch+json"}
    async with cluster.http.patch(path, data=json.dumps({"status": status}), headers=headers) as answer:
        assert answer.status == 200, await answer.text()


@contextlib.asynccontextmanager
async def made(cluster: Cluster, path: str, obj: dict[str, Any]) -> AsyncIterator[None]:
    """Have an object for the time of the block."""
    async with cluster.http.post(path, json=obj) as answer:
        assert answer.status == 201, await answer.text()
    try:
        yield
    finally:
        async with cluster.http.delete(f"{path}/{obj['metadata']['name']}") as answer:
            assert answer.status == 200, await answer.text()


@contextlib.asynccontextmanager
async def changed(cluster: Cluster, path: str, patch: dict[str, Any], back: dict[str, Any]) -> AsyncIterator[None]:
    """Have an object changed for the time of the block."""
    headers = {"Content-Type": "application/merge-patch+json"}
    async with cluster.http.patch(path, data=json.dumps(patch), headers=headers) as answer:
        assert answer.status == 200, await answer.text()
    try:
        yield
    finally:
        async with cluster.http.patch(path, data=json.dumps(back), headers=headers) as answer:
            assert answer.status == 200, await answer.text()


async def write(cluster: Cluster) -> tuple[int, list[str]]:
    """Have a plugin that is not let in write what the guard guards; return the status and the warnings."""
    value = str(asyncio.get_running_loop().time())  # what does not change is not guarded
    headers = {
        "Authorization": f"Bearer {cluster.plane.tokens[OTHER_PLUGIN]}",
        "Content-Type": "application/merge-patch+json",
    }
    patch = json.dumps({"metadata": {"annotations": {"hami.io/bind-phase": value}}})
    path = "/api/v1/namespaces/default/pods/tenant"
    async with cluster.http.patch(path, data=patch, headers=headers) as answer:
        return answer.status, answer.headers.getall("Warning", [])


async def guarded(cluster: Cluster, status: int) -> None:
    """Wait until the guard answers so: the API server takes a moment to take up what is installed or changed."""

    async def is_so() -> bool:
        return (await write(cluster))[0] == status

    await cluster.until(is_so, f"the guard to answer {status}")


@contextlib.asynccontextmanager
async def audited(cluster: Cluster) -> AsyncIterator[None]:
    """Have the guard only watch."""
    audit, deny = ({"spec": {"validationActions": actions}} for actions in (["Audit", "Warn"], ["Deny"]))
    try:
        async with changed(cluster, BINDING, audit, deny):
            await guarded(cluster, 200)
            yield
    finally:
        await guarded(cluster, 403)


def age(time: str, since: str) -> float:
    """Return the seconds between two times of the API."""
    return (datetime.fromisoformat(time) - datetime.fromisoformat(since)).total_seconds()


async def serving(cluster: Cluster) -> None:
    """Have two nodes with cards and a pod that runs on one of them."""
    await cluster.nodes.register(["one", "two"], ["T4", "T4"])
    await cluster.nodes.start()
    await cluster.create(slice_pod("tenant"))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == 1)


async def test_a_healthy_cluster_takes_one_line(cluster: Cluster, operator: OperatorProcess, tmp_path: Path) -> None:
    del operator  # it leads
    await serving(cluster)

    async def renewed_for_a_while() -> bool:
        async with cluster.http.get(LEASE) as answer:
            spec = (await answer.json())["spec"]
        return age(spec["renewTime"], since=spec["acquireTime"]) > MOST_SKEW + 1

    await cluster.until(renewed_for_a_while, "the Lease to be renewed past its first write")
    mark = cluster.plane.audit_mark()
    status, out, err = await doctor(cluster, tmp_path)
    assert (status, err) == (0, "")
    settings = "ConfigMap vgpu-system/vgpu-scheduler"
    assert out == f"no problem was found: {len(CHECKS)} checks of {cluster.plane.url}, settings of {settings}\n"
    asked = [r for r in cluster.plane.audit(since=mark) if r.user_agent.startswith("vgpu-scheduler-doctor")]
    assert asked
    reviews = {"subjectaccessreviews", "selfsubjectaccessreviews"}
    assert not [r for r in asked if r.verb not in {"get", "list"} and r.resource not in reviews]


async def test_what_is_planted_is_found(cluster: Cluster, operator: OperatorProcess, tmp_path: Path) -> None:
    del operator
    await serving(cluster)
    await cluster.nodes.stop()  # it would refuse the pods that come with a node
    await annotate(cluster, "two", {LOCK: "garbage"})
    await cluster.create(
        running_pod("rogue", "one"),
        running_pod("ghost", "one", **{"vgpu-devices-allocated": "GPU-gone,NVIDIA,1024,0:;", "vgpu-node": "one"}),
    )
    await started(cluster, "rogue")
    await started(cluster, "ghost")
    apps = "/apis/apps/v1/namespaces"
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/vgpu-scheduler-volume-binding"
    async with cluster.http.get(role) as answer:
        rules = (await answer.json())["rules"]
    async with (
        made(cluster, f"{apps}/default/daemonsets", daemon_set("dcu", "default", "projecthami/dcu-device-plugin:v1")),
        changed(cluster, role, {"rules": []}, {"rules": rules}),
    ):
        status, told = await report(cluster, tmp_path)
        expected = {
            ("lock-malformed", "", "two"),
            ("pod-unaccounted", "default", "rogue"),
            ("allocation-phantom", "default", "ghost"),
            ("plugin-refused", "default", "dcu"),
            ("volume-right-missing", "vgpu-system", "vgpu-scheduler"),
        }
        assert (status, found(told)) == (1, expected), dump(told)
        assert (told["healthy"], told["complete"], told["skipped"]) == (False, True, [])
        for finding in told["findings"]:
            assert finding["severity"] in {"error", "warning"}
            assert finding["message"]
            assert finding["remedy"]
            assert finding["docs"] == f"docs/doctor.md#{finding['id']}"

        status, out, _ = await doctor(cluster, tmp_path)
        assert status == 1
        assert "error    Pod default/ghost: it holds card GPU-gone, which its node one does not list" in out
        assert out.splitlines()[-1].startswith("4 errors, 1 warning: ")

        async with audited(cluster):
            _, told = await report(cluster, tmp_path)
            assert ("plugin-not-let-in", "default", "dcu") in found(told)
            assert ("annotations-unguarded", "", "vgpu-scheduler-allocations") in found(told)


def test_the_component_audit_denies_nothing(installed_plane: ControlPlane) -> None:
    built = list(yaml.safe_load_all(kustomized(installed_plane, "audit")))
    bindings = {o["metadata"]["name"]: o["spec"] for o in built if o["kind"] == "ValidatingAdmissionPolicyBinding"}
    assert bindings["vgpu-scheduler-allocations"] == {
        "policyName": "vgpu-scheduler-allocations",
        "validationActions": ["Audit", "Warn"],
    }
    assert bindings["vgpu-scheduler-nodes"]["validationActions"] == ["Deny"]


async def test_a_plugin_that_is_not_let_in_is_warned_under_audit(cluster: Cluster) -> None:
    await cluster.nodes.register(["one"], ["T4"])
    await cluster.create(slice_pod("tenant"))
    await guarded(cluster, 403)
    async with audited(cluster):
        status, warnings = await write(cluster)
        assert status == 200
        assert any("vgpu-scheduler-allocation-writer" in warning for warning in warnings), warnings
    assert (await write(cluster))[0] == 403


async def test_without_rights_checks_are_skipped_by_name(
    cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    del operator
    await serving(cluster)
    status, told = await report(cluster, tmp_path, user=TENANT)
    assert (status, told["findings"], told["complete"]) == (2, [], False)
    assert told["settings"] == "assumed defaults"
    reasons = {skipped["check"]: skipped["reason"] for skipped in told["skipped"]}
    assert reasons["registrations"] == "list nodes"
    assert "create subjectaccessreviews.authorization.k8s.io" in reasons["scheduler-rights"]
    _, out, _ = await doctor(cluster, tmp_path, user=TENANT)
    assert "skipped  registrations: needs list nodes" in out


async def test_a_scheduler_that_is_not_there_is_found(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.nodes.register(["one"], ["T4"])
    await cluster.nodes.start()

    async def nobody_leads() -> bool:
        status, told = await report(cluster, tmp_path)
        return (status, found(told)) == (1, {("scheduler-not-running", "vgpu-system", "vgpu-scheduler")})

    await cluster.until(nobody_leads, "the Lease of earlier tests to expire", within=40.0)


async def test_a_server_that_does_not_answer_is_said(installed_plane: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(installed_plane.kubeconfig().read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    command = (sys.executable, "-m", "vgpu_scheduler", "doctor", "--kubeconfig", str(path))
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    assert (process.returncode, b"Error: the cluster could not be read: " in err, b"Traceback" in err) == (
        2,
        True,
        False,
    )
