"""A group that is to be near each other, and is not placed for that, is told how it would be."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.group_worlds import named
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import Explanation, RemedyType, World, explain_pod, make_dialect, simulate
from vgpu_scheduler.whatif.advice.remedy import say
from vgpu_scheduler.whatif.tenant_advice.others import remedies_of_other_reasons

Object = dict[str, Any]

REQUIRED, PREFERRED = (f"kueue.x-k8s.io/podset-{which}-topology" for which in ("required", "preferred"))
FIELD = "spec.schedulingConstraints.topology"
NAME = "PodGroup.v1alpha2.scheduling.k8s.io default/g"


def world_of(*objects: Object) -> World:
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(deepcopy(list(objects)))
    return made


def placed(objects: list[Object]) -> dict[str, str]:
    """Return where the pods of the group go."""
    world = world_of(*objects)
    answers = simulate(world, sorted(world.pending.values(), key=lambda pod: pod.key), as_they_are=True)
    return {answer.pod.name: answer.node for answer in answers if answer.node}


def drawn(seed: int, said_by: str) -> list[Object]:
    """Return nodes with labels, and a group that is to be near each other as its pods, its object or both say."""
    rng = np.random.default_rng(seed)
    objects: list[Object] = []
    for number in range(int(rng.integers(2, 5))):
        zones = ["a", "b", "c"][: int(rng.integers(1, 4))]
        labels = {"zone": str(rng.choice(zones))} if rng.random() < 0.8 else {}
        objects.append(node(f"n{number}", int(rng.integers(1, 3)), labels=labels))
    count = int(rng.integers(2, 5))
    for number in range(count):
        made = waits(f"p{number}", {GPU: 1, MEMORY: int(rng.choice([5000, 9000, 16000]))}, number)
        made["metadata"] |= {"annotations": {}, "labels": {}}
        if said_by == "pods":
            made["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "g"
            made["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(count)
        else:
            made["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        if said_by != "object":
            made["metadata"]["annotations"][REQUIRED] = "zone"
            if seed % 3 == 0:
                made["metadata"]["annotations"][PREFERRED] = "kubernetes.io/hostname"
        objects.append(made)
    if said_by != "pods":
        spec: Object = {"schedulingPolicy": {"gang": {"minCount": count}}}
        spec["schedulingConstraints"] = {"topology": [{"key": "zone"}]}
        metadata = {"name": "g", "namespace": "default"}
        objects.append(
            {"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v1alpha2", "metadata": metadata, "spec": spec}
        )
    return objects


def without(objects: list[Object]) -> list[Object]:
    """Return the objects of a group that need not be near each other."""
    changed = deepcopy(objects)
    for each in changed:
        (each["metadata"].get("annotations") or {}).pop(REQUIRED, None)
        each.get("spec", {}).pop("schedulingConstraints", None)
    return changed


def done(objects: list[Object], changed: tuple[Any, ...]) -> list[Object]:
    """Return objects of which some are as a remedy has them."""
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in changed}
    return [by_name.pop((each["kind"], each["metadata"]["name"]), each) for each in objects] + list(by_name.values())


def explained(objects: list[Object], name: str = "p0") -> Explanation:
    """Explain a pod, of which nothing is left: another question gets the same answer."""
    world = world_of(*objects)
    found, again = explain_pod(world, named(world, name)), explain_pod(world, named(world, name))
    assert found.text() == again.text()
    assert not list(world.engine.state.reservations()) or not world.engine.state.drift()
    return found


@pytest.mark.parametrize("said_by", ["pods", "object", "both"])
@pytest.mark.parametrize("seed", seeds(4, 60))
def test_what_keeps_a_group_together_is_left_out_where_it_fits_then(seed: int, said_by: str) -> None:
    objects = drawn(seed, said_by)
    found = explained(objects)
    fits, members = bool(found.answer.node), {each["metadata"]["name"] for each in objects if each["kind"] == "Pod"}
    dropped = [each for each in found.remedies if each.type is RemedyType.DROP_CONSTRAINT]
    assert bool(dropped) is (not fits and placed(without(objects)).keys() == members)
    for remedy in dropped:
        assert (REQUIRED in remedy.text, FIELD in remedy.text) == (said_by != "object", said_by != "pods")
        assert f"instead of {REQUIRED} (zone)" in remedy.text or said_by == "object" or seed % 3 == 0
        after = placed(done(objects, remedy.objects))
        assert after.keys() == members, remedy.text
        assert after["p0"] == remedy.node


def test_the_pods_that_run_ask_for_it_no_more_either() -> None:
    """A pod beyond those that are needed is placed by itself, near those that run."""
    held = running("p1", "n0", "GPU-n0-0", 9000)
    held["metadata"] |= {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "uid": "p1"}
    held["metadata"]["annotations"] |= {"kueue.x-k8s.io/pod-group-total-count": "2", REQUIRED: "zone"}
    asked = waits("p0", {GPU: 1, MEMORY: 9000}, 5)
    asked["metadata"] |= {name: held["metadata"][name] for name in ("labels",)}
    asked["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2", REQUIRED: "zone"}
    objects = [node("n0", 1, labels={"zone": "a"}), node("n1", 1, labels={"zone": "b"}), held, asked]
    (remedy,) = (each for each in explained(objects).remedies if each.type is RemedyType.DROP_CONSTRAINT)
    assert remedy.text == f"write annotation {PREFERRED} instead of {REQUIRED} (zone) on all 2 pods of group default/g"
    assert [each["metadata"]["name"] for each in remedy.objects] == ["p0", "p1"]
    assert placed(done(objects, remedy.objects)) == {"p0": "n1"}


@pytest.mark.parametrize("said_by", ["pods", "object", "both"])
def test_who_sees_no_node_is_told_by_the_condition(said_by: str) -> None:
    group = [each for each in drawn(1, said_by) if each["kind"] != "Node"]
    for each in group:
        if each["kind"] == "Pod":
            each["spec"]["containers"][0]["resources"]["limits"][MEMORY] = "16000"
    world = world_of(*(node(f"n{n}", 1, labels={"zone": f"z{n}"}) for n in range(len(group))), *group)
    message = explain_pod(world, named(world, "p0")).answer.decision.message
    (*told, last) = map(say, remedies_of_other_reasons(message))
    assert [text.partition(":")[0] for text in told] == [
        *([f"write annotation {PREFERRED} instead of {REQUIRED} on all pods of the group"] * (said_by != "object")),
        *([f"make {NAME} without {FIELD}"] * (said_by != "pods")),
    ]
    assert "have the group need less" in last
