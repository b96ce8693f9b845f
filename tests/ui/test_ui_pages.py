"""The pages have the values of the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.listed_clusters import cluster
from tests.cli.live_cluster import run
from tests.kube import storage_objects as storage
from tests.ui.browsers import current_of, served
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.ui.pages.cards import CardsView, cards_page
from vgpu_scheduler.ui.pages.heat import MOST_TILES
from vgpu_scheduler.ui.pages.waiting import waiting_page
from vgpu_scheduler.ui.visibility import EVERYTHING

Object = dict[str, Any]
SEEDS = range(12)


def printed(file: Path, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--cluster", str(file), "-o", "json").stdout)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.reading.settings.os.environ", {})


@pytest.mark.parametrize("seed", SEEDS)
async def test_pages_have_what_top_and_explain_print(seed: int, tmp_path: Path, no_settings: None) -> None:
    objects = cluster(np.random.default_rng(seed))
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    async with served(objects) as browser:
        cards = (await browser.get("/cards?format=json")).body
        assert cards == printed(file, "top", "cards")
        for card in cards[:3]:
            path = f"/cards/{card['node']}/{card['card']}?format=json"
            assert (await browser.get(path)).body == [card]
        for name in {card["node"] for card in cards}:
            of_node = [card for card in cards if card["node"] == name]
            assert (await browser.get(f"/cards?format=json&node={name}")).body == of_node
        now = (await browser.get("/?format=json")).body
        assert now["models"] == printed(file, "top", "models")
        assert sum(now["cards"].values()) == len(cards)
        namespaces = (await browser.get("/namespaces?format=json")).body
        assert namespaces == printed(file, "top", "namespaces")
        table = list(csv.DictReader((await browser.get("/namespaces?format=csv")).text.splitlines()))
        assert [(row["namespace"], row["memory_mib"]) for row in table] == [
            (each["namespace"], str(each["memory"])) for each in namespaces
        ]
        keys = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in objects if obj["kind"] == "Pod"]
        for key in keys:  # bound ones are asked about before others: nothing may be left of the question
            assert (await browser.get(f"/pods/{key}?format=json")).body == printed(file, "explain", key)
            assert (await browser.get(f"/pods/{key}")).status == 200
        assert (await browser.get("/cards?format=json")).body == cards
        waiting = (await browser.get("/waiting?format=json")).body
        assert sorted(key for reason in waiting for key in reason["pods"]) == sorted(
            key for key in keys if key.partition("/")[2].startswith("w")
        )


def told_of(name: str, message: str, created: str) -> Object:
    made = pod(name, {GPU: 1, MEMORY: 99999}, schedulerName="vgpu-scheduler")
    made["metadata"]["creationTimestamp"] = created
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made["status"] = {"phase": "Pending", "conditions": [condition]}
    return made


async def test_pods_that_wait_for_the_same_are_folded_with_the_oldest_first() -> None:
    pods = [
        told_of("young", "no room", "2026-01-01T00:00:09Z"),
        told_of("old", "no room", "2026-01-01T00:00:01Z"),
        told_of("other", "no card", "2026-01-01T00:00:00Z"),
        pod("plain", {}, schedulerName="default-scheduler"),
        pod("gated", {GPU: 1}, schedulerName="vgpu-scheduler", schedulingGates=[{"name": "x"}]),
    ]
    current = current_of([node("a"), *pods])
    page = await current.ask(lambda world, view: waiting_page(world, view.read_at, "", EVERYTHING))
    assert [(reason.text, [each.name for each in reason.pods]) for reason in page.reasons] == [
        ("no room", ["old", "young"]),
        ("It has scheduling gates, which whoever set them removes", ["gated"]),
        ("no card", ["other"]),
    ]
    async with served([node("a"), *pods]) as browser:
        text = (await browser.get("/waiting")).text
        assert '<td title="2026-01-01T00:00:01Z">23h</td>' in text
        assert "plain" not in text


@pytest.mark.parametrize("name", ["ours", "ours-too", "another"])
async def test_a_pod_without_cards_waits_here_where_it_names_any_of_our_schedulers(name: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scheduler_names: [ours, ours-too]\n")
    current = current_of([node("a"), pod("plain", {}, schedulerName=name)], settings)
    page = await current.ask(lambda world, view: waiting_page(world, view.read_at, "", EVERYTHING))
    assert page.pods == (name != "another")


@pytest.mark.parametrize(("by", "level"), [("memory", 4), ("cores", 3), ("pods", 2)])
async def test_tiles_are_coloured_by_what_is_asked_for(by: str, level: int) -> None:
    objects = [node("a"), running("x", "a", "GPU-a-0", 3000, 10), running("y", "a", "GPU-a-0", 3000, 20)]
    page = await current_of(objects).ask(lambda world, _: cards_page(world, CardsView(by=by), EVERYTHING))
    (group,) = page.heat.groups
    assert [tile.level for tile in group.rows[0].tiles] == [level, 0]
    assert (
        "a/GPU-a-0, NVIDIA-A100: memory 6000/16384Mi (36%), compute 30%, 2 pods, ready" in group.rows[0].tiles[0].told
    )


async def test_nodes_are_grouped_by_a_label() -> None:
    objects = [node("a", labels={"rack": "r2"}), node("b", labels={"rack": "r1"}), node("c"), node("d", cards=0)]
    async with served(objects) as browser:
        text = (await browser.get("/cards?group=rack")).text
        names = [line for line in text.splitlines() if line.startswith("<h2>")]
        assert [name.partition(" <small>")[0] for name in names] == [
            "<h2>rack: (no such label)",
            "<h2>rack: r1",
            "<h2>rack: r2",
        ]
        wrong = await browser.get("/cards?group=rakc")
        assert (wrong.status, "no node with cards has the label rakc" in wrong.text) == (400, True)


async def test_more_cards_than_can_be_shown_are_tiles_of_nodes() -> None:
    nodes = [node(f"n{number:04}", cards=9) for number in range(MOST_TILES // 9 + 1)]
    page = await current_of(nodes).ask(lambda world, _: cards_page(world, CardsView(), EVERYTHING))
    assert page.heat.by_node
    assert sum(len(row.tiles) for group in page.heat.groups for row in group.rows) == len(nodes)


async def test_a_card_says_how_it_is_taken_out_of_service_and_back() -> None:
    async with served([node("a", cordoned=(1,)), running("x", "a", "GPU-a-0", 3000)]) as browser:
        text = (await browser.get("/cards/a/GPU-a-0")).text
        assert ">kubectl vgpu cordon card a/GPU-a-0</pre>" in text
        assert '<a href="/pods/default/x">default/x</a>' in text
        assert ">kubectl vgpu uncordon card a/GPU-a-1</pre>" in (await browser.get("/cards/a/GPU-a-1")).text


async def test_namespaces_show_quotas_and_how_many_wait() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {f"limits.{MEMORY}": "8000"}},
    }
    waits = pod("w", {GPU: 1, MEMORY: 9000}, schedulerName="vgpu-scheduler")
    async with served([node("a"), running("x", "a", "GPU-a-0", 3000), quota, waits]) as browser:
        text = (await browser.get("/namespaces")).text
        assert '<a href="/waiting?namespace=default">1</a>' in text
        assert f"3000 of 8000 MiB of limits.{MEMORY}" in text
        table = await browser.get("/namespaces?format=csv")
        assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert f"default,1,1,1,3000,0,3000 of 8000 MiB of limits.{MEMORY}" in table.text
        assert "No pod of such a namespace" in (await browser.get("/namespaces?namespace=x")).text
        assert (await browser.get("/cards?format=csv")).status == 400


async def test_pods_that_wait_have_a_place_a_near_miss_and_their_group_in_one_row() -> None:
    no_room = "0/1 nodes are available: 1 CardInsufficientMemory."
    pods = [told_of(f"p{number}", no_room, f"2026-01-01T00:00:0{number}Z") for number in range(4)]
    for each in pods[1:]:
        each["metadata"]["labels"] = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": "2",
        }
    first = told_of("first", no_room, "2026-01-01T00:00:09Z")
    first["spec"]["priority"] = 5
    current = current_of([node("a"), running("x", "a", "GPU-a-0", 3000), *pods, first])
    page = await current.ask(lambda world, view: waiting_page(world, view.read_at, "", EVERYTHING))
    (reason,) = page.reasons
    assert reason.nearest == "nearest: 16384 of 99999 MiB memory free on a/GPU-a-1"
    assert [[each.name for each in row] for row in reason.rows] == [["p0"], ["p1", "p2", "p3"], ["first"]]
    places = {"first": 1, "p0": 2, "p1": 3, "p2": 3, "p3": 3}  # the group is placed together
    assert reason.as_json()["places"] == {f"default/{name}": place for name, place in places.items()}


async def test_cards_that_have_room_for_one_container_alone_are_said_to_fit_it_by_itself() -> None:
    together = pod("w", {GPU: 1, MEMORY: 9000}, schedulerName="vgpu-scheduler")
    beside = {**together["spec"]["containers"][0], "name": "beside"}
    together["spec"]["containers"].append(beside)
    alone = pod("alone", {GPU: 1, MEMORY: 99999}, schedulerName="vgpu-scheduler")
    async with served([node("a"), together, running("x", "a", "GPU-a-0", 9000), alone]) as browser:
        text = (await browser.get("/pods/default/w")).text
        assert "<td>beside</td><td>fits by itself</td>" in text
        assert "<td>fits</td>" not in text
        assert "by itself" not in (await browser.get("/pods/default/alone")).text


async def test_a_page_says_which_volume_a_decided_pod_waits_for(tmp_path: Path, no_settings: None) -> None:
    claim = storage.claim("data", "default", meta={"annotations": {storage.SELECTED_NODE: "a"}})
    objects = [
        node("a"),
        {"kind": "StorageClass", **storage.storage_class("sc", wait=True)},
        {"kind": "PersistentVolumeClaim", **claim},
        pod("decided", {GPU: 1}, volumes=[storage.claim_volume("data")], schedulerName="vgpu-scheduler"),
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    said = "Its claim default/data waits for the volume that is provisioned for node a"
    async with served(objects) as browser:
        assert said in (await browser.get("/pods/default/decided")).text
        assert said in (await browser.get("/pods/default/decided?format=text")).text
        told = (await browser.get("/pods/default/decided?format=json")).body
        assert told == printed(file, "explain", "default/decided")
        assert told["awaitedVolumes"] == [{"claim": "default/data", "node": "a"}]
