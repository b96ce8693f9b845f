"""What the devcluster can do that a real server cannot: faults on order, counters, forgetting, slow watchers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio
from tests.contract.client import Api, Server

from vgpu_devcluster import WRITES, DevCluster, Fault, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    """A devcluster of the test's own, in the test's loop."""
    async with DevCluster(watch_queue=5, log_size=100, bookmark_interval=0.05) as running:
        yield running


@pytest_asyncio.fixture
async def api(cluster: DevCluster) -> AsyncIterator[Api]:
    """A client of it."""
    async with Api(Server("devcluster", cluster.url, "", None), "default") as client:
        yield client


async def test_an_answer_can_get_lost_after_the_write(cluster: DevCluster, api: Api) -> None:
    await api.pod("a")
    cluster.inject(Fault(verb="create", resource="pods/binding", lose_answer=True, times=1))
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.bind("a")
    assert (await api.get(f"{api.pods}/a")).ok()["spec"]["nodeName"] == "n1"
    await api.pod("b")
    assert (await api.bind("b")).code == 201  # the fault is over


async def test_a_request_can_be_dropped_before_the_write(cluster: DevCluster, api: Api) -> None:
    fault = cluster.inject(Fault(verb="create", resource="pods", drop=True))
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.pod("a")
    cluster.heal(fault)
    assert (await api.get(f"{api.pods}/a")).code == 404


async def test_refusals_hit_whom_they_are_meant_for(cluster: DevCluster, api: Api) -> None:
    cluster.inject(Fault(verb="list", resource="pods", user_agent="contract", status=503))
    cluster.inject(Fault(verb="get", name="b", status=500))
    await api.pod("a")
    await api.pod("b")
    assert (await api.get(api.pods)).code == 503
    assert (await api.get(f"{api.pods}/a")).code == 200
    assert (await api.get(f"{api.pods}/b")).code == 500
    cluster.heal()
    assert (await api.get(api.pods)).code == 200


async def test_a_slow_binding_is_fenced_by_its_timeout(cluster: DevCluster, api: Api) -> None:
    await api.pod("a")
    cluster.inject(Fault(resource="pods/binding", delay=0.2))
    late = await api.bind("a", timeout="50ms")
    assert (late.code, late.body["reason"]) == (504, "Timeout")
    assert "nodeName" not in (await api.get(f"{api.pods}/a")).ok()["spec"]
    assert (await api.bind("a", timeout="5s")).code == 201


async def test_requests_are_counted_by_who_sent_them(cluster: DevCluster, api: Api) -> None:
    heard: list[tuple[str, str, str, int]] = []
    cluster.requests.on_request = lambda *request: heard.append(request)
    await api.pod("a")
    await api.bind("a")
    await api.get(f"{api.pods}/none")
    async with api.watch(api.pods):
        pass
    count = cluster.requests.total
    assert count(user_agent="contract", verb="create", resource="pods") == 1
    assert count(verb="create", resource="pods/binding", code=201) == 1
    assert count(verb="get", resource="pods", code=404) == 1
    assert count(verb="watch") == 1
    assert sum(number for key, number in cluster.requests.counts.items() if key.verb in WRITES) == 2
    assert heard[0] == ("POST", "/api/v1/namespaces/default/pods", "contract", 201)


async def test_a_slow_watcher_is_cut_off_and_nobody_waits(cluster: DevCluster, api: Api) -> None:
    start = (await api.get(api.maps)).revision
    async with api.watch(api.maps, resourceVersion=start) as events:
        for index in range(60):  # the client does not read, and the kernel's buffers fill up first
            body = {"metadata": {"name": f"m{index}"}, "data": {"k": "x" * 500_000}}
            (await api.post(api.maps, body)).created()
        seen = await events.rest()
    assert 0 < len(seen) < 60
    last = seen[-1][1]["metadata"]["resourceVersion"]
    async with api.watch(api.maps, resourceVersion=last) as events:  # nothing is lost for who comes back
        assert await events.named() == ("ADDED", f"m{len(seen)}")


async def test_the_log_of_changes_is_bounded(cluster: DevCluster, api: Api) -> None:
    start = (await api.get(api.maps)).revision
    for index in range(120):
        await api.post(api.maps, {"metadata": {"name": f"m{index}"}})
    async with api.watch(api.maps, resourceVersion=start) as events:
        [(kind, error)] = await events.rest()
    assert (kind, error["code"]) == ("ERROR", 410)


async def test_quiet_watches_get_bookmarks(cluster: DevCluster, api: Api) -> None:
    start = (await api.get(api.pods)).revision
    made = (await api.post(api.maps, {"metadata": {"name": "m"}})).created()
    async with api.watch(api.pods, resourceVersion=start, allowWatchBookmarks="true") as events:
        kind, bookmark = await events.next()
    assert (kind, bookmark["kind"]) == ("BOOKMARK", "Pod")
    assert bookmark["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_watches_and_lists_can_be_made_to_expire(cluster: DevCluster, api: Api) -> None:
    for name in ("a", "b"):
        await api.post(api.maps, {"metadata": {"name": name}})
    page = (await api.get(api.maps, limit="1")).ok()
    async with api.watch(api.maps, resourceVersion=page["metadata"]["resourceVersion"]) as events:
        cluster.end_watches(expired=True)
        [(kind, error)] = await events.rest()
    assert (kind, error["code"]) == ("ERROR", 410)
    cluster.compact()
    expired = await api.get(api.maps, limit="1", **{"continue": page["metadata"]["continue"]})
    assert (expired.code, expired.body["reason"]) == (410, "Expired")


async def test_a_store_goes_back_and_gives_its_revisions_again(cluster: DevCluster, api: Api) -> None:
    await api.pod("kept")
    before = cluster.snapshot()
    revision = (await api.get(api.pods)).ok()["metadata"]["resourceVersion"]
    await api.bind("kept")
    lost = (await api.pod("lost"))["metadata"]["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=lost) as events:
        cluster.restore(before)
        assert await events.rest() == []
    listed = (await api.get(api.pods)).ok()
    assert listed["metadata"]["resourceVersion"] == revision
    assert [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in listed["items"]] == [("kept", None)]
    again = (await api.pod("again"))["metadata"]["resourceVersion"]
    assert int(revision) < int(again) <= int(lost)
    async with api.watch(api.pods, resourceVersion=str(int(revision) - 1)) as events:
        [(kind, error)] = await events.rest()
    assert (kind, error["code"]) == ("ERROR", 410)


async def test_a_row_is_a_kind() -> None:
    row = Resource(
        group="vgpu-scheduler.io", version="v1alpha1", plural="vgpupolicies", kind="VGPUPolicy", merge_keys=None
    )
    async with DevCluster(resources=[row]) as cluster, Api(Server("d", cluster.url, "", None), "default") as api:
        path = "/apis/vgpu-scheduler.io/v1alpha1/namespaces/default/vgpupolicies"
        (await api.post(path, {"metadata": {"name": "p"}, "spec": {"priority": 1}})).created()
        assert (await api.get(path)).ok()["kind"] == "VGPUPolicyList"
        assert (await api.strategic(f"{path}/p", {"spec": {}})).code == 415
        [listed] = (await api.get("/apis/vgpu-scheduler.io/v1alpha1")).ok()["resources"]
        assert (listed["name"], listed["kind"]) == ("vgpupolicies", "VGPUPolicy")


async def test_a_stopped_cluster_comes_back_with_its_objects() -> None:
    cluster = DevCluster()
    url = await cluster.start()
    async with Api(Server("d", url, "", None), "default") as api:
        await api.pod("a")
        await cluster.stop()
        with pytest.raises(aiohttp.ClientConnectionError):
            await api.get(api.pods)
        assert await cluster.start() == url
        assert (await api.get(f"{api.pods}/a")).code == 200
    await cluster.stop()


async def test_two_clusters_do_not_mix() -> None:
    with DevCluster.thread() as one, DevCluster.thread() as two:
        async with Api(Server("1", one.url, "", None), "default") as first:
            await first.pod("a")
        async with Api(Server("2", two.url, "", None), "default") as second:
            assert (await second.get(f"{second.pods}/a")).code == 404
        await asyncio.to_thread(one.end_watches)


@pytest.mark.parametrize("what", ["log", "exec", "attach", "portforward"])
async def test_simulated_nodes_have_no_containers(api: Api, what: str) -> None:
    await api.pod("a")
    await api.bind("a", "n1")
    refused = await api.get(f"{api.pods}/a/{what}")
    text = "node n1 is simulated: pod a has no containers to log, run in or reach"
    assert (refused.code, refused.message) == (400, text)
    assert (await api.get(f"{api.pods}/none/{what}")).code == 404


async def test_an_apply_to_an_untracked_object_meets_who_was_there_before(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    await api.post(api.maps, body)
    refused = await api.apply(f"{api.maps}/c", {**body, "data": {"a": "2"}}, "one")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    shared = (await api.apply(f"{api.maps}/c", body, "one")).ok()
    assert [one["manager"] for one in shared["metadata"]["managedFields"]] == ["one", "before-first-apply"]
