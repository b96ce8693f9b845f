"""Things at nodes: the tables by label follow nodes that come, go and change, and things that come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.kube.objects import node

from vgpu_scheduler.kube import NodeSelector, NodeSelectorTerm, Operator, Requirement, decode_node
from vgpu_scheduler.state import NodeTable
from vgpu_scheduler.state.amounts_by_topology import AmountsByTopology, Item, from_size

Move = tuple[int, int, int]


def inside(key: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(key, Operator.IN, frozenset(values)),), ())


def selector(number: int) -> NodeSelector | None:
    host, zone = f"h{number % 90}", f"z{number % 4}"
    terms: list[tuple[NodeSelectorTerm, ...] | None] = [
        None,
        (inside("host", host),),
        (inside("host", host, "h1", "h2"),),
        (inside("zone", zone),),
        (inside("zone", zone, ""),),
        (inside("zone", zone), inside("host", host)),
        (NodeSelectorTerm((Requirement("zone", Operator.DOES_NOT_EXIST),), ()),),
        (),
        (NodeSelectorTerm((*inside("zone", zone).expressions, *inside("rack", "r").expressions), ()),),
        (inside("nowhere", host),),
    ]
    chosen = terms[number % len(terms)]
    return None if chosen is None else NodeSelector(chosen, None)


class World:
    """Nodes and things, and the same things in a plain list."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.places = AmountsByTopology()
        self.things: list[tuple[NodeSelector | None, Item]] = []
        self._named = 0

    def move(self, what: int, one: int, two: int) -> None:
        if what % 5 < 2:
            self._named += 1
            labels = {"host": f"h{two % 90}", "zone": ["z0", "z1", "z2", ""][two % 4], "rack": "r"}
            for key in ("host", "zone", "rack")[: one % 3]:
                del labels[key]
            found = node(f"n{one % 12}", labels=labels)
            self.nodes.upsert(decode_node(found))
        elif what % 5 == 2:
            self.nodes.remove(f"n{one % 12}")
        elif what % 5 == 3 or not self.things:
            self._named += 1
            thing = (selector(one), (two % 7, f"t{self._named}"))
            self.things.append(thing)
            self.places.add(*thing)
        else:
            self.places.discard(*self.things.pop(one % len(self.things)))

    def matches(self, asked: NodeSelector, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.array([asked.matches("", self._labels(row)) for row in rows.tolist()], dtype=np.bool_)

    def _labels(self, row: int) -> Any:
        known = self.nodes._nodes[row]
        assert known is not None
        return known.labels

    def check(self, size: int, at_most: int) -> None:
        rows = self.nodes.rows()
        counts = self.places.count(self.nodes, rows, self.matches, size, at_most).tolist()
        for row, found in zip(rows.tolist(), counts, strict=True):
            labels = self._labels(row)
            there = sorted(item for where, item in self.things if where is None or where.matches("", labels))
            listed = list(self.places.at(labels))
            assert sorted(item for items in listed for item in items) == there
            large = [item for item in there if item[0] >= size]
            assert sorted(item for items in listed for item in items[from_size(items, size) :]) == large
            assert found == len(large) or at_most <= found < len(large)
        assert bool(self.places) == bool(self.things)


numbers = st.integers(0, 200)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), numbers, numbers), max_size=40))
def test_it_equals_a_look_at_each_thing(moves: list[Move]) -> None:
    world = World()
    for number, move in enumerate(moves):
        world.move(*move)
        world.check(move[2] % 8, 1 + number % 6)


def test_it_equals_a_look_at_each_thing_at_length() -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        world = World()
        for number, move in enumerate(rng.integers(0, 5000, (1500, 3)).tolist()):
            world.move(*move)
            if number % 4 == 0:
                world.check(move[2] % 8, 1 + number // 4 % 6)
