"""What is said of a group of which pods miss their claims: as of a pod alone, whichever of its pods is asked about."""

from __future__ import annotations

import pytest
from tests.whatif.group_worlds import Object, member, named, simulated
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import RemedyType, explain_pod

STORAGE: Object = {
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "p",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def claim(name: str) -> Object:
    spec = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def claiming(name: str, claimed: str, minimum: int = 2) -> Object:
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": claimed}}] if claimed else []
    return member(name, 0, minimum, volumes=mounted)


def told(*objects: Object, of: str = "p") -> list[str]:
    world = world_of(node("a", 2), *objects)
    found = explain_pod(world, named(world, of)).remedies
    assert {each.type for each in found} <= {RemedyType.PROVIDE_VOLUME}
    return [each.text for each in found]


CREATE = "create the PersistentVolumeClaim data, or correct the name"


def test_the_claim_that_another_pod_of_the_group_misses_is_to_be_created() -> None:
    pods = claiming("p", ""), claiming("q", "data")
    assert told(*pods) == [f"{CREATE} (pod q)"]
    assert told(*pods, of="q") == [CREATE]
    assert set(simulated(world_of(node("a", 2), STORAGE, claim("data"), *pods))) == {"p", "q"}


def test_the_claim_that_all_pods_of_the_group_miss_is_named_once() -> None:
    pods = claiming("p", "data"), claiming("q", "data")
    assert told(*pods) == [f"{CREATE} (pods p, q)"]
    world = world_of(node("a", 2), *pods)
    assert "No change is proposed" not in explain_pod(world, named(world, "p")).text()


@pytest.mark.parametrize("count", [3, 5])
def test_of_many_claims_the_first_are_named_and_the_others_counted(count: int) -> None:
    texts = told(*(claiming(f"p{number}", f"data-{number}", count) for number in range(count)), of="p0")
    assert len(texts) == 3
    assert ("and likewise 2 more claims of its group" in texts[-1]) is (count == 5)


def test_a_pod_without_its_claim_that_the_group_does_not_need_is_left_alone() -> None:
    pods = (*(member(name, 0, 2, 20000) for name in ("p", "q")), claiming("r", "data"))
    assert told(*pods) == []
