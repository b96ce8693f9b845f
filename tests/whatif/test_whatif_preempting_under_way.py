"""Preemptions under way: who is still there, and whose room is kept, as the engine has it."""

from __future__ import annotations

import pytest
from tests.whatif.preempting_worlds import (
    allows,
    budget,
    explained,
    tenant,
    terminating,
    waiting,
    world,
)
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import explain_bound, simulate


def test_a_pod_that_ends_already_is_waited_for_and_costs_nothing() -> None:
    """One more has to go beside it; the cheaper pod of the other card is more than enough of its own, and stays."""
    made = world(
        allows(),
        node("a", 2),
        terminating(tenant("late-1", "a", "GPU-a-0", 8000, priority=4), reason="DeletionByTaintManager"),
        tenant("low-2", "a", "GPU-a-0", 8000),
        tenant("more-3", "a", "GPU-a-1", 16000, priority=1),
        waiting("high", 16000, 5),
    )
    goes = explained(made).preemption_outlook
    assert goes is not None
    assert goes.text() == (
        "For it 1 pod would be evicted beside 1 pod that is already terminating, on node a (ClusterVGPUPolicy house"
        " allows it):\n"
        "  POD                            PRIORITY  CARDS    AGAINST THE BUDGET\n"
        "  default/late-1 (ends already)  4         GPU-a-0  -\n"
        "  default/low-2                  0         GPU-a-0  -\n"
        "  This costs least: 1 pod, the highest of priority 0, none against a disruption budget."
    )
    assert [each.get("terminating", False) for each in goes.as_json()["victims"]] == [True, False]


def test_of_one_under_way_it_says_who_is_still_there() -> None:
    made = world(
        allows(),
        node("a", 1),
        terminating(tenant("late-1", "a", "GPU-a-0", 6000), at="2026-01-01T23:59:00Z"),
        terminating(tenant("low-2", "a", "GPU-a-0", 6000)),
        waiting("high", 12000, 5, nominatedNodeName="a"),
    )
    text = explained(made).text()
    assert "Room is made for it on node a (ClusterVGPUPolicy house allows it): 2 of 2 pods still there." in text
    rows = [line.split(maxsplit=4) for line in text.splitlines() if line.startswith("  default/")]
    assert sorted(rows) == [
        ["default/late-1", "0", "GPU-a-0", "-", "terminating, 60 s past its grace period"],
        ["default/low-2", "0", "GPU-a-0", "-", "terminating"],
    ]
    (victim,) = (each for each in made.bound.values() if each.name == "low-2")
    preempted = explain_bound(made, victim).preempted_by
    assert preempted is not None
    assert (preempted.pod, preempted.priority, preempted.node) == ("default/high", 5, "a")
    assert preempted.text() == (
        "It was evicted, and default/high, of priority 5, is nominated to its node and waits for room there."
    )


@pytest.mark.parametrize(
    ("nominated_by", "keeps"),
    [(None, True), ("vgpu-scheduler", True), ("cluster-autoscaler", False), ("", False)],
    ids=["not known", "ours", "somebody else", "nobody"],
)
def test_the_room_of_victims_is_kept_for_a_pod_that_nobody_else_has_nominated(
    nominated_by: str | None, *, keeps: bool
) -> None:
    written = {"f:status": {"f:nominatedNodeName": {}}} if nominated_by else {}
    managed = [{"manager": "kubelet", "fieldsV1": {}}, {"manager": nominated_by, "fieldsV1": written}]
    metadata = {} if nominated_by is None else {"managedFields": managed}
    made = world(
        allows(),
        node("a", 1),
        terminating(tenant("low-1", "a", "GPU-a-0", 12000)),
        waiting("high", 12000, 5, nominatedNodeName="a", metadata=metadata),
    )
    assert bool(made.engine.state.holds) is keeps
    found = explained(made).preemption_outlook
    assert found is not None
    assert found.under_way is keeps


def test_of_a_victim_it_says_which_policy_recorded_it_though_nobody_waits_any_more() -> None:
    policy = allows(perHour=5)
    evicted = {"time": "2026-01-01T23:59:00Z", "pod": "default/low-1", "uid": "uid-low", "node": "a"}
    policy["status"] = {"evictions": [evicted]}
    low = terminating(tenant("low-1", "a", "GPU-a-0", 6000, metadata={"uid": "uid-low"}))
    made = world(policy, node("a", 1), low)
    preempted = explain_bound(made, made.bound["uid-low"]).preempted_by
    assert preempted is not None
    assert preempted.text() == (
        "It was evicted for a pod of higher priority (ClusterVGPUPolicy house recorded it), which no longer waits."
    )
    drained = world(node("a", 1), terminating(tenant("low-1", "a", "GPU-a-0", 6000, metadata={"uid": "uid-low"})))
    assert explain_bound(drained, drained.bound["uid-low"]).preempted_by is None, "a drain evicts, too"


def test_a_pod_that_is_served_before_keeps_the_room_that_it_is_given() -> None:
    made = world(
        allows(),
        node("a", 1),
        tenant("low-1", "a", "GPU-a-0", 9000),
        waiting("higher", 12000, 9),
        waiting("high", 5000, 5),
    )
    assert not explained(made).answer.node, "what is free is kept for the other one"
    assert explained(made, "higher").preemption_outlook is not None


def test_a_pod_whose_room_a_more_important_one_takes_waits_for_nobody_any_more() -> None:
    made = world(
        allows(),
        node("a", 1),
        terminating(tenant("low-1", "a", "GPU-a-0", 9000)),
        waiting("high", 12000, 5, nominatedNodeName="a"),
        waiting("higher", 6000, 9),
    )
    found = explained(made).preemption_outlook
    assert found is not None
    assert (found.under_way, found.reason) == (
        False,
        "not eligible due to a terminating pod on the nominated node.",
    )


def test_a_victim_goes_for_whom_it_leaves_its_room_whoever_else_is_nominated_there() -> None:
    foreign = waiting("foreign", 1000, 9, nominatedNodeName="a")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    low = terminating(tenant("low-1", "a", "GPU-a-0", 9000))
    made = world(allows(), node("a", 1), low, foreign, waiting("high", 12000, 5, nominatedNodeName="a"))
    preempted = explain_bound(made, *made.bound.values()).preempted_by
    assert preempted is not None
    assert preempted.pod == "default/high"


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("allowed", [0, 1])
@pytest.mark.parametrize("gone", [1, 2])
def test_an_eviction_that_was_allowed_is_not_held_against_its_budget_again(
    gone: int, allowed: int, *, counted: bool
) -> None:
    """The API server names a pod that it has let go until the pod is terminating, and takes it off what is allowed."""
    victims = [tenant(f"x-{n}", "a", f"GPU-a-{n}", 9000) for n in range(2)]
    for each in victims[:gone]:
        terminating(each)
    kept, later = budget("x", allowed), tenant("x-later", "b", "GPU-b-0", 9000)
    kept["status"]["disruptedPods"] = {f"x-{n}": "2026-01-01T23:59:00Z" for n in range(gone) if counted}
    objects = (allows(budgets="Exceed"), node("a", 2), node("b", 1), *victims, later, kept)
    high = waiting("high", 12000, 5, cards=2, nominatedNodeName="a")
    against = {f"default/x-{n}": ("default/x",) if n >= gone + allowed else () for n in range(2)}
    found = explained(world(*objects, high)).preemption_outlook
    assert found is not None
    assert found.preemption is not None
    assert found.under_way
    assert {each.pod: each.budgets for each in found.preemption.victims} == against
    made = world(*objects, high, waiting("next", 12000, 4, second=2))
    first, second = simulate(made, list(made.pending.values()), as_they_are=True, preempt=True)
    assert first.preemption is not None
    assert {each.pod: each.budgets for each in first.preemption.victims} == against
    assert second.preemption is not None
    left = allowed - (2 - gone)
    assert [each.budgets for each in second.preemption.victims] == [() if left > 0 else ("default/x",)]
