"""A pod of higher priority gets the room of others, and nobody gets it meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.engine.builders import allocation, asks, cards, node, pod_object
from tests.engine.preemption_fleet import CREATED, Fleet
from tests.engine.test_engine_preemption import budget
from tests.policy.resources import policy
from tests.simulation.cluster import MIG

from vgpu_scheduler.kube import decode_namespace, decode_pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import Settings

NEW_YEAR = 1767225600.0
"""2026-01-01, when all pods were created and started, in seconds since 1970."""


def full(**options: object) -> Fleet:
    """Return a fleet with one card that two pods share."""
    fleet = Fleet([node("a", cards("a", 1))], **options)  # type: ignore[arg-type]
    fleet.come("low", 1, asks(gpumem=4000))
    fleet.come("lower", 0, asks(gpumem=4000))
    fleet.decide()
    return fleet


def test_an_attempt_that_breaks_off_leaves_no_preemption_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was told of its victims: room that is kept for them to leave would be kept for ever."""
    fleet = full()
    fleet.come("high", 5, asks(gpumem=3000))
    file = fleet.engine.attempts._requeue_after_attempt

    def fails(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(fleet.engine.attempts, "_requeue_after_attempt", file)
        raise ZeroDivisionError

    monkeypatch.setattr(fleet.engine.attempts, "_requeue_after_attempt", fails)
    (broken,) = fleet.engine.schedule_next(fleet.now)
    assert broken.outcome is Outcome.ERROR
    assert not fleet.engine.state.holds
    assert not fleet.engine.preemptions.under_way()
    assert not fleet.engine.preemptions.evaluator.limits.reserved()
    fleet.now += 60.0
    fleet.decide()
    preemption = fleet.last["high"].preemption
    assert preemption is not None
    assert [victim.pod for victim in preemption.victims] == ["default/lower"]


def test_a_question_about_preemption_leaves_nothing_to_be_taken_back() -> None:
    """A page asks many of them, and no attempt follows."""
    fleet = full()
    fleet.come("high", 5, asks(gpumem=3000))
    pod, preemptions = fleet.engine.state.pod("uid-high"), fleet.engine.preemptions
    assert pod is not None
    with preemptions.rolled_back():
        decision = preemptions.post_filter(pod, fleet.engine.algorithm.decide(pod), 0.0)
        assert decision.preemption is not None
    assert not preemptions._begun


def test_a_pod_that_fits_nowhere_gets_the_room_of_the_least_important_one() -> None:
    fleet = full()
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    preemption = fleet.last["high"].preemption
    assert preemption is not None
    assert [(victim.pod, victim.priority, victim.devices) for victim in preemption.victims] == [
        ("default/lower", 0, ("a-gpu-0",))
    ]
    assert preemption.node == "a"
    assert preemption.policy == "ClusterVGPUPolicy preempts"
    fleet.come("rival", 5, asks(gpumem=1500))
    fleet.decide()
    rivals = fleet.last["rival"].preemption
    assert rivals is not None
    assert [victim.pod for victim in rivals.victims] == ["default/low"], "what the other one leaves is kept"
    fleet.end("uid-lower")
    fleet.decide()
    assert fleet.node_of("high") == "a"
    assert not fleet.node_of("rival")
    fleet.end("uid-low")
    fleet.decide()
    assert fleet.node_of("rival") == "a"
    assert not fleet.engine.state.holds
    assert not fleet.engine.state.drift()


def test_what_the_victims_leave_is_kept_for_whom_they_left_it() -> None:
    fleet = Fleet([node("a", cards("a", 1, count=9))])
    for number in range(4):
        fleet.come(f"low{number}", 0, asks(gpumem=2000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=6000))
    fleet.decide()
    victims = [victim.uid for victim in fleet.victims_of["uid-high"].victims]
    assert len(victims) == 3
    for number, uid in enumerate(victims):
        fleet.come(f"rival{number}", 5 - number, asks(gpumem=2500), preemptionPolicy="Never")
        fleet.decide()
        assert not fleet.node_of(f"rival{number}")
        assert not fleet.engine.state.over_capacity()
        assert not fleet.engine.state.drift()
        fleet.end(uid)
    fleet.decide()
    assert fleet.node_of("high") == "a"


def test_a_higher_priority_takes_the_room_and_the_other_one_is_decided_anew() -> None:
    fleet = full()
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    fleet.end("uid-lower")  # its room is kept for "high", which has not been decided again yet
    fleet.come("highest", 9, asks(gpumem=4000))
    fleet.decide()
    assert fleet.node_of("highest") == "a"
    assert fleet.last["high"].outcome is Outcome.UNSCHEDULABLE
    assert [victim.pod for victim in fleet.victims_of["uid-high"].victims] == ["default/low"]


def test_who_only_waits_to_be_bound_leaves_before_anybody_is_evicted() -> None:
    fleet = Fleet([node("a", cards("a", 1)), node("b", cards("b", 1))])
    fleet.waiting_in_lanes = {"waits"}
    fleet.come("runs", 0, asks(gpumem=8000))
    fleet.come("waits", 3, asks(gpumem=8000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert [(victim.pod, victim.bound) for victim in found.victims] == [("default/waits", False)]
    fleet.engine.unreserve("uid-waits", fleet.now)
    fleet.decide()
    assert fleet.node_of("high") == found.node
    assert fleet.node_of("runs")


def test_a_pod_that_could_not_be_bound_finds_its_room_again() -> None:
    fleet = full()
    fleet.waiting_in_lanes = {"high"}
    fleet.come("rival", 5, asks(gpumem=4000), preemptionPolicy="Never")  # older
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    fleet.end("uid-lower")
    fleet.decide()
    assert fleet.node_of("high") == "a"
    fleet.engine.unreserve("uid-high", fleet.now)
    fleet.decide()
    assert not fleet.node_of("rival")
    fleet.waiting_in_lanes = set()
    fleet.now += 20.0
    fleet.decide()
    assert fleet.node_of("high") == "a"
    assert not fleet.engine.state.holds


def test_nobody_is_preempted_without_a_policy_that_allows_it() -> None:
    for rules in ({"mayPreempt": False}, {"preemptible": True}):
        fleet = full(preemption=rules)
        fleet.come("high", 5, asks(gpumem=3000))
        fleet.decide()
        assert fleet.last["high"].preemption is None
        assert "preemption" not in fleet.last["high"].message
        assert not fleet.engine.state.holds


def test_who_gave_up_by_its_own_policy_never_preempts_anybody() -> None:
    fleet = full()
    fleet.come("high", 5, asks(gpumem=3000), preemptionPolicy="Never")
    fleet.decide()
    assert fleet.last["high"].preemption is None
    assert fleet.last["high"].message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


@pytest.mark.parametrize(("victims", "names"), [("Own", []), ("Any", ["default/foreign"])])
def test_pods_of_other_schedulers_end_only_where_a_policy_says_so(victims: str, names: list[str]) -> None:
    fleet = Fleet([node("a", cards("a", 1))], {"mayPreempt": True, "victims": victims})
    fleet.run("foreign", 0, "a", allocation("a", ("a-gpu-0", 8000, 0)), resources=asks(gpumem=8000))
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert [victim.pod for victim in found.victims] == names if found else not names


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, {}),
        ({"namespace": "vgpu-system"}, {"protected_namespaces": ("vgpu-system",)}),
        ({"labels": {"keep": "me"}}, {}),
    ],
    ids=["static", "own", "by policy"],
)
def test_who_is_protected_does_not_end(more: dict[str, Any], options: dict[str, Any]) -> None:
    fleet = Fleet([node("a", cards("a", 1))], **options)
    keep = {"selector": {"matchLabels": {"keep": "me"}}, "priority": 9, "preemption": {"preemptible": False}}
    fleet.engine.policy_tracker.observe(policy("keeps", keep))
    fleet.come("low", 0, asks(gpumem=8000), **more)
    fleet.decide()
    assert fleet.node_of("low") == "a"
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    assert fleet.last["high"].preemption is None
    fleet.come("other", 0, asks(gpumem=1))
    assert fleet.last["high"].message.endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


@pytest.mark.parametrize("change", ["gone", "other", "relabelled"])
def test_who_found_no_victims_is_tried_again_when_no_policy_protects_them_any_more(change: str) -> None:
    fleet = Fleet([node("a", cards("a", 1))])
    keep = {"selector": {"matchLabels": {"keep": "me"}}, "priority": 9, "preemption": {"preemptible": False}}
    keeps = policy("keeps", keep)
    fleet.engine.policy_tracker.observe(keeps)
    fleet.come("low", 0, asks(gpumem=8000), labels={"keep": "me"})
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    assert fleet.last["high"].preemption is None
    fleet.now += 20.0  # its back-off is over
    if change == "gone":
        fleet.engine.policy_tracker.remove(keeps)
    elif change == "relabelled":
        fleet.relabel("low", {"keep": "nobody"})
    else:
        fleet.engine.policy_tracker.observe(policy("keeps", {**keep, "preemption": {"preemptible": True}}))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None, fleet.last["high"].message
    assert [victim.pod for victim in found.victims] == ["default/low"]


def test_who_found_no_victims_is_not_tried_again_when_nothing_changes_about_evictions() -> None:
    fleet = Fleet([node("a", cards("a", 1))])
    keep = {"selector": {"matchLabels": {"keep": "me"}}, "priority": 9, "preemption": {"preemptible": False}}
    fleet.engine.policy_tracker.observe(policy("keeps", keep))
    fleet.come("low", 0, asks(gpumem=8000), labels={"keep": "me"})
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    fleet.now += 20.0
    attempts = fleet.engine.preemptions.evaluator.attempts
    fleet.relabel("low", {"keep": "me", "other": "label"})
    fleet.engine.policy_tracker.observe(policy("away", {"nodes": {"policy": "spread"}}, "team"))
    fleet.engine.policy_tracker.observe_namespace(
        decode_namespace({"metadata": {"name": "new", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}})
    )
    fleet.decide()
    assert fleet.engine.preemptions.evaluator.attempts == attempts


def test_who_has_not_run_long_enough_does_not_end_yet() -> None:
    fleet = full(preemption={"mayPreempt": True, "minRuntime": "10m"})
    fleet.engine.preemptions.evaluator.unix_ahead = NEW_YEAR
    fleet.now = 599.0
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    assert fleet.last["high"].preemption is None
    assert fleet.last["high"].retry_at == 600.0
    fleet.now = 600.0  # nothing else has to happen
    fleet.decide()
    assert fleet.last["high"].preemption is not None


def test_the_delay_lets_an_autoscaler_act_first() -> None:
    fleet = full(preemption={"mayPreempt": True, "delay": "2m"})
    fleet.engine.preemptions.evaluator.unix_ahead = NEW_YEAR
    fleet.come("high", 5, asks(gpumem=3000))
    fleet.decide()
    assert fleet.last["high"].preemption is None
    assert "not eligible before 120 seconds have passed" in fleet.last["high"].message
    fleet.now = 119.0
    fleet.decide()
    assert fleet.last["high"].preemption is None
    fleet.now = 121.0
    fleet.decide()
    assert fleet.last["high"].preemption is not None


def test_no_more_are_evicted_within_an_hour_than_a_policy_allows() -> None:
    fleet = full(preemption={"mayPreempt": True, "perHour": 1})
    for number in range(2):
        fleet.come(f"high{number}", 5, asks(gpumem=4000))
        fleet.decide()
    assert fleet.last["high0"].preemption is not None
    assert fleet.last["high1"].preemption is None
    assert "ClusterVGPUPolicy preempts allows 0 more evictions within the hour" in fleet.last["high1"].message
    fleet.end("uid-lower")
    fleet.decide()
    assert fleet.node_of("high0") == "a"
    fleet.come("high2", 5, asks(gpumem=4000))
    fleet.decide()
    assert fleet.last["high2"].preemption is None, "it counts though no policy has recorded it yet"
    fleet.end("uid-high2")
    fleet.now = 3601.0
    fleet.decide()
    assert fleet.last["high1"].preemption is not None


@pytest.mark.parametrize("seed", range(12))
def test_storms_settle_and_no_held_room_is_given_away(seed: int) -> None:
    """Pods of four priorities come; victims end late, in any order, and their controllers make them anew."""
    rng = np.random.default_rng(seed)
    fleet = Fleet(
        [
            node("a", cards("a", 2, count=6)),
            node("b", cards("b", 2, count=3)),
            node("m", cards("m", 1, **MIG)),
        ]
    )
    number = ended = 0
    for _ in range(150):
        act = rng.random()
        leaving = sorted({v.uid for found in fleet.victims_of.values() for v in found.victims} & fleet.objects.keys())
        if act < 0.45:
            number += 1
            resources = asks(
                int(rng.integers(1, 3)), int(rng.choice([1000, 2000, 4000])), int(rng.choice([0, 30, 100]))
            )
            fleet.come(f"p{number}", int(rng.integers(0, 4)), resources)
        elif leaving:
            uid = leaving[int(rng.integers(0, len(leaving)))]
            obj = fleet.objects[uid]
            fleet.end(uid)
            ended += 1
            number += 1
            resources = obj["spec"]["containers"][0]["resources"]
            fleet.come(f"p{number}", obj["spec"]["priority"], resources)  # its controller makes it anew
        elif fleet.objects and act > 0.9:
            fleet.end(sorted(fleet.objects)[int(rng.integers(0, len(fleet.objects)))])
        fleet.now += float(rng.choice([0.0, 0.5, 11.0]))
        fleet.decide()
        state = fleet.engine.state
        assert not state.drift()
        assert not state.over_capacity()
        assert {hold.uid for hold in state.holds} <= fleet.objects.keys(), "room is kept for a pod that is gone"
    for _ in range(200):  # all victims end, nobody is made anew
        fleet.now += 400.0
        fleet.decide()
        leaving = sorted({v.uid for found in fleet.victims_of.values() for v in found.victims} & fleet.objects.keys())
        if not leaving:
            break
        for uid in leaving:
            fleet.end(uid)
        fleet.decide()
    assert not fleet.engine.state.holds
    assert ended
    for uid in fleet.objects:
        waiting = fleet.engine.state.pod(uid)
        assert waiting is not None
        if fleet.engine.state.reservation(uid) is None:
            found = fleet.engine.preemptions.evaluator.search(waiting, fleet.now).preemption
            assert found is None, f"{uid} waits, although {found} would do"


def test_no_pod_in_the_namespace_of_this_scheduler_is_ever_a_victim() -> None:
    options = engine_options(Settings(lease={"namespace": "scheduling"}))  # type: ignore[arg-type]
    assert options.protected_namespaces == ("scheduling",)


def test_what_one_pod_leaves_for_two_others_counts_once() -> None:
    fleet = Fleet([node("a", cards("a", 1, count=9))])
    for name in ("v1", "v2"):
        fleet.come(name, 1, asks(gpumem=4000))
    fleet.decide()
    fleet.come("first", 5, asks(gpumem=6000))
    fleet.decide()
    fleet.come("second", 5, asks(gpumem=2000))
    fleet.decide()
    assert {victim.uid for found in fleet.victims_of.values() for victim in found.victims} == {"uid-v1", "uid-v2"}
    for uid in ("uid-v1", "uid-v2"):
        fleet.end(uid)
        fleet.come(f"rival-of-{uid}", 0, asks(gpumem=2000))
        fleet.decide()
        assert not fleet.node_of(f"rival-of-{uid}")
        assert not fleet.engine.state.over_capacity()
    assert fleet.node_of("first") == fleet.node_of("second") == "a"


def test_a_pod_that_is_placed_on_its_own_room_leaves_that_of_others_alone() -> None:
    fleet = Fleet([node("a", cards("a", 2, count=1))])
    for name in ("v1", "v2"):
        fleet.come(name, 1, asks(gpumem=8000))
    fleet.decide()
    fleet.come("highest", 9, asks(gpumem=8000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    (of_highest,), (of_high,) = (fleet.victims_of[f"uid-{name}"].victims for name in ("highest", "high"))
    assert of_highest.uid != of_high.uid
    fleet.end(of_highest.uid)
    fleet.decide()
    assert fleet.node_of("highest") == "a"
    assert fleet.engine.state.holds.get("uid-high") is not None
    fleet.come("rival", 1, asks(gpumem=8000))
    fleet.end(of_high.uid)
    fleet.decide()
    assert fleet.node_of("high") == "a"


def test_a_budget_that_allows_the_end_of_one_pod_does_not_protect_it_for_another() -> None:
    fleet = Fleet([node("a", cards("a", 2), allocatable={"cpu": "8"})])
    for name in ("first", "second"):
        fleet.come(name, 1, {"requests": {"cpu": "4"}}, labels={"app": "db"})
    fleet.decide()
    fleet.engine.budgets.observe(budget("db", 1))
    fleet.come("high", 5, {"requests": {"cpu": "4"}})
    fleet.decide()
    assert fleet.last["high"].preemption is not None, fleet.last["high"].message


def test_what_breaks_off_a_restore_keeps_no_leader_from_starting() -> None:
    fleet = full()
    fleet.come("high", 5, asks(gpumem=3000))
    high = fleet.objects["uid-high"]
    high["metadata"]["resourceVersion"] = "800"
    high["status"]["nominatedNodeName"] = "a"
    high["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    fleet.engine.observe_pod(decode_pod(high), fleet.now)
    low = fleet.objects["uid-lower"]
    low["metadata"] |= {"deletionTimestamp": CREATED, "resourceVersion": "801"}
    low["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    fleet.engine.observe_pod(decode_pod(low), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    assert not fleet.engine.state.holds


def test_who_calls_its_owner_a_node_is_no_static_pod() -> None:
    owner = {"apiVersion": "x.example/v1", "kind": "Node", "name": "n", "uid": "o", "controller": True}
    obj = pod_object("p")
    obj["metadata"]["ownerReferences"] = [owner]
    assert not decode_pod(obj).is_static


def test_a_node_on_which_fewer_have_to_end_is_chosen_where_a_policy_allows_no_more() -> None:
    fleet = Fleet([node("a", cards("a", 1, count=9)), node("b", cards("b", 1))], {"mayPreempt": True, "perHour": 1})
    for name, priority in (("small-1", 0), ("small-2", 0), ("large", 3)):
        fleet.come(name, priority, asks(gpumem=8000 if name == "large" else 4000))
        fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None, fleet.last["high"].message
    assert [victim.pod for victim in found.victims] == ["default/large"]


def test_who_has_two_budgets_is_no_victim_where_budgets_are_respected() -> None:
    for budgets, names in (("Respect", ["default/plain"]), ("Exceed", ["default/both"])):
        fleet = Fleet([node("a", cards("a", 1))], {"mayPreempt": True, "budgets": budgets})
        fleet.come("both", 0, asks(gpumem=4000), labels={"app": "db"})
        fleet.come("plain", 1, asks(gpumem=4000))
        fleet.decide()
        for name in ("one", "two"):
            fleet.engine.budgets.observe(msgspec.structs.replace(budget("db", 5), uid=name, name=name))
        fleet.come("high", 5, asks(gpumem=4000))
        fleet.decide()
        found = fleet.last["high"].preemption
        assert found is not None
        assert [victim.pod for victim in found.victims] == names
