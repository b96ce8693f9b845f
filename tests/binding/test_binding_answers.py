"""What the answers to a Binding mean, on a server that gives each of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.binding.bench import AGENT, LOCK, PODS, Bench, bench
from tests.engine.builders import allocation, asks, pod_object

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import BindingAnswer, HookPoint, binding_result
from vgpu_scheduler.dialects.hami import format_lock
from vgpu_scheduler.engine import QueueName
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import LAST_ALLOCATED, allocated_pod
from vgpu_scheduler.state import Phase

ON_A = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}}


def lock_of(name: str) -> str:
    """Return the lock that a pod has taken a second ago."""
    return format_lock(datetime.now(UTC) - timedelta(seconds=1), "default", name)


@pytest.mark.parametrize(
    ("status", "answer", "retry_after"),
    [
        (201, BindingAnswer.BOUND, 0.0),
        (404, BindingAnswer.GONE, 0.0),
        (409, BindingAnswer.CONFLICT, 0.0),
        (429, BindingAnswer.THROTTLED, 1.0),
        (400, BindingAnswer.REFUSED, 0.0),
        (401, BindingAnswer.REFUSED, 0.0),
        (403, BindingAnswer.REFUSED, 0.0),
        (422, BindingAnswer.REFUSED, 0.0),
        (500, BindingAnswer.UNKNOWN, 0.0),
        (503, BindingAnswer.UNKNOWN, 0.0),
        (504, BindingAnswer.UNKNOWN, 0.0),
    ],
)
def test_the_table(status: int, answer: BindingAnswer, retry_after: float) -> None:
    result = binding_result(ApiResponse(status, json.dumps({"message": "why"}).encode()))
    assert (result.answer, result.retry_after) == (answer, retry_after)
    assert result.message == ("" if status == 201 else f"{status}: why")


def test_the_server_says_when_to_come_again() -> None:
    assert binding_result(ApiResponse(429, b"busy", retry_after=7.0)).retry_after == 7.0


def test_no_answer_at_all() -> None:
    assert binding_result(None).answer is BindingAnswer.UNKNOWN


# On a server ---------------------------------------------------------------------------------------------------------


async def send(bench: Bench) -> str:
    """Decide the pod and wait for the end of its bind; return its UID."""
    [uid] = [pod.uid for pod in bench.engine.state.pods()]
    assert bench.submit() == 1
    await bench.until(lambda: not bench.engine.state.in_flight(uid))  # settled, whatever it came to
    return uid


async def unlocked(bench: Bench, node: str = "node-a") -> bool:
    return LOCK not in await bench.node(node)


async def test_bound(tmp_path: Path) -> None:
    async with bench(tmp_path, timeout=30.0) as b:  # a Binding without an answer in time is followed by a look
        await b.create("p")
        await b.learn()
        before = b.sent("list", "pods") + b.sent("list", "nodes")
        uid = await send(b)
        held = b.engine.state.reservation(uid)
        assert held is not None
        assert held.phase is Phase.CONFIRMED
        assert uid not in b.engine.queue
        pod = await b.read("p")
        assert pod["spec"]["nodeName"] == "node-a"
        notes = pod["metadata"]["annotations"]
        [(card, used)] = b.engine.state.ledger()["node-a"].items()
        assert used == (1, 1000, 0)
        assert notes["hami.io/vgpu-devices-allocated"] == f"{card},NVIDIA,1000,0:;"
        assert notes["hami.io/vgpu-devices-to-allocate"] == f"{card},NVIDIA,1000,0:;"
        assert (notes["hami.io/vgpu-node"], notes["hami.io/bind-phase"]) == ("node-a", "allocating")
        assert json.loads(notes["vgpu-scheduler.io/decision"])["nodes"] == 2
        assert pod["metadata"]["labels"]["hami.io/vgpu-node"] == "node-a"
        node = await b.node("node-a")
        assert node[LOCK].endswith(",default,p")
        assert allocated_pod(node[LAST_ALLOCATED]) == uid
        assert await b.events() == [("Scheduled", "Successfully assigned default/p to node-a")]
        assert [step for step, _ in b.steps] == list(HookPoint)
        # Two writes, one event, no read.
        assert (b.sent("patch", "nodes"), b.sent("create", "pods/binding"), b.sent("create", "events")) == (1, 1, 1)
        assert b.sent("list", "pods") + b.sent("list", "nodes") == before
        assert (b.sent("get", ""), b.sent("update", ""), b.sent("patch", "pods")) == (0, 0, 0)


async def test_pods_without_devices_need_no_lock(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.create("p", asks(0, cpu="1"))
        await b.learn()
        await send(b)
        pod = await b.read("p")
        assert pod["spec"]["nodeName"] == "node-a"
        assert set(pod["metadata"].get("annotations", {})) == {"vgpu-scheduler.io/decision"}
        assert b.sent("patch", "nodes") == 0


async def test_label_first(tmp_path: Path) -> None:
    async with bench(tmp_path, label_first=True) as b:
        await b.create("p")
        await b.learn()
        await send(b)
        assert (await b.read("p"))["metadata"]["labels"]["hami.io/vgpu-node"] == "node-a"
        assert (b.sent("patch", "pods/status"), b.sent("create", "pods/binding")) == (1, 1)


async def test_the_lease_is_asked_again_between_the_label_and_the_binding(tmp_path: Path) -> None:
    async with bench(tmp_path, label_first=True) as b:
        made = await b.create("p")
        await b.learn()
        b.cluster.inject(Fault(verb="patch", resource="pods/status", delay=0.2))
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.LOCKED, "p") in b.steps)
        b.leads = False  # while the label is written
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        assert (b.sent("patch", "pods/status"), b.sent("create", "pods/binding")) == (1, 0)


async def test_a_label_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async with bench(tmp_path, label_first=True) as b:
        made = await b.create("p")
        await b.learn()
        slow = b.cluster.inject(Fault(verb="patch", resource="pods/status", delay=60.0))
        assert b.submit() == 1
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF, within=50.0)
        assert b.sent("create", "pods/binding") == 0
        b.cluster.heal(slow)
        await b.until(lambda: b.submit() == 1)
        await b.until(lambda: b.binder.stats.bound)


@pytest.mark.parametrize("fault", [{"status": 503}, {"drop": True}, {"lose_answer": True}], ids=str)
async def test_a_label_without_a_clear_answer_leaves_no_doubt_that_the_pod_is_not_bound(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    async with bench(tmp_path, label_first=True) as b:
        made = await b.create("p")
        await b.learn()
        broken = b.cluster.inject(Fault(verb="patch", resource="pods/status", **fault))
        assert b.submit() == 1
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        assert (b.sent("create", "pods/binding"), b.sent("get", "pods"), b.sent("list", "pods")) == (0, 0, 1)
        assert b.engine.state.ledger() == {}
        await b.until(lambda: unlocked(b))
        b.cluster.heal(broken)
        await b.until(lambda: (b.submit(), b.binder.stats.bound)[1])
        assert (await b.read("p"))["metadata"]["labels"]["hami.io/vgpu-node"] == "node-a"


async def test_404_the_pod_is_gone(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.create("p")
        await b.learn()
        await b.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        uid = await send(b)
        assert b.engine.state.was_removed(uid)
        assert uid not in b.engine.queue
        assert b.engine.state.ledger() == {}
        await b.until(lambda: unlocked(b))


async def test_409_another_pod_of_that_name(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        old = await b.create("p")
        await b.learn()
        await b.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        new = await b.create("p")
        assert b.submit() == 1
        await b.until(lambda: b.engine.queue.place(old.uid) is QueueName.BACKOFF)
        assert "nodeName" not in (await b.read("p"))["spec"]
        assert b.engine.queue.place(new.uid) is QueueName.ACTIVE  # the answer made it known
        assert b.engine.state.ledger() == {}
        assert await unlocked(b)


async def test_409_bound_elsewhere(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.create("p")
        await b.learn()
        await b.bind_elsewhere("p", "node-b")
        uid = await send(b)
        await b.until(lambda: unlocked(b))
        await b.until(lambda: not b.engine.state.in_flight(uid))
        held = b.engine.state.reservation(uid)
        assert held is not None
        assert (held.node, held.phase) == ("node-b", Phase.BOUND)
        assert uid not in b.engine.queue


async def test_409_bound_there_by_an_earlier_leader(tmp_path: Path) -> None:
    """Its lock is taken again here, but its Binding came first: the node side needs the lock to find the pod."""
    async with bench(tmp_path) as b:
        made = await b.create("p", **ON_A)
        await b.annotate_node("node-a", {LOCK: lock_of("p"), LAST_ALLOCATED: made.uid})
        await b.learn()
        card = b.nodes.cards("node-a")[0].uuid
        await b.bind_elsewhere("p", "node-a", allocation("node-a", (card, 1000, 10)))
        assert b.submit() == 1
        await b.until(lambda: not b.engine.state.in_flight(made.uid))
        held = b.engine.state.reservation(made.uid)
        assert held is not None
        assert (held.node, held.phase) == ("node-a", Phase.BOUND)
        await b.binder.stop(1.0)
        assert (await b.node("node-a"))[LOCK].endswith(",default,p")


async def test_409_gated(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.learn()
        gated = await b.create("p", schedulingGates=[{"name": "hold"}])
        without = pod_object("p", uid=gated.uid, version=gated.resource_version - 1)
        b.engine.observe_pod(decode_pod(without), 0.0)
        await send(b)
        await b.until(lambda: b.engine.unbound_pods.gated == 1)
        assert gated.uid not in b.engine.queue
        assert b.engine.state.ledger() == {}
        await b.until(lambda: unlocked(b))


async def test_409_being_deleted(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        finalizer = {"metadata": {"finalizers": ["example.com/wait"]}}
        await b.call("PATCH", f"{PODS}/p", finalizer, content_type="application/merge-patch+json")
        await b.learn()
        await b.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await send(b)
        await b.until(lambda: made.uid not in b.engine.queue)
        known = b.engine.state.pod(made.uid)
        assert known is not None
        assert known.deleting
        assert b.engine.state.ledger() == {}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(resource="pods/binding", status=429, times=1),
        Fault(resource="pods/binding", status=500, times=1),
        Fault(resource="pods/binding", status=503, times=1),
        Fault(resource="pods/binding", drop=True, times=1),
        Fault(resource="pods/binding", delay=3.0, times=1),  # far beyond the timeout: 504
    ],
    ids=["429", "500", "503", "dropped", "slow"],
)
@pytest.mark.parametrize("gpu", [1, 0], ids=["locked", "unlocked"])
async def test_not_carried_out_is_tried_again(tmp_path: Path, fault: Fault, gpu: int) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", asks(gpu, cpu="1"))
        await b.learn()
        b.cluster.inject(fault)
        assert b.submit() == 1
        if gpu:  # whoever else wants the node does not wait meanwhile
            await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
            assert b.engine.state.ledger() == {}
            assert await unlocked(b)
            b.clock.ahead += 10.0
            assert b.submit() == 1
        await b.until(lambda: b.binder.stats.bound)
        assert (await b.read("p"))["spec"]["nodeName"] == "node-a"
        assert fault.times == 0


@pytest.mark.parametrize("gpu", [1, 0], ids=["locked", "unlocked"])
async def test_carried_out_but_the_answer_was_lost(tmp_path: Path, gpu: int) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p", asks(gpu, cpu="1"))
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", lose_answer=True, times=1))
        uid = await send(b)
        assert (b.binder.stats.bound, b.binder.stats.failed) == (1, 0)
        held = b.engine.state.reservation(uid)
        assert held is not None
        assert held.phase is Phase.BOUND
        assert made.uid not in b.engine.queue
        assert b.sent("get", "pods") == 1
        assert await unlocked(b) is not bool(gpu)  # it is the node side's to release


async def test_nobody_can_tell_until_the_server_is_back(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", lose_answer=True, times=1))
        silence = [
            b.cluster.inject(Fault(verb=verb, resource="pods", user_agent=AGENT, status=503))
            for verb in ("get", "list")
        ]
        assert b.submit() == 1
        await b.until(lambda: b.sent("get", "pods") >= 2)
        held = b.engine.state.reservation(made.uid)
        assert held is not None
        assert held.phase is Phase.ASSUMED  # kept: it may be bound
        for fault in silence:
            b.cluster.heal(fault)
        await b.until(lambda: b.binder.stats.bound)


async def test_bound_and_deleted_before_anybody_could_tell(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", lose_answer=True, times=1))
        assert b.submit() == 1
        await b.until(lambda: (HookPoint.ANSWERED, "p") in b.steps)
        await b.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await b.until(lambda: b.engine.state.was_removed(made.uid))
        await b.until(lambda: unlocked(b))
        assert b.engine.state.ledger() == {}


async def test_refused_for_good_is_reported(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        made = await b.create("p")
        await b.learn()
        b.cluster.inject(Fault(resource="pods/binding", status=403, times=1))
        await send(b)
        await b.until(lambda: b.engine.queue.place(made.uid) is QueueName.BACKOFF)
        await b.until(lambda: b.tells("BindingFailed", "403: fault injected"))
        assert await unlocked(b)


def break_after_binding(b: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something unforeseen happen to a pod when its Binding was carried out."""
    request = b.api.request

    async def breaks(method: str, path: str, *args: Any, **kwargs: Any) -> ApiResponse:
        answer = await request(method, path, *args, **kwargs)
        if path.endswith(f"/{name}/binding"):
            raise RuntimeError("odd")
        return answer

    monkeypatch.setattr(b.api, "request", breaks)


async def test_a_bind_that_breaks_off_is_followed_up_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.create("bad")
        await b.create("good")
        await b.learn()
        b.watch()
        break_after_binding(b, "bad", monkeypatch)
        assert b.submit() == 2
        await b.until(lambda: b.binder.stats.bound == 2)
        await b.nodes.until(lambda: b.nodes.counts["running"] == 2)
        assert not b.nodes.violations


async def test_who_waited_behind_a_bind_that_broke_beyond_repair_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as b:
        for name in ("bad", "good"):
            await b.create(name, nodeSelector={"kubernetes.io/hostname": "node-a"})
        await b.learn()

        def breaks(_: str) -> NoReturn:
            raise RuntimeError("odd")

        break_after_binding(b, "bad", monkeypatch)
        monkeypatch.setattr(b.engine, "binding_succeeded", breaks)
        assert b.submit() == 2
        bad, good = sorted(b.engine.state.pods(), key=lambda pod: pod.name)
        await b.until(lambda: b.engine.queue.place(good.uid) is QueueName.BACKOFF)
        assert b.wake.is_set()
        assert not b.engine.state.in_flight(good.uid)
        held = b.engine.state.reservation(bad.uid)
        assert held is not None  # what was bound stays charged
        assert held.phase is Phase.BOUND


async def test_attempts_and_answers_are_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.nodes.start()
        await b.create("p")
        await b.learn()
        b.watch()
        b.cluster.inject(Fault(resource="pods/binding", status=403, times=1))
        b.submit()
        await b.until(lambda: len(b.heard) == 2)
        b.clock.ahead += 10.0
        await b.until(lambda: b.submit() or len(b.heard) == 4)
        await b.until(lambda: len(b.heard) == 4)
        assert [told[:3] for told in b.heard] == [
            ("answer", "p", "refused"),
            ("attempt", "p", "refused"),
            ("answer", "p", "bound"),
            ("attempt", "p", "bound"),
        ]
        assert all(0 < seconds < 5 for *_, seconds in b.heard)
        refused, bound = b.attempts
        assert (refused.attempts, bound.attempts, bound.chosen_node) == (1, 2, "node-a")
        assert refused.queued_at == bound.queued_at < bound.ended_at - 10
        for told in b.attempts:
            assert told.queued_at <= told.decided_at <= told.lane_head_at <= told.sent_at <= told.ended_at
