"""Groups that wait for several nodes at once: others pass them in lanes that they hold up, and all end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.binding.quick import QuickBench
from tests.engine.builders import asks, in_group, pod_object
from tests.engine.test_engine_preemption_whole_groups import pod_group
from tests.seeds import seeds

from vgpu_scheduler.intake import PODS

LONGEST = 40.0
_LOOPS = 40
"""Turns of the loop within which all go on that can."""


def on(node: str) -> dict[str, Any]:
    """Return the affinity of a pod that goes to one node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


class Lanes(QuickBench):
    """Nodes whose plugins serve a pod when the test says so."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes, poll_interval=0.0, node_side_timeout=LONGEST)
        self.order: list[str] = []
        """The pods that were bound, in that order."""
        self.bound_at: dict[str, float] = {}
        """When each was, in seconds."""
        self.served: set[str] = set()

    def come(self, name: str, node: str, group: str = "", size: int = 0, **more: Any) -> None:
        """Have a pod come that goes to a node."""
        notes = in_group(group, size) if group else {}
        self.api.pods[name] = pod_object(name, asks(1, 100), annotations=notes, affinity=on(node), **more)
        self.see(PODS, self.api.pods[name])

    def submit(self) -> None:
        """Have all be decided and bound that can be."""
        while decisions := self.engine.schedule_next(self.clock.monotonic()):
            if decisions[0].placement is not None:
                self.binder.submit(*decisions)

    async def turns(self, seconds: float = 0.0) -> None:
        """Let time pass, and all lanes look at who comes next."""
        self.clock.seconds += seconds
        for _ in range(_LOOPS):
            await asyncio.sleep(0)
        bound = [name for name, pod in self.api.pods.items() if pod["spec"].get("nodeName") and name not in self.order]
        self.order += sorted(bound)
        self.bound_at.update(dict.fromkeys(bound, self.clock.seconds))

    def waiting(self) -> list[str]:
        """Return the pods that are bound and not served."""
        return [name for name in self.order if name not in self.served]

    def answer(self, name: str) -> None:
        """Have the plugin of a node serve the pod that is bound there."""
        self.served.add(name)
        self.serve(name)


async def test_lower_ranks_pass_a_group_that_holds_up_their_lane() -> None:
    b = Lanes(2)
    try:
        b.come("head", "n0")
        b.submit()
        await b.turns()
        b.come("g0", "n0", "team", 2)
        b.come("g1", "n1", "team", 2)
        b.submit()
        await b.turns(1.0)
        b.come("low", "n1")
        b.submit()
        await b.turns(1.5)
        assert b.order == ["head"], "its place is kept"
        await b.turns(1.0)
        assert b.order == ["head", "low"]
        b.answer("low")
        b.come("later", "n1")
        b.submit()
        await b.turns(LONGEST / 2)
        assert b.order == ["head", "low"], "it is not passed for ever"
        b.answer("head")
        await b.turns()
        assert b.order == ["head", "low", "g0", "g1"]
        b.answer("g0")
        b.answer("g1")
        await b.turns()
        assert b.order[-1] == "later"
    finally:
        await b.binder.stop(0.0)


async def test_the_turn_at_a_node_comes_by_the_priority_of_the_group_as_in_the_queue() -> None:
    b = Lanes(1)
    b.engine.groups.observe_object(pod_group("urgent", minimum=1, priority=9))
    b.engine.groups.observe_object(pod_group("patient", minimum=1, priority=-9))
    try:
        b.come("head", "n0")
        b.submit()
        await b.turns()
        b.come("patient", "n0", priority=1000, schedulingGroup={"podGroupName": "patient"})
        b.come("alone", "n0", priority=5)
        b.submit()
        b.come("urgent", "n0", schedulingGroup={"podGroupName": "urgent"})
        b.submit()
        for served in ("head", "urgent", "alone"):
            await b.turns()
            b.answer(served)
        await b.turns()
        assert b.order == ["head", "urgent", "alone", "patient"]
    finally:
        await b.binder.stop(0.0)


async def test_a_group_passes_another_one_that_cannot_go() -> None:
    b = Lanes(3)
    try:
        b.come("head", "n0")
        b.submit()
        await b.turns()
        for group, nodes in (("one", ("n0", "n1")), ("two", ("n1", "n2"))):
            for node in nodes:
                b.come(f"{group}-{node}", node, group, 2)
        b.submit()
        await b.turns(1.0)
        assert b.order == ["head"]
        await b.turns(2.0)
        assert b.order == ["head", "two-n1", "two-n2"]
    finally:
        await b.binder.stop(0.0)


@pytest.mark.long
@pytest.mark.parametrize("part", seeds(1, 10))
async def test_groups_that_cross_and_single_pods_always_end(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        await play(random.Random(seed))


async def play(rng: random.Random) -> None:
    """Have two groups and single pods come in any order, and be served at any time; all are bound, one by one."""
    b, nodes = Lanes(3), ["n0", "n1", "n2"]
    try:
        coming = [[(f"s{number}", rng.choice(nodes), "")] for number in range(rng.randint(2, 5))]
        for group in ("one", "two"):
            places = [rng.choice(nodes) for _ in range(rng.randint(2, 4))]
            coming.append([(f"{group}-{number}", node, group) for number, node in enumerate(places)])
        rng.shuffle(coming)
        everybody = {name for pods in coming for name, _, _ in pods}
        while coming or len(b.order) < len(everybody):
            if coming and rng.random() < 0.5:
                pods = coming.pop()
                for name, node, group in pods:
                    b.come(name, node, group, len(pods))
            b.submit()
            await b.turns(rng.choice([0.0, 0.5, 3.0, 12.0]))
            for name in b.waiting():
                if rng.random() < 0.5:
                    b.answer(name)
            assert b.clock.seconds < 10_000, f"{everybody - set(b.order)} wait for ever"
            places = [b.api.pods[name]["spec"]["nodeName"] for name in b.waiting()]
            assert len(set(places)) == len(places), "two pods wait for the plugins of one node"
    finally:
        await b.binder.stop(0.0)


_NODES = 5
_CROSSING = {"one": range(3), "two": range(2, 5)}
"""Two groups, each with a pod on three fifths of the nodes."""
_SERVED_AFTER = 1.0
"""Seconds that a plugin takes."""
_SLOW, _SLOW_FOR = 2, 18.0
"""The node that both groups need, and seconds that its plugin takes once, right before they come."""
_BUSY = 0.6
"""For how much of the time it serves single pods."""
_STEP = 0.25
"""Seconds."""
_COMING = 80.0
"""Seconds for which single pods come."""


@pytest.mark.long
async def test_groups_that_cross_at_most_double_how_long_single_pods_wait() -> None:
    alone = [waited for seed in range(3) for waited in await waits(seed, {})]
    beside = [waited for seed in range(3) for waited in await waits(seed, _CROSSING)]
    assert len(alone) > 400
    assert np.quantile(alone, 0.99) < np.quantile(beside, 0.99) <= 2 * np.quantile(alone, 0.99)


async def waits(seed: int, groups: Mapping[str, Sequence[int]]) -> list[float]:
    """Return how long single pods wait on nodes that are not slow, in seconds, while groups come in between.

    The slow node is so for less than half of what its pods wait at most: for longer a group is not passed.
    """
    rng, b, came = random.Random(seed), Lanes(_NODES), dict[str, float]()
    coming = dict(groups)
    try:
        while b.clock.seconds < _COMING or len(b.order) < len(b.api.pods):
            for node in range(_NODES) if b.clock.seconds < _COMING else ():
                if rng.random() < _BUSY * _STEP / _SERVED_AFTER:
                    name = f"single-{len(came)}"
                    came[name] = b.clock.seconds
                    b.come(name, f"n{node}")
            if b.clock.seconds > _COMING / 4 and "slow" not in b.api.pods:
                b.come("slow", f"n{_SLOW}", priority=9)
            while coming and b.clock.seconds > _COMING / 4:
                group, nodes = coming.popitem()
                for node in nodes:
                    b.come(f"{group}-{node}", f"n{node}", group, len(nodes))
            b.submit()
            await b.turns(_STEP)
            for name in b.waiting():
                if b.clock.seconds >= b.bound_at[name] + (_SLOW_FOR if name == "slow" else _SERVED_AFTER):
                    b.answer(name)
                    b.engine.remove_pod(f"uid-{name}", b.clock.seconds)
            assert b.clock.seconds < 10 * _COMING, "somebody waits for ever"
        elsewhere = [name for name in came if b.api.pods[name]["spec"]["nodeName"] != f"n{_SLOW}"]
        return [b.bound_at[name] - came[name] for name in elsewhere]
    finally:
        await b.binder.stop(0.0)
