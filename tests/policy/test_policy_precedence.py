"""Which policy is in force for a pod: rank, sections, what always holds, and what cannot be understood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.policy.resources import policy

from vgpu_scheduler.allocators import Strategy
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments
from vgpu_scheduler.kube import Namespace, Pod, decode_pod
from vgpu_scheduler.model import OrderKind
from vgpu_scheduler.policy import EffectivePolicy, Policies, PolicyDefaults, PolicyResource, UpperBound, key_of
from vgpu_scheduler.policy.translate import node_rule, unread
from vgpu_scheduler.scorers import DEFAULT_WEIGHTS, BinpackScorer, WeightedScorer

GIB = 2**30
NODE, DEVICE = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"


def pod(namespace: str = "a", labels: dict[str, str] | None = None, **annotations: str) -> Pod:
    keys = {"node": NODE, "device": DEVICE, "weights": "hami.io/device-scoring-weights"}
    metadata = {
        "name": "p",
        "namespace": namespace,
        "uid": "u",
        "labels": labels or {},
        "annotations": {keys[name]: value for name, value in annotations.items()},
    }
    return decode_pod({"metadata": metadata, "spec": {"containers": []}})


def policies(*resources: PolicyResource) -> Policies:
    made = Policies(PolicyDefaults(read_arguments=parse_binpack_arguments))
    for resource in resources:
        made.catalogue.put(resource)
    return made


def conflicts(made: Policies) -> dict[str, list[str]]:
    found = {p.name: [name for _, _, name in made.catalogue.conflicts(key_of(p))] for p in made.catalogue.all()}
    return {name: others for name, others in found.items() if others}


def scorers(found: EffectivePolicy) -> list[str]:
    return [entry.scorer.name for entry in found.scorers]


SPREAD: dict[str, Any] = {"nodes": {"policy": "spread"}}
FRAGMENTATION: dict[str, Any] = {"nodes": {"scorers": [{"name": "fragmentation"}]}}


def test_a_namespaced_policy_goes_before_a_cluster_policy_of_any_priority() -> None:
    made = policies(policy("far", {"priority": 1000, **SPREAD}), policy("near", FRAGMENTATION, "a"))
    assert scorers(made.resolve(pod())) == ["fragmentation"]
    assert made.resolve(pod()).source_of["nodes"] == "VGPUPolicy a/near"
    assert made.resolve(pod("b")).source_of["nodes"] == "ClusterVGPUPolicy far"


def test_then_priority_then_name() -> None:
    low, high = policy("a", {"priority": 1, **SPREAD}), policy("z", {"priority": 2, **FRAGMENTATION})
    assert policies(low, high).resolve(pod()).source_of["nodes"] == "ClusterVGPUPolicy z"
    tied = policies(policy("b", SPREAD), policy("a", FRAGMENTATION))
    assert tied.resolve(pod()).source_of["nodes"] == "ClusterVGPUPolicy a"


def test_each_section_comes_from_the_highest_that_sets_it() -> None:
    made = policies(
        policy("mine", {"devices": {"policy": "binpack", "order": "ScoreFirst"}}, "a"),
        policy("theirs", {**SPREAD, "devices": {"policy": "mutex"}, "defaults": {"memory": "4Gi", "cores": 20}}),
    )
    found = made.resolve(pod())
    assert (found.choice.policy, found.choice.order) == ("binpack", OrderKind.SCORE_FIRST)
    assert (found.defaults.memory, found.defaults.cores) == (4 * GIB, 20)
    assert found.source_of == {
        "nodes": "ClusterVGPUPolicy theirs",
        "devices": "VGPUPolicy a/mine",
        "defaults": "ClusterVGPUPolicy theirs",
    }
    assert set(found.policies) == {("VGPUPolicy", "a", "mine"), ("ClusterVGPUPolicy", "", "theirs")}


def test_selectors_choose_pods_and_namespaces() -> None:
    made = policies(
        policy("pods", {"selector": {"matchLabels": {"app": "x"}}, **SPREAD}),
        policy("spaces", {"namespaceSelector": {"matchLabels": {"tier": "shared"}}, "priority": 5, **FRAGMENTATION}),
    )
    made.catalogue.put_namespace(Namespace("a", {}, 1))
    assert made.resolve(pod()).source_of["nodes"] == "settings"
    assert made.resolve(pod(labels={"app": "x"})).source_of["nodes"] == "ClusterVGPUPolicy pods"
    made.catalogue.put_namespace(Namespace("a", {"tier": "shared"}, 2))
    assert made.resolve(pod(labels={"app": "x"})).source_of["nodes"] == "ClusterVGPUPolicy spaces"
    made.catalogue.put_namespace(Namespace("a", {"tier": "own"}, 3))
    assert made.resolve(pod(labels={"app": "x"})).source_of["nodes"] == "ClusterVGPUPolicy pods"


def test_a_namespace_is_known_by_its_name_before_it_is_seen() -> None:
    only = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}, **SPREAD}
    made = policies(policy("p", only))
    assert made.resolve(pod("a")).source_of["nodes"] == "ClusterVGPUPolicy p"
    assert made.resolve(pod("b")).source_of["nodes"] == "settings"


def test_the_tightest_limit_wins_and_a_tenant_cannot_lift() -> None:
    made = policies(
        policy("tenant", {"limits": {"memoryPerPod": "80Gi", "devicesPerPod": 1}}, "a"),
        policy("cluster", {"limits": {"memoryPerPod": "24Gi", "devicesPerPod": 2}}),
        policy("other", {"priority": 9, "limits": {"coresPerPod": 150}}),
    )
    limits = made.resolve(pod()).limits
    assert limits.memory == UpperBound(24 * GIB, "ClusterVGPUPolicy cluster")
    assert limits.devices == UpperBound(1, "VGPUPolicy a/tenant")
    assert limits.cores == UpperBound(150, "ClusterVGPUPolicy other")


def test_limits_of_a_lower_namespaced_policy_do_not_hold() -> None:
    made = policies(
        policy("high", {"priority": 2, "limits": {"devicesPerPod": 4}}, "a"),
        policy("low", {"priority": 1, "limits": {"devicesPerPod": 1}}, "a"),
    )
    assert made.resolve(pod()).limits.devices == UpperBound(4, "VGPUPolicy a/high")


def test_types_exclusive_and_node_selectors_of_cluster_policies_always_hold() -> None:
    made = policies(
        policy("tenant", {"devices": {"types": {"allow": ["A100"]}}, "nodeSelector": {"matchLabels": {"p": "1"}}}, "a"),
        policy("cluster", {"devices": {"types": {"deny": ["80GB"], "allow": ["NVIDIA"]}, "exclusive": True}}),
        policy("apart", {"priority": -5, "devices": {"apartFrom": {"matchLabelKeys": ["tier", "app"]}}}),
        policy("too", {"priority": -6, "devices": {"apartFrom": {"matchLabelKeys": ["team"]}}}),
        policy("pool", {"nodeSelector": {"matchLabels": {"pool": "shared"}}}),
    )
    found = made.resolve(pod())
    limits = found.choice.limits
    assert limits.allows_model("NVIDIA A100 40GB", "")
    assert not limits.allows_model("NVIDIA A100 80GB", "")
    assert not limits.allows_model("NVIDIA V100", "")
    assert not limits.allows_model("A100", "")
    assert limits.exclusive
    assert found.apart == (("app", "tier"), ("team",))
    assert found.defaults.exclusive
    assert found.choice.idle_only
    assert [s.matches({"p": "1"}) for s in found.node_selectors] == [True, False]
    assert found.source_of["nodeSelector"] == "VGPUPolicy a/tenant, ClusterVGPUPolicy pool"
    assert "ClusterVGPUPolicy cluster" in found.source_of["devices"]


def test_numa_topology_and_modes_come_from_the_winner_only() -> None:
    made = policies(
        policy("tenant", {"devices": {"modes": ["hami-core"]}}, "a"),
        policy("cluster", {"devices": {"numa": "Required", "modes": ["mig"], "topology": "Preferred"}}),
    )
    mine, theirs = made.resolve(pod()), made.resolve(pod("b"))
    assert (mine.choice.numa_bind, mine.choice.topology, mine.choice.limits.modes) == (False, False, (("hami-core",),))
    assert (theirs.choice.numa_bind, theirs.choice.topology, theirs.choice.limits.modes) == (True, True, (("mig",),))


def test_the_pods_annotations_go_first_unless_a_policy_forbids_it() -> None:
    made = policies(policy("p", {**FRAGMENTATION, "devices": {"policy": "binpack"}}, "a"))
    found = made.resolve(pod(node="spread", device="mutex"))
    assert (scorers(found), found.choice.policy) == (["hami"], "mutex")
    assert found.source_of == {"nodes": "pod", "devices": "pod"}
    made.catalogue.put(policy("only", {"podOverrides": {"allow": ["devicePolicy"]}}, "a"))
    found = made.resolve(pod(node="spread", device="mutex"))
    assert (scorers(found), found.choice.policy) == (["fragmentation"], "mutex")
    (warning,) = found.warnings
    assert "hami.io/node-scheduler-policy is not followed" in warning
    assert "VGPUPolicy a/only" in warning


def test_overrides_of_cluster_policies_intersect() -> None:
    made = policies(
        policy("tenant", {"podOverrides": {"allow": ["nodePolicy", "devicePolicy"]}}, "a"),
        policy("cluster", {"podOverrides": {"allow": ["devicePolicy", "numa"]}}),
    )
    assert made.resolve(pod()).overrides == {"devicePolicy"}


def test_scorers_bring_their_order_of_cards() -> None:
    share = {"name": "deviceshare", "scoringStrategy": {"type": "MostAllocated"}}
    order = policies(policy("p", {"nodes": {"scorers": [share]}})).resolve(pod()).choice.device_share_order
    assert order is not None
    assert order.strategy is Strategy.MOST_ALLOCATED
    assert policies(policy("p", FRAGMENTATION)).resolve(pod()).choice.best_fit
    own = policies(policy("p", FRAGMENTATION), policy("q", {"devices": {"policy": "spread"}})).resolve(pod())
    assert (own.choice.policy, own.choice.best_fit) == ("spread", False)
    assert own.source_of["devices"] == "ClusterVGPUPolicy q"
    off = {"nodes": {"scorers": [{"name": "fragmentation", "weight": 0}, {"name": "hami"}]}}
    assert not policies(policy("p", off)).resolve(pod()).choice.best_fit


def test_volcanos_arguments_and_their_weight() -> None:
    pasted = {"name": "binpack", "arguments": {"binpack.weight": 10, "binpack.cpu": 5, "binpack.resources": "a/b"}}
    found = policies(policy("p", {"nodes": {"scorers": [pasted]}})).resolve(pod())
    (entry,) = found.scorers
    assert entry.weight == 10
    assert "('a/b', 1)" in str(entry.scorer)


def test_arguments_that_nobody_reads_change_nothing_and_are_warned_of() -> None:
    pasted = {"name": "binpack", "arguments": {"binpack.weight": 10, "binpack.cpu": 5}}
    resource = policy("p", {"nodes": {"scorers": [pasted]}})
    assert resource.spec is not None
    assert resource.spec.nodes is not None
    rule = node_rule(resource.spec.nodes, unread)
    assert rule.scorers == (WeightedScorer(BinpackScorer(DEFAULT_WEIGHTS), 1),)
    assert rule.warnings == ("binpack.cpu, binpack.weight: arguments of plugins are ignored here",)


def test_a_policy_that_is_not_understood_blocks_what_it_would_win() -> None:
    broken = policy("broken", {"priority": 5, "nodes": {"policy": "sideways"}})
    found = policies(broken, policy("good", SPREAD)).resolve(pod())
    assert str(found.refusal).startswith("PolicyNotReady: ClusterVGPUPolicy broken: spec.nodes.policy")
    shadowed = policies(broken, policy("mine", SPREAD, "a"))
    assert not shadowed.resolve(pod()).refusal
    assert shadowed.resolve(pod("b")).refusal


def test_a_broken_cluster_limit_blocks_even_where_a_tenant_sets_one() -> None:
    broken = policy("broken", {"limits": {"devicesPerPod": -1}})
    made = policies(broken, policy("mine", {"limits": {"devicesPerPod": 9}}, "a"))
    assert "ClusterVGPUPolicy broken" in str(made.resolve(pod()).refusal)


def test_conflicts_are_seen_only_where_both_could_match() -> None:
    made = policies(
        policy("one", {**SPREAD, "selector": {"matchLabels": {"app": "x"}}}, "a"),
        policy("two", {**FRAGMENTATION, "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, "a"),
        policy("three", {**SPREAD, "selector": {"matchLabels": {"app": "y"}}, "priority": 1}, "a"),
        policy("four", {"defaults": {"cores": 1}}, "a"),
        policy("five", {**SPREAD, "selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, "a"),
        policy("six", SPREAD, "b"),
    )
    assert conflicts(made) == {"one": ["two"], "two": ["one"]}


@pytest.mark.parametrize("change", ["put", "remove"])
def test_a_change_takes_effect_at_once(change: str) -> None:
    made = policies()
    if change == "put":
        before = made.resolve(pod())
        made.catalogue.put(policy("p", SPREAD))
        assert made.resolve(pod()).number != before.number
    else:
        resource = policy("p", SPREAD)
        made.catalogue.put(resource)
        assert made.resolve(pod()).source_of["nodes"] == "ClusterVGPUPolicy p"
        made.catalogue.remove(resource)
        assert made.resolve(pod()).source_of["nodes"] == "settings"


def test_what_does_not_concern_a_pod_leaves_its_number_alone() -> None:
    made = policies(policy("p", SPREAD, "a"))
    before = made.resolve(pod()).number
    made.catalogue.put(policy("q", FRAGMENTATION, "b"))
    assert made.resolve(pod()).number == before


def test_labels_that_nobody_asks_about_do_not_matter() -> None:
    made = policies(policy("p", {**SPREAD, "selector": {"matchLabels": {"app": "x"}}}))
    one = made.resolve(pod(labels={"app": "x", "pod-template-hash": "1"}))
    two = made.resolve(pod(labels={"app": "x", "pod-template-hash": "2"}))
    assert one is two


def test_an_older_version_is_ignored() -> None:
    old, new = policy("p", SPREAD), policy("p", FRAGMENTATION)
    made = policies(new)
    made.catalogue.put(old)
    assert scorers(made.resolve(pod())) == ["fragmentation"]


def test_not_all_of_very_many_sources_are_named() -> None:
    many = [policy(f"p{number}", {"podOverrides": {"allow": []}}) for number in range(8)]
    found = policies(*many).resolve(pod())
    assert found.source_of["podOverrides"].endswith("ClusterVGPUPolicy p4 and 3 more")
    assert len(found.policies) == 8
    assert found.titles("podOverrides") == tuple(f"ClusterVGPUPolicy p{number}" for number in range(8))


def test_two_that_ask_for_a_labels_absence_can_meet() -> None:
    absent = {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}
    made = policies(policy("one", {**SPREAD, **absent}), policy("two", {**FRAGMENTATION, **absent}))
    assert conflicts(made) == {"one": ["two"], "two": ["one"]}


def test_pods_wait_for_the_labels_of_their_namespace() -> None:
    made = policies(policy("spaces", {"namespaceSelector": {"matchLabels": {"tier": "shared"}}, **SPREAD}))
    assert "the labels of the namespace, which ClusterVGPUPolicy spaces reads" in str(made.resolve(pod()).refusal)
    made.catalogue.put_namespace(Namespace("a", {}, 1))
    assert not made.resolve(pod()).refusal


def test_cluster_policies_whose_sections_add_up_are_in_no_conflict() -> None:
    made = policies(policy("one", {"limits": {"devicesPerPod": 1}}), policy("two", {"limits": {"coresPerPod": 1}}))
    assert conflicts(made) == {}
    own = policies(
        policy("one", {"limits": {"devicesPerPod": 1}}, "a"), policy("two", {"limits": {"coresPerPod": 1}}, "a")
    )
    assert conflicts(own) == {"one": ["two"], "two": ["one"]}


def test_conflicts_end_with_one_of_the_two() -> None:
    one, two = policy("one", SPREAD), policy("two", FRAGMENTATION)
    made = policies(one, two)
    assert len(conflicts(made)) == 2
    made.catalogue.put(policy("one", {"priority": 1, **SPREAD}))
    assert conflicts(made) == {}


def test_who_orders_the_cards_is_named_even_if_it_orders_them_as_they_were() -> None:
    made = policies(policy("same", {"devices": {"policy": "spread"}}))
    assert made.resolve(pod()).source_of["devices"] == "ClusterVGPUPolicy same"
    types = policies(policy("types", {"devices": {"types": {"deny": ["T4"]}}}))
    assert types.resolve(pod()).source_of["devices"] == "settings, ClusterVGPUPolicy types"


def test_an_annotation_does_not_hide_who_restricts_the_cards() -> None:
    made = policies(policy("both", {"devices": {"policy": "binpack", "exclusive": True}}))
    found = made.resolve(pod(device="spread"))
    assert found.source_of["devices"] == "pod, ClusterVGPUPolicy both"
    assert found.policies == (("ClusterVGPUPolicy", "", "both"),)


def test_a_section_of_another_version_blocks() -> None:
    made = policies(policy("new", {"quota": {"devices": 1}}))
    assert "ClusterVGPUPolicy new" in str(made.resolve(pod()).refusal)


def test_what_is_wrong_with_one_policy_stops_its_pods_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made = policies(policy("odd", SPREAD, "a"))

    def broken(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("vgpu_scheduler.policy.resolve.node_rule", broken)
    assert "internal error" in str(made.resolve(pod()).refusal)
    assert not made.resolve(pod("b")).refusal


def test_the_labels_of_one_namespaces_selectors_do_not_count_elsewhere() -> None:
    unique = {"selector": {"matchExpressions": [{"key": "pod-name", "operator": "Exists"}]}, **SPREAD}
    made = policies(policy("p", unique, "a"))
    one, two = (made.resolve(pod("b", {"pod-name": name})) for name in ("x", "y"))
    assert one is two


class TestRemoval:
    """Late and doubled observations of policies and namespaces that are gone or made anew."""

    def test_what_was_removed_does_not_come_back_late(self) -> None:
        old = policy("p", SPREAD)
        made = policies(old)
        gone = replace(old, resource_version=old.resource_version + 1)
        made.catalogue.remove(gone)
        made.catalogue.put(old)
        assert made.resolve(pod()).source_of["nodes"] == "settings"

    def test_what_was_made_anew_stays(self) -> None:
        old = policy("p", SPREAD)
        new = replace(policy("p", FRAGMENTATION), uid="new")
        made = policies(new)
        made.catalogue.put(old)
        made.catalogue.remove(replace(old, resource_version=new.resource_version - 1))
        assert scorers(made.resolve(pod())) == ["fragmentation"]

    def test_the_end_of_an_old_namespace_does_not_end_the_new_one(self) -> None:
        made = policies(policy("s", {"namespaceSelector": {"matchLabels": {"tier": "x"}}, **SPREAD}))
        made.catalogue.put_namespace(Namespace("a", {"tier": "x"}, 30, "new"))
        made.catalogue.remove_namespace(Namespace("a", {}, 29, "old"))
        made.catalogue.put_namespace(Namespace("a", {}, 28, "old"))
        assert made.resolve(pod()).source_of["nodes"] == "ClusterVGPUPolicy s"
