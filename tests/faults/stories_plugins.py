"""Device plugins that never answer, fail, die and come back with fewer cards; locks that nobody will release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.faults.catalogue import Fault, lister
from tests.faults.pods import NUMBERS, burst, on, pod
from tests.faults.stage import Cast, Stage

from vgpu_devcluster import BEHAVIOUR, CAMBRICON, NVIDIA, Vendor

PODS = sum(NUMBERS.values())

FAULTS: list[Fault] = []
fault = lister(FAULTS, "plugins")
LOCKS = {NVIDIA: "hami.io/mutex.lock", CAMBRICON: "cambricon.com/dsmlu.lock"}
IMPATIENT = Cast(settings={"VGPU_BIND__NODE_SIDE_TIMEOUT": "2", "VGPU_BIND__REJECTED_NODE_WAIT": "1"})


def stamp(seconds_ago: float) -> str:
    return f"{datetime.now(UTC) - timedelta(seconds=seconds_ago):%Y-%m-%dT%H:%M:%SZ}"


async def annotate(stage: Stage, node: str, key: str, value: str | None) -> None:
    await stage.patch_node(node, metadata={"annotations": {key: value}})
    stage.count("lock left" if value else "lock removed")


def everywhere() -> list[dict[str, Any]]:
    """Return a pod for each node that needs NVIDIA's lock: only who needs it takes it away."""
    return [pod(f"on-{node}", NVIDIA, **on(node)) for node in ("gpu-0", "gpu-1", "mixed")]


@fault("lock left by a pod that is gone", "written on three nodes before a burst")
async def lock_of_the_dead(stage: Stage, random: Random) -> None:
    for node in ("gpu-0", "gpu-1", "mixed"):
        await annotate(stage, node, LOCKS[NVIDIA], f"{stamp(3)},default,gone")
    await stage.come(*burst(), *everywhere())


@fault("lock left that names no pod", "Cambricon's, some minutes old, before a burst")
async def lock_of_nobody(stage: Stage, random: Random) -> None:
    await annotate(stage, "mlu", LOCKS[CAMBRICON], stamp(600))
    await stage.come()


@fault("lock left by a pod that still waits", "a pod of this scheduler that fits nowhere; on three nodes")
async def lock_of_a_waiting_pod(stage: Stage, random: Random) -> None:
    await stage.come(pod("waits", nodeSelector={"nowhere": "yes"}))
    stage.waiting.add("waits")
    for node in ("gpu-0", "gpu-1", "mixed"):
        await annotate(stage, node, LOCKS[NVIDIA], f"{stamp(5)},default,waits")
    await stage.come(*burst(), *everywhere())


def behaving(name: str, vendor: Vendor, how: str, node: str) -> dict[str, Any]:
    """Return a pod to which its plugin does something."""
    made = pod(name, vendor, **on(node))
    made["metadata"]["annotations"] = {BEHAVIOUR: how}
    return made


@fault(
    "never answers",
    "for a pod on node gpu-0 and one with a Cambricon card, until they are deleted",
    checked="the other pods with NVIDIA cards run meanwhile",
    cast=IMPATIENT,
)
async def never_answers(stage: Stage, random: Random) -> None:
    await stage.come(behaving("mute-0", NVIDIA, "never", "gpu-0"), behaving("mute-1", CAMBRICON, "never", "mlu"))
    await stage.nodes.until(lambda: stage.nodes.counts["unanswered"] == 2)
    stage.count("Allocate without an answer", 2)
    await stage.come()
    await stage.some_run(PODS - NUMBERS[CAMBRICON])
    for name in ("mute-0", "mute-1"):
        await stage.delete(name, gracePeriodSeconds=0)
    # Whoever needs a lock next finds that nobody has a use for it.
    await stage.come(pod("next-0", NVIDIA, **on("gpu-0")))
    if LOCKS[CAMBRICON] in (await stage.node("mlu"))["metadata"]["annotations"]:
        await annotate(stage, "mlu", LOCKS[CAMBRICON], None)  # it names nobody: for 5 minutes it may be anybody's


@fault("answers failed", "for five pods of a burst", checked="these pods have failed", cast=IMPATIENT)
async def fails(stage: Stage, random: Random) -> None:
    bad = [behaving(f"bad-{n}", NVIDIA, "fail", node) for n, node in enumerate(("gpu-0", "gpu-1", "mixed"))]
    bad += [behaving("bad-mlu", CAMBRICON, "fail", "mlu"), behaving("bad-late", NVIDIA, "fail", "gpu-0")]
    pods = [*bad, *burst()]
    random.shuffle(pods)
    await stage.come(*pods)
    await stage.nodes.until(lambda: stage.nodes.counts["failed"] == len(bad), within=60)
    stage.count("Allocate failed", len(bad))


@fault("dies and comes back", "the plugins of all nodes with cards die in a burst, one after the other")
async def dies(stage: Stage, random: Random) -> None:
    await stage.come()
    for node, forgotten in (("gpu-0", False), ("mixed", True), ("mlu", True), ("gcu", False)):
        await stage.nodes.kill_plugin(node, forgotten=forgotten)
        stage.count("plugin died")
    await stage.come(*burst("late-"))
    await stage.until(lambda: _mostly_bound(stage), "pods to be bound where plugins live")
    for node in ("gpu-0", "mixed", "mlu", "gcu"):
        await stage.nodes.revive_plugin(node)


async def _mostly_bound(stage: Stage) -> bool:
    plain = [pod for pod in await stage.pods() if "plain" in pod["metadata"]["name"]]
    return len(plain) == 2 * NUMBERS[None] and all(pod["spec"].get("nodeName") for pod in plain)


@fault("comes back with fewer cards", "one card of each NVIDIA node is not registered any more, or is unhealthy")
async def fewer_cards(stage: Stage, random: Random) -> None:
    await stage.come(*burst()[::2])
    await stage.some_run(len(burst()[::2]))  # who is allocating may be on a card that is about to be lost
    for node in ("gpu-0", "gpu-1"):
        cards = stage.cards(node)
        if random.random() < 0.5:
            await stage.nodes.set_cards(node, cards[:1])
        else:
            await stage.nodes.set_health(node, cards[1].uuid, healthy=False)
        stage.count("card lost")
    await stage.come(*burst("late-")[::2])
