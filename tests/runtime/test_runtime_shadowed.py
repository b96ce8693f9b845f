"""Of each pod that a shadow says would have fitted, the running operator proves it: it binds it there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.test_runtime_explained import LOCK, OURS, Cluster, running_operator
from tests.seeds import seeds
from tests.shadow.clusters import HAMI, FewLines
from tests.shadow.watched import Watched

from vgpu_scheduler.shadow import objects_at

Object = dict[str, Any]
ALLOCATED = "hami.io/vgpu-devices-allocated"
STEPS = 60
CLAIMS = 25
"""That are proven at once: twenty times as many in all."""


@dataclass(frozen=True)
class Claimed:
    """A cluster as it was recorded, under names of its own.

    Attributes
    ----------
    places
        Of each pod that would have fitted: its node, and the UUIDs of its cards.
    """

    objects: list[Object]
    places: dict[str, tuple[str, set[str]]]


def named_anew(text: str, world: str) -> str:
    """Return a text in which nodes and their cards belong to a world."""
    return re.sub(r"\bn(\d+)\b", rf"{world}-n\1", text)


def in_world(obj: Object, world: str) -> Object:
    """Return an object for the running operator, whose pods those are that wait; records have no locks."""
    found: Object = json.loads(named_anew(json.dumps(obj), world))
    if found["kind"] == "Node":
        found["spec"]["taints"] = [{"key": "world", "value": world, "effect": "NoSchedule"}]
        return found
    found["metadata"]["namespace"] = world
    found["spec"]["tolerations"] = [{"key": "world", "operator": "Equal", "value": world, "effect": "NoSchedule"}]
    if ALLOCATED not in found["metadata"].get("annotations", {}):
        found["spec"]["schedulerName"] = OURS
    return found


def claimed(seed: int) -> Iterator[Claimed]:
    """Yield the clusters on which pods were kept waiting that would have fitted, one for each time that was claimed."""
    played = FewLines(seed)
    watched = Watched(played.cluster)
    for _ in range(STEPS):
        played.step()
        watched.see(played.now)
    for number, since in enumerate(dict.fromkeys(missed.since for missed in watched.record.missed)):
        world = f"w{seed}t{number}"
        places = {
            missed.pod.partition("/")[2]: (
                named_anew(missed.place.node, world),
                {named_anew(card, world) for card in missed.place.cards},
            )
            for missed in watched.record.missed
            if missed.since == since
        }
        yield Claimed([in_world(obj, world) for obj in objects_at(watched.lines, since)], places)


async def pods_of(cluster: Cluster) -> dict[tuple[str, str], Object]:
    """Return all pods, by namespace and name."""
    listed = (await cluster.call("GET", "/api/v1/pods"))["items"]
    return {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in listed}


class Plugins:
    """The device plugins of all nodes: they answer each pod that is bound, and open its node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._served: set[tuple[str, str]] = set()

    async def serve(self) -> dict[tuple[str, str], Object]:
        """Answer who was bound since; return all pods."""
        pods = await pods_of(self._cluster)
        bound = {key for key, pod in pods.items() if pod["spec"].get("nodeName")}
        async with asyncio.TaskGroup() as tasks:
            for key in bound - self._served:
                tasks.create_task(self._answer(*key, pods[key]["spec"]["nodeName"]))
        self._served |= bound
        return pods

    async def _answer(self, namespace: str, name: str, node: str) -> None:
        patch = {"headers": {"Content-Type": "application/merge-patch+json"}}
        answered = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
        await self._cluster.call("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", answered, **patch)
        taken: Object = {"metadata": {"annotations": {LOCK: None}}}
        await self._cluster.call("PATCH", f"/api/v1/nodes/{node}", taken, **patch)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, 20))
async def test_what_would_have_fitted_the_running_operator_binds(tmp_path: Path, seed: int) -> None:
    worlds: list[Claimed] = []
    number = 100 * seed
    while sum(len(world.places) for world in worlds) < CLAIMS:
        worlds += claimed(number)
        number += 1
    async with running_operator(tmp_path, VGPU_COEXIST_WITH=HAMI) as cluster:
        plugins = Plugins(cluster)
        for world in worlds:
            (namespace,) = {obj["metadata"]["namespace"] for obj in world.objects if obj["kind"] == "Pod"}
            await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        await create(cluster, [[obj for obj in world.objects if not waits(obj)] for world in worlds])
        await plugins.serve()
        await asyncio.sleep(1.0)
        await create(cluster, [[obj for obj in world.objects if waits(obj)] for world in worlds])
        wanted = {
            (world.objects[-1]["metadata"]["namespace"], name): place
            for world in worlds
            for name, place in world.places.items()
        }
        try:
            async with asyncio.timeout(120):
                while unbound := [key for key, pod in (await plugins.serve()).items() if key in wanted and not on(pod)]:
                    print(f"{len(unbound)} are left, {unbound[:5]}")
                    await asyncio.sleep(0.5)
        except TimeoutError:
            pytest.fail(f"{len(unbound)} of {len(wanted)} would have fitted and do not, such as {unbound[:5]}")
        pods = await pods_of(cluster)
    assert {key: place_of(pods[key]) for key in wanted} == wanted
    assert len(wanted) >= CLAIMS


def waits(obj: Object) -> bool:
    """Tell whether it is a pod that is to be placed."""
    return bool(obj["kind"] == "Pod" and obj["spec"]["schedulerName"] == OURS)


def on(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def place_of(pod: Object) -> tuple[str, set[str]]:
    """Return the node of a pod, and the cards that its annotation names."""
    written = pod["metadata"]["annotations"][ALLOCATED]
    return on(pod), {card.partition(",")[0] for card in re.split("[:;]", written) if card}


async def create(cluster: Cluster, worlds: list[list[Object]]) -> None:
    """Create the objects of each world one after the other, as they came."""

    async def one(objects: list[Object]) -> None:
        for obj in objects:
            await cluster.create(obj)

    async with asyncio.TaskGroup() as tasks:
        for objects in worlds:
            tasks.create_task(one(objects))
