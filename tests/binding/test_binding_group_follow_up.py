"""What becomes of groups that run with too few pods: it is said, and their pods end where a policy says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.binding.evictor_bench import EvictionApi, EvictorBench
from tests.engine.builders import allocation, asks, cards, in_group, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.binding import EvictionAnswer, GroupFollowUp, group_follow_up
from vgpu_scheduler.intake import NODES, PODS

SAID = "group default/team has run for more than 10 s with 2 of the 3 pods that it needs"


class Bench(EvictorBench):
    """A group of three pods of which two run on a node with two cards, and the third waits for a card."""

    def __init__(self, **rules: Any) -> None:
        super().__init__()
        self.engine.policy_tracker.observe(policy("groups", {"groups": {"staleAfter": "10s", **rules}}))
        self.took: list[float] = []
        self.answers: Counter[EvictionAnswer] = Counter()
        self.follow_up = GroupFollowUp(self.context, 1.0, self.took.append, self.answers)
        self.api.nodes["n"] = node_object("n", cards("n", 2), version=2)
        self.see(NODES, self.api.nodes["n"])
        for number in range(2):
            held = allocation("n", (f"n-gpu-{number}", 8000, 0))
            self.member(f"p{number}", annotations={**in_group("team", 3), **held}, nodeName="n", started=True)
        self.member("p2")

    @property
    def ours(self) -> EvictionApi:
        return self.eviction_api

    def member(self, name: str, **more: Any) -> None:
        """Have a pod of the group come."""
        annotations = more.pop("annotations", in_group("team", 3))
        self.api.pods[name] = pod_object(name, asks(gpumem=8000), annotations=annotations, **more)
        self.see(PODS, self.api.pods[name])

    async def look(self, seconds: float) -> None:
        """Let time pass, and look."""
        self.clock.seconds += seconds
        await self.follow_up.reconcile()
        await self.reporter.flush()


@pytest.fixture
async def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: list[Bench] = []

    def make(**rules: Any) -> Bench:
        bench = Bench(**rules)
        bench.reporter.start()
        made.append(bench)
        return bench

    monkeypatch.setattr(group_follow_up, "_PACE", 0.001)
    yield make
    for bench in made:
        await bench.reporter.stop(1.0)


def stale_events(bench: Bench) -> list[str]:
    return sorted(note for reason, note in bench.ours.events if reason == "PodGroupStale")


async def test_each_pod_that_runs_says_so_once(told: Any) -> None:
    bench = told()
    await bench.look(0.0)
    await bench.look(9.0)
    assert stale_events(bench) == []
    for _ in range(3):
        await bench.look(1.0)
    assert stale_events(bench) == [SAID, SAID]
    assert bench.ours.wrote == [], "no policy says that they end"


async def test_they_end_where_a_policy_says_so(told: Any) -> None:
    bench = told(whenStale="Evict")
    await bench.look(0.0)
    await bench.look(10.0)
    await bench.look(1.0)
    assert bench.ours.wrote == ["POST p0/eviction", "POST p1/eviction"]
    assert bench.answers == {EvictionAnswer.EVICTED: 2}
    assert [note for note in stale_events(bench) if "whenStale" in note] == [
        f"evicted as a policy says (groups.whenStale): {SAID}"
    ] * 2


async def test_nobody_is_evicted_without_the_setting_preemption(told: Any) -> None:
    bench = told(whenStale="Evict")
    bench.engine.preemption = False
    await bench.look(0.0)
    await bench.look(10.0)
    assert stale_events(bench) == [SAID, SAID]
    assert bench.ours.wrote == []


async def test_a_leader_whose_lease_is_late_evicts_nobody(told: Any) -> None:
    bench = told(whenStale="Evict")
    await bench.look(0.0)
    bench.leads = False
    await bench.look(10.0)
    assert bench.ours.wrote == []
    bench.leads = True
    await bench.look(1.0)
    assert len(bench.ours.wrote) == 2


async def test_it_is_asked_again_before_each_eviction_whether_the_group_is_stale(told: Any) -> None:
    bench = told(whenStale="Evict")
    await bench.look(0.0)
    bench.ours.on_write = lambda _: bench.engine.remove_pod("uid-p2", bench.clock.seconds)
    await bench.look(10.0)
    assert bench.ours.wrote == ["POST p0/eviction"], "nobody waits any more to start together with the others"


@pytest.mark.parametrize(("status", "wait"), [(429, 30.0), (403, 60.0), (500, 1.0), (400, 60.0)])
async def test_a_refused_eviction_is_tried_again_later(told: Any, status: int, wait: float) -> None:
    bench = told(whenStale="Evict")
    bench.ours.retry_after = 30.0 if status == 429 else None
    bench.ours.refusals.extend([status, status])
    await bench.look(0.0)
    await bench.look(10.0)
    asked = len(bench.ours.wrote)
    assert asked == (1 if status == 403 else 2), "a right that is missing is missing for all"
    why = [note for note in stale_events(bench) if note.startswith("not evicted, although a policy says so")]
    assert len(why) == 2, "each pod says why it is still there"
    bench.ours.refusals.clear()
    await bench.look(wait - 0.5)
    assert len(bench.ours.wrote) == asked
    await bench.look(0.5)
    assert len(bench.ours.wrote) == asked + 2


async def test_how_long_a_group_took_is_recorded(told: Any) -> None:
    bench = told()
    await bench.look(0.0)
    held = allocation("n", ("n-gpu-0", 0, 0))
    bench.member("p2", version=5, annotations={**in_group("team", 3), **held}, nodeName="n")
    await bench.look(7.0)
    assert bench.took == [7.0]
    assert bench.engine.group_progress.waiting == 0


async def test_it_looks_again_whatever_happens(told: Any, caplog: pytest.LogCaptureFixture) -> None:
    bench = told()
    looked = bench.engine.group_progress.update
    bench.engine.group_progress.update = lambda _: 1 / 0
    task = asyncio.create_task(bench.follow_up.run())
    while not caplog.records:
        await asyncio.sleep(0)
    bench.engine.group_progress.update = lambda now: (bench.took.append(-1.0), looked(now))[1]
    while not bench.took:
        await asyncio.sleep(0)
    task.cancel()
