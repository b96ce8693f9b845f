"""Who is told of binds cannot change what becomes of them, whatever they do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest
from tests.binding.bench import LOCK, Bench, bench
from tests.engine.builders import asks

from vgpu_devcluster import Fault
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.engine import QueueName
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import Phase

ON_A = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}}
POINTS = (*(step.value for step in HookPoint), "answer", "attempt")


def fail(*_: object) -> NoReturn:
    raise RuntimeError("odd")


def make_fail(b: Bench, point: str) -> list[str]:
    """Have a hook raise at one point of every bind; return what is filled when it did."""
    raised: list[str] = []

    def told(*_: object) -> None:
        raised.append(point)
        fail()

    def step_told(step: HookPoint, _: Pod) -> None:
        if step.value == point:
            told()

    if point == "answer":
        b.on_answer = told
    elif point == "attempt":
        b.on_attempt = told
    else:
        b.at_point = step_told
    return raised


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("gpu", [1, 0], ids=["in turn", "at once"])
async def test_a_hook_that_fails_takes_nothing_from_a_pod_that_is_bound(tmp_path: Path, point: str, gpu: int) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", asks(gpu, cpu="1"), **ON_A)
        await b.learn()
        raised = make_fail(b, point)
        assert b.submit() == 1
        await b.until(lambda: not b.engine.state.in_flight(made.uid))
        if point != HookPoint.LOCKED.value or gpu:
            await b.until(lambda: raised)
        held = b.engine.state.reservation(made.uid)
        assert held is not None
        assert (held.node, held.phase) == ("node-a", Phase.CONFIRMED)
        assert made.uid not in b.engine.queue
        assert b.engine.state.ledger() == b.engine.state.rebuild().ledger()
        assert len(b.engine.state.ledger().get("node-a", {})) == gpu
        assert (await b.read("p"))["spec"]["nodeName"] == "node-a"
        assert (b.binder.stats.bound, b.binder.stats.failed) == (1, 0)
        await b.learn()
        assert b.engine.state.ledger() == b.engine.state.rebuild().ledger()


@pytest.mark.parametrize("point", [point for point in POINTS if point not in {"bound", "reported"}])
@pytest.mark.parametrize("status", [403, 404, 409, 429])
async def test_a_hook_that_fails_keeps_nothing_for_a_pod_that_is_not_bound(
    tmp_path: Path, point: str, status: int
) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", **ON_A)
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", status=status, times=1))
        raised = make_fail(b, point)
        assert b.submit() == 1
        await b.until(lambda: not b.engine.state.in_flight(made.uid))
        await b.until(lambda: raised)
        assert b.engine.state.reservation(made.uid) is None
        assert b.withdrawn == [made.uid]
        assert b.engine.state.ledger() == b.engine.state.rebuild().ledger() == {}
        assert b.engine.state.was_removed(made.uid) is (status == 404)
        assert b.engine.queue.place(made.uid) is (None if status == 404 else QueueName.BACKOFF)
        assert (b.binder.stats.bound, b.binder.stats.failed) == (0, 1)
        await b.until(lambda: _unlocked(b))


async def test_hooks_that_fail_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(tmp_path) as b:
        await b.create("p")
        await b.learn()
        make_fail(b, "attempt")
        with caplog.at_level("ERROR", "vgpu_scheduler"):
            b.submit()
            await b.until(lambda: b.binder.stats.bound)
            await b.until(lambda: caplog.messages)
        assert "attempted" in caplog.messages[0]


async def test_a_bind_that_is_cancelled_within_a_hook_is_given_up(tmp_path: Path) -> None:
    """What ends a task, or the process, is no failure of a hook: crashes are tested there."""
    async with bench(tmp_path) as b:
        await b.create("p")
        await b.learn()

        def cancel(step: HookPoint, _: Pod) -> None:
            if step is HookPoint.LOCKED:
                raise asyncio.CancelledError

        b.at_point = cancel
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.LOCKED, "p") in b.steps)
        await b.until(lambda: not b.binder._tasks)
        assert b.sent("create", "pods/binding") == 0


async def test_a_report_that_fails_takes_nothing_from_a_pod_that_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        made = [await b.create(name, **ON_A) for name in ("first", "next")]
        await b.learn()
        b.watch()
        assert b.submit() == 2
        monkeypatch.setattr(b.reporter, "_waiting", None)
        monkeypatch.setattr(b.reporter, "_put_event", fail)
        await b.nodes.until(lambda: b.nodes.counts["running"] == 2)
        await b.until(lambda: b.binder.stats.bound == 2)
        assert b.binder.stats.failed == 0
        assert not any(pod.uid in b.engine.queue for pod in made)
        assert not b.engine.state.drift()
        assert not b.nodes.violations


async def test_a_report_that_fails_keeps_nothing_for_a_pod_that_is_not_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", **ON_A)
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", status=403, times=1))
        monkeypatch.setattr(b.reporter, "_warn", fail)
        assert b.submit() == 1
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        assert b.engine.state.ledger() == {}
        await b.until(lambda: _unlocked(b))
        assert b.binder.stats.failed == 1


async def _unlocked(b: Bench) -> bool:
    return LOCK not in await b.node("node-a")
