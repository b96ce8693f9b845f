"""Volumes after a decision: the check before a bind, errors, and waiting until storage objects are known."""

from __future__ import annotations

import functools

import pytest
from tests.engine.builders import OURS, cards, in_group, node, pod
from tests.engine.volume_builders import (
    CLAIM,
    CLASS,
    VOLUME,
    bound,
    cluster,
    decide,
    gone,
    local,
    placed,
    take,
    using,
)
from tests.kube.objects import Obj
from tests.kube.storage_objects import (
    SELECTED_NODE,
    claim,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
)

from vgpu_scheduler.engine import Engine, Requeue
from vgpu_scheduler.model import Outcome, VolumePlan

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
def test_a_placement_holds_while_its_claims_need_nothing_else(happens: list[tuple[str, Obj]], *, holds: bool) -> None:
    engine = assumed()
    held = engine.state.reservation("uid-one")
    assert held is not None
    for kind, obj in happens:
        take(engine, kind, obj, version=7)
    found = engine.assumed.recheck("uid-one")
    assert found == (held.placement if holds else None)
    # The same once the node has changed, so that the pod is fitted anew.
    engine.observe_node(node("b", cards("b", 2), version=2, labels={"host": "b", "more": "x"}), 0.0)
    assert engine.assumed.recheck("uid-one") == (held.placement if holds else None)


def test_a_claim_whose_volume_is_taken_is_not_tacitly_made_another() -> None:
    engine = cluster()
    take(engine, CLAIM, claim("data", "default", storage_class="made"))
    take(engine, VOLUME, volume("v", storage_class="made"))
    assert placed(engine, "one", **using("data"))[1] == VolumePlan({"default/data": "v"})
    take(engine, VOLUME, volume("v", storage_class="made", bound_to=other("c1")), version=6)
    assert engine.assumed.recheck("uid-one") is None
    engine.unreserve("uid-one", 5.0, Requeue.NOW)
    decision = decide(engine, 5.0)
    assert decision.placement is not None
    assert decision.placement.volumes == VolumePlan({}, ("default/data",))


def test_a_volume_that_is_gone_is_not_bound() -> None:
    engine = assumed()
    gone(engine, VOLUME, local("v", "b"))
    assert engine.assumed.recheck("uid-one") is None


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
    assert engine.assumed.recheck("uid-one") is not None
    take(engine, "CSINode", csi_node("a", migrated="kubernetes.io/aws-ebs"))
    assert engine.assumed.recheck("uid-one") is None
    assert engine.algorithm.node_fit.fits_without(pod("other", **using("c0")), "a", ()) is None


def test_an_error_fails_its_whole_unit() -> None:
    engine = broken()
    take(engine, "CSINode", csi_node("b", migrated="kubernetes.io/aws-ebs"))
    for name, more in (("p0", {}), ("p1", using("c0"))):
        engine.observe_pod(pod(name, annotations=in_group("pair", 2), **more), 0.0)
    decisions = [each for _ in range(2) for each in engine.schedule_next(0.0)]
    failed = [each for each in decisions if each.outcome is Outcome.ERROR]
    assert {each.pod for each in failed} == {"default/p0", "default/p1"}
    assert engine.state.reservation("uid-p0") is None


# Before the objects are known ----------------------------------------------------------------------------------------


def test_pods_with_claims_wait_in_silence_until_all_kinds_are_known() -> None:
    engine = cluster(local("v", "b"))
    assert engine.storage.synced
    assert not engine.storage.needed
    engine.storage.mark_unsynced()
    engine.observe_pod(pod("one", **using("c0")), 0.0)
    engine.observe_pod(pod("disk", volumes=[{"name": "d", "cinder": {"volumeID": "v"}}]), 0.0)
    engine.observe_pod(pod("plain"), 0.0)
    assert engine.storage.needed
    found = {each.pod.partition("/")[2]: each for _ in range(3) for each in engine.schedule_next(0.0)}
    assert {name: each.outcome for name, each in found.items()} == {
        "one": Outcome.NOT_READY,
        "disk": Outcome.NOT_READY,
        "plain": Outcome.PLACED,
    }
    assert found["one"].message == ""
    assert engine.attempt(5.0) is None, "it is unschedulable"
    assert engine.storage.needed
    engine.storage.mark_synced()
    assert {decide(engine, 5.0).outcome for _ in range(2)} == {Outcome.PLACED}
    for name in ("one", "disk"):
        engine.binding_succeeded(f"uid-{name}")
    assert not engine.storage.needed


def test_a_unit_waits_for_its_member_with_claims() -> None:
    engine = cluster(local("v", "b"))
    engine.storage.mark_unsynced()
    for name, more in (("p0", {}), ("p1", using("c0"))):
        engine.observe_pod(pod(name, annotations=in_group("pair", 2), **more), 0.0)
    decisions = [each for _ in range(3) for each in engine.schedule_next(0.0)]
    assert {each.outcome for each in decisions[-2:]} == {Outcome.NOT_READY}
    engine.storage.mark_synced()
    assert [each.outcome for each in engine.schedule_next(5.0)] == [Outcome.PLACED] * 2


def test_pods_of_others_need_no_storage_of_ours() -> None:
    engine = cluster()
    engine.observe_pod(pod("one", scheduler="default-scheduler", **using("c0")), 0.0)
    engine.observe_pod(pod("two", scheduler=OURS, nodeName="a", **using("c0")), 0.0)
    assert not engine.storage.needed
    engine.observe_pod(pod("three", **using("c0")), 0.0)
    assert engine.storage.needed
    engine.remove_pod("uid-three", 0.0)
    assert not engine.storage.needed


def test_to_ask_whether_anybody_needs_storage_changes_nothing() -> None:
    """What becomes of a pod decides, and it is not known yet of one that left the selection of those that wait."""
    engine = cluster()
    engine.observe_pod(pod("one", version=2, **using("c0")), 0.0)
    engine.unbound_pods.leave_selection("uid-one", 5, 0.0)
    assert [engine.storage.needed for _ in range(2)] == [True, True], "nothing says yet that it is bound"
    engine.observe_pod(pod("one", version=6, nodeName="a", **using("c0")), 0.0)
    assert not engine.storage.needed


def test_room_that_is_less_by_the_pods_own_volume_does_not_count_against_its_placement() -> None:
    """A decision asks for room, however often; the check of what was decided does not, as the volume may be made."""
    engine = cluster()
    take(engine, "CSIDriver", csi_driver())
    capacity = functools.partial(storage_capacity, "cap", storage_class="made", nodes={"matchLabels": {"host": "a"}})
    take(engine, "CSIStorageCapacity", capacity(capacity="10Gi"))
    take(engine, CLAIM, claim("d", "default", storage_class="made", size="8Gi"))
    assert placed(engine, "one", **using("d")) == ("a", VolumePlan(provisioned=("default/d",)))
    written = claim("d", "default", storage_class="made", size="8Gi", meta={"annotations": {SELECTED_NODE: "a"}})
    for version, found in ((6, None), (7, written)):
        if found is not None:
            take(engine, CLAIM, found, version=version)
        take(engine, "CSIStorageCapacity", capacity(capacity=f"{version - 5}Gi"), version=version)
        checked = engine.assumed.recheck("uid-one")
        assert checked is not None
        assert checked.node == "a"
    # Cards that changed have it placed anew on its node: that is a check, too.
    engine.observe_node(node("a", cards("b", 2), labels={"host": "a"}, version=9), 0.0)
    checked = engine.assumed.recheck("uid-one")
    assert checked is not None
    engine.unreserve("uid-one", 0.0)
    decision = decide(engine, 30.0)
    assert "1 node(s) did not have enough free storage" in decision.message
