"""Which policy is in force for a pod: rank, sections, what always holds, and what cannot be understood."""

from __future__ import annotations

from typing import Any

import pytest
from tests.policy.resources import policy

from vgpu_scheduler.allocators import OrderKind, Strategy
from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.policy import Bound, Namespace, Policies, PolicyDefaults, PolicyResource, ResolvedPolicy

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
    made = Policies(PolicyDefaults())
    for resource in resources:
        made.catalogue.put(resource)
    return made


def scorers(found: ResolvedPolicy) -> list[str]:
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
    assert (found.terms.memory, found.terms.cores) == (4 * GIB, 20)
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
    assert made.resolve(pod()).source_of["nodes"] == "settings"
    assert made.resolve(pod(labels={"app": "x"})).source_of["nodes"] == "ClusterVGPUPolicy pods"
    made.catalogue.put_namespace(Namespace("a", {"tier": "shared"}, 1))
    assert made.resolve(pod(labels={"app": "x"})).source_of["nodes"] == "ClusterVGPUPolicy spaces"
    made.catalogue.put_namespace(Namespace("a", {"tier": "own"}, 2))
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
    assert limits.memory == Bound(24 * GIB, "ClusterVGPUPolicy cluster")
    assert limits.devices == Bound(1, "VGPUPolicy a/tenant")
    assert limits.cores == Bound(150, "ClusterVGPUPolicy other")


def test_limits_of_a_lower_namespaced_policy_do_not_hold() -> None:
    made = policies(
        policy("high", {"priority": 2, "limits": {"devicesPerPod": 4}}, "a"),
        policy("low", {"priority": 1, "limits": {"devicesPerPod": 1}}, "a"),
    )
    assert made.resolve(pod()).limits.devices == Bound(4, "VGPUPolicy a/high")


def test_types_exclusive_and_node_selectors_of_cluster_policies_always_hold() -> None:
    made = policies(
        policy("tenant", {"devices": {"types": {"allow": ["A100"]}}, "nodeSelector": {"matchLabels": {"p": "1"}}}, "a"),
        policy("cluster", {"devices": {"types": {"deny": ["80GB"], "allow": ["NVIDIA"]}, "exclusive": True}}),
        policy("pool", {"nodeSelector": {"matchLabels": {"pool": "shared"}}}),
    )
    found = made.resolve(pod())
    limits = found.choice.limits
    assert limits.allows_model("NVIDIA A100 40GB", "")
    assert not limits.allows_model("NVIDIA A100 80GB", "")
    assert not limits.allows_model("NVIDIA V100", "")
    assert not limits.allows_model("A100", "")
    assert limits.exclusive
    assert found.terms.exclusive
    assert found.choice.idle_only
    assert [s.matches({"p": "1"}) for s in found.node_selectors] == [True, False]
    assert found.source_of["nodeSelector"] == "VGPUPolicy a/tenant, ClusterVGPUPolicy pool"
    assert "ClusterVGPUPolicy cluster" in found.source_of["devices"]


def test_numa_and_modes_come_from_the_winner_only() -> None:
    made = policies(
        policy("tenant", {"devices": {"modes": ["hami-core"]}}, "a"),
        policy("cluster", {"devices": {"numa": "Required", "modes": ["mig"]}}),
    )
    mine, theirs = made.resolve(pod()), made.resolve(pod("b"))
    assert (mine.choice.numa_bind, mine.choice.limits.modes) == (False, (("hami-core",),))
    assert (theirs.choice.numa_bind, theirs.choice.limits.modes) == (True, (("mig",),))


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
    order = policies(policy("p", {"nodes": {"scorers": [share]}})).resolve(pod()).choice.share
    assert order is not None
    assert order.strategy is Strategy.MOST_ALLOCATED
    assert policies(policy("p", FRAGMENTATION)).resolve(pod()).choice.policy == "bestFit"
    own = policies(policy("p", FRAGMENTATION), policy("q", {"devices": {"policy": "spread"}}))
    assert own.resolve(pod()).choice.policy == "spread"
    off = {"nodes": {"scorers": [{"name": "fragmentation", "weight": 0}, {"name": "hami"}]}}
    assert policies(policy("p", off)).resolve(pod()).choice.policy == "spread"


def test_volcanos_arguments_and_their_weight() -> None:
    pasted = {"name": "binpack", "arguments": {"binpack.weight": 10, "binpack.cpu": 5, "binpack.resources": "a/b"}}
    found = policies(policy("p", {"nodes": {"scorers": [pasted]}})).resolve(pod())
    (entry,) = found.scorers
    assert entry.weight == 10
    assert "('a/b', 1)" in str(entry.scorer)


def test_a_policy_that_is_not_understood_blocks_what_it_would_win() -> None:
    broken = policy("broken", {"priority": 5, "nodes": {"policy": "sideways"}})
    found = policies(broken, policy("good", SPREAD)).resolve(pod())
    assert found.refusal.startswith("PolicyNotReady: ClusterVGPUPolicy broken: spec.nodes.policy")
    shadowed = policies(broken, policy("mine", SPREAD, "a"))
    assert not shadowed.resolve(pod()).refusal
    assert shadowed.resolve(pod("b")).refusal


def test_a_broken_cluster_limit_blocks_even_where_a_tenant_sets_one() -> None:
    broken = policy("broken", {"limits": {"devicesPerPod": -1}})
    made = policies(broken, policy("mine", {"limits": {"devicesPerPod": 9}}, "a"))
    assert "ClusterVGPUPolicy broken" in made.resolve(pod()).refusal


def test_conflicts_are_seen_only_where_both_could_match() -> None:
    made = policies(
        policy("one", {**SPREAD, "selector": {"matchLabels": {"app": "x"}}}, "a"),
        policy("two", {**FRAGMENTATION, "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, "a"),
        policy("three", {**SPREAD, "selector": {"matchLabels": {"app": "y"}}, "priority": 1}, "a"),
        policy("four", {"defaults": {"cores": 1}}, "a"),
        policy("five", {**SPREAD, "selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, "a"),
        policy("six", SPREAD, "b"),
    )
    found = {key[2]: [other[2] for other in others] for key, others in made.catalogue.conflicts().items()}
    assert found == {"one": ["two"], "two": ["one"]}


@pytest.mark.parametrize("change", ["put", "remove"])
def test_a_change_takes_effect_at_once(change: str) -> None:
    made = policies()
    if change == "put":
        before = made.resolve(pod())
        made.catalogue.put(policy("p", SPREAD))
        assert made.resolve(pod()).number != before.number
    else:
        made.catalogue.put(policy("p", SPREAD))
        assert made.resolve(pod()).source_of["nodes"] == "ClusterVGPUPolicy p"
        made.catalogue.remove(("ClusterVGPUPolicy", "", "p"))
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
    assert not made.catalogue.put(old)
    assert scorers(made.resolve(pod())) == ["fragmentation"]


def test_not_all_of_very_many_sources_are_named() -> None:
    many = [policy(f"p{number}", {"podOverrides": {"allow": []}}) for number in range(8)]
    found = policies(*many).resolve(pod())
    assert found.source_of["podOverrides"].endswith("ClusterVGPUPolicy p4 and 3 more")
    assert len(found.policies) == 8


def test_two_that_ask_for_a_labels_absence_can_meet() -> None:
    absent = {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}
    made = policies(policy("one", {**SPREAD, **absent}), policy("two", {**FRAGMENTATION, **absent}))
    assert len(made.catalogue.conflicts()) == 2
