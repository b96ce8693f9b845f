"""Pods with volumes, on a real API server with Kubernetes' own volume controllers and a provisioner's double."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import OPERATOR, Cluster, slice_pod
from tests.e2e.volumes import (
    CLAIMS,
    CLASSES,
    CONTROLLERS,
    SELECTED_NODE,
    STATEFUL_SETS,
    VOLUMES,
    ZONE,
    Provisioner,
    claim,
    create,
    delete_all,
    get,
    local_volume,
    mounting,
    storage_class,
)

from vgpu_devcluster.process import OperatorProcess


@pytest.fixture(scope="module")
def controllers(installed_plane: ControlPlane) -> Iterator[None]:
    """Kubernetes' controllers that a pod with volumes needs."""
    with installed_plane.controllers(*CONTROLLERS):
        yield


@pytest.fixture
async def storage(cluster: Cluster, controllers: None) -> AsyncIterator[Provisioner]:
    """Two zones of two nodes, a class whose volumes wait for their first consumer, one without a provisioner."""
    for zone in "ab":
        await cluster.nodes.register([f"{zone}1", f"{zone}2"], ("T4",) * 2, labels={ZONE: zone})
    await cluster.nodes.start()
    await create(cluster, CLASSES, storage_class("waits"), storage_class("by-hand", "kubernetes.io/no-provisioner"))
    async with Provisioner(cluster.http) as provisioner:
        yield provisioner
    await delete_all(cluster)


async def test_a_volume_is_made_where_the_cards_are(
    cluster: Cluster, storage: Provisioner, operator: OperatorProcess
) -> None:
    await create(cluster, CLAIMS, claim("data", "waits"))
    await cluster.create(mounting(slice_pod("trains"), "data"))
    await cluster.until(lambda: cluster.bound("trains"), "the pod")
    found = await get(cluster, f"{CLAIMS}/data")
    node = await cluster.bound("trains")
    assert found["metadata"]["annotations"][SELECTED_NODE] == node
    assert found["status"]["phase"] == "Bound"
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 1)
    # The volume is in one zone now: whoever mounts it follows it there, as long as there is room.
    await cluster.create(
        *(mounting(slice_pod(f"joins-{n}", gpu=1, gpumem=12000, gpucores=10), "data") for n in range(4))
    )

    async def placed() -> bool:
        return sum([bool(await cluster.bound(f"joins-{n}")) for n in range(4)]) == 3

    await cluster.until(placed, "three pods in the volume's zone")
    zones = {(await cluster.bound(f"joins-{n}"))[:1] for n in range(4)} - {""}
    assert zones == {node[:1]}
    (waits,) = [f"joins-{n}" for n in range(4) if not await cluster.bound(f"joins-{n}")]
    await cluster.until(lambda: cluster.message(waits), "a reason")
    assert "2 node(s) didn't match PersistentVolume's node affinity" in await cluster.message(waits)


async def test_a_stateful_set_with_claim_templates(
    cluster: Cluster, storage: Provisioner, operator: OperatorProcess
) -> None:
    template = slice_pod("x", gpu=1, gpumem=12000, gpucores=10)
    template["metadata"] = {"labels": {"app": "llm"}}
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "weights", "mountPath": "/weights"}]
    await create(
        cluster,
        STATEFUL_SETS,
        {
            "metadata": {"name": "llm"},
            "spec": {
                "replicas": 6,
                "serviceName": "llm",
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "llm"}},
                "template": template,
                "volumeClaimTemplates": [claim("weights", "waits")],
            },
        },
    )
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 6, within=90)
    assert not cluster.nodes.violations
    for number in range(6):
        found = await get(cluster, f"{CLAIMS}/weights-llm-{number}")
        assert found["metadata"]["annotations"][SELECTED_NODE] == await cluster.bound(f"llm-{number}")


async def test_a_volume_made_by_hand_is_bound_to_the_claim_and_ephemeral_ones_are_made(
    cluster: Cluster, storage: Provisioner, operator: OperatorProcess
) -> None:
    await create(cluster, VOLUMES, local_volume("disk", "by-hand", "b2"))
    await create(cluster, CLAIMS, claim("scratch", "by-hand"))
    ephemeral = mounting(slice_pod("has-scratch"), "scratch")
    ephemeral["spec"]["volumes"].append(
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": claim("", "waits")["spec"]}}}
    )
    await cluster.create(ephemeral)
    await cluster.until(lambda: cluster.bound("has-scratch"), "the pod")
    assert await cluster.bound("has-scratch") == "b2"
    assert (await get(cluster, f"{CLAIMS}/scratch"))["spec"]["volumeName"] == "disk"
    assert (await get(cluster, f"{VOLUMES}/disk"))["spec"]["claimRef"]["name"] == "scratch"


async def test_a_provisioner_that_gives_up_makes_the_pod_go_elsewhere(
    cluster: Cluster, storage: Provisioner, operator: OperatorProcess
) -> None:
    storage.fails_on = {"a1"}
    await create(cluster, CLAIMS, claim("data", "waits"))
    pod = mounting(slice_pod("trains"), "data")
    pod["spec"]["nodeSelector"] = {ZONE: "a"}
    await cluster.create(pod)

    async def selected() -> bool:
        found = await get(cluster, f"{CLAIMS}/data")
        return SELECTED_NODE in found["metadata"].get("annotations", {})

    await cluster.until(selected, "a node")
    # Nothing but room decides between the nodes: taking it makes the second try end on the other one.
    async with cluster.http.patch(
        "/api/v1/nodes/a1",
        json={"spec": {"unschedulable": True}},
        headers={"Content-Type": "application/merge-patch+json"},
    ) as answer:
        assert answer.status == 200
    await cluster.until(lambda: cluster.bound("trains"), "the pod")
    assert await cluster.bound("trains") == "a2"


async def test_what_a_stalled_provisioner_holds_up_outlives_the_operator(
    cluster: Cluster, storage: Provisioner, operator: OperatorProcess
) -> None:
    storage.stalls = True
    await create(cluster, CLAIMS, claim("data", "waits"))
    await cluster.create(mounting(slice_pod("trains"), "data"), slice_pod("goes-on"))

    async def selected() -> str:
        found = await get(cluster, f"{CLAIMS}/data")
        return str(found["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    await cluster.until(selected, "a node")
    await cluster.until(lambda: cluster.bound("goes-on"), "the other pod: no lane and no lock is held up")
    node = await selected()
    operator.stop()
    second = cluster.operator(log="second.log")
    second.start()
    try:
        await second.until_leading()
        storage.stalls = False
        await cluster.until(lambda: cluster.bound("trains"), "the pod")
        assert await cluster.bound("trains") == node == await selected()
    finally:
        second.stop()


async def test_without_the_rights_pods_wait_and_say_so(cluster: Cluster, storage: Provisioner) -> None:
    plane = cluster.plane
    plane.kubectl("delete", "clusterrolebinding", "vgpu-scheduler-volume-binding")
    process = cluster.operator()
    process.start()
    try:
        await process.until_leading()
        await create(cluster, CLAIMS, claim("data", "waits"))
        await cluster.create(mounting(slice_pod("trains"), "data"), slice_pod("goes-on"))
        await cluster.until(lambda: cluster.bound("goes-on"), "the other pod")
        await cluster.until(lambda: cluster.message("trains"), "a reason")
        message = await cluster.message("trains")
        assert 'cannot patch resource "persistentvolumeclaims"' in message
        assert OPERATOR in message
    finally:
        process.stop()
        plane.kubectl("apply", "-f", "manifests/volume-binding.yaml")
