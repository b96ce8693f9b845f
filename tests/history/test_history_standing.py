"""What is there after events: a pod that was placed keeps what it holds, whatever older state of it is shown later."""

from __future__ import annotations

from tests.engine.builders import allocation, pod_object

from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, ObjectsAtTime, Withdrawn
from vgpu_scheduler.kube import Pod, decode_pod

NOTES = allocation("n", ("GPU-1", 1000, 10))


def unbound(**labels: str) -> Pod:
    made = pod_object("p")
    made["metadata"]["labels"] = labels
    return decode_pod(made)


def test_an_older_state_takes_nothing_from_a_pod_that_was_placed() -> None:
    there, pod = ObjectsAtTime(), unbound()
    there.take(Arrived(1.0, pod))
    there.take(Decided(2.0, pod.uid, "n", NOTES))
    placed = there.pods[pod.uid]
    assert (placed.node_name, placed.started, placed.start_time) == ("n", True, 2)
    there.take(Changed(3.0, "Pod", unbound(team="a")))
    after = there.pods[pod.uid]
    assert after.labels == {"team": "a"}
    assert (after.node_name, after.started, after.start_time, after.phase) == ("n", True, 2, "Running")
    assert NOTES.items() <= after.annotations.items()
    (first,) = there.first(4.0)
    assert isinstance(first, Changed)


def test_a_pod_whose_placement_is_withdrawn_waits_again_and_one_that_departed_is_gone() -> None:
    there, pod = ObjectsAtTime(), unbound()
    there.take(Arrived(1.0, pod))
    there.take(Decided(2.0, pod.uid, "n", NOTES))
    there.take(Withdrawn(3.0, pod.uid))
    assert not there.pods[pod.uid].node_name
    (first,) = there.first(4.0)
    assert isinstance(first, Arrived)
    there.take(Departed(5.0, pod.uid))
    assert not there.first(6.0)
