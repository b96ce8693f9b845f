"""Kubernetes' own PodGroups as 1.36 and 1.37 write them, and the field of pods that names them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import pod_object

from vgpu_scheduler.groups import POD_GROUP_KINDS, GroupKey, Membership, membership
from vgpu_scheduler.kube import Condition, DecodeError, PodGroup, decode_pod

KINDS = {kind.resource.api_version: kind for kind in POD_GROUP_KINDS if kind.condition}
OLDER, NEWER = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"
GANG = {"gang": {"minCount": 4}}


def decode(version: str, status: dict[str, Any] | None = None, **spec: Any) -> PodGroup:
    metadata = {"name": "job", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 2}
    return KINDS[version].decode({"metadata": metadata, "spec": spec, "status": status or {}})


def test_both_versions_are_read_the_newer_one_first() -> None:
    assert list(KINDS) == [NEWER, OLDER]
    assert [kind.resource.path for kind in KINDS.values()] == [f"/apis/{version}/podgroups" for version in KINDS]


def test_a_field_names_the_group_before_any_label_does() -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "other"}
    obj = pod_object("p", labels=labels, namespace="team", schedulingGroup={"podGroupName": "job"})
    key = GroupKey("kubernetes", "team", "job")
    assert membership(decode_pod(obj)) == Membership(key, "field spec.schedulingGroup.podGroupName")


def test_pods_of_different_groups_ask_the_same() -> None:
    one, other = (decode_pod(pod_object("p", schedulingGroup={"podGroupName": name})) for name in ("a", "b"))
    assert one.spec is other.spec
    assert (one.pod_group, other.pod_group) == ("a", "b")


EACH: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
WHOLE: dict[str, Any] = {"schedulingPolicy": GANG}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "basic": (OLDER, EACH, {"minimum": 0}),
    "basic in 1.37": (NEWER, EACH, {"minimum": 0}),
    "gang": (OLDER, WHOLE, {"minimum": 4}),
    "gang in 1.37": (NEWER, WHOLE, {"minimum": 4}),
    "priority": (
        OLDER,
        {**WHOLE, "priority": -3, "priorityClassName": "low"},
        {"minimum": 4, "priority": -3, "priority_class": "low"},
    ),
    "each may be disrupted": (OLDER, {**WHOLE, "disruptionMode": "Pod"}, {"minimum": 4}),
    "all are disrupted": (OLDER, {**WHOLE, "disruptionMode": "PodGroup"}, {"minimum": 4, "disrupted_whole": True}),
    "each may be disrupted in 1.37": (NEWER, {**WHOLE, "disruptionMode": {"single": {}}}, {"minimum": 4}),
    "all are disrupted in 1.37": (
        NEWER,
        {**WHOLE, "disruptionMode": {"all": {}}},
        {"minimum": 4, "disrupted_whole": True},
    ),
    "topology": (
        OLDER,
        {**WHOLE, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
        {"minimum": 4, "topology": ("rack",)},
    ),
    "no topology": (NEWER, {**WHOLE, "schedulingConstraints": {}}, {"minimum": 4}),
    "of a composite one": (
        NEWER,
        {**WHOLE, "parentCompositePodGroupName": "all"},
        {"minimum": 4, "unsupported": "spec.parentCompositePodGroupName"},
    ),
    "what makes no difference": (
        NEWER,
        {**WHOLE, "workloadRef": {"workloadName": "w", "templateName": "t"}, "resourceClaims": [], "new": 1},
        {"minimum": 4},
    ),
}


@pytest.mark.parametrize(("version", "spec", "expected"), CASES.values(), ids=CASES)
def test_an_object_is_read(version: str, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    kind = KINDS[version].name
    of_all = {"kind": kind, "uid": "u", "namespace": "team", "name": "job", "resource_version": 7, "generation": 2}
    assert decode(version, **spec) == PodGroup(**of_all, **expected)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no policy": ({}, "spec: Object missing required field `schedulingPolicy`"),
    "an empty policy": ({"schedulingPolicy": {}}, "spec.schedulingPolicy: must say one of basic and gang"),
    "two policies": ({"schedulingPolicy": {"basic": {}, **GANG}}, "spec.schedulingPolicy: must say one of basic and"),
    "an unknown policy": ({"schedulingPolicy": {"best": {}}}, "spec.schedulingPolicy: Object contains unknown field"),
    "no minimum": ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang: Object missing required field"),
    "a minimum of 0": ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount: 0 is no"),
    "a gang that asks for more": (
        {"schedulingPolicy": {"gang": {"minCount": 4, "most": 5}}},
        "spec.schedulingPolicy.gang: Object contains unknown field `most`",
    ),
    "an unknown mode": ({**WHOLE, "disruptionMode": "Never"}, "spec.disruptionMode: Invalid enum value 'Never'"),
    "an unknown mode in 1.37": ({**WHOLE, "disruptionMode": {"no": {}}}, "spec.disruptionMode: Object contains"),
    "an unknown constraint": ({**WHOLE, "schedulingConstraints": {"near": 1}}, "spec.schedulingConstraints: Object"),
    "a topology that asks for more": (
        {**WHOLE, "schedulingConstraints": {"topology": [{"key": "rack", "mode": "soft"}]}},
        "spec.schedulingConstraints.topology[0]: Object contains unknown field `mode`",
    ),
    "a priority that is none": ({**WHOLE, "priority": "high"}, "spec.priority: Expected `int | null`, got `str`"),
}


@pytest.mark.parametrize(("spec", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("version", KINDS)
def test_what_is_not_known_is_named_with_its_field(version: str, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(version, **spec)
    assert str(raised.value).startswith(f"{KINDS[version].name} team/job: {message}")


@pytest.mark.parametrize(("version", "type_"), [(OLDER, "PodGroupScheduled"), (NEWER, "PodGroupInitiallyScheduled")])
def test_a_version_has_a_condition_of_its_own(version: str, type_: str) -> None:
    assert KINDS[version].condition == type_
    other = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    own = {"type": type_, "status": "False", "reason": "Unschedulable", "message": "why"}
    assert decode(version, {"conditions": [other]}, **EACH).condition is None
    found = decode(version, {"conditions": [other, own]}, **EACH).condition
    assert found == Condition("False", "Unschedulable", "why")
