"""A live cluster is watched with no right but to read; what was seen is kept, and a later watch goes on there."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.cli.live_cluster import run
from tests.ui.clusters import DEFINITIONS, MERGE, NODES, PODS, Lived
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

from vgpu_devcluster import DevCluster
from vgpu_scheduler.apiclient import connect
from vgpu_scheduler.cli.shadow.folder import ShadowFolder, StateError
from vgpu_scheduler.cli.shadow.following import _ended, follow
from vgpu_scheduler.policy import crds
from vgpu_scheduler.reading import ClusterOptions
from vgpu_scheduler.shadow import LogEntry, ObservedPeriod, Place, Record, Shadow, ShadowOptions
from vgpu_scheduler.shadow.records import Choice, PodRecord
from vgpu_scheduler.ui import LiveCluster

HAMI = "hami-scheduler"
CARDS = ("GPU-a-1", "GPU-a-0")
"""The cards of node a in the order in which this scheduler allocates them."""
OPTIONS = ShadowOptions(min_duration=0.5, audit_every=0.0, sample_every=0.0)


def asking(name: str, memory: int = 4000) -> dict[str, Any]:
    return pod(name, {GPU: 1, MEMORY: memory}, schedulerName=HAMI)


@dataclass
class Scene:
    """A cluster that is watched while something happens."""

    cluster: Lived
    record: Record

    def entry(self, name: str) -> Any:
        return next((each for each in self.record.pods.values() if each.pod == f"default/{name}"), None)

    async def until(self, seen: Callable[[], object]) -> None:
        async with asyncio.timeout(20.0):
            while not seen():
                await asyncio.sleep(0.02)

    async def announce(self, name: str, where: str, card: str, memory: int = 4000) -> None:
        written = {"hami.io/vgpu-node": where, "hami.io/vgpu-devices-allocated": f"{card},NVIDIA,{memory},0:;"}
        await self.cluster.write("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": written}}, content_type=MERGE)

    async def bind(self, name: str, where: str) -> None:
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": where}}
        await self.cluster.write("POST", f"{PODS}/{name}/binding", target)


async def watched(
    kubeconfig: str, folder: Path, happening: Callable[[Scene], Awaitable[None]], *objects: dict[str, Any]
) -> Record:
    """Have something happen on a cluster that is watched."""
    api, own = await connect(kubeconfig, None, "test"), await connect(kubeconfig, None, "shadow")
    options, keeper = ClusterOptions(kubeconfig, None, "vgpu-system", None), ShadowFolder(folder)
    cluster, record = Lived(api, options), keeper.load() or Record(HAMI)
    await cluster.create(*objects)
    begun = asyncio.Event()
    watching = asyncio.create_task(follow(own, options, record, keeper, OPTIONS, None, lambda _: begun.set()))
    try:
        await asyncio.wait({watching, asyncio.create_task(begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching
        await happening(Scene(cluster, record))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await api.close()
        await own.close()
    return record


async def test_a_watch_that_ended_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.cli.shadow.following._LOOK_EVERY", 0.05)
    folder = tmp_path / "state"
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))

        async def first(scene: Scene) -> None:
            await scene.cluster.create(asking("x"), asking("kept"))
            await scene.until(lambda: scene.entry("x") and scene.entry("kept"))
            await scene.announce("x", "a", "GPU-a-0")
            await scene.until(lambda: scene.entry("x").place)
            await scene.bind("x", "a")
            await scene.until(lambda: scene.entry("x").bound)
            await scene.until(lambda: any(each.lasted(scene.record.until) > 0.6 for each in scene.record.missed))

        record = await watched(kubeconfig, folder, first, node("a"))
        (entry, kept) = (next(c for c in record.pods.values() if c.pod == f"default/{n}") for n in ("x", "kept"))
        assert entry.place == Place("a", ("GPU-a-0",))
        assert entry.choice == Choice(Place("a", ("GPU-a-1",)))
        assert kept.place is None

        async def second(scene: Scene) -> None:
            assert [each.pod for each in scene.record.missed if each.until is None] == ["default/kept"]
            await scene.cluster.write("DELETE", f"{PODS}/x", {"gracePeriodSeconds": 0})
            await scene.until(lambda: scene.entry("x").left)
            await scene.announce("kept", "a", "GPU-a-1")
            await scene.bind("kept", "a")
            await scene.until(lambda: scene.entry("kept").bound)

        again = await watched(kubeconfig, folder, second)
    assert len(again.watches) == 2
    assert {each.pod for each in again.pods.values()} == {"default/x", "default/kept"}
    asked = ("shadow", "report", "--state", str(folder), "--min-duration", "1s", "-o", "json")
    report = json.loads(run(*asked).stdout)
    assert report["summary"]["placed"] == 2
    assert report["horizons"] == []
    assert report["untold"] == ["The time is too short for a replay."]
    monkeypatch.setattr("vgpu_scheduler.cli.shadow.report.SHORTEST_WATCH", 0.0)
    report = json.loads(run(*asked).stdout)
    assert ([each["name"] for each in report["horizons"]], report["untold"]) == (["one hour", "the whole time"], [])
    for output, begins in (("markdown", "# Beside hami-scheduler\n"), ("html", "<!doctype html>")):
        assert run("shadow", "report", "--state", str(folder), "-o", output).stdout.startswith(begins)


async def test_what_is_of_the_whole_cluster_is_followed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.cli.shadow.following._LOOK_EVERY", 0.05)
    limit = {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "small"},
        "spec": {"limits": {"memoryPerPod": "2Gi"}},
    }
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))

        async def happening(scene: Scene) -> None:
            await scene.until(lambda: [each for each in scene.record.missed if each.until is None])
            for definition in crds():
                await scene.cluster.write("POST", DEFINITIONS, definition)
            await scene.cluster.write("POST", "/apis/vgpu-scheduler.io/v1alpha1/clustervgpupolicies", limit)
            await scene.until(lambda: all(each.until for each in scene.record.missed))
            await scene.cluster.write("DELETE", f"{NODES}/a", {})

        monkeypatch.setattr("vgpu_scheduler.ui.watching._LOOK_AGAIN", 0.1)
        await watched(kubeconfig, tmp_path / "state", happening, node("a"), asking("x"))
    kinds = [line.object["kind"] for line in ShadowFolder(tmp_path / "state").lines() if line.object is not None]
    assert {"Node", "Pod", "ClusterVGPUPolicy"} <= set(kinds)


async def test_pods_placed_while_the_world_waits_to_be_made_anew_are_compared_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.cli.shadow.following._LOOK_EVERY", 0.05)
    made = LiveCluster._make_anew

    async def slowly(live: LiveCluster) -> None:
        await made(live)
        await asyncio.sleep(0.5)  # so that the pause after it lasts longer than the test

    monkeypatch.setattr(LiveCluster, "_make_anew", slowly)
    monkeypatch.setattr("vgpu_scheduler.ui.live._PAUSE", 1000.0)
    replaced: list[object] = []
    monkeypatch.setattr(Shadow, "replaced", lambda *_: replaced.append(_))
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))

        async def happening(scene: Scene) -> None:
            for name in ("one", "two"):
                await scene.cluster.write("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class(name))
                await scene.until(lambda: replaced)
            for name, card in zip("xy", CARDS, strict=True):
                await scene.cluster.create(asking(name, 16384))
                await scene.announce(name, "a", card, 16384)
                await scene.bind(name, "a")
            await scene.until(lambda: scene.entry("y") and scene.entry("y").bound)

        record = await watched(kubeconfig, tmp_path / "state", happening, node("a"))
    assert len(replaced) == 1
    assert [entry.choice for entry in record.pods.values()] == [Choice(Place("a", (card,))) for card in CARDS]


def priority_class(name: str) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": 1}


def test_a_large_record_is_written_more_rarely_and_the_log_as_often(tmp_path: Path) -> None:
    folder, record = ShadowFolder(tmp_path), Record(HAMI)
    writes = []
    for size, began in ((10, 0.0), (60_000, 6000.0)):
        record.pods |= {f"uid-{n}": PodRecord(f"uid-{n}", f"default/a-pod-{n}", 0, 1.8e9) for n in range(size)}
        seen = set()
        for minute in range(10):
            folder.write(LogEntry(float(minute)))
            folder.keep_up(record, began + 60.0 * minute)
            seen.add((tmp_path / "record.json").stat().st_mtime_ns)
        writes.append(len(seen))
    assert writes == [10, 3]  # every minute, and every 4 minutes
    assert len(list(folder.lines())) == 20
    folder.save(record)
    assert folder.load() == record


def test_what_broke_off_costs_no_more_than_itself(tmp_path: Path) -> None:
    keeper = ShadowFolder(tmp_path)
    for at in (1.0, 2.0):
        keeper.write(LogEntry(at, began=True))
        keeper.save(Record(HAMI))
    file = tmp_path / "history.jsonl.gz"
    whole = file.read_bytes()
    for truncated in range(1, 30):
        file.write_bytes(whole[:-truncated])
        again = ShadowFolder(tmp_path)
        assert [line.at for line in again.lines()][:1] == [1.0]
        again.write(LogEntry(3.0, began=True))
        again.save(Record(HAMI))
        assert [line.at for line in ShadowFolder(tmp_path).lines()] == [1.0, 3.0]


def test_what_is_torn_before_others_costs_no_more_than_itself(tmp_path: Path) -> None:
    lengths, file = [0], tmp_path / "history.jsonl.gz"
    for at in range(40):
        keeper = ShadowFolder(tmp_path)
        for _ in range(200):
            keeper.write(LogEntry(float(at), {"kind": "x" * at, "metadata": {"name": str(hash((at, _)))}}))
        keeper.save(Record(HAMI))
        lengths.append(file.stat().st_size)
    whole = file.read_bytes()
    end = lengths[8]
    for truncated in (1, 5, 100, end - lengths[7] - 3):
        file.write_bytes(whole[: end - truncated] + whole[end:])
        again = ShadowFolder(tmp_path)
        assert {line.at for line in again.lines()} == {*map(float, range(40))} - {7.0}
        assert again.truncated == 1
    report = run("shadow", "report", "--state", str(tmp_path)).stdout
    assert "1 part of the record could not be read" in report


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    keeper = ShadowFolder(tmp_path)
    (tmp_path / "record.json").write_text('{"beside": "x", "version": 99}')
    with pytest.raises(StateError, match="version 99"):
        keeper.load()
    older = '{"beside": "x", "version": 1, "samples": [{"at": 1, "cards": 4, "whole": 2, "given": 1, "stranded": 1}]}'
    (tmp_path / "record.json").write_text(older)
    for words in (["report"], ["--beside", "x", "--for", "1s"]):
        told = run("shadow", *words, "--state", str(tmp_path)).stderr
        assert "it is of version 1, and this program reads 2: give another folder to --state" in told
    (tmp_path / "record.json").write_text("{")
    answer = run("shadow", "report", "--state", str(tmp_path))
    assert answer.exit_code == 2
    assert "record.json" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--beside is missing"),
        (["report"], "report needs --state"),
        (["report", "--beside", "x", "--state", "y"], "report makes none"),
        (["report", "--state", "none-there"], "--state: there is no folder none-there"),
        (["snapshot", "--state", "none-there", "--at", "2026-01-01T00:00:00Z"], "there is no folder none-there"),
        (["snapshot", "--state", ".", "--at", "2026-01-01T00:00:00Z"], "--state: there is no record in . yet"),
        (["--beside", "x", "--for", "soon"], "is not a duration"),
    ],
)
def test_what_is_asked_for_wrongly_is_said(arguments: list[str], said: str) -> None:
    answer = run("shadow", *arguments)
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_a_folder_that_another_watch_writes_into_is_refused(tmp_path: Path) -> None:
    arguments = ("shadow", "--beside", HAMI, "--state", str(tmp_path), "--kubeconfig", str(tmp_path / "none"))
    with ShadowFolder(tmp_path).held():
        answer = run(*arguments)
        assert answer.exit_code == 2
        assert f"--state: {tmp_path}: another process watches and writes into this folder" in answer.stderr
    assert "another process" not in run(*arguments).stderr


def test_where_a_file_system_has_no_locks_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("vgpu_scheduler.cli.shadow.folder.fcntl.flock", without_locks)
    answer = run("shadow", "--beside", HAMI, "--state", str(tmp_path), "--kubeconfig", str(tmp_path / "none"))
    assert "--state: its file system has no locks" in answer.stderr
    assert "there is no such file" in answer.stderr  # that is what ends it


@pytest.mark.parametrize("there", [(), ("default-scheduler", "default-scheduler", "volcano")])
def test_of_a_scheduler_that_no_pod_names_it_is_said_which_they_name(there: tuple[str, ...], tmp_path: Path) -> None:
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))

        async def make() -> None:
            api = await connect(kubeconfig, None, "test")
            pods = [asking(f"p{number}") for number in range(len(there))]
            for pod, name in zip(pods, there, strict=True):
                pod["spec"]["schedulerName"] = name
            await Lived(api, ClusterOptions(kubeconfig, None, "vgpu-system", None)).create(node("a"), *pods)
            await api.close()

        asyncio.run(make())
        answer = run("shadow", "--beside", "hami-schedular", "--for", "1s", "--kubeconfig", kubeconfig)
    told = "they name default-scheduler (2), volcano (1)" if there else "there is none"
    assert f"no pod with cards names hami-schedular yet: {told}" in answer.stderr
    assert answer.exit_code == 0


def test_a_cluster_is_shown_of_times_alone_at_which_somebody_watched(tmp_path: Path) -> None:
    folder, began, ended = ShadowFolder(tmp_path), 1_767_225_600.4, 1_767_225_700.2
    folder.write(LogEntry(began, began=True))
    folder.write(LogEntry(began, node("a")))
    folder.save(Record(HAMI, watches=[ObservedPeriod(began, ended)]))

    def shown(at: str) -> Result:
        return run("shadow", "snapshot", "--state", str(tmp_path), "--at", at)

    for at in ("2026-01-01T00:00:00.400Z", "2026-01-01T00:00:01Z", "2026-01-01T00:01:40Z", "2026-01-01T00:01:41Z"):
        assert [obj["metadata"]["name"] for obj in json.loads(shown(at).stdout)["items"]] == ["a"]
    for at in ("2026-01-01T00:00:00Z", "2026-01-01T00:01:42Z", "2026-02-01T00:00:00Z"):
        answer = shown(at)
        assert answer.exit_code == 2
        assert (
            f"the cluster was not watched at {at}, but from 2026-01-01T00:00:01Z to 2026-01-01T00:01:41Z"
            in answer.stderr
        )


def test_a_folder_of_another_scheduler_is_refused(tmp_path: Path) -> None:
    ShadowFolder(tmp_path).save(Record(HAMI))
    answer = run("shadow", "--beside", "volcano", "--state", str(tmp_path), "--kubeconfig", str(tmp_path / "none"))
    assert "it has the record of hami-scheduler" in answer.stderr


async def test_a_watch_begins_anew_after_the_machine_has_slept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.cli.shadow.following._LOOK_EVERY", 0.05)
    slept = [timedelta(0)]
    now = LiveCluster.now
    monkeypatch.setattr(LiveCluster, "now", lambda live: now(live) + slept[0])
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))

        async def happening(scene: Scene) -> None:
            await scene.until(lambda: scene.record.missed)
            slept[0] = timedelta(hours=8)
            await scene.until(lambda: len(scene.record.missed) == 2)
            await scene.cluster.create(asking("y"))
            await scene.until(lambda: scene.entry("y"))

        record = await watched(kubeconfig, tmp_path / "state", happening, node("a"), asking("x"))
    assert len(record.watches) == 2
    assert record.watched < 60.0
    assert all(missed.lasted(record.until) < 60.0 for missed in record.missed)
    assert [line.began for line in ShadowFolder(tmp_path / "state").lines()].count(True) == 2


@pytest.mark.parametrize("later", range(4))
async def test_whoever_waits_for_the_end_can_be_told_to_stop_when_it_comes(
    later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation that comes together with the end is not lost: the task is over or cancelled, and nothing else."""
    asked: list[Callable[[], None]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda _, told: asked.append(told))
    task = asyncio.create_task(_ended(60.0))
    await asyncio.sleep(0.01)
    asked[0]()
    for _ in range(later):
        await asyncio.sleep(0)
    was_over = task.done()
    task.cancel()
    await asyncio.wait([task], timeout=30.0)
    assert task.cancelled() is not was_over
