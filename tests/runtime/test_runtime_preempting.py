"""Who explain says would be evicted is whom the running operator evicts, on the node that it says."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.test_runtime_explained import Cluster, running_operator
from tests.whatif.preempting_worlds import random_objects

from vgpu_scheduler.policy import crds
from vgpu_scheduler.reading import ClusterView, keep_room, make_world, settings_from_file
from vgpu_scheduler.whatif import PreemptionOutlook, explain_pod

Object = dict[str, Any]
POLICIES = "/apis/vgpu-scheduler.io/v1alpha1/clustervgpupolicies"
ALLOWS = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "house"}, "spec": {"preemption": {"mayPreempt": True}}}


def random_world(rng: np.random.Generator, world: str) -> list[Object]:
    """Return rather full nodes of a namespace's own, and one pod that asks for room there."""
    taints = [{"key": "world", "value": world, "effect": "NoSchedule"}]
    tolerations = [{"key": "world", "operator": "Equal", "value": world, "effect": "NoSchedule"}]
    made = []
    for obj in copy.deepcopy(random_objects(rng)):
        name = obj["metadata"]["name"]
        if obj["kind"] == "Node":
            obj["metadata"]["name"] = f"{world}-{name}"
            notes = obj["metadata"]["annotations"]
            obj["metadata"]["annotations"] = {key: text.replace("GPU-", f"GPU-{world}-") for key, text in notes.items()}
            obj["spec"]["taints"] = taints
        elif obj["kind"] == "Pod" and (not name.startswith("waits") or name == "waits-0"):
            obj["metadata"] |= {"namespace": world, "name": "asked" if name == "waits-0" else name}
            spec, notes = obj["spec"], obj["metadata"].get("annotations", {})
            spec["tolerations"] = tolerations
            if spec.get("nodeName"):
                spec["nodeName"] = f"{world}-{spec['nodeName']}"
                notes["hami.io/vgpu-node"] = spec["nodeName"]
                notes["hami.io/vgpu-devices-allocated"] = notes["hami.io/vgpu-devices-allocated"].replace(
                    "GPU-", f"GPU-{world}-"
                )
            spec["priorityClassName"] = f"class-{spec.pop('priority')}"
        else:
            continue
        made.append(obj)
    return made


def preemption_outlook(objects: list[Object]) -> PreemptionOutlook | None:
    """Return what explain says of the pod of a world, as the cluster is before it comes."""
    classes = [{"kind": "PriorityClass", "metadata": {"name": f"class-{n}"}, "value": n} for n in range(11)]
    settings = settings_from_file(None, {"preemption": True})
    view = ClusterView([ALLOWS, *classes, *objects], {}, settings, live=True, read_at=datetime.now(UTC))
    world = make_world(view)
    keep_room(world, view)
    (asked,) = (each for each in world.pending.values() if each.name == "asked")
    return explain_pod(world, asked).preemption_outlook


@pytest.mark.parametrize(
    ("count", "seed"), [(15, 1), pytest.param(150, 2, marks=pytest.mark.long)], ids=["a few", "all"]
)
async def test_the_operator_evicts_whom_explain_names(tmp_path: Path, count: int, seed: int) -> None:
    rng, told = np.random.default_rng(seed), Counter[str]()
    worlds = {f"w{number}": random_world(rng, f"w{number}") for number in range(count)}
    async with running_operator(tmp_path, definitions=crds(), VGPU_PREEMPTION="true") as cluster:
        await cluster.call("POST", POLICIES, ALLOWS)
        for number in range(11):
            body = {"metadata": {"name": f"class-{number}"}, "value": number}
            await cluster.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for world in worlds:
            await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": world}})
        for objects in worlds.values():
            await cluster.create(*(obj for obj in objects if obj["metadata"]["name"] != "asked"))
        await asyncio.sleep(1.0)
        there = await cluster.objects()
        expected: dict[str, PreemptionOutlook] = {}
        for world, objects in worlds.items():
            (asked,) = (obj for obj in objects if obj["metadata"]["name"] == "asked")
            found = preemption_outlook([*there[world], asked])
            if found is not None and found.preemption is not None:
                expected[world] = found
            told["nobody" if world not in expected else "somebody"] += 1
            await cluster.create(asked)
        for world, found in expected.items():
            assert found.preemption is not None
            node, gone = await went(cluster, world, there[world])
            assert (node, gone) == (found.preemption.node, {each.pod for each in found.preemption.victims}), world
        for world in worlds.keys() - expected.keys():
            assert not (await missing(cluster, world, there[world])), world
    assert min(told.values()) > count / 8, told


async def missing(cluster: Cluster, world: str, before: list[Object]) -> set[str]:
    """Return the pods of a world that are gone, or on their way."""
    listed = (await cluster.call("GET", f"/api/v1/namespaces/{world}/pods"))["items"]
    stays = {each["metadata"]["name"] for each in listed if "deletionTimestamp" not in each["metadata"]}
    return {
        f"{world}/{each['metadata']['name']}"
        for each in before
        if each["kind"] == "Pod" and each["metadata"]["name"] not in stays
    }


async def went(cluster: Cluster, world: str, before: list[Object]) -> tuple[str, set[str]]:
    """Return where the pod of a world went or is to go, once all that had to go for it went, and who went."""
    async with asyncio.timeout(60):
        while True:
            asked = await cluster.call("GET", f"/api/v1/namespaces/{world}/pods/asked")
            node = asked["spec"].get("nodeName", "")
            if node:
                return node, await missing(cluster, world, before)
            await cluster.end_terminating(world)
            await asyncio.sleep(0.3)
