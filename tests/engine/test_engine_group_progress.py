"""What policies say of groups: how many pods they need, and for how long they may run with fewer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, in_group, node, pod
from tests.engine.test_engine_relist import relisted
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine, GroupProgress, StaleGroup
from vgpu_scheduler.intake import POD_GROUPS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.policy import Policies, PolicyDefaults, WhenStale

KIND = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.scheduling.x-k8s.io")


def labelled(name: str, **more: Any) -> Pod:
    """Return a pod of a group whose object says how many are needed."""
    return pod(name, asks(1, 8000), labels={"scheduling.x-k8s.io/pod-group": "team"}, **more)


def attempt(engine: Engine, now: float = 0.0) -> list[tuple[str, Outcome]]:
    return [(each.pod.partition("/")[2], each.outcome) for each in engine.schedule_next(now)]


def groups_policy(engine: Engine, **section: Any) -> None:
    engine.policy_tracker.observe(policy("groups", {"groups": section}))


# ------------------------------------------------------------------------------------------------------------- minimum


def test_the_section_comes_from_the_policy_that_ranks_highest() -> None:
    policies = Policies(PolicyDefaults())
    assert policies.resolve(labelled("p")).groups.minimum is None
    policies.catalogue.put(policy("low", {"groups": {"minimum": 2, "holdAfter": "1m"}}))
    policies.catalogue.put(policy("high", {"priority": 1, "groups": {"staleAfter": "1m", "whenStale": "Evict"}}))
    found = policies.resolve(labelled("p"))
    rules = found.groups
    assert (rules.minimum, rules.stale_after, rules.when_stale) == (None, 60.0, WhenStale.EVICT)
    assert rules.hold_after is None
    assert found.source_of["groups"] == "ClusterVGPUPolicy high"


def test_a_policy_says_how_many_are_needed_where_nobody_serves_the_object() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    groups_policy(engine, minimum=2)
    engine.observe_pod(labelled("p0"), 0.0)
    assert not engine.request_warnings_of(labelled("p0"))
    [decision] = engine.schedule_next(0.0)
    assert decision.message == "waits for other pods of its group default/team: 2 are needed before any is placed."
    engine.observe_pod(labelled("p1", priority=7), 0.0)
    assert attempt(engine) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_an_object_that_needs_none_counts_before_a_policy() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    groups_policy(engine, minimum=4)
    metadata = {"name": "team", "namespace": "default", "uid": "team", "resourceVersion": "10"}
    relisted(engine, KIND, [KIND.decode({"metadata": metadata, "spec": {"minMember": 0}})], 20)
    engine.observe_pod(labelled("p0"), 0.0)
    assert attempt(engine) == [("p0", Outcome.PLACED)]


def test_a_policy_says_how_many_are_needed_where_the_object_does_not_exist() -> None:
    engine = engine_with([node("a", cards("a", 2))], [labelled("p0"), labelled("p1")])
    relisted(engine, KIND, [], 5)
    assert attempt(engine) == [("p0", Outcome.UNSCHEDULABLE)]
    groups_policy(engine, minimum=2)
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_an_object_comes_before_policies() -> None:
    engine = engine_with([node("a", cards("a", 2))], [labelled("p0")])
    groups_policy(engine, minimum=2)
    relisted(engine, KIND, [KIND.decode({"metadata": {"name": "team", "uid": "g"}, "spec": {"minMember": 1}})], 5)
    assert attempt(engine) == [("p0", Outcome.PLACED)]


def test_kubernetes_own_pod_groups_are_waited_for_whatever_policies_say() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    groups_policy(engine, minimum=1)
    engine.observe_pod(pod("p0", asks(1, 8000), schedulingGroup={"podGroupName": "team"}), 0.0)
    assert attempt(engine) == [("p0", Outcome.UNSCHEDULABLE)]


# ------------------------------------------------------------------------------------------------------------ progress


class Team:
    """A group of three pods on a node with three cards, and who follows it."""

    def __init__(self) -> None:
        self.engine = engine_with([node("a", cards("a", 3))])
        self.progress: GroupProgress = self.engine.group_progress

    def member(self, name: str, **more: Any) -> Pod:
        return pod(name, asks(1, 8000), annotations=in_group("team", 3), **more)

    def end(self, name: str, phase: str, now: float) -> None:
        held = self.engine.state.reservation(f"uid-{name}")
        assert held is not None
        self.engine.observe_pod(self.member(name, nodeName=held.node, phase=phase, version=9), now)

    def come(self, *names: str, now: float = 0.0) -> None:
        for name in names:
            self.engine.observe_pod(self.member(name), now)

    def bind(self, now: float) -> None:
        """Place and bind all that can be."""
        for _ in range(3):
            for decision in self.engine.schedule_next(now):
                if decision.placement is not None:
                    self.engine.binding_succeeded(decision.uid)

    def stale(self, now: float) -> list[StaleGroup]:
        self.progress.update(now)
        return self.progress.stale_groups(now)


@pytest.fixture
def team() -> Team:
    return Team()


def test_how_long_a_group_took_counts_from_its_first_pod(team: Team) -> None:
    team.come("p0")
    assert team.progress.update(1.0) == []
    assert team.progress.waiting == 1
    team.come("p1", "p2", now=5.0)
    assert team.progress.update(6.0) == []
    for decision in team.engine.schedule_next(7.0):
        assert team.progress.update(8.0) == []  # they are placed, and not bound
        assert team.progress.waiting == 1
        team.engine.binding_succeeded(decision.uid)
    assert team.progress.update(11.0) == [10.0]
    assert team.progress.update(12.0) == []
    assert team.progress.waiting == 0


def test_a_group_that_goes_away_has_not_become_whole(team: Team) -> None:
    team.come("p0")
    assert team.progress.update(1.0) == []
    team.engine.remove_pod("uid-p0", 2.0)
    assert team.progress.update(3.0) == []
    assert team.progress.waiting == 0


def test_a_pod_without_a_group_is_none_of_them(team: Team) -> None:
    team.engine.observe_pod(pod("alone", asks(1, 1000)), 0.0)
    assert team.progress.update(1.0) == []
    assert team.progress.waiting == 0


def test_a_group_that_has_lost_a_pod_is_stale_after_a_time(team: Team) -> None:
    team.come("p0", "p1", "p2")
    team.bind(1.0)
    assert team.stale(1000.0) == []
    team.engine.remove_pod("uid-p1", 1000.0)
    assert team.stale(1000.0) == []
    assert team.stale(1299.0) == []
    [found] = team.stale(1300.0)
    assert [each.name for each in found.pods] == ["p0", "p2"]
    assert found.message == "group default/team has run for more than 300 s with 2 of the 3 pods that it needs"
    assert not found.is_to_end
    assert team.progress.stale == 1
    team.come("p3", now=1301.0)
    assert team.progress.update(1301.0) == []
    assert team.progress.waiting == 1
    team.bind(1302.0)
    assert team.progress.update(1303.0) == [2.0]
    assert team.stale(1304.0) == []
    assert team.progress.stale == 0


def test_pods_that_succeeded_are_not_missing(team: Team) -> None:
    team.come("p0", "p1", "p2")
    team.bind(1.0)
    team.end("p1", "Succeeded", 2.0)
    assert team.stale(10_000.0) == []
    team.end("p2", "Failed", 10_000.0)
    assert team.stale(10_000.0) == []
    assert [each.key.name for each in team.stale(20_000.0)] == ["team"]


def test_a_policy_says_when_a_group_is_stale_and_whether_it_ends(team: Team) -> None:
    groups_policy(team.engine, staleAfter="10s", whenStale="Evict")
    team.come("p0", "p1", "p2")
    team.bind(1.0)
    team.engine.remove_pod("uid-p1", 100.0)
    assert team.stale(100.0) == []
    assert team.stale(109.0) == []
    [found] = team.stale(110.0)
    assert not found.is_to_end, "nobody waits to start together with the others"
    team.engine.observe_node(node("a", cards("a", 2), version=9), 120.0)
    team.come("p3", now=120.0)
    [found] = team.stale(121.0)
    assert found.is_to_end
    groups_policy(team.engine, staleAfter="10s")
    [found] = team.stale(122.0)
    assert not found.is_to_end


def test_a_group_that_lost_the_pod_that_waited_has_not_become_whole(team: Team) -> None:
    team.come("p0", "p1", "p2")
    team.bind(1.0)
    assert team.progress.update(1.0) == []
    team.engine.remove_pod("uid-p1", 5.0)
    team.engine.observe_node(node("a", cards("a", 2), version=9), 5.0)
    team.come("p3", now=5.0)
    assert team.progress.update(6.0) == []
    team.engine.remove_pod("uid-p3", 7.0)
    assert team.progress.update(8.0) == []


def test_pods_that_are_being_bound_are_not_missing(team: Team) -> None:
    groups_policy(team.engine, staleAfter="0s", whenStale="Evict")
    team.come("p0", "p1", "p2", "p3")
    decisions = team.engine.schedule_next(1.0)
    assert len(decisions) == 3
    team.engine.binding_succeeded(decisions[0].uid)
    assert team.stale(100.0) == []


def test_nobody_ends_while_room_is_made_for_the_one_that_waits(team: Team) -> None:
    groups_policy(team.engine, staleAfter="10s", whenStale="Evict", holdAfter="0s")
    team.come("p0", "p1", "p2")
    team.bind(1.0)
    team.engine.remove_pod("uid-p1", 1.0)
    other = allocation("a", ("a-gpu-1", 8000, 0))
    team.engine.observe_pod(pod("other", asks(1, 8000), annotations=other, nodeName="a", started=True), 1.0)
    team.come("p3", now=2.0)
    team.bind(3.0)
    assert [hold.uid for hold in team.engine.state.holds] == ["uid-p3"]
    assert team.stale(3.0) == []
    [found] = team.stale(100.0)
    assert not found.is_to_end


def test_pods_end_only_where_the_policies_of_all_of_them_say_so(team: Team) -> None:
    for name, when in (("p0", "Evict"), ("p2", "Report")):
        section = {"staleAfter": "10s", "whenStale": when}
        selector = {"matchLabels": {"role": name}}
        team.engine.policy_tracker.observe(policy(name, {"selector": selector, "groups": section}))
    for name in ("p0", "p1", "p2"):
        team.engine.observe_pod(team.member(name, labels={"role": name}), 0.0)
    team.bind(1.0)
    team.engine.remove_pod("uid-p1", 1.0)
    team.engine.observe_node(node("a", cards("a", 2), version=9), 1.0)
    team.come("p3", now=1.0)
    assert team.stale(1.0) == []
    [found] = team.stale(100.0)
    assert not found.is_to_end


def test_a_minimum_that_a_policy_raises_is_followed() -> None:
    engine = engine_with([node("a", cards("a", 3))])
    groups_policy(engine, minimum=2, staleAfter="10s")
    for name in ("p0", "p1"):
        engine.observe_pod(labelled(name), 0.0)
    for decision in engine.schedule_next(0.0):
        engine.binding_succeeded(decision.uid)
    engine.group_progress.update(1.0)
    groups_policy(engine, minimum=3, staleAfter="10s")
    engine.group_progress.update(2.0)
    assert [each.key.name for each in engine.group_progress.stale_groups(12.0)] == ["team"]


def test_nothing_is_remembered_of_groups_before_somebody_looks() -> None:
    engine = engine_with([node("a", cards("a", 3))])
    for number in range(20):
        engine.observe_pod(pod(f"p{number}", asks(1, 8000), annotations=in_group(f"g{number}", 3)), 0.0)
        engine.remove_pod(f"uid-p{number}", 0.0)
    assert engine.groups.take_touched(anew=False) == set()


@pytest.mark.parametrize(("scheduler", "number"), [("other", 0), ("vgpu-scheduler", 1)])
def test_pods_of_another_scheduler_are_not_ours_to_end(scheduler: str, number: int) -> None:
    engine = engine_with([node("a", cards("a", 3))])
    groups_policy(engine, staleAfter="0s", whenStale="Evict")
    notes = in_group("team", 3)
    for each in range(2):
        there = pod(
            f"p{each}",
            asks(1, 8000),
            annotations={**notes, **allocation("a", (f"a-gpu-{each}", 8000, 0))},
            nodeName="a",
            scheduler=scheduler,
        )
        engine.observe_pod(there, 0.0)
    engine.group_progress.update(1.0)
    assert len(engine.group_progress.stale_groups(1.0)) == number
