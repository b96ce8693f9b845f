"""Preemption comes from cluster policies alone; a namespace can tighten it, and give up protection, never add to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.policy.resources import policy

from vgpu_scheduler.kube import Namespace, Pod, decode_pod
from vgpu_scheduler.policy import (
    NO_PREEMPTION,
    DisruptionBudgetMode,
    EffectivePolicy,
    Policies,
    PolicyDefaults,
    PolicyResource,
    PreemptionRules,
    VictimScope,
    key_of,
)
from vgpu_scheduler.policy.preemption import PROTECTED, describe_preemption

HOUSE = ("ClusterVGPUPolicy", "", "house")
MINE = ("VGPUPolicy", "team", "mine")


def pod(namespace: str = "team", **annotations: str) -> Pod:
    metadata = {"name": "p", "namespace": namespace, "uid": "u", "labels": {}, "annotations": annotations}
    return decode_pod({"metadata": metadata, "spec": {"containers": []}})


def resolved(*resources: PolicyResource) -> EffectivePolicy:
    return policies(*resources).resolve(pod())


def policies(*resources: PolicyResource) -> Policies:
    made = Policies(PolicyDefaults(strict_annotations=True))
    for resource in resources:
        made.catalogue.put(resource)
    return made


def says(name: str, section: object, namespace: str = "", **more: Any) -> PolicyResource:
    return policy(name, {**more, "preemption": section}, namespace)


def test_without_a_policy_nobody_preempts_and_everybody_can_be_preempted() -> None:
    found = resolved()
    assert found.preemption == NO_PREEMPTION == PreemptionRules(may_preempt=False, preemptible=True)
    assert "preemption" not in found.source_of


def test_every_field_of_the_section_is_in_force() -> None:
    section = {
        "mayPreempt": True,
        "preemptible": False,
        "minRuntime": "1h30m",
        "delay": "90s500ms",
        "victims": "Any",
        "budgets": "Exceed",
        "perHour": 7,
    }
    found = resolved(says("house", section))
    assert found.preemption == PreemptionRules(
        may_preempt=True,
        preemptible=False,
        min_runtime=5400.0,
        delay=90.5,
        victims=VictimScope.ANY,
        budget_mode=DisruptionBudgetMode.EXCEED,
        eviction_limits=((HOUSE, 7),),
    )
    assert found.source_of["preemption"] == "ClusterVGPUPolicy house"
    assert found.policies == (HOUSE,)


def test_the_section_of_the_highest_ranked_cluster_policy_comes_whole() -> None:
    low = says("low", {"mayPreempt": True, "delay": "5m", "preemptible": False}, priority=1)
    high = says("high", {"victims": "Any"}, priority=2)
    assert resolved(low, high).preemption == PreemptionRules(victims=VictimScope.ANY)
    assert resolved(low, high).source_of["preemption"] == "ClusterVGPUPolicy high"


def test_a_namespace_changes_nothing_where_no_cluster_policy_says_anything() -> None:
    mine = says("mine", {"mayPreempt": False, "delay": "1h", "perHour": 1, "minRuntime": "1h"}, "team")
    assert resolved(mine).preemption == NO_PREEMPTION
    assert resolved(mine).policies == ()


OPEN = {"mayPreempt": True, "victims": "Any", "budgets": "Exceed", "delay": "1m", "perHour": 10}


@pytest.mark.parametrize(
    ("section", "tightened"),
    [
        ({"mayPreempt": False}, {"may_preempt": False}),
        ({"victims": "Own"}, {"victims": VictimScope.OWN}),
        ({"budgets": "Respect"}, {"budget_mode": DisruptionBudgetMode.RESPECT}),
        ({"delay": "2m"}, {"delay": 120.0}),
        ({"delay": "30s"}, {}),
        ({"perHour": 3}, {"eviction_limits": ((HOUSE, 10), (MINE, 3))}),
        ({"perHour": 30}, {"eviction_limits": ((HOUSE, 10), (MINE, 30))}),
        ({"minRuntime": "1h"}, {}),
        ({"preemptible": True}, {}),
    ],
)
def test_a_namespace_tightens_what_its_pods_may_do(section: dict[str, Any], tightened: dict[str, Any]) -> None:
    house = says("house", OPEN)
    found = resolved(house, says("mine", section, "team"))
    assert found.preemption == replace(resolved(house).preemption, **tightened)
    expected = "VGPUPolicy team/mine" if tightened else ""
    assert found.source_of["preemption"] == ", ".join(filter(None, ["ClusterVGPUPolicy house", expected]))
    assert (MINE in found.policies) == bool(tightened)


@pytest.mark.parametrize(
    ("section", "given_up"),
    [
        ({"preemptible": True}, {"preemptible": True}),
        ({"minRuntime": "1m"}, {"min_runtime": 60.0}),
        ({"minRuntime": "1h"}, {}),
    ],
)
def test_a_namespace_gives_up_protection_and_adds_none(section: dict[str, Any], given_up: dict[str, Any]) -> None:
    house = says("house", {"preemptible": False, "minRuntime": "5m"})
    found = resolved(house, says("mine", section, "team"))
    assert found.preemption == replace(resolved(house).preemption, **given_up)


def test_all_policies_of_the_namespace_tighten_whatever_their_rank() -> None:
    first = says("first", {"delay": "5m"}, "team", priority=9)
    second = says("second", {"perHour": 1, "delay": "9m"}, "team", priority=1)
    found = resolved(says("house", OPEN), first, second)
    assert found.preemption.delay == 540.0
    assert [limit for _, limit in found.preemption.eviction_limits] == [10, 1]
    assert found.source_of["preemption"] == "ClusterVGPUPolicy house, VGPUPolicy team/first, VGPUPolicy team/second"


def test_nothing_that_a_namespace_writes_lifts_anything() -> None:
    """Of whatever a namespace may store, or could have stored before there was a rule."""
    dice = Random("preemption")
    durations = ["0s", "30s", "5m", "2h"]
    choices = {
        "mayPreempt": [True, False],
        "preemptible": [True, False],
        "minRuntime": durations,
        "delay": durations,
        "victims": ["Own", "Any"],
        "budgets": ["Respect", "Exceed"],
        "perHour": [0, 5, 500],
    }

    def section() -> dict[str, Any]:
        names = dice.sample(sorted(choices), dice.randint(1, 7))
        return {name: dice.choice(choices[name]) for name in names}

    for _ in range(500):
        house = [says(f"c{number}", section(), priority=dice.randint(0, 2)) for number in range(dice.randint(0, 2))]
        own = [says(f"n{number}", section(), "team", priority=dice.randint(0, 9)) for number in range(2)]
        before, after = resolved(*house).preemption, resolved(*house, *own).preemption
        assert after.may_preempt <= before.may_preempt
        assert after.delay >= before.delay
        assert after.victims in (before.victims, VictimScope.OWN)
        assert after.budget_mode in (before.budget_mode, DisruptionBudgetMode.RESPECT)
        assert set(after.eviction_limits) >= set(before.eviction_limits)
        assert after.preemptible >= before.preemptible
        assert after.min_runtime <= before.min_runtime


def test_other_rules_are_another_resolution() -> None:
    made = policies(says("house", {"mayPreempt": True, "delay": "1m"}, defaults={"cores": 1}))
    first = made.resolve(pod()).number
    made.catalogue.put(says("house", {"mayPreempt": True, "delay": "2m"}, defaults={"cores": 1}))
    second = made.resolve(pod()).number
    made.catalogue.put(says("house", {"mayPreempt": True, "delay": "60s"}, defaults={"cores": 1}))
    assert second != first
    assert made.resolve(pod()).number == first


# What is not understood ----------------------------------------------------------------------------------------------


def test_pods_that_a_policy_not_understood_may_protect_are_protected() -> None:
    broken = says("broken", {"preemptible": "no"}, priority=5)
    found = resolved(broken, says("house", OPEN))
    assert "PolicyNotReady: ClusterVGPUPolicy broken" in str(found.refusal)
    assert found.preemption == PROTECTED
    over = resolved(broken, says("house", OPEN, priority=9))
    assert not over.refusal
    assert over.preemption.may_preempt


@pytest.mark.parametrize("section", [{"preemptible": False}, {"mayPreempt": "x"}, {"minRuntime": 5}])
def test_a_namespace_protects_nothing_by_what_is_not_understood(section: dict[str, Any]) -> None:
    house = says("house", {"mayPreempt": True})
    found = resolved(house, says("mine", section, "team"))
    assert "PolicyNotReady: VGPUPolicy team/mine" in str(found.refusal)
    assert found.preemption == resolved(house).preemption
    assert found.preemption.preemptible


def test_pods_wait_for_what_tightens_whoever_ranks_higher_and_for_cluster_policies_behind_namespaces() -> None:
    good = says("good", {"delay": "1m"}, "team", priority=9)
    lower = says("lower", {"delay": "soon"}, "team", priority=1)
    assert "PolicyNotReady: VGPUPolicy team/lower" in str(resolved(good, lower).refusal)
    broken = says("broken", {"delay": "soon"})
    assert "PolicyNotReady: ClusterVGPUPolicy broken" in str(resolved(good, broken).refusal)


def test_what_keeps_a_pod_waiting_elsewhere_does_not_change_who_may_evict_it() -> None:
    house = says("house", {"preemptible": False})
    broken = policy("broken", {"limits": {"devicesPerPod": "x"}})
    assert resolved(house, broken).refusal
    assert resolved(house, broken).preemption == resolved(house).preemption == PROTECTED
    odd = policies(says("house", OPEN)).resolve(pod(**{"hami.io/node-scheduler-policy": "sideways"}))
    assert odd.refusal
    assert odd.preemption.victims == VictimScope.ANY


def test_pods_of_a_namespace_whose_labels_are_not_known_are_protected() -> None:
    made = policies(says("house", OPEN, namespaceSelector={"matchLabels": {"tier": "x"}}))
    assert made.resolve(pod()).preemption == PROTECTED
    made.catalogue.put_namespace(Namespace("team", {}, 1))
    assert made.resolve(pod()).preemption == NO_PREEMPTION


# Ties and words ------------------------------------------------------------------------------------------------------


def test_cluster_policies_tie_in_preemption_and_those_of_a_namespace_add_up() -> None:
    for namespace, others in (("", ["b"]), ("team", [])):
        one, two = (says(name, {"delay": "1m"}, namespace) for name in ("a", "b"))
        assert [name for *_, name in policies(one, two).catalogue.conflicts(key_of(one))] == others


def test_a_summary_says_what_is_set() -> None:
    def words(section: dict[str, Any]) -> str:
        spec = says("p", section).spec
        assert spec is not None
        assert spec.preemption is not None
        return describe_preemption(spec.preemption)

    assert words({"mayPreempt": True, "victims": "Any", "delay": "2m", "perHour": 4}) == "mayPreempt Any after 120s 4/h"
    assert words({"preemptible": False}) == "not preemptible"
    assert words({"mayPreempt": False, "preemptible": True, "minRuntime": "1m"}) == (
        "no preemption preemptible minRuntime 60s"
    )
    for may, budgets in product((True, False), ("Respect", "Exceed")):
        assert budgets in words({"mayPreempt": may, "budgets": budgets})
