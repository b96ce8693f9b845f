"""The pods that come to a new node by themselves: it has no room that they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, kinds, node, pod, running, world_of

from vgpu_scheduler.whatif import RemedyType, World, ask, copy_of, remedies

Object = dict[str, Any]

_OWNERS = ("DaemonSet", "DaemonSet", "Node", "ReplicaSet")
CARD = "GPU-a-0"


def owned(written: Object, kind: str, name: str) -> Object:
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return {**written, "metadata": {**written["metadata"], "ownerReferences": [owner]}}


def on_node(name: str, what: str, much: int) -> Object:
    """Return a pod on node a that takes much of cpu, memory, a card or a port of it."""
    if what == "card":
        return running(name, "a", CARD, 16384 if much else 16000)
    amounts = {"cpu": {"cpu": f"{much}"}, "memory": {"memory": f"{much * 4}Gi"}}.get(what, {})
    made = pod(name, amounts, nodeName="a")
    made["spec"]["containers"][0]["resources"]["requests"] = amounts
    if what == "port":
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 8080}]
    return made


def asking(what: str, much: int) -> Object:
    """Return a pod that does not fit beside the one that takes much."""
    amounts: Object = {"cpu": {"cpu": f"{9 - much}"}, "memory": {"memory": f"{36 - much * 4}Gi"}}.get(what, {})
    made = pod("asked", {GPU: 1, MEMORY: 1000, **amounts})
    if what == "port":
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 8080}]
    return made


@pytest.mark.parametrize("what", ["cpu", "memory", "card", "port", "pods"])
@pytest.mark.parametrize("seed", range(12))
def test_a_new_node_is_advised_only_where_the_pods_that_come_to_it_leave_room(what: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    much, owner = int(rng.integers(2, 8)), _OWNERS[seed % len(_OWNERS)]
    there, comes = node("a", cards=1), owner != "ReplicaSet"
    if what == "pods":
        there["status"]["allocatable"] = {**there["status"]["allocatable"], "pods": "1"}
    made, waiting = world_of(there, owned(on_node("there", what, much), owner, "x"), asking(what, much))
    assert not ask(made, waiting).node
    assert (RemedyType.ADD_NODE in kinds(remedies(made, waiting))) is not comes
    assert set(made.nodes) == {"a"}
    assert [each.key for each in made.bound.values()] == ["default/there"]


@pytest.mark.parametrize("seed", range(50))
def test_a_new_node_has_one_pod_of_each_that_is_bound_to_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 6))
    objects, expected = [node("a", cards=number)], set[str]()
    for each in range(number):
        owner = str(rng.choice(_OWNERS))
        written = running(f"p{each}", "a", f"GPU-a-{each}", 1000)
        goes = owner == "DaemonSet" and rng.random() < 0.4
        objects.append(owned(written, owner, f"set{each}"))
        if goes:  # of a DaemonSet whose pod goes another is there already
            gone = owned(running(f"q{each}", "a", f"GPU-a-{each}", 1000), owner, f"set{each}")
            gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            objects.append(gone)
        if owner != "ReplicaSet":
            expected.add(f"default/p{each}-b")
    world, _ = world_of(*objects, pod("asked", {GPU: 1}))
    _added(world, "b")
    come = [each for each in world.bound.values() if each.node_name == "b"]
    assert {each.key for each in come} == expected
    held = {uuid for each in come for use in world.engine.dialects.uses(each).values() for uuid in use.charges}
    assert held == {f"GPU-a-{key.removeprefix('default/p').removesuffix('-b')}-b" for key in expected}
    assert not world.problems


def _added(world: World, name: str) -> None:
    world.add(copy_of(world, "a", name))
