"""What was observed is written, read back as it was, and decides the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engine.builders import OURS, allocation, asks, cards, in_group, node, pod_object
from tests.history.recorded import BEGAN, fleet, history, options, played, waiting, written
from tests.policy.resources import policy, policy_object

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.groups import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Decided,
    Departed,
    Event,
    MissedEvents,
    Removed,
    Withdrawn,
    replay,
)
from vgpu_scheduler.history.encoding import LogError, Row, RowReader, rows_of
from vgpu_scheduler.history.joining import joined
from vgpu_scheduler.history.log import CLOSED, Header, LogFile, Part, close_left_open, read_part
from vgpu_scheduler.history.recording import Recording
from vgpu_scheduler.history.retention import Retention, prune
from vgpu_scheduler.history.trimming import Trimmer
from vgpu_scheduler.kube import VOLCANO_GROUP_ANNOTATIONS, Namespace, Pod, decode_node, decode_pod, decode_quota
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import OVERRIDES, decode_policy

HEADER = Header(BEGAN, "run", 1, "test", {"preemption": True})


def recording() -> Recording:
    return Recording(Dialects([hami_dialect()]), [OURS])


def as_rows(events: Iterable[Event]) -> list[Any]:
    return list(rows_of(events))


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, *, closed: bool) -> None:
    past = played(1, [policy("spread", {"nodes": {"policy": "spread"}})], pods=20)
    file = written(tmp_path, past)
    if closed:
        assert file.close() == next(tmp_path.iterdir())
    else:
        file.abandon()

    part = read_part(next(tmp_path.iterdir()))

    assert part.problem == ""
    assert part.header == HEADER
    found, problems = joined([part])
    assert problems == []
    assert as_rows(found.events) == as_rows(past.events)
    assert list(rows_of(found.first, first=True)) == list(rows_of(past.first, first=True))
    again, before = replay(found, options()), replay(past, options())
    assert again.pods == before.pods


def test_all_kinds_of_events_and_policies_come_back() -> None:
    broken = {**policy_object("broken", {}), "spec": {"selector": {"matchLabels": {"a": "b"}}, "nodes": {"x": 1}}}
    evictions = [{"time": "2026-01-01T00:00:00Z", "pod": "ns/p", "uid": "u", "node": "n"}]
    status = {**policy_object("status", {"nodes": {"policy": "binpack"}}), "status": {"evictions": evictions}}
    objects = [("ClusterVGPUPolicy", decode_policy(each)) for each in (broken, status)]
    objects += [("Namespace", Namespace("team", {"tier": "shared"}))]
    events = [
        *(Changed(BEGAN, kind, value) for kind, value in objects),
        Removed(BEGAN, *objects[2]),
        Departed(BEGAN, "uid"),
        Decided(BEGAN, "uid", "node", {"a": "b"}, OURS, ("one", "two")),
        Withdrawn(BEGAN, "uid"),
        MissedEvents(BEGAN, 3, "the disk was full"),
        Arrived(BEGAN, waiting("p")),
    ]

    reader = RowReader()
    found = [reader.event(row) for row in rows_of(events)]

    assert found[:-1] == events[:-1]
    assert as_rows([found[-1]]) == as_rows([events[-1]])


def test_who_waits_in_the_beginning_is_told_from_the_pods_of_other_schedulers() -> None:
    announced = msgspec.structs.replace(waiting("theirs"), scheduler_name="default-scheduler")
    first = [Changed(BEGAN, "Pod", announced), Arrived(BEGAN, waiting("ours"))]

    reader = RowReader()
    found = [reader.event(row) for row in rows_of(first, first=True)]

    assert [type(each) for each in found] == [Changed, Arrived]


def test_pods_that_ask_the_same_share_one_spec_again() -> None:
    reader = RowReader()
    first, second = (reader.event(row) for row in rows_of([Arrived(BEGAN, waiting(name)) for name in "ab"]))
    assert isinstance(first, Arrived)
    assert isinstance(second, Arrived)
    assert first.pod.spec is second.pod.spec


def test_a_torn_file_is_read_up_to_where_it_is_whole(tmp_path: Path) -> None:
    past = played(2, pods=30)
    file = written(tmp_path, past)
    file.abandon()
    whole = file.path.read_bytes()
    counts = []
    for cut in (len(whole) - 20, len(whole) * 2 // 3, len(whole) // 2):
        file.path.write_bytes(whole[:cut])
        part = read_part(file.path)
        assert part.problem == f"{file.path} was torn: it is read up to there"
        counts.append(len(part.events))
        assert as_rows(part.events) == as_rows(past.events[: len(part.events)])
    assert sorted(counts, reverse=True) == counts
    assert counts[-1] < len(past.events)

    assert close_left_open(tmp_path) == []
    assert [path.suffix for path in tmp_path.iterdir()] == [CLOSED]
    assert len(read_part(file.path.with_suffix(CLOSED)).events) == counts[-1]


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    text = tmp_path / f"a{CLOSED}"
    text.write_text("no Parquet")
    with pytest.raises(LogError, match=r"a\.parquet: it cannot be read: its end is missing"):
        read_part(text)
    other = LogFile(tmp_path, replace(HEADER, format=99, program="9.9"))
    other.write([Row(BEGAN, "seen")])
    path = other.close()
    with pytest.raises(LogError, match=r"of format 99, written by version 9\.9; this program reads format 1"):
        read_part(path)
    file = LogFile(tmp_path, replace(HEADER, number=2))
    rows = list(rows_of([Arrived(BEGAN, waiting("p"))]))
    file.write([rows[0], rows[0]._replace(body=b"\x01")])
    with pytest.raises(LogError, match=r"row 2: arrived Pod default/p: Expected `object`, got `int`"):
        read_part(file.close())


def test_a_closed_file_of_many_batches_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.history.log._GROUP_ROWS", 150)
    past = played(3, pods=150)
    file = written(tmp_path, past, batch=1)
    open_bytes = file.size

    path = file.close()

    assert pq.read_metadata(path).num_row_groups == 2
    assert path.stat().st_size < open_bytes / 10
    assert as_rows(read_part(path).events) == as_rows(past.events)


def crafted(folder: Path, header: bytes, at: Any = BEGAN) -> Path:
    """Write a closed file with any header, and one row."""
    path = some_file(folder, BEGAN)
    table = pq.read_table(path).replace_schema_metadata({b"vgpu-scheduler.history": header})
    pq.write_table(table.set_column(0, "at", pa.array([at], pa.float64())), path)
    return path


@pytest.mark.parametrize(("header", "message"), [
    ("[]", "header: Expected `object`"),
    ("{", "header: Input data was truncated"),
    (json.dumps({**asdict(HEADER), "began": "x"}), r"header: Expected `float`, got `str` - at `\$.began`"),
    (json.dumps({**asdict(HEADER), "began": 1e300}), r"header: began: 1e\+300 is no time"),
    (json.dumps({**asdict(HEADER), "format": 99, "settings": 7}), "it is of format 99"),
])  # fmt: skip
def test_a_header_that_cannot_be_understood_is_named(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(LogError, match=rf"run-000001\.parquet: {message}"):
        read_part(crafted(tmp_path, header.encode()))


def test_a_header_of_a_later_version_may_say_more(tmp_path: Path) -> None:
    found = read_part(crafted(tmp_path, json.dumps({**asdict(HEADER), "more": 1}).encode()))
    assert found.header == HEADER


@pytest.mark.parametrize(("at", "message"), [
    (None, "rows 1 to 1: at: it is missing in one"),
    (float("nan"), "row 1: seen: at: nan is no time"),
    (float("inf"), "row 1: seen: at: inf is no time"),
])  # fmt: skip
def test_a_row_without_a_time_is_named(tmp_path: Path, at: float | None, message: str) -> None:
    with pytest.raises(LogError, match=message):
        read_part(crafted(tmp_path, json.dumps(asdict(HEADER)).encode(), at))


KEEPS_TWO = Retention(2, hours=1.0, megabytes=64)


def some_file(folder: Path, began: float, run: str = "run", number: int = 1) -> Path:
    """Write a file that holds something, and close it."""
    file = LogFile(folder, replace(HEADER, began=began, run=run, number=number))
    file.write([Row(began, "seen")])
    return file.close()


def test_the_oldest_files_are_deleted(tmp_path: Path) -> None:
    for number in range(4):
        some_file(tmp_path, BEGAN + number, number=number)
    prune(tmp_path, KEEPS_TWO)
    assert [read_part(path).header.number for path in sorted(tmp_path.iterdir())] == [2, 3]


def test_what_a_full_disk_leaves_pushes_out_no_file(tmp_path: Path) -> None:
    kept = [some_file(tmp_path, BEGAN + number, number=number) for number in range(2)]
    whole = some_file(tmp_path / "other", BEGAN)
    for number in range(6):
        file = LogFile(tmp_path, replace(HEADER, began=BEGAN + 60 * number + 60, run="full", number=number))
        file.write(rows_of([Changed(BEGAN, "Node", fleet(1)[0])], first=True))
        file.abandon()
        size = file.path.stat().st_size
        os.truncate(file.path, (0, 100, size - 200)[number % 3])
    nothing = LogFile(tmp_path, replace(HEADER, began=BEGAN + 900, run="nothing"))
    pq.write_table(pq.read_table(whole).slice(0, 0), nothing.path.with_suffix(CLOSED))
    nothing.abandon()

    assert close_left_open(tmp_path) == []
    prune(tmp_path, KEEPS_TWO)

    assert sorted(tmp_path.glob("*.*")) == kept


def test_a_file_that_cannot_be_closed_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LogFile(tmp_path, HEADER)
    file.write([Row(BEGAN, "seen")])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert list(tmp_path.iterdir()) == [file.path]
    assert read_part(file.path).problem == ""


def test_a_stream_that_cannot_be_begun_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.ipc.new_stream", full)
    with pytest.raises(OSError, match="No space left"):
        LogFile(tmp_path, HEADER)
    assert list(tmp_path.iterdir()) == []


def test_a_crash_loop_pushes_out_no_file(tmp_path: Path) -> None:
    some_file(tmp_path, BEGAN - 3600.0, number=0)
    whole = [some_file(tmp_path, BEGAN + 3600.0 * number, number=number) for number in (1, 2)]
    for number in range(6):
        some_file(tmp_path, BEGAN + 7200.0 + 60.0 * (number + 1), run=f"crash-{number}")
    prune(tmp_path, KEEPS_TWO)
    assert len(list(tmp_path.iterdir())) == 2 + 6
    assert all(path.exists() for path in whole)
    prune(tmp_path, replace(KEEPS_TWO, files=1))
    assert [path.stem.split("-", 1)[1] for path in tmp_path.iterdir()] == ["crash-5-000001"]


# What is kept --------------------------------------------------------------------------------------------------------

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
    assert [type(each) for each in found.gone(BEGAN, "Node", cordoned)] == [Removed]
    assert list(found.gone(BEGAN, "Node", cordoned)) == []

    pod = waiting("p", version=1)
    assert [type(each) for each in found.seen(BEGAN, "Pod", pod)] == [Arrived]
    assert list(found.seen(BEGAN, "Pod", msgspec.structs.replace(pod, resource_version=2))) == []
    labelled = msgspec.structs.replace(pod, resource_version=3, labels={"a": "b"})
    assert [type(each) for each in found.seen(BEGAN, "Pod", labelled)] == [Changed]
    assert list(found.seen(BEGAN, "Pod", waiting("other", scheduler="default-scheduler"))) == []
    ended = msgspec.structs.replace(labelled, resource_version=9, phase="Succeeded")
    assert list(found.seen(BEGAN, "Pod", ended)) == [Departed(BEGAN, "uid-p")]
    assert list(found.departed(BEGAN, "uid-p")) == []


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
        assert [type(each) for each in found.picture(BEGAN)] == [Arrived, Decided]
        later = list(found.seen(BEGAN, "Pod", bound(pod, seen_on, seen_with)))
        assert [(each.node, each.by) for each in later if isinstance(each, Decided)] == ([(seen_on, by)] if by else [])
        assert [type(each) for each in found.picture(BEGAN)] == [Changed]


def test_what_somebody_else_has_bound_is_told_apart() -> None:
    found, notes = recording(), allocation("node-0", ("node-0-gpu-0", 1000, 0))
    list(found.seen(BEGAN, "Pod", waiting("p")))
    assert list(found.seen(BEGAN, "Pod", bound(waiting("p"), "node-0", notes))) == [
        Decided(BEGAN, "uid-p", "node-0", notes, "")
    ]


# Files that follow each other ----------------------------------------------------------------------------------------


def part(number: int, began: float, first: Iterable[Event], events: Iterable[Event], run: str = "run") -> Part:
    events = tuple(events)
    ended = max((each.at for each in events), default=began)
    return Part(Path(f"{number}"), Header(began, run, number), ended, tuple(first), events)


def test_files_of_one_run_go_on() -> None:
    machine = fleet(1)[0]
    first = [Changed(BEGAN, "Node", machine)]
    one = part(1, BEGAN, first, [Arrived(BEGAN + 1, waiting("p")), Decided(BEGAN + 2, "uid-p", "node-0")])
    picture = [Changed(BEGAN + 9, "Node", machine), Arrived(BEGAN + 9, waiting("p"))]
    other = part(2, BEGAN + 9, picture, [Decided(BEGAN + 9, "uid-p", "node-0"), Departed(BEGAN + 10, "uid-p")])

    found, problems = joined([other, one])

    assert problems == []
    assert (found.began, found.ended) == (BEGAN, BEGAN + 10)
    assert [type(each) for each in found.events] == [Arrived, Decided, Departed]


def test_a_second_decision_for_the_same_node_counts_in_each_file() -> None:
    first = [Changed(BEGAN, "Node", fleet(1)[0])]
    one = part(1, BEGAN, first, [Arrived(BEGAN + 1, waiting("p")), Decided(BEGAN + 2, "uid-p", "node-0")])
    picture = [replace(first[0], at=BEGAN + 9), Arrived(BEGAN + 9, waiting("p"))]
    other = part(2, BEGAN + 9, picture, [Decided(BEGAN + at, "uid-p", "node-0") for at in (9, 60)])

    found, _ = joined([one, other])

    assert [each.at - BEGAN for each in found.decided] == [2, 60]
    assert found.stays()["uid-p"].placed == BEGAN + 60


def test_what_differs_after_a_gap_has_happened() -> None:
    one_node, other_node = fleet(2)
    quota = decode_quota({"metadata": {"name": "q", "namespace": "n", "uid": "q", "resourceVersion": "3"}, "spec": {}})
    first = [Changed(BEGAN, "Node", one_node), Changed(BEGAN, "ResourceQuota", quota)]
    one = part(1, BEGAN, first, [Arrived(BEGAN + each, waiting(f"p{each}")) for each in (1, 2, 3)])
    notes = allocation("node-1", ("node-1-gpu-0", 1000, 0))
    at = BEGAN + 90
    picture = [
        Changed(at, "Node", one_node),
        Changed(at, "Node", other_node),
        Changed(at, "Pod", bound(waiting("p1"), "node-1", notes)),
        Arrived(at, waiting("p3")),
        Arrived(at, waiting("p4")),
        Arrived(at, waiting("p5")),
        Arrived(at, waiting("p6")),
    ]
    one = replace(one, events=(*one.events, *(
        event for name in ("p5", "p6")
        for event in (Arrived(BEGAN + 3, waiting(name)), Decided(BEGAN + 3, f"uid-{name}", "node-0"))
    )))  # fmt: skip
    again = [Decided(at, "uid-p6", "node-0")]

    found, problems = joined([one, part(1, at, picture, again, "other")])

    assert len(problems) == 1
    assert "nothing was written for 87 s" in problems[0]
    assert found.events[7:] == (
        MissedEvents(at, 0, "between 1 and 1"),
        Departed(at, "uid-p2"),
        Removed(at, "ResourceQuota", quota),
        Changed(at, "Node", other_node),
        Decided(at, "uid-p1", "node-1", notes),
        picture[-3],
        Withdrawn(at, "uid-p5"),
    )


def test_decoded_nodes_stay_equal() -> None:
    """A node that comes back from a log says the same, images and taints included."""
    spec, status = {"taints": [{"key": "a", "effect": "NoSchedule"}]}, {"images": [{"names": ["x:1"], "sizeBytes": 9}]}
    found = decode_node({"metadata": {"name": "n", "uid": "n"}, "spec": spec, "status": status})
    reader = RowReader()
    (row,) = rows_of([Changed(BEGAN, "Node", found)])
    assert reader.event(row) == Changed(BEGAN, "Node", found)
