"""Bindings that an earlier leader holds back, frozen: once their cards may be given to others, they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.binding.bench import LOCK, PENDING, PODS, Bench, bench
from tests.engine.builders import allocation
from tests.engine.dialect_worlds import CORE, RATIO, beside, engine_of, koordinator_node

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import MERGE_PATCH
from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.dialects.hami import format_lock, format_time
from vgpu_scheduler.engine import ClosedByUnreadablePod, LockStatus, QueueName
from vgpu_scheduler.kube import Pod, Versioned, podspecs
from vgpu_scheduler.kube.wire import FieldError, WireMeta, WireOwner
from vgpu_scheduler.model import allocated_pod, allocation_token

TOKEN = "vgpu-scheduler.io/last-allocated"
ON_A: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}}
NOWHERE: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "nowhere"}}
GPU = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "15000"}}


def taken(name: str, seconds_ago: float) -> str:
    """Return the lock of a pod."""
    return format_lock(datetime.now(UTC) - timedelta(seconds=seconds_ago), "default", name)


async def bind_late(b: Bench, pod: Pod, node: str) -> int:
    """Send the Binding that a leader has held back since it saw a pod; return the API server's answer."""
    card = b.nodes.cards("node-a")[0].uuid
    metadata = {
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": str(pod.resource_version),
        "annotations": allocation(node, (card, 15_000, 100)),
    }
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return (await b.call("POST", f"{PODS}/{pod.name}/binding", {"metadata": metadata, "target": target})).status


@pytest.mark.parametrize("locked", [True, False], ids=["its lock is still there", "its token only"])
async def test_a_binding_that_was_held_back_is_refused_once_its_node_serves_another_pod(
    tmp_path: Path, *, locked: bool
) -> None:
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", GPU, **NOWHERE)
        await b.annotate_node("node-a", {TOKEN: frozen.uid, **({LOCK: taken("frozen", 5.0)} if locked else {})})
        await b.create("next", GPU, **ON_A)
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert await bind_late(b, frozen, "node-a") == 409
        [condition] = (await b.read("frozen"))["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")


async def test_a_pod_that_is_assumed_elsewhere_is_bound_there_all_the_same(tmp_path: Path) -> None:
    """Its new version makes our own Binding fail, too: it is decided anew at once."""
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", GPU, nodeSelector={"kubernetes.io/hostname": "node-b"})
        await b.occupy("node-b")
        await b.annotate_node("node-a", {TOKEN: frozen.uid})
        await b.create("next", GPU, **ON_A)
        await b.learn()
        b.watch()
        assert b.submit() == 2
        await b.until(lambda: b.binder.stats.bound == 1)
        assert await bind_late(b, frozen, "node-a") == 409
        await b.annotate_node("node-b", {LOCK: None})
        await b.until(lambda: b.submit() >= 0 and b.binder.stats.bound == 2)
        assert (await b.read("frozen"))["spec"]["nodeName"] == "node-b"


async def test_nothing_is_bound_on_the_node_until_the_other_pod_has_a_new_version(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", GPU, **NOWHERE)
        await b.annotate_node("node-a", {TOKEN: frozen.uid, LOCK: taken("frozen", 5.0)})
        await b.create("next", GPU, **ON_A)
        await b.learn()
        b.cluster.inject(Fault("patch", "pods/status", status=500, times=3))
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert b.sent("patch", "pods/status") >= 4
        assert await bind_late(b, frozen, "node-a") == 409


async def test_no_token_comes_a_second_time(tmp_path: Path) -> None:
    """A frozen leader expects the token that it knows, also where the same pod is allocated again meanwhile."""
    async with bench(tmp_path) as b:
        again = await b.create("again", GPU, **ON_A)
        before = allocation_token(again.uid, "another")
        await b.annotate_node("node-a", {TOKEN: before})
        await b.learn()
        b.watch()
        await b.until(lambda: b.submit() >= 0 and b.binder.stats.bound)
        token = (await b.node("node-a"))[TOKEN]
        assert (allocated_pod(token), token == before) == (again.uid, False)


async def test_a_binding_that_came_after_all_is_counted(tmp_path: Path) -> None:
    """It came before the pod could be given a new version: its cards are taken."""
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", GPU, **NOWHERE)
        await b.annotate_node("node-a", {TOKEN: frozen.uid})
        waiting = await b.create("next", GPU, **ON_A)
        await b.learn()
        assert await bind_late(b, frozen, "node-a") == 201
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        first, second = b.engine.state.reservation(frozen.uid), b.engine.state.reservation(waiting.uid)
        assert first is not None
        assert second is not None
        assert not first.uses["hami"].charges.keys() & second.uses["hami"].charges.keys()


class Heard:
    """What was observed of pods, as whoever records it hears of it."""

    def __init__(self) -> None:
        self.pods: list[tuple[str, str]] = []

    def seen(self, kind: str, value: Versioned) -> None:
        """Note a pod and its node."""
        if isinstance(value, Pod):
            self.pods.append((value.name, value.node_name))

    def object_gone(self, kind: str, value: Versioned) -> None:
        """Nothing goes here."""

    def pod_gone(self, uid: str) -> None:
        """Nothing goes here."""


@pytest.mark.parametrize("lock", [False, True], ids=["for the token", "for the lock"])
async def test_what_is_read_before_a_node_is_claimed_is_observed_as_all_else_is(tmp_path: Path, *, lock: bool) -> None:
    """No stream shows that version once more: who records what happens would never hear of it."""
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", GPU, **NOWHERE)
        await b.annotate_node("node-a", {LOCK: taken("frozen", 5.0)} if lock else {TOKEN: frozen.uid})
        await b.learn()
        assert await bind_late(b, frozen, "node-a") == 201
        heard = b.observer.listener = Heard()
        if lock:
            assert await b.binder.locker.status(b.binder.locker.find("node-a", NodeLock(LOCK))) is LockStatus.HELD
        else:
            assert await b.binder.locker.secure_last_allocation("node-a")
        assert heard.pods == [("frozen", "node-a")]


async def test_a_pod_that_changes_after_it_was_decided_on_is_decided_anew_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", **ON_A)
        await b.learn()
        patch = {"metadata": {"annotations": {"example.com/changed": "yes"}}}
        answer = await b.call("PATCH", f"{PODS}/p", patch, content_type=MERGE_PATCH)
        assert answer.ok
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.failed)
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.ACTIVE)
        assert LOCK not in await b.node("node-a")
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)


async def with_koordinator_node(b: Bench) -> dict[str, dict[str, str]]:
    """Make a node of Koordinator, whose cards have neither locks nor turns; return what half a card is called there."""
    await b.call("POST", "/api/v1/nodes", {"metadata": {"name": "k"}})
    ready = {"spec": {"taints": None}}
    assert (await b.call("PATCH", "/api/v1/nodes/k", ready, content_type=MERGE_PATCH)).ok
    status = {"status": koordinator_node("k")["status"]}
    assert (await b.call("PATCH", "/api/v1/nodes/k/status", status, content_type=MERGE_PATCH)).ok
    await b.learn()
    b.engine.observe_inventory("k", beside("GPU-k0", "GPU-k1"), 0.0)
    return {"limits": {CORE: "50", RATIO: "50"}, "requests": {CORE: "50", RATIO: "50"}}


async def test_cards_without_a_lock_are_claimed_by_the_token_one_pod_after_the_other(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=engine_of()) as b:
        half = await with_koordinator_node(b)
        frozen = await b.create("frozen", half, **NOWHERE)
        await b.annotate_node("k", {TOKEN: frozen.uid})
        pods = [await b.create(f"p{number}", half) for number in range(4)]
        await b.learn()
        assert b.submit() == 4
        await b.until(lambda: b.binder.stats.bound == 4)
        assert allocated_pod((await b.node("k"))[TOKEN]) in {made.uid for made in pods}
        assert b.sent("patch", "nodes") == 4
        assert b.sent("patch", "pods/status") == 1, "they know each other's tokens"
        assert await bind_late(b, frozen, "k") == 409
        assert not b.engine.state.over_capacity()


MLU_LOCK = "cambricon.com/dsmlu.lock"
MLU = {"limits": {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "4"}}


def of_the_mlu(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": MLU}], **more}


async def test_a_lock_that_names_nobody_is_that_of_the_pod_that_was_never_bound(tmp_path: Path) -> None:
    """An earlier leader has taken it with the token: it need not expire, which takes minutes."""
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", **of_the_mlu(**NOWHERE))
        wants = await b.create("wants", **of_the_mlu())
        value = format_time(datetime.now(UTC) - timedelta(seconds=5))
        await b.annotate_node("node-a", {TOKEN: frozen.uid, MLU_LOCK: value})
        await b.learn()
        seen = b.engine.state.node("node-a")
        assert seen is not None
        taken, _ = await b.binder.locker.try_take(seen, wants)
        assert taken is not None
        assert taken.lock is not None
        assert (await b.node("node-a"))[MLU_LOCK] == taken.lock.value != value
        assert await bind_late(b, frozen, "node-a") == 409


async def test_a_lock_that_names_nobody_may_be_that_of_a_pod_that_waits_for_its_plugin(tmp_path: Path) -> None:
    """Another scheduler writes no token: the pod of ours that was last allocated says nothing of its lock."""
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", **of_the_mlu(**NOWHERE))
        wants = await b.create("wants", **of_the_mlu())
        await b.create("theirs", scheduler="hami-scheduler", **of_the_mlu())
        await b.bind_elsewhere("theirs", "node-a", PENDING)
        value = format_time(datetime.now(UTC) - timedelta(seconds=5))
        await b.annotate_node("node-a", {TOKEN: frozen.uid, MLU_LOCK: value})
        await b.learn()
        seen = b.engine.state.node("node-a")
        assert seen is not None
        assert await b.binder.locker.try_take(seen, wants) == (None, True)
        assert (await b.node("node-a"))[MLU_LOCK] == value


async def test_a_lock_that_seems_to_come_from_the_future_is_as_old_as_it_has_been_seen(tmp_path: Path) -> None:
    """The clock of this machine was put back, or that of the machine before was ahead."""
    async with bench(tmp_path) as b:
        frozen = await b.create("frozen", GPU, **NOWHERE)
        wants = await b.create("wants", GPU, **ON_A)
        await b.annotate_node("node-a", {TOKEN: frozen.uid, LOCK: taken("frozen", -3600.0)})
        await b.learn()
        seen = b.engine.state.node("node-a")
        assert seen is not None
        assert await b.binder.locker.try_take(seen, wants) == (None, True)
        b.clock.ahead += 60.0
        turn, _ = await b.binder.locker.try_take(seen, wants)
        assert turn is not None
        assert await bind_late(b, frozen, "node-a") == 409


@pytest.fixture
def unreadable() -> Iterator[Callable[[], None]]:
    """Have pods of the name ``odd`` be such that no decoder reads them; give what ends that."""
    owner = podspecs._owner

    def refuse(meta: WireMeta) -> WireOwner | None:
        if meta.name == "odd":
            raise FieldError("metadata.ownerReferences", "nobody can read that")
        return owner(meta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(podspecs, "_owner", refuse)
        yield patch.undo


async def bind_odd(b: Bench, node: str) -> str:
    """Have a pod on a node that cannot be read; return its UID."""
    body = {"metadata": {"name": "odd"}, "spec": {"containers": [{"name": "c", "image": "example", "resources": GPU}]}}
    answer = await b.call("POST", PODS, body)
    assert answer.ok, answer.message
    await b.bind_elsewhere("odd", node)
    return str(answer.json()["metadata"]["uid"])


@pytest.mark.usefixtures("unreadable")
async def test_a_pod_that_cannot_be_read_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The token is another pod's, which was bound since."""
    async with bench(tmp_path) as b:
        await bind_odd(b, "node-a")
        theirs = await b.create("theirs", GPU, **NOWHERE)
        await b.annotate_node("node-a", {TOKEN: theirs.uid})
        await b.create("next", GPU, **ON_A)
        await b.learn()
        await b.bind_elsewhere("theirs", "node-a", allocation("node-a", (b.nodes.cards("node-a")[0].uuid, 15_000, 0)))
        caplog.clear()
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert not b.engine.state.over_capacity()  # the pods that can be read count
        assert len([text for text in caplog.messages if "default/odd" in text]) == 1
        assert not b.engine.closed_nodes


@pytest.mark.parametrize("ended", ["deleted", "read"])
async def test_a_token_of_a_pod_that_cannot_be_read_closes_the_node_until_it_is_gone(
    tmp_path: Path, ended: str, unreadable: Callable[[], None]
) -> None:
    """It may be on any card of the node."""
    async with bench(tmp_path) as b:
        token = await bind_odd(b, "node-a")
        await b.annotate_node("node-a", {TOKEN: token})
        waiting = await b.create("next", **ON_A)
        await b.create("other", nodeSelector={"kubernetes.io/hostname": "node-b"})
        await b.learn()
        assert b.submit() == 2
        await b.until(lambda: b.engine.closed_nodes)
        await b.until(lambda: b.binder.stats.bound == 1)
        await b.until(lambda: b.engine.state.reservation(waiting.uid) is None)
        assert (await b.node("node-a"))[TOKEN] == token
        b.clock.ahead += 10.0
        assert b.submit() == 0
        assert b.engine.closed_nodes.closures("node-a") == (ClosedByUnreadablePod("default/odd"),)
        await b.until(lambda: b.tells("PodUnreadable", "pod default/odd cannot be read"))
        listed = b.sent("list", "pods")
        if ended == "deleted":
            await b.call("DELETE", f"{PODS}/odd", {"gracePeriodSeconds": 0})
        else:
            unreadable()
        await b.until(lambda: not b.engine.closed_nodes)
        assert b.sent("list", "pods") > listed
        assert (b.engine.state.pod(token) is not None) is (ended == "read")
        b.clock.ahead += 10.0
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound == 2)


@pytest.mark.usefixtures("unreadable")
async def test_a_node_of_cards_without_turns_is_closed_by_a_pod_that_cannot_be_read(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=engine_of()) as b:
        half = await with_koordinator_node(b)
        token = await bind_odd(b, "k")
        await b.annotate_node("k", {TOKEN: token})
        await b.create("p", half)
        await b.learn()
        assert b.submit() == 1
        await b.until(lambda: b.engine.closed_nodes)
        await b.until(lambda: b.binder.depth == 0)
        b.clock.ahead += 10.0
        assert b.submit() == 0
        await b.call("DELETE", f"{PODS}/odd", {"gracePeriodSeconds": 0})
        await b.until(lambda: not b.engine.closed_nodes)
        b.clock.ahead += 10.0
        assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
