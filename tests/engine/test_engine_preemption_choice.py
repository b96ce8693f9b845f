"""Which of many nodes is chosen for a pod that preempts others."""

from __future__ import annotations

import pytest
from tests.engine.builders import asks, cards, node
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_preemption import budget

from vgpu_scheduler.engine.preemption.candidates import MOST_CANDIDATES


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("violating", [MOST_CANDIDATES - 1, MOST_CANDIDATES, MOST_CANDIDATES + 5])
def test_no_budget_is_violated_while_there_is_a_node_where_none_is(gpus: int, violating: int) -> None:
    names = [f"n{number:02}" for number in range(violating + 1)]
    rules = {"mayPreempt": True, "budgets": "Exceed"}
    fleet = Fleet([node(name, cards(name, gpus)) for name in names], preemption=rules)
    for number in range(violating + 1):
        app = "kept" if number < violating else "free"
        fleet.come(f"p{number:02}", 0, asks(gpu=gpus, gpumem=8000), labels={"app": app})
        fleet.decide()
    fleet.engine.budgets.observe(budget("kept", 0))
    fleet.come("high", 5, asks(gpu=gpus, gpumem=8000))
    fleet.decide()
    preemption = fleet.last["high"].preemption
    assert preemption is not None
    assert [(victim.pod, victim.budgets) for victim in preemption.victims] == [(f"default/p{violating:02}", ())]
