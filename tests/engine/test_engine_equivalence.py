"""What pods share: the parts of a class, what each depends on, and what has to be computed anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.builders import asks, cards, engine_with, node, node_part, pod
from tests.naive.predicates import REQUIRED

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.engine import Engine, node_parts
from vgpu_scheduler.engine.equivalence import NodePart, RefusedClass
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.predicates import CompiledPredicates
from vgpu_scheduler.scorers import NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.scorers.base import CompiledScorer
from vgpu_scheduler.state import State


def three() -> Engine:
    return engine_with([node(name, cards(name, 2), labels={"zone": name}) for name in "abc"])


# Keys --------------------------------------------------------------------------------------------------------------


def shared(engine: Engine, **more: Any) -> bool:
    """Whether a pod with something more has the node part of one without."""
    return node_part(engine.algorithm, pod("plain")) is node_part(engine.algorithm, pod("other", **more))


@pytest.mark.parametrize(
    "more",
    [
        {"namespace": "another"},
        {"labels": {"statefulset.kubernetes.io/pod-name": "other"}},
        {"annotations": {"example.com/note": "x"}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
    ],
)
def test_what_no_single_node_depends_on_makes_no_node_part(more: dict[str, Any]) -> None:
    assert shared(three(), **more)


@pytest.mark.parametrize(
    "more",
    [
        {"resources": asks(1, 2000)},
        {"nodeSelector": {"zone": "a"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"annotations": {"nvidia.com/use-gputype": "T4"}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": []}]}}}},
        {"overhead": {"cpu": "1"}},
    ],
)
def test_what_a_node_is_held_against_makes_a_node_part(more: dict[str, Any]) -> None:
    assert not shared(three(), **more)


def test_a_quota_that_could_be_exceeded_makes_a_node_part() -> None:
    engine = three()
    engine.quota_limits.observe(ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": "500"}))
    assert not shared(engine, namespace="another")


def test_claims_are_looked_up_without_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = three()
    monkeypatch.setattr(node_parts, "make_node_part", lambda *_: pytest.fail("a shape was made"))
    ((claim,),) = (container.claims for container in engine.algorithm.classes.claims(pod("p")))
    assert claim.amounts[1] == 1000
    assert engine.algorithm.classes.claims(pod("q", {"limits": {"nvidia.com/gpumem": "5"}})) == ()


def test_a_pod_that_is_refused_has_a_reason_and_nothing_else() -> None:
    pod_class = three().algorithm.classes.of(pod("p", resourceClaims=[{"name": "c"}]))
    assert isinstance(pod_class, RefusedClass)
    assert pod_class.reason.startswith("spec.resourceClaims is not supported")


# Columns -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Priced(CompiledScorer):
    """A scorer of which the prices change; it notes which rows it was asked about."""

    price: float = 1.0
    prices: int = 0
    name: str = "priced"
    direction: float = 1.0
    ranks_plain_pods: bool = True
    asked: list[list[int]] = field(default_factory=list)

    def epoch(self, state: State) -> int:
        return self.prices

    def compile(self, workload: ScoredPod) -> CompiledScorer:
        return self

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        return raw

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        self.asked.append(rows.tolist())
        return rows * self.price


def test_new_prices_cost_a_scoring_and_no_fit() -> None:
    engine, scorer = three(), Priced()
    engine.observe_node(node("d", cards("d", 1), unschedulable=True), 0.0)
    state = engine.state
    predicates = CompiledPredicates(pod("p"), state.nodes, frozenset({"nvidia.com/gpumem", "nvidia.com/gpucores"}))
    part = NodePart(predicates, None, NodeRanking([WeightedScorer(scorer)], ScoredPod({}, ())))
    rows = state.nodes.rows()
    assert part.refresh(state, rows) == 4
    assert part.refresh(state, rows) == 0
    assert scorer.asked == [[0, 1, 2]]

    scorer.price, scorer.prices = 2.0, 1
    assert part.refresh(state, rows[1:2]) == 0, "a new price makes no node stale"
    assert part.refresh(state, rows) == 0
    assert scorer.asked[1:] == [[1], [0, 2]]
    assert part.score[rows[:3]].tolist() == [0.0, 2.0, 4.0]

    state.nodes.touch(2)
    assert part.refresh(state, rows) == 1
    assert scorer.asked[3:] == [[2]]
