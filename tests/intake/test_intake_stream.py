"""The light streams of pods, consistent lists, and the observer that everything passes through."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.engine.builders import OURS, allocation, cards, node, node_object, pod
from tests.intake.watching import MERGE, PODS, Watcher, until

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse
from vgpu_scheduler.dialects.hami.allocation import HamiAllocation
from vgpu_scheduler.intake import (
    BOUND_PODS,
    NODES,
    DepartedPods,
    Kind,
    Listing,
    ObjectStream,
    PodSelection,
    list_all,
    pod_selections,
    read_one,
)
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.intake import departed as departed_module
from vgpu_scheduler.kube import DecodeError, Encoded, Node, Pod, decode_node, decode_pod
from vgpu_scheduler.model import NO_USAGE, Hint, Usage

THEIRS = "another"


@contextlib.asynccontextmanager
async def streaming(watcher: Watcher, *selections: PodSelection) -> AsyncIterator[None]:
    """Run a stream of each of some selections."""
    watched = watches(watcher)
    tasks = [
        asyncio.create_task(
            ObjectStream(watcher.api, POD_KIND, watcher.observer, watcher.lose_track, selection=selection).run()
        )
        for selection in selections
    ]
    try:
        await until(lambda: watches(watcher) == watched + len(tasks))
        yield
    finally:
        for task in tasks:
            assert not task.done(), task.exception()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def running(watcher: Watcher) -> AsyncIterator[Watcher]:
    """A watcher whose stream of bound pods has listed pod ``p0``, bound by another scheduler."""
    await watcher.create("p0", scheduler=THEIRS, node="n0")
    async with streaming(watcher, BOUND_PODS):
        assert watcher.pods == {"p0"}
        watcher.lost_track = 0
        yield watcher


def lists(watcher: Watcher) -> int:
    return watcher.cluster.requests.total(user_agent="intake", verb="list")


def watches(watcher: Watcher) -> int:
    return watcher.cluster.requests.total(user_agent="intake", verb="watch")


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
    found = await read_one(watcher.api, POD_KIND, "default", name)
    assert found is not None
    watcher.observer.observe(POD_KIND, found)
    assert found.uid in watcher.engine.queue
    return found.uid


QUIET = pytest.mark.parametrize("watcher", [60.0], indirect=True)
"""On a server from which bookmarks come seldom."""
ANNOUNCED = allocation("n0", ("n0-gpu-0", 3000, 10))
HELD = {"n0": {"n0-gpu-0": (1, 3000, 10)}}


@pytest.fixture
async def announcing(watcher: Watcher) -> AsyncIterator[Watcher]:
    """A watcher of all selections of pods, beside a scheduler that has announced pod ``p``."""
    watcher.engine.coexist_with = frozenset({THEIRS})
    watcher.observer.observe(NODES, node("n0", cards("n0", 1)))
    async with streaming(watcher, *pod_selections([OURS], [THEIRS])):
        await watcher.create("p", scheduler=THEIRS)
        patch = {"metadata": {"annotations": ANNOUNCED}}
        await watcher.write("PATCH", f"{PODS}/p", patch, content_type=MERGE)
        await until(lambda: watcher.engine.state.ledger() == HELD, within=1.0)
        yield watcher


async def test_what_another_scheduler_announces_counts_as_it_comes_and_goes(announcing: Watcher) -> None:
    patch = {"metadata": {"annotations": dict.fromkeys(ANNOUNCED)}}
    await announcing.write("PATCH", f"{PODS}/p", patch, content_type=MERGE)
    await until(lambda: announcing.engine.state.ledger() == {}, within=1.0)


async def test_an_announced_pod_stays_charged_while_it_is_bound(announcing: Watcher) -> None:
    ledgers = []
    announcing.observer.port.decide_again.listen(lambda: ledgers.append(announcing.engine.state.ledger()))
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n0"}}
    await announcing.write("POST", f"{PODS}/p/binding", target)
    await announcing.create("later", scheduler=THEIRS, node="n0")
    await until(lambda: announcing.pods == {"p", "later"})
    assert ledgers
    assert all(ledger == HELD for ledger in ledgers)
    assert not announcing.engine.unsettled(1.0)


@QUIET
async def test_an_announced_pod_that_is_deleted_is_dropped_once_no_bound_pod_can_be_it(announcing: Watcher) -> None:
    await announcing.delete("p")
    await until(lambda: announcing.engine.unsettled(1.0))
    assert announcing.engine.state.ledger() == HELD
    await announcing.create("later", scheduler=THEIRS, node="n0")
    await until(lambda: announcing.pods == {"later"})
    assert announcing.engine.state.ledger() == {}


async def test_a_bookmark_tells_that_nothing_was_bound(announcing: Watcher) -> None:
    await announcing.delete("p")
    await until(lambda: announcing.pods == set())
    assert announcing.engine.state.ledger() == {}


@QUIET
async def test_a_departed_pod_of_which_no_stream_tells_is_read(announcing: Watcher) -> None:
    departed = DepartedPods(announcing.api, announcing.observer, grace=-1.0)
    await announcing.delete("p")
    await until(lambda: announcing.engine.unsettled(1.0))
    reads = announcing.cluster.requests.total(user_agent="intake", verb="get")
    await departed.look()
    await departed.look()
    assert announcing.engine.state.ledger() == {}
    assert announcing.pods == set()
    assert announcing.cluster.requests.total(user_agent="intake", verb="get") == reads + 1


@QUIET
@pytest.mark.parametrize("how", ["cannot be decoded", "cannot be given"])
async def test_a_departed_pod_that_cannot_be_read_stays_charged_and_stops_no_other(
    announcing: Watcher, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = departed_module.read_one

    async def reading(api: ApiClient, kind: Kind[Pod], namespace: str, name: str) -> Pod | None:
        if name != "p":
            return await read(api, kind, namespace, name)
        if how == "cannot be given":
            raise ApiError(ApiResponse(500, b"corrupt"))
        raise DecodeError("Pod", f"{namespace}/{name}", "spec", "nobody can read it")

    monkeypatch.setattr(departed_module, "read_one", reading)
    await announcing.create("q", scheduler=THEIRS)
    notes = {"metadata": {"annotations": allocation("n0", ("n0-gpu-0", 100, 1))}}
    await announcing.write("PATCH", f"{PODS}/q", notes, content_type=MERGE)
    await until(lambda: announcing.engine.state.ledger() == {"n0": {"n0-gpu-0": (2, 3100, 11)}})
    for name in ("p", "q"):
        await announcing.delete(name)
    await until(lambda: len(announcing.engine.unsettled(1.0)) == 2)
    await DepartedPods(announcing.api, announcing.observer, grace=-1.0).look()
    assert announcing.engine.state.ledger() == HELD


@QUIET
async def test_a_departed_pod_of_the_same_name_is_not_taken_for_the_new_one(announcing: Watcher) -> None:
    await announcing.delete("p")
    await announcing.create("p", scheduler=THEIRS)
    await until(lambda: announcing.engine.unsettled(1.0))
    await DepartedPods(announcing.api, announcing.observer, grace=-1.0).look()
    assert announcing.engine.state.ledger() == {}


async def nominate(watcher: Watcher, node_name: str | None) -> None:
    patch = {"status": {"nominatedNodeName": node_name}}
    await watcher.write("PATCH", f"{PODS}/p/status", patch, content_type=MERGE)


async def test_a_pod_of_others_counts_while_it_is_nominated(watcher: Watcher) -> None:
    watcher.observer.observe(NODES, node("n0", cards("n0", 1)))
    nominations = watcher.engine.state.nominations
    async with streaming(watcher, *pod_selections([OURS], [])):
        await watcher.create("p", scheduler=THEIRS)
        for _ in range(2):
            await nominate(watcher, "n0")
            await until(lambda: watcher.pods == {"p"} and bool(nominations))
            await nominate(watcher, None)
            await until(lambda: watcher.pods == set() and not nominations)


@QUIET
async def test_a_nomination_that_ends_unseen_is_found_by_a_read(watcher: Watcher) -> None:
    nominations = watcher.engine.state.nominations
    async with streaming(watcher, *pod_selections([OURS], [])):
        await watcher.create("p", scheduler=THEIRS)
        await nominate(watcher, "n0")
        await until(lambda: bool(nominations))
        await nominate(watcher, None)
        await until(lambda: watcher.engine.unsettled(1.0))
        await DepartedPods(watcher.api, watcher.observer, grace=-1.0).look()
        assert (watcher.pods, bool(nominations)) == (set(), False)


async def test_no_pod_is_shown_by_two_streams(watcher: Watcher) -> None:
    watcher.engine.coexist_with = frozenset({THEIRS})
    async with streaming(watcher, *pod_selections([OURS], [THEIRS])):
        for name, scheduler in (("ours", OURS), ("p", THEIRS), ("other", "third")):
            await watcher.create(name, scheduler=scheduler)
            patch = {"status": {"nominatedNodeName": "n0"}}
            await watcher.write("PATCH", f"{PODS}/{name}/status", patch, content_type=MERGE)
        await until(lambda: watcher.pods == {"p", "other"})
        await watcher.create("last", scheduler="third", node="n0")
        await until(lambda: "last" in watcher.pods)
    assert watcher.observer.stats.observed["Pod"] == 2 + 1 + 1  # p came, and was nominated then


@QUIET
async def test_after_a_bound_pod_that_cannot_be_read_nothing_is_taken_for_gone(announcing: Watcher) -> None:
    def read(obj: Encoded) -> Pod:
        found = decode_pod(obj)
        if found.name == "bad":
            raise DecodeError("Pod", found.key, "spec", "nobody can read it")
        return found

    kind, watcher = replace(POD_KIND, decode=read), announcing
    engine = watcher.engine
    stream = ObjectStream(watcher.api, kind, watcher.observer, watcher.lose_track, selection=BOUND_PODS)
    task = asyncio.create_task(stream.run())
    await until(stream.listed.is_set)
    await watcher.create("bad", scheduler=THEIRS, node="n0")
    await until(lambda: watcher.observer.stats.undecodable)
    uid = next(pod.uid for pod in engine.state.pods() if pod.name == "p")
    engine.leave_selection(uid, 1 << 40, 0.0)
    await watcher.create("later", scheduler=THEIRS, node="n0")
    await until(lambda: "later" in watcher.pods)
    assert len(engine.unsettled(1.0)) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


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


async def test_a_first_list_that_fails_is_tried_again(watcher: Watcher) -> None:
    await watcher.create("p0", scheduler=THEIRS, node="n0")
    watcher.cluster.inject(Fault(verb="list", status=500, times=1))
    watcher.cluster.inject(Fault(verb="list", drop=True, times=1))
    async with streaming(watcher, BOUND_PODS):
        assert watcher.pods == {"p0"}
    assert watcher.lost_track == 0


async def test_a_list_that_was_taken_in_already_is_followed_from_there(watcher: Watcher) -> None:
    await watcher.create("known")
    await watcher.observer.sweep(POD_KIND, await list_all(watcher.api, POD_KIND))
    await watcher.create("meanwhile")
    stream = ObjectStream(
        watcher.api, POD_KIND, watcher.observer, watcher.lose_track, since=watcher.engine.listed("Pod")
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
    watcher.observer.gone(NODES, old)
    assert watcher.nodes == {"a"}
    watcher.observer.gone(NODES, new)
    assert watcher.nodes == set()
    assert watcher.moved == ["a"] * 4


async def test_who_waits_at_a_node_hears_of_its_pods(watcher: Watcher) -> None:
    watcher.observer.observe(NODES, node("a", cards("a", 1)))
    watcher.observer.observe(POD_KIND, pod("p"))
    bound = pod("p", version=2, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1, 1)))
    watcher.observer.observe(POD_KIND, bound)
    watcher.observer.gone(POD_KIND, pod("p", version=3, nodeName="a"))
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


@pytest.mark.parametrize("way", ["observed", "gone", "swept"])
async def test_an_object_that_cannot_be_taken_in_is_reported_and_the_others_go_on(
    watcher: Watcher, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(found: Pod) -> Usage:
        if found.name == "bad":
            raise ZeroDivisionError
        return NO_USAGE

    def remove(uid: str, version: int | None) -> Hint:
        raise ZeroDivisionError

    watcher.engine.observe_pod(pod("bad", nodeName="a"), 0.0)
    monkeypatch.setattr(HamiAllocation, "usage", lambda _, found: fail(found))
    if way == "gone":
        monkeypatch.setattr(watcher.engine.state, "remove_pod", remove)
        watcher.observer.gone(POD_KIND, pod("bad", nodeName="a"))
    elif way == "swept":
        listed = [pod("bad", nodeName="a", version=2), pod("good", nodeName="a")]
        await watcher.observer.sweep(POD_KIND, Listing(listed, 9))
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
