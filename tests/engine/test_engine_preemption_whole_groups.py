"""Groups that end whole, as their PodGroups say: all of their pods are victims, or none, and all of them count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import asks, cards, node, pod, pod_object
from tests.engine.preemption_fleet import CREATED, Fleet
from tests.engine.test_engine_preemption import budget
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, PodGroup, decode_pod, violating_budgets
from vgpu_scheduler.state import Phase, Reservation

KIND = "PodGroup.v1alpha2.scheduling.k8s.io"


def pod_group(
    name: str, *, priority: int | None = None, whole: bool = True, minimum: int = 0, version: int = 1
) -> PodGroup:
    """Return a PodGroup of Kubernetes; without a minimum each of its pods is placed by itself."""
    return PodGroup(
        kind=KIND,
        uid=f"uid-group-{name}",
        namespace="default",
        name=name,
        resource_version=version,
        minimum=minimum,
        priority=priority,
        disrupted_whole=whole,
    )


def runs(fleet: Fleet, name: str, priority: int, where: str, group: str = "", memory: int = 8000, **more: Any) -> None:
    """Have a pod run on a node, perhaps as one of a group."""
    of_group = {"schedulingGroup": {"podGroupName": group}} if group else {}
    fleet.come(name, priority, asks(gpumem=memory), nodeSelector={"name": where}, **of_group, **more)
    fleet.decide()
    assert fleet.node_of(name) == where, fleet.last[name].message


def named(*names: str, gpus: int = 1, **rules: Any) -> Fleet:
    """Return a fleet of nodes whose labels have their names."""
    nodes = [node(name, cards(name, gpus), labels={"name": name}) for name in names]
    return Fleet(nodes, preemption={"mayPreempt": True, **rules})


def preempts(fleet: Fleet, name: str = "high", priority: int = 9, memory: int = 8000) -> list[str]:
    """Return the victims of a pod that comes."""
    fleet.come(name, priority, asks(gpumem=memory))
    fleet.decide()
    found = fleet.last[name].preemption
    return [] if found is None else [victim.pod.partition("/")[2] for victim in found.victims]


def test_all_pods_of_a_group_that_ends_whole_are_victims_wherever_they_are() -> None:
    fleet = named("a", "b")
    fleet.engine.groups.observe_object(pod_group("job"))
    runs(fleet, "job-0", 0, "a", "job")
    runs(fleet, "job-1", 0, "b", "job", memory=4000)
    assert preempts(fleet) == ["job-0", "job-1"]
    found = fleet.last["high"].preemption
    assert found is not None
    assert [(victim.node, victim.group) for victim in found.victims] == [("a", "default/job"), ("b", "default/job")]


def test_pods_of_a_group_that_does_not_end_whole_end_one_by_one() -> None:
    fleet = named("a", "b")
    fleet.engine.groups.observe_object(pod_group("job", whole=False))
    runs(fleet, "job-0", 0, "a", "job")
    runs(fleet, "job-1", 0, "b", "job")
    assert preempts(fleet) == ["job-0"]


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize(("minimum", "victims"), [(0, ["job-0"]), (1, ["job-0"]), (2, [])])
def test_nobody_ends_for_a_pod_of_a_group_that_would_be_too_small_then(
    minimum: int, victims: list[str], others: int
) -> None:
    fleet = named("a", "b")
    fleet.engine.groups.observe_object(pod_group("job", whole=False))
    runs(fleet, "job-0", 0, "a", "job")
    runs(fleet, "other", 9, "b")
    fleet.engine.groups.observe_object(pod_group("job", whole=False, minimum=minimum, version=2))
    for number in range(others):
        fleet.come(f"wide-{number}", 0, asks(gpumem=80000), schedulingGroup={"podGroupName": "job"})
    fleet.come("late", 9, asks(gpumem=8000), schedulingGroup={"podGroupName": "job"})
    fleet.decide()
    found = fleet.last["late"].preemption
    assert [victim.pod.partition("/")[2] for victim in (found.victims if found else ())] == victims


def test_a_pod_by_itself_ends_where_the_whole_group_would_cost_more() -> None:
    fleet = named("a", "b", "c")
    fleet.engine.groups.observe_object(pod_group("job"))
    runs(fleet, "job-0", 0, "a", "job")
    runs(fleet, "job-1", 0, "b", "job")
    runs(fleet, "alone", 0, "c")
    assert preempts(fleet) == ["alone"]


@pytest.mark.parametrize("gpus", [1, 2])
def test_pods_of_a_group_on_one_card_are_taken_off_and_put_back_together(gpus: int) -> None:
    fleet = named("a", gpus=gpus)
    fleet.engine.groups.observe_object(pod_group("job"))
    for card in range(gpus):
        runs(fleet, f"job-{card}", 0, "a", "job", memory=3000)
    for card in range(gpus):
        runs(fleet, f"alone-{card}", 1, "a", memory=5000)
    fleet.come("high", 9, asks(gpu=gpus, gpumem=3000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert sorted(victim.pod for victim in found.victims) == [f"default/job-{card}" for card in range(gpus)]


@pytest.mark.parametrize(("ends", "victims"), [("whole", []), ("one by one", ["job-0"])])
def test_a_group_of_which_one_may_not_be_a_victim_is_none(ends: str, victims: list[str]) -> None:
    fleet = named("a", "b")
    fleet.engine.groups.observe_object(pod_group("job", whole=ends == "whole"))
    runs(fleet, "job-0", 0, "a", "job", memory=8000)
    runs(fleet, "job-1", 9, "b", "job", memory=8000)
    assert preempts(fleet, priority=5) == victims


def test_the_priority_of_a_group_counts_where_its_object_says_one() -> None:
    fleet = named("a", "b")
    fleet.engine.groups.observe_object(pod_group("important", priority=50, whole=False))
    fleet.engine.groups.observe_object(pod_group("sweep", priority=1, whole=False))
    runs(fleet, "important", 0, "a", "important")
    runs(fleet, "sweep", 1000, "b", "sweep")
    assert preempts(fleet, priority=60) == ["sweep"]
    found = fleet.last["high"].preemption
    assert found is not None
    assert [victim.priority for victim in found.victims] == [1]


def test_a_group_that_gets_another_priority_is_looked_at_anew() -> None:
    fleet = named("a")
    fleet.engine.groups.observe_object(pod_group("job", priority=50))
    runs(fleet, "job-0", 0, "a", "job")
    assert preempts(fleet) == []
    fleet.engine.groups.observe_object(pod_group("job", priority=5, version=2))
    assert preempts(fleet, "later") == ["job-0"]


def test_evictions_of_an_hour_count_all_pods_of_the_group() -> None:
    fleet = named("a", "b", perHour=1)
    fleet.engine.groups.observe_object(pod_group("job"))
    runs(fleet, "job-0", 0, "a", "job")
    runs(fleet, "job-1", 0, "b", "job")
    assert preempts(fleet) == []
    assert "allows 1 more eviction within the hour, and 2 are needed." in fleet.last["high"].message


def test_the_budgets_of_all_pods_of_a_group_count() -> None:
    fleet = named("a", "b")
    fleet.engine.groups.observe_object(pod_group("job"))
    runs(fleet, "job-0", 0, "a", "job")
    runs(fleet, "job-1", 0, "b", "job", labels={"app": "kept"})
    fleet.engine.budgets.observe(budget("kept", 0))
    assert preempts(fleet) == []
    assert "PodDisruptionBudgets protect the victims" in fleet.last["high"].message


def test_a_pod_does_not_end_the_group_that_it_belongs_to() -> None:
    fleet = named("a")
    fleet.engine.groups.observe_object(pod_group("job"))
    runs(fleet, "job-0", 0, "a", "job")
    fleet.come("job-1", 9, asks(gpumem=8000), schedulingGroup={"podGroupName": "job"})
    fleet.decide()
    assert fleet.last["job-1"].preemption is None


def test_a_leader_that_takes_over_has_the_rest_of_a_group_end_of_which_some_end() -> None:
    fleet = named("a", "b", "c")
    fleet.engine.groups.observe_object(pod_group("job"))
    for name, where in (("job-0", "a"), ("job-1", "b"), ("job-2", "c")):
        runs(fleet, name, 0, where, "job")
    fleet.come("high", 9, asks(gpumem=8000))
    high, ends = fleet.objects["uid-high"], fleet.objects["uid-job-0"]
    high["metadata"]["resourceVersion"], high["status"]["nominatedNodeName"] = "800", "a"
    ends["metadata"] |= {"deletionTimestamp": CREATED, "resourceVersion": "801"}
    ends["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    for obj in (high, ends):
        fleet.engine.observe_pod(decode_pod(obj), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    found = fleet.engine.preemptions.of("uid-high")
    assert found is not None
    assert [(victim.pod, victim.group) for victim in found.victims] == [
        ("default/job-0", "default/job"),
        ("default/job-1", "default/job"),
        ("default/job-2", "default/job"),
    ]


# The naive twin ------------------------------------------------------------------------------------------------------


def crowded(rng: np.random.Generator) -> Engine:
    """Return an engine whose pods belong to a few groups, some of which end whole, and some to none."""
    nodes = [node(name, cards(name, int(rng.integers(1, 3)))) for name in "abc"]
    engine = Fleet(nodes, preemption={"mayPreempt": False}).engine
    for group in ("whole", "other"):
        told = int(rng.integers(0, 4)) if rng.random() < 0.5 else None
        engine.groups.observe_object(pod_group(group, priority=told, whole=group == "whole" or rng.random() < 0.5))
    for number in range(9):
        group = str(rng.choice(["whole", "other", ""]))
        of_group: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}} if group else {}
        labels = {"app": str(rng.choice(["web", "db"]))}
        resources = asks(int(rng.choice([1, 1, 2])), int(rng.choice([2000, 4000, 8000])))
        made = pod_object(f"p{number}", resources, priority=int(rng.integers(0, 4)), labels=labels, **of_group)
        made["status"]["startTime"] = f"2026-01-01T00:0{int(rng.integers(0, 6))}:00Z"
        engine.observe_pod(decode_pod(made), 0.0)
        decision = engine.attempt(0.0)
        if decision is not None and decision.placement is not None and rng.random() < 0.85:
            engine.binding_succeeded(decision.uid)
    return engine


def units(engine: Engine) -> list[list[tuple[Pod, int]]]:
    """Return the placed pods that end together, each with the priority that counts."""
    found: dict[str, list[tuple[Pod, int]]] = {}
    for held in engine.state.reservations():
        each = engine.state.pod(held.uid)
        assert each is not None
        told = engine.groups.stores[KIND].get(f"default/{each.pod_group}") if each.pod_group else None
        priority = each.priority if told is None or told.priority is None else told.priority
        key = each.pod_group if told is not None and told.disrupted_whole else each.uid
        found.setdefault(key, []).append((each, priority))
    return list(found.values())


def cost(engine: Engine, gone: Sequence[Sequence[tuple[Pod, int]]], budgets: Sequence[Any]) -> tuple[float, ...]:
    """Return what it costs that some pods end: those that only wait to be bound cost nothing."""
    paid = [
        (each, priority)
        for each, priority in chain.from_iterable(gone)
        if held_by(engine, each).phase is not Phase.ASSUMED
    ]
    if not paid:
        return 0, -(2**31), 0, 0, -float("inf")
    violations = len(violating_budgets([each for each, _ in paid], budgets))
    highest = max(priority for _, priority in paid)
    earliest = min(each.start_time or np.inf for each, priority in paid if priority == highest)
    return violations, highest, sum(p + 2**31 for _, p in paid), len(paid), -earliest


def held_by(engine: Engine, each: Pod) -> Reservation:
    found = engine.state.reservation(each.uid)
    assert found is not None
    return found


def cheapest(
    engine: Engine, asked: Pod, budgets: Sequence[Any]
) -> tuple[tuple[float, ...] | None, dict[str, tuple[float, ...]]]:
    """Return what the cheapest units cost without which a pod fits on some node, by all sets of units of each node."""
    costs: dict[str, tuple[float, ...]] = {}
    every = units(engine)
    lower = [unit for unit in every if all(priority < asked.priority for _, priority in unit)]
    for where in "abc":
        there = [unit for unit in lower if any(held_by(engine, each).node == where for each, _ in unit)]
        for gone in chain.from_iterable(combinations(there, size) for size in range(1, len(there) + 1)):
            uids = [each.uid for each, _ in chain.from_iterable(gone)]
            if engine.algorithm.node_fit.fits_without(asked, where, uids) is not None:
                costs[where] = min(costs.get(where, (np.inf,)), cost(engine, gone, budgets))
    return min(costs.values(), default=None), costs


WORLDS = [range(60), *(pytest.param(range(at, at + 300), marks=pytest.mark.long) for at in (1000, 1300))]


@pytest.mark.parametrize("seeds", WORLDS, ids=str)
def test_no_other_groups_and_pods_would_cost_less(seeds: range) -> None:
    """Of all sets of what ends together; where more than one card is asked for they cost no less, and end whole."""
    assert sum(whole_groups_that_end(seed) for seed in seeds) > len(seeds) // 10


def whole_groups_that_end(seed: int) -> int:
    """Compare the victims of a few pods in one world with all that could be; return how many groups end whole."""
    rng, together = np.random.default_rng(seed), 0
    engine = crowded(rng)
    budgets = [budget(app, int(rng.integers(0, 3))) for app in ("web", "db") if rng.random() < 0.4]
    for each in budgets:
        engine.budgets.observe(each)
    exceed = {"mayPreempt": True, "budgets": "Exceed", "victims": "Any"}
    engine.policy_tracker.observe(policy("preempts", {"preemption": exceed}))
    for number in range(3):
        gpus, memory = int(rng.choice([1, 1, 2])), int(rng.choice([2000, 4000, 8000]))
        asked = pod(f"asked{number}", asks(gpus, memory), priority=int(rng.integers(1, 6)))
        engine.state.observe_pod(asked, {})
        if any(engine.algorithm.node_fit.fits_without(asked, where, ()) is not None for where in "abc"):
            continue
        least, costs = cheapest(engine, asked, budgets)
        result = engine.preemptions.evaluator.search(asked, 0.0)
        found = result.preemption
        assert (found is None) is (least is None), (seed, number, result.reason)
        if found is None or least is None:
            continue
        victims = {victim.uid for victim in found.victims}
        together += any(victim.group for victim in found.victims)
        ending = [unit for unit in units(engine) if victims.intersection(each.uid for each, _ in unit)]
        assert victims == {each.uid for each, _ in chain.from_iterable(ending)}, "a group does not end in parts"
        assert engine.algorithm.node_fit.fits_without(asked, found.node, list(victims)) is not None
        paid = cost(engine, ending, budgets)
        assert result.candidates is not None
        told = result.candidates.victims[found.node].cost
        assert told[1:] == paid[1:]
        assert told[0] >= paid[0], "those count that stay, too, where they are put back one by one"
        assert paid >= least
        if gpus == 1:
            assert paid == least, (seed, number, costs)
    assert not engine.state.drift()
    return together
