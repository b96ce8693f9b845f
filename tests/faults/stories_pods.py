"""Pods that are deleted, evicted, deleted by force, and created again by the same name, in every phase."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.faults.catalogue import Fault, Story
from tests.faults.pods import away_from, burst, on, pod
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Stage

from vgpu_devcluster import BEHAVIOUR, CAMBRICON, ENFLAME_DRS, MTHREADS, NVIDIA

Object = dict[str, Any]
Hit = Callable[[Stage, Object], Awaitable[None]]

HELD = {
    "locked": (NVIDIA, "gpu-1", Do.HOLD),
    "sent": (NVIDIA, "mixed", Do.HOLD_ANSWER),
    "locked-mlu": (CAMBRICON, "mlu", Do.HOLD),
    "token-gcu": (ENFLAME_DRS, "gcu", Do.HOLD),
    "plain": (None, "gcu", Do.HOLD),
    "plain-sent": (None, "mlu", Do.HOLD_ANSWER),
}
"""Pods whose Binding is kept back, or the answer to it."""


async def every_phase(stage: Stage) -> list[Object]:
    """Bring a pod into each phase, and return them."""
    running = pod("running", MTHREADS, **on("mixed"))
    allocating = pod("allocating", NVIDIA, **on("gpu-0"))
    allocating["metadata"]["annotations"][BEHAVIOUR] = "held"
    await stage.come(running, allocating)
    await stage.some_run(1)
    await stage.one_is_allocating()
    rules = [stage.proxy.add(Rule(What.BINDING, do, name=f"/pods/{name}/binding")) for name, (_, _, do) in HELD.items()]
    held = [pod(name, vendor, **on(node)) for name, (vendor, node, _) in HELD.items()]
    queued = [pod(f"queued-{number}", NVIDIA, **on("gpu-0")) for number in range(2)]
    waiting = pod("waiting", NVIDIA, nodeSelector={"nowhere": "yes"})
    await stage.come(*held, *queued, waiting)
    await asyncio.wait_for(asyncio.gather(*(rule.held.wait() for rule in rules)), 30)
    await stage.until(lambda: stage.message("waiting"), "a reason")
    return [running, allocating, *held, *queued, waiting]


async def delete(stage: Stage, found: Object) -> None:
    await stage.delete(found["metadata"]["name"])


async def force(stage: Stage, found: Object) -> None:
    await stage.delete(found["metadata"]["name"], gracePeriodSeconds=0)


async def evict(stage: Stage, found: Object) -> None:
    await stage.evict(found["metadata"]["name"])


async def recreate(stage: Stage, found: Object) -> None:
    await force(stage, found)
    await stage.come(found)
    stage.waiting |= {"waiting"}


def story_of(hit: Hit) -> Story:
    """Return the story of pods to which something is done in each phase."""

    async def story(stage: Stage, random: Random) -> None:
        pods = await every_phase(stage)
        random.shuffle(pods)
        for found in pods:
            await hit(stage, found)
            stage.count(f"pod {hit.__name__.replace('_', ' ')}")
        stage.nodes.let_go()
        stage.proxy.heal()
        await stage.come(*burst("next-", **away_from("gpu-0")))  # there may be room for those who wait for it only

    return story


_PHASES = (
    "unschedulable, waiting for its node's lock, holding it, Binding sent (cards of 4 vendors, and no cards), bound and"
    " not observed yet, allocating, running"
)
FAULTS = [
    Fault("pods", name, f"pods in each phase: {_PHASES}", story_of(hit))
    for name, hit in (
        ("deleted", delete),
        ("evicted", evict),
        ("deleted by force", force),
        ("deleted and created again with the same name", recreate),
    )
]
