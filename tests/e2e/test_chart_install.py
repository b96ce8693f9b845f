"""The chart on a real API server: the operator runs from it, and definitions are upgraded with it and outlive it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.render import CHART
from tests.apiserver.binaries import AssetsUnavailableError, helm
from tests.apiserver.control_plane import ControlPlane
from tests.conftest import running, unavailable
from tests.e2e.conftest import OLDER, USERS, Cluster, opened, slice_pod
from tests.e2e.test_doctor import doctor

from vgpu_devcluster.process import COMMAND, OperatorProcess

NAMESPACE = "gpus"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:vgpu-scheduler"
pytestmark = [pytest.mark.apiserver, pytest.mark.helm]
POLICIES = "customresourcedefinitions/clustervgpupolicies.vgpu-scheduler.io"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane on which nothing is installed."""
    users = USERS | {ACCOUNT: ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]}
    yield from running(ControlPlane(service_accounts=True, users=users, older=OLDER))


def helmed(plane: ControlPlane, folder: Path, *arguments: str, values: dict[str, Any] | None = None) -> str:
    """Run Helm as the administrator."""
    homes = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    try:
        command = [str(helm()), *arguments, f"--kubeconfig={plane.kubeconfig()}", f"--namespace={NAMESPACE}"]
    except AssetsUnavailableError as error:
        unavailable(str(error))
    if values is not None:
        command += ["--values=-"]
    run = subprocess.run(
        command, input=json.dumps(values or {}), capture_output=True, text=True, check=False, env=os.environ | homes
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def from_the_cluster(cluster: Cluster, folder: Path) -> OperatorProcess:
    """Return an operator with the command line and the settings file that the cluster's Deployment gives it."""
    found = cluster.plane.kubectl("get", "deployment,configmap", "vgpu-scheduler", "-n", NAMESPACE, "-o", "yaml")
    deployment, config = yaml.safe_load(found.stdout)["items"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (mount,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == "settings")
    for name, text in config["data"].items():
        (folder / name).write_text(text)
    arguments = [argument.replace(mount, str(folder)) for argument in container["args"]]
    kubeconfig = folder / "kubeconfig"  # the name of the account has colons, which separate kubeconfig files
    shutil.copy(cluster.plane.kubeconfig(ACCOUNT, NAMESPACE), kubeconfig)
    return OperatorProcess(kubeconfig, folder / "operator.log", {}, [*COMMAND[:-1], *arguments])


async def test_the_operator_runs_from_the_chart_and_policies_outlive_it(plane: ControlPlane, tmp_path: Path) -> None:
    values = {"settings": {"node_policy": "spread"}}
    told = helmed(plane, tmp_path, "install", "vgpu", str(CHART), "--create-namespace", values=values)
    assert f"is installed in the namespace {NAMESPACE}" in told
    plane.create_namespace("kube-system", exist_ok=True)
    async with opened(plane, tmp_path) as cluster:
        await cluster.nodes.register(["one", "two"], ("T4", "T4"))
        await cluster.nodes.start()
        process = from_the_cluster(cluster, tmp_path)
        process.start()
        try:
            await process.until_leading()
            await cluster.create(slice_pod("first", gpu=1, gpumem=1000), slice_pod("second", gpu=1, gpumem=1000))
            await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == 2, within=60)
            _, told, _ = await doctor(cluster, tmp_path, "--scheduler-namespace", NAMESPACE, "-o", "json")
            assert [one for one in json.loads(told)["findings"] if one["severity"] == "error"] == []
            assert {await cluster.bound("first"), await cluster.bound("second")} == {"one", "two"}, (
                "node_policy: spread"
            )
        finally:
            process.stop()
        assert not cluster.nodes.violations

    plane.kubectl("annotate", POLICIES, "age=old")
    plane.kubectl("patch", POLICIES, "--type=merge", "-p", '{"spec": {"names": {"shortNames": ["older"]}}}')
    helmed(plane, tmp_path, "upgrade", "vgpu", str(CHART), "--force-conflicts", values=values | {"guard": "audit"})
    short = plane.kubectl("get", POLICIES, "-o", "jsonpath={.spec.names.shortNames}").stdout
    assert "older" not in short, "an upgrade of the release upgrades the definitions"
    name = "validatingadmissionpolicybinding/vgpu-scheduler-allocations"
    assert plane.kubectl("get", name, "-o", "jsonpath={.spec.validationActions}").stdout == '["Audit","Warn"]'

    policy = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "ClusterVGPUPolicy", "metadata": {"name": "kept"}}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(policy | {"spec": {"nodes": {"policy": "spread"}}}))
    helmed(plane, tmp_path, "uninstall", "vgpu")
    assert plane.kubectl("get", "deployment", "-n", NAMESPACE, "-o", "name").stdout == ""
    assert plane.kubectl("get", "clustervgpupolicies", "-o", "name").stdout.strip().endswith("/kept")
