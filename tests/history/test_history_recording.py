"""What is written of what a scheduler observes and decides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.engine.builders import OURS, allocation, asks, cards, in_group, node, pod_object
from tests.history.recorded import BEGAN, fleet, history, options, waiting

from vgpu_scheduler.dialects import Dialects, TimestampText
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.groups import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from vgpu_scheduler.history import (
    Arrived,
    Changed,
    ChangeTracker,
    Decided,
    Departed,
    Removed,
    replay,
)
from vgpu_scheduler.history.encoding import RowReader, rows_of
from vgpu_scheduler.history.trimming import Trimmer
from vgpu_scheduler.kube import VOLCANO_GROUP_ANNOTATIONS, Pod, decode_node, decode_pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import OVERRIDES


def recording() -> ChangeTracker:
    return ChangeTracker(Dialects([hami_dialect()]), [OURS])


SECRET = "s3cr3t"


def secretive() -> dict[str, Any]:
    found = pod_object("p", asks(1, 2000), annotations={
        "kubectl.kubernetes.io/last-applied-configuration": SECRET, "example.com/token": SECRET,
        "vgpu-scheduler.io/decision": SECRET, "nvidia.com/use-gputype": "T4", **in_group("g", 1),
        "hami.io/node-scheduler-policy": "spread", "scheduling.k8s.io/group-name": "kept",
    })  # fmt: skip
    container = found["spec"]["containers"][0]
    container |= {"env": [{"name": "TOKEN", "value": SECRET}], "command": [SECRET], "args": [SECRET]}
    found["spec"]["volumes"] = [{"name": "s", "secret": {"secretName": SECRET}},
                                {"name": "d", "csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}}]  # fmt: skip
    found["metadata"]["managedFields"] = [{"manager": SECRET}]
    found["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": SECRET}]
    return found


def test_no_secrets_are_kept() -> None:
    (event,) = recording().seen(BEGAN, "Pod", decode_pod(secretive()))
    assert isinstance(event, Arrived)
    (row,) = rows_of([event])
    assert SECRET.encode() not in row.body
    assert set(event.pod.annotations) == {
        "nvidia.com/use-gputype", "hami.io/node-scheduler-policy", "scheduling.k8s.io/group-name", *in_group("g", 1)
    }  # fmt: skip


def test_the_engine_decides_the_same_on_what_is_kept() -> None:
    notes = {"example.com/note": "x", "hami.io/node-handshake": "Reported now"}
    nodes = [node(f"node-{each}", cards(f"node-{each}", 2), annotations=notes) for each in range(3)]
    trimmer = Trimmer(Dialects([hami_dialect()]))
    kept = [trimmer.trimmed(each) for each in nodes]
    pods = [msgspec.structs.replace(decode_pod(secretive()), uid=f"u{each}", name=f"p{each}") for each in range(5)]
    for each in pods:
        del each.annotations["scheduling.k8s.io/group-name"]  # type: ignore[attr-defined]  # there is no such group

    plain = replay(history(nodes, [Arrived(BEGAN, each) for each in pods]), options())
    trimmed = [trimmer.trimmed(each) for each in pods]
    found = replay(history(kept, [Arrived(BEGAN, each) for each in trimmed if isinstance(each, Pod)]), options())

    assert plain.pods == found.pods
    assert all(each.node for each in plain.pods)
    assert not any("example.com/note" in each.annotations for each in kept)


def test_annotations_that_say_how_pods_belong_together_are_kept() -> None:
    names = {*VOLCANO_GROUP_ANNOTATIONS, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, *OVERRIDES.values(), *in_group("g", 1),
             "kueue.x-k8s.io/pod-group-total-count", "kueue.x-k8s.io/pod-group-fast-admission"}  # fmt: skip
    (event,) = recording().seen(BEGAN, "Pod", waiting("p", annotations=dict.fromkeys(names, "x")))
    assert isinstance(event, Arrived)
    assert event.pod.annotations.keys() == names


# What is news --------------------------------------------------------------------------------------------------------


def test_only_what_is_news_is_written() -> None:
    found = recording()
    machine = fleet(1)[0]
    assert [type(each) for each in found.seen(BEGAN, "Node", machine)] == [Changed]
    beat = {**machine.annotations, "hami.io/node-handshake": "Reported later"}
    assert list(found.seen(BEGAN, "Node", msgspec.structs.replace(machine, resource_version=2, annotations=beat))) == []
    cordoned = msgspec.structs.replace(machine, resource_version=3, unschedulable=True)
    assert [type(each) for each in found.seen(BEGAN, "Node", cordoned)] == [Changed]
    assert list(found.seen(BEGAN, "Node", machine)) == []  # an older version
    assert [type(each) for each in found.object_gone(BEGAN, "Node", cordoned)] == [Removed]
    assert list(found.object_gone(BEGAN, "Node", cordoned)) == []

    pod = waiting("p", version=1)
    assert [type(each) for each in found.seen(BEGAN, "Pod", pod)] == [Arrived]
    assert list(found.seen(BEGAN, "Pod", msgspec.structs.replace(pod, resource_version=2))) == []
    labelled = msgspec.structs.replace(pod, resource_version=3, labels={"a": "b"})
    assert [type(each) for each in found.seen(BEGAN, "Pod", labelled)] == [Changed]
    assert list(found.seen(BEGAN, "Pod", waiting("other", scheduler="default-scheduler"))) == []
    ended = msgspec.structs.replace(labelled, resource_version=9, phase="Succeeded")
    assert list(found.seen(BEGAN, "Pod", ended)) == [Departed(BEGAN, "uid-p")]
    assert list(found.pod_gone(BEGAN, "uid-p")) == []


def bound(pod: Pod, where: str, notes: dict[str, str]) -> Pod:
    return msgspec.structs.replace(
        pod, resource_version=9, node_name=where, annotations={**pod.annotations, **notes}, phase="Running"
    )


def test_a_decision_that_is_carried_out_is_written_once() -> None:
    notes, pod = allocation("node-0", ("node-0-gpu-0", 1000, 0)), waiting("p")

    for seen_on, seen_with, by in (("node-0", notes, None), ("node-1", notes, OURS), ("node-0", {}, OURS)):
        found = recording()
        list(found.seen(BEGAN, "Pod", pod))
        placement = type("Placement", (), {"node": "node-0"})()
        decision = Decision(pod.uid, pod.key, Outcome.PLACED, placement=placement, annotations=notes)
        assert list(found.decided(BEGAN, [decision])) == [Decided(BEGAN, pod.uid, "node-0", notes, OURS)]
        assert [type(each) for each in found.snapshot(BEGAN)] == [Arrived, Decided]
        later = list(found.seen(BEGAN, "Pod", bound(pod, seen_on, seen_with)))
        assert [(each.node, each.by) for each in later if isinstance(each, Decided)] == ([(seen_on, by)] if by else [])
        assert [type(each) for each in found.snapshot(BEGAN)] == [Changed]


@pytest.mark.parametrize(("encoded", "seen", "is_carried_out"), [
    (TimestampText(5), "7", True), (TimestampText(5), "then", False), ("5", "5", True), ("5", "7", False),
])  # fmt: skip
def test_only_times_may_be_others_than_were_decided(encoded: str, seen: str, *, is_carried_out: bool) -> None:
    found, pod = recording(), waiting("p")
    list(found.seen(BEGAN, "Pod", pod))
    placement = type("Placement", (), {"node": "node-0"})()
    decision = Decision(pod.uid, pod.key, Outcome.PLACED, placement=placement, annotations={"hami.io/x": encoded})
    (decided,) = found.decided(BEGAN, [decision])
    assert type(decided.annotations["hami.io/x"]) is str
    later = list(found.seen(BEGAN, "Pod", bound(pod, "node-0", {"hami.io/x": seen})))
    assert (not later) is is_carried_out


def test_what_somebody_else_has_bound_is_told_apart() -> None:
    found, notes = recording(), allocation("node-0", ("node-0-gpu-0", 1000, 0))
    list(found.seen(BEGAN, "Pod", waiting("p")))
    assert list(found.seen(BEGAN, "Pod", bound(waiting("p"), "node-0", notes))) == [
        Decided(BEGAN, "uid-p", "node-0", notes, "")
    ]


# Files that follow each other ----------------------------------------------------------------------------------------


def test_decoded_nodes_stay_equal() -> None:
    """A node that comes back from a log says the same, images and taints included."""
    spec, status = {"taints": [{"key": "a", "effect": "NoSchedule"}]}, {"images": [{"names": ["x:1"], "sizeBytes": 9}]}
    found = decode_node({"metadata": {"name": "n", "uid": "n"}, "spec": spec, "status": status})
    reader = RowReader()
    (row,) = rows_of([Changed(BEGAN, "Node", found)])
    assert reader.event(row) == Changed(BEGAN, "Node", found)
