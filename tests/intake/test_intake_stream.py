"""The light streams of pods, consistent lists, and the observer that everything passes through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.builders import allocation, cards, node, node_object, pod
from tests.intake.streaming import THEIRS, lists, streaming, watches
from tests.intake.watching import MERGE, PODS, Watcher, until

from vgpu_devcluster import Fault
from vgpu_scheduler.dialects.hami.allocation import HamiAllocation
from vgpu_scheduler.intake import (
    BOUND_PODS,
    NODES,
    POD_GROUPS,
    Listing,
    ObjectStream,
    get_one,
    list_all,
)
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.kube import DecodeError, Encoded, Node, Pod, decode_node
from vgpu_scheduler.model import NO_USAGE, ClusterEvent, Usage


@pytest.fixture
async def running(watcher: Watcher) -> AsyncIterator[Watcher]:
    """A watcher whose stream of bound pods has listed pod ``p0``, bound by another scheduler."""
    await watcher.create("p0", scheduler=THEIRS, node="n0")
    async with streaming(watcher, BOUND_PODS):
        assert watcher.pods == {"p0"}
        watcher.lost_track = 0
        yield watcher


async def test_pods_of_others_count_once_they_are_bound(running: Watcher) -> None:
    await running.create("waits", scheduler=THEIRS)
    await running.create("bound", scheduler=THEIRS, node="n0")
    await until(lambda: running.pods == {"p0", "bound"})
    await running.write("PATCH", f"{PODS}/p0", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await running.delete("bound")
    await until(lambda: running.pods == {"p0"} and any(pod.labels for pod in running.engine.state.pods()))


async def test_what_becomes_of_a_pod_of_ours(running: Watcher) -> None:
    uid = await wait_for_ours(running, "ours")
    target = {"metadata": {"name": "ours"}, "target": {"kind": "Node", "name": "n0"}}
    await running.write("POST", f"{PODS}/ours/binding", target)
    await until(lambda: uid not in running.engine.queue)
    assert running.engine.state.reservation(uid) is not None
    await running.delete("ours")
    await until(lambda: "ours" not in running.pods)


async def wait_for_ours(watcher: Watcher, name: str) -> str:
    """Create a pod of ours, have it observed as kopf does, and return its UID."""
    await watcher.create(name)
    found = await get_one(watcher.api, POD_KIND, "default", name)
    assert found is not None
    watcher.observer.observe(POD_KIND, found)
    assert found.uid in watcher.engine.queue
    return found.uid


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
    away = running.cluster.inject(Fault(verb="watch", user_agent="intake", drop=True)) if way == "at once" else None
    running.cluster.end_watches(expired=way == "in the stream")
    await running.create("p1", scheduler=THEIRS, node="n0")
    if away is not None:
        running.cluster.compact()
        running.cluster.heal(away)
    await until(lambda: running.lost_track >= 1 and "p1" in running.pods)
    assert running.observer.stats.relists >= 1
    await running.create("p2", scheduler=THEIRS, node="n0")
    await until(lambda: "p2" in running.pods)


@pytest.mark.parametrize(("status", "listed"), [(500, 1), (403, 2)])
async def test_refusals_are_retried_and_a_right_that_was_missing_makes_for_a_new_list(
    running: Watcher, status: int, listed: int
) -> None:
    running.cluster.inject(Fault(verb="watch", user_agent="intake", status=status, times=2))
    running.cluster.end_watches()
    await running.create("p1", scheduler=THEIRS, node="n0")
    await until(lambda: "p1" in running.pods)
    assert lists(running) == listed


async def test_what_nobody_has_defined_is_looked_for_without_a_relist(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = 0

    async def counted(*of: Any) -> Listing[Any]:
        nonlocal listed
        listed += 1
        return await list_all(*of)

    monkeypatch.setattr("vgpu_scheduler.intake.stream._LOOK_AGAIN", 0.02)
    monkeypatch.setattr("vgpu_scheduler.intake.stream.list_all", counted)
    kind = next(kind for kind in POD_GROUPS if "volcano" in kind.path)
    task = asyncio.create_task(ObjectStream(watcher.api, kind, watcher.observer, watcher.lose_track).run())
    await until(lambda: listed >= 4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (watcher.lost_track, watcher.observer.stats.relists) == (0, 0)


async def test_a_first_list_that_fails_is_tried_again(watcher: Watcher) -> None:
    await watcher.create("p0", scheduler=THEIRS, node="n0")
    watcher.cluster.inject(Fault(verb="list", status=500, times=1))
    watcher.cluster.inject(Fault(verb="list", drop=True, times=1))
    async with streaming(watcher, BOUND_PODS):
        assert watcher.pods == {"p0"}
    assert watcher.lost_track == 0


async def test_a_list_that_was_taken_in_already_is_followed_from_there(watcher: Watcher) -> None:
    await watcher.create("known")
    await watcher.observer.relist(POD_KIND, await list_all(watcher.api, POD_KIND))
    await watcher.create("meanwhile")
    stream = ObjectStream(
        watcher.api, POD_KIND, watcher.observer, watcher.lose_track, since=watcher.engine.lists.listed("Pod")
    )
    assert stream.listed.is_set()
    before = lists(watcher)
    task = asyncio.create_task(stream.run())
    await until(lambda: watcher.pods == {"known", "meanwhile"})
    task.cancel()
    assert lists(watcher) == before


# The observer --------------------------------------------------------------------------------------------------------


async def test_the_end_of_an_earlier_node_does_not_end_its_namesake(watcher: Watcher) -> None:
    old, new = node("a", uid="one", version=3), node("a", uid="two", version=9)
    watcher.observer.observe(NODES, old)
    watcher.observer.observe(NODES, new)
    watcher.observer.deleted_by_watch(NODES, old)
    assert watcher.nodes == {"a"}
    watcher.observer.deleted_by_watch(NODES, new)
    assert watcher.nodes == set()
    assert watcher.moved == ["a"] * 4


async def test_who_waits_at_a_node_hears_of_its_pods(watcher: Watcher) -> None:
    watcher.observer.observe(NODES, node("a", cards("a", 1)))
    watcher.observer.observe(POD_KIND, pod("p"))
    bound = pod("p", version=2, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1, 1)))
    watcher.observer.observe(POD_KIND, bound)
    watcher.observer.deleted_by_watch(POD_KIND, pod("p", version=3, nodeName="a"))
    assert watcher.moved == ["a", "a", "a"]
    assert watcher.engine.state.ledger() == {}
    assert (watcher.observer.stats.observed["Pod"], watcher.observer.stats.observed["Node"]) == (3, 1)


async def test_problems_are_reported_and_counted(watcher: Watcher) -> None:
    watcher.observer.observe(NODES, node("a", "[{"))
    watcher.observer.observe(POD_KIND, pod("p", nodeName="a", started=True))
    assert [problem.reason for problem in watcher.problems] == ["RegistrationUnreadable", "AllocationUnreadable"]
    assert watcher.observer.stats.problems == {
        ("Node", "RegistrationUnreadable"): 1,
        ("Pod", "AllocationUnreadable"): 1,
    }


async def test_an_answer_that_cannot_be_read_changes_nothing(watcher: Watcher) -> None:
    watcher.observer.observe(NODES, node("a", version=1))
    for answer in (b'{"metadata": {"name": "a", "resourceVersion": "many"}}', b"nothing"):
        watcher.observer.observe_answer(NODES, answer)
    assert watcher.observer.stats.undecodable == 2
    watcher.observer.observe_answer(NODES, json.dumps(node_object("a", version=2)).encode())
    known = watcher.engine.state.node("a")
    assert known is not None
    assert known.resource_version == 2


async def test_an_answer_that_shows_nothing_new_wakes_nobody(watcher: Watcher) -> None:
    """Who waits at a node may read it meanwhile, and would be woken by what it reads itself."""
    for version in (2, 2, 1, 3):
        watcher.observer.observe_answer(NODES, json.dumps(node_object("a", version=version)).encode())
    assert watcher.moved == ["a", "a"]


@pytest.mark.parametrize("way", ["observed", "gone", "relisted"])
async def test_an_object_that_cannot_be_taken_in_is_reported_and_the_others_go_on(
    watcher: Watcher, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(found: Pod) -> Usage:
        if found.name == "bad":
            raise ZeroDivisionError
        return NO_USAGE

    def remove(uid: str, version: int | None) -> ClusterEvent:
        raise ZeroDivisionError

    watcher.engine.observe_pod(pod("bad", nodeName="a"), 0.0)
    monkeypatch.setattr(HamiAllocation, "usage", lambda _, found: fail(found))
    if way == "gone":
        monkeypatch.setattr(watcher.engine.state, "remove_pod", remove)
        watcher.observer.deleted_by_watch(POD_KIND, pod("bad", nodeName="a"))
    elif way == "relisted":
        listed = [pod("bad", nodeName="a", version=2), pod("good", nodeName="a")]
        await watcher.observer.relist(POD_KIND, Listing(listed, 9))
        assert watcher.pods == {"bad", "good"}
    else:
        watcher.observer.observe(POD_KIND, pod("bad", nodeName="a", version=2))
    [problem] = watcher.problems
    assert (problem.kind, problem.namespace, problem.name) == ("Pod", "default", "bad")
    assert "ZeroDivisionError" in problem.message


# Nodes ---------------------------------------------------------------------------------------------------------------


async def test_nodes_are_followed(watcher: Watcher) -> None:
    await watcher.write("POST", NODES.path, {"metadata": {"name": "n0"}})
    stream = ObjectStream(watcher.api, NODES, watcher.observer, watcher.lose_track)
    task = asyncio.create_task(stream.run())
    try:
        await until(lambda: watcher.nodes == {"n0"} and watches(watcher) == 1)
        await watcher.write("POST", NODES.path, {"metadata": {"name": "n1"}})
        await watcher.write("PATCH", f"{NODES.path}/n0", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        await until(lambda: watcher.nodes == {"n0", "n1"} and "n0" in watcher.moved)
        await watcher.write("DELETE", f"{NODES.path}/n0")
        await until(lambda: watcher.nodes == {"n1"})
        assert watcher.lost_track == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_node_whose_version_is_known_is_not_read_again(watcher: Watcher) -> None:
    read: list[str] = []

    def decode(obj: Encoded) -> Node:
        found = decode_node(obj)
        read.append(found.name)
        return found

    stream = ObjectStream(watcher.api, replace(NODES, decode=decode), watcher.observer, watcher.lose_track)
    for version in (6, 7):  # an answer to a write of ours, and what others write after it
        shown = json.dumps(node_object("a", version=version)).encode()
        stream._read_news(shown)
        watcher.observer.observe_answer(NODES, shown)
        stream._read_news(shown)
    assert read == ["a", "a"]
    broken = json.dumps({"metadata": {"name": "b", "resourceVersion": "many"}}).encode()
    with pytest.raises(DecodeError, match="Node b"):
        stream._read_news(broken)
