"""Nodes that are broken: an administrator who does what is said about one sees the pod placed there."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running
from tests.whatif.test_whatif_remedies_dialects import cluster

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, explain_pod, make_dialect, remedies

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOCK = "hami.io/mutex.lock"
ADMINISTRATORS = {RemedyType.REPAIR_NODE, RemedyType.WAIT, RemedyType.UNCORDON_NODE, RemedyType.UNCORDON_CARD}
TAINTS = ("not-ready", "unreachable", "disk-pressure")
BROKEN = ("malformed", "foreign", "unnamed", "serving", "silent", "gone", "sick", "state", "cordoned")


def world_of(objects: list[Object]) -> tuple[World, Pod]:
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(objects)
    made.review_locks(NOW)
    (asked,) = [each for each in made.pending.values() if each.name == "asked"]
    return made, asked


def locked(made: Object, owner: str, seconds: int) -> None:
    taken = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made["metadata"]["annotations"][LOCK] = f"{taken},default,{owner}" if owner else taken


def broken(rng: np.random.Generator, how: str, name: str) -> list[Object]:
    """Return a node with room that takes no pod, and the pods that are why."""
    made, more = node(name, cards=int(rng.integers(1, 4))), list[Object]()
    young, old = int(rng.integers(1, 50)), int(rng.integers(70, 5000))
    match how:
        case "malformed":
            made["metadata"]["annotations"][LOCK] = str(rng.choice(["nonsense", "2026-01-01,default", "x,y,z"]))
        case "foreign":
            more = [pod(f"holder-{name}", {GPU: 1}, schedulerName="hami-scheduler")]
            locked(made, f"holder-{name}", young)
        case "unnamed":
            locked(made, "", young)
        case "serving":
            more = [running(f"holder-{name}", name, f"GPU-{name}-0", 1000, schedulerName="hami-scheduler")]
            locked(made, f"holder-{name}", young)
        case "silent":
            scheduler = str(rng.choice(["hami-scheduler", "vgpu-scheduler"]))
            more = [running(f"holder-{name}", name, f"GPU-{name}-0", 1000, schedulerName=scheduler)]
            locked(made, f"holder-{name}", old)
        case "gone":
            for field in ("capacity", "allocatable"):
                made["status"][field] = {**made["status"][field], GPU: "0"}
        case "sick":
            annotations = made["metadata"]["annotations"]
            annotations["hami.io/node-nvidia-register"] = annotations["hami.io/node-nvidia-register"].replace(
                "true", "false"
            )
        case "state":
            key = f"node.kubernetes.io/{rng.choice(TAINTS)}"
            made["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
        case "cordoned":
            made["spec"]["unschedulable"] = True
    return [made, *more]


def done(objects: list[Object], remedy: Remedy) -> tuple[World, Pod]:
    """Return the cluster made anew as it is once somebody has done what is said."""
    changed = {each["metadata"]["name"]: each for each in remedy.objects}
    return world_of([changed.get(each["metadata"]["name"], each) for each in deepcopy(objects)])


@pytest.mark.parametrize("seed", range(120))
def test_what_is_said_about_a_broken_node_opens_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = {f"n{number}": BROKEN[(seed + number * int(rng.integers(1, 9))) % 9] for number in range(1 + seed % 3)}
    objects = [obj for name, how in chosen.items() for obj in broken(rng, how, name)]
    objects.append(pod("asked", {GPU: 1, MEMORY: int(rng.integers(1000, 15000))}))
    made, asked = world_of(objects)
    assert not ask(made, asked).node
    before = {name: made.engine.closed_nodes.closures(name) for name in chosen}
    found = [remedy for remedy in remedies(made, asked) if remedy.type in ADMINISTRATORS]
    assert {remedy.node for remedy in found} == set(chosen), chosen
    assert {name: made.engine.closed_nodes.closures(name) for name in chosen} == before
    assert not ask(made, asked).node
    for remedy in found:
        again, waiting = done(objects, remedy)
        assert ask(again, waiting).node == remedy.node, remedy.text
        if f"{LOCK}-" in remedy.text:
            assert chosen[remedy.node] == "malformed", "nobody may be in the way of a pod that is being served"


def test_all_kinds_of_broken_nodes_are_tried() -> None:
    tried = Counter(BROKEN[seed % 9] for seed in range(120))
    assert min(tried.values()) > 10


def said(how: str, *more: Object) -> list[str]:
    made, asked = world_of([*broken(np.random.default_rng(0), how, "a"), *more, pod("asked", {GPU: 1, MEMORY: 1000})])
    return [each.text for each in remedies(made, asked) if each.type in {RemedyType.REPAIR_NODE, RemedyType.WAIT}]


def test_the_command_that_removes_a_lock_is_printed() -> None:
    (text,) = said("malformed")
    assert text.endswith(f"kubectl annotate node a {LOCK}-")


def test_the_pod_of_the_plugin_is_named() -> None:
    plugin = pod("hami-device-plugin-x", {}, nodeName="a")
    plugin["metadata"] |= {
        "namespace": "kube-system",
        "ownerReferences": [{"kind": "DaemonSet", "name": "hami-device-plugin", "uid": "d", "controller": True}],
    }
    for how, why in (("gone", "its kubelet offers no nvidia.com/gpu"), ("silent", "it has not answered pod default/")):
        (text,) = said(how, plugin)
        restart = "restart the device plugin on node a (kubectl delete pod -n kube-system hami-device-plugin-x)"
        assert text.startswith(f"have an administrator of the nodes {restart}: "), text
        assert why in text


@pytest.mark.parametrize("count", [1, 2])
def test_pods_that_block_the_turn_of_others_are_deleted(count: int) -> None:
    made, number = World(EngineOptions([make_dialect("volcano")])), "volcano.sh/vgpu-number"
    made.add(cluster("volcano", [[]]))
    said = {"volcano.sh/vgpu-node": "n0", "volcano.sh/vgpu-time": "5", "volcano.sh/devices-to-allocate": "GPU-0,N,1,0:"}
    for index in range(count):
        left = pod(f"left-{index}", {number: 1}, nodeName="n0", metadata={"annotations": said})
        made.add([{**left, "status": {"phase": "Failed"}}])
    made.add([pod("asked", {number: 1})])
    (asked,) = made.pending.values()
    (found,) = [remedy for remedy in remedies(made, asked) if remedy.type is RemedyType.END_PODS]
    names = "pod default/left-0, which has" if count == 1 else "pods default/left-0, default/left-1, which have"
    assert found.text == f"delete {names} not taken the devices that the plugin of node n0 keeps"
    assert found.node == "n0"
    assert not ask(made, asked).node


def test_a_pod_that_blocks_a_turn_and_has_the_room_is_deleted() -> None:
    made, number = World(EngineOptions([make_dialect("volcano")])), "volcano.sh/vgpu-number"
    (listed,) = cluster("volcano", [[(16384, 100)]])[:1]
    has = "n0-0,NVIDIA,16384,100:"
    said = {
        "volcano.sh/vgpu-node": "n0",
        "volcano.sh/vgpu-time": "5",
        "volcano.sh/vgpu-ids-new": has,
        "volcano.sh/devices-to-allocate": has,
    }
    holder = pod("holder", {"volcano.sh/vgpu-memory": 16384}, nodeName="n0", metadata={"annotations": said})
    made.add(
        [
            listed,
            {**holder, "status": {"phase": "Running", "containerStatuses": [{"name": "main"}]}},
            pod("asked", {number: 1}),
        ]
    )
    (asked,) = made.pending.values()
    told = {remedy.text: remedy.node for remedy in remedies(made, asked)}
    assert told["delete pod default/holder, which has not taken the devices that the plugin of node n0 keeps"] == "n0"
    assert not ask(made, asked).node


@pytest.mark.parametrize(
    ("dialect", "wrong", "text"),
    [
        ("volcano", "x", "restart the device plugin on node n0: the cards that the node lists cannot be read ("),
        ("koordinator", {"devices": "x"}, "restart the device plugin on node n0: the cards that the node lists cannot"),
        (
            "koordinator",
            {"devices": [{"type": "npu"}]},
            "change how the cards of node n0 are registered, which are not",
        ),
    ],
)
def test_lists_that_cannot_be_read_are_told_in_every_dialect(dialect: str, wrong: Any, text: str) -> None:
    objects = cluster(dialect, [[]])
    for each in objects:
        if each["kind"] == "Device":
            each["spec"] = wrong
        elif dialect == "volcano":
            each["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = wrong
    made = World(EngineOptions([make_dialect(dialect)]))
    name = "volcano.sh/vgpu-number" if dialect == "volcano" else "koordinator.sh/gpu"
    made.add([*objects, pod("asked", {name: 1 if dialect == "volcano" else 100})])
    (asked,) = made.pending.values()
    assert text in explain_pod(made, asked).text()
