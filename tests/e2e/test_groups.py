"""Groups of pods as their ecosystems write them, on a real API server: each runs whole, or waits whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import MANIFESTS, Cluster, slice_pod
from tests.groups.definitions import DEFINED_KINDS, DEFINITIONS, definition

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.groups import POD_GROUP_KINDS, PodGroupKind

Obj = dict[str, Any]

COSCHEDULING = {kind.name: kind for kind in POD_GROUP_KINDS}["PodGroup.scheduling.x-k8s.io"]
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture(scope="module")
def job_controller(installed_plane: ControlPlane) -> Iterator[None]:
    with installed_plane.controllers("job-controller"):
        yield


@pytest.fixture
async def defined(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Two nodes with two cards each, and the definitions of all kinds of PodGroups."""
    await cluster.nodes.register(["one", "two"], ("A100-40G",) * 2)
    await cluster.nodes.start()
    for kind in DEFINED_KINDS:
        async with cluster.http.post(DEFINITIONS, json=definition(kind)) as answer:
            assert answer.status == 201, await answer.text()
        await cluster.until(lambda kind=kind: served(cluster, kind), f"{kind.name} to be served")
    yield cluster
    for kind in DEFINED_KINDS:
        cluster.plane.kubectl("delete", "crd", definition(kind)["metadata"]["name"])


async def served(cluster: Cluster, kind: PodGroupKind) -> bool:
    async with cluster.http.get(kind.resource.path) as answer:
        return answer.status == 200


def member(name: str, *, memory: int = 8000, gpus: int = 1, **metadata: Any) -> Obj:
    pod = slice_pod(name, gpu=gpus, gpumem=memory)
    pod["metadata"] |= metadata
    return pod


def labelled(group: str) -> Obj:
    return {"labels": {"scheduling.x-k8s.io/pod-group": group}}


async def put(cluster: Cluster, kind: PodGroupKind, name: str, minimum: int) -> None:
    path = kind.resource.path.replace("/podgroups", "/namespaces/default/podgroups")
    api_version = kind.resource.api_version
    made = {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": minimum}}
    async with cluster.http.post(path, json=made) as answer:
        assert answer.status == 201, await answer.text()


async def running(cluster: Cluster, *names: str) -> bool:
    pods = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
    return all(pods[name]["status"].get("phase") == "Running" for name in names)


async def test_a_group_waits_for_its_object_and_for_room_as_a_whole(
    defined: Cluster, operator: OperatorProcess
) -> None:
    cluster = defined
    first, second = [f"first-{n}" for n in range(3)], [f"second-{n}" for n in range(3)]
    await cluster.create(*(member(name, memory=30000, **labelled("first")) for name in first))
    missing = f"{COSCHEDULING.name} default/first, which says how many pods the group needs, does not exist."
    for name in first:
        await until_told(cluster, name, missing)
    await put(cluster, COSCHEDULING, "first", 3)
    await cluster.until(lambda: running(cluster, *first), "the first group")
    await put(cluster, COSCHEDULING, "second", 3)
    await cluster.create(*(member(name, memory=30000, **labelled("second")) for name in second))
    for name in second:
        await until_told(cluster, name, "CardInsufficientMemory")
    assert not [name for name in second if await cluster.bound(name)], "one would fit, and none may run alone"
    for name in first[:2]:
        async with cluster.http.delete(f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0") as answer:
            assert answer.status == 200, await answer.text()
    await cluster.until(lambda: running(cluster, *second), "the second group", within=40)
    assert not cluster.nodes.violations


async def until_told(cluster: Cluster, name: str, text: str) -> None:
    """Wait for what the condition of a pod says."""

    async def says() -> bool:
        return text in await cluster.message(name)

    try:
        await cluster.until(says, text, within=30)
    except AssertionError as error:
        raise AssertionError(f"pod {name} says: {await cluster.message(name)}") from error


async def test_each_ecosystems_groups_run_whole(
    defined: Cluster, operator: OperatorProcess, job_controller: None
) -> None:
    cluster = defined
    kinds = {kind.name: kind for kind in POD_GROUP_KINDS}
    for kind, name in (("scheduling.volcano.sh", "lws"), ("scheduling.sigs.k8s.io", "before")):
        await put(cluster, kinds[f"PodGroup.{kind}"], name, 2)
    kueue = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "kueue"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    of_each: dict[str, Obj] = {
        "lws": {"annotations": {"scheduling.k8s.io/group-name": "lws"}},
        "before": {"labels": {"pod-group.scheduling.sigs.k8s.io": "before"}},
        "kueue": kueue,
    }
    await cluster.create(*(member(f"{name}-0", memory=2000, **says) for name, says in of_each.items()))
    for name in of_each:
        waits = f"waits for other pods of its group default/{name}: 2 are needed before any is placed."
        await until_told(cluster, f"{name}-0", waits)
    await cluster.create(*(member(f"{name}-1", memory=2000, **says) for name, says in of_each.items()))
    for name in of_each:
        await cluster.until(lambda name=name: running(cluster, f"{name}-0", f"{name}-1"), f"the group of {name}")
    for example in ("group-coscheduling", "group-koordinator"):
        cluster.plane.kubectl("apply", "-f", str(MANIFESTS / "examples" / f"{example}.yaml"))
    await cluster.until(lambda: of_jobs(cluster, 6), "the examples")
    assert not cluster.nodes.violations
    await (await cluster.http.delete(f"{JOBS}?propagationPolicy=Background")).release()


async def of_jobs(cluster: Cluster, number: int) -> bool:
    pods = await cluster.pods()
    return (
        sum("job-name" in (pod["metadata"].get("labels") or {}) and "nodeName" in pod["spec"] for pod in pods) >= number
    )
