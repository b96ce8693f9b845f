"""Bindings of which nobody can tell whether they were carried out: their pods stay charged, and hold nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.binding.bench import AGENT, LOCK, PODS, Bench, bench
from tests.engine.builders import asks

from vgpu_devcluster import MTHREADS, Fault, made_cards
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.engine import ClosureCause, QueueName
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.kube import Pod, podspecs
from vgpu_scheduler.kube.wire import FieldError, WireMeta, WireOwner
from vgpu_scheduler.state import Phase

ON_A: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}}
ON_M: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "node-m"}}
MTT = {"limits": {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "16", "mthreads.com/sgpu-core": "4"}}


def refuse_reads(b: Bench, status: int = 403) -> list[Fault]:
    """Have the API server show us no pods."""
    return [
        b.cluster.inject(Fault(verb=verb, resource="pods", user_agent=AGENT, status=status)) for verb in ("get", "list")
    ]


def lose(b: Bench, *, carried_out: bool) -> None:
    """Have the answer to the next Binding tell nothing."""
    lost = {"lose_answer": True} if carried_out else {"status": 504}
    b.cluster.inject(Fault(resource="pods/binding", times=1, **lost))


def phase(b: Bench, pod: Pod) -> Phase | None:
    held = b.engine.state.reservation(pod.uid)
    return held.phase if held else None


@asynccontextmanager
async def doubted(
    tmp_path: Path, resources: Any, *, carried_out: bool, status: int = 403, **where: Any
) -> AsyncIterator[tuple[Bench, Pod, list[Fault]]]:
    """Give a bench with a pod of which nobody can tell whether it was bound."""
    async with bench(tmp_path) as b:
        await b.nodes.register(["node-m"], {MTHREADS: lambda node: made_cards(node, MTHREADS, 1, 49152)})
        made = await b.create("doubted", resources, **where)
        await b.learn()
        lose(b, carried_out=carried_out)
        refused = refuse_reads(b, status)
        assert b.submit() == 1
        await b.until(lambda: phase(b, made) is Phase.IN_DOUBT)
        yield b, made, refused


async def reasons(b: Bench) -> list[str]:
    return [reason for reason, _ in await b.events()]


async def test_a_pod_that_may_not_be_read_is_listed(tmp_path: Path) -> None:
    """That is another right."""
    async with bench(tmp_path) as b:
        await b.create("p", **ON_A)
        await b.learn()
        lose(b, carried_out=True)
        b.cluster.inject(Fault(verb="get", resource="pods", user_agent=AGENT, status=403))
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)


async def test_a_pod_that_cannot_be_read_tells_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", **ON_A)
        await b.learn()
        lose(b, carried_out=True)

        def refuse(_: WireMeta) -> WireOwner | None:
            raise FieldError("metadata.ownerReferences", "nobody can read that")

        monkeypatch.setattr(podspecs, "_owner", refuse)
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert phase(b, made) is Phase.CONFIRMED
        assert len(b.engine.state.ledger()["node-a"]) == 1


@pytest.mark.parametrize("status", [401, 403, 503])
async def test_a_lock_that_names_the_pod_lets_its_node_go_on(tmp_path: Path, status: int) -> None:
    async with doubted(tmp_path, None, carried_out=True, status=status, **ON_A) as (b, made, _):
        assert not b.engine.closed_nodes.closures("node-a")
        await b.nodes.start()
        b.watch(unwatched="Pod")
        b.observer.observe(POD_KIND, await b.create("next", asks(1, 2000), **ON_A))
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.BOUND, "next") in b.steps)  # the plugin has found the first one by its lock
        await b.nodes.until(lambda: b.nodes.counts["running"] == 2)
        assert phase(b, made) is Phase.IN_DOUBT
        assert not b.engine.state.over_capacity()
        assert not b.nodes.violations


async def test_an_error_of_ours_does_not_end_the_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with doubted(tmp_path, None, carried_out=True, **ON_A) as (b, made, refused):
        settled, errors = b.engine.binding_succeeded, []

        def confirm(uid: str) -> None:
            if not errors:
                errors.append(uid)
                raise RuntimeError("an error of ours")
            settled(uid)

        monkeypatch.setattr(b.engine, "binding_succeeded", confirm)
        for fault in refused:
            b.cluster.heal(fault)
        await b.until(lambda: b.binder.stats.bound == 1)
        assert errors == [made.uid]
        assert phase(b, made) is not Phase.IN_DOUBT


async def test_its_cards_stay_charged_and_it_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with doubted(tmp_path, None, carried_out=True, **ON_A) as (b, made, refused):
        charged = b.engine.state.ledger()
        assert len(charged["node-a"]) == 1
        asked = b.sent("get", "pods")
        await b.until(lambda: b.sent("get", "pods") >= asked + 3)
        assert phase(b, made) is Phase.IN_DOUBT
        assert b.engine.state.ledger() == b.engine.state.rebuild().ledger() == charged
        assert await reasons(b) == ["BindingInDoubt"]
        assert len([text for text in caplog.messages if "Binding is in doubt" in text]) == 1
        assert not b.attempts
        for fault in refused:
            b.cluster.heal(fault)
        await b.until(lambda: b.binder.stats.bound)
        assert b.engine.state.ledger() == charged
        assert made.uid not in b.engine.queue
        assert sorted(await reasons(b)) == ["BindingInDoubt", "Scheduled"]
        assert [told[:3] for told in b.heard] == [("answer", "doubted", "bound"), ("attempt", "doubted", "bound")]


async def test_what_was_not_carried_out_is_given_back_once_a_read_tells(tmp_path: Path) -> None:
    async with doubted(tmp_path, None, carried_out=False, **ON_A) as (b, made, refused):
        assert b.submit() == 0
        for fault in refused:
            b.cluster.heal(fault)
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        assert b.engine.state.ledger() == {}
        assert LOCK not in await b.node("node-a")
        b.clock.ahead += 10.0
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)


@pytest.mark.parametrize("fate", ["read", "watch", "relist", "deleted", "elsewhere", "not carried out"])
async def test_a_node_without_a_lock_is_closed_until_its_fate_is_known(tmp_path: Path, fate: str) -> None:
    """A plugin that goes by time would take the next pod for this one."""
    carried_out = fate in {"read", "watch", "relist"}
    async with doubted(tmp_path, MTT, carried_out=carried_out, **ON_M) as (b, made, refused):
        assert [closure.cause for closure in b.engine.closed_nodes.closures("node-m")] == [
            ClosureCause.BINDING_IN_DOUBT
        ]
        follower = await b.create("next", MTT, **ON_M)
        for pod in (follower, await b.create("other", **ON_A)):
            b.observer.observe(POD_KIND, pod)
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.BOUND, "other") in b.steps)
        await b.until(lambda: b.tells("BindingInDoubt", "it is not known whether pod default/doubted was bound here"))
        if fate in {"read", "relist", "not carried out"}:
            for fault in refused if fate != "relist" else refused[1:]:
                b.cluster.heal(fault)
        if fate == "relist":
            await b.learn()
        if fate in {"watch", "deleted", "elsewhere"}:
            seen = b.observer.stats.observed["Pod"]
            b.watch()
            await b.until(lambda: b.observer.stats.observed["Pod"] >= seen + 3)
        if fate == "deleted":
            await b.call("DELETE", f"{PODS}/doubted", {"gracePeriodSeconds": 0})
        if fate == "elsewhere":
            await b.bind_elsewhere("doubted", "node-b")
        await b.until(lambda: not b.engine.closed_nodes.closures("node-m"))
        if carried_out:
            assert phase(b, made) is Phase.BOUND
            await b.until(lambda: b.binder.stats.bound == 2)
            assert b.binder.locker.pod_awaiting_plugin("node-m", follower) is not None  # and so the next one waits
        elif fate == "elsewhere":
            held = b.engine.state.reservation(made.uid)
            assert held is not None
            assert (held.node, held.phase) == ("node-b", Phase.BOUND)
        else:
            await b.until(lambda: b.engine.state.reservation(made.uid) is None)
            assert b.engine.state.was_removed(made.uid) is (fate == "deleted")
        assert not b.engine.state.drift()


async def test_a_pod_that_needs_no_turn_leaves_its_place_to_the_next(tmp_path: Path) -> None:
    async with bench(tmp_path, max_unlocked_binds=1) as b:
        made = await b.create("doubted", asks(0, cpu="1"))
        await b.learn()
        lose(b, carried_out=False)
        refuse_reads(b)
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.ANSWERED, "doubted") in b.steps)
        b.observer.observe(POD_KIND, await b.create("next", asks(0, cpu="1")))
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.BOUND, "next") in b.steps)
        assert phase(b, made) is Phase.IN_DOUBT
        assert not b.engine.closed_nodes


async def test_a_node_that_is_made_anew_takes_no_pod_that_might_be_mistaken(tmp_path: Path) -> None:
    async with doubted(tmp_path, MTT, carried_out=True, **ON_M) as (b, _, __):
        b.engine.closed_nodes.forget("node-m")
        follower = await b.create("next", MTT, **ON_M)
        assert b.binder.locker.pod_awaiting_plugin("node-m", follower) is not None


async def test_it_ends_at_once_and_gives_nothing_back(tmp_path: Path) -> None:
    async with doubted(tmp_path, None, carried_out=True, **ON_A) as (b, made, _):
        async with asyncio.timeout(20.0):
            await b.binder.stop(60.0)
        assert phase(b, made) is Phase.IN_DOUBT


async def test_a_pod_that_waits_for_a_place_among_the_binds_without_a_turn_leaves_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, max_unlocked_binds=1, timeout=5.0) as b:
        await b.create("first", asks(0, cpu="1"))
        await b.learn()
        slow = Fault(verb="create", resource="pods/binding", delay=1.0, times=1)
        b.cluster.inject(slow)
        assert b.submit() == 1
        await b.until(lambda: slow.times == 0)
        made = await b.create("second", asks(0, cpu="1"))
        b.observer.observe(POD_KIND, made)
        assert b.submit() == 1
        await asyncio.sleep(0)
        assert b.binder.cancel_unsent(made.uid)
        assert b.engine.state.reservation(made.uid) is None
        await b.until(lambda: (HookPoint.BOUND, "first") in b.steps)
        await b.until(lambda: not b.binder._tasks)
        assert b.sent("create", "pods/binding") == 1
