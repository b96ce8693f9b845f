"""The node lock: whose it is, when it may be replaced, and how it is taken on a server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from tests.binding.bench import LOCK, PODS, Bench, bench, taken_lock
from tests.engine.builders import OURS, allocation

from vgpu_devcluster import Fault
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.dialects.hami import format_lock, format_time, parse_lock
from vgpu_scheduler.engine import ClosedByLock, ClosureCause, LockStatus
from vgpu_scheduler.intake import NODES, list_all
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import LAST_ALLOCATED, allocated_pod

# On a server ---------------------------------------------------------------------------------------------------------


async def wants_the_node_of_an_allocating_pod(b: Bench, scheduler: str = OURS) -> str:
    """Have a pod hold the lock of node-a, and pod ``p`` of ours want that node; return the lock's value."""
    value = await b.occupy("node-a", scheduler)
    await b.create("p", nodeSelector={"kubernetes.io/hostname": "node-a"})
    await b.learn()
    return value


async def test_a_lock_of_an_allocating_pod_of_ours_is_waited_for(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.watch()
        value = await wants_the_node_of_an_allocating_pod(b)
        assert b.submit() == 1
        await b.until(lambda: b.sent("get", "pods") >= 3)  # looked at again and again
        assert (await b.node("node-a"))[LOCK] == value
        assert (b.sent("patch", "nodes"), b.binder.depth, b.binder.stats.failed) == (0, 0, 0)
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: b.binder.stats.bound)
        assert b.binder.locker.stats.orphans == 0


async def test_a_lock_whose_owner_goes_is_replaced(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await wants_the_node_of_an_allocating_pod(b)  # without a watch: only the look at the owner tells
        assert b.submit() == 1
        await b.until(lambda: b.sent("get", "pods") >= 2)
        await b.call("DELETE", f"{PODS}/occupant", {"gracePeriodSeconds": 0})
        await b.until(lambda: b.binder.stats.bound)
        assert b.binder.locker.stats.orphans == 1
        assert (await b.node("node-a"))[LOCK].endswith(",default,p")


async def test_a_lock_of_another_schedulers_pod_closes_the_node_until_that_pod_is_gone(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        value = await wants_the_node_of_an_allocating_pod(b, "another")
        assert b.submit() == 0
        await b.until(lambda: b.sent("get", "pods") >= 2)
        assert b.engine.closed_nodes.closures("node-a") == (ClosedByLock(ClosureCause.LOCK_HELD, taken_lock(value)),)
        await b.until(lambda: b.tells("DeviceLockHeld", _held(value)))
        await b.call("DELETE", f"{PODS}/occupant", {"gracePeriodSeconds": 0})
        await b.until(lambda: not b.engine.closed_nodes.closures("node-a"))
        b.clock.ahead += 2.0
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert b.binder.locker.stats.orphans == 1


def _held(value: str) -> str:
    owner = parse_lock(value).owner
    return f"annotation {LOCK} is held by pod {owner}; no pod that needs it is placed there until that ends"


async def test_without_the_lease_no_closed_node_is_looked_at(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.leads = False
        await wants_the_node_of_an_allocating_pod(b, "another")
        await asyncio.sleep(0.2)
        assert b.sent("get", "pods") == 0
        b.leads = True
        b.context.signals.node_changed("node-a")
        await b.until(lambda: b.sent("get", "pods"))


async def test_a_standby_that_leads_looks_at_the_nodes_that_were_closed_before(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.leads = False
        await b.annotate_node(
            "node-a", {LOCK: format_lock(datetime.now(UTC) - timedelta(minutes=9), "default", "gone")}
        )
        await b.create("p", nodeSelector={"kubernetes.io/hostname": "node-a"})
        await b.learn()
        assert b.submit() == 0
        b.leads = True
        await b.binder.look_at_closed_nodes()  # nothing is heard of the node meanwhile
        assert not b.engine.closed_nodes.closures("node-a")
        b.clock.ahead += 2.0
        assert b.submit() == 1


async def test_a_lock_that_an_earlier_leader_took_for_the_pod_is_no_longer_its_to_release(tmp_path: Path) -> None:
    """It may find only now that its Binding comes too late, and knows the lock by its value."""
    async with bench(tmp_path) as b:
        made = await b.create("p")
        earlier = format_lock(datetime.now(UTC) - timedelta(seconds=5), "default", "p")
        await b.annotate_node("node-a", {LOCK: earlier, LAST_ALLOCATED: made.uid})
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert b.binder.locker.fenced_pods == 1
        await b.binder.locker.release("node-a", taken_lock(earlier))
        left = (await b.node("node-a"))[LOCK]
        assert left != earlier
        assert left.endswith(",default,p")


async def test_a_lock_whose_answer_was_lost_is_taken_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.learn()
        b.cluster.inject(Fault(verb="patch", resource="nodes", lose_answer=True, times=1))
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert allocated_pod((await b.node("node-a"))[LAST_ALLOCATED]) == made.uid
        assert b.binder.locker.stats.orphans == 0


async def test_a_lock_of_a_namesake_that_is_gone_is_not_taken_for_ours(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        stale = format_lock(datetime.now(UTC), "default", "p")
        await b.annotate_node("node-a", {LOCK: stale, LAST_ALLOCATED: "uid-of-the-namesake"})
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert allocated_pod((await b.node("node-a"))[LAST_ALLOCATED]) == made.uid


async def test_an_allocation_that_nobody_told_us_of_is_read_before_anything_is_bound(tmp_path: Path) -> None:
    """What another leader bound last is found by its token; the cards that it took are not given out again."""
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.learn()
        chosen = b.engine.algorithm.decide(made).placement
        assert chosen is not None
        card = chosen.containers[0][0].uuid
        theirs = await b.create("theirs")
        await b.bind_elsewhere("theirs", chosen.node, allocation(chosen.node, (card, 15_000, 100)))
        await b.annotate_node(chosen.node, {LAST_ALLOCATED: theirs.uid})
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert b.engine.state.reservation(theirs.uid) is not None
        moved = b.engine.state.reservation(made.uid)
        assert moved is not None
        assert card not in moved.uses["hami"].charges
        assert b.sent("list", "pods") >= 2
        assert not b.engine.state.over_capacity()


async def test_a_token_of_a_pod_that_is_known_needs_no_reading(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        known = await b.create("known", scheduler="another")
        await b.bind_elsewhere("known", "node-a")
        await b.create("p")
        await b.annotate_node("node-a", {LAST_ALLOCATED: known.uid})
        await b.learn()
        before = b.sent("list", "pods")
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert b.sent("list", "pods") == before


async def test_a_node_that_is_made_anew_with_its_token_is_read_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for name in ("first", "next"):
            await b.annotate_node("node-a", {LAST_ALLOCATED: "uid-of-nobody"})
            await b.create(name, nodeSelector={"kubernetes.io/hostname": "node-a"})
            await b.learn()
            before = b.sent("list", "pods")
            assert b.submit() == 1
            await b.until(lambda name=name: (HookPoint.BOUND, name) in b.steps)
            assert b.sent("list", "pods") == before + 1
            assert set(b.binder.locker._fence._verified) == {"node-a"}
            await b.call("DELETE", "/api/v1/nodes/node-a")
            await b.learn()
            assert not b.binder.locker._fence._verified
            await b.nodes.register(["node-a"], ("T4", "T4"))


async def test_a_node_that_cannot_be_taken_in_is_reported_and_its_lock_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as b:
        await b.create("p", nodeSelector={"kubernetes.io/hostname": "node-a"})
        await b.learn()

        def fail(_: Node) -> NoReturn:
            raise ZeroDivisionError

        monkeypatch.setattr(b.engine._registrations, "read", fail)
        before = b.observer.stats.observed["Node"]
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert b.binder.stats.failed == 0
        assert b.observer.stats.observed["Node"] > before
        assert b.observer.stats.problems
        await b.until(lambda: b.tells("NotTakenIn", "internal error: ZeroDivisionError()"))


async def test_a_malformed_lock_is_reported_and_left(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=0.5) as b:
        await b.create("p")
        await b.annotate_node("node-a", {LOCK: "somebody was here"})
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        reservation = next(iter(b.engine.state.reservations()))
        assert reservation.node == "node-b"
        assert (await b.node("node-a"))[LOCK] == "somebody was here"
        [note] = [note for reason, note in await b.events() if reason == "DeviceLockMalformed"]
        assert note.startswith("annotation hami.io/mutex.lock is malformed: 'somebody was here'")


async def test_a_node_without_any_annotations(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.call("POST", "/api/v1/nodes", {"metadata": {"name": "bare"}})
        await b.learn()
        bare = b.engine.state.node("bare")
        assert bare is not None
        assert bare.annotations == {}
        turn, held = await b.binder.locker.try_take(bare, made)
        first = turn.lock
        assert (first.value.endswith(",default,p"), held) == (True, False)
        found = await b.node("bare")
        assert found.keys() == {LOCK, LAST_ALLOCATED}
        assert (found[LOCK], allocated_pod(found[LAST_ALLOCATED])) == (first.value, made.uid)
        # Seen as it was before, the map is no longer missing: refused, read, and taken again.
        assert await b.binder.locker.try_take(bare, made) == (None, False)
        current = b.engine.state.node("bare")
        assert current is not None
        b.clock.ahead += 10.0
        turn, held = await b.binder.locker.try_take(current, made)
        again = turn.lock
        assert (again != first, again.value.endswith(",default,p"), held) == (True, True, False)
        await b.binder.locker.release("bare", first)
        await b.binder.locker.release("bare", taken_lock("another value"))
        assert (await b.node("bare"))[LOCK] == again.value
        await b.binder.locker.release("bare", again)
        assert LOCK not in await b.node("bare")
        await b.binder.locker.release("no such node", again)


async def test_only_one_of_many_gets_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pods = [await b.create(f"p{number}") for number in range(8)]
        await b.learn()
        seen = b.engine.state.node("node-a")
        assert seen is not None
        answers = await asyncio.gather(*(b.binder.locker.try_take(seen, wants) for wants in pods))
        assert sorted(turn is not None for turn, _ in answers) == [False] * 7 + [True]


MLU_LOCK = "cambricon.com/dsmlu.lock"


async def test_a_maker_has_a_lock_of_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, timeout=5.0) as b:  # longer than a lock is precise
        mlu = {"limits": {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "4"}}
        made = await b.create("p", containers=[{"name": "main", "resources": mlu}])
        await b.learn()
        seen = b.engine.state.node("node-a")
        assert seen is not None
        turn, held = await b.binder.locker.try_take(seen, made)
        assert (parse_lock(turn.lock.value).owner, held) == ("", False)
        assert (await b.node("node-a")).get(MLU_LOCK) == turn.lock.value
        assert LOCK not in await b.node("node-a")
        locked = b.engine.state.node("node-a")
        assert locked is not None
        turn, held = await b.binder.locker.try_take(locked, made)  # a lost answer
        assert (parse_lock(turn.lock.value).owner, held) == ("", False)
        assert (await b.node("node-a")).get(MLU_LOCK) == turn.lock.value
        other = await b.create("q", containers=[{"name": "main", "resources": mlu}])
        assert await b.binder.locker.try_take(locked, other) == (None, True)
        await b.binder.locker.release("node-a", turn.lock)
        assert MLU_LOCK not in await b.node("node-a")


async def test_an_orphaned_lock_is_counted_once_when_it_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path) as b:
        stale = format_lock(datetime.now(UTC) - timedelta(minutes=9), "default", "gone")
        await b.annotate_node("node-a", {LOCK: stale})
        made = await b.create("p")
        await b.learn()
        b.cluster.inject(Fault(verb="patch", resource="nodes", status=500, times=3))
        taken = []
        while not taken:
            locked = b.engine.state.node("node-a")
            assert locked is not None
            turn, _ = await b.binder.locker.try_take(locked, made)
            taken = [turn] if turn is not None else []
        assert b.binder.locker.stats.orphans == 1
        assert [line for line in caplog.messages if "orphan" in line] == [
            f"node node-a: lock {stale!r} was orphaned, and is replaced"
        ]


@pytest.mark.parametrize(("owner", "orphans"), [("p", 0), ("gone", 1)])
async def test_a_lock_of_the_pod_itself_is_cleared_and_no_orphan(tmp_path: Path, owner: str, orphans: int) -> None:
    async with bench(tmp_path) as b:
        old = format_lock(datetime.now(UTC) - timedelta(minutes=9), "default", owner)
        await b.annotate_node("node-a", {LOCK: old})
        made = await b.create("p")
        await b.learn()
        await b.binder.locker.clear("node-a", NodeLock(LOCK), made)
        assert LOCK not in await b.node("node-a")
        assert b.binder.locker.stats.orphans == orphans


async def test_two_locks_of_a_node_grow_old_each_by_itself(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        ahead = datetime.now(UTC) + timedelta(days=1)  # of a clock that is wrong: what was seen counts
        await b.annotate_node("node-a", {LOCK: format_time(ahead), MLU_LOCK: format_time(ahead + timedelta(minutes=1))})
        await b.learn()

        async def statuses() -> list[LockStatus]:
            locker = b.binder.locker
            kinds = b.engine.dialects.node_side.locks
            assert [kind.annotation for kind in kinds] == [LOCK, MLU_LOCK]
            return [await locker.status(locker.find("node-a", kind)) for kind in kinds]

        assert await statuses() == [LockStatus.HELD, LockStatus.HELD]
        b.clock.ahead += 3600.0
        assert await statuses() == [LockStatus.ORPHANED, LockStatus.ORPHANED]


async def test_a_lock_that_names_no_possible_pod_is_malformed_and_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.learn()
        b.watch()
        await b.annotate_node("node-a", {LOCK: "2026-01-01T00:00:00Z,default,."})
        await b.annotate_node("node-b", {LOCK: "2026-01-01T00:00:00Z,,p"})
        causes = [ClosureCause.LOCK_MALFORMED] * 2
        await b.until(
            lambda: [c.cause for n in b.engine.closed_nodes for c in b.engine.closed_nodes.closures(n)] == causes
        )
        await b.until(lambda: _told(b, "DeviceLockMalformed", 2))
        assert (await b.node("node-b"))[LOCK] == "2026-01-01T00:00:00Z,,p"


async def _told(b: Bench, reason: str, number: int) -> bool:
    return [found for found, _ in await b.events()].count(reason) == number


async def test_a_lock_of_another_scheduler_is_told_only_where_it_stands_for_long(tmp_path: Path) -> None:
    async with bench(tmp_path, poll_interval=5.0) as b:
        await b.learn()
        b.watch()
        await b.occupy("node-a", "another")
        await b.until(lambda: b.engine.closed_nodes.closures("node-a"))
        for number in range(3):
            await b.annotate_node("node-a", {"heartbeat": str(number)})
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: not b.engine.closed_nodes.closures("node-a"))
        assert await _told(b, "DeviceLockHeld", 0)


async def test_a_nameless_lock_of_ours_that_was_seen_before_its_pod_opens_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        mlu = {"limits": {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "4"}}
        made = await b.create("p", containers=[{"name": "main", "resources": mlu}])
        await b.annotate_node("node-a", {MLU_LOCK: format_time(datetime.now(UTC)), LAST_ALLOCATED: made.uid})
        await b.observer.relist(NODES, await list_all(b.api, NODES))
        assert b.engine.closed_nodes.closures("node-a")
        await b.observer.relist(POD_KIND, await list_all(b.api, POD_KIND))
        await b.until(lambda: not b.engine.closed_nodes.closures("node-a"))
