"""Objects that a pod names and that are not there: one with a similar name is suggested, and no numbered sibling."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.typos import letters_off
from tests.whatif.group_worlds import member, named
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_group_objects import LABEL
from tests.whatif.test_whatif_remedies import GPU, node, pod
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.model import did_you_mean_object
from vgpu_scheduler.whatif import World, explain_pod, remedies

Object = dict[str, Any]
NAMES = ["models", "training-data", "scratch-0", "gold-class", "llama", "team-a-weights"]


def claim(name: str, class_name: str = "") -> Object:
    spec = {"volumeName": f"pv-{name}"} if not class_name else {"storageClassName": class_name}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def storage_class(name: str) -> Object:
    return {"kind": "StorageClass", "metadata": {"name": name}, "volumeBindingMode": "Immediate", "provisioner": "x"}


def group_object(name: str, minimum: int = 2) -> Object:
    api_version = "scheduling.x-k8s.io/v1alpha1"
    metadata = {"name": name, "namespace": "default", "uid": f"g-{name}"}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": minimum}}


def asking_for(claimed: str) -> Object:
    return pod("asked", {GPU: 1}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claimed}}])


def first_of_its_kind(world: World) -> list[str]:
    (waiting,) = world.pending.values()
    return [each.text for each in remedies(world, waiting)]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_each_typo_in_the_name_of_a_claim_is_told(name: str) -> None:
    for typed in letters_off(name):
        world = world_of(node("a"), claim(name), claim("other"), asking_for(typed))
        said = f"create the PersistentVolumeClaim {typed}, or correct the name, did you mean {name}?"
        assert (said in first_of_its_kind(world)) or typed.translate(DIGITS) == name.translate(DIGITS), typed


@pytest.mark.parametrize("name", NAMES)
def test_each_typo_in_the_name_of_a_storage_class_is_told(name: str) -> None:
    for typed in letters_off(name)[::3]:
        world = world_of(node("a"), claim("data", typed), storage_class(name), storage_class("x"), asking_for("data"))
        (said,) = [each for each in first_of_its_kind(world) if "have storage class" in each]
        assert said.endswith(f"did you mean {name}?") or typed.translate(DIGITS) == name.translate(DIGITS), typed


@pytest.mark.parametrize("name", NAMES)
def test_each_typo_in_the_name_of_a_pod_group_is_told(name: str) -> None:
    for typed in letters_off(name)[::3]:
        asked = waits("p0", {GPU: 1}, 1, metadata={"labels": {LABEL: typed}})
        world = world_of(node("a"), group_object(name), group_object("x"), asked)
        text = explain_pod(world, named(world, "p0")).text()
        said = f"create PodGroup.scheduling.x-k8s.io default/{typed}, or correct the name, did you mean {name}?"
        assert said in text or typed.translate(DIGITS) == name.translate(DIGITS), typed


DIGITS = str.maketrans("", "", "0123456789")


@pytest.mark.parametrize("name", NAMES)
def test_each_typo_in_the_name_of_a_group_without_an_object_is_told(name: str) -> None:
    for typed in letters_off(name)[::3]:
        there = [member(f"p{n}", n, 4, group=name) for n in range(3)]
        world = world_of(node("a"), *there, member("odd", 9, 4, group=typed))
        text = explain_pod(world, named(world, "odd")).text()
        said = f"; or correct the name of the group of pod odd, did you mean {name}?"
        assert said in text or typed.translate(DIGITS) == name.translate(DIGITS), typed


def test_a_group_that_lacks_no_pod_is_not_meant() -> None:
    there = [member(f"p{n}", n, 3, group="train") for n in range(3)]
    world = world_of(node("a"), *there, member("odd", 9, 4, group="trian"))
    assert "did you mean" not in explain_pod(world, named(world, "odd")).text()


@pytest.mark.parametrize(
    ("name", "others"), [("data-2", ["data-0", "data-1"]), ("w10", ["w1", "w9"]), ("run3a", ["run4a"])]
)
def test_a_numbered_sibling_is_not_meant(name: str, others: list[str]) -> None:
    assert did_you_mean_object(name, others) == ""


@pytest.mark.parametrize("name", ["data", "x", "models-of-others"])
def test_what_is_like_no_name_is_not_taken_for_one(name: str) -> None:
    assert did_you_mean_object(name, ["scratch", "weights", "gold"]) == ""
