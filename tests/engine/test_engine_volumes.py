"""Volumes in decisions: what is planned, who waits, what is given back, and the check before a bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.builders import OURS, UNIT, asks, cards, engine_with, node, pod
from tests.kube.objects import Obj
from tests.kube.storage_objects import (
    SELECTED_NODE,
    attachment,
    claim,
    claim_volume,
    csi,
    csi_driver,
    csi_node,
    ephemeral_volume,
    storage_capacity,
    storage_class,
    volume,
)

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import (
    decode_attachment,
    decode_claim,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_capacity,
    decode_storage_class,
    decode_volume,
)
from vgpu_scheduler.model import NO_VOLUMES, Decision, Hint, Outcome, VolumePlan

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
DECODE: dict[str, Callable[[Any], Any]] = {
    CLAIM: decode_claim,
    VOLUME: decode_volume,
    CLASS: decode_storage_class,
    "CSINode": decode_csi_node,
    "CSIDriver": decode_csi_driver,
    "CSIStorageCapacity": decode_storage_capacity,
    "VolumeAttachment": decode_attachment,
}
LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"


def take(engine: Engine, kind: str, *objects: Obj, version: int = 5, now: float = 0.0) -> None:
    for obj in objects:
        found = DECODE[kind]({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}})
        engine.kinds[kind].observe(found, now)


def gone(engine: Engine, kind: str, obj: Obj, now: float = 0.0) -> None:
    engine.kinds[kind].remove(DECODE[kind](obj), 9, now)


def cluster(*volumes: Obj, claims: int = 2) -> Engine:
    """Return an engine with nodes a and b, local volumes, and claims c0, c1, … for such."""
    engine = engine_with([node(name, cards(name, 2), labels={"host": name}) for name in ("a", "b")])
    take(engine, CLASS, LOCAL, storage_class("made"))
    take(engine, VOLUME, *volumes)
    take(engine, CLAIM, *(claim(f"c{index}", "default", storage_class="local") for index in range(claims)))
    return engine


def local(name: str, host: str, **more: Any) -> Obj:
    return volume(name, storage_class="local", nodes={"host": [host]}, **more)


def using(*claims: str) -> dict[str, Any]:
    """Return the part of a spec that names claims."""
    return {"volumes": [claim_volume(name) for name in claims]}


def decide(engine: Engine, now: float = 0.0, **more: Any) -> Decision:
    decision = engine.attempt(now, **more)
    assert decision is not None
    return decision


def placed(engine: Engine, name: str, now: float = 0.0, **more: Any) -> tuple[str, VolumePlan]:
    """Decide a pod; return its node, empty if it waits, and what is to be done about its claims."""
    engine.observe_pod(pod(name, **more), now)
    decision = decide(engine, now)
    assert decision.pod.endswith(f"/{name}")
    return (decision.placement.node, decision.placement.volumes) if decision.placement else ("", NO_VOLUMES)


def bound(name: str, to: Obj | str, **more: Any) -> Obj:
    """Return claim ``name`` as it is once it is bound."""
    about = to if isinstance(to, str) else to["metadata"]["name"]
    return claim(name, "default", storage_class="local", volume=about, **more)


# What is planned -----------------------------------------------------------------------------------------------------


def test_a_claim_gets_the_volume_of_the_chosen_node() -> None:
    engine = cluster(local("big", "b", size="5Gi"), local("small", "b", size="2Gi"))
    assert placed(engine, "one", **using("c0")) == ("b", VolumePlan({"default/c0": "small"}))
    assert placed(engine, "two", **using("c1")) == ("b", VolumePlan({"default/c1": "big"}))


def test_claims_of_one_pod_get_different_volumes_the_smallest_claim_first() -> None:
    engine = cluster(local("v1", "a", size="2Gi"))
    take(engine, CLAIM, claim("c0", "default", storage_class="local", size="2Gi"), version=6)
    assert placed(engine, "one", **using("c0", "c1"))[0] == "", "there is one for both"
    take(engine, VOLUME, local("v2", "a", size="1Gi"), now=5.0)
    decision = decide(engine, 5.0)
    assert decision.placement is not None
    assert decision.placement.volumes == VolumePlan({"default/c1": "v2", "default/c0": "v1"})


def test_what_no_volume_is_found_for_is_made() -> None:
    engine = cluster(local("v", "b"))
    take(engine, CLAIM, claim("data", "default", storage_class="made"))
    assert placed(engine, "one", **using("c0", "data")) == ("b", VolumePlan({"default/c0": "v"}, ("default/data",)))
    assert placed(engine, "two", **using("data")) == ("b", VolumePlan({}, ("default/data",))), "it is made for b"


def test_nothing_is_to_be_done_where_all_claims_are_bound() -> None:
    engine = cluster(local("v", "b", bound_to=claim("c0", "default")))
    take(engine, CLAIM, bound("c0", "v"), version=6)
    assert placed(engine, "one", **using("c0")) == ("b", NO_VOLUMES)
    assert placed(engine, "plain")[1] == NO_VOLUMES


def test_the_claim_of_an_ephemeral_volume_is_the_pods_own() -> None:
    engine = cluster()
    engine.observe_pod(pod("web", volumes=[ephemeral_volume("tmp")]), 0.0)
    assert "waiting for ephemeral volume controller" in decide(engine).message
    owner = [{"uid": "uid-web", "controller": True}]
    take(engine, CLAIM, claim("web-tmp", "default", storage_class="made", meta={"ownerReferences": owner}), now=5.0)
    decision = decide(engine, 5.0)
    assert decision.placement is not None
    assert decision.placement.volumes == VolumePlan({}, ("default/web-tmp",))


# Who waits, and for what ---------------------------------------------------------------------------------------------


def test_one_volume_is_for_one_of_two_pods_and_comes_back_with_its_placement() -> None:
    engine = cluster(local("v", "b"))
    assert placed(engine, "one", **using("c0"))[0] == "b"
    engine.observe_pod(pod("two", **using("c1")), 0.0)
    decision = decide(engine)
    assert decision.message == f"0/2 nodes are available: 2 {NONE_TO_BIND}."
    assert (decision.outcome, bool(decision.helped_by & Hint.VOLUMES)) == (Outcome.UNSCHEDULABLE, True)
    engine.give_back("uid-one", 5.0, delay=60.0)
    second = decide(engine, 5.0)
    assert second.placement is not None
    assert (second.pod, second.placement.volumes) == ("default/two", VolumePlan({"default/c1": "v"}))


def test_what_was_written_stays_when_a_placement_is_given_back() -> None:
    engine = cluster(local("v", "b"))
    take(engine, CLAIM, claim("data", "default", storage_class="made"))
    assert placed(engine, "one", nodeSelector={"host": "b"}, **using("c0", "data"))[0] == "b"
    written = claim("data", "default", storage_class="made", meta={"annotations": {SELECTED_NODE: "b"}})
    take(engine, CLAIM, written, version=6)
    take(engine, VOLUME, local("v", "b", bound_to=claim("c0", "default"), phase="Available"), version=6)
    engine.give_back("uid-one", 0.0, delay=60.0)
    assert placed(engine, "two", **using("data")) == ("b", VolumePlan({}, ("default/data",)))
    assert placed(engine, "three", **using("c1"))[0] == "", "the volume is kept for the other claim"
    assert placed(engine, "four", **using("c0")) == ("b", VolumePlan({"default/c0": "v"}))


def test_a_pod_that_is_seen_bound_leaves_what_the_objects_say() -> None:
    engine = cluster(local("v", "b"))
    assert placed(engine, "one", **using("c0"))[0] == "b"
    engine.confirmed("uid-one")
    engine.observe_pod(pod("one", version=2, nodeName="b", **using("c0")), 0.0)
    assert engine.state.volumes.as_values() == engine.state.rebuild().volumes.as_values()
    assert placed(engine, "two", **using("c1")) == ("b", VolumePlan({"default/c1": "v"})), "nobody has written it"


def test_a_claim_for_one_pod() -> None:
    engine = cluster(local("v", "b", bound_to=claim("c0", "default")))
    take(engine, CLAIM, bound("c0", "v", accessModes=["ReadWriteOncePod"]), version=6)
    assert placed(engine, "one", **using("c0"))[0] == "b"
    assert engine.recheck("uid-one") is not None, "it is not in its own way"
    engine.observe_pod(pod("two", **using("c0")), 0.0)
    assert "ReadWriteOncePod access mode already in-use" in decide(engine).message
    engine.remove_pod("uid-one", 5.0)
    assert decide(engine, 5.0).placement is not None


def test_a_disk_that_somebody_uses() -> None:
    engine = cluster()
    disk = {"volumes": [{"name": "d", "iscsi": {"iqn": "t"}}]}
    engine.observe_pod(pod("other", asks(0), scheduler="default-scheduler", nodeName="a", **disk), 0.0)
    assert placed(engine, "one", **disk)[0] == "b"
    assert placed(engine, "two", **disk)[0] == ""
    engine.remove_pod("uid-other", 5.0)
    assert decide(engine, 5.0).placement is not None


def attached(name: str) -> Obj:
    """Return a volume of a driver that is bound to the claim of its name."""
    return volume(name, storage_class="local", csi=csi(name), bound_to=claim(name, "default"))


def test_what_a_driver_can_attach() -> None:
    engine = cluster(attached("c0"), attached("c1"))
    take(engine, CLAIM, bound("c0", "c0"), bound("c1", "c1"), version=6)
    take(engine, "CSINode", csi_node("a", limits={"csi.example.com": 1}), csi_node("b", limits={"csi.example.com": 0}))
    assert placed(engine, "one", **using("c0"))[0] == "a"
    assert placed(engine, "again", **using("c0"))[0] == "a", "it is attached already"
    engine.observe_pod(pod("two", **using("c1")), 0.0)
    assert decide(engine).message == "0/2 nodes are available: 2 node(s) exceed max volume count."
    take(engine, "CSINode", csi_node("b", limits={"csi.example.com": 1}), version=6, now=5.0)
    take(engine, "VolumeAttachment", attachment(node="b", volume="c0"), now=5.0)
    assert decide(engine, 5.0).placement is None
    gone(engine, "VolumeAttachment", attachment(node="b", volume="c0"), now=20.0)
    second = decide(engine, 20.0)
    assert second.placement is not None
    assert second.placement.node == "b"


@pytest.mark.parametrize(
    ("kind", "obj", "wakes"),
    [
        (CLAIM, claim("c9", "default"), True),
        (VOLUME, local("v", "a"), True),
        (CLASS, storage_class("another"), True),
        ("CSINode", csi_node("a"), True),
        ("CSIDriver", csi_driver(), True),
        ("CSIStorageCapacity", storage_capacity(), True),
        ("VolumeAttachment", attachment(), False),
    ],
)
def test_every_kind_is_taken_in_and_wakes_whom_it_may_help(kind: str, obj: Obj, wakes: bool) -> None:
    engine = cluster()
    assert placed(engine, "waits", **using("c0"))[0] == ""
    take(engine, kind, obj, now=5.0)
    key = engine.kinds[kind].key(DECODE[kind](obj))
    store = engine.state.volumes.objects.store(type(DECODE[kind](obj)))
    assert key in store
    assert (engine.attempt(5.0) is not None) is wakes
    take(engine, kind, obj, version=6, now=30.0)
    assert engine.attempt(30.0) is None, "nothing but the version changed"
    sweep = engine.sweep(kind, 9)
    assert DECODE[kind](obj) in [DECODE[kind](obj) for _ in sweep.missing()]
    for found in sweep.missing():
        sweep.remove(found, 40.0)
    assert key not in store
    assert [engine.kinds[kind].title(DECODE[kind](obj))] == [key]
    engine.kinds[kind].forget_versions()
    take(engine, kind, obj, version=1, now=40.0)
    assert key in store


def test_what_is_said_of_each_node() -> None:
    engine = cluster(local("v", "a", bound_to=claim("c0", "default")))
    engine.observe_node(node("c", cards("c", 1), labels={"host": "c"}, unschedulable=True), 0.0)
    take(engine, CLAIM, bound("c0", "v"), version=6)
    engine.observe_pod(pod("asks", nodeSelector={"host": "b"}, **using("c0", "c1")), 0.0)
    decision = decide(engine, explain=True)
    assert {name: found.reasons for name, found in decision.verdicts.items()} == {
        "a": ("node(s) didn't match Pod's node affinity/selector",),
        "b": (ELSEWHERE, NONE_TO_BIND),
        "c": ("node(s) were unschedulable",),
    }


@pytest.mark.parametrize("change", ["class", "claim"])
def test_a_pod_that_no_node_is_tried_for(change: str) -> None:
    engine = cluster(claims=0)
    take(engine, CLASS, storage_class("imm", wait=False))
    if change == "class":
        take(engine, CLAIM, claim("c0", "default", storage_class="imm"))
    engine.observe_pod(pod("one", **using("c0")), 0.0)
    text = (
        "pod has unbound immediate PersistentVolumeClaims"
        if change == "class"
        else ('persistentvolumeclaim "c0" not found')
    )
    decision = decide(engine)
    assert decision.message == f"0/2 nodes are available: {text}."
    assert decision.helped_by & Hint.VOLUMES
    take(engine, CLASS, storage_class("imm"), version=6, now=5.0)
    take(engine, CLAIM, claim("c0", "default", storage_class="imm"), version=7, now=5.0)
    assert decide(engine, 5.0).placement is not None


# Units, overlays -----------------------------------------------------------------------------------------------------


def test_a_unit_gives_back_all_its_volumes() -> None:
    engine = cluster(local("v", "b"))
    for index in range(2):
        notes = {UNIT: "pair/2"}
        engine.observe_pod(pod(f"p{index}", annotations=notes, **using(f"c{index}")), 0.0)
    before = engine.state.volumes.as_values()
    decisions = [each for each in (engine.attempt_unit(0.0), engine.attempt_unit(0.0)) if each]
    assert {each.outcome for unit in decisions for each in unit} == {Outcome.UNSCHEDULABLE}
    assert engine.state.volumes.as_values() == before
    take(engine, VOLUME, local("w", "a"), now=5.0)
    (one, two) = engine.attempt_unit(5.0)
    plans = [each.placement.volumes for each in (one, two) if each.placement]
    assert plans == [VolumePlan({"default/c0": "w"}), VolumePlan({"default/c1": "v"})]


def test_a_question_on_an_overlay_changes_nothing() -> None:
    engine = cluster(local("v", "b"))
    placed(engine, "one", **using("c0"))
    before = engine.state.volumes.as_values()
    waiting = pod("two", **using("c1"))
    view = engine.state.overlay(without=["uid-one"])
    decision = engine.cycle.on(view).decide(waiting)
    assert decision.placement is not None
    assert decision.placement.volumes == VolumePlan({"default/c1": "v"})
    assert engine.cycle.decide(waiting).placement is None
    assert engine.cycle.fits_without(waiting, "b", ["uid-one"]) is not None
    assert engine.cycle.fits_without(waiting, "a", ["uid-one"]) is None
    assert engine.state.volumes.as_values() == before


# The check before a bind ---------------------------------------------------------------------------------------------


def assumed() -> Engine:
    """Return an engine with a pod on b, for which volume v is to be bound to c0 and one to be made for data."""
    engine = cluster(local("v", "b"), local("w", "b", size="9Gi"), local("x", "a"))
    take(engine, CLAIM, claim("data", "default", storage_class="made"))
    where = placed(engine, "one", nodeSelector={"host": "b"}, **using("c0", "data"))
    assert where == ("b", VolumePlan({"default/c0": "v"}, ("default/data",)))
    return engine


def other(name: str) -> Obj:
    return claim(name, "default", storage_class="local")


@pytest.mark.parametrize(
    ("happens", "holds"),
    [
        ([], True),
        ([(CLAIM, bound("c0", "v"))], True),
        ([(CLAIM, bound("c0", "w"))], True),
        ([(CLAIM, bound("c0", "x"))], False),
        ([(VOLUME, local("v", "b", bound_to=other("c0"), phase="Available"))], True),
        ([(VOLUME, local("v", "b", bound_to=other("c1")))], False),
        ([(VOLUME, local("v", "a"))], False),
        ([(CLAIM, claim("data", "default", storage_class="made", meta={"annotations": {SELECTED_NODE: "b"}}))], True),
        ([(CLAIM, claim("data", "default", storage_class="made", meta={"annotations": {SELECTED_NODE: "a"}}))], False),
        ([(CLAIM, claim("data", "default", storage_class="made", volume="y")), (VOLUME, local("y", "b"))], True),
        ([(CLAIM, claim("data", "default", storage_class="made", volume="y")), (VOLUME, local("y", "a"))], False),
        ([(CLAIM, claim("data", "default", storage_class="made", volume="never"))], False),
        ([(CLAIM, claim("data", "default", storage_class="made", meta={"deletionTimestamp": "2026"}))], False),
        ([(CLASS, storage_class("made", topologies=[{"host": ["a"]}]))], False),
    ],
)
def test_a_placement_holds_while_its_claims_need_nothing_else(happens: list[tuple[str, Obj]], holds: bool) -> None:
    engine = assumed()
    held = engine.state.reservation("uid-one")
    assert held is not None
    for kind, obj in happens:
        take(engine, kind, obj, version=7)
    found = engine.recheck("uid-one")
    assert found == (held.placement if holds else None)
    # The same once the node has changed, so that the pod is fitted anew.
    engine.observe_node(node("b", cards("b", 2), version=2, labels={"host": "b", "more": "x"}), 0.0)
    assert engine.recheck("uid-one") == (held.placement if holds else None)


def test_a_volume_that_is_gone_is_not_bound() -> None:
    engine = assumed()
    gone(engine, VOLUME, local("v", "b"))
    assert engine.recheck("uid-one") is None


# Errors --------------------------------------------------------------------------------------------------------------


def broken() -> Engine:
    """Return an engine with a claim whose disk cannot be translated, and a node where that would have to be done."""
    engine = cluster()
    odd = volume("odd", storage_class="local", bound_to=other("c0"), awsElasticBlockStore={"volumeID": "aws://odd"})
    take(engine, VOLUME, odd)
    take(engine, CLAIM, bound("c0", "odd"), version=6)
    return engine


def test_a_filter_that_cannot_tell_fails_the_attempt_in_its_own_words() -> None:
    engine = broken()
    take(engine, "CSINode", csi_node("b", migrated="kubernetes.io/aws-ebs"))
    engine.observe_pod(pod("one", **using("c0")), 0.0)
    decision = decide(engine)
    assert decision.outcome is Outcome.ERROR
    assert decision.message.startswith("could not translate pv: failed to translate Kubernetes ID to EBS Volume ID")
    assert "internal" not in decision.message
    assert placed(engine, "plain")[0] == "a", "it stops no other pod"
    take(engine, "CSINode", csi_node("b"), version=6)
    assert decide(engine, 60.0).placement is not None


def test_a_placement_of_which_a_filter_cannot_tell_is_not_bound() -> None:
    engine = broken()
    assert placed(engine, "one", **using("c0"))[0] == "a"
    assert engine.recheck("uid-one") is not None
    take(engine, "CSINode", csi_node("a", migrated="kubernetes.io/aws-ebs"))
    assert engine.recheck("uid-one") is None
    assert engine.cycle.refit(pod("other", **using("c0")), "a") is None


def test_an_error_fails_its_whole_unit() -> None:
    engine = broken()
    take(engine, "CSINode", csi_node("b", migrated="kubernetes.io/aws-ebs"))
    for name, more in (("p0", {}), ("p1", using("c0"))):
        engine.observe_pod(pod(name, annotations={UNIT: "pair/2"}, **more), 0.0)
    decisions = [each for _ in range(2) for each in engine.attempt_unit(0.0)]
    failed = [each for each in decisions if each.outcome is Outcome.ERROR]
    assert {each.pod for each in failed} == {"default/p0", "default/p1"}
    assert engine.state.reservation("uid-p0") is None


# Before the objects are known ----------------------------------------------------------------------------------------


def test_pods_with_claims_wait_in_silence_until_all_kinds_are_known() -> None:
    engine = cluster(local("v", "b"))
    assert engine.storage.synced
    assert not engine.storage.needed
    engine.storage.unknown()
    engine.observe_pod(pod("one", **using("c0")), 0.0)
    engine.observe_pod(pod("disk", volumes=[{"name": "d", "cinder": {"volumeID": "v"}}]), 0.0)
    engine.observe_pod(pod("plain"), 0.0)
    assert engine.storage.needed
    found = {each.pod.partition("/")[2]: each for _ in range(3) for each in engine.attempt_unit(0.0)}
    assert {name: each.outcome for name, each in found.items()} == {
        "one": Outcome.WAITING,
        "disk": Outcome.WAITING,
        "plain": Outcome.PLACED,
    }
    assert found["one"].message == ""
    assert engine.attempt(5.0) is None, "it is parked"
    assert engine.storage.needed
    engine.storage.known()
    assert {decide(engine, 5.0).outcome for _ in range(2)} == {Outcome.PLACED}
    for name in ("one", "disk"):
        engine.confirmed(f"uid-{name}")
    assert not engine.storage.needed


def test_a_unit_waits_for_its_member_with_claims() -> None:
    engine = cluster(local("v", "b"))
    engine.storage.unknown()
    for name, more in (("p0", {}), ("p1", using("c0"))):
        engine.observe_pod(pod(name, annotations={UNIT: "pair/2"}, **more), 0.0)
    decisions = [each for _ in range(3) for each in engine.attempt_unit(0.0)]
    assert {each.outcome for each in decisions[-2:]} == {Outcome.WAITING}
    engine.storage.known()
    assert [each.outcome for each in engine.attempt_unit(5.0)] == [Outcome.PLACED] * 2


def test_pods_of_others_need_no_storage_of_ours() -> None:
    engine = cluster()
    engine.observe_pod(pod("one", scheduler="default-scheduler", **using("c0")), 0.0)
    engine.observe_pod(pod("two", scheduler=OURS, nodeName="a", **using("c0")), 0.0)
    assert not engine.storage.needed
    engine.observe_pod(pod("three", **using("c0")), 0.0)
    assert engine.storage.needed
    engine.remove_pod("uid-three", 0.0)
    assert not engine.storage.needed
