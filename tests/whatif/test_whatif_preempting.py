"""Who would be evicted for a pod that waits: what explain says is what the scheduler's engine decides."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import in_group
from tests.seeds import seeds
from tests.whatif.preempting_worlds import (
    allows,
    budget,
    explained,
    random_objects,
    tenant,
    waiting,
    world,
)
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.model import Decision
from vgpu_scheduler.whatif import World, simulate
from vgpu_scheduler.whatif.world.queue_order import pods_before_and_after


def decided(made: World, name: str) -> Decision:
    """Return what an engine decides about a pod, after all that are served before it."""
    (asked,) = (each for each in made.pending.values() if each.name == name)
    before, _ = pods_before_and_after(made, asked)
    for each in (*before, asked):
        made.engine.queue.add(each.uid, each.priority, 0.0)
    while (decision := made.engine.attempt(0.0)) is not None:
        if decision.uid == asked.uid:
            return decision
    raise AssertionError(f"{name} was not decided")


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_who_goes_by_what_is_explained_goes_by_what_the_engine_decides(seed: int) -> None:
    rng, told = np.random.default_rng(seed), Counter[str]()
    for _ in range(40):
        objects = random_objects(rng)
        names = [each["metadata"]["name"] for each in objects if each["metadata"]["name"].startswith("waits")]
        explaining = world(*objects)
        before = explaining.engine.state.ledger()
        for name in names:
            found, decision = explained(explaining, name), decided(world(*objects), name)
            assert explaining.engine.state.ledger() == before, "a question changes nothing"
            goes = found.preemption_outlook
            assert (found.answer.node or None) == (decision.placement and decision.placement.node)
            if decision.preemption is None:
                assert goes is None or goes.preemption is None
                if goes is not None:
                    assert decision.message.endswith(f" preemption: {goes.reason}")
                told["nobody" if goes is not None else "no question"] += 1
                continue
            assert goes is not None
            assert goes.preemption is not None
            assert [each.pod for each in goes.preemption.victims] == [each.pod for each in decision.preemption.victims]
            assert [each.budgets for each in goes.preemption.victims] == [
                each.budgets for each in decision.preemption.victims
            ]
            assert (goes.preemption.node, goes.preemption.policy) == (
                decision.preemption.node,
                decision.preemption.policy,
            )
            told["somebody"] += 1
    assert min(told["nobody"], told["somebody"], told["no question"]) > 5, told


def test_it_names_the_victims_the_cards_the_budgets_and_why() -> None:
    made = world(
        allows(budgets="Exceed"),
        node("a", 1),
        node("b", 1),
        node("c", 1),
        tenant("guarded-1", "a", "GPU-a-0", 9000, 1),
        tenant("plain-1", "b", "GPU-b-0", 9000, 3),
        tenant("guarded-2", "c", "GPU-c-0", 9000, 0),
        budget("guarded", 0),
        budget("plain", 0),
        waiting("high", 12000, 5),
    )
    text = explained(made).text()
    assert text.endswith(
        "For it 1 pod would be evicted, on node c (ClusterVGPUPolicy house allows it):\n"
        "  POD                PRIORITY  CARDS    AGAINST THE BUDGET\n"
        "  default/guarded-2  0         GPU-c-0  default/guarded\n"
        "  This costs least: 1 pod, the highest of priority 0, 1 against a disruption budget.\n"
        "  Node a costs more: 1 pod, the highest of priority 1, 1 against a disruption budget.\n"
        "  Node b costs more: 1 pod, the highest of priority 3, 1 against a disruption budget."
    )
    assert explained(made).as_json()["preemption"] == {
        "node": "c",
        "policy": "ClusterVGPUPolicy house",
        "underWay": False,
        "victims": [{"pod": "default/guarded-2", "priority": 0, "cards": ["GPU-c-0"], "budgets": ["default/guarded"]}],
        "why": [
            "This costs least: 1 pod, the highest of priority 0, 1 against a disruption budget.",
            "Node a costs more: 1 pod, the highest of priority 1, 1 against a disruption budget.",
            "Node b costs more: 1 pod, the highest of priority 3, 1 against a disruption budget.",
        ],
    }


@pytest.mark.parametrize(("number", "said"), [(16, "This"), (17, "Of the first 16 nodes with victims, this")])
def test_it_says_so_where_not_all_nodes_were_compared(number: int, said: str) -> None:
    names = [f"n{each:02}" for each in range(number)]
    there = [tenant(f"{name}-{card}", name, f"GPU-{name}-{card}", 9000) for name in names for card in range(2)]
    made = world(allows(), *(node(name, 2) for name in names), *there, waiting("high", 12000, 5, cards=2))
    assert f"  {said} costs least: 2 pods, the highest of priority 0" in explained(made).text()


def whole_group(name: str) -> dict[str, Any]:
    """Return a PodGroup that ends whole, and of which each pod is placed by itself."""
    spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": "PodGroup"}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def test_it_names_all_pods_of_a_group_that_goes_whole() -> None:
    job = [tenant(f"job-{on}", on, f"GPU-{on}-0", 9000) for on in ("a", "b")]
    for each in job:
        each["spec"]["schedulingGroup"] = {"podGroupName": "job"}
    made = world(allows(), node("a", 1), node("b", 1), whole_group("job"), *job, waiting("high", 12000, 5))
    found = explained(made)
    assert found.text().endswith(
        "For it 2 pods would be evicted, on node a (ClusterVGPUPolicy house allows it):\n"
        "  POD            PRIORITY  CARDS    AGAINST THE BUDGET  NODE\n"
        "  default/job-a  0         GPU-a-0  -                   a\n"
        "  default/job-b  0         GPU-b-0  -                   b\n"
        "  Group default/job is evicted as a whole, as its PodGroup says: 2 pods.\n"
        "  This costs least: 2 pods, the highest of priority 0, none against a disruption budget.\n"
        "  Node b costs the same, and comes later by its name: 2 pods, the highest of priority 0, none against a"
        " disruption budget."
    )
    victims = found.as_json()["preemption"]["victims"]
    assert [(each["pod"], each["group"], each["node"]) for each in victims] == [
        ("default/job-a", "default/job", "a"),
        ("default/job-b", "default/job", "b"),
    ]
    (answer,) = simulate(made, list(made.pending.values()), as_they_are=True, preempt=True)
    assert answer.preemption is not None
    assert [(victim.pod, victim.node) for victim in answer.preemption.victims] == [
        ("default/job-a", "a"),
        ("default/job-b", "b"),
    ]


def gang(number: int, memory: int = 12000) -> list[dict[str, Any]]:
    """Return the pods of a group that waits, all of which are needed."""
    made = [waiting(f"gang-{member}", memory, 5) for member in range(number)]
    for each in made:
        each["metadata"]["annotations"] = in_group("gang", number)
    return made


def test_it_names_all_that_would_go_for_the_group_of_a_pod() -> None:
    low = [tenant(f"low-{on}", on, f"GPU-{on}-0", 9000) for on in ("a", "b")]
    made = world(allows(), node("a", 1), node("b", 1), *low, *gang(2))
    before = made.engine.state.ledger()
    text = explained(made, "gang-1").text()
    assert (
        "For it and 1 more pod of its group 2 pods would be evicted, and it gets node b (ClusterVGPUPolicy house"
        " allows it):\n"
        "  POD            PRIORITY  CARDS    AGAINST THE BUDGET  NODE\n"
        "  default/low-a  0         GPU-a-0  -                   a\n"
        "  default/low-b  0         GPU-b-0  -                   b"
    ) in text
    assert made.engine.state.ledger() == before
    assert not made.engine.state.holds
    answers = simulate(made, list(made.pending.values()), as_they_are=True, preempt=True)
    assert [(answer.pod.name, answer.node) for answer in answers] == [("gang-0", "a"), ("gang-1", "b")]
    victims = [[victim.pod for victim in answer.preemption.victims] for answer in answers if answer.preemption]
    assert victims == [["default/low-a"], ["default/low-b"]]


def test_it_says_why_nobody_would_go_for_the_group_of_a_pod() -> None:
    low = [tenant(f"low-{on}", on, f"GPU-{on}-0", 9000) for on in ("a", "b")]
    made = world(allows(), node("a", 1), node("b", 1), *low, *gang(3))
    told = (
        "No pod would be evicted for it: pod default/gang-2: 0/2 nodes are available: 2 No preemption victims found for"
    )
    assert told in explained(made, "gang-0").text()
    answers = simulate(made, list(made.pending.values()), as_they_are=True, preempt=True)
    assert [answer.node for answer in answers] == [""] * 3
    assert len(made.bound) == 2


def test_it_says_why_nobody_has_to_go() -> None:
    full = (node("a", 1), tenant("equal-1", "a", "GPU-a-0", 9000, 5), waiting("high", 12000, 5))
    text = explained(world(allows(), *full)).text()
    reason = "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert text.endswith(f"No pod would be evicted for it: {reason}")


@pytest.mark.parametrize("seed", range(40))
def test_the_budgets_that_protect_are_named(seed: int) -> None:
    """Those without which somebody would go: one that is used up, or any of several of one pod."""
    rng = np.random.default_rng(seed)
    several = bool(rng.random() < 0.3)
    allowed = int(rng.integers(0, 2)) if several else 0
    objects = [allows(), node("a", 1), waiting("high", 12000, 5)]
    objects += [
        tenant("x-1", "a", "GPU-a-0", int(rng.integers(5000, 9000)), int(rng.integers(0, 5))),
        budget("x", allowed),
    ]
    if several:
        second = budget("x", int(rng.integers(0, 2)))
        second["metadata"] = {**second["metadata"], "name": "y", "uid": "uid-budget-y"}
        objects.append(second)
    if rng.random() < 0.5:
        objects += [node("b", 1), tenant("z-1", "b", "GPU-b-0", 9000, 9)]
    made = world(*objects)
    before = list(made.engine.budgets.all())
    found = explained(made)
    assert list(made.engine.budgets.all()) == before
    assert found.preemption_outlook is not None
    assert found.preemption_outlook.preemption is None
    assert found.preemption_outlook.protected is not None
    (victim,) = found.preemption_outlook.protected.victims
    assert (victim.pod, victim.budgets) == ("default/x-1", ("default/x", "default/y") if several else ("default/x",))
    assert "If disruption budgets allowed it, 1 pod would be evicted on node a:" in found.text()
    assert found.as_json()["preemption"]["protected"]["victims"][0]["budgets"] == list(victim.budgets)
    without = explained(world(*(each for each in objects if each["kind"] != "PodDisruptionBudget"))).preemption_outlook
    assert without is not None
    assert without.preemption is not None
    assert [each.pod for each in without.preemption.victims] == ["default/x-1"]


def test_where_budgets_protect_nobody_that_would_help_none_is_named() -> None:
    full = (node("a", 1), tenant("x-1", "a", "GPU-a-0", 9000, 9), budget("x", 0), waiting("high", 12000, 5))
    found = explained(world(allows(), *full)).preemption_outlook
    assert found is not None
    assert (found.preemption, found.protected) == (None, None)


@pytest.mark.parametrize(
    ("rules", "started", "created"),
    [
        ({"minRuntime": "1m"}, "2026-01-01T23:59:59Z", "2026-01-01T00:00:01Z"),
        ({"delay": "2m"}, "2026-01-01T00:00:00Z", "2026-01-01T23:59:50Z"),
    ],
    ids=["minRuntime", "delay"],
)
@pytest.mark.parametrize("others", [0, 200])
def test_no_time_passes_however_many_wait(others: int, rules: dict[str, str], started: str, created: str) -> None:
    there = tenant("low-0", "n", "GPU-n-0", 16000, startTime=started)
    asked = waiting("high", 16000, 9, metadata={"creationTimestamp": created})
    rest = [waiting(f"z{number}", 16000) for number in range(others)]
    made = world(allows(**rules), node("n", 1, 16384), there, asked, *rest)
    told = explained(made).preemption_outlook
    assert told is not None
    assert told.preemption is None
    answers = simulate(made, made.pending.values(), as_they_are=True, explained=False, preempt=True)
    assert [answer.preemption for answer in answers if answer.pod.name == "high"] == [None]


def test_a_pod_that_is_simulated_has_run_for_no_time_even_if_its_file_is_of_one_that_runs() -> None:
    made = world(allows(minRuntime="1h"), node("n", 1, 16384))
    runs, asked = made.pod(tenant("low-0", "n", "GPU-n-0", 16000)), made.pod(waiting("high", 16000, 9))

    (low,), (high,) = simulate(made, [runs]), simulate(made, [asked], preempt=True)

    assert (low.node, high.node) == ("n", "")


def test_a_file_whose_pod_has_no_readable_creation_is_explained() -> None:
    asked = waiting("high", 16000, 9, metadata={"creationTimestamp": "yesterday"})
    made = world(allows(delay="2m"), node("n", 1, 16384), tenant("low-0", "n", "GPU-n-0", 16000), asked)
    told = explained(made).preemption_outlook
    assert told is not None
    assert told.preemption is not None, "it waits longer than any delay"


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_who_goes_for_a_group_goes_by_what_the_engine_decides_with_budgets_kept_or_exceeded(seed: int) -> None:
    rng, told = np.random.default_rng(seed), Counter[str]()
    for _ in range(12):
        rules = {"budgets": str(rng.choice(["Respect", "Exceed", "Exceed"]))}
        objects: list[Any] = [allows(**rules)]
        for number in range(int(rng.integers(1, 4))):
            name, cards = f"n{number}", int(rng.integers(1, 3))
            objects.append(node(name, cards))
            for card in range(cards):
                app, priority = str(rng.choice(["a", "b"])), int(rng.choice([0, 1, 9]))
                memory = int(rng.integers(6000, 16000))
                objects.append(tenant(f"{app}-{len(objects)}", name, f"GPU-{name}-{card}", memory, priority))
        objects += [budget(app, int(rng.integers(0, 2))) for app in ("a", "b") if rng.random() < 0.8]
        members = gang(int(rng.integers(2, 4)))
        objects += members
        explaining = world(*objects)
        (first, *_) = names = [each["metadata"]["name"] for each in members]
        deciding = world(*objects)
        for each in sorted(deciding.pending.values(), key=lambda each: each.name):
            deciding.engine.queue.add(each.uid, each.priority, 0.0)
        decisions = {each.pod.partition("/")[2]: each for each in deciding.engine.schedule_next(0.0)}
        wanted = {
            (victim.pod, tuple(victim.budgets))
            for each in decisions.values()
            if each.preemption is not None
            for victim in each.preemption.victims
        }
        assert first in decisions
        for name in names:
            found = explained(explaining, name)
            goes = found.preemption_outlook
            victims = goes.preemption.victims if goes is not None and goes.preemption is not None else ()
            assert {(victim.pod, tuple(victim.budgets)) for victim in victims} == wanted
            if any(budgets for _, budgets in wanted):
                assert rules["budgets"] == "Exceed"
                assert "AGAINST THE BUDGET" in found.text()
                told["against"] += 1
            told["somebody" if wanted else "nobody"] += 1
    assert min(told["somebody"], told["nobody"], told["against"]) > 0, told
