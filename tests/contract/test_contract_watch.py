"""Watches: order, selector transitions, initial state, bookmarks, timeouts and what the server has forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contract.client import Api


async def _revision(api: Api, path: str) -> str:
    return (await api.get(path)).revision


async def test_a_watch_tells_what_happens(api: Api) -> None:
    start = await _revision(api, api.maps)
    async with api.watch(api.maps, resourceVersion=start) as events:
        made = (await api.post(api.maps, {"metadata": {"name": "m"}, "data": {"k": "1"}})).created()
        changed = (await api.merge(f"{api.maps}/m", {"data": {"k": "2"}})).ok()
        await api.delete(f"{api.maps}/m")
        assert await events.next() == ("ADDED", made)
        assert await events.next() == ("MODIFIED", changed)
        kind, last = await events.next()
    assert kind == "DELETED"
    assert last["data"] == {"k": "2"}
    assert int(last["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
    async with api.watch(api.maps, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        assert await events.named() == ("MODIFIED", "m")  # what happened before the watch is told first
        assert await events.named() == ("DELETED", "m")


@pytest.mark.parametrize("start", ["", "0"])
async def test_without_a_revision_the_present_comes_first(api: Api, start: str) -> None:
    await api.post(api.maps, {"metadata": {"name": "m1"}})
    await api.post(api.maps, {"metadata": {"name": "m2"}})
    await _revision(api, api.maps)
    query = {"resourceVersion": start} if start else {}
    async with api.watch(api.maps, labelSelector="!kube", **query) as events:
        first = [await events.named(), await events.named()]
        assert sorted(first) == [("ADDED", "m1"), ("ADDED", "m2")]
        await api.post(api.maps, {"metadata": {"name": "m3"}})
        assert await events.named() == ("ADDED", "m3")


async def test_a_namespace_sees_its_own(api: Api) -> None:
    start = await _revision(api, api.pods)
    async with api.watch(api.pods, resourceVersion=start) as events:
        path = f"/api/v1/namespaces/default/configmaps/{api.namespace}"
        await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": api.namespace}})
        await api.delete(path)
        await api.pod("mine")
        assert await events.named() == ("ADDED", "mine")


async def test_objects_come_into_sight_and_leave_it(api: Api) -> None:
    start = await _revision(api, api.maps)
    async with api.watch(api.maps, resourceVersion=start, labelSelector="show=yes") as events:
        await api.post(api.maps, {"metadata": {"name": "m"}, "data": {"k": "1"}})
        shown = (await api.merge(f"{api.maps}/m", {"metadata": {"labels": {"show": "yes"}}})).ok()
        assert await events.next() == ("ADDED", shown)
        changed = (await api.merge(f"{api.maps}/m", {"data": {"k": "2"}})).ok()
        assert await events.next() == ("MODIFIED", changed)
        hidden = (await api.merge(f"{api.maps}/m", {"metadata": {"labels": {"show": "no"}}, "data": {"k": "3"}})).ok()
        kind, last = await events.next()
        assert kind == "DELETED"
        assert (last["metadata"]["labels"], last["data"]) == ({"show": "yes"}, {"k": "2"})  # the old object
        assert last["metadata"]["resourceVersion"] == hidden["metadata"]["resourceVersion"]
        await api.delete(f"{api.maps}/m")
        await api.post(api.maps, {"metadata": {"name": "end", "labels": {"show": "yes"}}})
        assert await events.named() == ("ADDED", "end")


async def test_a_phase_selector_hides_how_a_pod_ended(api: Api) -> None:
    start = await _revision(api, api.pods)
    selector = "spec.schedulerName=mine,status.phase!=Failed"
    async with api.watch(api.pods, resourceVersion=start, fieldSelector=selector) as events:
        await api.pod("other")
        await api.pod("a", schedulerName="mine")
        assert await events.named() == ("ADDED", "a")
        await api.merge(f"{api.pods}/a/status", {"status": {"phase": "Failed", "reason": "OutOfcpu"}})
        kind, last = await events.next()
    assert (kind, last["status"]["phase"]) == ("DELETED", "Pending")


async def test_a_pod_that_no_kubelet_runs_is_marked_before_it_goes(api: Api) -> None:
    await api.pod("a")
    start = await _revision(api, api.pods)
    async with api.watch(api.pods, resourceVersion=start) as events:
        await api.delete(f"{api.pods}/a")
        kind, marked = await events.next()
        assert (kind, marked["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 0)
        assert await events.named() == ("DELETED", "a")


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    await api.pod("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "True"}
    async with api.watch(api.pods, **query) as events:
        assert await events.named() == ("ADDED", "a")
        kind, bookmark = await events.next()
        assert (kind, bookmark["kind"]) == ("BOOKMARK", "Pod")
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        revision = bookmark["metadata"]["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=revision) as events:
        await api.pod("b")
        assert await events.named() == ("ADDED", "b")
    answer = await api.get(api.pods, watch="1", sendInitialEvents="true")
    assert answer.code == 422


@pytest.mark.parametrize("flag", ["1", "true", "True"])
async def test_a_watch_ends_after_its_timeout(api: Api, flag: str) -> None:
    start = await _revision(api, api.pods)
    query = {"watch": flag, "timeoutSeconds": "1", "resourceVersion": start}
    async with api.watch(api.pods, **query) as events:
        assert await events.rest() == []


async def test_one_object_can_be_watched(api: Api) -> None:
    await api.pod("a")
    start = await _revision(api, api.pods)
    async with api.watch(api.pods, resourceVersion=start, fieldSelector="metadata.name=a") as events:
        await api.pod("b")
        await api.merge(f"{api.pods}/a", {"metadata": {"labels": {"k": "v"}}})
        assert await events.named() == ("MODIFIED", "a")


async def test_both_faces_of_events_can_be_watched(api: Api) -> None:
    core = f"/api/v1/namespaces/{api.namespace}/events"
    new = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    start = await _revision(api, core)
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "a"},
        "message": "hello",
    }
    async with api.watch(new, resourceVersion=start) as events:
        await api.post(core, body)
        kind, event = await events.next()
    assert (kind, event["apiVersion"], event["note"]) == ("ADDED", "events.k8s.io/v1", "hello")


async def test_a_late_revision_is_waited_for(api: Api) -> None:
    async with api.watch(api.pods, resourceVersion="999999999", timeoutSeconds="1") as events:
        await api.pod("a")
        assert await events.rest() == []  # no event before that revision


async def test_what_the_server_has_forgotten_is_an_event_with_410(api: Api, request: pytest.FixtureRequest) -> None:
    start = await _revision(api, api.pods)
    await api.pod("a")
    if api.server.name == "devcluster":
        request.getfixturevalue("devcluster").compact()
    else:
        request.getfixturevalue("control_plane").restart()  # the new watch cache begins where it starts
    async with api.watch(api.pods, resourceVersion=start, timeoutSeconds="5") as events:
        [(kind, error)] = await events.rest()
    assert (kind, error["kind"], error["code"], error["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert error["message"].startswith(f"too old resource version: {start} (")
    async with api.watch(api.pods, resourceVersion=await _revision(api, api.pods)) as events:
        await api.pod("b")
        assert await events.named() == ("ADDED", "b")
