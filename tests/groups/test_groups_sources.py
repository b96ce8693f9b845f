"""What pods say of their groups, as each ecosystem writes it, and the objects that describe groups."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.builders import pod_object
from tests.groups.definitions import DEFINED_KINDS

from vgpu_scheduler.groups import GROUP_SOURCES, POD_GROUP_KINDS, GroupKey, Membership, membership
from vgpu_scheduler.kube import DecodeError, Pod, decode_pod

GANG = "gang.scheduling.koordinator.sh"
BEFORE = "pod-group.scheduling.sigs.k8s.io"
KUEUE = "kueue.x-k8s.io/pod-group"


def member(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Pod:
    return decode_pod(pod_object("p", labels=labels, annotations=annotations, namespace="team"))


CASES = {
    "KubeRay and Trainer": ({"scheduling.x-k8s.io/pod-group": "job"}, {}, "coscheduling", None),
    "coscheduling before": ({BEFORE: "job"}, {}, "coscheduling-before", None),
    "coscheduling before, another label": ({f"{BEFORE}/name": "job"}, {}, "coscheduling-before", None),
    "without an object": ({f"{BEFORE}/name": "job", f"{BEFORE}/min-available": "4"}, {}, "coscheduling-before", 4),
    "Koordinator": ({}, {f"{GANG}/name": "job", f"{GANG}/min-available": "3"}, "koordinator", 3),
    "Kueue": ({f"{KUEUE}-name": "job"}, {f"{KUEUE}-total-count": "2"}, "kueue", 2),
    "LeaderWorkerSet": ({}, {"scheduling.k8s.io/group-name": "job"}, "volcano", None),
    "Volcano": ({}, {"scheduling.volcano.sh/group-name": "job"}, "volcano", None),
}


@pytest.mark.parametrize(("labels", "annotations", "source", "minimum"), CASES.values(), ids=CASES)
def test_a_pod_says_its_group_as_its_ecosystem_writes_it(
    labels: dict[str, str], annotations: dict[str, str], source: str, minimum: int | None
) -> None:
    found = membership(member(labels, annotations))
    assert found is not None
    assert (found.key, found.minimum, found.problem) == (GroupKey(source, "team", "job"), minimum, "")
    kind, _, key = found.said_by.partition(" ")
    assert key in (labels if kind == "label" else annotations)


NONE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing": ({}, {}),
    "an empty name": ({"scheduling.x-k8s.io/pod-group": ""}, {f"{GANG}/name": ""}),
    "a minimum alone": ({}, {f"{GANG}/min-available": "3"}),
    "admitted with its first pod": (
        {f"{KUEUE}-name": "job"},
        {f"{KUEUE}-total-count": "2", f"{KUEUE}-fast-admission": "true"},
    ),
}


@pytest.mark.parametrize(("labels", "annotations"), NONE.values(), ids=NONE)
def test_other_pods_belong_to_none(labels: dict[str, str], annotations: dict[str, str]) -> None:
    assert membership(member(labels, annotations)) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "2.5", "two", "٣", "9999999999", "1e2", " 2"])
def test_a_minimum_that_is_no_number_is_named(text: str) -> None:
    annotation = f"{GANG}/min-available"
    found = membership(member(annotations={f"{GANG}/name": "job", annotation: text}))
    assert found is not None
    assert found.problem.startswith(f"annotation {annotation}: ")
    assert "it must be a whole number from 1 on" in found.problem


@given(
    st.dictionaries(st.sampled_from(["scheduling.x-k8s.io/pod-group", BEFORE, f"{KUEUE}-name"]), st.text(max_size=20)),
    st.dictionaries(
        st.sampled_from([f"{GANG}/name", f"{GANG}/min-available", f"{KUEUE}-total-count", f"{KUEUE}-fast-admission"]),
        st.text(max_size=20),
    ),
)
def test_whatever_pods_say_is_read(labels: dict[str, str], annotations: dict[str, str]) -> None:
    found = membership(member(labels, annotations))
    assert found is None or (isinstance(found, Membership) and found.key.source in {s.name for s in GROUP_SOURCES})


KINDS = {kind.name: kind for kind in POD_GROUP_KINDS}


def obj(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job", "namespace": "team", "uid": "u", "resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize("name", [kind.name for kind in DEFINED_KINDS])
def test_an_object_says_how_many_pods_are_needed(name: str) -> None:
    kind = KINDS[name]
    found = kind.decode(obj(minMember=3, queue="default", scheduleTimeoutSeconds=10))
    assert (found.kind, found.key, found.uid, found.resource_version, found.minimum) == (name, "team/job", "u", 7, 3)
    assert kind.decode(obj()).minimum == 1
    assert kind.resource.path.startswith(f"/apis/{name.removeprefix('PodGroup.')}/")
    assert kind.resource.path.endswith("/podgroups")


@pytest.mark.parametrize(
    ("topology", "refused"),
    [({"mode": "soft", "highestTierAllowed": 1}, False), ({"mode": "hard"}, True), ({"highestTierAllowed": 2}, True)],
    ids=["soft", "hard", "hard by default"],
)
def test_nodes_that_volcano_puts_near_each_other_are_not_known(topology: dict[str, Any], refused: bool) -> None:  # noqa: FBT001
    found = KINDS["PodGroup.scheduling.volcano.sh"].decode(obj(minMember=3, networkTopology=topology))
    assert found.minimum == 3
    assert found.unsupported == ("spec.networkTopology, unless its mode is soft," if refused else "")


@pytest.mark.parametrize("minimum", [-1, "three", 2**31, 1.5])
def test_an_object_that_cannot_be_read_is_named_with_its_field(minimum: object) -> None:
    with pytest.raises(DecodeError, match=r"^PodGroup\.scheduling\.x-k8s\.io team/job: spec\.minMember"):
        KINDS["PodGroup.scheduling.x-k8s.io"].decode(obj(minMember=minimum))
