"""What a cluster policy enforces, nothing that a pod or its namespace writes changes; others tighten it at most."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.naive.policies import Written, holding
from tests.policy.enforcing import NAMESPACE_LABELS, SECTIONS, annotations, cluster_policies, own_policies
from tests.policy.resources import policy

from vgpu_scheduler.kube import Namespace, Pod, decode_pod
from vgpu_scheduler.policy import OVERRIDES, EffectivePolicy, Policies, PolicyDefaults, key_of

SEEDS = range(300)


def pod(labels: dict[str, str] | None = None, notes: dict[str, str] | None = None) -> Pod:
    metadata = {"name": "p", "namespace": "team", "uid": "u", "labels": labels or {}, "annotations": notes or {}}
    return decode_pod({"metadata": metadata, "spec": {"containers": []}})


def resolved(written: list[Written], asked: Pod) -> EffectivePolicy:
    policies = Policies(PolicyDefaults())
    policies.catalogue.put_namespace(Namespace("team", NAMESPACE_LABELS, 1))
    for one in written:
        policies.catalogue.put(policy(one.name, one.spec, one.namespace))
    return policies.resolve(asked)


def decided(found: EffectivePolicy, section: str) -> tuple[Any, ...]:
    """Return all that a section decides, but for what others may tighten."""
    choice = found.choice
    return {
        "nodes": (found.scorers,),
        "devices": (
            choice.policy,
            choice.order,
            choice.weights,
            choice.device_share_order,
            choice.best_fit,
            choice.numa_bind,
            choice.topology,
            choice.limits.modes,
        ),
        "defaults": (found.defaults.memory, found.defaults.cores),
    }[section]


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_that_a_pod_or_its_namespace_writes_changes_an_enforced_section(section: str) -> None:
    for seed in SEEDS:
        dice = Random(f"{section} {seed}")
        house, own = cluster_policies(dice, section), own_policies(dice)
        labels = dice.choice([{}, {"app": "x"}, {"app": "y"}])
        plain, free = resolved(house, pod()), resolved(house + own, pod(labels, annotations(dice)))
        assert not plain.refusal, plain.refusal
        assert not free.refusal, free.refusal
        assert decided(free, section) == decided(plain, section), seed
        assert set(free.choice.limits.allow) >= set(plain.choice.limits.allow)
        assert set(free.choice.limits.deny) >= set(plain.choice.limits.deny)
        assert free.choice.limits.exclusive >= plain.choice.limits.exclusive


@pytest.mark.parametrize("section", SECTIONS)
def test_resolution_agrees_with_its_naive_twin(section: str) -> None:
    for seed in SEEDS:
        dice = Random(f"twin {section} {seed}")
        written = cluster_policies(dice, section) + own_policies(dice)
        labels, notes = dice.choice([{}, {"app": "x"}, {"app": "y"}]), annotations(dice)
        found = resolved(written, pod(labels, notes))
        expected = holding([one for one in written if one.selects("team", labels, NAMESPACE_LABELS)])
        sources = found.source_of
        followed = {word for word, name in OVERRIDES.items() if name in notes and word not in expected.denied}
        winners = {name: one.title for name, one in expected.winners.items()}
        assert sources["nodes"] == ("pod" if "nodePolicy" in followed else winners.get("nodes", "settings"))
        assert sources.get("defaults") == winners.get("defaults")
        if "defaults" in expected.winners:
            defaults = expected.winners["defaults"].spec["defaults"]
            assert (found.defaults.memory, found.defaults.cores) == (defaults["memory"], defaults["cores"])
        ordered = sources["devices"].split(", ")[0]
        devices = expected.winners.get("devices")
        if "devicePolicy" in followed:
            assert ordered == "pod"
        elif devices is not None and {"policy", "order", "weights"} & devices.spec["devices"].keys():
            assert ordered == devices.title
        if devices is not None:
            assert found.choice.numa_bind == (devices.spec["devices"].get("numa") == "Required")
            assert found.choice.topology == (devices.spec["devices"].get("topology") == "Preferred")
        types = [spec["types"] for spec in expected.restricting if "types" in spec]
        assert set(found.choice.limits.allow) == {tuple(t["allow"]) for t in types if "allow" in t}
        assert set(found.choice.limits.deny) == {name for t in types for name in t.get("deny", ())}
        assert found.defaults.exclusive == any(spec.get("exclusive") for spec in expected.restricting)
        bounds = {"devicesPerPod": found.limits.devices, "exclusiveCardsPerPod": found.limits.exclusive_cards}
        assert {name: bound.most for name, bound in bounds.items() if bound} == expected.limits
        warned = " ".join(found.warnings)
        for word, name in OVERRIDES.items():
            assert (f"annotation {name} is not followed" in warned) == (name in notes and word in expected.denied)


NODES, OTHER = {"nodes": {"policy": "spread"}}, {"nodes": {"scorers": [{"name": "fragmentation"}]}}


def test_the_highest_ranked_of_those_that_enforce_wins_and_says_so() -> None:
    low = Written("a", {**NODES, "enforce": ["nodes"], "priority": 1})
    high = Written("b", {**OTHER, "enforce": ["nodes"], "priority": 2})
    higher = Written("c", {"nodes": {"policy": "binpack"}, "priority": 9})
    own = Written("own", {"nodes": {"policy": "binpack"}, "priority": 1_000_000}, "team")
    found = resolved([low, high, higher, own], pod(notes={"hami.io/node-scheduler-policy": "binpack"}))
    assert found.source_of["nodes"] == "ClusterVGPUPolicy b"
    assert ("ClusterVGPUPolicy", "", "b") in found.policies
    (warning,) = found.warnings
    assert warning == ("annotation hami.io/node-scheduler-policy is not followed: ClusterVGPUPolicy b enforces nodes")


def conflicts(*written: Written) -> set[str]:
    policies = Policies(PolicyDefaults())
    resources = [policy(one.name, one.spec, one.namespace) for one in written]
    for resource in resources:
        policies.catalogue.put(resource)
    return {resource.name for resource in resources if policies.catalogue.conflicts(key_of(resource))}


def test_one_that_enforces_is_in_no_conflict_with_one_that_does_not() -> None:
    one, two = Written("one", {**NODES, "enforce": ["nodes"]}), Written("two", OTHER)
    assert conflicts(one, two) == set()
    assert conflicts(one, Written("two", {**OTHER, "enforce": ["nodes"]})) == {"one", "two"}
    assert conflicts(Written("one", NODES), two) == {"one", "two"}


@pytest.mark.parametrize("enforce", [["nodes"], ["sideways"], [{}], [["nodes"]], [], "nodes", 7])
def test_pods_wait_for_an_enforcing_policy_that_is_not_understood(enforce: object) -> None:
    broken = Written("broken", {"nodes": {"policy": "sideways"}, "enforce": enforce})
    own = Written("own", NODES, "team")
    assert "PolicyNotReady: ClusterVGPUPolicy broken" in str(resolved([broken, own], pod()).refusal)
    better = Written("better", {**OTHER, "enforce": ["nodes"], "priority": 1})
    assert not resolved([broken, own, better], pod()).refusal
    unenforced = Written("broken", {"nodes": {"policy": "sideways"}})
    assert not resolved([unenforced, own], pod()).refusal


def test_a_namespace_cannot_keep_its_pods_waiting_for_what_is_enforced() -> None:
    broken = Written("broken", {"nodes": {"policy": "sideways"}}, "team")
    assert resolved([broken], pod()).refusal
    assert not resolved([broken, Written("house", {**NODES, "enforce": ["nodes"]})], pod()).refusal
