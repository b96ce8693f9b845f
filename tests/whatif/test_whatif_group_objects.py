"""What is written of groups of pods, in their objects and in their pods: what is wrong, and how it is corrected."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif import test_whatif_turns as turns
from tests.whatif.group_worlds import Object, member, named, simulated
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.reading import ClusterView, make_world, settings_from_file
from vgpu_scheduler.whatif import RemedyType, World, explain_pod, make_dialect
from vgpu_scheduler.whatif.world.queue_order import pods_before_and_after

LABEL = "scheduling.x-k8s.io/pod-group"


@pytest.mark.parametrize("seed", range(50))
def test_another_member_whose_scheduler_is_misspelt_is_to_be_created_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    right, where = "vgpu-scheduler", int(rng.integers(0, len("vgpu-scheduler")))
    wrong = [f"{right[:where]}{right[where + 1 :]}", f"{right[:where]}x{right[where:]}"][seed % 2]
    other = member("p1", 2, 2)
    other["spec"]["schedulerName"] = wrong
    world = world_of(node("a", 2), member("p0", 1, 2), other)
    (remedy,) = explain_pod(world, named(world, "p0")).remedies
    anew = f"if {right} is meant, create it anew with spec.schedulerName: {right}"
    said = f"p1 (names scheduler {wrong}, which is not known here; {anew})"
    assert remedy.text == f"create 1 more pod of group default/team, or include others: {said}"
    other["spec"]["schedulerName"] = right
    world = world_of(node("a", 2), member("p0", 1, 2), other)
    assert explain_pod(world, named(world, "p0")).answer.node


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize("selected", ["", "p0", "p2"])
def test_a_group_that_waits_for_an_invalid_policy_is_told_to_have_it_corrected(
    selected: str, *, cordoned: bool
) -> None:
    spec = {"devices": {"policies": "spread"}} | ({"selector": {"matchLabels": {"u": selected}}} if selected else {})
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "p"}, "spec": spec}
    members = [member(f"p{n}", n, 3) for n in range(3)]
    for each in members:
        each["metadata"]["labels"] = {"u": each["metadata"]["name"]}
    world = world_of(node("a", 3, **({"unschedulable": True} if cordoned else {})), policy, *members)
    invalid = list(world.engine.policies.catalogue.all())
    for name in ("p0", "p1", "p2"):
        found = explain_pod(world, named(world, name))
        first, *then = found.remedies
        assert first.text.startswith("have an administrator of the cluster correct ClusterVGPUPolicy p, or remove what")
        assert first.node == ("" if cordoned else "a")
        assert all(remedy.node for remedy in then)
        assert any("uncordon node a" in remedy.text for remedy in then) is cordoned
        assert "No change" not in found.text()
    assert list(world.engine.policies.catalogue.all()) == invalid


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        ({"gangs": {"minCount": 2}}, "spec.schedulingPolicy: Object contains unknown field `gangs`"),
        ({"gang": {"minCounts": 2}}, "spec.schedulingPolicy.gang: Object contains unknown field `minCounts`"),
        ({"gang": {"minCount": 0}}, "spec.schedulingPolicy.gang.minCount: 0 is not a number of pods"),
    ],
)
def test_a_pod_group_that_cannot_be_read_is_to_be_corrected(policy: Object, wrong: str) -> None:
    """It is there, and of a kind that the API server serves."""
    metadata, kind = {"name": "workers", "namespace": "default"}, "PodGroup.v1beta1.scheduling.k8s.io default/workers"
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata}
    members = [waits(f"p{n}", {GPU: 1}, n, schedulingGroup={"podGroupName": "workers"}) for n in range(2)]
    world = World(EngineOptions([make_dialect("hami")]))
    world.add([node("a", 2), {**group, "spec": {"schedulingPolicy": policy}}, *members])
    found = explain_pod(world, named(world, "p0"))
    assert [remedy.text for remedy in found.remedies] == [f"correct {kind}: {wrong}"]
    assert found.answer.decision.message == f"{kind}, which says how many pods the group needs, cannot be read."
    assert f"would describe: it cannot be read ({wrong})." in found.text()
    world.add([{**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}])
    assert explain_pod(world, named(world, "p0")).answer.node == "a"


@pytest.mark.parametrize("wrong", ["nvida.com/gpu", "nvidia.com/gpux"])
@pytest.mark.parametrize("mistaken", [("p0", "p1", "p2"), ("p1",)])
def test_a_misspelt_resource_is_corrected_in_the_pods_of_a_group(wrong: str, mistaken: tuple[str, ...]) -> None:
    """The scheduler does not refuse a name that it does not know."""
    members = [member(f"p{n}", n, 3) for n in range(3)]
    for each in members:
        if each["metadata"]["name"] in mistaken:
            each["spec"]["containers"][0]["resources"]["limits"] = {wrong: 1}
    world = world_of(node("a", 3), *members)
    which = f"pod{'s' * (len(mistaken) > 1)} {', '.join(mistaken)}"
    for name in ("p0", "p1"):
        found = [(remedy.text, remedy.node) for remedy in explain_pod(world, named(world, name)).remedies]
        assert found == [(f"write {GPU} instead of {wrong} in container main ({which})", "a")]


@pytest.mark.parametrize("seed", range(50))
def test_pods_of_a_group_that_are_refused_for_how_they_are_written_are_corrected(seed: int) -> None:
    """Whichever of them is asked about; where that does not suffice, it stands before all that helps beside it."""
    rng = np.random.default_rng(seed)
    size, has_room = int(rng.integers(2, 5)), bool(rng.random() < 0.6)
    mistakes = {
        "unit": ({GPU: "1", MEMORY: "8Gi"}, "8192", f"ask 8192 of {MEMORY} instead of 8Gi in container main"),
        "no card": ({MEMORY: "1000"}, "1000", f"add {GPU}: 1 to the limits of container main"),
    }
    pods, meant, mistaken = [], [], dict[str, list[str]]()
    for number in range(size):
        pods.append(made := member(f"p{number}", number, size, 1000))
        meant.append(right := deepcopy(made))
        if rng.random() < 0.4:
            written, memory, text = mistakes[str(rng.choice(list(mistakes)))]
            mistaken.setdefault(text, []).append(f"p{number}")
            made["spec"]["containers"][0]["resources"]["limits"] = written
            right["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1", MEMORY: memory}
    there = node("a", 2 * size, **({} if has_room else {"unschedulable": True}))
    world, asked = world_of(there, *pods), f"p{int(rng.integers(size))}"
    before = {uid: world.written(pod) for uid, pod in world.pending.items()}
    found = explain_pod(world, named(world, asked))
    assert {uid: world.written(pod) for uid, pod in world.pending.items()} == before
    of_each = {f"{text} (pod{'s' * (len(names) > 1)} {', '.join(names)})" for text, names in mistaken.items()}
    corrections = [each for each in found.remedies if each.type is RemedyType.CORRECT]
    assert len(corrections) == bool(mistaken)
    for remedy in corrections:
        assert set(remedy.text.split("; and ")) == of_each
        then = world_of(there, *meant)
        assert remedy.node == simulated(then).get(asked, "") == ("a" if has_room else "")
    if mistaken and not has_room:
        (uncordon,) = [each for each in found.remedies if each.type is RemedyType.UNCORDON_NODE]
        assert uncordon.text == f"{corrections[0].text}; and uncordon node a"


def test_an_object_that_is_missing_is_named() -> None:
    asked = waits("p0", {GPU: 1, MEMORY: 1000}, 1)
    asked["metadata"]["labels"] = {LABEL: "team"}
    world = world_of(node("a", 1), asked)
    assert explain_pod(world, named(world, "p0")).answer.node == "a", "nobody serves the kind"
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "other"}}
    world = world_of(node("a", 1), asked, group)
    found = explain_pod(world, named(world, "p0"))
    assert "PodGroup.scheduling.x-k8s.io default/team, which says how many pods" in found.answer.decision.message
    assert found.group.endswith("it does not exist.")
    assert "create PodGroup.scheduling.x-k8s.io default/team, or correct the name" in found.text()
    group["metadata"] = {"name": "team", "namespace": "default"}
    world = world_of(node("a", 1), asked, {**group, "spec": {"minMember": 1}})
    assert explain_pod(world, named(world, "p0")).answer.node == "a"


OURS = {"kind": "PodGroup", "metadata": {"name": "team"}}
NATIVE = {"apiVersion": "scheduling.k8s.io/v1alpha2", **OURS}


def in_native(name: str, second: int, **spec: Any) -> Object:
    return waits(name, {GPU: 1, MEMORY: 1000}, second, schedulingGroup={"podGroupName": "team"}, **spec)


PARENT = "parentCompositePodGroupName"


def test_a_group_of_kubernetes_itself_is_placed_as_its_object_says() -> None:
    gang = {**NATIVE, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    world = world_of(node("a", 2), in_native("p0", 1), in_native("p1", 2), gang)
    assert simulated(world) == {"p0": "a", "p1": "a"}
    near = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    world = world_of(node("a", 2), in_native("p0", 1), in_native("p1", 2), {**NATIVE, "spec": near})
    found = explain_pod(world, named(world, "p0"))
    assert "no node has label rack" in found.answer.decision.message
    world = world_of(node("a", 2), in_native("p0", 1), in_native("p1", 2), {**NATIVE, "spec": {**near, PARENT: "all"}})
    found = explain_pod(world, named(world, "p0"))
    assert f"spec.{PARENT} is not supported" in found.answer.decision.message
    assert not simulated(world)


def test_the_turn_of_a_group_is_told_by_the_priority_that_its_object_has() -> None:
    classes = {"kind": "PriorityClass", "metadata": {"name": "first"}, "value": 9}
    first = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "first"}
    pods = (in_native("p0", 8), in_native("p1", 9), waits("alone", {GPU: 1, MEMORY: 1000}, 1, priority=5))
    world = world_of(node("a", 2), *pods, classes, {**NATIVE, "spec": first})
    before, after = pods_before_and_after(world, named(world, "alone"))
    assert ({each.name for each in before}, after) == ({"p0", "p1"}, [])
    before, after = pods_before_and_after(world, named(world, "p0"))
    assert (before, {each.name for each in after}) == ([], {"alone"})


@pytest.mark.parametrize(
    ("live", "why"), [(True, "cannot be read"), (False, "is of a kind that the API server does not serve")]
)
def test_who_may_not_read_the_object_is_told_so(*, live: bool, why: str) -> None:
    objects = [node("a", 2), in_native("p0", 1)]
    world = make_world(ClusterView(objects, {}, settings_from_file(None, {}), live=live))
    says = explain_pod(world, named(world, "p0")).answer.decision.message
    assert says.endswith(f"default/team, which says how many pods the group needs, {why}.")


SAYING_HOW_MANY = {
    "koordinator": ({}, {"gang.scheduling.koordinator.sh/name": "g"}, "gang.scheduling.koordinator.sh/min-available"),
    "kueue": ({"kueue.x-k8s.io/pod-group-name": "g"}, {}, "kueue.x-k8s.io/pod-group-total-count"),
}
"""Labels and annotations that name a group, and the annotation that says how many pods it needs."""


def mistaken(source: str, number: str, second: int, **spec: Any) -> Object:
    """Return a pod that says of its group what is not a number of pods."""
    labels, annotations, says = SAYING_HOW_MANY[source]
    made = waits("mistaken", {GPU: 1, MEMORY: 1000}, second, **spec)
    made["metadata"] |= {"labels": labels, "annotations": {**annotations, says: number}}
    return made


@pytest.mark.parametrize("number", ["0", "x", "-1", "1.5", ""])
@pytest.mark.parametrize("source", SAYING_HOW_MANY)
def test_a_pod_that_is_refused_for_its_group_is_told_that_alone(source: str, number: str) -> None:
    room = [node("a"), running("r", "a", "GPU-a-0", 1000), mistaken(source, number, 1)]
    world = world_of(*room, node("b", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]))
    found = explain_pod(world, named(world, "mistaken"))
    (remedy,) = found.remedies
    assert not remedy.node
    assert remedy.text == f"correct {found.answer.decision.message}"
    assert SAYING_HOW_MANY[source][2] in remedy.text
    assert "it is not enough alone" not in found.text()


@pytest.mark.parametrize("seed", seeds(5, 15))
def test_a_pod_that_is_refused_for_its_group_is_in_nobodys_way(seed: int) -> None:
    rng, objects = np.random.default_rng(seed), turns.drawn(seed)
    source, priority = str(rng.choice([*SAYING_HOW_MANY])), int(rng.integers(0, 4))
    beside = mistaken(source, "0", int(rng.integers(0, 60)), priority=priority)
    alone, together = world_of(*deepcopy(objects)), world_of(*deepcopy(objects), beside)
    asked = [pod.name for pod in alone.pending.values()]
    told = [[explain_pod(world, named(world, name)).text() for name in asked] for world in (alone, together)]
    assert told[0] == told[1]


@pytest.mark.parametrize("group", [{"name": "workers"}, {"podGroupName": "g", "compositePodGroupName": "c"}, {}])
def test_a_group_that_is_named_in_another_way_is_left_out_or_named_in_the_right_one(group: Object) -> None:
    world = world_of(node("a", 1), waits("asked", {GPU: 1}, 1, schedulingGroup=group))
    (remedy,) = explain_pod(world, named(world, "asked")).remedies
    text = "leave out spec.schedulingGroup, or name a PodGroup in spec.schedulingGroup.podGroupName"
    assert (remedy.text, remedy.node) == (text, "a")
    assert remedy.pod is not None
    assert "schedulingGroup" not in remedy.pod["spec"]


def test_a_pod_group_of_volcano_is_to_be_made_without_its_hard_network_topology() -> None:
    metadata, spec = {"name": "workers", "namespace": "default"}, {"minMember": 1, "networkTopology": {"mode": "hard"}}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    waiting = waits("p0", {GPU: 1}, 1)
    waiting["metadata"]["annotations"] = {"scheduling.volcano.sh/group-name": "workers"}
    world = world_of(node("a", 1), group, waiting)
    (remedy,) = explain_pod(world, named(world, "p0")).remedies
    kind = "PodGroup.scheduling.volcano.sh default/workers"
    assert remedy.text == f"make {kind} without spec.networkTopology (unless its mode is soft)"
