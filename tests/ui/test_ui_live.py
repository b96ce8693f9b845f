"""The page follows a cluster while it is open, whatever becomes of the watches."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
from tests.ui.clusters import DEFINITIONS, MERGE, NODES, PODS, Lived, define, lived
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.kube import API_RESOURCES
from vgpu_scheduler.policy import crds
from vgpu_scheduler.reading import read_live_cluster
from vgpu_scheduler.settings import SettingsError
from vgpu_scheduler.ui import LiveCluster
from vgpu_scheduler.ui import live as module
from vgpu_scheduler.ui.watching import KindWatch
from vgpu_scheduler.whatif import InvalidObjectsError

if TYPE_CHECKING:
    from vgpu_scheduler.apiclient import ApiClient

Object = dict[str, Any]
OURS = "vgpu-scheduler"
POLICIES = "/apis/vgpu-scheduler.io/v1alpha1/clustervgpupolicies"


def waiting(name: str, memory: int = 4000) -> Object:
    return pod(name, {GPU: 1, MEMORY: memory}, schedulerName=OURS)


def used(cards: list[Object]) -> list[int]:
    return [card["memory"]["used"] for card in cards]


async def test_a_pod_that_is_bound_appears_within_seconds(tmp_path: Path) -> None:
    async with lived(tmp_path, node("a"), waiting("first")) as cluster:
        assert used(await cluster.cards()) == [0, 0]
        async with cluster.browser.session.get(f"{cluster.browser.home}/events") as events:
            generation = await next_generation(events)
            await cluster.bind("first", running("x", "a", "GPU-a-1", 4000))
            async with asyncio.timeout(10.0):
                while used(await cluster.cards()) != [0, 4000]:
                    assert await next_generation(events) > generation
        assert await cluster.cards() == await cluster.top()
        assert '<a href="/pods/default/first">' in (await cluster.browser.get("/cards/a/GPU-a-1")).text
        await cluster.write("DELETE", f"{PODS}/first", {"gracePeriodSeconds": 0})
        assert await cluster.until(lambda cards: used(cards) == [0, 0]) < 10.0


async def next_generation(events: Any) -> int:
    """Return what the next event tells."""
    while True:
        line = (await events.content.readline()).decode()
        if line.startswith("data: "):
            return int(line.removeprefix("data: "))


def look_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.watching._LOOK_AGAIN", 0.1)


async def test_a_pod_that_waits_appears_with_what_its_condition_says(tmp_path: Path) -> None:
    async with lived(tmp_path, node("a")) as cluster:
        await cluster.create(waiting("large", 99999))
        await cluster.until(lambda text: "default/large" in text, "/waiting")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room <b>"}
        patch = {"status": {"conditions": [condition]}}
        await cluster.write("PATCH", f"{PODS}/large/status", patch, content_type=MERGE)
        await cluster.until(lambda text: "no room &lt;b&gt;" in text, "/waiting")


@pytest.mark.parametrize("expired", [False, True])
async def test_what_happens_while_watches_end_is_seen(tmp_path: Path, *, expired: bool) -> None:
    async with lived(tmp_path, node("a"), running("x", "a", "GPU-a-0", 3000), waiting("y")) as cluster:
        fault = cluster.devcluster.inject(Fault(verb="watch", user_agent="page", status=503))
        cluster.devcluster.end_watches()
        await cluster.bind("y", running("y", "a", "GPU-a-1", 4000))
        await cluster.write("DELETE", f"{PODS}/x", {"gracePeriodSeconds": 0})
        if expired:
            cluster.devcluster.compact()
        cluster.devcluster.heal(fault)
        await cluster.until(lambda cards: used(cards) == [0, 4000])
        await cluster.create(waiting("z"))
        await cluster.until(lambda text: "default/z" in text, "/waiting")


async def test_a_stream_that_is_too_old_in_the_middle_lists_again(tmp_path: Path) -> None:
    async with lived(tmp_path, node("a"), waiting("y")) as cluster:
        cluster.devcluster.end_watches(expired=True)
        await cluster.bind("y", running("y", "a", "GPU-a-1", 4000))
        await cluster.until(lambda cards: used(cards) == [0, 4000])


async def test_an_api_that_is_away_leaves_the_last_state_with_a_banner(tmp_path: Path) -> None:
    async with lived(tmp_path, node("a"), running("x", "a", "GPU-a-0", 3000)) as cluster:
        fault = cluster.devcluster.inject(Fault(user_agent="page", drop=True))
        cluster.devcluster.end_watches()
        await cluster.until(lambda text: "What is shown may be out of date since " in text, "/")
        assert used(await cluster.cards()) == [3000, 0]
        cluster.devcluster.heal(fault)
        await cluster.until(lambda text: "out of date" not in text, "/", 30.0)
        assert used(await cluster.cards()) == [3000, 0]


async def test_a_policy_that_comes_or_goes_changes_the_answer(tmp_path: Path) -> None:
    limit = {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "small"},
        "spec": {"limits": {"memoryPerPod": "2Gi"}},
    }
    async with lived(tmp_path, node("a"), waiting("y"), prepare=define) as cluster:
        path = "/pods/default/y"
        assert "It fits now" in (await cluster.browser.get(path)).text
        await cluster.write("POST", POLICIES, limit)
        await cluster.until(lambda text: "limits.memoryPerPod" in text, path)
        await cluster.write("DELETE", f"{POLICIES}/small", {})
        await cluster.until(lambda text: "It fits now" in text, path)


async def test_a_definition_that_is_deleted_takes_its_objects_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.watching._LOOK_AGAIN", 0.1)
    (definition,) = (each for each in crds() if each["spec"]["names"]["kind"] == "ClusterVGPUPolicy")
    limit = {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "small"},
        "spec": {"limits": {"memoryPerPod": "2Gi"}},
    }
    async with lived(tmp_path, node("a"), waiting("y"), prepare=define) as cluster:
        path = "/pods/default/y"
        await cluster.write("POST", POLICIES, limit)
        await cluster.until(lambda text: "limits.memoryPerPod" in text, path)
        await cluster.write("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}", {})
        cluster.devcluster.end_watches()
        await cluster.until(lambda text: "It fits now" in text, path)
        await asyncio.sleep(0.5)
        assert "out of date" not in (await cluster.browser.get("/")).text
        await cluster.write("POST", DEFINITIONS, definition)
        await cluster.write("POST", POLICIES, limit)
        await cluster.until(lambda text: "limits.memoryPerPod" in text, path)


async def test_what_may_not_be_seen_is_told_and_seen_once_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_again_soon(monkeypatch)
    fault = Fault(verb="list", resource="resourcequotas", user_agent="page", status=403)

    async def refuse(cluster: Lived) -> None:
        cluster.devcluster.inject(fault)

    async with lived(tmp_path, node("a"), prepare=refuse) as cluster:
        told = "objects of kind ResourceQuota could not be read"
        assert told in (await cluster.browser.get("/")).text
        cluster.devcluster.heal()
        await cluster.until(lambda text: told not in text, "/")


async def test_what_may_be_listed_and_not_watched_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_again_soon(monkeypatch)

    async def refuse(cluster: Lived) -> None:
        cluster.devcluster.inject(Fault(verb="watch", user_agent="page", status=403))

    async with lived(tmp_path, node("a"), waiting("y"), prepare=refuse) as cluster:
        await cluster.bind("y", running("y", "a", "GPU-a-1", 4000))
        await cluster.until(lambda cards: used(cards) == [0, 4000])
        assert "out of date" not in (await cluster.browser.get("/")).text


async def test_rights_that_are_taken_away_leave_the_last_state_with_a_banner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_again_soon(monkeypatch)
    async with lived(tmp_path, node("a"), running("x", "a", "GPU-a-0", 3000)) as cluster:
        fault = cluster.devcluster.inject(Fault(resource="pods", user_agent="page", status=403))
        cluster.devcluster.end_watches()
        await cluster.until(lambda text: "you may not list pods in all namespaces" in text, "/")
        assert used(await cluster.cards()) == [3000, 0]
        cluster.devcluster.heal(fault)
        await cluster.until(lambda text: "out of date" not in text, "/")
        await cluster.create(waiting("y"))
        await cluster.until(lambda text: "default/y" in text, "/waiting")


async def test_settings_that_change_are_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.live._SETTINGS_EVERY", 0.1)
    async with lived(tmp_path, node("a"), waiting("y")) as cluster:
        path = "/pods/default/y?format=json"
        assert (await cluster.browser.get(path)).body["scheduler"] == {"named": OURS, "ours": True}
        await cluster.write("POST", "/api/v1/namespaces", {"metadata": {"name": "vgpu-system"}})
        data = {"settings.yaml": "scheduler_names: [another]\n"}
        settings = {"metadata": {"name": "vgpu-scheduler"}, "data": data}
        await cluster.write("POST", "/api/v1/namespaces/vgpu-system/configmaps", settings)
        await cluster.until(lambda told: not told["scheduler"]["ours"], path)


@pytest.mark.parametrize("fault", [{"status": 503}, {"status": 429}, {"status": 401}, {"drop": True}], ids=str)
async def test_settings_that_cannot_be_read_for_a_while_are_no_other_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any]
) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.live._SETTINGS_EVERY", 0.02)
    made: list[str] = []

    async def install(cluster: Lived) -> None:
        await cluster.write("POST", "/api/v1/namespaces", {"metadata": {"name": "vgpu-system"}})
        data = {"settings.yaml": "scheduler_names: [another]\n"}
        settings = {"metadata": {"name": "vgpu-scheduler"}, "data": data}
        await cluster.write("POST", "/api/v1/namespaces/vgpu-system/configmaps", settings)

    async with lived(
        tmp_path, node("a"), waiting("y"), prepare=install, settle=lambda: made.append("a world")
    ) as cluster:
        asked = 0

        def count(method: str, path: str) -> None:
            nonlocal asked
            asked += "/configmaps/vgpu-scheduler" in path

        cluster.devcluster.inject(Fault(verb="get", resource="configmaps", user_agent="page", **fault))
        cluster.live._api.observer = count
        async with asyncio.timeout(10.0):
            while asked < 5:
                await asyncio.sleep(0.01)
        assert made == ["a world"]
        assert not (await cluster.browser.get("/pods/default/y?format=json")).body["scheduler"]["ours"]
        with pytest.raises(ApiUnreachableError, match="configmaps/vgpu-scheduler"):
            await read_live_cluster(cluster.live._api, cluster.options)


async def test_settings_that_are_wrong_for_a_moment_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETTINGS_EVERY", 0.02)
    async with lived(tmp_path, node("a"), waiting("y")) as cluster:
        list_all, numbers, told = LiveCluster._list_all, count(), asyncio.Event()

        async def half_written(live: LiveCluster) -> None:
            if not told.is_set():
                raise SettingsError("node_policy: there is no 'binpa'")
            await list_all(live)

        monkeypatch.setattr(LiveCluster, "_list_all", half_written)
        monkeypatch.setattr(module, "_settings_content", lambda _: [next(numbers)])
        await cluster.until(lambda text: "out of date since " in text and "binpa" in text, "/")
        monkeypatch.setattr(module, "_settings_content", lambda _: [])
        told.set()
        await cluster.until(lambda text: "out of date" not in text, "/")


async def test_an_error_that_ends_watching_is_raised_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: LiveCluster) -> None:
        raise InvalidObjectsError("it cannot be understood")

    async with lived(tmp_path, node("a")) as cluster:
        live = LiveCluster(cluster.api, cluster.options)
        current = await live.open()
        monkeypatch.setattr(LiveCluster, "_settings_change", fail)
        try:
            with pytest.raises(InvalidObjectsError, match="it cannot be understood"):
                await live.run()
        finally:
            current.close()


@pytest.mark.parametrize("may", [True, False])
async def test_pods_that_could_end_are_named_to_those_who_may_delete_them(tmp_path: Path, *, may: bool) -> None:
    async def refuse(cluster: Lived) -> None:
        if not may:
            fault = Fault(resource="selfsubjectaccessreviews", user_agent="page", status=403)
            cluster.devcluster.inject(fault)

    async with lived(
        tmp_path, node("a", cards=1), running("tenant", "a", "GPU-a-0", 16000), waiting("y"), prepare=refuse
    ) as cluster:
        told = await cluster.browser.get("/pods/default/y?format=json")
        remedies = [remedy["text"] for remedy in told.body["remedies"]]
        assert any("default/tenant" in text for text in remedies) is may
        assert ("default/tenant" in (await cluster.browser.get("/pods/default/y")).text) is may
        assert len(remedies) > 0


NAMES = ("a", "b", "c")
WAITING = 6


def some_objects() -> list[Object]:
    nodes = [node(name, cordoned=(1,) if name == "c" else ()) for name in NAMES]
    return [*nodes, *(waiting(f"p{number}", 1000) for number in range(WAITING))]


async def change_at_random(cluster: Lived, rng: np.random.Generator, steps: int) -> None:
    """Have things happen, and see now and then that the page shows what ``top cards`` prints."""
    pods = [f"p{number}" for number in range(WAITING)]
    bound: set[str] = set()
    for number in range(steps):
        how, name, where = int(rng.integers(5)), str(rng.choice(pods)), str(rng.choice(NAMES))
        if how == 0 and name not in bound:
            await cluster.bind(name, running("x", where, f"GPU-{where}-{rng.integers(2)}", 1000))
            bound.add(name)
        elif how == 1:
            await cluster.write("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            pods.remove(name)
            bound.discard(name)
            pods.append(f"q{number}")
            await cluster.create(waiting(pods[-1], 1000))
        elif how == 2:
            labels = {"metadata": {"labels": {"pool": str(number)}}}
            await cluster.write("PATCH", f"{NODES}/{where}", labels, content_type=MERGE)
        elif how == 3:
            cordoned = {"metadata": {"annotations": {"hami.io/device-cordon": str(rng.choice(["", "GPU-b-0"]))}}}
            await cluster.write("PATCH", f"{NODES}/b", cordoned, content_type=MERGE)
        elif name in bound:
            assert (await cluster.browser.get(f"/pods/default/{name}")).status in {200, 404}
        if number % 5 == 0:
            await cluster.until((await cluster.top()).__eq__)


async def test_whatever_happens_the_page_is_what_top_prints(tmp_path: Path) -> None:
    async with lived(tmp_path, *some_objects()) as cluster:
        await change_at_random(cluster, np.random.default_rng(29), 40)


async def test_memory_is_settled_whenever_a_world_was_made(tmp_path: Path) -> None:
    settled: list[str] = []
    async with lived(tmp_path, node("a"), settle=lambda: settled.append("once more")) as cluster:
        assert len(settled) == 1
        await cluster.create(waiting("first"))  # is taken in: the world stays
        await cluster.until(lambda text: "default/first" in text, "/waiting")
        assert len(settled) == 1
        labels = {"metadata": {"labels": {"x": "y"}}}
        await cluster.write("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
        async with asyncio.timeout(10.0):
            while len(settled) < 2:
                await asyncio.sleep(0.01)


async def test_a_policy_that_comes_while_pods_are_taken_in_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lived(tmp_path, node("a"), waiting("y"), prepare=define) as cluster:
        take_in = cluster.live.current.apply_changes
        limit = {
            "apiVersion": "vgpu-scheduler.io/v1alpha1",
            "kind": "ClusterVGPUPolicy",
            "metadata": {"name": "small"},
            "spec": {"limits": {"memoryPerPod": "2Gi"}},
        }

        async def with_a_policy_meanwhile(*some: Any) -> bool:
            monkeypatch.undo()
            before = cluster.live._watches["ClusterVGPUPolicy"].objects.copy()
            await cluster.write("POST", POLICIES, limit)
            async with asyncio.timeout(10.0):
                while cluster.live._watches["ClusterVGPUPolicy"].objects == before:
                    await asyncio.sleep(0.01)
            return await take_in(*some)

        monkeypatch.setattr(cluster.live.current, "apply_changes", with_a_policy_meanwhile)
        await cluster.create(waiting("z"))
        await cluster.until(lambda text: "limits.memoryPerPod" in text, "/pods/default/y")


class Listing:
    """Stands for an API server that lists some objects."""

    def __init__(self, *items: Object) -> None:
        self.items = items

    async def request(self, *_: Any, **__: Any) -> ApiResponse:
        return ApiResponse(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": self.items}).encode())


async def test_of_objects_is_kept_what_matters_and_texts_that_are_the_same_once() -> None:
    """Who owns fields matters of pods that are nominated; what is nested deeply, and what is none of it, stays."""
    deep: Any = "bottom"
    for _ in range(200):
        deep = {"f:x": [deep]}
    owned = [{"manager": "somebody", "fieldsV1": deep}]
    items = [{"metadata": {"name": name, "managedFields": owned}, "spec": {"x": "a text"}} for name in "abc"]
    items[1]["status"] = {"nominatedNodeName": "n"}
    items[2]["status"] = "none"
    watch = KindWatch(cast("ApiClient", Listing(*items)), "Pod", API_RESOURCES["Pod"], Mock())
    await watch.list_all()
    kept = {name: obj for (_, name), obj in watch.objects.items()}
    assert [name for name, obj in kept.items() if "managedFields" in obj["metadata"]] == ["b"]
    assert kept["b"]["metadata"]["managedFields"] == owned
    assert len({id(obj["spec"]) for obj in kept.values()}) == 1
