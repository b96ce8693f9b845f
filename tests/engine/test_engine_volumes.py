"""Volumes in decisions: what is planned, who waits for what, and what is given back."""

from __future__ import annotations

import pytest
from tests.engine.builders import asks, cards, in_group, node, pod
from tests.engine.volume_builders import (
    CLAIM,
    CLASS,
    DECODE,
    NONE_TO_BIND,
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
    attachment,
    claim,
    csi,
    csi_driver,
    csi_node,
    ephemeral_volume,
    storage_capacity,
    storage_class,
    volume,
)
from tests.state.copies import algorithm_on, copied

from vgpu_scheduler.model import NO_VOLUMES, ClusterEvent, Outcome, VolumePlan
from vgpu_scheduler.predicates import reasons as filters

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
    assert (decision.outcome, bool(decision.helped_by & ClusterEvent.STORAGE)) == (Outcome.UNSCHEDULABLE, True)
    engine.unreserve("uid-one", 5.0, at_least=60.0)
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
    engine.unreserve("uid-one", 0.0, at_least=60.0)
    assert placed(engine, "two", **using("data")) == ("b", VolumePlan({}, ("default/data",)))
    assert placed(engine, "three", **using("c1"))[0] == "", "the volume is kept for the other claim"
    assert placed(engine, "four", **using("c0")) == ("b", VolumePlan({"default/c0": "v"}))


def test_a_pod_that_is_seen_bound_leaves_what_the_objects_say() -> None:
    engine = cluster(local("v", "b"))
    assert placed(engine, "one", **using("c0"))[0] == "b"
    engine.binding_succeeded("uid-one")
    engine.observe_pod(pod("one", version=2, nodeName="b", **using("c0")), 0.0)
    assert engine.state.volumes.as_values() == engine.state.rebuild().volumes.as_values()
    assert placed(engine, "two", **using("c1")) == ("b", VolumePlan({"default/c1": "v"})), "nobody has written it"


def test_a_claim_for_one_pod() -> None:
    engine = cluster(local("v", "b", bound_to=claim("c0", "default")))
    take(engine, CLAIM, bound("c0", "v", accessModes=["ReadWriteOncePod"]), version=6)
    assert placed(engine, "one", **using("c0"))[0] == "b"
    assert engine.assumed.recheck("uid-one") is not None, "it is not in its own way"
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
        (CLAIM, claim("c9", "default"), False),  # it is nobody's who waits
        (VOLUME, local("v", "a"), True),
        (CLASS, storage_class("another"), True),
        ("CSINode", csi_node("a"), False),  # it says of no plugin that it is migrated
        ("CSINode", csi_node("a", migrated="kubernetes.io/gce-pd"), True),
        ("CSIDriver", csi_driver(), True),
        ("CSIStorageCapacity", storage_capacity(), True),
        ("VolumeAttachment", attachment(), False),
    ],
)
def test_every_kind_is_taken_in_and_wakes_whom_it_may_help(kind: str, obj: Obj, *, wakes: bool) -> None:
    engine = cluster()
    assert placed(engine, "waits", **using("c0"))[0] == ""
    take(engine, kind, obj, now=5.0)
    key = engine.kinds[kind].key(DECODE[kind](obj))
    store = engine.state.volumes.objects.store(type(DECODE[kind](obj)))
    assert key in store
    assert (engine.attempt(5.0) is not None) is wakes
    take(engine, kind, obj, version=6, now=30.0)
    assert engine.attempt(30.0) is None, "nothing but the version changed"
    relist = engine.lists.relist(kind, 9)
    assert DECODE[kind](obj) in [DECODE[kind](obj) for _ in relist.missing()]
    for found in relist.missing():
        relist.remove(found, 40.0)
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
        "a": (filters.AFFINITY,),
        "b": (filters.VOLUME_ELSEWHERE, filters.NO_VOLUME),
        "c": (filters.UNSCHEDULABLE,),
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
    assert decision.helped_by & ClusterEvent.STORAGE
    take(engine, CLASS, storage_class("imm"), version=6, now=5.0)
    take(engine, CLAIM, claim("c0", "default", storage_class="imm"), version=7, now=5.0)
    assert decide(engine, 5.0).placement is not None


# Units ---------------------------------------------------------------------------------------------------------------


def test_a_unit_gives_back_all_its_volumes() -> None:
    engine = cluster(local("v", "b"))
    for index in range(2):
        notes = in_group("pair", 2)
        engine.observe_pod(pod(f"p{index}", annotations=notes, **using(f"c{index}")), 0.0)
    before = engine.state.volumes.as_values()
    decisions = [each for each in (engine.schedule_next(0.0), engine.schedule_next(0.0)) if each]
    assert {each.outcome for group in decisions for each in group} == {Outcome.UNSCHEDULABLE}
    assert engine.state.volumes.as_values() == before
    take(engine, VOLUME, local("w", "a"), now=5.0)
    (one, two) = engine.schedule_next(5.0)
    plans = [each.placement.volumes for each in (one, two) if each.placement]
    assert plans == [VolumePlan({"default/c0": "w"}), VolumePlan({"default/c1": "v"})]


def test_a_question_without_some_pods_changes_nothing() -> None:
    engine = cluster(local("v", "b"))
    placed(engine, "one", **using("c0"))
    before = engine.state.volumes.as_values()
    waiting = pod("two", **using("c1"))
    decision = algorithm_on(engine, copied(engine.state, ["uid-one"])).decide(waiting)
    assert decision.placement is not None
    assert decision.placement.volumes == VolumePlan({"default/c1": "v"})
    assert engine.algorithm.decide(waiting).placement is None
    assert engine.algorithm.node_fit.fits_without(waiting, "b", ["uid-one"]) is not None
    assert engine.algorithm.node_fit.fits_without(waiting, "a", ["uid-one"]) is None
    assert engine.state.volumes.as_values() == before


def test_a_claim_wakes_those_who_name_it_and_nobody_else() -> None:
    engine = cluster(claims=0)
    for name in ("one", "two", "three"):
        engine.observe_pod(pod(name, asks(1), **using(f"c-{name}")), 0.0)
        assert engine.attempt(0.0) is not None
    assert engine.attempt(20.0) is None
    take(engine, CLAIM, claim("c-two", "default", storage_class="none"), now=20.0)
    assert decide(engine, 20.0).pod == "default/two"
    assert engine.attempt(20.0) is None
    for name in ("one", "two", "three"):
        engine.remove_pod(f"uid-{name}", 30.0)
    assert not engine.storage._by_volume_claim


def test_pods_that_were_alike_before_storage_was_unknown_are_not_tried_for_each_other() -> None:
    engine = cluster()
    for name, claimed in (("one", "c0"), ("two", "c1")):
        assert placed(engine, name, **using(claimed))[0] == ""
    kept = {"namespace": "default", "name": "c1"}
    engine.storage.mark_unsynced()
    take(engine, VOLUME, local("v", "b", claimRef=kept), now=20.0)
    engine.storage.mark_synced()
    found = {decision.pod: decision.outcome for decision in (decide(engine, 20.0), decide(engine, 20.0))}
    assert found == {"default/one": Outcome.UNSCHEDULABLE, "default/two": Outcome.PLACED}


def test_a_volume_that_is_kept_for_a_claim_wakes_those_who_name_that_claim_now_or_did() -> None:
    engine = cluster(claims=3)
    for name, claimed in (("one", "c0"), ("two", "c1"), ("three", "c2")):
        assert placed(engine, name, **using(claimed))[0] == ""
    take(engine, VOLUME, local("v", "c", claimRef={"namespace": "default", "name": "c1"}), now=20.0)
    assert decide(engine, 20.0).pod == "default/two"
    assert engine.attempt(20.0) is None
    take(engine, VOLUME, local("v", "c", claimRef={"namespace": "default", "name": "c2"}), version=6, now=60.0)
    assert {decide(engine, 60.0).pod, decide(engine, 60.0).pod} == {"default/two", "default/three"}
    assert engine.attempt(60.0) is None


def test_pods_one_of_which_has_a_volume_kept_for_its_claim_are_not_tried_for_each_other() -> None:
    engine = cluster(local("v", "c", claimRef={"namespace": "default", "name": "c1"}))
    for name, claimed in (("one", "c0"), ("two", "c1")):
        assert placed(engine, name, **using(claimed))[0] == ""
    take(engine, VOLUME, local("far", "c"), now=20.0)
    assert {decide(engine, 20.0).pod, decide(engine, 20.0).pod} == {"default/one", "default/two"}
