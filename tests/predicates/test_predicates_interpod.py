"""Inter-pod terms: the product, from counters that events keep, against the naive twin, from all pods each time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import predicates as naive
from tests.state.interpod_world import APPS, MOVES, NAMESPACES, TERMS, Move, World, asking

from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.predicates.interpod import INTER_POD_AFFINITY_PLUGIN, InterPodFilter

Question = tuple[int, int, int]
"""Labels, terms and namespace of a pod."""

numbers = st.integers(0, 40)
moves = st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=40)
questions = st.lists(
    st.tuples(st.integers(0, len(APPS) - 1), st.integers(0, len(TERMS) - 1), st.integers(0, len(NAMESPACES) - 1)),
    min_size=1,
    max_size=6,
)


class Terms:
    """Terms that stay for as long as they are asked for, as a scheduler keeps them; the oldest go first."""

    def __init__(self, world: World, size: int) -> None:
        self.world = world
        self.size = size
        self.kept: dict[Question, InterPodFilter] = {}

    def agree(self, question: Question) -> int:
        """Compare what both say of every node; return on how many nodes the pod may go."""
        world, obj = self.world, asking("asks", *question)
        incoming, state = decode_pod(obj), world.state
        if question not in self.kept:
            self.kept[question] = InterPodFilter(incoming, state)
        rows = state.nodes.rows()
        codes = self.kept[question].evaluate(incoming, rows)
        nodes, pods = list(world.nodes.values()), list(world.pods.values())
        expected = {
            node["metadata"]["name"]: naive.inter_pod(obj, node, nodes, pods, world.namespaces) for node in nodes
        }
        found: dict[str, naive.Verdict | None] = dict.fromkeys(expected)
        for row, code in zip(rows.tolist(), [] if codes is None else codes.tolist(), strict=codes is not None):
            rejection = InterPodFilter.rejections[code]
            if code:
                status = naive.U if rejection.resolvable else naive.UU
                found[state.nodes.name(row)] = (rejection.plugin, status, frozenset(rejection.texts))
        assert found == expected
        assert INTER_POD_AFFINITY_PLUGIN.key(incoming, state) is not None or not any(expected.values())
        if len(self.kept) > self.size:
            self.kept.pop(next(iter(self.kept))).close()
        return sum(verdict is None for verdict in expected.values())


@settings(max_examples=300, deadline=None)
@given(moves, questions, st.integers(0, 4))
def test_agrees_with_the_naive_twin(happened: list[Move], asked: list[Question], size: int) -> None:
    world = World()
    terms = Terms(world, size)
    for number, move in enumerate(happened):
        world.move(move)
        terms.agree(asked[number % len(asked)])
    for question in asked:
        terms.agree(question)


def test_agrees_with_the_naive_twin_at_length() -> None:
    rng, open_nodes, all_nodes = np.random.default_rng(11), 0, 0
    for _ in range(20):
        world = World()
        terms = Terms(world, 12)
        for move in rng.integers(0, 1000, (150, 4)).tolist():
            world.move(tuple(move))
            labels, wanted, namespace = rng.integers(0, [len(APPS), len(TERMS), len(NAMESPACES)]).tolist()
            open_nodes += terms.agree((labels, wanted, namespace))
            all_nodes += len(world.nodes)
    assert 0.2 < open_nodes / all_nodes < 0.9, "both answers must be common"
