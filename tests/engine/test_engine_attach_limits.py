"""Pods that attach limits keep away are woken by what frees such a limit, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.engine.builders import asks, node, pod
from tests.engine.volume_builders import (
    CLAIM,
    CLASS,
    NONE_TO_BIND,
    VOLUME,
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
    attachment,
    claim,
    csi,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
)

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.model import Outcome

DRIVER, ANOTHER = "csi.example.com", "csi.other.com"
EXCEEDED = "0/2 nodes are available: 2 node(s) exceed max volume count."
OTHERS, MINE = "default/data", "default/mine"

Event = Callable[[Engine], None]


def of(name: str, driver: str = DRIVER, handle: str = "") -> Obj:
    """Return the volume of a claim."""
    return volume(name, storage_class="made", csi=csi(handle or name, driver), bound_to=claim(name, "default"))


def bound_claim(name: str) -> Obj:
    return claim(name, "default", storage_class="made", volume=name)


def larger(name: str) -> Obj:
    return claim(name, "default", storage_class="made", size="2Gi")


def full(limit: int = 1) -> Engine:
    """Return an engine with a pod of others on node a, and limits that keep the pod ``waits`` away from both nodes.

    The others' claim ``data`` is not bound yet; ``mine``, the claim of the pod that waits, is.
    """
    engine = cluster(of("mine"))
    take(engine, CLAIM, claim("data", "default", storage_class="made"), bound_claim("mine"), version=6)
    take(engine, "CSINode", csi_node("a", limits={DRIVER: limit}), csi_node("b", limits={DRIVER: 0}))
    others(engine, "other", "data")
    if limit > 1:
        take(engine, CLAIM, claim("too", "default", storage_class="made"), version=6)
        others(engine, "more", "too")
    engine.observe_pod(pod("waits", **using("mine")), 0.0)
    assert decide(engine).message == EXCEEDED
    engine.observe_pod(pod("local", **using("c0")), 0.0)
    assert decide(engine).message == f"0/2 nodes are available: 2 {NONE_TO_BIND}."
    assert engine.attempt(20.0) is None
    return engine


def others(engine: Engine, name: str, *claims: str, version: int = 5, now: float = 0.0, **more: object) -> None:
    """Have another scheduler bind a pod to node a, or change it."""
    found = pod(name, asks(0), scheduler="default-scheduler", nodeName="a", version=version, **using(*claims), **more)
    engine.observe_pod(found, now)


def woken(engine: Engine, now: float = 20.0) -> dict[str, bool]:
    """Return which pods were tried, and whether they were placed."""
    found = {}
    while (decision := engine.attempt(now)) is not None:
        found[decision.pod] = decision.outcome is Outcome.PLACED
    return found


def another_driver(engine: Engine) -> None:
    take(engine, VOLUME, of("data", ANOTHER), now=20.0)
    take(engine, CLAIM, bound_claim("data"), version=7, now=20.0)


def volume_comes_late(engine: Engine) -> None:
    take(engine, CLAIM, bound_claim("data"), version=7, now=20.0)
    assert not woken(engine), "while the volume is not known the claim counts as what its class says"
    take(engine, VOLUME, of("data", ANOTHER), now=20.0)


def not_limited_at_all(engine: Engine) -> None:
    take(engine, VOLUME, volume("data", storage_class="made", bound_to=claim("data", "default")), now=20.0)
    take(engine, CLAIM, bound_claim("data"), version=7, now=20.0)


@pytest.mark.parametrize(
    "event",
    [
        another_driver,
        volume_comes_late,
        not_limited_at_all,
        lambda engine: gone(engine, CLAIM, claim("data", "default", storage_class="made"), 20.0),
        lambda engine: take(engine, "CSINode", csi_node("a", limits={DRIVER: 2}), version=6, now=20.0),
        lambda engine: take(engine, "CSINode", csi_node("a"), version=6, now=20.0),
        lambda engine: gone(engine, "CSINode", csi_node("a"), 20.0),
    ],
    ids=["another driver", "late volume", "no driver", "claim gone", "limit rises", "no limit", "CSINode gone"],
)
def test_a_limit_that_is_free_wakes_those_whom_it_kept_away(event: Event) -> None:
    engine = full()
    event(engine)
    assert woken(engine) == {"default/waits": True}


def test_a_pod_that_ends_frees_what_it_used() -> None:
    engine = full()
    engine.remove_pod("uid-other", 20.0)
    assert woken(engine) == {"default/waits": True, "default/local": False}


def test_a_volume_that_is_detached_frees_a_limit() -> None:
    engine = full()
    take(engine, VOLUME, of("old"), now=20.0)
    take(engine, "VolumeAttachment", attachment(node="a", volume="old"), now=20.0)
    engine.remove_pod("uid-other", 20.0)
    assert woken(engine) == {"default/local": False}, "what it leaves is below nothing"
    gone(engine, "VolumeAttachment", attachment(node="a", volume="old"), 60.0)
    assert woken(engine, 60.0) == {"default/waits": True}


def test_two_names_of_one_volume_count_once_when_they_turn_out_to_be_one() -> None:
    engine = full(limit=2)
    take(engine, VOLUME, of("data"), of("too", handle="data"), now=20.0)
    take(engine, CLAIM, bound_claim("too"), version=7, now=20.0)
    assert not woken(engine), "it is one volume instead of another"
    take(engine, CLAIM, bound_claim("data"), version=7, now=20.0)
    assert woken(engine) == {"default/waits": True}


def test_a_volume_that_another_pod_has_attached_beyond_the_limit_is_there_for_this_one_too() -> None:
    engine = full()
    others(engine, "same", "mine", now=20.0)
    assert woken(engine) == {"default/waits": True}


def test_a_volume_that_was_attached_already_is_found_there_when_a_pod_comes_to_it() -> None:
    engine = full(limit=1)
    take(engine, "VolumeAttachment", attachment(node="a", volume="mine"), now=20.0)
    assert not woken(engine)
    others(engine, "same", "mine", now=20.0)
    assert woken(engine) == {"default/waits": True}


def test_a_pod_whose_own_volume_is_of_another_driver_is_woken() -> None:
    engine = full()
    take(engine, VOLUME, of("mine", ANOTHER), version=6, now=20.0)
    assert woken(engine) == {"default/waits": True}


def test_a_pod_whose_own_volume_names_another_claim_is_woken() -> None:
    engine = full()
    elsewhere = volume("mine", storage_class="made", csi=csi("mine", ANOTHER), bound_to=claim("x", "default"))
    take(engine, VOLUME, elsewhere, version=6, now=20.0)
    assert woken(engine) == {"default/waits": True}


def test_a_class_of_another_driver_frees_what_is_not_made_yet() -> None:
    engine = full()
    take(engine, CLASS, storage_class("made", provisioner=ANOTHER), version=6, now=20.0)
    assert woken(engine)["default/waits"]


def test_what_is_known_again_may_have_freed_anything() -> None:
    engine = full()
    engine.storage.mark_unsynced()
    take(engine, "CSINode", csi_node("a", limits={DRIVER: 2}), version=6, now=20.0)
    engine.storage.mark_synced()
    assert woken(engine)["default/waits"]


@pytest.mark.parametrize(
    "event",
    [
        lambda engine: take(engine, "CSINode", csi_node("a", limits={DRIVER: 0}), version=6, now=20.0),
        lambda engine: take(engine, "CSINode", csi_node("b", limits={DRIVER: 0, ANOTHER: 7}), version=6, now=20.0),
        lambda engine: take(engine, "CSIDriver", csi_driver(), now=20.0),
        lambda engine: take(engine, "CSIStorageCapacity", storage_capacity(capacity="1Gi"), now=20.0),
        lambda engine: take(engine, VOLUME, local("far", "c"), now=20.0),
        lambda engine: take(engine, CLAIM, larger("data"), version=7, now=20.0),
        lambda engine: take(engine, "VolumeAttachment", attachment(node="a", volume="mine"), now=20.0),
        lambda engine: others(engine, "other", "data", version=6, now=20.0, labels={"app": "web"}),
        lambda engine: others(engine, "another", now=20.0),
        lambda engine: engine.observe_node(node("a", labels={"host": "a", "zone": "z"}, version=9), 20.0),
    ],
)  # fmt: skip
def test_what_frees_no_limit_wakes_nobody_whom_one_kept_away(event: Event) -> None:
    engine = full()
    event(engine)
    assert "default/waits" not in woken(engine)


def test_a_limit_that_frees_while_others_still_need_it_all_wakes_nobody() -> None:
    engine = full()
    others(engine, "second", "c1", now=20.0)
    take(engine, CLAIM, claim("c1", "default", storage_class="made"), version=7, now=20.0)
    assert not woken(engine).get("default/waits")
    another_driver(engine)
    assert "default/waits" not in woken(engine), "two used what is one; one is left"


def test_a_placement_that_is_undone_frees_nothing() -> None:
    engine = cluster(of("mine"), of("data"))
    take(engine, CLAIM, bound_claim("mine"), bound_claim("data"), version=6)
    take(engine, "CSINode", csi_node("a", limits={DRIVER: 1}), csi_node("b", limits={DRIVER: 0}))
    assert placed(engine, "first", **using("data"))[0] == "a"
    assert placed(engine, "waits", **using("mine"))[0] == ""
    assert engine.assumed.recheck("uid-first") is not None
    assert not woken(engine)
    engine.unreserve("uid-first", 20.0, at_least=60.0)
    assert woken(engine) == {"default/waits": True}
