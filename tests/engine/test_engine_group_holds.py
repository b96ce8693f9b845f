"""Room that is kept for groups that have waited for long: for as many pods as are needed, or for none."""

from __future__ import annotations

from typing import Any

from tests.engine.builders import allocation, asks, cards, in_group, node, pod
from tests.engine.test_engine_waiting_holds import AFTER, WHOLE, Fleet, fleet, small, tenant

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome

__all__ = ["fleet"]


def member(name: str, **more: Any) -> Pod:
    """Return a pod of a group of two that need a whole card each."""
    return pod(name, asks(1, WHOLE), labels={"size": "whole"}, annotations=in_group("team", 2), **more)


def test_room_is_kept_for_as_many_pods_of_a_group_as_are_needed(fleet: Fleet) -> None:
    fleet.come(member("g0"), member("g1"))
    fleet.tried(0.0)
    assert fleet.kept_for() == {}
    told = fleet.tried(AFTER)
    assert sorted(fleet.kept_for().items()) == [("g0", "b"), ("g1", "a")]
    assert told["g1"].message.endswith("room on node a is kept for it, which is enough once 4 pods there have ended.")
    fleet.come(small("s"), now=AFTER)
    for name in ("b0", "b1", "b2"):
        fleet.end(name, AFTER + 1)
    decisions = fleet.tried(AFTER + 20)
    assert all(each.outcome is Outcome.UNSCHEDULABLE for each in decisions.values())
    assert sorted(fleet.kept_for()) == ["g0", "g1"], "the one that would fit waits for the other"
    for number in range(4):
        fleet.end(f"a{number}", AFTER + 30)
    placed = fleet.tried(AFTER + 60)
    assert {name: each.outcome for name, each in placed.items() if name != "s"} == {
        "g0": Outcome.PLACED,
        "g1": Outcome.PLACED,
    }
    assert fleet.kept_for() == {}
    assert not fleet.engine.state.drift()


def test_room_is_kept_within_the_domain_that_a_group_asks_for() -> None:
    fleet = Fleet()
    racks = {"a": "x", "b": "x", "c": "y", "d": "y"}
    for number, (name, rack) in enumerate(racks.items()):
        fleet.engine.observe_node(node(name, cards(name, 1), labels={"rack": rack}, version=2), 0.0)
        for other in range(3 if name in "ad" else 2):  # more have to end on a and d than on b and c
            fleet.come(tenant(f"{name}-{other}", name, 0, version=3 + number))
    for name in ("b0", "b1", "b2", *(f"a{number}" for number in range(4))):
        fleet.end(name, 0.0)
    near = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    for number in range(2):
        notes = {**in_group("team", 2), **near}
        fleet.come(pod(f"g{number}", asks(1, WHOLE), labels={"size": "whole"}, annotations=notes))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    assert len({racks[where] for where in fleet.kept_for().values()}) == 1
    assert len(fleet.kept_for()) == 2


def test_a_group_for_which_there_is_never_room_keeps_none(fleet: Fleet) -> None:
    pods = [
        pod(f"g{number}", asks(1, WHOLE), labels={"size": "whole"}, annotations=in_group("team", 3))
        for number in range(3)
    ]
    fleet.come(*pods)
    fleet.tried(0.0)
    fleet.tried(AFTER)
    assert fleet.kept_for() == {}


def test_a_group_that_has_lost_a_pod_keeps_nothing(fleet: Fleet) -> None:
    fleet.come(member("g0"), member("g1"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.end("g1", AFTER + 1)
    fleet.tried(AFTER + 20)
    assert fleet.kept_for() == {}


def test_a_group_whose_node_goes_begins_anew(fleet: Fleet) -> None:
    fleet.come(member("g0"), member("g1"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.engine.remove_node("a")
    fleet.tried(AFTER + 20)
    assert fleet.kept_for() == {}
    fleet.engine.observe_node(node("c", cards("c", 1)), AFTER + 21)
    fleet.come(tenant("c0", "c", 0), now=AFTER + 21)
    fleet.tried(AFTER + 400)
    assert sorted(fleet.kept_for().values()) == ["b", "c"]


def test_what_a_group_held_whose_bindings_failed_is_given_up_where_it_does_not_fit_again(fleet: Fleet) -> None:
    fleet.come(member("g0"), member("g1"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    for name in ("b0", "b1", "b2", *(f"a{number}" for number in range(4))):
        fleet.end(name, AFTER + 1)
    assert all(each.outcome is Outcome.PLACED for each in fleet.tried(AFTER + 20).values())
    fleet.says(minimum=2)
    for number in range(2):
        fleet.engine.unreserve(f"uid-g{number}", AFTER + 21)
    fleet.come(pod("urgent", asks(1, WHOLE), priority=9), now=AFTER + 21)
    assert fleet.tried(AFTER + 22)["urgent"].outcome is Outcome.PLACED
    fleet.tried(AFTER + 60)
    assert fleet.kept_for() == {}


def test_a_pod_does_not_wait_for_its_own_group() -> None:
    fleet = Fleet()
    for name in ("b0", "b1", "b2", *(f"a{number}" for number in range(4))):
        fleet.end(name, 0.0)
    held = allocation("a", ("a-gpu-0", WHOLE, 0))
    running = {"annotations": {**in_group("team", 2), **held}, "nodeName": "a", "started": True}
    fleet.come(pod("g0", asks(1, WHOLE), labels={"size": "whole"}, **running))
    fleet.come(tenant("x0", "b", 0, WHOLE // 2), tenant("x1", "b", 0, WHOLE // 2), member("g1"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    assert fleet.kept_for() == {"g1": "b"}
