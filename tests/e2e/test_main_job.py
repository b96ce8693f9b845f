"""The main job, from `kubectl apply` to pods bound with their cards, on a real API server with the real manifests."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import OLDER, OPERATOR, PLUGIN, TENANT, Cluster, allocations, slice_pod

from vgpu_devcluster.process import OperatorProcess

NODES, CARDS, PODS = 20, 8, 200


async def test_200_pods_on_20_nodes(cluster: Cluster, operator: OperatorProcess) -> None:
    names = [f"node-{number:02d}" for number in range(NODES)]
    await cluster.nodes.register(names, ("A100-40G",) * CARDS)
    await cluster.nodes.start()
    await cluster.until(lambda: _known_nodes(operator, NODES), "the nodes")
    # A leader decides after a relist, which may read single objects.
    await cluster.create(slice_pod("too-large", gpu=1, gpumem=1_000_000))
    await cluster.until(lambda: _has_event(cluster, "too-large", "FailedScheduling"), "a decision")
    cluster.plane.kubectl("delete", "pod", "too-large", "--now")
    mark = cluster.plane.audit_mark()

    await cluster.create(*(slice_pod(f"slice-{number}") for number in range(PODS)))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= PODS, within=120)
    await cluster.until(lambda: _events_of(cluster, mark, PODS), "one event per pod")

    pods = await cluster.pods()
    assert all(pod["spec"].get("nodeName") for pod in pods)
    assert not cluster.nodes.violations
    books = await operator.ledger()
    assert not books["drift"]
    assert {node: used for node, used in books["ledger"].items() if used} == allocations(pods)
    for node, used in books["ledger"].items():
        cards = {card.uuid: card for card in cluster.nodes.cards(node)}
        for uuid, (slots, memory, cores) in used.items():
            assert slots <= cards[uuid].count
            assert memory <= cards[uuid].memory
            assert cores <= cards[uuid].cores
    for name in names:
        assert "hami.io/mutex.lock" not in (await cluster.node(name))["metadata"]["annotations"]

    writes, events, reads = _requests(cluster, mark)
    # Below Kubernetes 1.35 the label goes by a write of its own.
    assert (writes, events, reads) == ((3 if OLDER else 2) * PODS, PODS, 0)


async def test_a_pod_that_does_not_fit_says_why_and_is_bound_when_it_can_be(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    await cluster.nodes.register(["small"], ("T4",))
    await cluster.nodes.start()
    await cluster.create(slice_pod("first", gpu=1, gpumem=12000))
    await cluster.until(lambda: cluster.bound("first"), "the first pod")
    await cluster.create(slice_pod("second", gpu=1, gpumem=12000))
    await cluster.until(lambda: cluster.message("second"), "a condition")
    assert await cluster.message("second") == "0/1 nodes are available: 1 CardInsufficientMemory."
    await cluster.until(lambda: _has_event(cluster, "second", "FailedScheduling"), "an event")
    notes = [note for reason, note in await cluster.events("second") if reason == "FailedScheduling"]
    assert len(notes) == 1
    assert "nearest: 3360 of 12000 MiB memory free on small/GPU-" in notes[0]

    await cluster.nodes.finish("default", "first")
    await cluster.until(lambda: cluster.bound("second"), "the second pod")
    assert ("Scheduled", "Successfully assigned default/second to small") in await _events_after(cluster, "second")


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ({"gpu": 1, "gpumem": 16 * 2**30}, "in bytes it would be 16384"),
        ({"gpumem": 1024}, "add nvidia.com/gpu: 1"),
    ],
)
async def test_a_malformed_claim_names_the_field_and_the_fix(
    cluster: Cluster, operator: OperatorProcess, asks: dict[str, int], says: str
) -> None:
    await cluster.nodes.register(["node"], ("A100-80G",))
    await cluster.create(slice_pod("odd", **asks), slice_pod("good"))
    await cluster.nodes.start()
    await cluster.until(lambda: cluster.message("odd"), "a condition")
    message = await cluster.message("odd")
    assert says in message
    assert 'container "main": nvidia.com/gpumem' in message
    await cluster.until(lambda: cluster.bound("good"), "the other pod to go on")


async def test_forged_allocations_hold_nothing_and_cannot_be_written_by_tenants(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    (card,) = cluster.nodes.cards("node")
    forged = slice_pod("forged", gpu=1, gpumem=1)
    forged["spec"]["nodeSelector"] = {"nowhere": "true"}
    forged["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "node",
        "hami.io/vgpu-devices-allocated": f"{card.uuid},NVIDIA,{card.memory},100:;",
    }
    path = "/api/v1/namespaces/default/pods"
    status, answer = cluster.plane.request("POST", path, forged, user=TENANT)
    assert status == 403, answer
    assert "may only be written by" in answer["message"]

    # A writer that is allowed to may still not make an unbound pod count.
    status, _ = cluster.plane.request("POST", path, forged, user=PLUGIN)
    assert status == 201
    await cluster.create(slice_pod("honest", gpu=1, gpumem=card.memory))
    await cluster.until(lambda: cluster.bound("honest"), "the honest pod")


async def test_a_pod_without_devices_is_bound_too(cluster: Cluster, operator: OperatorProcess) -> None:
    await cluster.nodes.register(["gpu"], ("T4",))
    await cluster.nodes.register(["plain"], ())
    await cluster.nodes.start()
    pod = slice_pod("plain-pod", gpu=0)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    await cluster.create(pod)
    await cluster.until(lambda: cluster.bound("plain-pod"), "the pod")
    assert await cluster.bound("plain-pod") == "plain"


async def test_it_ends_within_seconds_and_gives_the_lease_up(cluster: Cluster) -> None:
    first = cluster.operator(VGPU_LEASE__DURATION="60", VGPU_LEASE__RENEW_INTERVAL="2")
    first.start()
    await first.until_leading()
    assert (await first.get("/livez"))[0] == 200
    assert (await first.get("/readyz"))[0] == 200
    assert '"scheduler_names"' in (await first.get("/configz"))[1]
    assert first.stop() == 0
    second = cluster.operator()
    second.start()
    try:
        await second.until_leading(within=30)  # half of what the lease would last
    finally:
        second.stop()


async def _known_nodes(operator: OperatorProcess, number: int) -> bool:
    return await operator.metric("vgpu_scheduler_nodes") == number


async def _has_event(cluster: Cluster, pod: str, reason: str) -> bool:
    return any(found == reason for found, _ in await cluster.events(pod))


async def _events_after(cluster: Cluster, pod: str) -> list[tuple[str, str]]:
    await cluster.until(lambda: _has_event(cluster, pod, "Scheduled"), "the event")
    return await cluster.events(pod)


async def _events_of(cluster: Cluster, mark: int, number: int) -> bool:
    return _requests(cluster, mark)[1] >= number


def _requests(cluster: Cluster, mark: int) -> tuple[int, int, int]:
    """Count the operator's requests on pods, nodes and events: writes, events, reads; lists and watches are not."""
    ours = [record for record in cluster.plane.audit(since=mark) if record.user == OPERATOR]
    about = [record for record in ours if record.resource in {"pods", "nodes"}]
    writes = sum(record.verb in {"create", "update", "patch", "delete"} for record in about)
    reads = sum(record.verb == "get" for record in about)
    events = sum(record.resource == "events" and record.verb == "create" for record in ours)
    return writes, events, reads
