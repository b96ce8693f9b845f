"""Who would have to go for a pod that waits: what explain says is what the scheduler's engine decides."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import in_group
from tests.policy.resources import policy_object
from tests.seeds import seeds
from tests.whatif.preempting_worlds import (
    NOW,
    allows,
    budget,
    random_objects,
    tenant,
    terminating,
    waiting,
    world,
)
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.model import Decision
from vgpu_scheduler.whatif import Explanation, World, explain_bound, explain_pod, simulate, take_up_preemptions
from vgpu_scheduler.whatif.world.queue_order import pods_waiting_beside


def explained(made: World, name: str = "high") -> Explanation:
    (found,) = (each for each in made.pending.values() if each.name == name)
    return explain_pod(made, found)


def decided(made: World, name: str) -> Decision:
    """Return what an engine decides about a pod, after all that are served before it."""
    (asked,) = (each for each in made.pending.values() if each.name == name)
    before, _ = pods_waiting_beside(made, asked)
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
        "For it 1 pod would have to go, on node c (ClusterVGPUPolicy house allows it):\n"
        "  POD                PRIORITY  CARDS    AGAINST THE BUDGET\n"
        "  default/guarded-2  0         GPU-c-0  default/guarded\n"
        "  That costs least: 1 pod, the highest of priority 0, 1 against a disruption budget.\n"
        "  Node a costs more: 1 pod, the highest of priority 1, 1 against a disruption budget.\n"
        "  Node b costs more: 1 pod, the highest of priority 3, 1 against a disruption budget."
    )
    assert explained(made).as_json()["preemption"] == {
        "node": "c",
        "policy": "ClusterVGPUPolicy house",
        "underWay": False,
        "victims": [{"pod": "default/guarded-2", "priority": 0, "cards": ["GPU-c-0"], "budgets": ["default/guarded"]}],
        "why": [
            "That costs least: 1 pod, the highest of priority 0, 1 against a disruption budget.",
            "Node a costs more: 1 pod, the highest of priority 1, 1 against a disruption budget.",
            "Node b costs more: 1 pod, the highest of priority 3, 1 against a disruption budget.",
        ],
    }


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
        "For it 2 pods would have to go, on node a (ClusterVGPUPolicy house allows it):\n"
        "  POD            PRIORITY  CARDS    AGAINST THE BUDGET  NODE\n"
        "  default/job-a  0         GPU-a-0  -                   a\n"
        "  default/job-b  0         GPU-b-0  -                   b\n"
        "  Group default/job goes whole, as its PodGroup says: 2 pods.\n"
        "  That costs least: 2 pods, the highest of priority 0, none against a disruption budget.\n"
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
        "For it and 1 more pod of its group 2 pods would have to go, and it gets node b (ClusterVGPUPolicy house"
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
    told = "Nobody has to go for it: pod default/gang-2: 0/2 nodes are available: 2 No preemption victims found for"
    assert told in explained(made, "gang-0").text()
    answers = simulate(made, list(made.pending.values()), as_they_are=True, preempt=True)
    assert [answer.node for answer in answers] == [""] * 3
    assert len(made.bound) == 2


def test_it_says_why_nobody_has_to_go() -> None:
    full = (node("a", 1), tenant("equal-1", "a", "GPU-a-0", 9000, 5), waiting("high", 12000, 5))
    text = explained(world(allows(), *full)).text()
    reason = "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert text.endswith(f"Nobody has to go for it: {reason}")


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
        "For it 1 pod would have to go beside 1 pod of which the end is waited for, on node a (ClusterVGPUPolicy house"
        " allows it):\n"
        "  POD                            PRIORITY  CARDS    AGAINST THE BUDGET\n"
        "  default/late-1 (ends already)  4         GPU-a-0  -\n"
        "  default/low-2                  0         GPU-a-0  -\n"
        "  That costs least: 1 pod, the highest of priority 0, none against a disruption budget."
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
        "It was evicted for a pod of higher priority (ClusterVGPUPolicy house recorded it), which does not wait any"
        " more."
    )
    drained = world(node("a", 1), terminating(tenant("low-1", "a", "GPU-a-0", 6000, metadata={"uid": "uid-low"})))
    assert explain_bound(drained, drained.bound["uid-low"]).preempted_by is None, "a drain evicts, too"


def test_where_it_is_off_it_says_what_to_set_to_a_pod_that_has_a_priority_alone() -> None:
    full = (node("a", 1), tenant("low-1", "a", "GPU-a-0", 9000))
    high, plain = waiting("high", 12000, 5), waiting("high", 12000)
    installed = "install manifests/preemption"
    allowed = "have a ClusterVGPUPolicy say preemption.mayPreempt for it"
    told = "Pods of lower priority are in its way, and none is evicted: {} (docs/preemption.md)."
    off, unsaid, half = (
        explained(world(*full, high, preemption=False)).text(),
        explained(world(*full, high)).text(),
        explained(world(allows(), *full, high, preemption=False)).text(),
    )
    assert off.endswith(told.format(f"{installed} and {allowed}"))
    assert unsaid.endswith(told.format(allowed))
    assert half.endswith(told.format(installed))
    for nothing_new in (world(*full, plain), world(*full, plain, preemption=False)):
        assert explained(nothing_new).preemption_outlook is None


def keeps_from_preempting(rng: np.random.Generator) -> list[dict[str, object]]:
    """Return what may be why the end of pods of lower priority is no matter of preemption, or not."""
    kind, quota = int(rng.integers(0, 4)), {"hard": {"limits.nvidia.com/gpumem": "9000"}}
    if kind == 1:
        return [policy_object("kept", {"preemption": {"preemptible": False}})]
    if kind == 2:
        metadata = {"name": "q", "namespace": "default"}
        return [{"kind": "ResourceQuota", "metadata": metadata, "spec": quota}]
    return [policy_object("later", {"preemption": {"minRuntime": 3600}})] if kind == 3 else []


@pytest.mark.parametrize("seed", range(60))
def test_what_to_set_is_told_only_where_preemption_finds_victims_then(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, *objects = random_objects(rng)
    objects = [each for each in objects if not each["metadata"]["name"].startswith("waits")]
    objects += [waiting("high", int(rng.integers(8, 17)) * 1000, int(rng.choice([1, 6, 10])))]
    for each in objects:
        if each["kind"] == "Pod" and "nodeName" in each["spec"] and rng.random() < 0.3:
            each["spec"]["schedulerName"] = "another"
    kept = keeps_from_preempting(rng)
    told = explained(world(*objects, *kept, preemption=False)).preemption_outlook
    allowing = [
        policy_object(each["metadata"]["name"], {"preemption": {**each["spec"]["preemption"], "mayPreempt": True}})
        for each in kept
        if each["kind"] != "ResourceQuota"
    ]
    quotas = [each for each in kept if each["kind"] == "ResourceQuota"]
    would = explained(world(*objects, *quotas, *(allowing or [allows()]))).preemption_outlook
    finds = would is not None and would.preemption is not None
    assert (told is not None and "install manifests/preemption" in told.remedy) == finds
    assert told is None or "preemption.mayPreempt" in told.remedy


@pytest.mark.parametrize("seed", range(60))
def test_what_is_set_lets_victims_go_at_once_or_as_is_said_later(seed: int) -> None:
    """A limit of evictions that is too low for ever is not got around by setting something else."""
    rng = np.random.default_rng(seed)
    needed, rules = int(rng.integers(1, 4)), dict[str, Any]()
    if rng.random() < 0.7:
        rules["perHour"] = int(rng.integers(0, 5))
    if rng.random() < 0.3:
        rules["delay"] = "72h"
    if rng.random() < 0.3:
        rules["minRuntime"] = "48h"
    policy = allows(**rules)
    gone = int(rng.integers(0, 3)) if rng.random() < 0.5 else 0
    evicted = {"time": "2026-01-01T23:59:00Z", "node": "a"}
    policy["status"] = {"evictions": [{**evicted, "pod": f"default/g{n}", "uid": f"g{n}"} for n in range(gone)]}
    low = [tenant(f"low-{n}", "a", f"GPU-a-{n}", 9000) for n in range(needed)]
    objects = [policy, node("a", needed), *low, waiting("high", 12000, 5, cards=needed)]
    told = explained(world(*objects, preemption=False)).preemption_outlook
    now, later = world(*objects), world(*objects)
    take_up_preemptions(later, NOW + timedelta(days=30))
    found, then = (explained(each).preemption_outlook for each in (now, later))
    assert found is not None
    assert then is not None
    assert (told is not None) == (then.preemption is not None)
    if told is not None:
        said = "" if found.preemption is not None else f" Even then nobody goes at once: {found.reason}"
        assert told.remedy.endswith(f"(docs/preemption.md).{said}")


@pytest.mark.parametrize("seed", range(60))
def test_all_that_forbids_preemption_is_named_and_without_it_somebody_goes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    is_on, may = bool(rng.random() < 0.6), rng.choice([True, False, None])
    own = {name: bool(rng.random() < 0.5) for name in ("p", "q")[: int(rng.integers(0, 3))]}
    others = [policy_object("other", {"preemption": {"mayPreempt": False}}, namespace="other")]
    forbidding = [name for name, forbids in own.items() if forbids]
    full = (node("a", 1), tenant("low", "a", "GPU-a-0", 9000), waiting("high", 12000, 5))

    def house(may: object) -> list[dict[str, Any]]:
        rules = {"victims": "Any", **({} if may is None else {"mayPreempt": bool(may)})}
        return [policy_object("house", {"preemption": rules})] if may is not None or seed % 2 else []

    def of_namespace(forbidding: list[str]) -> list[dict[str, Any]]:
        said = {name: {"delay": "1s", **({"mayPreempt": False} if name in forbidding else {})} for name in own}
        return [policy_object(name, {"preemption": rules}, namespace="default") for name, rules in said.items()]

    made = world(*house(may), *of_namespace(forbidding), *others, *full, preemption=is_on)
    policies = dict(made.policies)
    found = explained(made).preemption_outlook
    assert made.policies == policies
    assert found is not None
    if is_on and may and not forbidding:
        assert found.preemption is not None
        return
    asked = [
        *([] if is_on else ["install manifests/preemption"]),
        *([] if may else ["have a ClusterVGPUPolicy say preemption.mayPreempt for it"]),
        *(f"have VGPUPolicy default/{name} not say preemption.mayPreempt: false" for name in forbidding),
    ]
    assert found.remedy.endswith(f"none is evicted: {' and '.join(asked)} (docs/preemption.md).")
    goes = explained(world(*house(may=True), *of_namespace([]), *others, *full)).preemption_outlook
    assert goes is not None
    assert goes.preemption is not None


@pytest.mark.parametrize("name", ["may-preempt", "may.preempt", "preempt", "a"])
@pytest.mark.parametrize("priority", [0, 5])
def test_what_to_set_is_asked_without_a_policy_being_lost(name: str, priority: int) -> None:
    others = policy_object(name, {"selector": {"matchLabels": {"a": "b"}}, "preemption": {"mayPreempt": True}})
    full = (node("a", 1), tenant("low", "a", "GPU-a-0", 9000), waiting("high", 12000, priority))
    made = world(others, *full)
    before = list(made.engine.policies.catalogue.all())
    found = explained(made).preemption_outlook
    assert (found is not None and "have a ClusterVGPUPolicy say" in found.remedy) == (priority > 0)
    assert list(made.engine.policies.catalogue.all()) == before != []


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
    assert "If disruption budgets allowed it, 1 pod would go on node a:" in found.text()
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
        decisions = {each.pod.partition("/")[2]: each for each in deciding.engine.attempt_group(0.0)}
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
