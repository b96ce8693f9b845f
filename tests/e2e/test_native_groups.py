"""Kubernetes' own PodGroups on a real API server that has them: gangs run whole, and their status says so."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.pod_groups import API_FLAGS, VERSION
from tests.apiserver.rights import REQUESTS, note_requests
from tests.conftest import running
from tests.e2e.conftest import MANIFESTS, OLDER, USERS, Cluster, done_by_operator, install, opened, slice_pod
from tests.e2e.preempting import apply, components, preempting, preemption_policy
from tests.e2e.test_commands import command

from vgpu_devcluster.process import OperatorProcess

__all__ = ["components", "preempting"]

Obj = dict[str, Any]

GROUPS = f"/apis/{VERSION}/namespaces/default/podgroups"
JOBS = "/apis/batch/v1/namespaces/default/jobs"

pytestmark = pytest.mark.skipif(OLDER, reason="it has no such objects")


@pytest.fixture(scope="module")
def installed_plane() -> Iterator[ControlPlane]:
    """A control plane as that of the other tests, with PodGroups."""
    for plane in running(ControlPlane(service_accounts=True, users=USERS, api_flags=API_FLAGS)):
        install(plane)
        yield plane
        note_requests(done_by_operator(plane), REQUESTS / f"{os.getpid()}-native-groups.json")


@pytest.fixture
async def cluster(installed_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes with two cards each."""
    async with opened(installed_plane, tmp_path) as found:
        await found.nodes.register(["one", "two"], ("A100-40G",) * 2)
        await found.nodes.start()
        yield found
        for path in (JOBS, GROUPS):
            await (await found.http.delete(f"{path}?propagationPolicy=Background")).release()


def member(name: str, group: str, memory: int = 30000, **spec: Any) -> Obj:
    """Return a pod of a group that takes a card for itself, more or less."""
    pod = slice_pod(name, gpu=1, gpumem=memory)
    pod["spec"] |= {"schedulingGroup": {"podGroupName": group}, **spec}
    return pod


async def put(cluster: Cluster, name: str, policy: Obj, **spec: Any) -> None:
    """Make a PodGroup, once the API server has seen the class of its priority."""
    made = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}

    async def is_made() -> bool:
        async with cluster.http.post(GROUPS, json=made) as answer:
            text = await answer.text()
            assert answer.status == 201 or (answer.status == 403 and "no PriorityClass with name" in text), text
            return answer.status == 201

    await cluster.until(is_made, f"PodGroup {name} to be made")


async def conditions(cluster: Cluster, name: str) -> dict[str, Obj]:
    async with cluster.http.get(f"{GROUPS}/{name}") as answer:
        return {each["type"]: each for each in (await answer.json()).get("status", {}).get("conditions", [])}


async def until_group_says(cluster: Cluster, name: str, status: str, text: str) -> Obj:
    async def says() -> bool:
        found = (await conditions(cluster, name)).get("PodGroupScheduled", {})
        return found.get("status") == status and text in found["message"]

    await cluster.until(says, f"group {name} to say {status}: {text}", within=30)
    return (await conditions(cluster, name))["PodGroupScheduled"]


async def until_told(cluster: Cluster, name: str, text: str) -> None:
    async def says() -> bool:
        return text in await cluster.message(name)

    await cluster.until(says, text, within=30)


async def are_running(cluster: Cluster, *names: str) -> bool:
    pods = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
    return all(pods[name]["status"].get("phase") == "Running" for name in names)


async def bound(cluster: Cluster, *names: str) -> list[str]:
    return [name for name in names if await cluster.bound(name)]


async def test_a_gang_waits_whole_for_its_object_its_pods_and_room(
    cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    names = [f"gang-{number}" for number in range(4)]
    await cluster.create(*(member(name, "gang") for name in names[:3]))
    missing = "PodGroup.v1alpha2.scheduling.k8s.io default/gang, which says how many pods the group needs, does not"
    for name in names[:3]:
        await until_told(cluster, name, missing)
    await put(cluster, "gang", {"gang": {"minCount": 4}})
    waits = "waits for other pods of its group default/gang: 4 are needed before any is placed."
    for name in names[:3]:
        await until_told(cluster, name, waits)
    assert not await bound(cluster, *names[:3])
    assert not await conditions(cluster, "gang")
    await cluster.create(member("stranger", "single"))
    await put(cluster, "single", {"basic": {}})
    await cluster.until(lambda: are_running(cluster, "stranger"), "the pod that takes a card")
    await cluster.create(member(names[3], "gang"))
    said = await until_group_says(cluster, "gang", "False", "CardInsufficientMemory")
    assert said["reason"] == "Unschedulable"
    assert not await bound(cluster, *names), "three would fit, and none may run alone"
    status, out, err = await command(cluster, tmp_path, "explain", "pod", f"default/{names[0]}")
    assert status in {0, 1}, err
    assert "It belongs to group default/gang, of which at least 4 pods run, or none:" in out
    async with cluster.http.delete("/api/v1/namespaces/default/pods/stranger?gracePeriodSeconds=0") as answer:
        assert answer.status == 200, await answer.text()
    await cluster.until(lambda: are_running(cluster, *names), "the gang", within=40)
    said = await until_group_says(cluster, "gang", "True", "4 pods bound, 4 needed")
    assert said["reason"] == "Scheduled"
    assert not cluster.nodes.violations


async def test_pods_of_a_basic_group_go_one_by_one(cluster: Cluster, operator: OperatorProcess) -> None:
    await put(cluster, "each", {"basic": {}})
    names = [f"each-{number}" for number in range(5)]
    await cluster.create(*(member(name, "each") for name in names[:1]))
    await cluster.until(lambda: are_running(cluster, names[0]), "the first pod")
    await until_group_says(cluster, "each", "True", "bound")
    await cluster.create(*(member(name, "each") for name in names[1:]))

    async def four_run() -> bool:
        return sum([await are_running(cluster, name) for name in names]) == 4

    await cluster.until(four_run, "as many as there is room for")
    [waits] = set(names) - set(await bound(cluster, *names))
    await until_told(cluster, waits, "0/2 nodes are available")
    assert (await conditions(cluster, "each"))["PodGroupScheduled"]["status"] == "True", "it was scheduled"


async def test_a_group_with_a_topology_is_placed_within_one_domain(cluster: Cluster, operator: OperatorProcess) -> None:
    """One card of one node is taken: two pods fit on the other node alone, though the first one is ranked before it."""
    near = {"topology": [{"key": "kubernetes.io/hostname"}]}
    await put(cluster, "far", {"gang": {"minCount": 3}}, schedulingConstraints=near)
    await cluster.create(*(member(f"far-{number}", "far") for number in range(3)))
    too_many = (
        "has room for at most 2 of them, and others have no more (spec.schedulingConstraints.topology of PodGroup"
    )
    for number in range(3):
        await until_told(cluster, f"far-{number}", too_many)
    await until_group_says(cluster, "far", "False", too_many)
    await put(cluster, "alone", {"basic": {}})
    await cluster.create(member("stranger", "alone"))
    await cluster.until(lambda: are_running(cluster, "stranger"), "the pod that takes a card")
    await put(cluster, "near", {"gang": {"minCount": 2}}, schedulingConstraints=near)
    await cluster.create(*(member(f"near-{number}", "near") for number in range(2)))
    await cluster.until(lambda: are_running(cluster, "near-0", "near-1"), "the group to run")
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await cluster.pods()}
    assert nodes["near-0"] == nodes["near-1"] != nodes["stranger"]
    assert not await bound(cluster, *(f"far-{number}" for number in range(3)))


async def test_the_priority_of_a_group_decides_whose_turn_it_is(cluster: Cluster) -> None:
    """Both wait when the operator comes; there is room for one, and the older one is told to be the last."""
    classes = {"groups-first": 1000, "groups-last": 10}
    for name, value in classes.items():
        made = {"metadata": {"name": name}, "value": value}
        async with cluster.http.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=made) as answer:
            assert answer.status == 201, await answer.text()
    last, first = ([f"{group}-{number}" for number in range(4)] for group in ("last", "first"))
    await put(cluster, "last", {"gang": {"minCount": 4}}, priorityClassName="groups-last")
    await cluster.create(*(member(name, "last") for name in last))
    await put(cluster, "first", {"gang": {"minCount": 4}}, priorityClassName="groups-first", disruptionMode="PodGroup")
    await cluster.create(*(member(name, "first") for name in first))
    operator = cluster.operator()
    operator.start()
    try:
        await cluster.until(lambda: are_running(cluster, *first), "the group of high priority", within=40)
        await until_group_says(cluster, "last", "False", "CardInsufficientMemory")
        assert not await bound(cluster, *last)
    finally:
        operator.stop()
    for name in classes:
        cluster.plane.kubectl("delete", "priorityclass", name)


async def test_a_group_that_goes_whole_is_evicted_whole(cluster: Cluster, preempting: OperatorProcess) -> None:
    """By the priority of the group, whatever its pods have; the node that its other pods are on is not wanted."""
    apply(cluster, preemption_policy())
    low = [f"low-{number}" for number in range(3)]
    for name, of in (("low", "low"), ("kept", "highest")):
        await put(cluster, name, {"basic": {}}, priorityClassName=of, disruptionMode="PodGroup")
    await cluster.create(*(member(name, "low", priorityClassName="highest") for name in low))
    await cluster.create(member("kept-0", "kept"))
    await cluster.until(lambda: are_running(cluster, *low, "kept-0"), "all cards to be taken")
    high = slice_pod("high", gpu=1, gpumem=30000)
    high["spec"]["priorityClassName"] = "high"
    await cluster.create(high)
    await cluster.until(lambda: are_running(cluster, "high"), "the pod of high priority", within=40)

    async def are_gone() -> bool:
        return {pod["metadata"]["name"] for pod in await cluster.pods()} == {"high", "kept-0"}

    await cluster.until(are_gone, "all pods of the group to be gone")


async def test_a_condition_that_is_written_once_stays(cluster: Cluster, operator: OperatorProcess) -> None:
    """Neither bindings that come later nor another leader write it again."""
    await put(cluster, "whole", {"gang": {"minCount": 2}})
    await cluster.create(*(member(f"whole-{number}", "whole", 1000) for number in range(3)))
    await until_group_says(cluster, "whole", "True", "bound")
    await cluster.until(lambda: are_running(cluster, *(f"whole-{number}" for number in range(3))), "all pods")
    mark = cluster.plane.audit_mark()
    operator.stop()
    second = cluster.operator(log="second.log")
    second.start()
    await second.until_leading()
    await cluster.create(member("whole-3", "whole", 1000))
    await cluster.until(lambda: are_running(cluster, "whole-3"), "a pod of the next leader")
    await put(cluster, "later", {"basic": {}})
    await cluster.create(member("later-0", "later", 1000))
    await until_group_says(cluster, "later", "True", "bound")
    second.stop()
    done = cluster.plane.audit(since=mark)
    assert [each.name for each in done if (each.resource, each.verb) == ("podgroups", "patch")] == ["later"]


@pytest.fixture(scope="module")
def job_controller(installed_plane: ControlPlane) -> Iterator[None]:
    with installed_plane.controllers("job-controller"):
        yield


async def test_the_example_runs_whole(cluster: Cluster, operator: OperatorProcess, job_controller: None) -> None:
    cluster.plane.kubectl("apply", "-f", str(MANIFESTS / "examples" / "group-kubernetes.yaml"))
    await until_group_says(cluster, "workers", "True", "3 pods bound, 3 needed")
