"""The models of the policies: what they accept, what they refuse and how they say so."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import ValidationError
from tests.policy.malformed_policies import MALFORMED
from tests.policy.policy_cases import CLUSTER, GOOD, NAMESPACED, Case, policy
from tests.policy.random_policies import random_spec

from vgpu_scheduler.kube import LabelSelector, compile_label_selector
from vgpu_scheduler.policy.models import (
    SECTIONS,
    ClusterVGPUPolicySpec,
    DefaultsSection,
    DevicesSection,
    NodesSection,
    PodOverrides,
    PolicyResource,
    PolicyStatus,
    VGPUPolicySpec,
    decode_policy,
)
from vgpu_scheduler.policy.nodes_section import ScorerEntry

EVERYTHING = frozenset(SECTIONS)


def decoded(text: str, kind: str = CLUSTER) -> PolicyResource:
    return decode_policy(Case(text, kind=kind).policy())


def spec_of(text: str, kind: str = CLUSTER) -> VGPUPolicySpec:
    found = decoded(text, kind)
    assert not found.error
    assert found.spec is not None
    return found.spec


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_good_policies_are_understood(case: Case) -> None:
    found = decode_policy(case.policy())
    assert found.error == ""
    assert found.spec is not None
    assert isinstance(found.spec, ClusterVGPUPolicySpec) == (case.kind == CLUSTER)


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_policies_are_refused_with_the_path_of_the_field(case: Case) -> None:
    found = decode_policy(case.policy())
    assert found.spec is None
    assert f"{case.path}: " in found.error or f"{case.path}[" in found.error
    assert "valid dictionary" not in found.error  # Python's words, not those of YAML
    assert "valid tuple" not in found.error
    assert "Tuple should" not in found.error
    assert "after validation" not in found.error


def test_every_error_is_told_with_its_path() -> None:
    error = decoded("nodes: {scorers: [{name: hami}, {name: fragmentation, weight: -1}]}\ndefaults: {cores: 300}").error
    assert error == (
        "spec.nodes.scorers[1].weight: a weight below 0 is for the scorer binpack only; to turn the order around, use"
        " policy (hami) or scoringStrategy.type (deviceshare);"
        " spec.defaults.cores: must be 100 or less"
    )


def test_both_broken_rules_of_a_section_are_told() -> None:
    error = decoded("nodes: {scorers: [{name: hami, weight: -1, resources: {cpu: 1}}]}").error
    assert "spec.nodes.scorers[0].resources: " in error
    assert "spec.nodes.scorers[0].weight: " in error


def test_a_flood_of_errors_is_cut() -> None:
    error = decoded("{" + ", ".join(f"unknown{number}: 1" for number in range(20)) + "}").error
    assert error.count("there is no such field") == 8
    assert error.endswith("and 12 more")


def test_an_endless_key_is_cut() -> None:
    error = decode_policy(policy({"nodeSelector": {"matchLabels": {"x" * 9999: 1}}})).error
    assert error.startswith("spec.nodeSelector.matchLabels.xxx")
    assert error.endswith("x...")
    assert len(error) < 600


# ---------------------------------------------------------------------------------------------------------- values


def test_names_on_the_wire_are_in_camel_case_and_quantities_are_bytes() -> None:
    spec = spec_of("limits: {memoryPerPod: 1.5Gi, coresPerPod: 150, devicesPerPod: 2}\ndefaults: {memory: 500M}")
    assert spec.limits is not None
    assert spec.defaults is not None
    assert (spec.limits.memory_per_pod, spec.limits.cores_per_pod, spec.limits.devices_per_pod) == (3 << 29, 150, 2)
    assert spec.defaults.memory == 500_000_000


def test_what_is_absent_is_none_and_defaults_are_those_of_the_schema() -> None:
    spec = spec_of("nodes: {scorers: [{name: deviceshare, scoringStrategy: {}}]}")
    assert (spec.priority, spec.selector, spec.limits, spec.pod_overrides) == (0, None, None, None)
    assert spec.nodes is not None
    entry = (spec.nodes.scorers or ())[0]
    assert (entry.weight, entry.policy, entry.resources, entry.arguments) == (None, None, None, None)
    assert entry.scoring_strategy is not None
    assert (entry.scoring_strategy.type, entry.scoring_strategy.resources) == ("LeastAllocated", None)
    devices = spec_of("devices: {weights: {memory: 3}}").devices
    assert devices is not None
    assert devices.weights is not None
    assert (devices.weights.slots, devices.weights.memory, devices.weights.cores) == (1, 3, 1)


def test_maps_are_pairs_in_the_order_of_their_keys() -> None:
    text = "nodes: {scorers: [{name: binpack, %s}]}"
    first = spec_of(text % "resources: {memory: 2, cpu: 0}").nodes
    assert first is not None
    assert (first.scorers or ())[0].resources == (("cpu", 0), ("memory", 2))
    assert first == spec_of(text % "resources: {cpu: 0, memory: 2}").nodes
    pasted = spec_of(text % 'arguments: {binpack.weight: 2, binpack.cpu: "5"}').nodes
    assert pasted is not None
    assert (pasted.scorers or ())[0].arguments == (("binpack.cpu", "5"), ("binpack.weight", 2))


def test_a_list_of_device_policies_reads_the_same_however_it_was_typed() -> None:
    assert spec_of('devices: {policy: " mutex,  numa "}') == spec_of('devices: {policy: "mutex,numa"}')


def test_selectors_are_compiled() -> None:
    spec = spec_of("selector: {matchLabels: {app: train}}\nnodeSelector: {}\nnamespaceSelector: {matchLabels: {a: b}}")
    assert isinstance(spec, ClusterVGPUPolicySpec)
    assert spec.selector == compile_label_selector({"matchLabels": {"app": "train"}})
    assert spec.node_selector == LabelSelector()
    assert spec.namespace_selector is not None
    assert spec.namespace_selector.matches({"a": "b", "c": "d"})
    assert not spec.namespace_selector.matches({"a": "c"})


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_specs_are_equal_and_hash_alike_when_they_say_the_same(case: Case) -> None:
    left, right = decode_policy(case.policy()), decode_policy(case.policy())
    assert left.spec is not right.spec
    assert left == right
    assert hash(left) == hash(right)
    assert left.spec != spec_of("defaults: {cores: 77}")


def test_specs_cannot_be_changed() -> None:
    spec = spec_of("nodes: {policy: binpack}")
    with pytest.raises(ValidationError):
        spec.priority = 3


def test_models_can_be_made_from_values() -> None:
    selector = LabelSelector()
    spec = ClusterVGPUPolicySpec(
        node_selector=selector,
        nodes=NodesSection(scorers=(ScorerEntry(name="hami", weight=2, policy="spread"),)),
        devices=DevicesSection(policy="binpack"),
        defaults=DefaultsSection(memory=4 << 30),
        pod_overrides=PodOverrides(allow=("numa",)),
    )
    assert spec.node_selector is selector
    assert spec.defaults is not None
    assert spec.defaults.memory == 4 << 30


def test_the_words_of_python_are_no_words_of_the_wire() -> None:
    assert decoded("limits: {memory_per_pod: 4Gi}").error == "spec.limits.memory_per_pod: there is no such field"


def test_a_status_is_written_in_the_words_of_the_wire() -> None:
    status = PolicyStatus(observed_generation=3, pods=0, nodes="binpack")
    assert status.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True) == {
        "observedGeneration": 3,
        "pods": 0,
        "nodes": "binpack",
    }


# -------------------------------------------------------------------------------------------------------- decoding


def test_metadata() -> None:
    resource = policy({"nodes": {"policy": "binpack"}, "priority": 7}, NAMESPACED, "pack")
    resource["metadata"] |= {"uid": "u-1", "generation": 4, "resourceVersion": "1234"}
    found = decode_policy(resource)
    assert (found.kind, found.namespace, found.name, found.uid) == (NAMESPACED, "default", "pack", "u-1")
    assert (found.generation, found.resource_version, found.priority) == (4, 1234, 7)
    assert found.sections == {"nodes"}


def test_the_kind_is_told_by_the_namespace_where_a_list_leaves_it_out() -> None:
    for kind in (NAMESPACED, CLUSTER):
        resource = policy({"nodes": {"policy": "binpack"}}, kind)
        del resource["kind"]
        assert decode_policy(resource).kind == kind


def test_another_kind_is_no_policy() -> None:
    with pytest.raises(ValueError, match="no policy"):
        decode_policy({"kind": "Pod", "metadata": {"name": "p"}})


@pytest.mark.parametrize("resource", [{}, {"metadata": None}, {"metadata": {"name": 5, "generation": "x"}, "spec": 3}])
def test_whatever_comes_is_told_as_an_error(resource: dict[str, Any]) -> None:
    found = decode_policy(resource)
    assert found.spec is None
    assert found.error.startswith("spec: ")
    assert found.sections == EVERYTHING


def test_a_section_that_is_not_known_may_be_about_anything() -> None:
    assert decoded("{nodes: {policy: spread}, quota: {devices: 1}}").sections == EVERYTHING


def test_a_broken_policy_keeps_what_can_be_read_of_it() -> None:
    found = decoded(
        """
        priority: 40
        selector: {matchLabels: {app: train}}
        namespaceSelector: {matchLabels: {tier: shared}}
        nodes: {policy: mutex}
        limits: {devicesPerPod: many}
        """
    )
    assert found.spec is None
    assert found.priority == 40
    assert found.sections == {"nodes", "limits"}
    assert found.selector == compile_label_selector({"matchLabels": {"app": "train"}})
    assert found.namespace_selector == compile_label_selector({"matchLabels": {"tier": "shared"}})


@pytest.mark.parametrize(
    "selector", ["app=train", "{app: train}", "{matchLabels: {a b: c}}", "[1]", "{matchLabels: 3}"]
)
def test_a_selector_that_is_not_understood_matches_everything(selector: str) -> None:
    found = decoded(f"nodes: {{policy: binpack}}\nselector: {selector}\nnamespaceSelector: {selector}")
    assert found.error
    assert (found.selector, found.namespace_selector) == (None, None)


@pytest.mark.parametrize(
    ("written", "read"), [("9000000", 1_000_000), ("-9000000", -1_000_000), ("high", 1_000_000), ("true", 1_000_000)]
)
def test_the_priority_of_a_broken_policy_is_within_bounds_and_high_if_it_is_no_number(written: str, read: int) -> None:
    found = decoded(f"nodes: {{policy: binpack}}\npriority: {written}")
    assert found.spec is None
    assert found.priority == read


def test_a_section_that_is_null_is_absent() -> None:
    found = decode_policy(policy({"nodes": {"policy": "binpack"}, "limits": None}))
    assert not found.error
    assert found.sections == {"nodes"}


def test_a_name_too_long_is_an_error_beside_others() -> None:
    error = decode_policy(policy({"nodes": {}}, name="n" * 64)).error
    assert error.startswith("metadata.name: must have at most 63 characters")
    assert "; spec.nodes: set exactly one of policy" in error


def test_selectors_of_a_namespaced_policy_are_for_its_pods_only() -> None:
    found = decoded("nodes: {policy: binpack}\nnamespaceSelector: {matchLabels: {a: b}}", NAMESPACED)
    assert found.error == "spec.namespaceSelector: there is no such field"
    assert found.namespace_selector is None


def test_random_policies_are_understood_or_refused_and_both_are_common() -> None:
    dice = random.Random(20)
    errors = [decode_policy(policy(random_spec(dice))).error for _ in range(500)]
    assert 100 < sum(not error for error in errors) < 400


@pytest.mark.parametrize("wrong", ["[node]", "[1]", "[node, limits]"])
def test_a_list_of_which_no_entry_is_right_is_not_called_too_short(wrong: str) -> None:
    assert "it is empty" not in decoded(f"enforce: {wrong}\nnodes: {{policy: spread}}").error
    assert decoded("enforce: []\nnodes: {policy: spread}").error == "spec.enforce: it is empty"


SECRET = "team-of-another"


@pytest.mark.parametrize(
    "wrong",
    [
        f"namespaceSelector: team in ({SECRET})\nnodes: {{policy: spread}}",
        f"devices: {{numa: {SECRET}}}",
        f"limits: {{devicesPerPod: '{SECRET}'}}",
        f"devices: {{types: {{allow: {SECRET}}}}}",
        f"preemption: {{mayPreempt: '{SECRET}'}}",
        f"nodes: {{scorers: {{name: {SECRET}}}}}",
    ],
)
def test_what_is_wrong_with_a_policy_says_no_value_of_it(wrong: str) -> None:
    """All pods that the policy may be about are told."""
    error = decoded(wrong).error
    assert error.startswith("spec.")
    assert SECRET not in error
