"""Before the first pod of a group is bound the API server says whether it would bind all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.binding.bench import LOCK, Bench, bench
from tests.binding.test_binding_groups import ON_A, ON_B, bound, member

from vgpu_devcluster import Fault
from vgpu_scheduler.kube import Pod


async def team(b: Bench) -> list[Pod]:
    """Have a group of three pods come, two of them for one node."""
    places = (ON_A, ON_A, ON_B)
    return [await member(b, f"p{number}", "team/3", on) for number, on in enumerate(places)]


def dry_runs_sent(b: Bench) -> int:
    return b.sent("create", "pods/binding", dry_run=True)


def sent(b: Bench) -> int:
    return b.sent("create", "pods/binding")


async def test_each_binding_is_tried_once_before_the_first_one(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await team(b)
        await b.learn()
        b.watch()
        assert b.submit() == 3
        await b.until(lambda: dry_runs_sent(b) == 3)
        await b.until(lambda: len(bound(b)) == 3)
        assert (dry_runs_sent(b), sent(b)) == (3, 3)


async def test_a_pod_alone_is_bound_without(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.create("alone")
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: bound(b) == ["alone"])
        assert dry_runs_sent(b) == 0


@pytest.mark.parametrize("status", [422, 403, 404, 409, 429, 500, 0])
async def test_none_is_bound_where_the_last_one_would_not_be(tmp_path: Path, status: int) -> None:
    """Whatever the answer is, no lock was taken, nothing is bound, and all are tried again together."""
    async with bench(tmp_path) as b:
        await b.nodes.start()
        group = await team(b)
        await b.learn()
        b.watch()
        fault = Fault(verb="create", resource="pods/binding", name="p2", dry_run=True, status=status, drop=not status)
        b.cluster.inject(fault)
        assert b.submit() == 3
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        assert (bound(b), sent(b), dry_runs_sent(b) >= 2) == ([], 0, True)
        assert LOCK not in await b.node("node-a")
        assert LOCK not in await b.node("node-b")
        assert b.binder.stats.failed == 1
        if status == 404:
            assert b.engine.state.pod(group[2].uid) is None
            return
        assert all(made.uid in b.engine.queue for made in group)
        fault.times = 0

        def again() -> bool:
            b.clock.ahead += 0.5
            b.submit()
            return len(bound(b)) == 3

        await b.until(again, within=20.0)
        assert not b.engine.state.drift()


@pytest.mark.parametrize("status", [429, 500])
async def test_a_busy_api_server_is_asked_again(tmp_path: Path, status: int) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await team(b)
        await b.learn()
        b.watch()
        b.cluster.inject(Fault(verb="create", resource="pods/binding", name="p2", dry_run=True, status=status, times=1))
        assert b.submit() == 3
        await b.until(lambda: len(bound(b)) == 3)
        assert (dry_runs_sent(b), sent(b), b.binder.stats.failed) == (4, 3, 0)


async def test_the_pod_that_is_refused_says_why(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await team(b)
        await b.learn()
        b.cluster.inject(Fault(verb="create", resource="pods/binding", name="p1", dry_run=True, status=422, times=1))
        assert b.submit() == 3
        await b.until(lambda: b.binder.stats.failed)
        await b.until(lambda: b.tells("BindingFailed"))
        items = (await b.call("GET", "/apis/events.k8s.io/v1/events")).json()["items"]
        assert [(item["regarding"]["name"], item["reason"]) for item in items] == [("p1", "BindingFailed")]
