"""A cluster where pods of high priority may preempt others: the components, the classes of priority and a policy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import yaml
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import OLDER, Cluster, kustomized, slice_pod

from vgpu_devcluster.process import OperatorProcess

Obj = dict[str, Any]
CLASSES = {"low": 0, "high": 1000, "highest": 2000}
COMPONENTS = ("preemption", "preemption-beyond-budgets")


def with_priority(name: str, of: str, **asks: int) -> Obj:
    """Return a pod of a class of priority that asks for a slice."""
    pod = slice_pod(name, **asks)
    pod["spec"]["priorityClassName"] = of
    pod["spec"]["terminationGracePeriodSeconds"] = 1
    pod["metadata"]["labels"] = {"app": name.partition("-")[0]}
    return pod


def preemption_policy(**rules: object) -> Obj:
    """Return a cluster policy that lets all pods preempt others."""
    return {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "preempts"},
        "spec": {"preemption": {"mayPreempt": True, **rules}},
    }


def budget(app: str, **spec: int) -> Obj:
    """Return a disruption budget for the pods of an app."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def install_preemption(plane: ControlPlane) -> None:
    """Give the operator the rights that the components have, and make the classes of priority."""
    _install(plane, *COMPONENTS)
    for name, value in CLASSES.items():
        plane.kubectl("create", "priorityclass", name, f"--value={value}", check=False)


def _install(plane: ControlPlane, *components: str) -> None:
    """Apply what components change of rights and of the admission policy."""
    base = ["before-1.35"] if OLDER else []
    kinds = {"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy"}
    every = yaml.safe_load_all(kustomized(plane, *base, *components))
    chosen = [obj for obj in every if obj["kind"] in kinds]
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(chosen))


@pytest.fixture
def components(cluster: Cluster) -> Iterator[None]:
    """Have the components installed; what they add is removed at the end, with policies and budgets."""
    install_preemption(cluster.plane)
    yield
    cluster.plane.kubectl("delete", "clustervgpupolicies", "--all")
    cluster.plane.kubectl("delete", "poddisruptionbudgets", "--all", "-n", "default")
    _install(cluster.plane)
    for kind in ("clusterrole", "clusterrolebinding"):
        names = (f"vgpu-scheduler-{component}" for component in COMPONENTS)
        cluster.plane.kubectl("delete", kind, *names, "--ignore-not-found")


@pytest.fixture
async def preempting(cluster: Cluster, components: None) -> AsyncIterator[OperatorProcess]:
    """An operator that leads, with preemption."""
    process = cluster.operator(VGPU_PREEMPTION="true")
    process.start()
    try:
        await process.until_leading()
        yield process
    finally:
        process.stop()


def apply(cluster: Cluster, *objects: Obj) -> None:
    """Apply objects."""
    cluster.plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
