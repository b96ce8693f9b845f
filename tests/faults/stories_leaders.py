"""Two leaders that both believe in themselves: one is frozen with a write on its way, which comes very late."""

from __future__ import annotations

import asyncio
from random import Random

from tests.faults.catalogue import Fault, lister
from tests.faults.invariants import check
from tests.faults.pods import Object, on, pod
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Replica, Stage
from tests.faults.stories_operator import PAIR

from vgpu_devcluster import CAMBRICON, ENFLAME_DRS, MTHREADS, NVIDIA

WHOLE = {
    "gpu-0": (NVIDIA, {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "15000"}),
    "mixed": (MTHREADS, {"mthreads.com/vgpu": "2"}),
    "mlu": (CAMBRICON, {"cambricon.com/vmlu": "2"}),
    "gcu": (ENFLAME_DRS, {"enflame.com/drs-gcu": "6"}),
}
"""Nodes of each kind of lock, and of which a pod wants so much that there is no room for two."""
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

FAULTS: list[Fault] = []
fault = lister(FAULTS, "two leaders")


def wants_all(name: str, node: str, **spec: object) -> Object:
    """Return a pod that leaves no room for another one like it."""
    vendor, limits = WHOLE[node]
    made = pod(f"{name}-{node}", vendor, limits=limits, **on(node), **spec)
    if vendor is ENFLAME_DRS:  # a container gets slices of one card
        containers = made["spec"]["containers"]
        containers.append({**containers[0], "name": "second"})
    return made


async def frozen(stage: Stage, what: What) -> tuple[Replica, list[Rule]]:
    """Freeze the leader with a write of each kind of lock on its way; return it when the other one leads."""
    body = {"metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"}
    async with stage.http.post(CLASSES, json=body) as answer:
        assert answer.status in {201, 409}
    leader = await stage.leader()
    where = [f"/nodes/{node}" if what is What.NODE else f"-{node}/binding" for node in WHOLE]
    rules = [leader.proxy.add(Rule(what, Do.HOLD, name=name)) for name in where]
    rules.append(leader.proxy.add(Rule(What.BINDING, Do.HOLD, name="/victim/binding")))
    await stage.come(*(wants_all("victim", node) for node in WHOLE), pod("victim", None))
    await asyncio.wait_for(asyncio.gather(*(rule.held.wait() for rule in rules)), 30)
    leader.process.freeze()
    stage.count("leader frozen")
    # Where a lock names nobody, only the pod itself knows it for its own: a rival that goes first waits for it.
    ranks = {node: {} if node == "mlu" else {"priorityClassName": "urgent"} for node in WHOLE}
    await stage.come(*(wants_all("rival", node, **ranks[node]) for node in WHOLE))
    other = next(replica for replica in stage.replicas if replica is not leader)
    await stage.until(other.leads, "the other one to lead")
    return leader, rules


async def one_of_each_runs(stage: Stage) -> bool:
    """Tell whether of each two that want the same one runs."""
    bound = {pod["metadata"]["name"] for pod in await stage.pods() if pod["spec"].get("nodeName")}
    stage.waiting = {f"{name}-{node}" for node in WHOLE for name in ("victim", "rival")} - bound
    return all(f"victim-{node}" in bound or f"rival-{node}" in bound for node in WHOLE)


async def late(stage: Stage, leader: Replica, rules: list[Rule]) -> None:
    """Let the writes go on, then the leader; check; then make room for those that wait."""
    await stage.until(lambda: one_of_each_runs(stage), "one of each to be bound")
    for rule in rules:
        rule.go_on.set()
    await stage.until(lambda: _over(leader), "the late writes to be answered")
    await one_of_each_runs(stage)
    await check(stage)
    leader.process.thaw()
    await stage.until(lambda: _ended(leader), "the former leader to end")
    await check(stage)
    waiting, stage.waiting = stage.waiting, set()
    for node in WHOLE:
        names = {f"victim-{node}", f"rival-{node}"} - waiting
        for name in names:
            await stage.delete(name, gracePeriodSeconds=0)


async def _over(leader: Replica) -> bool:
    return leader.proxy.under_way == 0


async def _ended(leader: Replica) -> bool:
    return leader.deaths > 0


@fault(
    "frozen before it takes the lock",
    "the old leader's node patches arrive when the other replica leads: 4 kinds of locks",
    cast=PAIR,
)
async def before_the_lock(stage: Stage, random: Random) -> None:
    await late(stage, *await frozen(stage, What.NODE))


@fault(
    "frozen before it sends the Binding",
    "the old leader's Bindings arrive when the other replica leads: 4 kinds of locks, and none",
    cast=PAIR,
)
async def before_the_binding(stage: Stage, random: Random) -> None:
    await late(stage, *await frozen(stage, What.BINDING))


@fault("a write of the Lease arrives late", "a renewal arrives when the other replica leads", cast=PAIR)
async def lease_late(stage: Stage, random: Random) -> None:
    leader = await stage.leader()
    rule = leader.proxy.add(Rule(What.LEASE, Do.HOLD))
    await asyncio.wait_for(rule.held.wait(), 10)
    leader.process.freeze()
    await stage.come()
    other = next(replica for replica in stage.replicas if replica is not leader)
    await stage.until(other.leads, "the other one to lead")
    rule.go_on.set()
    leader.process.thaw()
    await stage.until(lambda: _ended(leader), "the former leader to end")
