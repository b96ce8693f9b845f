"""The light stream of other schedulers' pods, consistent lists, and the sink that everything passes through."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.engine.builders import allocation, cards, node, pod
from tests.intake.watching import MERGE, PODS, Watcher, until

from vgpu_scheduler.apiclient import ApiError, ApiResponse
from vgpu_scheduler.devcluster import Fault
from vgpu_scheduler.intake import PodReflector, list_all_nodes, list_all_pods, reflector

THEIRS = "another"


@pytest.fixture
async def running(watcher: Watcher) -> AsyncIterator[Watcher]:
    """A watcher whose reflector has listed pod ``p0``, bound by another scheduler."""
    await watcher.create("p0", scheduler=THEIRS, node="n0")
    reflecting = PodReflector(watcher.api, watcher.sink, ["vgpu-scheduler"], watcher.lose_track)
    task = asyncio.create_task(reflecting.run())
    try:
        await until(lambda: watcher.pods == {"p0"} and watches(watcher) == 1)
        yield watcher
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def lists(watcher: Watcher) -> int:
    return watcher.cluster.requests.total(user_agent="intake", verb="list")


def watches(watcher: Watcher) -> int:
    return watcher.cluster.requests.total(user_agent="intake", verb="watch")


async def test_bound_pods_of_others_only(running: Watcher) -> None:
    await running.create("ours")
    await running.create("waits", scheduler=THEIRS)
    await running.create("bound", scheduler=THEIRS, node="n0")
    await until(lambda: running.pods == {"p0", "bound"})
    await running.write("PATCH", f"{PODS}/p0", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await running.delete("bound")
    await until(lambda: running.pods == {"p0"} and any(pod.labels for pod in running.engine.state.pods()))


async def test_it_resumes_where_it_was_when_the_stream_ends(running: Watcher) -> None:
    for number in range(1, 4):
        running.cluster.end_watches()
        await running.create(f"p{number}", scheduler=THEIRS, node="n0")
        await running.delete(f"p{number - 1}")
        await until(lambda number=number: running.pods == {f"p{number}"})
    assert (lists(running), running.lost_track) == (1, 0)


async def test_it_resumes_from_the_last_event_not_from_the_list(running: Watcher) -> None:
    await running.create("p1", scheduler=THEIRS, node="n0")
    await until(lambda: "p1" in running.pods)
    running.cluster.compact()  # whoever asks for what was before p1 is told to list again
    running.cluster.end_watches()
    await running.create("p2", scheduler=THEIRS, node="n0")
    await until(lambda: "p2" in running.pods)
    assert (lists(running), running.lost_track) == (1, 0)


async def test_nothing_is_lost_while_the_server_is_away(running: Watcher) -> None:
    fault = running.cluster.inject(Fault(verb="watch", user_agent="intake", drop=True))
    running.cluster.end_watches()
    await running.create("p1", scheduler=THEIRS, node="n0")
    await running.delete("p0")
    running.cluster.heal(fault)
    await until(lambda: running.pods == {"p1"})
    assert (lists(running), running.lost_track) == (1, 0)


@pytest.mark.parametrize("way", ["in the stream", "at once", "as a status"])
async def test_it_lists_again_when_its_version_is_too_old(running: Watcher, way: str) -> None:
    if way == "as a status":
        running.cluster.inject(Fault(verb="watch", user_agent="intake", status=410, times=1))
    if way == "at once":
        running.cluster.compact()
    running.cluster.end_watches(expired=way == "in the stream")
    await running.create("p1", scheduler=THEIRS, node="n0")
    running.cluster.end_watches(expired=way == "at once")
    await until(lambda: running.lost_track >= 1 and "p1" in running.pods)
    assert running.sink.stats.relists >= 1
    await running.create("p2", scheduler=THEIRS, node="n0")
    await until(lambda: "p2" in running.pods)


async def test_refusals_are_retried(running: Watcher) -> None:
    running.cluster.inject(Fault(verb="watch", user_agent="intake", status=403, times=2))
    running.cluster.end_watches()
    await running.create("p1", scheduler=THEIRS, node="n0")
    await until(lambda: "p1" in running.pods)
    assert lists(running) == 1


async def test_a_first_list_that_fails_is_tried_again(watcher: Watcher) -> None:
    await watcher.create("p0", scheduler=THEIRS, node="n0")
    watcher.cluster.inject(Fault(verb="list", status=500, times=1))
    watcher.cluster.inject(Fault(verb="list", drop=True, times=1))
    task = asyncio.create_task(PodReflector(watcher.api, watcher.sink, ["x"], watcher.lose_track).run())
    await until(lambda: watcher.pods == {"p0"})
    task.cancel()
    assert watcher.lost_track == 0


# Lists ---------------------------------------------------------------------------------------------------------------


async def test_lists_are_consistent_and_read_page_by_page(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_PAGE", 2)
    for number in range(5):
        await watcher.create(f"p{number}")
        await watcher.write("POST", "/api/v1/nodes", {"metadata": {"name": f"n{number}"}})
    asked: list[str] = []
    watcher.cluster.requests.on_request = lambda _, path, agent, __: asked.append(path) if agent == "intake" else None
    pods, version = await list_all_pods(watcher.api)
    assert [pod.name for pod in pods] == [f"p{number}" for number in range(5)]
    assert version >= max(pod.resource_version for pod in pods)
    assert len((await list_all_nodes(watcher.api))[0]) == 5
    assert len(asked) == 6
    assert not any("resourceVersion" in path for path in asked)  # 0 would be answered from a cache
    watcher.cluster.inject(Fault(verb="list", status=403, times=1))
    with pytest.raises(ApiError, match="fault injected"):
        await list_all_pods(watcher.api)


class Pages:
    """Answers lists, page by page."""

    def __init__(self, *pages: tuple[int, dict[str, Any]]) -> None:
        self.pages = list(pages)
        self.asked: list[str] = []

    async def request(self, _: str, __: str, *, params: dict[str, str]) -> ApiResponse:
        self.asked.append(params.get("continue", ""))
        status, body = self.pages.pop(0)
        return ApiResponse(status, json.dumps(body).encode())


def page(version: int, token: str, *names: str) -> tuple[int, dict[str, Any]]:
    items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in names]
    return 200, {"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}


async def test_pages_whose_snapshot_expires_are_read_from_the_beginning() -> None:
    pages = Pages(page(5, "t1", "a", "b"), (410, {"message": "expired"}), page(9, "t2", "a"), page(9, "", "c"))
    nodes, version = await list_all_nodes(pages)  # type: ignore[arg-type]
    assert ([node.name for node in nodes], version) == (["a", "c"], 9)
    assert pages.asked == ["", "t1", "", "t2"]


# The sink ------------------------------------------------------------------------------------------------------------


async def test_the_end_of_an_earlier_node_does_not_end_its_namesake(watcher: Watcher) -> None:
    old, new = node("a", uid="one", version=3), node("a", uid="two", version=9)
    watcher.sink.node(old)
    watcher.sink.node(new)
    watcher.sink.node_gone(old)
    assert watcher.nodes == {"a"}
    watcher.sink.node_gone(new)
    assert watcher.nodes == set()
    assert watcher.moved == ["a"] * 4


async def test_who_waits_at_a_node_hears_of_its_pods(watcher: Watcher) -> None:
    watcher.sink.node(node("a", cards("a", 1)))
    watcher.sink.pod(pod("p"))
    watcher.sink.pod(pod("p", version=2, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1, 1))))
    watcher.sink.pod_gone(pod("p", version=3, nodeName="a"))
    assert watcher.moved == ["a", "a", "a"]
    assert watcher.engine.state.ledger() == {}
    assert (watcher.sink.stats.pods, watcher.sink.stats.nodes) == (3, 1)


async def test_problems_are_reported_and_counted(watcher: Watcher) -> None:
    watcher.sink.node(node("a", "[{"))
    watcher.sink.pod(pod("p", nodeName="a", started=True))
    assert [problem.reason for problem in watcher.problems] == ["RegistrationUnreadable", "AllocationUnreadable"]
    assert watcher.sink.stats.problems == 2
