"""What a pod would get of a node if some pods were gone is what it gets once they are; the question leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.simulation.cluster import MIG
from tests.state.copies import algorithm_on, copied

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, ResourceQuota
from vgpu_scheduler.model import Outcome, Placement

NODES = ("a", "b", "m")
APART: dict[str, Any] = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
        ]
    }
}


def random_pod(rng: np.random.Generator, number: int) -> Pod:
    """Return a pod that asks for cards, cpu or ports, may keep others away, and may be limited by a quota."""
    resources = asks(
        int(rng.integers(0, 3)), int(rng.choice([500, 1000, 2000, 4000])), int(rng.choice([0, 0, 30, 100]))
    )
    resources["requests"]["cpu"] = str(int(rng.integers(1, 6)))
    container: dict[str, Any] = {"name": "main", "resources": resources}
    if rng.random() < 0.3:
        container["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    more: dict[str, Any] = {"affinity": APART} if rng.random() < 0.2 else {}
    return pod(
        f"p{number}",
        namespace=str(rng.choice(["free", "limited"])),
        labels={"app": str(rng.choice(["web", "db"]))},
        containers=[container],
        **more,
    )


def full(rng: np.random.Generator) -> Engine:
    """Return an engine whose nodes run what fits on them."""
    engine = engine_with(
        [
            node("a", cards("a", 2), labels={"zone": "z1"}),
            node("b", cards("b", 3, count=2), labels={"zone": "z1"}),
            node("m", cards("m", 1, **MIG), labels={"zone": "z2"}),
        ]
    )
    limits = {"limits.nvidia.com/gpumem": "6000", "requests.nvidia.com/gpu": "5"}
    engine.quota_limits.observe(ResourceQuota("limited", "q", limits, uid="q", resource_version=1))
    for number in range(24):
        engine.observe_pod(random_pod(rng, number), 0.0)
    while engine.attempt(0.0) is not None:
        pass
    return engine


def questions(rng: np.random.Generator, engine: Engine) -> Iterator[tuple[Pod, str, list[str]]]:
    """Yield pods, each with a node and the UIDs of some pods, most of them there."""
    held = sorted(engine.state.reservations(), key=lambda each: each.uid)
    for number in range(60):
        where = str(rng.choice(NODES))
        gone = [each.uid for each in held if rng.random() < (0.5 if each.node == where else 0.1)]
        yield random_pod(rng, 100 + number), where, gone


def after(engine: Engine, asked: Pod, where: str, gone: list[str]) -> Placement | None:
    """Return what a pod gets of a node on a copy of the state on which some pods are gone."""
    return algorithm_on(engine, copied(engine.state, gone)).node_fit.fits_without(asked, where, ())


@pytest.mark.parametrize("seed", range(6))
def test_the_answer_is_that_of_a_state_without_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = full(rng)
    state, answers = engine.state, []
    for asked, where, gone in questions(rng, engine):
        state.observe_pod(asked, {})
        expected = after(engine, asked, where, gone)
        versions, ledger, quotas = state.nodes.version.copy(), state.ledger(), state.quota_usage.as_values()
        answer = engine.algorithm.node_fit.fits_without(asked, where, gone)
        assert answer == expected, (asked.key, where, gone)
        assert (state.nodes.version == versions).all(), "the question raised a version"
        assert state.ledger() == ledger
        assert state.quota_usage.as_values() == quotas
        answers.append(answer is not None)
    assert not state.drift()
    assert 5 < sum(answers) < 55


def test_a_class_is_not_fitted_anew_for_a_question() -> None:
    engine = full(np.random.default_rng(1))
    engine.observe_pod(asked := pod("asked", asks(1, 8000, 100)), 0.0)
    assert engine.attempt(0.0) is not None
    pod_class = engine.algorithm.classes.of(asked)
    part, rows = pod_class.node, engine.state.nodes.rows()  # type: ignore[union-attr]
    held = [each.uid for each in engine.state.reservations("a")]
    assert engine.algorithm.node_fit.fits_without(asked, "a", held) is not None
    assert part.refresh(engine.state, rows) == 0
    assert not part.feasible[rows].any()


def test_a_question_that_fails_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = full(np.random.default_rng(2))
    asked = pod("asked", asks(1, 1000), namespace="limited", affinity=APART)
    engine.state.observe_pod(asked, {})
    held = [each.uid for each in engine.state.reservations("a")]
    before = engine.state.quota_usage.as_values()
    monkeypatch.setattr(engine.algorithm.node_fit, "_placement_with", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.algorithm.node_fit.fits_without(asked, "a", held)
    assert engine.state.quota_usage.as_values() == before
    assert not engine.state.drift()
    monkeypatch.undo()
    engine.observe_pod(pod("next", asks(0), priority=1), 1.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.outcome is Outcome.PLACED
