"""Soft scores: the product, from counters that events keep, against the naive twin, from all objects each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.objects import Obj
from tests.naive import scores as naive
from tests.naive.predicates import PREFERRED
from tests.predicates.test_predicates_spread import RULES, SELECTED
from tests.seeds import seeds
from tests.state.interpod_world import APPS, EITHER, LIKED, MOVES, NAMESPACES, TERMS, WEB, Move, World, asking

from vgpu_scheduler.kube import Pod, compile_label_selector, decode_pod
from vgpu_scheduler.predicates import SCORE_PLUGINS, PodScore
from vgpu_scheduler.predicates.spread import SpreadScore, system_defaults


def liked(weight: int, key: str, operator: str, *values: str) -> Obj:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


HOST = "kubernetes.io/hostname"
NODE_WISHES: list[list[Obj]] = [
    [],
    [liked(10, "zone", "In", "a")],
    [liked(1, "zone", "In", "a", "b"), liked(100, "rack", "In", "r1", "r2"), liked(0, "zone", "Exists")],
    [liked(7, "zone", "DoesNotExist"), liked(3, "host", "NotIn", "node-1"), {"weight": 9, "preference": {}}],
    [{"weight": 4, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-3"]}]}}],
]
SOFT = [[{**rule, "whenUnsatisfiable": "ScheduleAnyway"} for rule in rules] for rules in RULES] + [
    [{"topologyKey": HOST, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": EITHER}],
    [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}
     for key in (HOST, "zone")],
    [],
]  # fmt: skip

LIMITS = (len(APPS), len(TERMS) * len(LIKED), len(NAMESPACES), len(SOFT), len(SELECTED), len(NODE_WISHES))
Question = tuple[int, ...]
"""Labels, terms, namespace, spread constraints, what is asked of nodes, and what is liked of them."""

numbers = st.integers(0, 40)
moves = st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=30)
questions = st.lists(st.tuples(*(st.integers(0, limit - 1) for limit in LIMITS)), min_size=1, max_size=5)


def wishing(question: Question) -> Obj:
    labels, terms, namespace, rules, selects, wishes = question
    found = asking("asks", labels, terms, namespace)
    selected: dict[str, Any] = SELECTED[selects]
    affinity = {**found["spec"]["affinity"], **selected.get("affinity", {})}
    affinity["nodeAffinity"] = {**affinity.get("nodeAffinity", {}), PREFERRED: NODE_WISHES[wishes]}
    found["spec"] |= {"topologySpreadConstraints": SOFT[rules], **selected, "affinity": affinity}
    return found


class Kept:
    """Scores that stay for as long as they are asked for, as a scheduler keeps them; the oldest go first."""

    def __init__(self, world: World, size: int) -> None:
        self.world = world
        self.size = size
        self.scores: dict[object, PodScore] = {}

    def found(self, pod: Pod, fitting: list[str]) -> dict[str, dict[str, int] | None]:
        """Return what each plugin of the product says."""
        state, said = self.world.state, {}
        rows = np.array([state.nodes.row(name) for name in fitting], dtype=np.int64)
        for plugin in SCORE_PLUGINS:
            key, found = plugin.key(pod, state), None
            if key is not None:
                if (plugin.name, key) not in self.scores:
                    self.scores[plugin.name, key] = plugin.make(pod, state)
                found = self.scores[plugin.name, key].evaluate(pod, rows)
            said[plugin.name] = None if found is None else dict(zip(fitting, found.normalised.tolist(), strict=True))
        while len(self.scores) > self.size:
            self.scores.pop(next(iter(self.scores))).close()
        return said

    def agree(self, question: Question, seed: int) -> int:
        """Compare what both say of some of the nodes; return how many plugins tell them apart."""
        world, obj = self.world, wishing(question)
        names = [name for number, name in enumerate(sorted(world.nodes)) if (seed >> number % 16) & 1]
        if not names:
            return 0
        nodes, pods = list(world.nodes.values()), list(world.pods.values())
        fitting = [world.nodes[name] for name in names]
        expected = {
            "TaintToleration": naive.soft_taints(obj, fitting),
            "NodeAffinity": naive.node_affinity(obj, fitting) if any(
                term["weight"] and term["preference"] for term in naive.preferred_terms(obj)) else None,
            "PodTopologySpread": naive.spread(obj, fitting, nodes, pods),
            "InterPodAffinity": naive.inter_pod(obj, fitting, nodes, pods, world.namespaces),
        }  # fmt: skip
        assert self.found(decode_pod(obj), names) == expected
        return sum(len(set(points.values())) > 1 for points in expected.values() if points)


@settings(max_examples=300, deadline=None)
@given(moves, questions, st.integers(0, 6), st.integers(1, 2**16 - 1))
def test_agrees_with_the_naive_twin(happened: list[Move], asked: list[Question], size: int, seed: int) -> None:
    world = World()
    kept = Kept(world, size)
    for number, move in enumerate(happened):
        world.move(move)
        kept.agree(asked[number % len(asked)], seed)
    for question in asked:
        kept.agree(question, seed)


@pytest.mark.parametrize("part", seeds(1, 5))
def test_agrees_with_the_naive_twin_at_length(part: int) -> None:
    """Thousands of clusters, each one move from the one before."""
    rng, apart = np.random.default_rng(21 + part), 0
    for _ in range(20):
        world = World()
        kept = Kept(world, 24)
        for move in rng.integers(0, 1000, (100, 4)).tolist():
            world.move(tuple(move))
            apart += kept.agree(tuple(rng.integers(0, LIMITS).tolist()), int(rng.integers(1, 2**16)))
    assert apart > 2_000, "plugins must tell nodes apart often"


def test_the_system_defaults_agree_with_the_naive_twin() -> None:
    """They count nodes without a zone, too; hostname and zone are this world's labels for them."""
    rng, apart = np.random.default_rng(22), 0
    for _ in range(20):
        world = World(zone="topology.kubernetes.io/zone")
        for move in rng.integers(0, 1000, (50, 4)).tolist():
            world.move(tuple(move))
            obj = asking("asks", *rng.integers(0, (len(APPS), len(TERMS), len(NAMESPACES))).tolist())
            rules = [
                {"topologyKey": key, "maxSkew": skew, "labelSelector": EITHER}
                for key, skew in ((HOST, 3), ("topology.kubernetes.io/zone", 5))
            ]
            names = sorted(world.nodes)
            if not names:
                continue
            expected = naive.spread(
                obj, [world.nodes[name] for name in names], list(world.nodes.values()), list(world.pods.values()), rules
            )
            selector = compile_label_selector(EITHER)
            assert selector is not None
            score = SpreadScore(decode_pod(obj), world.state, system_defaults(selector))
            rows = np.array([world.state.nodes.row(name) for name in names], dtype=np.int64)
            found = score.evaluate(decode_pod(obj), rows).normalised.tolist()
            assert dict(zip(names, found, strict=True)) == expected
            apart += len(set(found)) > 1
            score.close()
    assert apart > 100


def test_scores_that_are_closed_have_nobody_counted() -> None:
    world = World()
    pod = decode_pod(wishing((1, 2 * len(TERMS), 0, 0, 0, 1)))
    kept = Kept(world, 0)
    world.move((0, 1, 1, 1))
    kept.found(pod, sorted(world.nodes))
    assert not world.state.interpod.as_values()
