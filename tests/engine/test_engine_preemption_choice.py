"""Which of many nodes is chosen for a pod that preempts others."""

from __future__ import annotations

import pytest
from tests.engine.builders import asks, cards, node, pod
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_preemption import budget

from vgpu_scheduler.engine.preemption.candidates import MOST_CANDIDATES


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("violating", [MOST_CANDIDATES - 1, MOST_CANDIDATES, MOST_CANDIDATES + 5])
def test_no_budget_is_violated_while_there_is_a_node_where_none_is(gpus: int, violating: int) -> None:
    names = [f"n{number:02}" for number in range(violating + 1)]
    rules = {"mayPreempt": True, "budgets": "Exceed"}
    fleet = Fleet([node(name, cards(name, gpus)) for name in names], preemption=rules)
    for number in range(violating + 1):
        app = "kept" if number < violating else "free"
        fleet.come(f"p{number:02}", 0, asks(gpu=gpus, gpumem=8000), labels={"app": app})
        fleet.decide()
    fleet.engine.budgets.observe(budget("kept", 0))
    fleet.come("high", 5, asks(gpu=gpus, gpumem=8000))
    fleet.decide()
    preemption = fleet.last["high"].preemption
    assert preemption is not None
    assert [(victim.pod, victim.budgets) for victim in preemption.victims] == [(f"default/p{violating:02}", ())]


def victims(fleet: Fleet, name: str) -> list[tuple[str, bool]]:
    """Return the victims of a pod, and whether each is bound."""
    found = fleet.last[name].preemption
    return [(victim.pod.partition("/")[2], victim.bound) for victim in found.victims] if found else []


@pytest.mark.parametrize("gpus", [1, 2])
def test_who_only_waits_to_be_bound_costs_nothing_beside_others(gpus: int) -> None:
    fleet = Fleet([node("a", cards("a", gpus)), node("b", cards("b", gpus))])
    fleet.waiting_in_lanes = {"waits"}
    fleet.come("b1", 1, asks(gpu=gpus, gpumem=8000))
    fleet.decide()
    fleet.come("a0", 0, asks(gpu=gpus, gpumem=4000))
    fleet.decide()
    fleet.come("waits", 3, asks(gpu=gpus, gpumem=4000))
    fleet.decide()
    assert fleet.node_of("waits") == fleet.node_of("a0")
    fleet.come("high", 5, asks(gpu=gpus, gpumem=8000))
    fleet.decide()
    assert victims(fleet, "high") == [("waits", False), ("a0", True)]


def test_who_only_waits_to_be_bound_keeps_its_place_where_it_makes_no_difference() -> None:
    fleet = Fleet([node("a", cards("a", 2))])
    fleet.waiting_in_lanes = {"waits"}
    fleet.come("runs", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.come("waits", 0, asks(gpumem=4000))
    fleet.decide()
    fleet.come("runs too", 1, asks(gpumem=4000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert victims(fleet, "high") == [("runs", True)]


def test_nobody_is_evicted_while_the_room_of_who_only_waits_is_enough_on_any_node() -> None:
    """However many nodes come first by name where such a pod waits whose room is not enough."""
    names = [f"n{number:03}" for number in range(150)]
    fleet = Fleet([node(name, cards(name, 1)) for name in names])
    for number in range(len(names) - 2):
        fleet.waiting_in_lanes.add(f"w{number}")
        fleet.come(f"w{number}", 3, asks(gpumem=4000))
        fleet.decide()
        fleet.come(f"x{number}", 0, asks(gpumem=4000))
        fleet.decide()
    fleet.come("runs", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.waiting_in_lanes.add("z")
    fleet.come("z", 3, asks(gpumem=8000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert victims(fleet, "high") == [("z", False)]


def test_of_those_that_only_wait_the_least_important_one_gives_its_place_back() -> None:
    names = ["a", "b", "c"]
    fleet = Fleet([node(name, cards(name, 1)) for name in names])
    fleet.waiting_in_lanes = {"w3", "w1", "w2"}
    for priority in (3, 1, 2):
        fleet.come(f"w{priority}", priority, asks(gpumem=8000))
        fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert victims(fleet, "high") == [("w1", False)]


def test_who_only_waits_to_be_bound_violates_no_budget() -> None:
    fleet = Fleet([node("a", cards("a", 1)), node("b", cards("b", 1))])
    fleet.waiting_in_lanes = {"waits"}
    fleet.come("a0", 0, asks(gpumem=4000))
    fleet.decide()
    fleet.come("waits", 3, asks(gpumem=4000), labels={"app": "kept"})
    fleet.decide()
    fleet.come("b1", 1, asks(gpumem=8000))
    fleet.decide()
    for name in ("kept", "kept too"):
        fleet.engine.budgets.observe(budget("kept", 0, name=name))
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert victims(fleet, "high") == [("waits", False), ("a0", True)]


def test_who_is_bound_meanwhile_costs_what_it_costs() -> None:
    """Nothing that is in use of its node changes by that."""
    fleet = Fleet([node("a", cards("a", 1)), node("b", cards("b", 1))])
    fleet.waiting_in_lanes = {"waits"}
    fleet.come("waits", 3, asks(gpumem=8000))
    fleet.decide()
    fleet.come("runs", 1, asks(gpumem=8000))
    fleet.decide()
    evaluator = fleet.engine.preemptions.evaluator
    high = pod("high", asks(gpumem=8000), priority=5)
    fleet.engine.state.observe_pod(high, {})
    found = evaluator.search(high, 0.0).preemption
    assert found is not None
    assert [victim.pod for victim in found.victims] == ["default/waits"]
    fleet.engine.binding_succeeded("uid-waits")
    found = evaluator.search(high, 0.0).preemption
    assert found is not None
    assert [victim.pod for victim in found.victims] == ["default/runs"]


@pytest.mark.parametrize("others", [3, MOST_CANDIDATES, 40])
def test_nodes_where_the_fewest_pods_can_be_victims_are_compared_first(others: int) -> None:
    """On all of them evicting the lowest priority is enough; two pods on the last by name, six on the others."""
    names = [f"a{number:02}" for number in range(others)] + ["z"]
    fleet = Fleet([node(name, cards(name, 2), labels={"name": name}) for name in names])
    for name in names:
        pods = [f"{name}-{number}" for number in range(2 if name == "z" else 6)]
        for each in pods:
            amounts = asks(gpumem=2 * 8000 // len(pods))
            fleet.come(each, 0, amounts, nodeSelector={"name": name})
            fleet.decide()
            assert fleet.node_of(each) == name
    fleet.come("high", 5, asks(gpu=2, gpumem=7000))
    fleet.decide()
    assert victims(fleet, "high") == [("z-0", True), ("z-1", True)]
