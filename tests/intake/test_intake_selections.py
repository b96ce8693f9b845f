"""Unbound pods of others, which leave their selection when they are bound or deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.engine.builders import OURS, allocation, cards, node
from tests.intake.streaming import THEIRS, streaming
from tests.intake.watching import MERGE, PODS, Watcher, until

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse, end_tasks
from vgpu_scheduler.intake import (
    BOUND_PODS,
    NODES,
    FinalStateReader,
    Kind,
    ObjectStream,
    pod_selections,
)
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.intake import final_states as final_states_module
from vgpu_scheduler.kube import DecodeError, Encoded, Pod, decode_pod

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
    announcing.observer.signals.decide_again.listen(lambda: ledgers.append(announcing.engine.state.ledger()))
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n0"}}
    await announcing.write("POST", f"{PODS}/p/binding", target)
    await announcing.create("later", scheduler=THEIRS, node="n0")
    await until(lambda: announcing.pods == {"p", "later"})
    assert ledgers
    assert all(ledger == HELD for ledger in ledgers)
    assert not announcing.engine.unbound_pods.unresolved(1.0)


@QUIET
async def test_an_announced_pod_that_is_deleted_is_dropped_once_no_bound_pod_can_be_it(announcing: Watcher) -> None:
    await announcing.delete("p")
    await until(lambda: announcing.engine.unbound_pods.unresolved(1.0))
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
    reader = FinalStateReader(announcing.api, announcing.observer, grace=-1.0)
    await announcing.delete("p")
    await until(lambda: announcing.engine.unbound_pods.unresolved(1.0))
    reads = announcing.cluster.requests.total(user_agent="intake", verb="get")
    await reader.reconcile()
    await reader.reconcile()
    assert announcing.engine.state.ledger() == {}
    assert announcing.pods == set()
    assert announcing.cluster.requests.total(user_agent="intake", verb="get") == reads + 1


@QUIET
@pytest.mark.parametrize("is_unsent", [True, False])
async def test_a_departed_pod_whose_binding_was_not_sent_is_read_at_once(
    announcing: Watcher, *, is_unsent: bool
) -> None:
    reader = FinalStateReader(announcing.api, announcing.observer, 3600.0, 3600.0, lambda _: is_unsent)
    announcing.observer.signals.selection_left.listen(reader.selection_left)
    task = asyncio.create_task(reader.run())
    try:
        await announcing.delete("p")
        await until(lambda: not announcing.pods if is_unsent else announcing.engine.unbound_pods.unresolved(1.0))
        await asyncio.sleep(0.05)
        assert announcing.engine.state.ledger() == ({} if is_unsent else HELD)
    finally:
        await end_tasks([task])


@QUIET
@pytest.mark.parametrize("how", ["cannot be decoded", "cannot be given"])
async def test_a_departed_pod_that_cannot_be_read_stays_charged_and_stops_no_other(
    announcing: Watcher, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = final_states_module.get_one

    async def reading(api: ApiClient, kind: Kind[Pod], namespace: str, name: str) -> Pod | None:
        if name != "p":
            return await get(api, kind, namespace, name)
        if how == "cannot be given":
            raise ApiError(ApiResponse(500, b"corrupt"))
        raise DecodeError("Pod", f"{namespace}/{name}", "spec", "nobody can read it")

    monkeypatch.setattr(final_states_module, "get_one", reading)
    await announcing.create("q", scheduler=THEIRS)
    notes = {"metadata": {"annotations": allocation("n0", ("n0-gpu-0", 100, 1))}}
    await announcing.write("PATCH", f"{PODS}/q", notes, content_type=MERGE)
    await until(lambda: announcing.engine.state.ledger() == {"n0": {"n0-gpu-0": (2, 3100, 11)}})
    for name in ("p", "q"):
        await announcing.delete(name)
    await until(lambda: len(announcing.engine.unbound_pods.unresolved(1.0)) == 2)
    await FinalStateReader(announcing.api, announcing.observer, grace=-1.0).reconcile()
    assert announcing.engine.state.ledger() == HELD


@QUIET
async def test_a_departed_pod_of_the_same_name_is_not_taken_for_the_new_one(announcing: Watcher) -> None:
    await announcing.delete("p")
    await announcing.create("p", scheduler=THEIRS)
    await until(lambda: announcing.engine.unbound_pods.unresolved(1.0))
    await FinalStateReader(announcing.api, announcing.observer, grace=-1.0).reconcile()
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
        await until(lambda: watcher.engine.unbound_pods.unresolved(1.0))
        await FinalStateReader(watcher.api, watcher.observer, grace=-1.0).reconcile()
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
@pytest.mark.parametrize(("told", "charged"), [("default/p", HELD), ("default/bad", {}), ("", HELD)])
async def test_a_pod_is_not_taken_for_gone_while_it_may_be_one_that_was_bound_and_cannot_be_read(
    watcher: Watcher, told: str, charged: object
) -> None:
    def read(obj: Encoded) -> Pod:
        found = decode_pod(obj)
        if found.name == "bad":
            raise DecodeError("Pod", told, "spec", "nobody can read it")
        return found

    engine, kind = watcher.engine, replace(POD_KIND, decode=read)
    engine.coexist_with = frozenset({THEIRS})
    watcher.observer.observe(NODES, node("n0", cards("n0", 1)))
    stream = ObjectStream(watcher.api, kind, watcher.observer, watcher.lose_track, selection=BOUND_PODS)
    async with streaming(watcher, *pod_selections([OURS], [THEIRS])[1:]):
        task = asyncio.create_task(stream.run())
        await until(stream.listed.is_set)
        await watcher.create("p", scheduler=THEIRS)
        await watcher.write("PATCH", f"{PODS}/p", {"metadata": {"annotations": ANNOUNCED}}, content_type=MERGE)
        await until(lambda: engine.state.ledger() == HELD)
        await watcher.create("bad", scheduler=THEIRS, node="n0")
        await until(lambda: watcher.observer.stats.undecodable)
        await watcher.delete("p")
        await until(lambda: engine.unbound_pods.unresolved(1.0))
        await watcher.create("later", scheduler=THEIRS, node="n0")
        await until(lambda: any(pod.name == "later" and pod.node_name for pod in engine.state.pods()))
        assert engine.state.ledger() == charged
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_that_can_be_read_again_may_be_told_gone_again(watcher: Watcher) -> None:
    broken = {"p"}

    def read(obj: Encoded) -> Pod:
        found = decode_pod(obj)
        if found.name in broken:
            raise DecodeError("Pod", found.key, "spec", "nobody can read it")
        return found

    kind = replace(POD_KIND, decode=read)
    stream = ObjectStream(watcher.api, kind, watcher.observer, watcher.lose_track, selection=BOUND_PODS)
    task = asyncio.create_task(stream.run())
    await until(stream.listed.is_set)
    await watcher.create("p", scheduler=THEIRS, node="n0")
    await until(lambda: stream._unreadable == {"default/p"})
    broken.clear()
    await watcher.write("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await until(lambda: not stream._unreadable)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
