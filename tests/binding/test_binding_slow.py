"""Nodes whose device plugins take long: who waits there is told why, and goes elsewhere where there is room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.binding.bench import AGENT, LOCK, Bench, bench
from tests.engine.builders import allocation, asks

from vgpu_devcluster import BEHAVIOUR, Fault
from vgpu_scheduler.apiclient import connect
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.dialects.hami import format_lock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision

TOLD = "WaitingForNode"
ON_A = {"kubernetes.io/hostname": "node-a"}
ON_B = {"kubernetes.io/hostname": "node-b"}


async def told(b: Bench) -> list[str]:
    return [note for reason, note in await b.events() if reason == TOLD]


async def node_of(b: Bench, name: str) -> str:
    return str((await b.read(name))["spec"].get("nodeName", ""))


async def serve(b: Bench, node: str) -> None:
    """Have the plugin of a node answer its occupant."""
    answered = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
    path = "/api/v1/namespaces/default/pods/occupant"
    assert (await b.call("PATCH", path, answered, content_type="application/merge-patch+json")).ok
    await b.annotate_node(node, {LOCK: None})


async def some_looks(b: Bench) -> None:
    """Let the lanes look around several times: they do that every 0.1 s here."""
    await asyncio.sleep(0.35)


@pytest.mark.parametrize("orphaned", [False, True], ids=["free", "under an orphaned lock"])
async def test_who_waits_at_a_slow_node_goes_to_another_one(tmp_path: Path, *, orphaned: bool) -> None:
    async with bench(tmp_path, node_side_timeout=60.0) as b:
        await b.occupy("node-a")
        if orphaned:
            gone = format_lock(datetime.now(UTC) - timedelta(hours=1), "default", "gone")
            await b.annotate_node("node-b", {LOCK: gone})
        for name in ("head", "next"):
            await b.create(name, asks(1, 3000))
        await b.learn()
        b.watch()
        if orphaned:
            await b.binder.look_at_closed_nodes()
        assert b.submit() == 2
        assert {held.node for held in b.engine.state.reservations()} == {"node-a"}  # where somebody is already
        await some_looks(b)  # whose turn it is begins to wait
        b.clock.ahead += 9.0
        await some_looks(b)
        assert b.binder.stats.moved == 0
        b.clock.ahead += 2.0
        await b.nodes.start()
        await b.until(lambda: [(HookPoint.BOUND, name) in b.steps for name in ("head", "next")] == [True, True])
        assert [await node_of(b, name) for name in ("head", "next")] == ["node-b", "node-b"]
        assert await told(b) == []
        assert (b.binder.stats.moved, b.binder.stats.expired) == (2, 0)
        assert not b.engine.state.drift()


async def test_of_many_that_wait_all_go_elsewhere(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=600.0) as b:
        await b.nodes.register(["node-c"], ("T4",) * 8)
        await b.occupy("node-a")
        names = [f"p{number}" for number in range(9)]
        for name in names:
            await b.create(name, asks(1, 1000))
        await b.learn()
        b.watch()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("vgpu_scheduler.binding.lanes._MOST_GONE", 2)
            assert b.submit() == 9
            waiting = len(list(b.engine.state.reservations("node-a"))) - 1
            assert waiting == len(names)
            await b.until(lambda: b.steps)
            b.clock.ahead += 11.0
            await b.until(lambda: b.binder.stats.moved == waiting)
        assert [held.pod for held in b.engine.state.reservations("node-a")] == ["default/occupant"]


async def test_who_fits_nowhere_else_is_told_once_and_keeps_its_place(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=60.0) as b:
        await b.occupy("node-a")
        for name in ("head", "next"):
            await b.create(name, asks(1, 3000), nodeSelector=ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await some_looks(b)  # whose turn it is begins to wait
        b.clock.ahead += 9.0
        await some_looks(b)
        assert await told(b) == []
        b.clock.ahead += 2.0
        await b.until(lambda: _message_of(b, 2))
        b.clock.ahead += 20.0
        await some_looks(b)
        held = "waits for its turn on node node-a: its device lock is held by pod default/occupant"
        assert await told(b) == [held, held]
        await serve(b, "node-a")
        await b.nodes.start()
        await b.until(lambda: [(HookPoint.BOUND, name) in b.steps for name in ("head", "next")] == [True, True])


async def test_who_waits_is_not_told_the_name_of_a_pod_of_another_namespace(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=60.0) as b:
        await b.occupy("node-a")
        await b.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        await b.create("theirs", asks(1, 3000), namespace="team", nodeSelector=ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 1
        await some_looks(b)
        b.clock.ahead += 11.0
        await b.until(lambda: _message_of(b, 1))
        uid = (await b.read("occupant"))["metadata"]["uid"]
        assert await told(b) == [f"waits for its turn on node node-a: its device lock is held by pod {uid}"]


@pytest.mark.parametrize("namespace", ["default", "team"])
async def test_who_waits_behind_a_pod_of_ours_is_told_whom_the_plugin_does_not_answer(
    tmp_path: Path, namespace: str
) -> None:
    async with bench(tmp_path, node_side_timeout=60.0) as b:
        await b.nodes.start()
        await b.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        silent = await b.create("silent", nodeSelector=ON_A, annotations={BEHAVIOUR: "never"})
        await b.create("stays", namespace=namespace, nodeSelector=ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: (HookPoint.REPORTED, "silent") in b.steps)
        b.clock.ahead += 11.0
        await b.until(lambda: _message_of(b, 1))
        named = "default/silent" if namespace == "default" else silent.uid
        assert await told(b) == [f"waits for its turn on node node-a: its device plugin does not answer pod {named}"]


async def _message_of(b: Bench, count: int) -> bool:
    return len(await told(b)) == count


async def test_a_pod_whose_binding_was_sent_is_not_decided_anew(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=60.0, timeout=5.0) as b:
        b.cluster.inject(Fault(verb="create", resource="pods/binding", name="first", delay=1.0))
        await b.nodes.start()
        await b.create("first", asks(1, 3000), annotations={BEHAVIOUR: "never"})
        await b.create("next", asks(1, 3000))
        await b.learn()
        b.watch()
        assert b.submit() == 2
        (node,) = {held.node for held in b.engine.state.reservations()}
        await b.until(lambda: (HookPoint.LOCKED, "first") in b.steps)
        await some_looks(b)
        b.clock.ahead += 11.0
        await b.until(lambda: (HookPoint.BOUND, "next") in b.steps)
        await b.until(lambda: (HookPoint.BOUND, "first") in b.steps)
        assert [await node_of(b, name) for name in ("first", "next")] == [node, "node-b"]


async def test_a_binding_without_a_clear_answer_is_followed_up_where_it_went(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=60.0) as b:
        b.cluster.inject(Fault(verb="create", resource="pods/binding", name="doubtful", lose_answer=True, times=1))
        await b.nodes.start()
        await b.create("doubtful", asks(1, 3000), annotations={BEHAVIOUR: "never"})
        await b.learn()
        assert b.submit() == 1
        (held,) = b.engine.state.reservations()
        for _ in range(3):
            b.clock.ahead += 11.0
            await some_looks(b)
        b.watch()
        await b.until(lambda: b.engine.state.pod(held.uid).node_name)  # type: ignore[union-attr]
        assert (await node_of(b, "doubtful"), b.binder.stats.moved) == (held.node, 0)


async def make_slow(b: Bench, *nodes: str) -> None:
    """Have the locks of nodes be held by pods that their plugins do not answer."""
    for node in nodes:
        await b.create(f"on-{node}", asks(1, 100), annotations={BEHAVIOUR: "never"})
        card = b.nodes.cards(node)[0].uuid
        pending = {"hami.io/bind-phase": "allocating", "hami.io/vgpu-devices-to-allocate": f"{card},NVIDIA,1,0:;"}
        await b.bind_elsewhere(f"on-{node}", node, {**allocation(node, (card, 100, 0)), **pending})
        await b.annotate_node(node, {LOCK: format_lock(datetime.now(UTC), "default", f"on-{node}")})


async def test_a_pod_is_moved_three_times_at_most(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=600.0) as b:
        await b.nodes.register(["node-c", "node-d", "node-e"], ("T4",))
        waiting = await b.create("moved", asks(1, 3000))
        await b.learn()
        await make_slow(b, "node-a", "node-b", "node-c", "node-d", "node-e")
        await b.learn()
        b.watch()
        assert b.submit() == 1
        for _ in range(8):
            await some_looks(b)
            b.clock.ahead += 11.0
        assert b.binder.stats.moved == b.engine.queue.moves(waiting.uid) == 3
        assert len(await told(b)) == 1
        assert len(list(b.engine.state.reservations())) == 6


async def test_a_pod_does_not_go_back_to_a_slow_node_that_it_has_left(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=600.0) as b:
        await b.nodes.register(["node-c"], ("T4", "T4"))
        await b.create("moved", asks(1, 3000))
        await b.learn()
        await make_slow(b, "node-a", "node-b")
        await b.learn()
        b.watch()
        assert b.submit() == 1
        await b.nodes.start()
        for _ in range(3):
            await some_looks(b)
            b.clock.ahead += 11.0
        await b.until(lambda: (HookPoint.BOUND, "moved") in b.steps)
        assert (await node_of(b, "moved"), b.binder.stats.moved) == ("node-c", 2)


async def test_a_pod_that_cannot_be_decided_does_not_stop_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, node_side_timeout=60.0) as b:
        await b.occupy("node-a")
        for name in ("head", "odd"):
            await b.create(name, asks(1, 3000), nodeSelector=ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: b.steps)
        decide = b.engine.algorithm.decide

        def fails(pod: Pod, **how: Any) -> Decision:
            if pod.name == "odd":
                raise RuntimeError("one odd pod")
            return decide(pod, **how)

        monkeypatch.setattr(b.engine.algorithm, "decide", fails)
        b.clock.ahead += 11.0
        await b.until(lambda: _message_of(b, 2))
        assert (b.binder.stats.failed, b.binder.depth) == (0, 1)
        for _ in range(4):
            await some_looks(b)
        logged = [line for line in caplog.messages if line.startswith("pod default/odd could not be decided")]
        assert 1 <= len(logged) <= 5
        monkeypatch.undo()
        await serve(b, "node-a")
        await b.nodes.start()
        await b.until(lambda: [(HookPoint.BOUND, name) in b.steps for name in ("head", "odd")] == [True, True])


async def test_each_pod_of_a_long_lane_is_asked_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that fit nowhere else do not keep one from being asked that does."""
    monkeypatch.setattr("vgpu_scheduler.binding.lanes._MOST_FRUITLESS", 2)
    async with bench(tmp_path, node_side_timeout=600.0) as b:
        await b.occupy("node-a")
        for number in range(7):
            await b.create(f"p{number}", asks(1, 1000), nodeSelector=ON_A)
        await b.create("q", asks(1, 1000))
        await b.learn()
        b.watch()
        assert b.submit() == 8
        await b.until(lambda: b.steps)
        b.clock.ahead += 11.0
        await b.until(lambda: b.binder.stats.moved == 1)
        assert [held.pod for held in b.engine.state.reservations("node-b")] == ["default/q"]


@contextlib.asynccontextmanager
async def another_leader(b: Bench, folder: Path) -> AsyncIterator[Bench]:
    """A process that takes over from a bench, on the same cluster."""
    api = await connect(str(b.cluster.kubeconfig(folder / "other")), None, AGENT)
    made = Bench(b.cluster, api, b.nodes, node_side_timeout=60.0)
    made.clock.ahead = b.clock.ahead
    made.reporter.start()
    try:
        yield made
    finally:
        await made.close()
        await api.close()


@pytest.mark.parametrize("frozen", [False, True], ids=["the first one ends", "the first one goes on"])
@pytest.mark.parametrize("bound_to_node", [False, True], ids=["anywhere", "one node"])
@pytest.mark.parametrize("seconds", [9.0, 11.0, 70.0])
async def test_whenever_a_plugin_answers_each_pod_is_bound_once(
    tmp_path: Path, seconds: float, *, bound_to_node: bool, frozen: bool
) -> None:
    """Another leader takes over while pods wait; the first one may not know that yet."""
    async with bench(tmp_path, node_side_timeout=60.0) as first:
        await first.occupy("node-a")
        names = ["p0", "p1", "p2"]
        for name in names:
            await first.create(name, asks(1, 3000), nodeSelector=ON_A if bound_to_node else None)
        await first.learn()
        first.watch()
        assert first.submit() == 3
        first.clock.ahead += seconds / 2
        await some_looks(first)
        first.leads = frozen
        if not frozen:
            await first.binder.stop(0.0)
        async with another_leader(first, tmp_path) as second:
            await second.learn()
            second.watch()
            assert second.submit() == 3
            for each in (first, second):
                each.clock.ahead += seconds / 2
            await some_looks(second)
            await serve(second, "node-a")
            await second.nodes.start()

            async def settled() -> bool:
                for each in (first, second) if frozen else (second,):
                    each.submit()
                return all([await node_of(second, name) for name in names])

            await second.until(settled, within=30.0)
            for name in names:
                found = await second.read(name)
                assert found["metadata"]["annotations"]["hami.io/vgpu-node"] == found["spec"]["nodeName"]
            if bound_to_node or seconds < 10.0:
                assert {await node_of(second, name) for name in names} == {"node-a"}
            await second.until(lambda: not second.engine.state.drift())
            matrix = second.engine.state.devices
            assert not any(matrix.over_capacity(row) for row in second.engine.state.nodes.rows().tolist())
