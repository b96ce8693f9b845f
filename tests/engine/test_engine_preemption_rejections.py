"""What keeps a pod from nodes although all pods of lower priority could end there: as asking node by node says."""

from __future__ import annotations

from collections import Counter

import numpy as np
from tests.engine.builders import asks, cards, node, pod
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_nominated import nominated
from tests.engine.test_engine_preemption import random_world, search
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.engine.preemption import Preemptor, VictimSearch
from vgpu_scheduler.engine.preemption.candidates import NO_VICTIMS_THERE, NOT_HELPFUL
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.order import SearchOrder
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, RejectionReason

NO_VICTIMS = "No preemption victims found for incoming pod"


def naive(engine: Engine, searching: VictimSearch, preemptor: Preemptor, found: Filtered) -> dict[RejectionReason, int]:
    """Count the nodes under each reason, each asked by itself without all pods of lower priority."""
    state, counts = engine.state, Counter[RejectionReason]()
    rows = [row for rows in searching.helpful_rows(preemptor, found) for row in rows.tolist()]
    for name in map(state.nodes.name, rows):
        known = (state.pod(held.uid) for held in state.reservations(name))
        lower = [each for each in known if each is not None and each.priority < preemptor.pod.priority]
        rejection = searching.rejection(preemptor, name, lower) if lower else NO_VICTIMS_THERE
        assert rejection is not None
        counts.update(rejection.reasons)
    counts[NOT_HELPFUL] = len(state.nodes) - len(rows)
    return counts


def filtered(engine: Engine, asked: Pod) -> tuple[Preemptor, Filtered]:
    """Return what the filters say of a pod that the engine knows."""
    pod_class = engine.algorithm.classes.of(asked)
    assert isinstance(pod_class, SchedulableClass)
    rows = engine.state.nodes.rows()
    pod_class.node.refresh(engine.state, rows)
    found = Filtered(pod_class.node, pod_class.cluster, asked, rows)
    engine.algorithm.nominated.reject(asked, pod_class.node, pod_class.cluster, found)
    return Preemptor(asked, pod_class), found


def test_each_node_says_what_it_says_without_the_pods_of_lower_priority() -> None:
    reasons = Counter[RejectionReason]()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        engine = random_world(rng)
        order = SearchOrder(engine.state, GroupDisruption(engine.state))
        for number in range(25):
            if number == 10:
                engine.state.observe_pod(nominated("first", "a", asks(1, 3000), priority=4), {})
            resources = asks(2, int(rng.choice([4000, 7900])), int(rng.choice([0, 60, 100])))
            asked = pod(f"asked{number}", resources, priority=int(rng.integers(0, 4)))
            engine.state.observe_pod(asked, {})
            preemptor, found = filtered(engine, asked)
            searching = search(engine)
            best = searching.best(preemptor, found, (), order)
            if best.victims is None and not found.candidates[preemptor.node.feasible[found.candidates]].size:
                counts = searching.rejections(preemptor, found, best, order)
                assert counts == naive(engine, searching, preemptor, found)
                assert counts == searching.rejections(preemptor, found, best, order), "what is kept says the same"
                reasons.update(counts)
            engine.remove_pod(f"p{number}", 0.0)
    assert {*NO_VICTIMS_THERE.reasons, NOT_HELPFUL, CardReason.CardInsufficientMemory} <= reasons.keys()


def test_a_pod_that_may_preempt_others_is_told_what_would_still_be_short() -> None:
    fleet = Fleet([node("a", cards("a", 1)), node("b", cards("b", 1)), node("c", cards("c", 1), unschedulable=True)])
    for name, priority, memory in (("low", 0, 1000), ("equal", 5, 7000), ("equal-too", 5, 7500)):
        fleet.come(name, priority, asks(gpumem=memory))
        fleet.decide()
    fleet.come("high", 5, asks(gpumem=4000))
    fleet.decide()
    said = fleet.last["high"].message
    assert said.endswith(
        f"preemption: 0/3 nodes are available: 1 CardInsufficientMemory, 1 {NO_VICTIMS}, 1 {NOT_HELPFUL.text}."
    )
    fleet.engine.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": False}}))
    fleet.come("plain", 5, asks(gpumem=4000))
    fleet.decide()
    assert "preemption:" not in fleet.last["plain"].message
