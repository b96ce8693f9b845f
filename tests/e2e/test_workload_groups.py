"""Pods exactly as Kubeflow and KubeRay create them, on a real API server: each group runs whole, or waits whole.

The pods are those that ``simulate`` makes of a job, so that a real API server has taken them, too. Those of JobSet and
LeaderWorkerSet are made by their real controllers: see ``test_job_controllers.py``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.e2e.conftest import OLDER, Cluster, slice_pod
from tests.groups.definitions import DEFINED_KINDS, DEFINITIONS, definition
from tests.whatif.workloads import kubeflow_job, ray_cluster, train_job, training_runtime

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.whatif import FileObject, made_by, with_job_sets

Obj = dict[str, Any]
CARD = 30_000
"""What only one pod has room for on a card, in MiB."""
PATHS = {kind.resource.api_version: kind.resource.path for kind in POD_GROUP_KINDS}
pytestmark = pytest.mark.skipif(OLDER, reason="what the pods look like does not depend on the API server")


def objects_of(workload: Obj, *others: Obj) -> tuple[list[Obj], list[Obj]]:
    """Return the PodGroups and the pods of a workload, each of which takes a card, as they are created."""
    found = with_job_sets([FileObject(obj) for obj in (*others, workload)])
    made = made_by(found[-1])
    groups = [obj for obj in (*found[:-1], *made.groups) if obj["kind"] == "PodGroup"]
    pods = []
    for pod in made.pods:
        metadata = {key: value for key, value in pod["metadata"].items() if key not in {"namespace", "ownerReferences"}}
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(CARD)}
        containers = [{**each, "resources": {"limits": limits}} for each in pod["spec"]["containers"]]
        inits = [{"image": "example", **each} for each in pod["spec"].get("initContainers", ())]
        pods.append({"metadata": metadata, "spec": {**pod["spec"], "containers": containers, "initContainers": inits}})
    return [{**each, "metadata": {"name": each["metadata"]["name"]}} for each in groups], pods


WORKLOADS = {
    "PyTorchJob": objects_of(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3})),
    "RayCluster": objects_of(
        ray_cluster({"groupName": "gpus", "replicas": 3}, labels={"ray.io/gang-scheduling-enabled": "true"})
    ),
    "TrainJob": objects_of(train_job(trainer={"numNodes": 4}), training_runtime(podGroupPolicy={"coscheduling": {}})),
    "TrainJob for Volcano": objects_of(
        train_job(trainer={"numNodes": 4}), training_runtime(podGroupPolicy={"volcano": {}})
    ),
}


@pytest.fixture
async def defined(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Two nodes with two cards each, and the definitions of all kinds of PodGroups."""
    await cluster.nodes.register(["one", "two"], ("A100-40G",) * 2)
    await cluster.nodes.start()
    for kind in DEFINED_KINDS:
        async with cluster.http.post(DEFINITIONS, json=definition(kind)) as answer:
            assert answer.status == 201, await answer.text()
    for kind in DEFINED_KINDS:

        async def served(path: str = kind.resource.path) -> bool:
            async with cluster.http.get(path) as answer:
                return answer.status == 200

        await cluster.until(served, f"{kind.name} to be served")
    yield cluster
    for kind in DEFINED_KINDS:
        cluster.plane.kubectl("delete", "crd", definition(kind)["metadata"]["name"])


async def test_what_a_job_is_made_of_waits_whole_and_runs_whole(defined: Cluster, operator: OperatorProcess) -> None:
    cluster = defined
    for groups, pods in WORKLOADS.values():
        names = [pod["metadata"]["name"] for pod in pods]
        assert (len(groups), len(pods)) == (1, 4)
        await cluster.create(slice_pod("blocker", gpu=1, gpumem=CARD))

        async def blocks() -> bool:
            return bool(await cluster.bound("blocker"))

        await cluster.until(blocks, "the pod that takes a card")
        for group in groups:
            path = PATHS[group["apiVersion"]].replace("/podgroups", "/namespaces/default/podgroups")
            async with cluster.http.post(path, json=group) as answer:
                assert answer.status == 201, await answer.text()
        await cluster.create(*pods)

        async def told(names: list[str] = names) -> bool:
            return any(["CardInsufficientMemory" in await cluster.message(name) for name in names])

        await cluster.until(told, "a pod to say what they lack")
        assert not [name for name in names if await cluster.bound(name)]
        await deleted(cluster, "blocker")

        async def run(names: list[str] = names) -> bool:
            return all([(await cluster.pod(name))["status"].get("phase") == "Running" for name in names])

        await cluster.until(run, f"{names} to run")
        for group in groups:
            path = PATHS[group["apiVersion"]].replace("/podgroups", "/namespaces/default/podgroups")
            await (await cluster.http.delete(f"{path}/{group['metadata']['name']}")).release()
        await deleted(cluster, *names)
    assert not cluster.nodes.violations


async def deleted(cluster: Cluster, *names: str) -> None:
    for name in names:
        async with cluster.http.delete(f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0") as answer:
            assert answer.status == 200, await answer.text()
