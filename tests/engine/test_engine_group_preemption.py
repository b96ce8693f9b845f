"""Groups that have others end for them: room for as many of their pods as are needed, or nobody ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import allocation, asks, cards, in_group, node
from tests.engine.preemption_fleet import CREATED, Fleet
from tests.engine.test_engine_preemption import budget
from tests.engine.test_engine_preemption_whole_groups import pod_group, runs, units
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome


class Groups(Fleet):
    """A fleet of nodes with labels of their names, whose pods are decided with their groups."""

    def __init__(self, *names: str, gpus: int = 1, racks: dict[str, str] | None = None, **rules: Any) -> None:
        labels = {name: {"name": name, **({"rack": racks[name]} if racks else {})} for name in names}
        nodes = [node(name, cards(name, gpus), labels=labels[name]) for name in names]
        super().__init__(nodes, preemption={"mayPreempt": True} | rules)

    def decide(self) -> None:
        while decisions := self.engine.schedule_next(self.now):
            for decision in decisions:
                self._take(decision)

    def _take(self, decision: Decision) -> None:
        self.last[decision.pod.partition("/")[2]] = decision
        if decision.outcome is Outcome.PLACED:
            self.victims_of.pop(decision.uid, None)
            self._bind(decision)
        elif decision.preemption is not None:
            self.victims_of[decision.uid] = decision.preemption

    def gang(self, number: int, memory: int = 8000, priority: int = 9, minimum: int = 0, gpus: int = 1) -> None:
        """Have a group of pods come, all of which are needed unless it says otherwise."""
        notes = in_group("gang", minimum or number)
        for member in range(number):
            self.come(f"gang-{member}", priority, asks(gpus, memory), annotations=notes)
        self.decide()

    def ending(self) -> list[str]:
        """Return the victims that are there still, of all preemptions that are under way."""
        under_way = self.engine.preemptions.under_way()
        return sorted(victim.pod.partition("/")[2] for _, found in under_way for victim in found.victims)

    def kept(self) -> dict[str, str]:
        """Return the nodes on which room is kept, by pod."""
        return {hold.reservation.pod.partition("/")[2]: hold.node for hold in self.engine.state.holds}

    def where(self, number: int) -> list[str]:
        return [self.node_of(f"gang-{member}") for member in range(number)]


def full(*names: str, **rules: Any) -> Groups:
    """Return a fleet on each node of which a pod has the only card."""
    fleet = Groups(*names, **rules)
    for number, name in enumerate(names):
        runs(fleet, f"low-{name}", number, name, labels={"app": "low"})
    return fleet


def test_room_is_made_for_all_pods_of_a_group_and_they_are_placed_at_once_when_the_last_victim_has_gone() -> None:
    fleet = full("a", "b", "c")
    fleet.gang(2)
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}
    assert fleet.ending() == ["low-a", "low-b"]
    together = ("uid-gang-0", "uid-gang-1")
    assert [fleet.engine.preemptions.of(uid).gang for uid in together] == [together] * 2
    fleet.end("uid-low-a")
    fleet.decide()
    assert fleet.where(2) == ["", ""]
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}, "what has gone is kept, too"
    fleet.end("uid-low-b")
    fleet.decide()
    assert fleet.where(2) == ["a", "b"]
    assert not fleet.engine.state.holds
    assert not fleet.engine.preemptions.under_way()
    assert not fleet.engine.state.drift()


def test_nobody_ends_for_a_group_that_would_not_get_room_for_all() -> None:
    fleet = full("a", "b")
    before = fleet.engine.state.ledger()
    fleet.gang(3)
    assert not fleet.kept()
    assert fleet.ending() == []
    assert fleet.engine.state.ledger() == before
    assert {fleet.last[f"gang-{member}"].outcome for member in range(3)} == {Outcome.UNSCHEDULABLE}
    reason = "preemption: pod default/gang-2: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    assert fleet.last["gang-0"].message.endswith(reason)
    assert not fleet.engine.state.drift()


def test_who_needs_no_victims_gets_room_that_is_free_and_it_is_kept_for_it() -> None:
    fleet = full("a", "b")
    fleet.engine.remove_pod("uid-low-b", 0.0)
    fleet.gang(2)
    assert fleet.kept() == {"gang-0": "b", "gang-1": "a"}
    assert fleet.ending() == ["low-a"]
    fleet.come("other", 9, asks(gpumem=1000))
    fleet.decide()
    assert fleet.node_of("other") == "", "nobody of the same priority gets what is kept"
    fleet.end("uid-low-a")
    fleet.decide()
    assert fleet.where(2) == ["b", "a"]


def test_what_one_victim_leaves_is_enough_for_several_pods() -> None:
    fleet = full("a", "b")
    fleet.gang(3, memory=2500)
    assert fleet.ending() == ["low-a"]
    assert set(fleet.kept().values()) == {"a"}
    fleet.end("uid-low-a")
    fleet.decide()
    assert fleet.where(3) == ["a", "a", "a"]


def test_pods_that_must_not_be_on_one_node_get_room_on_different_ones() -> None:
    fleet = full("a", "b")
    term = {"labelSelector": {"matchLabels": {"of": "gang"}}, "topologyKey": "name"}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for member in range(2):
        notes = in_group("gang", 2)
        fleet.come(f"gang-{member}", 9, asks(gpumem=1000), annotations=notes, labels={"of": "gang"}, **apart)
    fleet.decide()
    assert sorted(fleet.kept().values()) == ["a", "b"]
    for name in ("a", "b"):
        fleet.end(f"uid-low-{name}")
    fleet.decide()
    assert sorted(fleet.where(2)) == ["a", "b"]


def test_victims_are_given_back_that_are_not_needed_once_all_pods_have_their_nodes() -> None:
    """The first pod takes the least important victim, which what the second one needs makes superfluous."""
    fleet = Groups("a")
    for name, priority, memory in (("small", 0, 3000), ("large", 1, 5000)):
        runs(fleet, name, priority, "a", memory=memory)
    fleet.gang(2, memory=2500)
    assert fleet.ending() == ["large"]
    assert set(fleet.kept().values()) == {"a"}


@pytest.mark.parametrize(("gone", "left"), [("gang-1", {}), ("low-a", {"gang-0": "a", "gang-1": "b"})])
def test_the_room_of_all_is_given_back_when_one_of_them_is_gone(gone: str, left: dict[str, str]) -> None:
    fleet = full("a", "b")
    fleet.gang(2)
    fleet.engine.remove_pod(f"uid-{gone}", fleet.now)
    assert fleet.kept() == left


def test_no_room_is_kept_for_a_pod_whose_group_becomes_incomplete() -> None:
    """It was more than its group needed, and now others are needed that are not there."""
    fleet = Groups("a", "b")
    fleet.engine.groups.observe_object(pod_group("gang", minimum=1, priority=9))
    of_group = {"schedulingGroup": {"podGroupName": "gang"}}
    for name in ("a", "b"):
        runs(fleet, f"low-{name}", 0, name)
    fleet.come("gang-0", 9, asks(gpumem=8000), **of_group)
    fleet.decide()
    assert fleet.kept() == {"gang-0": "a"}
    fleet.engine.groups.observe_object(pod_group("gang", minimum=2, priority=9, version=2))
    fleet.end("uid-low-a")
    fleet.decide()
    assert not fleet.kept()
    assert fleet.node_of("gang-0") == ""


def test_no_others_are_searched_while_victims_end() -> None:
    fleet = full("a", "b", "c")
    fleet.gang(2)
    under_way, attempts = fleet.engine.preemptions.under_way(), fleet.engine.preemptions.evaluator.attempts
    for member in range(2):
        fleet.engine.queue.add(f"uid-gang-{member}", 9, fleet.now)
    fleet.decide()
    assert fleet.engine.preemptions.under_way() == under_way
    assert fleet.engine.preemptions.evaluator.attempts == attempts
    for member in range(2):
        message = fleet.last[f"gang-{member}"].message
        assert message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


def test_a_group_whose_minimum_has_risen_gets_room_for_all_that_are_needed_now() -> None:
    fleet = full("a", "b", "c")
    fleet.engine.groups.observe_object(pod_group("gang", minimum=2, priority=9))
    for member in range(3):
        fleet.come(f"gang-{member}", 0, asks(gpumem=8000), schedulingGroup={"podGroupName": "gang"})
    fleet.decide()
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}
    fleet.engine.groups.observe_object(pod_group("gang", minimum=3, priority=9, version=2))
    fleet.now = 60.0
    fleet.decide()
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b", "gang-2": "c"}
    assert fleet.ending() == ["low-a", "low-b", "low-c"]


def test_the_priority_of_the_group_decides_who_may_end() -> None:
    fleet = full("a", "b")
    fleet.engine.groups.observe_object(pod_group("gang", minimum=2, priority=1))
    for member in range(2):
        fleet.come(f"gang-{member}", 1000, asks(gpumem=8000), schedulingGroup={"podGroupName": "gang"})
    fleet.decide()
    assert not fleet.kept()
    fleet.engine.groups.observe_object(pod_group("gang", minimum=2, priority=2, version=2))
    fleet.decide()
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}
    assert {hold.priority for hold in fleet.engine.state.holds} == {2}


def test_what_is_asked_of_a_node_goes_by_the_priority_of_the_group() -> None:
    fleet = full("a")
    fleet.engine.groups.observe_object(pod_group("gang", minimum=1, priority=9))
    fleet.come("kept-for", 5, asks(gpumem=8000))
    fleet.decide()
    assert fleet.kept() == {"kept-for": "a"}
    fleet.come("gang-0", 0, asks(gpumem=8000), schedulingGroup={"podGroupName": "gang"})
    asked = fleet.engine.state.pod("uid-gang-0")
    assert asked is not None
    assert fleet.engine.algorithm.node_fit.fits_without(asked, "a", ["uid-low-a"]) is not None


def test_without_an_object_the_lowest_pod_tells_the_priority_of_the_group() -> None:
    fleet = full("a", "b")
    for name, priority in (("gang-0", 9), ("gang-1", 1)):
        fleet.come(name, priority, asks(gpumem=8000), annotations=in_group("gang", 2))
    fleet.decide()
    assert not fleet.kept(), "the pod on node b has priority 1, too"


def test_room_is_made_within_one_domain() -> None:
    racks = {"a": "x", "b": "y", "c": "y", "d": "x"}
    fleet = Groups(*racks, racks=racks)
    for name, priority in (("a", 0), ("b", 1), ("c", 2), ("d", 20)):
        runs(fleet, f"low-{name}", priority, name)
    notes = {**in_group("gang", 2), "kueue.x-k8s.io/podset-required-topology": "rack"}
    for member in range(2):
        fleet.come(f"gang-{member}", 9, asks(gpumem=8000), annotations=notes)
    fleet.decide()
    assert fleet.kept() == {"gang-0": "b", "gang-1": "c"}
    for name in ("b", "c"):
        fleet.end(f"uid-low-{name}")
    fleet.decide()
    assert fleet.where(2) == ["b", "c"]


def test_what_may_change_the_answer_of_any_domain_has_the_group_be_tried_again() -> None:
    """In the first domain somebody of higher priority is in the way, in the second one the limit of evictions."""
    fleet = Groups("a", "b", racks={"a": "x", "b": "y"}, gpus=2, perHour=1)
    fleet.run("top", 20, "a", allocation("a", ("a-gpu-0", 8000, 0)))
    for number in range(2):
        runs(fleet, f"low{number}", 0, "b")
    notes = {**in_group("gang", 2), "kueue.x-k8s.io/podset-required-topology": "rack"}
    for member in range(2):
        fleet.come(f"gang-{member}", 9, asks(gpumem=8000), annotations=notes)
    fleet.decide()
    decision = fleet.last["gang-0"]
    assert decision.helped_by & ClusterEvent.BUDGET_TIGHTENED


def test_a_budget_counts_the_victims_of_all_pods() -> None:
    fleet = full("a", "b")
    fleet.engine.budgets.observe(budget("low", 1))
    fleet.gang(2)
    assert not fleet.kept()
    assert "PodDisruptionBudgets protect the victims" in fleet.last["gang-0"].message
    fleet.engine.budgets.observe(budget("low", 2))
    fleet.engine.queue.add("uid-gang-0", 9, fleet.now)
    fleet.decide()
    assert fleet.ending() == ["low-a", "low-b"]


def test_evictions_of_an_hour_count_the_victims_of_all_pods() -> None:
    fleet = full("a", "b", perHour=1)
    fleet.gang(2)
    assert not fleet.kept()
    assert "allows 1 more eviction within the hour, and 2 are needed." in fleet.last["gang-0"].message


def test_a_group_one_pod_of_which_may_not_preempt_has_nobody_end() -> None:
    fleet = full("a", "b")
    notes = in_group("gang", 2)
    fleet.come("gang-0", 9, asks(gpumem=8000), annotations=notes)
    fleet.come("gang-1", 9, asks(gpumem=8000), annotations=notes, preemptionPolicy="Never")
    fleet.decide()
    assert not fleet.kept()
    assert fleet.last["gang-0"].message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_pod_of_higher_priority_that_takes_the_room_of_one_has_all_be_decided_anew() -> None:
    fleet = full("a", "b", "c")
    fleet.gang(2)
    fleet.end("uid-low-a")
    fleet.come("urgent", 50, asks(gpumem=8000))
    fleet.decide()
    assert fleet.node_of("urgent") == "a"
    fleet.now = 60.0
    fleet.engine.queue.flush_due(fleet.now)
    fleet.decide()
    assert fleet.kept() == {"gang-0": "b", "gang-1": "c"}


def test_groups_that_end_whole_end_whole_for_groups_too() -> None:
    fleet = Groups("a", "b", "c")
    fleet.engine.groups.observe_object(pod_group("job"))
    for name in "abc":
        runs(fleet, f"job-{name}", 0, name, "job")
    fleet.gang(2)
    assert fleet.ending() == ["job-a", "job-b", "job-c"]
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}


def test_a_leader_that_takes_over_keeps_the_room_of_all_nominated_pods() -> None:
    fleet = full("a", "b", "c")
    fleet.engine.remove_pod("uid-low-b", 0.0)
    notes = in_group("gang", 2)
    for member, on in enumerate(("a", "b")):
        fleet.come(f"gang-{member}", 9, asks(gpumem=8000), annotations=notes)
        obj = fleet.objects[f"uid-gang-{member}"]
        obj["metadata"]["resourceVersion"], obj["status"]["nominatedNodeName"] = f"80{member}", on
        fleet.engine.observe_pod(decode_pod(obj), fleet.now)
    ends = fleet.objects["uid-low-a"]
    ends["metadata"] |= {"deletionTimestamp": CREATED, "resourceVersion": "810"}
    ends["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    fleet.engine.observe_pod(decode_pod(ends), fleet.now)
    earlier = fleet.engine.earlier_nominations
    assert sorted(earlier.restorable()) == [("uid-gang-0", "a"), ("uid-gang-1", "b")]
    earlier.restore(fleet.now, {"uid-gang-1"})
    assert not fleet.kept(), "one of them is somebody else's nomination: there are too few"
    earlier.restore(fleet.now)
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}
    assert fleet.ending() == ["low-a"]
    fleet.decide()
    assert fleet.where(2) == ["", ""]
    fleet.end("uid-low-a")
    fleet.decide()
    assert fleet.where(2) == ["a", "b"]


@pytest.mark.parametrize("topology", [{}, {"kueue.x-k8s.io/podset-required-topology": "rack"}], ids=["", "near"])
def test_a_nomination_is_restored_as_it_was_made(topology: dict[str, str]) -> None:
    """A pod that a group does not need is a group of its own where it has to be near the others."""
    fleet = Groups("a", "b", racks=dict.fromkeys("ab", "x"))
    notes = {**in_group("gang", 1), **topology}
    for number, name in enumerate("ab"):
        fleet.come(f"gang-{number}", 9, asks(gpumem=8000), annotations=notes, nodeSelector={"name": name})
        if not number:
            fleet.decide()
            runs(fleet, "low-b", 0, "b")
    fleet.decide()
    preemptions, uid = fleet.engine.preemptions, "uid-gang-1"
    made = preemptions.of(uid)
    assert made is not None
    preemptions.withdraw(uid)
    obj, ends = fleet.objects[uid], fleet.objects["uid-low-b"]
    obj["metadata"]["resourceVersion"], obj["status"]["nominatedNodeName"] = "801", "b"
    ends["metadata"] |= {"deletionTimestamp": CREATED, "resourceVersion": "810"}
    ends["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    for each in (obj, ends):
        fleet.engine.observe_pod(decode_pod(each), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    restored = preemptions.of(uid)
    assert restored is not None
    assert (restored.gang, restored.node) == (made.gang, "b")


def test_pods_that_could_not_be_bound_get_their_room_again() -> None:
    fleet = full("a", "b")
    fleet.gang(2)
    for name in "ab":
        fleet.end(f"uid-low-{name}")
    placed = fleet.engine.schedule_next(fleet.now)
    assert [decision.outcome for decision in placed] == [Outcome.PLACED] * 2
    for decision in placed:
        fleet.engine.unreserve(decision.uid, fleet.now)
    assert fleet.kept() == {"gang-0": "a", "gang-1": "b"}
    fleet.now = 60.0
    fleet.engine.queue.flush_due(fleet.now)
    fleet.decide()
    assert fleet.where(2) == ["a", "b"]


def test_room_that_is_kept_again_is_kept_at_the_priority_that_it_was_taken_with() -> None:
    """That of the group is its lowest pod's: the highest alone would keep away who may take that room."""
    fleet = full("a", "b")
    for name, priority in (("gang-0", 9), ("gang-1", 5)):
        fleet.come(name, priority, asks(gpumem=8000), annotations=in_group("gang", 2))
    fleet.decide()
    assert {hold.priority for hold in fleet.engine.state.holds} == {5}
    for name in "ab":
        fleet.end(f"uid-low-{name}")
    for decision in fleet.engine.schedule_next(fleet.now):
        fleet.engine.unreserve(decision.uid, fleet.now)
    assert sorted(fleet.kept()) == ["gang-0", "gang-1"]
    assert {hold.priority for hold in fleet.engine.state.holds} == {5}


# In random worlds ----------------------------------------------------------------------------------------------------


def crowded(rng: np.random.Generator) -> Groups:
    """Return a fleet that is rather full of pods, some of which end whole; nobody has had others end, or waits."""
    fleet = Groups(*"abcd", gpus=int(rng.integers(1, 3)), mayPreempt=False)
    fleet.engine.groups.observe_object(pod_group("whole"))
    for number in range(14):
        group: dict[str, Any] = {"schedulingGroup": {"podGroupName": "whole"}} if rng.random() < 0.3 else {}
        resources = asks(int(rng.choice([1, 1, 2])), int(rng.choice([2000, 4000, 8000])))
        fleet.come(f"p{number}", int(rng.integers(0, 6)), resources, labels={"app": "web"}, **group)
        fleet.decide()
        if not fleet.node_of(f"p{number}"):
            fleet.end(f"uid-p{number}")
    return fleet


def fits_once_gone(engine: Engine, gone: set[str], needed: int) -> bool:
    """Tell whether the group is placed where some pods are gone."""
    first = engine.state.pod("uid-gang-0")
    group = None if first is None else engine.groups.status_of(first)
    assert group is not None
    with engine.state.without(gone):
        before = engine.attempts.reserver.before()
        decisions = engine.attempts._group_attempts.decide(group, explain=False)
        placed = [each for each in decisions if each.placement is not None]
        engine.attempts.reserver.undo(placed, before)
    return len(placed) >= needed


WORLDS = [range(60), *(pytest.param(range(at, at + 300), marks=pytest.mark.long) for at in (1000, 1300))]


@pytest.mark.parametrize("seeds", WORLDS, ids=str)
def test_in_random_worlds_room_is_made_for_all_that_are_needed_and_for_no_fewer(seeds: range) -> None:
    told = [outcome_of(seed) for seed in seeds]
    assert min(told.count("room"), told.count("none")) > len(seeds) // 10, told


def outcome_of(seed: int) -> str:
    """Check what becomes of a group in one world; say what that is."""
    rng = np.random.default_rng(seed)
    fleet = crowded(rng)
    engine = fleet.engine
    allowed = int(rng.integers(0, 5)) if rng.random() < 0.3 else None
    if allowed is not None:
        engine.budgets.observe(budget("web", allowed))
    engine.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": True}}))
    number, memory, gpus = int(rng.integers(2, 5)), int(rng.choice([2000, 4000, 8000])), int(rng.choice([1, 1, 2]))
    priority = int(rng.integers(1, 8))
    ledger = engine.state.ledger()
    fleet.gang(number, memory, priority, gpus=gpus)
    if fleet.where(number) != [""] * number:
        assert "" not in fleet.where(number)
        return "fits"
    ending = {f"uid-{name}" for name in fleet.ending()}
    together = [unit for unit in units(engine) if ending.intersection(each.uid for each, _ in unit)]
    assert ending == {each.uid for unit in together for each, _ in unit}, "a group does not end in parts"
    assert all(of < priority for unit in together for _, of in unit)
    assert allowed is None or len(ending) <= allowed
    lower = {each.uid for unit in units(engine) if all(of < priority for _, of in unit) for each, _ in unit}
    if not fleet.kept():
        assert not ending
        assert engine.state.ledger() == ledger
        assert allowed is not None or not fits_once_gone(engine, lower, number), (seed, "room could have been made")
        return "none"
    assert len(fleet.kept()) == number
    assert not engine.state.drift()
    holds = dict(fleet.kept())
    for uid in ending:
        fleet.end(uid)
    fleet.decide()
    assert dict(zip((f"gang-{member}" for member in range(number)), fleet.where(number), strict=True)) == holds
    return "room"
