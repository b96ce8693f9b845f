"""Times as a real clock has them: fractions of seconds, times without a look, and a clock that is set back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.live_cluster import run
from tests.shadow.clusters import HAMI, START, Cluster, stamp
from tests.shadow.watched import Watched

from vgpu_scheduler.cli.shadow import markdown
from vgpu_scheduler.cli.shadow.folder import ShadowFolder
from vgpu_scheduler.cli.shadow.report import ShadowDocument
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.shadow import histories, summed_up


def one_card() -> Cluster:
    cluster = Cluster()
    cluster.add_node("a", 1)
    return cluster


def place(cluster: Cluster, name: str) -> None:
    cluster.announce(name, "a", ["GPU-a-0"], 9000)
    cluster.bind(name, "a")


def test_the_cluster_at_a_printed_time_is_that_in_which_the_claim_holds(tmp_path: Path) -> None:
    cluster = one_card()
    watched = Watched(cluster, START + 0.2)
    cluster.add_pod("full", 9000, START + 1)
    place(cluster, "full")
    watched.see(START + 1.3)
    cluster.add_pod("kept", 9000, START + 5)
    watched.see(START + 5.4)
    cluster.delete("Pod", "full")
    watched.see(START + 60.7001)
    cluster.add_pod("late", 9000, START + 60)
    watched.see(START + 60.7002)  # in the same millisecond
    place(cluster, "late")
    watched.see(START + 62.1)
    cluster.delete("Pod", "late")
    watched.see(START + 62.9)
    watched.see(START + 200.3)
    first, second = watched.record.missed
    assert second.since > first.since
    keeper = ShadowFolder(tmp_path)
    for line in watched.lines:
        keeper.write(line)
    keeper.save(watched.record)
    report = markdown.written(ShadowDocument(watched.record, 0.0).blocks())
    rows = [row.split("|")[2].strip() for row in report.splitlines() if row.startswith("| default/kept")]
    assert len(rows) == 2
    for at in rows:
        then = run("shadow", "snapshot", "--state", str(tmp_path), "--at", at).stdout
        names = {item["metadata"]["name"] for item in json.loads(then)["items"]}
        assert names == {"a", "kept"}, at


def test_a_clock_that_is_set_back_lets_no_time_fall() -> None:
    cluster = one_card()
    watched = Watched(cluster)
    cluster.add_pod("x", 9000, START + 100)
    watched.see(START + 100)
    watched.see(START + 40)
    place(cluster, "x")
    watched.see(START + 41)
    cluster.delete("Pod", "x")
    watched.see(START - 50)
    again = Watched(cluster, START - 60, watched.record)
    again.see(START - 50)
    entry, record = watched.entry("x"), again.record
    times = [START, entry.arrived, entry.placed, entry.bound, entry.left, record.watches[-1].since, record.until]
    assert times == sorted(times)
    assert record.watched >= 100.0
    ats = [line.at for line in (*watched.lines, *again.lines)]
    assert ats == sorted(ats)


def test_a_pod_that_was_bound_while_nobody_watched_waited_for_as_long_as_its_object_says() -> None:
    cluster = one_card()
    watched = Watched(cluster)
    for name in ("x", "y", "z"):
        cluster.add_pod(name, 3000, START + 10)
    watched.see(START + 11)
    for name in ("x", "y"):
        cluster.announce(name, "a", ["GPU-a-0"], 3000)
        cluster.bind(name, "a")
    pod = cluster.get("Pod", "x")
    pod["status"]["startTime"] = stamp(START + 14)
    cluster.put(pod)
    cluster.delete("Pod", "z")
    again = Watched(cluster, START + 28_811, watched.record)
    again.see(START + 28_820)
    found = summed_up(again.record, 60.0)
    assert again.entry("x").waited(START + 28_820) == 4.0
    assert (found.placed, found.gave_up, found.unseen) == (2, 0, 2)
    assert (found.waited.pods, found.waited.longest) == (1, 4.0)
    assert "How long 2 pods waited is not known" in markdown.written(ShadowDocument(again.record, 60.0).blocks())


def test_a_time_in_which_the_machine_slept_is_none_in_which_somebody_watched() -> None:
    cluster = one_card()
    watched = Watched(cluster, gap=120.0)
    cluster.add_pod("kept", 9000, START + 10)
    watched.see(START + 10)
    watched.see(START + 100)
    cluster.add_pod("x", 3000, START + 200)
    cluster.announce("x", "a", ["GPU-a-0"], 3000)
    cluster.bind("x", "a")
    watched.see(START + 8000)  # the laptop has slept
    watched.see(START + 8100)
    cluster.announce("kept", "a", ["GPU-a-0"], 9000)
    cluster.bind("kept", "a")
    watched.see(START + 8110)
    record = watched.record
    assert [(watch.since, watch.until) for watch in record.watches] == [
        (START, START + 100),
        (START + 8000, START + 8110),
    ]
    assert [(missed.since, missed.until) for missed in record.missed] == [
        (START + 10, START + 100),
        (START + 8000, START + 8110),
    ]
    assert [entry.pod for entry in record.pods.values()] == ["default/kept"]
    first, second = histories(watched.lines, record.until, {"Pod": decode_pod, "Node": decode_node}, HAMI)
    assert first.ended <= START + 100
    assert second.began == START + 8000


def test_what_comes_before_somebody_begins_anew_is_not_noted() -> None:
    cluster = one_card()
    watched = Watched(cluster, gap=120.0)
    cluster.add_pod("x", 3000, START + 10)
    watched.see(START + 10)
    cluster.announce("x", "a", ["GPU-a-0"], 3000)
    cluster.bind("x", "a")
    for obj, gone in cluster.happened():
        watched.shadow.apply_change(watched.world, obj, gone=gone, now=START + 8000)
    watched.shadow.replaced(watched.world, watched.world, START + 8000)
    watched.shadow.end(watched.world, START + 8000)
    assert watched.entry("x").bound is None
    assert watched.record.until == START + 10.0


@pytest.mark.parametrize("ends_at_once", [False, True])
def test_what_was_announced_and_bound_later_is_no_leak(*, ends_at_once: bool) -> None:
    cluster = one_card()
    watched = Watched(cluster)
    for name in ("slow", "never"):
        cluster.add_pod(name, 3000, START + 10)
        cluster.announce(name, "a", ["GPU-a-0"], 3000)
    for second in range(11, 102, 10):  # its volume is being made
        watched.see(START + second)
    leaked = {fault.object for fault in summed_up(watched.record, 60.0).leaked}
    assert leaked == {"Pod default/slow", "Pod default/never"}
    cluster.bind("slow", "a")
    if ends_at_once:
        cluster.delete("Pod", "slow")
    cluster.delete("Pod", "never")
    watched.see(START + 103)
    assert {fault.object for fault in summed_up(watched.record, 60.0).leaked} == {"Pod default/never"}
