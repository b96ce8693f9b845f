"""Room that was kept for a pod is given up as soon as there is no reason to keep it any more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.engine.builders import asks, card, cards, in_group, node, pod, pod_object
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_preemption import budget
from tests.engine.test_engine_preemption_whole_groups import pod_group
from tests.policy.resources import policy, policy_object

from vgpu_scheduler.kube import Pod, decode_budget, decode_pod
from vgpu_scheduler.model import ClusterEvent, Preemption
from vgpu_scheduler.policy import decode_policy


def preempting(*names: str, memory: int = 8000) -> Fleet:
    """Return a fleet with one node of two cards, both taken, and pods of higher priority that wait for them."""
    fleet = Fleet([node("a", cards("a", 2))])
    for number in range(2):
        fleet.come(f"low{number}", 0, asks(gpumem=8000))
    fleet.decide()
    for name in names:
        fleet.come(name, 5, asks(gpumem=memory))
    fleet.decide()
    assert {hold.uid for hold in fleet.engine.state.holds} == {f"uid-{name}" for name in names}
    return fleet


def waiting(name: str, **more: object) -> Pod:
    """Return a later version of a pod of higher priority."""
    return pod(name, asks(gpumem=8000), priority=5, version=900, **more)  # type: ignore[arg-type]


def under_way(fleet: Fleet, name: str) -> Preemption | None:
    return fleet.engine.preemptions.of(f"uid-{name}")


def test_a_node_that_is_gone_keeps_no_room() -> None:
    fleet = preempting("high")
    fleet.engine.observe_node(node("b", [card("b-gpu-0")], version=2), fleet.now)
    fleet.come("rival", 9, asks(gpumem=8000))
    fleet.decide()
    fleet.engine.remove_node("a", 900)
    assert not fleet.engine.state.holds
    assert fleet.engine.state.quota_usage.as_values() == fleet.engine.state.rebuild().quota_usage.as_values()
    fleet.end("uid-rival")
    fleet.now += 11.0
    fleet.decide()
    assert fleet.node_of("high") == "b"


def test_a_pod_that_is_being_deleted_keeps_no_room() -> None:
    fleet = preempting("high")
    fleet.engine.observe_pod(waiting("high", deleting=True), fleet.now)
    assert not fleet.engine.state.holds
    assert under_way(fleet, "high") is None


def test_a_pod_that_left_its_selection_keeps_no_room() -> None:
    fleet = preempting("high")
    fleet.engine.unbound_pods.leave_selection("uid-high", 900, fleet.now)
    assert not fleet.engine.state.holds
    fleet.engine.observe_pod(waiting("high"), fleet.now)  # it waits after all
    fleet.decide()
    assert under_way(fleet, "high") is not None


def test_who_waits_for_others_on_a_node_that_another_program_chose_is_tried_once_they_have_ended() -> None:
    """The pod that ends there holds no card: nothing that it leaves would help by itself."""
    fleet = Fleet([node("a", cards("a", 1))])
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    nominated_where_a_pod_ends(fleet, "a")
    assert fleet.last["high"].message.endswith("not eligible due to a terminating pod on the nominated node.")
    fleet.engine.remove_pod("uid-drained", fleet.now)
    fleet.now += 20.0  # past its back-off
    fleet.decide()
    found = under_way(fleet, "high")
    assert found is not None
    assert [victim.pod for victim in found.victims] == ["default/low"]


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("group", ["", "gang"])
def test_what_ends_on_a_node_that_is_gone_is_not_waited_for(group: str, *, comes_back: bool) -> None:
    fleet = Fleet([node("a", cards("a", 1)), node("b", [])])
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    nominated_where_a_pod_ends(fleet, "b", group)
    assert fleet.last["high"].message.endswith("not eligible due to a terminating pod on the nominated node.")
    fleet.engine.remove_node("b")
    fleet.engine.remove_pod("uid-drained", fleet.now)
    if comes_back:
        fleet.engine.observe_node(node("b", []), fleet.now)
    fleet.now += 20.0  # past its back-off
    fleet.decide()
    assert under_way(fleet, "high") is not None


@pytest.mark.parametrize("priority", [1, 50])
def test_the_priority_of_its_group_says_whether_a_pod_that_ends_is_waited_for(priority: int) -> None:
    fleet = Fleet([node("a", cards("a", 1))])
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.engine.groups.observe_object(pod_group("job", priority=priority))
    nominated_where_a_pod_ends(fleet, "a", schedulingGroup={"podGroupName": "job"})
    is_waited_for = "not eligible due to a terminating pod" in fleet.last["high"].message
    assert (is_waited_for, under_way(fleet, "high") is not None) == (priority == 1, priority == 50)


def nominated_where_a_pod_ends(fleet: Fleet, where: str, group: str = "", **drained_spec: Any) -> None:
    """Have another program end a pod without cards on a node, nominate a pod of ours to it, and decide.

    Parameters
    ----------
    group
        The pod is the only one of this group.
    drained_spec
        Further fields of the pod that ends.
    """
    drained = pod_object(
        "drained", {}, scheduler="another", nodeName=where, priority=0, deleting=True, started=True, **drained_spec
    )
    drained["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    ]
    fleet.engine.observe_pod(decode_pod(drained), fleet.now)
    notes = in_group(group, 1) if group else {}
    high = pod_object("high", asks(gpumem=8000), priority=5, version=900, annotations=notes)
    high["status"]["nominatedNodeName"] = where
    fleet.engine.observe_pod(decode_pod(high), fleet.now)
    fleet.decide()


def test_who_gives_up_those_it_waited_for_looks_for_others_at_its_next_attempt() -> None:
    fleet = preempting("high")
    engine = fleet.engine
    engine.observe_pod(waiting("high", labels={"changed": "yes"}), fleet.now)
    fleet.decide()
    assert fleet.last["high"].message.endswith("not eligible due to a terminating pod on the nominated node.")
    engine.preemptions.retry("uid-high", fleet.now, 0.0)
    assert under_way(fleet, "high") is None
    fleet.now += 20.0
    fleet.decide()
    assert under_way(fleet, "high") is not None


def test_a_pod_that_may_preempt_no_more_keeps_no_room_when_it_is_tried_again() -> None:
    fleet = preempting("high")
    fleet.engine.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": False}}))
    fleet.now += 400.0
    fleet.decide()
    assert not fleet.engine.state.holds


def test_what_must_not_end_any_more_is_said() -> None:
    fleet = preempting("high")
    preemptions = fleet.engine.preemptions
    (victim,) = preemptions.still_there("uid-high")
    chosen = fleet.engine.state.pod(victim.uid)
    assert chosen is not None
    assert preemptions.forbids("uid-high", chosen, fleet.now) == ""
    kept = {"priority": 9, "preemption": {"mayPreempt": True, "preemptible": False}}
    fleet.engine.policy_tracker.observe(policy("kept", kept))
    assert preemptions.forbids("uid-high", chosen, fleet.now) == f"pod {victim.pod} must not be evicted any more"
    fleet.engine.policy_tracker.observe(policy("kept", {"priority": 9, "preemption": {"mayPreempt": False}}))
    forbidden = preemptions.forbids("uid-high", chosen, fleet.now)
    assert forbidden == "no policy lets the pod preempt others any more"
    assert preemptions.forbids("uid-nobody", chosen, fleet.now) == "the pod is gone"


def nominated(name: str, where: str, **more: object) -> Pod:
    """Return a pod of higher priority that is nominated to a node."""
    found = pod_object(name, asks(gpumem=8000), priority=5, version=900, **more)  # type: ignore[arg-type]
    found["status"]["nominatedNodeName"] = where
    return decode_pod(found)


def test_nothing_is_restored_for_who_does_not_wait_or_where_no_node_is() -> None:
    fleet = preempting()
    fleet.engine.observe_pod(nominated("there", "a"), fleet.now)
    fleet.engine.observe_pod(nominated("nowhere", "gone"), fleet.now)
    fleet.engine.observe_pod(nominated("deleted", "a", deleting=True), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    assert not fleet.engine.state.holds, "nobody ends there: who has nominated the pod is not known"
    fleet.engine.remove_pod("uid-deleted", fleet.now)
    low = fleet.objects["uid-low0"]
    low["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "901"}
    low["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    fleet.engine.observe_pod(decode_pod(low), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    assert {hold.uid for hold in fleet.engine.state.holds} == {"uid-there"}
    assert [victim.uid for victim in fleet.engine.preemptions.still_there("uid-there")] == ["uid-low0"]
    assert dict(fleet.engine.earlier_nominations.nominated()) == {"uid-there": "a", "uid-nowhere": "gone"}


def test_a_victim_that_an_earlier_leader_has_recorded_counts_once() -> None:
    fleet = preempting()
    fleet.engine.preemptions.evaluator.unix_ahead = 1767225600.0
    recorded = {"time": "2026-01-01T00:00:00Z", "pod": "default/low1", "uid": "uid-low1", "node": "a"}
    known = policy_object("preempts", {"preemption": {"mayPreempt": True, "perHour": 1}})
    known["status"] = {"evictions": [recorded]}
    fleet.engine.policy_tracker.observe(decode_policy(known))
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    found = under_way(fleet, "high")
    assert found is not None, fleet.last["high"].message
    assert [victim.uid for victim in found.victims] == ["uid-low1"]
    fleet.come("other", 5, asks(gpumem=8000))
    fleet.decide()
    assert "allows 0 more evictions within the hour, and 1 is needed" in fleet.last["other"].message


def test_a_policy_that_is_created_anew_starts_anew() -> None:
    fleet = preempting()
    limits = fleet.engine.preemptions.evaluator.limits
    allowed = policy_object("preempts", {"preemption": {"mayPreempt": True, "perHour": 1}})
    fleet.engine.policy_tracker.observe(decode_policy(allowed))
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    rules = fleet.engine.preemptions.rules_of("uid-high")
    limits.commit("uid-low0")
    limits.commit("uid-low1")
    assert limits.exceeded(rules, ["uid-low2"], fleet.now) is not None
    anew = policy_object("preempts", allowed["spec"])
    anew["metadata"]["uid"] = "another"
    fleet.engine.policy_tracker.observe(decode_policy(anew))
    assert limits.exceeded(rules, ["uid-low2"], fleet.now) is None


def test_a_victim_that_two_wait_for_counts_until_neither_does() -> None:
    fleet = Fleet([node("a", cards("a", 1))], preemption={"mayPreempt": True, "perHour": 1})
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    for name in ("one", "two"):
        fleet.come(name, 5, asks(gpumem=3000))
        fleet.decide()
        assert [victim.pod for victim in fleet.victims_of[f"uid-{name}"].victims] == ["default/low"]
    preemptions = fleet.engine.preemptions
    rules, limits = preemptions.rules_of("uid-one"), preemptions.evaluator.limits
    preemptions.withdraw("uid-one")
    assert limits.exceeded(rules, ["uid-another"], fleet.now) is not None
    preemptions.withdraw("uid-two")
    assert limits.exceeded(rules, ["uid-another"], fleet.now) is None


def test_who_could_not_be_evicted_may_be_a_victim_again_once_its_budgets_change() -> None:
    fleet = Fleet([node("a", cards("a", 1))])
    fleet.come("low", 0, asks(gpumem=8000), labels={"app": "web"})
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    kind, evaluator = fleet.engine.kinds["PodDisruptionBudget"], fleet.engine.preemptions.evaluator
    (high,) = (each for each in fleet.engine.state.pods() if each.name == "high")

    def is_victim() -> bool:
        return evaluator.search(high, fleet.now).preemption is not None

    def change(version: int, **labels: str) -> None:
        metadata = {"namespace": "default", "name": "web", "uid": "b", "resourceVersion": str(version)}
        spec, status = {"selector": {"matchLabels": labels}}, {"disruptionsAllowed": 1}
        kind.observe(decode_budget({"metadata": metadata, "spec": spec, "status": status}), fleet.now)

    change(1, app="web")
    evaluator.exclude("uid-low", 600.0)
    assert not is_victim()
    assert evaluator.search(high, fleet.now).retry_at == 600.0
    change(2, app="db")
    assert is_victim(), "no budget selects it any more"
    evaluator.exclude("uid-low", 600.0)
    change(3, app="db", tier="none")
    assert not is_victim(), "the budget of others says nothing of it"
    change(4, app="web")
    evaluator.exclude("uid-low", 600.0)
    change(5, app="web")
    assert not is_victim(), "the budget says what it said"
    fleet.now = 600.0
    assert is_victim()
    evaluator.exclude("uid-low")
    change(6, app="db")
    assert not is_victim(), "it does not end, whatever budgets say"


def test_a_pod_that_ends_is_waited_for_though_its_eviction_was_refused_once() -> None:
    """Nobody is evicted whose end it makes needless; one that is stuck is not waited for."""
    fleet = Fleet([node("a", cards("a", 1))])
    for name, priority in (("low", 1), ("lower", 0)):
        fleet.come(name, priority, asks(gpumem=4000))
    fleet.decide()
    evaluator = fleet.engine.preemptions.evaluator
    evaluator.exclude("uid-lower", 600.0)
    lower = fleet.engine.state.pod("uid-lower")
    assert lower is not None
    ends = msgspec.structs.replace(lower, deleting=True, resource_version=900, ends_by=100)
    fleet.engine.observe_pod(ends, fleet.now)
    high = pod("high", asks(gpumem=3000), priority=5)
    fleet.engine.state.observe_pod(high, {})

    def victims(now: float) -> list[tuple[str, bool]]:
        found = evaluator.search(high, now).preemption
        assert found is not None
        return [(victim.pod, victim.terminating) for victim in found.victims]

    assert victims(0.0) == [("default/lower", True)]
    assert victims(219.0) == [("default/lower", True)]
    assert victims(220.0) == [("default/low", False)]


def test_who_waits_for_an_excluded_pod_is_tried_again_once_its_budget_allows_fewer() -> None:
    fleet = Fleet([node("a", cards("a", 1))])
    fleet.come("low", 0, asks(gpumem=8000), labels={"app": "web"})
    fleet.decide()
    kind = fleet.engine.kinds["PodDisruptionBudget"]
    kind.observe(budget("web", 2), fleet.now)
    evaluator = fleet.engine.preemptions.evaluator
    evaluator.exclude("uid-low")
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert not fleet.last["high"].helped_by & ClusterEvent.BUDGET_TIGHTENED, "it is no victim, whatever budgets say"
    evaluator.exclude("uid-low", 600.0)
    fleet.engine.observe_pod(waiting("high", labels={"changed": "yes"}), fleet.now)
    fleet.now += 20.0
    fleet.decide()
    assert under_way(fleet, "high") is None
    assert fleet.last["high"].helped_by & ClusterEvent.BUDGET_TIGHTENED
    fleet.now += 20.0
    kind.observe(msgspec.structs.replace(budget("web", 1), resource_version=2), fleet.now)
    fleet.decide()
    assert under_way(fleet, "high") is not None


def test_nothing_is_restored_on_a_node_that_is_gone_while_its_pods_are_there() -> None:
    fleet = preempting()
    fleet.engine.remove_node("a", 900)
    fleet.engine.observe_pod(nominated("high", "a"), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    assert not fleet.engine.state.holds


def test_what_one_pod_leaves_is_kept_once_for_two_who_wait_for_it() -> None:
    fleet = Fleet([node("a", cards("a", 1, count=9))])
    fleet.come("low", 0, asks(gpumem=4000))
    fleet.decide()
    state = fleet.engine.state
    for name in ("first", "second"):
        fleet.come(name, 5, asks(gpumem=3000))
        asked = state.pod(f"uid-{name}")
        assert asked is not None
        placement = fleet.engine.algorithm.decide(asked).placement
        assert placement is not None
        state.add_hold(fleet.engine.preemptions.hold_for(asked, placement, ["uid-low"]))
    assert state.ledger()["a"]["a-gpu-0"][1] == 6000, "what both will hold is more than what leaves"
    assert not state.drift()
    fleet.end("uid-low")
    assert state.ledger()["a"]["a-gpu-0"][1] == 6000
