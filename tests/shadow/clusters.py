"""A cluster on which a scheduler works that is a few lines long, with faults that are planted.

It shares no code with what looks at it: books, choices and faults are plain dictionaries and loops.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

Object = dict[str, Any]
HAMI = "hami-scheduler"
LOCK = "hami.io/mutex.lock"
START = 1_767_225_600.0
CARD_MEMORY, SHARES = 16_000, 10


def stamp(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def card_names(node: str, cards: int) -> list[str]:
    return [f"GPU-{node}-{number}" for number in range(cards)]


@dataclass
class Cluster:
    """Objects as an API server holds them, and what has happened since somebody last asked."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    changes: list[tuple[Object, bool]] = field(default_factory=list)
    version: int = 0

    def put(self, obj: Object) -> None:
        self.version += 1
        metadata = {"uid": f"uid-{self.version}", **obj["metadata"], "resourceVersion": str(self.version)}
        kept = {**obj, "metadata": metadata}
        self.objects[obj["kind"], metadata["name"]] = kept
        self.changes.append((copy.deepcopy(kept), False))

    def delete(self, kind: str, name: str) -> None:
        self.changes.append((self.objects.pop((kind, name)), True))

    def get(self, kind: str, name: str) -> Object:
        return copy.deepcopy(self.objects[kind, name])

    def all(self) -> list[Object]:
        return copy.deepcopy(list(self.objects.values()))

    def happened(self) -> Iterator[tuple[Object, bool]]:
        changes, self.changes = self.changes, []
        return iter(changes)

    def add_node(self, name: str, cards: int) -> None:
        register = "".join(
            f"{card},{SHARES},{CARD_MEMORY},100,NVIDIA-A10,0,true,{number},hami-core:"
            for number, card in enumerate(card_names(name, cards))
        )
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(SHARES * cards)}
        metadata = {"name": name, "annotations": {"hami.io/node-nvidia-register": register}}
        self.put({"kind": "Node", "metadata": metadata, "spec": {}, "status": {"allocatable": room, "capacity": room}})

    def add_pod(self, name: str, memory: int, now: float, *, cards: int = 1, cores: int = 0) -> None:
        limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": str(cores)}
        self.put(
            {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "creationTimestamp": stamp(now)},
                "spec": {"schedulerName": HAMI, "containers": [{"name": "main", "resources": {"limits": limits}}]},
                "status": {"phase": "Pending"},
            }
        )

    def announce(self, name: str, node: str, cards: list[str], memory: int) -> None:
        """Write what HAMi writes on a pod before it binds it."""
        pod = self.get("Pod", name)
        written = ":".join(f"{card},NVIDIA,{memory},0" for card in cards) + ":;"
        pod["metadata"]["annotations"] = {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": written}
        self.put(pod)

    def bind(self, name: str, node: str) -> None:
        pod = self.get("Pod", name)
        pod["spec"]["nodeName"] = node
        self.put(pod)

    def lock(self, node: str, value: str | None) -> None:
        obj = self.get("Node", node)
        obj["metadata"]["annotations"].pop(LOCK, None)
        if value is not None:
            obj["metadata"]["annotations"][LOCK] = value
        self.put(obj)


@dataclass
class Books:
    """What the scheduler believes of its cards: MiB that are left, and shares."""

    free: dict[str, int]
    shares: dict[str, int]
    node_of: dict[str, str]

    @classmethod
    def of(cls, nodes: dict[str, int]) -> Books:
        homes = {card: node for node, cards in nodes.items() for card in card_names(node, cards)}
        return cls(dict.fromkeys(homes, CARD_MEMORY), dict.fromkeys(homes, SHARES), homes)

    def room(self, memory: int, cards: int, closed: set[str]) -> list[str]:
        """Return the first cards of a node that have room; empty where no node has."""
        for node in sorted(set(self.node_of.values()) - closed):
            there = [card for card, home in self.node_of.items() if home == node]
            fit = [card for card in there if self.free[card] >= memory and self.shares[card]]
            if len(fit) >= cards:
                return fit[:cards]
        return []

    def book(self, cards: list[str], memory: int, sign: int = 1) -> None:
        for card in cards:
            self.free[card] -= sign * memory
            self.shares[card] -= sign


@dataclass
class Planted:
    """What was planted, with the time: pods that are kept waiting, whose cards leak, and nodes whose locks stall.

    And the results: pods that waited for a stalled lock, and cards used beyond their capacity, with their durations.
    """

    kept: dict[str, float] = field(default_factory=dict)
    leaked: dict[str, float] = field(default_factory=dict)
    stalled: dict[str, float] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    over: dict[str, float] = field(default_factory=dict)
    over_since: dict[str, float] = field(default_factory=dict)


class FewLines:
    """A scheduler of a few lines: the first room, in the order in which pods came.

    Parameters
    ----------
    faults
        How many of each kind are planted at most.
    pace
        How much more time passes between two steps.
    """

    def __init__(self, seed: int, faults: int = 2, pace: float = 1.0) -> None:
        self._pace = pace
        self.rng = np.random.default_rng(seed)
        self.now = START
        self.cluster = Cluster()
        self.planted = Planted()
        nodes = {f"n{number}": int(self.rng.integers(1, 4)) for number in range(int(self.rng.integers(2, 5)))}
        for name, cards in nodes.items():
            self.cluster.add_node(name, cards)
        self.books = Books.of(nodes)
        self.wanted: dict[str, tuple[int, int]] = {}  # memory and cards of the pods that wait, as they came
        self.held: dict[str, tuple[int, list[str]]] = {}
        self.until: dict[str, float] = {}
        self.kept: dict[str, float] = {}
        self._left = dict.fromkeys(("keep", "leak", "stall", "over"), faults)
        self._number = 0

    def step(self) -> None:
        """Let some seconds pass, and something happen."""
        self.now += self._pace * float(self.rng.integers(1, 20))
        for name in [name for name, end in self.until.items() if end <= self.now]:
            memory, cards = self.held.pop(name)
            del self.until[name]
            self.books.book(cards, memory, -1)
            self.cluster.delete("Pod", name)
        for _ in range(int(self.rng.integers(0, 3))):
            self._arrive()
        self._fault()
        self._schedule()
        self._take_stock()

    def _take_stock(self) -> None:
        planted = self.planted
        for card, free in self.books.free.items():
            since = planted.over_since.setdefault(card, self.now) if free < 0 else self.now
            if free >= 0:
                planted.over_since.pop(card, None)
            planted.over[card] = max(planted.over.get(card, 0.0), self.now - since)
        waiting = self.wanted.items()
        planted.blocked |= {name for name, (memory, cards) in waiting if self.books.room(memory, cards, set())}

    def _arrive(self) -> str:
        name = f"p{self._number}"
        self._number += 1
        self.wanted[name] = (1000 * int(self.rng.integers(2, 15)), 1 + int(self.rng.random() < 0.2))
        memory, cards = self.wanted[name]
        self.cluster.add_pod(name, memory, self.now, cards=cards)
        return name

    def _schedule(self) -> None:
        closed = set(self.planted.stalled)
        for name, (memory, cards) in list(self.wanted.items()):
            if self.kept.get(name, 0.0) > self.now:
                continue
            if found := self.books.room(memory, cards, closed):
                self._place(name, found)

    def _place(self, name: str, cards: list[str]) -> None:
        memory, _ = self.wanted.pop(name)
        node = self.books.node_of[cards[0]]
        self.books.book(cards, memory)
        self.held[name] = (memory, cards)
        self.until[name] = self.now + float(self.rng.integers(60, 900))
        self.cluster.announce(name, node, cards, memory)
        self.cluster.bind(name, node)

    def keep(self) -> None:
        """Have a pod come that is kept waiting."""
        name = f"kept{self._number}"
        self._number += 1
        self.wanted[name] = (2000, 1)
        self.cluster.add_pod(name, 2000, self.now)
        self.kept[name] = self.now + 3600.0
        self.planted.kept[name] = self.now

    def _fault(self) -> None:
        kind = str(self.rng.choice(["keep", "leak", "stall", "over", *["none"] * 12]))
        if not self._left.get(kind):
            return
        if kind == "keep" and self.books.room(2000, 1, set()) and not self.wanted:
            self._left[kind] -= 1
            self.keep()
        elif kind == "leak" and (found := self.books.room(2000, 1, set())):
            self._left[kind] -= 1
            name = f"leaked{self._number}"
            self._number += 1
            self.books.book(found, 2000)  # for ever
            self.cluster.add_pod(name, 2000, self.now)
            self.cluster.announce(name, self.books.node_of[found[0]], found, 2000)
            self.planted.leaked[name] = self.now
        elif kind == "stall":
            open_nodes = sorted(set(self.books.node_of.values()) - self.planted.stalled.keys())
            if len(open_nodes) > 1:
                self._left[kind] -= 1
                node = open_nodes[int(self.rng.integers(len(open_nodes)))]
                self.cluster.lock(node, f"{stamp(self.now)},default,gone")
                self.planted.stalled[node] = self.now
        elif kind == "over" and self.held:
            self._left[kind] -= 1
            held = sorted(self.held)[int(self.rng.integers(len(self.held)))]
            _, cards = self.held[held]
            name = f"over{self._number}"
            self._number += 1
            self.cluster.add_pod(name, CARD_MEMORY, self.now)
            self.cluster.announce(name, self.books.node_of[cards[0]], cards[:1], CARD_MEMORY)
            self.cluster.bind(name, self.books.node_of[cards[0]])
            self.books.book(cards[:1], CARD_MEMORY)
