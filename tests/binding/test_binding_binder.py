"""The binder as a whole: order at a node, waiting, the lease, and its end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from tests.binding.bench import LOCK, Bench, bench, taken_lock
from tests.engine.builders import asks, cards, node
from tests.policy.resources import policy

from vgpu_devcluster import BEHAVIOUR, WRITES, Fault
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.engine import ClosedByLock, ClosureCause, QueueName
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import DECISION

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ON_A = {"kubernetes.io/hostname": "node-a"}


def bound(b: Bench) -> list[str]:
    return [name for step, name in b.steps if step is HookPoint.BOUND]


def writes(b: Bench) -> int:
    return sum(b.sent(verb, "") for verb in WRITES)


async def test_one_node_goes_by_priority_then_by_age(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.occupy("node-a")  # nobody gets it before all have come
        await b.learn()
        b.watch()
        for value in (5, 9):
            await b.call("POST", CLASSES, {"metadata": {"name": f"class-{value}"}, "value": value})
        for number, priority in enumerate([0, 5, 0, 9, 5]):
            urgent = {"priorityClassName": f"class-{priority}"} if priority else {}
            made = await b.create(f"p{number}", nodeSelector=ON_A, **urgent)
            await b.until(lambda uid=made.uid: b.engine.state.pod(uid))
            assert b.submit() == 1
            await b.until(lambda: (HookPoint.CHECKED, "p0") in b.steps)
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: b.binder.stats.bound == 5)
        first, *rest = bound(b)  # the first had the node to itself when it came
        assert first == "p0"
        assert rest == ["p3", "p1", "p4", "p2"]
        await b.nodes.until(lambda: b.nodes.counts["running"] == 5)
        assert not b.nodes.violations


async def test_a_placement_is_one_line_with_the_keys_of_kube_scheduler(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.create("p", nodeSelector=ON_A)
        await b.learn()
        b.watch()
        with caplog.at_level("INFO", "vgpu_scheduler"):
            assert b.submit() == 1
            await b.until(lambda: bound(b) == ["p"])
    nodes = len(b.engine.state.nodes)
    assert nodes > 1
    assert [text for text in caplog.messages if "default/p" in text] == [
        f'"Successfully bound pod to node" pod="default/p" node="node-a" evaluatedNodes={nodes} feasibleNodes=1'
    ]


async def test_nodes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.create("first", nodeSelector=ON_A, annotations={BEHAVIOUR: "never"})
        await b.create("next", nodeSelector=ON_A)
        await b.create("other", nodeSelector={"kubernetes.io/hostname": "node-b"})
        await b.learn()
        b.watch()
        assert b.submit() == 3
        await b.until(lambda: set(bound(b)) == {"first", "other"})
        assert b.binder.depth == b.binder.deepest == 1


async def test_a_plugin_that_never_answers_closes_its_node(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=30.0) as b:
        await b.nodes.start()
        await b.create("silent", nodeSelector=ON_A, annotations={BEHAVIOUR: "never"})
        waiting = await b.create("waits", nodeSelector=ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: bound(b) == ["silent"])
        await b.until(lambda: b.binder.depth == 1)
        assert b.engine.queue.place(waiting.uid) is QueueName.IN_FLIGHT
        b.clock.ahead += 31.0
        await b.until(lambda: b.engine.queue.place(waiting.uid) is QueueName.ACTIVE or b.binder.stats.expired)
        assert b.engine.state.reservation(waiting.uid) is None
        assert b.wake.is_set()
        [closure] = b.engine.closed_nodes.closures("node-a")
        assert (closure.cause, closure.lock.kind.annotation) == (ClosureCause.PLUGIN_SILENT, LOCK)
        await b.until(lambda: b.tells("BindingFailed", "node-a has not answered for 30 s"))
        await b.until(
            lambda: b.tells("DevicePluginSilent", "the device plugin of NVIDIA does not answer pod default/silent")
        )
        assert (await b.node("node-a"))[LOCK].endswith(",default,silent")  # a bound pod keeps it, however long
        b.clock.ahead += 31.0  # it does not open by itself, and draws nobody any more
        assert b.submit() == 0
        await b.annotate_node("node-a", {LOCK: None})
        await b.until(lambda: not b.engine.closed_nodes.closures("node-a"))
        b.clock.ahead += 31.0
        await b.until(lambda: b.submit() == 1)
        await b.until(lambda: bound(b) == ["silent", "waits"])


async def test_the_head_of_a_lane_waits_no_longer_than_the_others(tmp_path: Path) -> None:
    async with bench(tmp_path, node_side_timeout=30.0) as b:
        value = await b.occupy("node-a")
        made = await b.create("p", nodeSelector=ON_A)
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.CHECKED, "p") in b.steps)
        b.clock.ahead += 31.0
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.ACTIVE)
        assert b.sent("patch", "nodes") == 0
        assert b.engine.closed_nodes.closures("node-a") == (
            ClosedByLock(ClosureCause.PLUGIN_SILENT, taken_lock(value)),
        )


async def test_a_lock_that_is_malformed_by_the_time_that_nobody_waits_any_more_is_reported_as_that(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, node_side_timeout=30.0) as b:
        await b.occupy("node-a")
        made = await b.create("p", nodeSelector=ON_A)
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.CHECKED, "p") in b.steps)
        b.clock.ahead += 31.0
        seen = b.engine.state.node("node-a")
        assert seen is not None
        annotations = {**seen.annotations, LOCK: "somebody was here"}
        version = seen.resource_version + 1
        b.engine.observe_node(msgspec.structs.replace(seen, annotations=annotations, resource_version=version), 0.0)
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.ACTIVE)
        assert b.engine.closed_nodes.closures("node-a") == (
            ClosedByLock(ClosureCause.LOCK_MALFORMED, taken_lock("somebody was here")),
        )


async def test_who_waits_at_a_node_whose_lock_a_stranger_takes_goes_elsewhere_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.occupy("node-a")
        for number in range(2):
            await b.create(f"p{number}", asks(1, 9000))
        await b.learn()
        b.watch()
        assert b.submit() == 2
        assert len(list(b.engine.state.reservations("node-a"))) == 3  # where somebody is already
        await b.until(lambda: b.binder.depth == 1)
        await b.annotate_node("node-a", {LOCK: "garbage"})
        await b.until(lambda: b.submit() == 2)
        await b.until(
            lambda: {held.pod for held in b.engine.state.reservations("node-b")} == {"default/p0", "default/p1"}
        )
        assert b.binder.stats.expired == 0


async def test_nodes_with_garbage_in_their_locks_hold_nobody_up(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        names = [f"n{number:02}" for number in range(40)]
        await b.nodes.register(names, ("T4",) * 4)
        await b.nodes.start()
        for number, name in enumerate(names[::2]):
            await b.annotate_node(name, {LOCK: ("garbage", "", "2026-01-01T00:00:00Z,default,a,b", "{}")[number % 4]})
        for number in range(100):
            await b.create(f"p{number:03}", asks(1, 3000), nodeSelector=None)
        await b.learn()
        b.watch()
        before = b.clock.monotonic()
        assert b.submit() == 100
        await b.until(lambda: b.binder.stats.bound == 100)
        assert b.clock.monotonic() - before < 30.0
        assert b.binder.stats.expired == 0
        assert not b.nodes.violations


async def test_a_placement_is_checked_at_the_head_and_again_under_the_lock(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", nodeSelector=ON_A)
        await b.learn()

        def cordon(step: HookPoint, _: Pod) -> None:
            known = b.engine.state.node("node-a")
            if step is HookPoint.LOCKED and known is not None:
                later = node("node-a", cards("other", 0), uid=known.uid, version=known.resource_version + 9)
                b.engine.observe_node(later, 0.0)

        b.at_point = cordon
        assert b.submit() == 1
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        assert b.sent("create", "pods/binding") == 0
        await b.until(lambda: _is_free(b))


async def test_a_policy_that_comes_under_the_lock_is_followed_and_named(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.create("p", nodeSelector=ON_A)
        await b.learn()
        b.watch()

        def come(step: HookPoint, _: Pod) -> None:
            if step is HookPoint.LOCKED:
                b.engine.policy_tracker.observe(policy("late", {"devices": {"exclusive": True}}))

        b.at_point = come
        assert b.submit() == 1
        await b.until(lambda: bound(b) == ["p"])
        notes = (await b.read("p"))["metadata"]["annotations"]
        assert ",100:" in notes["hami.io/vgpu-devices-allocated"]
        assert json.loads(notes[DECISION])["policy"]["devices"] == "settings, ClusterVGPUPolicy late"


async def _is_free(b: Bench) -> bool:
    return LOCK not in await b.node("node-a")


async def test_a_card_that_fails_while_the_pod_waits_is_exchanged(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.register(["node-c"], ("T4",) * 4)
        await b.nodes.start()
        on_c = {"kubernetes.io/hostname": "node-c"}
        taken, *others = [card.uuid for card in b.nodes.cards("node-c")]
        only = {"nvidia.com/use-gpuuuid": taken}
        await b.create("first", nodeSelector=on_c, annotations={BEHAVIOUR: "slow=0.5", **only})
        waiting = await b.create("second", nodeSelector=on_c, annotations={"nvidia.com/nouse-gpuuuid": taken})
        await b.learn()
        b.watch()
        assert b.submit() == 2
        held = b.engine.state.reservation(waiting.uid)
        assert held is not None
        [card] = held.uses["hami"].charges
        assert card in others
        await b.until(lambda: bound(b) == ["first"])
        await b.nodes.set_health("node-c", card, healthy=False)
        await b.nodes.until(lambda: b.nodes.counts["running"] == 2)
        assert b.binder.stats.refitted == 1
        notes = (await b.read("second"))["metadata"]["annotations"]
        assert card not in notes["hami.io/vgpu-devices-allocated"]
        assert not b.nodes.violations


async def test_without_the_lease_nothing_is_sent(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pods = [await b.create("locked"), await b.create("plain", asks(0, cpu="1"))]
        await b.learn()
        b.leads = False
        before = writes(b)
        assert b.submit() == 2
        await b.until(lambda: all(b.engine.queue.place(made.uid) is QueueName.BACKOFF for made in pods))
        assert b.engine.state.ledger() == {}
        assert (b.sent("patch", "nodes"), b.sent("create", "pods/binding")) == (0, 0)
        await b.events()
        assert writes(b) - before == b.sent("create", "events")
        assert b.sent("create", "events") <= len(pods)  # at most a word about each


async def test_a_lease_that_is_lost_under_the_lock_stops_the_binding(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.learn()

        def lose(step: HookPoint, _: Pod) -> None:
            b.leads = b.leads and step is not HookPoint.LOCKED

        b.at_point = lose
        assert b.submit() == 1
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        assert b.sent("create", "pods/binding") == 0
        assert await _is_free(b)


async def test_the_node_side_that_fails_frees_the_node(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        # They ask for different amounts: what is like a pod that was rejected would not go there at once.
        await b.create("bad", asks(1, 2000), nodeSelector=ON_A, annotations={BEHAVIOUR: "fail"})
        await b.create("good", nodeSelector=ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.nodes.until(lambda: b.nodes.counts["running"] == 1)
        await b.until(lambda: set(b.engine.state.ledger().get("node-a", {}).values()) == {(1, 1000, 0)})
        assert not b.nodes.violations


async def test_many_pods_on_few_nodes(tmp_path: Path) -> None:
    async with bench(tmp_path, timeout=30.0) as b:  # a Binding without an answer in time is followed by a look
        await b.nodes.start()
        for number in range(20):
            await b.create(f"p{number:02}", asks(1, 3000, 20))
        await b.learn()
        b.watch()
        assert b.submit() == 20
        await b.nodes.until(lambda: b.nodes.counts["running"] == 20)
        await b.until(lambda: not b.binder.depth)
        assert not b.nodes.violations
        assert not b.engine.state.over_capacity()
        assert not b.engine.state.drift()
        # Two writes and one event for each, and no look at anything.
        assert (b.sent("patch", "nodes"), b.sent("create", "pods/binding")) == (20, 20)
        assert len([1 for reason, _ in await b.events() if reason == "Scheduled"]) == 20
        assert b.sent("get", "pods") == 0


@pytest.mark.parametrize("grace", [0.0, 1.0])
async def test_it_stops_within_seconds_whatever_it_waits_for(tmp_path: Path, grace: float) -> None:
    async with bench(tmp_path, timeout=30.0, poll_interval=30.0) as b:
        await b.occupy("node-a")
        on_b = {"kubernetes.io/hostname": "node-b"}
        locked = [await b.create(f"locked-{number}", nodeSelector=ON_A) for number in range(2)]
        await b.create("slow", nodeSelector=on_b)
        await b.create("plain", asks(0, cpu="1"), nodeSelector=on_b)
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", delay=60.0))
        assert b.submit() == 4
        await b.until(lambda: (HookPoint.LOCKED, "slow") in b.steps and b.binder.depth == 1)
        async with asyncio.timeout(grace + 1.0):
            await b.binder.stop(grace)
        if grace:
            assert all(b.engine.state.reservation(made.uid) is None for made in locked)
        # What was sent may still happen: only a reading of the pod can tell, so nothing is given back.
        assert {held.pod for held in b.engine.state.reservations()} >= {"default/slow", "default/plain"}
