"""Which pods would have to end for a pod that asks for cards."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.engine.builders import asks, card, cards, engine_with, node, pod
from tests.preemption import all_candidates
from tests.simulation.cluster import MIG

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.engine.preemption import Candidates, Preemptor, VictimSearch, ineligible
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import DisruptionBudget, Pod, compile_label_selector, violating_budgets
from vgpu_scheduler.model import CardReason, Outcome
from vgpu_scheduler.state import Phase

NODES = ("a", "b", "m")


def search(
    engine: Engine, *budgets: DisruptionBudget, spared: frozenset[str] = frozenset(), exceed: bool = True
) -> VictimSearch:
    """Return a search in which all pods but some may be victims."""
    nominated = engine.algorithm.nominated
    return VictimSearch(engine.state, nominated, lambda: budgets, lambda each: each.name not in spared, exceed=exceed)


def found(
    engine: Engine,
    asked: Pod,
    *budgets: DisruptionBudget,
    spared: frozenset[str] = frozenset(),
    exceed: bool = True,
) -> Candidates:
    """Return what a search for a pod finds that the engine knows."""
    pod_class = engine.algorithm.classes.of(asked)
    assert isinstance(pod_class, SchedulableClass)
    rows = engine.state.nodes.rows()
    pod_class.node.refresh(engine.state, rows)
    filtered = Filtered(pod_class.node, pod_class.cluster, asked, rows)
    searching, question = search(engine, *budgets, spared=spared, exceed=exceed), Preemptor(asked, pod_class)
    return all_candidates(searching, engine.state, question, filtered, budgets)


def budget(app: str, allowed: int, *disrupted: str, name: str = "") -> DisruptionBudget:
    return DisruptionBudget(
        uid=name or app,
        namespace="default",
        name=name or app,
        resource_version=1,
        selector=compile_label_selector({"matchLabels": {"app": app}}),
        allowed=allowed,
        disrupted=frozenset(disrupted),
    )


def placed(engine: Engine, *pods: Pod) -> None:
    """Have pods placed one after the other; each must fit."""
    for each in pods:
        engine.observe_pod(each, 0.0)
        decision = engine.attempt(0.0)
        assert decision is not None
        assert decision.outcome is Outcome.PLACED, decision.message
        engine.binding_succeeded(each.uid)


def waiting(engine: Engine, name: str, resources: dict[str, Any], priority: int, **more: Any) -> Pod:
    """Return a pod that was found to fit nowhere."""
    each = pod(name, resources, priority=priority, **more)
    engine.observe_pod(each, 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.outcome is Outcome.UNSCHEDULABLE
    return each


def names(candidates: Candidates) -> dict[str, list[str]]:
    return {where: [each.name for each in victims.pods] for where, victims in candidates.victims.items()}


def random_world(rng: np.random.Generator, bound: float = 0.8, ending: float = 0.1) -> Engine:
    """Return an engine whose nodes are full of pods of five priorities, also on a card in MIG mode.

    Parameters
    ----------
    bound
        How many of them are bound, as a share; the others only wait to be bound.
    ending
        How many of those that are bound end already, as a share.
    """
    engine = engine_with(
        [
            node("a", cards("a", 2)),
            node("b", [card("b-sick", healthy=False), *cards("b", 2, count=2)]),
            node("m", cards("m", 1, **MIG)),
        ]
    )
    for number in range(40):
        resources = asks(int(rng.integers(1, 3)), int(rng.choice([1000, 2000, 4000])), int(rng.choice([0, 30])))
        labels = {"app": str(rng.choice(["web", "db"]))}
        engine.observe_pod(pod(f"p{number}", resources, priority=int(rng.integers(0, 5)), labels=labels), 0.0)
    while (decision := engine.attempt(0.0)) is not None:
        if decision.placement is not None and rng.random() < bound:
            engine.binding_succeeded(decision.uid)
            if rng.random() < ending:
                known = engine.state.pod(decision.uid)
                assert known is not None
                engine.state.observe_pod(msgspec.structs.replace(known, deleting=True, resource_version=900), {})
    return engine


@pytest.mark.parametrize("seed", range(12))
def test_nobody_ends_in_vain(seed: int) -> None:
    """The pod fits once the victims are gone, and would not if any one of them stayed; all are of lower priority."""
    rng, victims_found = np.random.default_rng(seed), 0
    engine, exceed = random_world(rng), bool(seed % 2)
    fits_without = engine.algorithm.node_fit.fits_without
    budgets = [budget(app, int(rng.integers(0, 3))) for app in ("web", "db")]
    for number in range(12):
        resources = asks(int(rng.integers(1, 3)), int(rng.choice([2000, 4000, 7900])), int(rng.choice([0, 60, 100])))
        asked = pod(f"asked{number}", resources, priority=int(rng.integers(2, 7)))
        engine.state.observe_pod(asked, {})
        candidates = found(engine, asked, *budgets, exceed=exceed)
        for where, victims in candidates.victims.items():
            victims_found += 1
            gone = [each.uid for each in victims.pods]
            assert fits_without(asked, where, gone) is not None
            assert all(each.priority < asked.priority for each in victims.pods)
            for stays in gone:
                left = [uid for uid in gone if uid != stays]
                assert fits_without(asked, where, left) is None, "a victim could have stayed"
            assert victims.violations <= len(victims.pods)
            assert victims.violations >= len(violating_budgets(victims.evicted, budgets))
            assert victims.unbound == {uid for uid in gone if engine.state.reservation(uid).phase is Phase.ASSUMED}
        tried = candidates.victims.keys() | candidates.rejections.keys()
        for where in candidates.rejections.keys() | (set(NODES) - tried):
            lower = [
                held.uid
                for held in engine.state.reservations(where)
                if (known := engine.state.pod(held.uid)) is not None and known.priority < asked.priority
            ]
            fits_now = fits_without(asked, where, ()) is not None
            assert fits_now or fits_without(asked, where, lower) is None, "a node on which preemption helps is left out"
    assert victims_found
    assert not engine.state.drift()


def test_the_least_important_pods_end_of_those_that_hold_a_card() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    placed(engine, *(pod(f"p{priority}", asks(gpumem=2000), priority=priority) for priority in (3, 1, 2)))
    asked = waiting(engine, "asked", asks(gpumem=4000), 9)
    assert names(found(engine, asked)) == {"a": ["p1"]}
    asked = waiting(engine, "larger", asks(gpumem=5000), 9)
    assert names(found(engine, asked)) == {"a": ["p2", "p1"]}
    asked = waiting(engine, "lower", asks(gpumem=5000), 2)
    assert names(found(engine, asked)) == {}
    assert names(found(engine, waiting(engine, "spared", asks(gpumem=4000), 9), spared=frozenset({"p1"}))) == {
        "a": ["p2"]
    }


def test_who_is_protected_by_a_budget_is_given_back_first() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    placed(engine, pod("db", asks(gpumem=4000), labels={"app": "db"}), pod("web", asks(gpumem=4000), priority=1))
    asked = waiting(engine, "asked", asks(gpumem=4000), 9)
    assert names(found(engine, asked)) == {"a": ["db"]}
    assert names(found(engine, asked, budget("db", 0))) == {"a": ["web"]}
    assert names(found(engine, asked, budget("db", 1))) == {"a": ["db"]}
    assert names(found(engine, asked, budget("db", 0, "db"))) == {"a": ["db"]}, "the API server has counted it already"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"preemptionPolicy": "Never"}, "not eligible due to preemptionPolicy=Never."),
        ({"preemptionPolicy": "PreemptLowerPriority"}, ""),
        ({}, ""),
    ],
)
def test_who_must_not_preempt_does_not(more: dict[str, Any], reason: str) -> None:
    engine = engine_with([node("a", cards("a", 1))])
    asked = pod("asked", asks(), priority=9, **more)
    assert ineligible(asked, engine.state, None) == reason


def test_no_node_is_searched_on_which_nothing_that_ends_helps() -> None:
    engine = engine_with([node("a", cards("a", 2, healthy=False)), node("b", cards("b", 1))])
    placed(engine, pod("p", asks(1, 8000)))
    asked = waiting(engine, "asked", asks(2, 1000), 9)
    assert found(engine, asked) == Candidates({}, {})


def test_a_reason_knows_whether_the_end_of_pods_resolves_it() -> None:
    never = {reason for reason in CardReason if not reason.resolvable}
    assert never == {
        CardReason.CardNotHealth,
        CardReason.CardCordoned,
        CardReason.CardTypeMismatch,
        CardReason.CardUuidMismatch,
        CardReason.CardLabelMismatch,
        CardReason.ResourceQuotaNotFit,
        CardReason.NodeInsufficientDevice,
        CardReason.NodeUnregistered,
        CardReason.CardDeniedByPolicy,
        CardReason.ModeNotFit,
        CardReason.CardUnhealthy,
    }
