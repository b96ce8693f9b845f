"""Nodes that are deleted, cordoned, drained and registered anew, and cards that fall ill, while pods wait for them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.faults.catalogue import Fault, lister
from tests.faults.pods import NUMBERS, away_from, burst, on, pod
from tests.faults.stage import Stage

from vgpu_devcluster import BEHAVIOUR, NVIDIA, Card

NODE = "gpu-0"
QUEUED = 4
PODS = sum(NUMBERS.values())

FAULTS: list[Fault] = []
fault = lister(FAULTS, "nodes")


async def queue_up(stage: Stage) -> str:
    """Have pods wait at a node behind one that is allocating, among a burst; return the card that that one has."""
    holder = pod("holder", NVIDIA, **on(NODE))
    holder["metadata"]["annotations"][BEHAVIOUR] = "held"
    await stage.come(holder)
    await stage.one_is_allocating()
    await stage.come(
        *(pod(f"queued-{number}", NVIDIA, **on(NODE)) for number in range(QUEUED)), *burst(**away_from(NODE))
    )

    async def queued() -> bool:
        return await stage.process.metric("vgpu_scheduler_bind_queue_depth") >= QUEUED - 1

    await stage.until(queued, "pods to wait at the node")
    notes = (await stage.pod("holder"))["metadata"]["annotations"]
    return str(notes["hami.io/vgpu-devices-allocated"].split(",")[0])


async def known(stage: Stage, metric: str, at_least: float, **labels: str) -> None:
    """Wait until the operator knows."""

    async def seen() -> bool:
        return await stage.process.metric(metric, **labels) >= at_least

    await stage.until(seen, f"{metric} to be {at_least:g}")


async def nodes_known(stage: Stage, number: int) -> None:
    """Wait until the operator knows so many nodes."""

    async def seen() -> bool:
        return await stage.process.metric("vgpu_scheduler_nodes") == number

    await stage.until(seen, f"{number} nodes to be known")


async def lose(stage: Stage, cards: list[Card]) -> None:
    """Register other cards of the node while pods wait for it, and let them go when the operator knows."""
    observed = await stage.process.metric("vgpu_scheduler_observations_total", kind="node")
    await stage.nodes.set_cards(NODE, cards)
    await known(stage, "vgpu_scheduler_observations_total", observed + 2, kind="node")
    stage.nodes.let_go()


@fault(
    "deleted and created again", "while pods wait for its lock behind one that is allocating; its pods are deleted, too"
)
async def deleted(stage: Stage, random: Random) -> None:
    await queue_up(stage)
    await stage.some_run(PODS)  # so that no plugin of another node is stopped while it serves
    await stage.nodes.stop()
    await stage.nodes.remove(NODE)
    stage.count("node deleted")
    await nodes_known(stage, len(stage.vendors) - 1)
    for found in await stage.pods():
        if found["spec"].get("nodeName") == NODE:
            await stage.delete(found["metadata"]["name"], gracePeriodSeconds=0)
    stage.nodes.let_go()
    await stage.register({NODE: stage.vendors[NODE]})
    stage.count("node created again")
    await stage.nodes.start()


@fault("deleted and created again, its pods kept", "the same, but its pods stay")
async def came_back(stage: Stage, random: Random) -> None:
    await stage.come(*(pod(f"tenant-{number}", NVIDIA, **on(NODE)) for number in range(3)), *burst()[::2])
    await stage.some_run(len(burst()[::2]) + 3)
    await stage.nodes.stop()
    await stage.nodes.remove(NODE)
    stage.count("node deleted")
    await nodes_known(stage, len(stage.vendors) - 1)
    await stage.come(*(pod(f"more-{number}", NVIDIA, **on(NODE)) for number in range(3)))
    await stage.register({NODE: stage.vendors[NODE]})
    stage.count("node created again")
    await stage.nodes.start()


@fault("cordoned", "while pods wait for it; uncordoned when the others run")
async def cordoned(stage: Stage, random: Random) -> None:
    await queue_up(stage)
    await stage.patch_node(NODE, spec={"unschedulable": True})
    stage.count("node cordoned")
    stage.nodes.let_go()
    await stage.some_run(PODS)
    await stage.patch_node(NODE, spec={"unschedulable": False})


@fault("drained", "cordoned, and all its pods evicted, while others wait for it")
async def drained(stage: Stage, random: Random) -> None:
    await queue_up(stage)
    await stage.patch_node(NODE, spec={"unschedulable": True})
    for found in await stage.pods():
        if found["spec"].get("nodeName") == NODE:
            await stage.evict(found["metadata"]["name"])
            stage.count("pod evicted")
    stage.nodes.let_go()
    await stage.come(*burst("again-"))
    await stage.some_run(PODS)
    await stage.patch_node(NODE, spec={"unschedulable": False})


@fault("card unhealthy", "a card that pods are about to get", "no other pod gets it")
async def unhealthy(stage: Stage, random: Random) -> None:
    used = await queue_up(stage)
    await lose(stage, [replace(card, healthy=card.uuid == used) for card in stage.cards(NODE)])
    stage.count("card unhealthy")


@fault("card gone", "a card that pods are about to get is not registered any more", "no other pod gets it")
async def card_gone(stage: Stage, random: Random) -> None:
    used = await queue_up(stage)
    await lose(stage, [card for card in stage.cards(NODE) if card.uuid == used])
    stage.count("card gone")
