"""Consistent lists: of whole objects, and of what changed since an earlier list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.engine.builders import node_object
from tests.intake.watching import MERGE, PODS, Watcher

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse, ApiUnreachableError, pages
from vgpu_scheduler.intake import NODES, Listing, list_all, list_changed, list_pods
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.kube import Encoded, Node, ObjectIdentity, Pod, decode_node


async def test_lists_are_consistent_and_read_page_by_page(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_LIMIT", 2)
    for number in range(5):
        await watcher.create(f"p{number}")
        await watcher.write("POST", "/api/v1/nodes", {"metadata": {"name": f"n{number}"}})
    asked: list[str] = []
    watcher.cluster.requests.on_request = lambda _, path, agent, __: asked.append(path) if agent == "intake" else None
    listing = await list_all(watcher.api, POD_KIND)
    assert [pod.name for pod in listing.objects] == [f"p{number}" for number in range(5)]
    assert listing.version is not None
    assert listing.version >= max(pod.resource_version for pod in listing.objects)
    assert len((await list_all(watcher.api, NODES)).objects) == 5
    assert len(asked) == 6
    assert not any("resourceVersion" in path for path in asked)  # 0 would be answered from a cache
    watcher.cluster.inject(Fault(verb="list", status=403, times=1))
    with pytest.raises(ApiError, match="fault injected"):
        await list_all(watcher.api, POD_KIND)


class Pages:
    """Answers lists, page by page."""

    def __init__(self, *pages: tuple[int, dict[str, Any]]) -> None:
        self.pages = list(pages)
        self.asked: list[str] = []

    async def request(
        self, _: str, path: str, *, params: dict[str, str] | None = None, accept: str = ""
    ) -> ApiResponse:
        del accept
        self.asked.append(path if params is None else params.get("continue", ""))
        status, body = self.pages.pop(0)
        return ApiResponse(status, json.dumps(body).encode())


def page(version: int, token: str, *names: str) -> tuple[int, dict[str, Any]]:
    items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in names]
    return 200, {"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}


def as_client(pages: Pages) -> ApiClient:
    return cast("ApiClient", pages)


async def test_pages_whose_snapshot_expires_are_read_from_the_beginning() -> None:
    pages = Pages(page(5, "t1", "a", "b"), (410, {"message": "expired"}), page(9, "t2", "a"), page(9, "", "c"))
    listing = await list_all(as_client(pages), NODES)
    assert ([node.name for node in listing.objects], listing.version) == (["a", "c"], 9)
    assert pages.asked == ["", "t1", "", "t2"]


async def test_a_page_is_asked_for_before_the_one_before_it_is_read() -> None:
    pages = Pages(page(5, "t1", "a"), page(5, "t2", "b"), page(5, "", "c"))

    def decode(obj: Encoded) -> Node:
        found = decode_node(obj)
        pages.asked.append(f"read {found.name}")
        return found

    await list_all(as_client(pages), replace(NODES, decode=decode))
    assert pages.asked == ["", "t1", "read a", "t2", "read b", "read c"]


async def test_no_page_is_waited_for_when_a_list_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.intake.listing._MOST_READ", 1)

    class Slow(Pages):
        async def request(self, *args: Any, **more: Any) -> ApiResponse:
            response = await super().request(*args, **more)
            if self.asked[-1] == "never":
                await asyncio.Event().wait()
            return response

    pages = Slow(page(5, "never", "a", "b"), page(5, "", "c"), page(6, "", "a", "b", "c"))
    listing = await list_changed(as_client(pages), NODES, lambda _: 0)
    assert [node.name for node in listing.objects] == ["a", "b", "c"]
    assert pages.asked == ["", "never", ""]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_page_that_cannot_be_had_ends_the_list() -> None:
    class Cut(Pages):
        async def request(self, *args: Any, **more: Any) -> ApiResponse:
            if not self.pages:
                raise ApiUnreachableError("cut off")
            return await super().request(*args, **more)

    with pytest.raises(ApiUnreachableError, match="cut off"):
        await list_all(as_client(Cut(page(5, "t1", "a"))), NODES)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_list_that_is_given_up_waits_for_no_page() -> None:
    class Stuck(Pages):
        async def request(self, *args: Any, **more: Any) -> ApiResponse:
            response = await super().request(*args, **more)
            if not self.pages:
                await asyncio.Event().wait()
            return response

    pages = Stuck(page(5, "t1", "a"), page(5, "", "b"))
    listing = asyncio.create_task(list_all(as_client(pages), NODES))
    while pages.pages:
        await asyncio.sleep(0)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    assert asyncio.all_tasks() == {asyncio.current_task()}


# What changed ---------------------------------------------------------------------------------------------------------


def asked_of(watcher: Watcher) -> list[str]:
    """Return the paths that the watcher asks for from now on, without their queries."""
    asked: list[str] = []
    watcher.api.observer = lambda _, path: asked.append(path)
    return asked


def known_to(watcher: Watcher) -> Callable[[ObjectIdentity], int]:
    return lambda identity: watcher.engine.state.pod_version(identity.uid)


async def changed(watcher: Watcher) -> Listing[Pod]:
    return await list_changed(watcher.api, POD_KIND, known_to(watcher), watcher.engine.lists.listed("Pod"))


async def test_of_what_is_known_in_its_present_version_only_the_metadata_is_read(watcher: Watcher) -> None:
    for number in range(5):
        await watcher.create(f"p{number}")
    await watcher.observer.relist(POD_KIND, await list_all(watcher.api, POD_KIND))
    await watcher.write("PATCH", f"{PODS}/p1", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await watcher.delete("p2")
    await watcher.create("p5")
    asked = asked_of(watcher)
    listing = await changed(watcher)
    assert asked == ["/api/v1/pods", f"{PODS}/p1", f"{PODS}/p5"]
    assert {found.name for found in listing.unchanged} == {"p0", "p3", "p4"}
    assert {found.name for found in listing.objects} == {"p1", "p5"}
    watcher.observer.stats.observed.clear()
    await watcher.observer.relist(POD_KIND, listing)
    assert watcher.pods == {"p0", "p1", "p3", "p4", "p5"}
    assert {found.name: dict(found.labels) for found in watcher.engine.state.pods()}["p1"] == {"a": "b"}
    assert watcher.observer.stats.observed["Pod"] == 3, "two that changed, and one that is gone"
    assert watcher.engine.lists.listed("Pod") == listing.version


@pytest.mark.parametrize("unknown", [False, True])
async def test_unbound_pods_that_are_not_known_are_read_where_that_is_asked_for(
    watcher: Watcher, *, unknown: bool
) -> None:
    for name in ("same", "changed", "bound", "gone"):
        await watcher.create(name)
    await watcher.observer.relist(POD_KIND, await list_all(watcher.api, POD_KIND))
    for name in ("changed", "bound"):
        await watcher.write("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await watcher.write(
        "POST", f"{PODS}/bound/binding", {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}
    )
    await watcher.delete("gone")
    await watcher.create("unknown")
    await watcher.create("theirs", scheduler="another", node="n")
    asked = asked_of(watcher)
    listing = await list_pods(watcher.api, known_to(watcher), watcher.engine.lists.listed("Pod"), unknown=unknown)
    read = [f"{PODS}/changed", *([f"{PODS}/unknown"] if unknown else [])]
    assert asked == ["/api/v1/pods", *read, "/api/v1/pods", f"{PODS}/bound", f"{PODS}/theirs"]
    assert [found.name for found in listing.present] == ([] if unknown else ["unknown"])
    assert [found.name for found in listing.unchanged] == ["same"]
    await watcher.observer.relist(POD_KIND, listing)
    assert watcher.pods == {"same", "changed", "bound", "theirs", *(["unknown"] if unknown else [])}


async def test_a_pod_that_is_bound_between_the_two_lists_is_not_taken_for_gone(watcher: Watcher) -> None:
    await watcher.create("early")
    await watcher.create("late")
    await watcher.observer.relist(POD_KIND, await list_all(watcher.api, POD_KIND))
    lists: list[str] = []

    async def bind(name: str) -> None:
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
        await watcher.write("POST", f"{PODS}/{name}/binding", target)

    class Between:
        """Binds a pod before the first list, and another one before the second."""

        async def request(self, *args: Any, **more: Any) -> ApiResponse:
            if args[1] == "/api/v1/pods":
                lists.append(more["params"]["fieldSelector"])
                await bind(("early", "late")[len(lists) - 1])
            return await watcher.api.request(*args, **more)

    listing = await list_pods(cast("ApiClient", Between()), known_to(watcher), watcher.engine.lists.listed("Pod"))
    assert lists == ["spec.nodeName=", "spec.nodeName!="]
    await watcher.observer.relist(POD_KIND, listing)
    assert {found.name: found.node_name for found in watcher.engine.state.pods()} == {"early": "n", "late": "n"}
    assert not watcher.observer.stats.missed_deletions


async def test_where_many_changed_whole_objects_are_listed(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.intake.listing._MOST_READ", 2)
    for number in range(3):
        await watcher.create(f"p{number}")
    asked = asked_of(watcher)
    listing = await changed(watcher)
    assert {found.name for found in listing.objects} == {"p0", "p1", "p2"}
    assert set(asked) == {"/api/v1/pods"}, "none was read alone"


async def test_an_object_that_is_gone_when_it_is_read_is_left_out_and_one_that_cannot_be_read_is_told() -> None:
    unreadable = {"metadata": {"name": "b", "uid": "b", "resourceVersion": "2"}, "spec": {"taints": "none"}}
    pages = Pages(page(5, "", "a", "b"), (404, {"message": "not found"}), (200, unreadable))
    listing = await list_changed(as_client(pages), NODES, lambda _: 0)
    assert (listing.objects, listing.unreadable, listing.version) == ([], {"b"}, 5)
    assert pages.asked == ["", "/api/v1/nodes/a", "/api/v1/nodes/b"]


async def test_where_single_objects_may_not_be_read_whole_ones_are_listed() -> None:
    pages = Pages(page(5, "", "a"), (403, {"message": "forbidden"}), page(7, "", "a"))
    listing = await list_changed(as_client(pages), NODES, lambda _: 0)
    assert ([found.name for found in listing.objects], listing.version) == (["a"], 7)


async def test_an_object_that_the_server_cannot_give_ends_the_list() -> None:
    pages = Pages(page(5, "", "a"), (500, {"message": "broken"}))
    with pytest.raises(ApiError, match="broken"):
        await list_changed(as_client(pages), NODES, lambda _: 0)


async def test_metadata_whose_snapshot_expires_is_read_from_the_beginning() -> None:
    expired = page(5, "t1", "a", "b"), (410, {"message": "expired"}), page(9, "", "a", "c")
    pages = Pages(*expired, (200, node_object("c", version=2)))
    known = {"a": 1, "b": 1, "c": 0}
    listing = await list_changed(as_client(pages), NODES, lambda identity: known[identity.name])
    assert [found.name for found in listing.unchanged] == ["a"]
    assert ([found.name for found in listing.objects], listing.version) == (["c"], 9)


async def test_an_object_without_a_version_is_never_taken_for_known() -> None:
    bare = {"metadata": {"name": "a"}}
    pages = Pages((200, {"metadata": {"resourceVersion": "5"}, "items": [bare]}), (200, bare))
    listing = await list_changed(as_client(pages), NODES, lambda _: 0)
    assert [found.name for found in listing.objects] == ["a"]
