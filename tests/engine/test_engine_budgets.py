"""Disruption budgets as the engine knows them: the newest of each, gone when a list says so, and whom they wake."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import engine_with, make_engine
from tests.engine.test_engine_relist import relisted

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import BUDGETS
from vgpu_scheduler.kube import DisruptionBudget, decode_budget
from vgpu_scheduler.model import ClusterEvent

WEB = {"matchLabels": {"app": "web"}}


def budget(name: str = "web", version: int = 1, allowed: int = 0, **more: Any) -> DisruptionBudget:
    metadata = {"namespace": "team", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(more.pop("disrupted", ()), None)}
    return decode_budget({"metadata": metadata, "spec": {"selector": WEB, **more}, "status": status})


@pytest.fixture
def engine() -> Engine:
    return make_engine(preemption=True)


def observe(engine: Engine, found: DisruptionBudget) -> None:
    assert engine.kinds["PodDisruptionBudget"].observe(found, 0.0) == ()


def known(engine: Engine) -> dict[str, int]:
    return {found.key: found.allowed for found in engine.budgets.all()}


def test_budgets_are_no_kind_where_nothing_is_evicted() -> None:
    assert "PodDisruptionBudget" not in engine_with().kinds


def test_the_newest_of_each_is_known_in_the_order_of_their_names(engine: Engine) -> None:
    for found in (budget("web", 5, 1), budget("db", 6, 2), budget("web", 4, 9)):
        observe(engine, found)
    assert list(known(engine).items()) == [("team/db", 2), ("team/web", 1)]
    observe(engine, budget("web", 7, 3))
    assert known(engine)["team/web"] == 3
    engine.kinds["PodDisruptionBudget"].remove(budget("web", 7), 8, 0.0)
    assert known(engine) == {"team/db": 2}
    observe(engine, budget("web", 7, 3))
    assert known(engine) == {"team/db": 2}, "a late observation does not raise the dead"


def test_a_consistent_list_shows_what_is_gone(engine: Engine) -> None:
    for found in (budget("gone", 3), budget("new", 60)):
        observe(engine, found)
    assert relisted(engine, BUDGETS, [budget("kept", 30, 4)], 40) == 1
    assert known(engine) == {"team/kept": 4, "team/new": 0}
    relisted(engine, BUDGETS, [budget("kept", 2, 1)], 10)
    assert known(engine) == {"team/kept": 1}, "the store was restored from an older copy"


@pytest.mark.parametrize(
    ("after", "event"),
    [
        (budget(version=2, allowed=1, disrupted=("p",)), ClusterEvent.NONE),
        (budget(version=2, allowed=0, disrupted=("p",)), ClusterEvent.BUDGET_TIGHTENED),
        (budget(version=2, allowed=2, disrupted=("p",)), ClusterEvent.BUDGET),
        (budget(version=2, allowed=1, disrupted=("p", "q")), ClusterEvent.BUDGET),
        (
            budget(version=2, allowed=1, disrupted=("p",), selector={}),
            ClusterEvent.BUDGET | ClusterEvent.BUDGET_TIGHTENED,
        ),
        (budget(version=1, allowed=2, disrupted=("p",)), ClusterEvent.BUDGET),
        (budget(version=0, allowed=9), ClusterEvent.NONE),
    ],
    ids=["the same", "fewer", "more", "one that counts no more", "of other pods", "read again", "older"],
)
def test_a_budget_says_whether_more_pods_may_end_or_fewer(engine: Engine, after: Any, event: ClusterEvent) -> None:
    assert engine.budgets.observe(budget(allowed=1, disrupted=("p",))) == ClusterEvent.BUDGET_TIGHTENED
    assert engine.budgets.observe(after) == event


def test_a_budget_that_goes_wakes_somebody_once(engine: Engine) -> None:
    engine.budgets.observe(budget())
    assert engine.budgets.remove(budget(version=2)) == ClusterEvent.BUDGET
    assert engine.budgets.remove(budget(version=2)) == ClusterEvent.NONE


def test_those_who_wait_hear_of_it(engine: Engine) -> None:
    heard: list[ClusterEvent] = []
    for found in (budget(), budget(version=2, allowed=1)):
        observe(engine, found)
        heard.append(engine.state.pending_events.take().events)
    engine.kinds["PodDisruptionBudget"].remove(budget(version=3), 3, 0.0)
    heard.append(engine.state.pending_events.take().events)
    assert heard == [ClusterEvent.BUDGET_TIGHTENED, ClusterEvent.BUDGET, ClusterEvent.BUDGET]
