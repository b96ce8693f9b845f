"""A new node like another one: what is wrong with that one is not wrong with it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.dialects import vendors as cards_of_vendors
from tests.whatif.test_whatif_remedies import GPU, MEMORY, kinds, node, pod, running, world_of

from vgpu_scheduler.dialects.hami.vendors import vendors
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Device
from vgpu_scheduler.whatif import InvalidObjectsError, RemedyType, World, ask, copy_of, make_dialect, remedies
from vgpu_scheduler.whatif.objects.cards import WRITERS, Card

Object = dict[str, Any]

LOCKS = ("nonsense", "2026-01-01T00:00:00Z,default,holder", "2026-01-01T00:00:00Z")


def of_makers(rng: np.random.Generator) -> list[Object]:
    """Return a node with cards of several vendors, registered in either format, of which some are not healthy."""
    known = vendors()
    chosen = [known[int(n)] for n in rng.choice(len(known), size=3, replace=False)]
    written = cards_of_vendors.node("n", chosen, rng)
    notes = written["metadata"]["annotations"]
    for name, text in notes.items():
        if not text.startswith("["):
            continue
        cards = json.loads(text)
        ill = [card for card in cards if rng.random() < 0.5]
        for card in ill:
            key = "healthy" if "healthy" in card else "health"
            del card[key]
            if rng.random() < 0.5:
                card[key.capitalize()] = False
        if "id" in cards[0] and "migProfiles" not in cards[0] and rng.random() < 0.3:
            notes[name] = "".join(
                f"{c['id']},{c['count']},{c['devmem']},{c['devcore']},{c['type']},{c.get('numa', 0)},{c not in ill},"
                f"{c.get('index', 0)},{c.get('mode', '')}:"
                for c in cards
            )
        else:
            notes[name] = json.dumps(cards)
    written["status"]["allocatable"] = {
        key: "0" if rng.random() < 0.3 else value for key, value in written["status"]["capacity"].items()
    }
    return [{"kind": "Node", **written}]


def of_cards(dialect: str, rng: np.random.Generator) -> list[Object]:
    """Return a node with cards in a dialect, of which some are not healthy."""
    listed = [
        Card(f"n-{i}", i, "NVIDIA-A100", 16384, 10, 100, 0, "hami-core", healthy=bool(rng.random() < 0.5))
        for i in range(int(rng.integers(1, 5)))
    ]
    made = WRITERS[dialect].register("n", listed)
    capacity = {"cpu": "64", "memory": "64Gi", "pods": "110", **made.allocatable}
    gone = rng.random() < 0.3
    allocatable = {key: "0" if gone and "/" in key else value for key, value in capacity.items()}
    metadata = {"name": "n", "annotations": dict(made.annotations)}
    written = {"kind": "Node", "metadata": metadata, "status": {"capacity": capacity, "allocatable": allocatable}}
    return [*made.objects, written]


def unwell(objects: list[Object], world: World, rng: np.random.Generator) -> None:
    """Have a lock close a node, and some of its cards be cordoned."""
    notes = objects[-1]["metadata"]["annotations"]
    for lock in world.engine.dialects.node_side.locks:
        if rng.random() < 0.7:
            notes[lock.annotation] = str(rng.choice(LOCKS))
    for dialect in world.engine.dialects:
        notes |= dict.fromkeys(dialect.inventory.cordons.values(), "n-0,n-NVIDIA-1")
    notes["vgpu-scheduler.io/last-allocated"] = "forged"


def hardware(card: Device) -> tuple[object, ...]:
    return card.vendor, card.type, card.total, card.mode, card.index, card.pieces


@pytest.mark.parametrize("dialect", ["vendors", "hami", "volcano", "koordinator"])
@pytest.mark.parametrize("seed", range(25))
def test_a_new_node_has_the_cards_of_the_other_one_in_service(dialect: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World(EngineOptions([make_dialect("hami" if dialect == "vendors" else dialect)]))
    objects = of_makers(rng) if dialect == "vendors" else of_cards(dialect, rng)
    unwell(objects, world, rng)
    world.add(objects)
    whole = World(EngineOptions([make_dialect("hami" if dialect == "vendors" else dialect)]))
    offered = {"capacity": (capacity := objects[-1]["status"]["capacity"]), "allocatable": capacity}
    whole.add([*objects[:-1], {**objects[-1], "status": offered}])
    made = copy_of(world, "n", "n-2")
    world.add(made)
    cards = world.devices("n-2")
    assert sorted(map(hardware, cards)) == sorted(map(hardware, whole.devices("n")))
    assert all(card.healthy and not card.cordoned for card in cards)
    assert not {card.uuid for card in cards} & {card.uuid for card in whole.devices("n")}
    notes = made[-1]["metadata"]["annotations"]
    assert not notes.keys() & {lock.annotation for lock in world.engine.dialects.node_side.locks}
    assert "vgpu-scheduler.io/last-allocated" not in notes


@pytest.mark.parametrize("seed", range(60))
def test_a_new_node_helps_whatever_is_wrong_with_all_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = []
    for number in range(int(rng.integers(1, 4))):
        made = node(f"n{number}", cards=int(rng.integers(1, 3)))
        notes, wrong = made["metadata"]["annotations"], int(rng.integers(1, 16))
        if wrong & 1:
            notes["hami.io/mutex.lock"] = str(rng.choice(LOCKS[:1]))
        if wrong & 2:
            notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace(",true,", ",false,")
        if wrong & 4:
            made["spec"]["unschedulable"] = True
        if wrong & 8:
            made["status"]["allocatable"] = {**made["status"]["allocatable"], GPU: "0"}
        nodes.append(made)
    made, waiting = world_of(*nodes, pod("asked", {GPU: 1, MEMORY: int(rng.integers(1000, 16384))}))
    assert kinds(remedies(made, waiting))[RemedyType.ADD_NODE] == ["add a node like n0"]


@pytest.mark.parametrize("seed", range(50))
def test_a_node_whose_kubelet_has_forgotten_its_cards_is_no_model_for_a_new_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, forgotten = int(rng.integers(1, 5)), set[str]()
    nodes = []
    for each in range(number):
        made = node(f"n{each}", cards=2)
        if rng.random() < 0.6:
            forgotten.add(f"n{each}")
            for section in ("capacity", "allocatable"):
                made["status"][section] = {**made["status"].get(section, {}), GPU: "0"}
        made["spec"]["unschedulable"] = True
        nodes.append(made)
    world, waiting = world_of(*nodes, pod("asked", {GPU: 1, MEMORY: 1000}))
    for name in sorted(forgotten):
        with pytest.raises(InvalidObjectsError, match=f"node {name} lists cards, and its kubelet offers no {GPU}"):
            copy_of(world, name, "new")
    working = [f"n{each}" for each in range(number) if f"n{each}" not in forgotten]
    expected = [f"add a node like {working[0]}"] if working else None
    assert kinds(remedies(world, waiting)).get(RemedyType.ADD_NODE) == expected


DIALECTS = ("volcano", "hami", "koordinator")  # HAMi before Koordinator, for both know nvidia.com/gpu
ASKED = {
    "hami": lambda memory: {GPU: 1, MEMORY: memory},
    "volcano": lambda memory: {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory},
    "koordinator": lambda memory: {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": f"{memory}Mi"},
}


def of_dialect(dialect: str, name: str, memory: int, **spec: Any) -> list[Object]:
    """Return a node with one card that has so much memory."""
    made = WRITERS[dialect].register(name, [Card(name, 0, "NVIDIA-X", memory, 10, 100, 0, "hami-core", healthy=True)])
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **made.allocatable}
    metadata = {"name": name, "labels": spec.pop("labels", {}), "annotations": dict(made.annotations)}
    status = {"capacity": amounts, "allocatable": amounts}
    return [*made.objects, {"kind": "Node", "metadata": metadata, "spec": spec, "status": status}]


def several(served: list[str], objects: list[Object]) -> tuple[World, Pod]:
    """Return a world of several dialects, and the pod that waits there."""
    world = World(EngineOptions([make_dialect(name) for name in served]))
    world.add(objects)
    (waiting,) = world.pending.values()
    return world, waiting


@pytest.mark.parametrize("seed", range(60))
def test_a_new_node_may_be_like_any_of_any_dialect(seed: int) -> None:
    rng = np.random.default_rng(seed)
    served = [DIALECTS[int(n)] for n in sorted(rng.permutation(3)[: int(rng.integers(2, 4))])]
    objects, largest = [], dict.fromkeys(served, 0)
    for number in range(int(rng.integers(2, 7))):
        dialect, memory = str(rng.choice(served)), int(rng.integers(1, 9)) * 8192
        largest[dialect] = max(largest[dialect], memory)
        objects += of_dialect(dialect, f"n{number}", memory, unschedulable=True)
    named, memory = str(rng.choice(served)), int(rng.integers(1, 9)) * 8192
    objects.append(pod("asked", ASKED[named](memory)))
    world, waiting = several(served, objects)
    told = [each for each in remedies(world, waiting) if each.type is RemedyType.ADD_NODE and each.pod is None]
    assert bool(told) == (largest[named] >= memory)
    for remedy in told:
        again, waiting = several(served, [*objects, *remedy.objects])
        assert ask(again, waiting).node == remedy.node == remedy.objects[-1]["metadata"]["name"]


# Nodes of equal cards that are different otherwise -------------------------------------------------------------------

RDMA, POOL, ZONE = "rdma/hca", "pool", "zone.example.org/name"


def varied(rng: np.random.Generator, name: str) -> Object:
    """Return a node with one card as others have, and labels and amounts of its own."""
    labels = {"kubernetes.io/hostname": name, "example.org/of": name}
    labels |= {key: str(rng.choice(["a", "b", "c", "d"])) for key in (POOL, ZONE) if rng.random() < 0.8}
    made = node(name, cards=1, labels=labels)
    offered = made["status"]["allocatable"] | {"cpu": str(rng.choice([4, 64]))}
    offered |= {RDMA: "1"} if rng.random() < 0.4 else {}
    made["status"] = {"allocatable": offered, "capacity": offered}
    return made


def choosy(rng: np.random.Generator, name: str) -> Object:
    """Return a pod that not each node would do for, however empty it were."""
    limits: Object = {GPU: 1, MEMORY: int(rng.integers(1000, 18000))}
    limits |= {RDMA: 1} if rng.random() < 0.3 else {}
    limits |= {"cpu": 32} if rng.random() < 0.4 else {}
    spec: Object = {"nodeSelector": {POOL: str(rng.choice(["a", "b", "c"]))}} if rng.random() < 0.6 else {}
    if rng.random() < 0.3:
        selector = {"matchLabels": {"app": "x"}}
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [spread]
    return pod(name, limits, metadata={"labels": {"app": "x"}}, **spec)


@pytest.mark.parametrize("seed", range(50))
def test_a_new_node_is_like_one_that_helps_if_any_does(seed: int) -> None:
    """Of many nodes with the same cards, which differ in labels and in what else they offer."""
    rng = np.random.default_rng(seed)
    names = [f"n{number:02}" for number in range(int(rng.integers(2, 60)))]
    nodes = [varied(rng, name) for name in names]
    full = [running(f"on-{name}", name, f"GPU-{name}-0", 16384) for name in names]
    daemons = [daemon(name, str(rng.choice(["1", "33"]))) for name in names if rng.random() < 0.3]
    world, waiting = world_of(*nodes, *full, *daemons, choosy(rng, "asked"))

    def helps(name: str) -> bool:
        world.add(copy_of(world, name, "new"))
        node = ask(world, waiting).node
        world.remove_node("new")
        return node == "new"

    helping = {f"add a node like {name}" for name in names if helps(name)}
    told = kinds(remedies(world, waiting)).get(RemedyType.ADD_NODE, [])
    assert len(told) == bool(helping)
    assert helping.issuperset(told)


def daemon(where: str, cpu: str) -> Object:
    """Return a pod of a DaemonSet that takes some of each node like one."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": f"d-{where}",
        "uid": f"d-{where}",
        "controller": True,
    }
    made = pod(f"daemon-{where}", {"cpu": cpu}, nodeName=where, metadata={"ownerReferences": [owner]})
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return made
