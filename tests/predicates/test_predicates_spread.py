"""Spread constraints: the product, from counters that events keep, against the naive twin, from all pods each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.objects import Obj, pod
from tests.naive import predicates as naive
from tests.naive.spread import spread
from tests.seeds import seeds
from tests.state.interpod_world import APPS, EITHER, MOVES, NAMESPACES, OLD, SOME_REV, WEB, Move, World, asking

from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.predicates import spec_errors
from vgpu_scheduler.predicates.spread import SpreadFilter


def rule(selector: Obj | None, key: str = "zone", skew: int = 1, **more: Any) -> Obj:
    labels = {} if selector is None else {"labelSelector": selector}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **labels, **more}


RULES: list[list[Obj]] = [
    [rule(WEB)],
    [rule(WEB, skew=2), rule(EITHER, "host")],
    [rule(EITHER, minDomains=4)],
    [rule(EITHER, "rack", minDomains=2, skew=3)],
    [rule(SOME_REV, matchLabelKeys=["rev", "none"])],
    [rule({}, "rack")],
    [rule({}, matchLabelKeys=["app"])],
    [rule(None, "host")],
    [rule(WEB, nodeAffinityPolicy="Ignore"), rule(OLD, "rack", skew=2)],
    [rule(WEB, nodeTaintsPolicy="Honor")],
    [rule(EITHER, "host", nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore", minDomains=3)],
    [rule(WEB, whenUnsatisfiable="ScheduleAnyway"), rule(EITHER, skew=2)],
]
SELECTED: list[Obj] = [
    {},
    {"nodeSelector": {"zone": "a"}},
    {"affinity": {"nodeAffinity": {naive.REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}}},
    {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
]  # fmt: skip
"""What pods ask of nodes."""

Question = tuple[int, int, int, int]
"""Labels, rules, namespace, and what is asked of nodes."""

numbers = st.integers(0, 40)
moves = st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=40)
LIMITS = (len(APPS), len(RULES), len(NAMESPACES), len(SELECTED))
questions = st.lists(st.tuples(*(st.integers(0, limit - 1) for limit in LIMITS)), min_size=1, max_size=6)


def spreading(question: Question) -> Obj:
    labels, rules, namespace, selects = question
    found = asking("asks", labels, 0, namespace)
    found["spec"] |= {"topologySpreadConstraints": RULES[rules], **SELECTED[selects]}
    return found


class Filters:
    """Filters that stay for as long as they are asked for, as a scheduler keeps them; the oldest go first."""

    def __init__(self, world: World, size: int) -> None:
        self.world = world
        self.size = size
        self.kept: dict[Question, SpreadFilter] = {}

    def agree(self, question: Question) -> int:
        """Compare what both say of every node; return on how many nodes the pod may go."""
        world, obj = self.world, spreading(question)
        incoming, state = decode_pod(obj), world.state
        if question not in self.kept:
            self.kept[question] = SpreadFilter(incoming, state)
        rows = state.nodes.rows()
        codes = self.kept[question].evaluate(incoming, rows)
        nodes, pods = list(world.nodes.values()), list(world.pods.values())
        expected = {node["metadata"]["name"]: spread(obj, node, nodes, pods) for node in nodes}
        found: dict[str, naive.Verdict | None] = dict.fromkeys(expected)
        assert codes is not None
        for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
            rejection = SpreadFilter.rejections[code]
            if code:
                status = naive.U if rejection.resolvable else naive.UU
                found[state.nodes.name(row)] = (rejection.plugin, status, frozenset(rejection.texts))
        assert found == expected
        if len(self.kept) > self.size:
            self.kept.pop(next(iter(self.kept))).close()
        return sum(verdict is None for verdict in expected.values())


@settings(max_examples=300, deadline=None)
@given(moves, questions, st.integers(0, 4))
def test_agrees_with_the_naive_twin(happened: list[Move], asked: list[Question], size: int) -> None:
    world = World()
    filters = Filters(world, size)
    for number, move in enumerate(happened):
        world.move(move)
        filters.agree(asked[number % len(asked)])
    for question in asked:
        filters.agree(question)


@pytest.mark.parametrize("part", seeds(1, 5))
def test_agrees_with_the_naive_twin_at_length(part: int) -> None:
    """Thousands of clusters, each one move from the one before."""
    rng, open_nodes, all_nodes = np.random.default_rng(12 + part), 0, 0
    for _ in range(10):
        world = World()
        filters = Filters(world, 12)
        for move in rng.integers(0, 1000, (200, 4)).tolist():
            world.move(tuple(move))
            labels, rules, namespace, selects = rng.integers(0, LIMITS).tolist()
            open_nodes += filters.agree((labels, rules, namespace, selects))
            all_nodes += len(world.nodes)
    assert 0.2 < open_nodes / all_nodes < 0.9, "both answers must be common"


def test_a_filter_that_is_closed_has_nobody_counted() -> None:
    world = World()
    SpreadFilter(decode_pod(spreading((0, 1, 0, 0))), world.state).close()
    assert not world.state.interpod.as_values()


@pytest.mark.parametrize("index", [0, 1])
def test_a_constraint_that_cannot_be_understood_is_refused_by_name(index: int) -> None:
    wrong = rule({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]})
    constraints = [rule(WEB), rule(WEB)]
    constraints[index] = wrong
    (refusal,) = spec_errors(decode_pod(pod(topologySpreadConstraints=constraints)))
    assert refusal.startswith(f"spec.topologySpreadConstraints[{index}].labelSelector: ")
