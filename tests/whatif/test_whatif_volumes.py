"""Simulations of pods with volumes: snapshots with storage, and what controllers would make."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube import storage_objects as storage

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import (
    InvalidObjectsError,
    PodResult,
    World,
    claims_of,
    explain_pod,
    make_dialect,
    pods_of,
    simulate,
)

ZONE = "topology.kubernetes.io/zone"


def kind(name: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"kind": name, **obj}


def node(name: str, zone: str) -> dict[str, Any]:
    card = '{"id":"%s-0","count":10,"devmem":16384,"devcore":100,"type":"NVIDIA-T4","mode":"hami-core","health":true}'
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {ZONE: zone},
            "annotations": {"hami.io/node-nvidia-register": f"[{card % name}]"},
        },
        "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "10"}},
    }


def asked(name: str = "p", *, memory: int = 1024, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    containers = [{"name": "c", "resources": {"limits": limits}}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def world(*objects: dict[str, Any]) -> World:
    made = World(EngineOptions([make_dialect("hami")]), strict=True)
    made.add([node("a", "zone-a"), node("b", "zone-b"), *objects])
    return made


CLASS = kind("StorageClass", storage.storage_class("fast"))
ONLY_B = kind("StorageClass", storage.storage_class("only-b", topologies=[{ZONE: ["zone-b"]}]))


def claimed(name: str, storage_class: str = "fast", **more: Any) -> dict[str, Any]:
    return kind("PersistentVolumeClaim", storage.claim(name, "default", storage_class=storage_class, **more))


DATA = claimed("data", volume="disk")


def answers(made: World, *pods: dict[str, Any], **how: Any) -> list[PodResult]:
    return simulate(made, map(made.pod, pods), **how)


def test_a_pod_goes_where_its_volume_is() -> None:
    claim = claimed("data", volume="disk")
    disk = kind("PersistentVolume", storage.volume("disk", bound_to=claim, nodes={ZONE: ["zone-b"]}))
    (answer,) = answers(world(CLASS, claim, disk), asked(volumes=[storage.claim_volume("data")]))
    assert answer.node == "b"


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (
            [DATA, kind("PersistentVolume", storage.volume("disk", bound_to=DATA, nodes={ZONE: ["zone-c", "zone-d"]}))],
            f"Its claim default/data is bound to volume disk, which nodes with {ZONE} in (zone-c, zone-d) reach.",
        ),
        (
            [kind("StorageClass", storage.storage_class("fast", topologies=[{ZONE: ["c"]}])), claimed("data")],
            f"Class fast of its claim default/data makes volumes for nodes with {ZONE} in (c) (allowedTopologies).",
        ),
        (
            [
                kind("StorageClass", storage.storage_class("fast", provisioner="kubernetes.io/no-provisioner")),
                claimed("data"),
            ],
            (
                "Its claim default/data waits for a volume of class fast, which provisions none: provide one "
                "that is free, large enough and reachable from a node that fits."
            ),
        ),
        (
            [
                CLASS,
                claimed("data", size="9Ti"),
                kind("CSIDriver", storage.csi_driver()),
                kind("CSIStorageCapacity", storage.storage_capacity(storage_class="fast", capacity="1Gi")),
            ],
            (
                "Driver csi.example.com of its claim default/data says that nodes have no room for a volume of that"
                " size (CSIStorageCapacity)."
            ),
        ),
    ],
)
def test_the_claim_that_keeps_a_pod_away_is_named_with_what_its_volume_or_class_says(
    objects: list[dict[str, Any]], said: str
) -> None:
    pod = asked(volumes=[storage.claim_volume("data")])
    pod["metadata"]["namespace"] = "default"
    made = world(*objects, pod)
    (waiting,) = made.pending.values()
    found = explain_pod(made, waiting)
    assert not found.answer.node
    assert found.causes[0] == said


def test_what_is_to_be_bound_and_made_is_told() -> None:
    free = kind("PersistentVolume", storage.volume("free", storage_class="fast", nodes={ZONE: ["zone-b"]}))
    pod = asked(volumes=[storage.claim_volume("first"), storage.claim_volume("second")])
    (answer,) = answers(world(CLASS, ONLY_B, free, claimed("first"), claimed("second", "only-b")), pod)
    assert answer.as_json()["volumes"] == {"matched": {"default/first": "free"}, "provisioned": ["default/second"]}


def test_a_volume_that_one_pod_takes_is_not_there_for_the_next() -> None:
    by_hand = kind("StorageClass", storage.storage_class("by-hand", provisioner="kubernetes.io/no-provisioner"))
    free = kind("PersistentVolume", storage.volume("free", storage_class="by-hand"))
    claims = [claimed(name, "by-hand") for name in ("one", "two")]
    pods = [asked(name, volumes=[storage.claim_volume(name)]) for name in ("one", "two")]
    first, second = answers(world(by_hand, free, *claims), *pods)
    assert first.node
    assert second.decision.message == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    )


def stateful_set(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "n"},
        "spec": {
            "replicas": 2,
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": asked()["spec"]},
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": storage.claim(storage_class="only-b")["spec"]},
            ],
            **spec,
        },
    }


def test_a_stateful_set_has_claims_of_its_own() -> None:
    made, workload = world(ONLY_B), stateful_set(ordinals={"start": 3})
    made.make_volume_claims(claims_of(workload))
    found = answers(made, *pods_of(workload))
    assert [(answer.pod.key, answer.node) for answer in found] == [("n/db-3", "b"), ("n/db-4", "b")]
    assert found[0].as_json()["volumes"]["provisioned"] == ["n/data-db-3"]


def test_a_claim_that_is_there_is_used_by_the_stateful_set() -> None:
    claim = kind("PersistentVolumeClaim", storage.claim("data-db-0", "n", storage_class="only-b", volume="disk"))
    disk = kind("PersistentVolume", storage.volume("disk", bound_to=claim, nodes={ZONE: ["zone-a"]}))
    made = world(ONLY_B, claim, disk)
    made.make_volume_claims(claims_of(stateful_set()))
    assert [answer.node for answer in answers(made, *pods_of(stateful_set()))] == ["a", "b"]


def test_ephemeral_volumes_have_claims_of_the_default_class() -> None:
    default = storage.storage_class("the-default", topologies=[{ZONE: ["zone-b"]}])
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    (answer,) = answers(world(kind("StorageClass", default)), asked(volumes=[scratch]))
    assert (answer.node, answer.as_json()["volumes"]["provisioned"]) == ("b", ["default/p-scratch"])


def test_pods_that_wait_in_the_snapshot_are_asked_about_themselves() -> None:
    waits = asked("waits", volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    waits["metadata"] |= {"uid": "the-pod", "namespace": "default"}
    owned = claimed("waits-tmp", meta={"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "waits", "uid": "the-pod", "controller": True}]})  # fmt: skip
    ended = {**asked("ended"), "status": {"phase": "Succeeded"}}
    made = world(CLASS, waits, owned, ended)
    (answer,) = simulate(made, list(made.pending.values()), as_they_are=True)
    assert (answer.pod.name, answer.node) == ("waits", "a")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"volumeClaimTemplates": "x"}, "StatefulSet db: spec.volumeClaimTemplates is not a list"),
        ({"volumeClaimTemplates": ["x"]}, "StatefulSet db: spec.volumeClaimTemplates"),
        ({"ordinals": {"start": -1}}, "StatefulSet db: spec.ordinals.start: -1 is not a number of 0 or more"),
    ],
)
def test_a_malformed_stateful_set_is_named_with_its_field(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidObjectsError, match=problem):
        claims_of(stateful_set(**spec))


def test_a_malformed_claim_is_named_with_its_field() -> None:
    with pytest.raises(InvalidObjectsError, match=r"PersistentVolumeClaim default/c: .*storage"):
        world(kind("PersistentVolumeClaim", storage.claim("c", "default", size="many")))
