"""Pods with volumes: a provisioner that stalls, writes of claims and volumes that fail, an operator that dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from tests.e2e.volumes import (
    CLAIMS,
    CLASSES,
    SELECTED_NODE,
    VOLUMES,
    Provisioner,
    claim,
    create,
    delete_storage,
    local_volume,
    mounting,
    storage_class,
)
from tests.faults.catalogue import Fault, Story, lister
from tests.faults.pods import burst, pod
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Stage
from tests.faults.stories_operator import PODS
from tests.faults.stories_writes import WAYS

from vgpu_devcluster import MTHREADS, NVIDIA

MOUNTING = {"m0": NVIDIA, "m1": NVIDIA, "m2": MTHREADS, "m3": None}

FAULTS: list[Fault] = []
fault = lister(FAULTS, "volumes")


@asynccontextmanager
async def storage(stage: Stage) -> AsyncIterator[Provisioner]:
    """Classes of volumes that are made for their first consumer, or by hand; pods that mount them come with a burst."""
    await delete_storage(stage)
    await create(stage, CLASSES, storage_class("waits"), storage_class("by-hand", "kubernetes.io/no-provisioner"))
    await create(stage, VOLUMES, local_volume("disk", "by-hand", "gpu-1"))
    async with Provisioner(stage.http) as provisioner:
        yield provisioner


async def come(stage: Stage) -> None:
    """Have pods with volumes come, among a burst."""
    claims = [claim(name, "by-hand" if name == "m1" else "waits") for name in MOUNTING]
    await create(stage, CLAIMS, *claims)
    await stage.come(*(mounting(pod(name, vendor), name) for name, vendor in MOUNTING.items()), *burst())


async def all_bound(stage: Stage) -> bool:
    return all([await stage.bound(name) for name in MOUNTING])


async def selected(stage: Stage, number: int) -> bool:
    async with stage.http.get(CLAIMS) as answer:
        claims = (await answer.json())["items"]
    return sum(SELECTED_NODE in found["metadata"].get("annotations", {}) for found in claims) >= number


@fault(
    "the provisioner stalls",
    "until a burst of pods runs; a pod that waits for its volume is deleted and created again",
    volumes=True,
)
async def stalled(stage: Stage, random: Random) -> None:
    async with storage(stage) as provisioner:
        provisioner.stalls = True
        await come(stage)
        await stage.until(lambda: selected(stage, 3), "nodes to be selected")
        stage.count("provisioner stalled")
        await stage.some_run(PODS)
        await stage.delete("m2", gracePeriodSeconds=0)
        await stage.come(mounting(pod("m2", MTHREADS), "m2"))
        provisioner.stalls = False
        await stage.until(lambda: all_bound(stage), "pods with volumes")


@fault(
    "the provisioner stalls, and the operator is killed", "SIGKILL while volumes are being provisioned", volumes=True
)
async def killed(stage: Stage, random: Random) -> None:
    async with storage(stage) as provisioner:
        provisioner.stalls = True
        await come(stage)
        await stage.until(lambda: selected(stage, 3), "nodes to be selected")
        stage.process.kill()
        stage.count("operator killed")
        provisioner.stalls = False
        await stage.until(lambda: all_bound(stage), "pods with volumes")


def story_of(do: Do, status: int, retry_after: float) -> Story:
    """Return the story of writes of claims and volumes that fail in one way."""

    async def story(stage: Stage, random: Random) -> None:
        async with storage(stage):
            stage.proxy.add(Rule(What.VOLUME, do, status, times=3, retry_after=retry_after))
            await come(stage)
            await stage.until(lambda: all_bound(stage), "pods with volumes")

    return story


FAULTS += [
    Fault(
        "volumes",
        f"{What.VOLUME.value}: {way}",
        f"3 writes {do.value}{f' ({status})' if status else ''}",
        story_of(do, status, retry_after),
        volumes=True,
    )
    for way, (do, status, retry_after) in WAYS.items()
]
