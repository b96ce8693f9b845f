"""Units of several pods at their nodes: nothing is taken before their turn, nothing goes between them, none is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.binding.bench import LOCK, Bench, bench, taken_lock
from tests.engine.builders import asks, in_group

from vgpu_devcluster import BEHAVIOUR, Fault
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.engine import ClosedByLock, ClosureCause, QueueName
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement

ON_A = {"kubernetes.io/hostname": "node-a"}
ON_B = {"kubernetes.io/hostname": "node-b"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def bound(b: Bench) -> list[str]:
    return [name for step, name in b.steps if step is HookPoint.BOUND]


async def member(b: Bench, name: str, group: str, on: dict[str, str], memory: int = 1000, **more: Any) -> Pod:
    called, _, size = group.partition("/")
    notes = {**in_group(called, int(size)), **more.pop("annotations", {})}
    return await b.create(name, asks(1, memory), annotations=notes, nodeSelector=on, **more)


async def test_eight_members_on_one_node_follow_each_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.occupy("node-a")
        await b.call("POST", CLASSES, {"metadata": {"name": "urgent"}, "value": 9})
        for number in range(8):
            await member(b, f"p{number}", "team/8", ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 8
        await b.until(lambda: b.binder.depth >= 7)

        def urgent_comes(step: HookPoint, pod: Pod) -> None:
            if step is HookPoint.LOCKED and pod.name == "p0":
                b.at_point = lambda *_: None
                asked = asks(1, 1000)
                b.late = b.create("late", asked, nodeSelector=ON_A, priorityClassName="urgent")  # type: ignore[attr-defined]

        b.at_point = urgent_comes
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: "p0" in bound(b))
        late = await b.late  # type: ignore[attr-defined]
        await b.until(lambda: b.engine.state.pod(late.uid))
        await b.until(lambda: b.submit() == 1)
        await b.until(lambda: len(bound(b)) == 9)
        assert bound(b) == [*(f"p{number}" for number in range(8)), "late"]  # nothing goes between
        await b.nodes.until(lambda: b.nodes.counts["running"] == 9)
        assert not [v for v in b.nodes.violations if "occupant" not in v]


async def test_two_units_that_cross_on_their_nodes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        for group, places in (("one", (ON_A, ON_B)), ("two", (ON_B, ON_A))):
            for number, on in enumerate(places):
                await member(b, f"{group}-{number}", f"{group}/2", on, annotations={BEHAVIOUR: "slow=0.2"})
        await b.learn()
        b.watch()
        assert b.submit() == 4
        await b.until(lambda: len(bound(b)) == 4)
        assert {name.partition("-")[0] for name in bound(b)[:2]} == {"one"}
        await b.nodes.until(lambda: b.nodes.counts["running"] == 4)
        assert not b.nodes.violations


async def test_an_uncommitted_unit_takes_nothing_and_lets_higher_ones_pass(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.occupy("node-a")
        await b.call("POST", CLASSES, {"metadata": {"name": "urgent"}, "value": 9})
        group = [await member(b, "u0", "team/2", ON_A), await member(b, "u1", "team/2", ON_B)]
        await b.learn()
        b.watch()
        # The head of node-a waits for its occupant, so the group cannot commit.
        await b.create("head", asks(1, 1000), nodeSelector=ON_A, priorityClassName="urgent")
        await b.until(lambda: b.engine.queue.counts()[QueueName.ACTIVE] == 3)
        assert b.submit() == 3
        await b.until(lambda: (HookPoint.CHECKED, "head") in b.steps)
        low = await b.create("low", asks(1, 1000), nodeSelector=ON_B)
        await b.until(lambda: b.engine.state.pod(low.uid))
        assert b.submit() == 1
        high = await b.create("high", asks(1, 1000), nodeSelector=ON_B, priorityClassName="urgent")
        await b.until(lambda: b.engine.state.pod(high.uid))
        assert b.submit() == 1
        await b.until(lambda: bound(b) == ["high"])  # it passes the group, which has no lock of node-b
        assert LOCK in await b.node("node-b")
        await b.annotate_node("node-b", {LOCK: None})
        status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
        path = "/api/v1/namespaces/default/pods/high/status"
        await b.call("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
        await b.until(lambda: b.binder.depth == 3)  # both of the group, and the lower one behind it
        assert bound(b) == ["high"]
        assert LOCK not in await b.node("node-b")
        assert all(b.engine.queue.place(made.uid) is QueueName.IN_FLIGHT for made in [*group, low])
        await b.nodes.start()
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: len(bound(b)) == 5)
        assert bound(b)[1] == "head"
        assert bound(b).index("low") > bound(b).index("u1")


async def test_a_unit_of_which_one_does_not_hold_any_more_is_given_back_as_a_whole(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.occupy("node-a")
        group = [await member(b, "u0", "team/2", ON_A), await member(b, "u1", "team/2", ON_B)]
        await b.create("head", asks(1, 1000), nodeSelector=ON_A)
        await b.learn()
        head = next(pod for pod in b.engine.state.pods() if pod.name == "head")
        b.engine.queue.remove(head.uid)  # decided first, so that the group has to wait behind it
        b.engine.queue.add(head.uid, 5, b.clock.monotonic())
        b.watch()
        assert b.submit() == 3
        await b.until(lambda: b.binder.depth == 2)
        for card in b.nodes.cards("node-b"):
            await b.nodes.set_health("node-b", card.uuid, healthy=False)
        await b.until(
            lambda: not any(d.healthy for d in b.engine.state.devices.devices(b.engine.state.nodes.row("node-b")))
        )  # type: ignore[arg-type]
        await b.nodes.start()
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        await b.until(lambda: bound(b) == ["head"])
        assert b.sent("create", "pods/binding") == 1


async def test_a_unit_whose_lock_cannot_be_taken_binds_none(tmp_path: Path) -> None:
    """Before the first Binding is sent everything can be undone: locks of others of the group are released."""
    async with bench(tmp_path) as b:
        group = [await member(b, "u0", "team/2", ON_A), await member(b, "u1", "team/2", ON_B)]
        await b.learn()
        b.watch()

        def lose(step: HookPoint, pod: Pod) -> None:
            if step is HookPoint.CHECKED and pod.name == "u1":
                known = b.engine.state.node("node-b")
                assert known is not None
                b.engine.remove_node("node-b", known.resource_version)

        b.at_point = lose
        b.cluster.inject(Fault(verb="patch", resource="nodes", delay=0.1))
        assert b.submit() == 2
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        await b.until(lambda: _is_free(b, "node-a"))
        assert b.sent("create", "pods/binding") == 0
        assert bound(b) == []


async def _is_free(b: Bench, node: str) -> bool:
    return LOCK not in await b.node(node)


@pytest.mark.parametrize("status", [422, 500, 409])
async def test_a_member_that_fails_after_the_first_write_is_tried_until_it_is_bound(
    tmp_path: Path, status: int
) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        names = [f"p{number}" for number in range(4)]
        for name in names:
            await member(b, name, "team/4", ON_A)
        await b.learn()
        b.watch()

        def break_it(step: HookPoint, pod: Pod) -> None:
            if step is HookPoint.BOUND and pod.name == "p1":
                b.cluster.inject(Fault(verb="create", resource="pods/binding", dry_run=False, status=status, times=2))

        b.at_point = break_it
        assert b.submit() == 4

        def again() -> bool:
            b.clock.ahead += 0.5
            b.submit()
            return set(bound(b)) == set(names)

        await b.until(again, within=20.0)
        assert len(bound(b)) == 4  # each once: nothing that is bound is undone
        await b.nodes.until(lambda: b.nodes.counts["running"] == 4)
        assert not b.nodes.violations
        assert not b.engine.state.drift()


async def test_a_member_that_is_deleted_after_the_first_write_is_let_go(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        for number in range(3):
            await member(b, f"p{number}", "team/3", ON_A, annotations={BEHAVIOUR: "slow=0.2"})
        await b.learn()
        b.watch()
        assert b.submit() == 3
        await b.until(lambda: bound(b) == ["p0"])
        await b.call("DELETE", "/api/v1/namespaces/default/pods/p2", {"gracePeriodSeconds": 0})
        await b.until(lambda: bound(b) == ["p0", "p1"])
        await b.until(lambda: not b.binder.depth)
        assert len(list(b.engine.state.reservations())) == 2


async def test_members_that_need_no_turn_wait_for_those_that_do(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.occupy("node-a")
        await member(b, "u0", "team/2", ON_A)
        await b.create("u1", asks(0, cpu="1"), annotations=in_group("team", 2))
        await b.create("head", asks(1, 1000), nodeSelector=ON_A)
        await b.learn()
        head = next(pod for pod in b.engine.state.pods() if pod.name == "head")
        b.engine.queue.remove(head.uid)
        b.engine.queue.add(head.uid, 5, b.clock.monotonic())
        b.watch()
        assert b.submit() == 3
        await b.until(lambda: b.binder.depth == 1)
        assert bound(b) == []
        await b.nodes.start()
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: len(bound(b)) == 3)
        assert bound(b)[0] == "head"


async def test_a_unit_that_waits_too_long_is_decided_anew_as_a_whole(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=30.0) as b:
        await b.occupy("node-a")
        group = [await member(b, "u0", "team/2", ON_A), await member(b, "u1", "team/2", ON_B)]
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: b.sent("get", "pods") >= 2)  # whoever holds the lock is looked at again and again
        assert b.binder.depth == 2
        b.clock.ahead += 31.0
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        assert b.sent("create", "pods/binding") == 0
        assert LOCK not in await b.node("node-b")


async def test_a_lock_that_nobody_uses_keeps_no_unit_waiting(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.occupy("node-a")
        await member(b, "u0", "team/2", ON_A)
        await member(b, "u1", "team/2", ON_B)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: b.binder.depth == 2)
        await b.call("DELETE", "/api/v1/namespaces/default/pods/occupant", {"gracePeriodSeconds": 0})
        await b.until(lambda: len(bound(b)) == 2)
        assert b.binder.locker.stats.orphans == 1


async def test_a_unit_whose_node_closes_goes_elsewhere_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.occupy("node-a")
        group = [await member(b, "u0", "team/2", ON_A), await member(b, "u1", "team/2", ON_B)]
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: b.binder.depth == 2)
        await b.annotate_node("node-a", {LOCK: "garbage"})
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        assert all(b.engine.queue.place(made.uid) is QueueName.ACTIVE for made in group)
        assert b.binder.stats.expired == 0


async def test_a_lock_that_comes_after_its_unit_was_given_back_is_released_where_it_was_taken(tmp_path: Path) -> None:
    """Meanwhile the pod may hold the lock of another node, of the same second and so of the same value."""
    async with bench(tmp_path) as b:
        for pool in "ab":
            await b.nodes.register([f"{pool}1", f"{pool}2"], ("T4",), labels={"pool": pool})
        await member(b, "p0", "team/2", {"pool": "a"})
        await member(b, "p1", "team/2", {"pool": "b"})
        await b.learn()
        b.cluster.inject(Fault(verb="patch", resource="nodes", delay=0.4, times=1))

        def close(step: HookPoint, pod: Pod) -> None:
            if step is HookPoint.CHECKED and pod.name == "p1":
                b.at_point = lambda *_: None
                for name in ("a1", "b1"):
                    held = taken_lock("held")
                    b.engine.closed_nodes.close(name, ClosedByLock(ClosureCause.PLUGIN_SILENT, held))

        b.at_point = close
        assert b.submit() == 2
        await b.until(lambda: b.submit() == 2)  # decided anew, on the other nodes
        await b.until(lambda: set(bound(b)) == {"p0", "p1"})
        await b.until(lambda: _is_free(b, "a1"))
        assert (await b.node("a2"))[LOCK].endswith(",default,p0")
        assert (await b.node("b2"))[LOCK].endswith(",default,p1")


@pytest.mark.parametrize("fate", ["refused", "deleted", "without the lease"])
async def test_a_unit_whose_first_binding_does_nothing_binds_none(tmp_path: Path, fate: str) -> None:
    async with bench(tmp_path) as b:
        group = [await member(b, f"p{number}", "team/3", ON_A) for number in range(3)]
        await b.learn()
        if fate == "refused":
            b.cluster.inject(Fault(verb="create", resource="pods/binding", dry_run=False, status=422, times=1))
        elif fate == "deleted":
            await b.call("DELETE", "/api/v1/namespaces/default/pods/p0", {"gracePeriodSeconds": 0})

        def lose(step: HookPoint, _: Pod) -> None:
            b.leads = step is not HookPoint.LOCKED

        if fate == "without the lease":
            b.at_point = lose
        assert b.submit() == 3
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        await b.until(lambda: _is_free(b, "node-a"))
        assert bound(b) == []


async def test_a_lock_that_cannot_be_taken_keeps_nobody_for_good(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pods = [await b.create(f"p{number}", nodeSelector=ON_A) for number in range(3)]
        await b.learn()
        b.watch()
        b.cluster.inject(Fault(verb="patch", resource="nodes", status=403))
        assert b.submit() == 3
        await b.until(lambda: b.binder.locker.stats.refused >= 1)
        b.clock.ahead += 30.0
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in pods))
        assert b.binder.depth == 0


@pytest.mark.parametrize("places", [(ON_A, ON_B), None], ids=["in lanes", "without lanes"])
async def test_an_error_before_the_turn_of_a_unit_concerns_that_unit_alone(
    tmp_path: Path, places: tuple[dict[str, str], ...] | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        notes = in_group("team", 2)
        group = [
            await b.create(f"u{number}", asks(0, cpu="1"), annotations=notes)
            if places is None
            else await member(b, f"u{number}", "team/2", places[number])
            for number in range(2)
        ]
        await b.learn()
        b.watch()
        recheck = b.engine.assumed.recheck

        def broken(uid: str) -> Placement | None:
            if uid == group[1].uid:
                raise ZeroDivisionError("a mistake of ours")
            return recheck(uid)

        b.engine.assumed.recheck = broken  # type: ignore[method-assign]
        assert b.submit() == 2
        await b.until(lambda: all(b.engine.state.reservation(made.uid) is None for made in group))
        assert {b.engine.queue.place(made.uid) for made in group} == {QueueName.BACKOFF}
        assert "the turn of pod default/u0 could not begin" in caplog.messages
        await b.until(lambda: b.tells("BindingFailed", "internal error: ZeroDivisionError('a mistake of ours')"))
        alone = await b.create("alone", asks(1, 1000), nodeSelector=ON_A)
        await b.until(lambda: b.engine.state.pod(alone.uid))
        b.submit()
        await b.until(lambda: "alone" in bound(b))
