"""A bind takes the steps of its table, and each of them is reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.binding.quick import QuickBench
from tests.engine.builders import asks, pod

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import HookPoint, bind_tasks, sender
from vgpu_scheduler.binding.bind_tasks import TRANSITIONS, BindState, BindStateError, checked
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.volumes import VolumeBinder, VolumeError
from vgpu_scheduler.intake import NODES, PODS
from vgpu_scheduler.model import VolumePlan

Steps = set[tuple[BindState, BindState]]
Story = Callable[[pytest.MonkeyPatch], Awaitable[None]]

D, Q, C, K, L = (
    BindState.DECIDED, BindState.QUEUED, BindState.COMMITTED, BindState.CHECKED, BindState.LOCKED,
)  # fmt: skip
S, DOUBT, F, B, G, M = (
    BindState.SENT, BindState.IN_DOUBT, BindState.FAILED, BindState.BOUND, BindState.UNRESERVED, BindState.MOVED,
)  # fmt: skip
GPU, PLAIN = asks(1, 1000), asks(0, cpu="1m")
ON_N0 = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}


def cordon(bench: QuickBench, name: str) -> None:
    bench.api.nodes[name]["spec"]["unschedulable"] = True
    bench.see(NODES, bench.api.nodes[name])


async def plain(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench()
    bench.binder.submit(bench.decide("p", PLAIN))
    await bench.until(lambda: bench.binder.stats.bound)
    await bench.binder.stop(0.0)


async def with_a_lock(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench()
    bench.binder.submit(bench.decide("p", GPU))
    await bench.until(lambda: bench.binder.stats.bound)
    bench.serve("p")
    await bench.until(lambda: not bench.binder._tasks)


async def volumes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise VolumeError("no")

    monkeypatch.setattr(VolumeBinder, "bind", fail)
    bench = QuickBench()
    decision = bench.decide("p", GPU)
    assert decision.placement is not None
    planned = replace(decision.placement, volumes=VolumePlan(provisioned=("default/c",)))
    bench.binder.submit(replace(decision, placement=planned))
    await bench.until(lambda: bench.binder.stats.failed)


async def stopped_in_line(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench(1)
    for name in ("first", "second"):
        bench.binder.submit(bench.decide(name, GPU))
    await bench.until(lambda: bench.binder.stats.bound)  # the first one, which nobody serves
    await bench.binder.stop(0.0)
    assert bench.engine.state.reservation("uid-second") is None


async def slow_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.lanes.SLOW_AFTER", 0.0)
    bench = QuickBench(1, poll_interval=0.0)
    for name in ("first", "second"):
        bench.binder.submit(bench.decide(name, GPU))
    bench.see(NODES, QuickBench(2).api.nodes["n1"])
    await bench.until(lambda: bench.binder.stats.moved)
    await bench.binder.stop(0.0)


async def does_not_hold(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench(1)
    bench.binder.submit(bench.decide("p", GPU))
    cordon(bench, "n0")
    await bench.until(lambda: bench.engine.state.reservation("uid-p") is None)


async def slow_before_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.lanes.SLOW_AFTER", 0.0)
    monkeypatch.setattr(NodeLocker, "pod_awaiting_plugin", lambda _, node, __: pod("x") if node == "n0" else None)
    bench = QuickBench(2, poll_interval=0.0)
    bench.binder.submit(bench.decide("p", GPU))
    await bench.until(lambda: bench.binder.stats.moved)
    await bench.binder.stop(0.0)


async def lease_is_lost(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench(1, at_point=lambda _: setattr(bench, "leads", False))
    bench.binder.submit(bench.decide("p", GPU))
    await bench.until(lambda: bench.engine.state.reservation("uid-p") is None)


async def slow_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.lanes.SLOW_AFTER", 0.0)

    async def held(*_: object) -> tuple[None, bool]:
        return None, True

    monkeypatch.setattr(NodeLocker, "try_take", held)
    bench = QuickBench(2, poll_interval=0.0)
    bench.binder.submit(bench.decide("p", GPU))
    await bench.until(lambda: bench.binder.stats.moved)
    await bench.binder.stop(0.0)


async def does_not_hold_with_the_lock(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench(1, at_point=lambda step: cordon(bench, "n0") if step is HookPoint.LOCKED else None)
    bench.binder.submit(bench.decide("p", GPU))
    await bench.until(lambda: bench.engine.state.reservation("uid-p") is None)


async def refused(_: pytest.MonkeyPatch) -> None:
    bench = QuickBench(1)
    bench.api.answers.append(422)
    bench.binder.submit(bench.decide("p", PLAIN))
    await bench.until(lambda: bench.binder.stats.failed)
    await bench.until(lambda: not bench.binder._tasks)


async def in_doubt(monkeypatch: pytest.MonkeyPatch, *, bound: bool) -> None:
    monkeypatch.setattr(sender, "_RETRY", 0.0)
    bench = QuickBench(1, timeout=0.0, poll_interval=0.0)
    bench.api.answers.append(0)
    bench.api.readable = False
    bench.binder.submit(bench.decide("p", PLAIN))
    held = bench.engine.state.reservation("uid-p")
    assert held is not None
    await bench.until(lambda: not bench.binder._tasks)
    found: dict[str, Any] = bench.api.pods["p"]
    found["spec"]["nodeName"] = "n0" if bound else "n1"
    bench.see(PODS, found)
    await bench.until(lambda: bench.binder.stats.bound + bench.binder.stats.failed)
    await bench.until(lambda: not bench.binder._in_doubt._looks)


async def in_doubt_and_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    await in_doubt(monkeypatch, bound=True)


async def in_doubt_and_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    await in_doubt(monkeypatch, bound=False)


STORIES: dict[Story, list[tuple[BindState, BindState]]] = {
    plain: [(D, Q), (Q, C), (C, K), (K, S), (S, B)],
    with_a_lock: [(D, Q), (Q, C), (C, K), (K, L), (L, S), (S, B)],
    volumes_fail: [(D, G)],
    stopped_in_line: [(D, Q), (D, Q), (Q, C), (C, K), (K, L), (L, S), (S, B), (Q, G)],
    slow_in_line: [(Q, M)],
    does_not_hold: [(D, Q), (Q, C), (C, G)],
    slow_before_its_check: [(D, Q), (Q, C), (C, M)],
    lease_is_lost: [(D, Q), (Q, C), (C, K), (K, G)],
    slow_lock: [(D, Q), (Q, C), (C, K), (K, M)],
    does_not_hold_with_the_lock: [(D, Q), (Q, C), (C, K), (K, L), (L, G)],
    refused: [(D, Q), (Q, C), (C, K), (K, S), (S, F), (F, G)],
    in_doubt_and_bound: [(D, Q), (Q, C), (C, K), (K, S), (S, DOUBT), (DOUBT, B)],
    in_doubt_and_elsewhere: [(D, Q), (Q, C), (C, K), (K, S), (S, DOUBT), (DOUBT, F), (F, G)],
}
"""What happens to a pod, and the steps that it takes then, in their order; of others there may be more."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_a_bind_takes_the_steps_of_its_story(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[BindState, BindState]] = []

    def noted(now: BindState, then: BindState) -> BindState:
        taken.append((now, then))
        return checked(now, then)

    monkeypatch.setattr(bind_tasks, "checked", noted)
    await story(monkeypatch)
    expected = STORIES[story]
    assert taken[: len(expected)] == expected or set(expected) <= set(taken), taken
    assert taken[-1][1] in {B, G, M} or story in {slow_in_line, slow_before_its_check, slow_lock}, taken


def test_every_step_of_the_table_is_in_a_story_and_no_other_one() -> None:
    assert {step for steps in STORIES.values() for step in steps} == TRANSITIONS.keys()


@pytest.mark.parametrize(("now", "then"), sorted(product(BindState, repeat=2), key=str))
def test_what_is_not_in_the_table_raises(now: BindState, then: BindState) -> None:
    if (now, then) in TRANSITIONS:
        assert checked(now, then) is then
    else:
        with pytest.raises(BindStateError, match=f"{now.value} cannot become {then.value}"):
            checked(now, then)


def test_what_is_over_stays_over() -> None:
    assert {now for now, _ in TRANSITIONS} == {D, Q, C, K, L, S, DOUBT, F}


async def test_a_pod_is_unsent_until_its_binding_may_be_carried_out() -> None:
    bench = QuickBench(1)
    for name in ("first", "second"):
        bench.binder.submit(bench.decide(name, GPU))
    await bench.until(lambda: bench.binder.stats.bound)
    assert [bench.binder.is_unsent(f"uid-{name}") for name in ("first", "second", "third")] == [False, True, False]
    item = bench.binder._binds["uid-second"]
    for state in BindState:
        item.state = state
        assert bench.binder.is_unsent("uid-second") is (state in {D, Q, C, K, L, F}), state
    item.state = Q
    await bench.binder.stop(0.0)


async def test_a_pod_whose_binding_failed_does_not_leave_while_it_gives_back_what_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b = QuickBench()
    monkeypatch.setattr(b.api, "_bind", lambda _: ApiResponse(429, b"{}", retry_after=700.0))
    decision = b.decide("p")
    b.binder.submit(decision)
    await b.ended.wait()
    assert not b.binder.cancel_unsent(decision.uid)
    await b.until(lambda: b.engine.state.reservation(decision.uid) is None)
    now = b.clock.monotonic()
    due = b.engine.queue.flush_due(now)
    assert due is not None
    assert due >= now + 700.0, "the pause that the answer asked for is kept"
    await b.binder.stop(1.0)
