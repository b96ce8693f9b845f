"""The operator killed at each of its steps and at random moments, frozen, and with a clock that jumps."""

from __future__ import annotations

import asyncio
import sys
from random import Random

from tests.faults.catalogue import Fault, Story, lister
from tests.faults.pods import NUMBERS, burst, pod
from tests.faults.stage import Cast, Stage
from tests.faults.stories_plugins import LOCKS, annotate, everywhere, stamp

from vgpu_devcluster import CAMBRICON, NVIDIA
from vgpu_scheduler.binding import HookPoint

COMMAND = (sys.executable, "-m", "tests.faults.acting")
SHORT = {"VGPU_LEASE__DURATION": "2", "VGPU_LEASE__RENEW_INTERVAL": "0.4"}
ACTING = Cast(settings=SHORT, command=COMMAND)
PAIR = Cast(2, SHORT)
PODS = sum(NUMBERS.values())
MOMENTS = 5
"""Random moments of a burst at which the operator is killed, each time that the story is played."""


def killed_at(step: HookPoint) -> Story:
    """Return the story of an operator that dies at a step of a bind."""

    async def story(stage: Stage, random: Random) -> None:
        stage.crash_file.write_text(f"{step.value} {random.randrange(PODS // 2)}")
        await stage.come()

        async def died() -> bool:
            return stage.replicas[0].deaths > 0

        await stage.until(died, f"the operator to die at {step.value}")
        stage.count("operator killed")
        await stage.come(*burst("later-")[::3])

    return story


FAULTS = [
    Fault(
        "operator",
        f"killed at step {step.value}",
        "the operator kills itself with SIGKILL",
        killed_at(step),
        cast=ACTING,
    )
    for step in HookPoint
]
fault = lister(FAULTS, "operator")


@fault(
    "killed at random moments",
    f"SIGKILL of the leader, of two replicas, at {MOMENTS} random moments of a burst",
    cast=PAIR,
)
async def killed_anywhere(stage: Stage, random: Random) -> None:
    for moment in range(MOMENTS):
        leader = await stage.leader()
        await stage.come(*burst(f"b{moment}-")[::2])
        await asyncio.sleep(random.uniform(0.0, 0.6))  # the moment is the fault
        leader.process.kill()
        stage.count("operator killed")
        await stage.until(lambda: _another_leads(stage), "another one to lead")
        await stage.delete_some(random, 5)


async def _another_leads(stage: Stage) -> bool:
    return sum([await replica.leads() for replica in stage.replicas]) == 1


@fault(
    "frozen at random moments",
    "SIGSTOP of the leader, of two replicas, 3 times in bursts, until the other one leads",
    cast=PAIR,
)
async def frozen_anywhere(stage: Stage, random: Random) -> None:
    for moment in range(3):
        leader = await stage.leader()
        await stage.come(*burst(f"b{moment}-")[::2])
        await asyncio.sleep(random.uniform(0.0, 0.4))  # the moment is the fault
        leader.process.freeze()
        stage.count("operator frozen")
        other = next(replica for replica in stage.replicas if replica is not leader)
        await stage.until(other.leads, "the other one to lead")
        leader.process.thaw()


@fault(
    "the clock jumps",
    "the time of day is an hour ahead, then an hour back, in a burst, with locks of pods that are gone",
    cast=ACTING,
)
async def clock_jumps(stage: Stage, random: Random) -> None:
    try:
        await stage.come(*burst()[::2])
        for number, ahead in enumerate((3600, -3600)):
            await stage.some_run(PODS // 3)
            stage.clock_file.write_text(str(ahead))
            stage.count("clock jumped")
            await stage.come(*burst(f"b{number}-")[::4])
        # A lock that a leader before left, of a pod that waits: it comes from the future, as this one sees it.
        await stage.come(pod("waits", nodeSelector={"nowhere": "yes"}))
        stage.waiting.add("waits")
        await stage.until(lambda: _all_but(stage, "waits", running=True), "the burst")  # needs its locks till then
        for node in ("gpu-0", "gpu-1", "mixed"):
            await annotate(stage, node, LOCKS[NVIDIA], f"{stamp(5)},default,waits")
        await annotate(stage, "mlu", LOCKS[CAMBRICON], stamp(600))
        await stage.come(*everywhere())
        await stage.until(lambda: _all_but(stage, "waits"), "pods to be bound in spite of the locks", within=30)
        await annotate(stage, "mlu", LOCKS[CAMBRICON], None)
    finally:
        stage.clock_file.unlink(missing_ok=True)


async def _all_but(stage: Stage, name: str, *, running: bool = False) -> bool:
    """Tell whether all pods but one are bound, or run."""
    pods = [pod for pod in await stage.pods() if pod["metadata"]["name"] != name]
    if running:
        return all(pod["status"].get("phase") == "Running" for pod in pods)
    return all(pod["spec"].get("nodeName") for pod in pods)
