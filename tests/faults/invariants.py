"""What must hold after every story, whatever was done to the operator: one check."""

from __future__ import annotations

from typing import Any

from tests.e2e.conftest import dump
from tests.faults.pods import on, pod
from tests.faults.stage import Replica, Stage

from vgpu_devcluster import CAMBRICON, NVIDIA, Vendor
from vgpu_devcluster.allocation import NODE, Amount, usage

Object = dict[str, Any]
Books = dict[str, dict[str, list[int]]]

_ENDED = frozenset(("Succeeded", "Failed"))
_LOCKS = {"hami.io/mutex.lock": NVIDIA, "cambricon.com/dsmlu.lock": CAMBRICON}


async def check(stage: Stage, within: float = 60.0) -> None:
    """Wait until everything has come to rest, and check all of it.

    Every pod for which there is a place is bound and runs. The operator's ledger equals its rebuild, and what the
    annotations of bound pods say. No card has more in use than it has. What is written on a pod names its own node and
    cards of that node; on a pod that is not bound nothing is written. No node is closed, and no lock is left: that of a
    pod that is gone may be, until another pod needs it, so one comes there. The node side saw nothing that a scheduler
    must not do.
    """
    try:
        await stage.until(lambda: _all_run(stage), "every pod to run", within)
        await stage.create(*[pod(f"after-{node}", vendor, **on(node)) for node, vendor in await _locked(stage)])
        await stage.until(lambda: _all_run(stage), "every pod to run where locks were left", within)
        pods = await stage.pods()
        _check_pods(stage, pods)
        leader = await stage.leader()
        booked = listed(stage, annotated(stage, pods))

        async def settled() -> bool:
            page = await leader.process.ledger()
            return not page["drift"] and amounts(page["ledger"]) == booked

        await stage.until(settled, "the ledger to equal its rebuild, and what is written on the pods", 15.0)
        assert await leader.process.metric("vgpu_scheduler_over_capacity_nodes") == 0
        await stage.until(lambda: _no_lock(stage), "all locks to be released", 15.0)
        await stage.until(lambda: _all_open(leader), "all nodes to be open", 15.0)
        assert not stage.nodes.violations, stage.nodes.violations
    except (AssertionError, TimeoutError) as error:
        raise AssertionError(f"{error}\n{await explain(stage)}") from error


async def explain(stage: Stage) -> str:
    """Return what helps to understand why a check failed."""
    stuck = [
        (one["metadata"]["name"], one["spec"].get("nodeName"), one["metadata"].get("annotations"), one["status"])
        for one in await stage.pods()
        if one["status"].get("phase") != "Running"
    ]
    nodes = {}
    for name in stage.vendors:
        metadata = (await stage.node(name)).get("metadata", {})
        nodes[name] = {key: text for key, text in metadata.get("annotations", {}).items() if len(text) < 200}
    return f"{dump([stuck, nodes, stage.nodes.violations, stage.injected])}\n{stage.log()}"


async def _all_run(stage: Stage) -> bool:
    pods = await stage.pods()
    waiting = {one["metadata"]["name"] for one in pods if not one["spec"].get("nodeName")}
    phases = {one["status"].get("phase") for one in pods if one["metadata"]["name"] not in waiting}
    going = any("deletionTimestamp" in one["metadata"] for one in pods)
    return waiting == stage.waiting and phases <= {"Running", *_ENDED} and not going and not stage.nodes.busy


def _check_pods(stage: Stage, pods: list[Object]) -> None:
    for found in pods:
        name, node = found["metadata"]["name"], found["spec"].get("nodeName")
        notes = found["metadata"].get("annotations") or {}
        written = {key for key in notes if "devices-allocated" in key or key in {NODE, "vgpu-scheduler.io/decision"}}
        if not node:
            assert not written, f"{name} is not bound and has {written}"
        else:
            assert notes.get(NODE, node) == node, f"{name} on {node} has {notes[NODE]}"
    used = annotated(stage, pods)
    for node, cards in used.items():
        known = stage.fitted[node]
        for uuid, (slots, memory, cores) in cards.items():
            assert uuid in known, f"{uuid} is no card of {node}"
            card = known[uuid]
            assert slots <= card.count, (node, uuid, slots)
            assert memory <= card.memory, (node, uuid, memory)
            assert cores <= card.cores, (node, uuid, cores)


def annotated(stage: Stage, pods: list[Object]) -> Books:
    """Return what the annotations of bound pods say: node to card to slots, MiB, compute."""
    found: dict[str, dict[str, Amount]] = {}
    for one in pods:
        node = one["spec"].get("nodeName")
        if not node or one["status"].get("phase") in _ENDED:
            continue
        for vendor in stage.vendors[node]:
            for card, amount in usage(one, vendor).items():
                booked = found.setdefault(node, {})
                booked[card] = booked.get(card, Amount()) + amount
    return {
        node: {card: [used.slots, used.memory, used.cores] for card, used in cards.items()}
        for node, cards in found.items()
    }


def listed(stage: Stage, booked: Books) -> Books:
    """Return what is used of cards that their nodes register now: nobody counts the others."""
    found = {
        node: {card.uuid: cards[card.uuid] for card in stage.cards(node) if card.uuid in cards}
        for node, cards in booked.items()
    }
    return {node: cards for node, cards in found.items() if cards}


def amounts(ledger: Object) -> Books:
    """Return slots, MiB and compute of a ledger, without what is not in use."""
    found = {
        node: {card: list(used[:3]) for card, used in cards.items() if any(used[:3])} for node, cards in ledger.items()
    }
    return {node: cards for node, cards in found.items() if cards}


async def _locked(stage: Stage) -> list[tuple[str, Vendor]]:
    """Return the nodes with locks, and whose they are."""
    async with stage.http.get("/api/v1/nodes") as answer:
        nodes = (await answer.json())["items"]
    return [
        (node["metadata"]["name"], vendor)
        for node in nodes
        for lock, vendor in _LOCKS.items()
        if lock in (node["metadata"].get("annotations") or {})
    ]


async def _no_lock(stage: Stage) -> bool:
    return not await _locked(stage)


async def _all_open(leader: Replica) -> bool:
    return await leader.process.metric("vgpu_scheduler_closed_nodes") == 0
