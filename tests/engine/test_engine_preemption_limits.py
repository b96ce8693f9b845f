"""What counts towards the limits of preemption, and from when on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.engine import preemption_fleet
from tests.engine.builders import asks, cards, node
from tests.engine.preemption_fleet import CREATED, Fleet
from tests.engine.test_engine_preemption import budget

from vgpu_scheduler.kube import decode_pod

NEW_YEAR = 1767225600.0
"""2026-01-01, when all pods were created, in seconds since 1970."""


def full(**rules: Any) -> Fleet:
    """Return a fleet whose one card a pod has."""
    fleet = Fleet([node("a", cards("a", 1))], preemption={"mayPreempt": True, **rules})
    fleet.engine.preemptions.evaluator.unix_ahead = NEW_YEAR
    fleet.come("low", 0, asks(gpumem=8000), labels={"app": "kept"})
    fleet.decide()
    return fleet


def changed(fleet: Fleet, name: str, **metadata: Any) -> None:
    """Have a pod change."""
    obj = fleet.objects[f"uid-{name}"]
    version = 1 + max(int(each["metadata"]["resourceVersion"]) for each in fleet.objects.values())
    fleet._version = version
    obj["metadata"].update(metadata, resourceVersion=str(version))
    fleet.engine.observe_pod(decode_pod(obj), fleet.now)


def test_who_ends_already_counts_towards_no_limit() -> None:
    fleet = full(perHour=1)
    changed(fleet, "low", deletionTimestamp="2026-01-01T00:01:00Z")
    for name in ("high", "higher"):
        fleet.come(name, 5, asks(gpumem=8000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert [victim.pod for victim in found.victims] == ["default/low"]
    evaluator = fleet.engine.preemptions.evaluator
    assert not any(evaluator.limits.reserved().values())


def test_who_ends_already_may_be_waited_for_where_no_eviction_is_allowed() -> None:
    fleet = full(perHour=0)
    changed(fleet, "low", deletionTimestamp="2026-01-01T00:01:00Z")
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert fleet.last["high"].preemption is not None


@pytest.mark.parametrize("budgets", [1, 2])
def test_who_ends_already_violates_no_budget(budgets: int) -> None:
    fleet = full()
    for number in range(budgets):
        fleet.engine.budgets.observe(budget("kept", 0, name=f"b{number}"))
    changed(fleet, "low", deletionTimestamp="2026-01-01T00:01:00Z")
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert [(victim.pod, victim.budgets) for victim in found.victims] == [("default/low", ())]


def test_the_delay_counts_from_when_the_scheduling_gates_went() -> None:
    fleet = full(delay="2m")
    fleet.come("high", 5, asks(gpumem=8000), schedulingGates=[{"name": "hold"}])
    fleet.now = 600.0
    fleet.objects["uid-high"]["spec"]["schedulingGates"] = []
    changed(fleet, "high", creationTimestamp=CREATED)
    fleet.decide()
    assert fleet.last["high"].preemption is None
    assert (
        "not eligible before 120 seconds have passed since its scheduling gates were removed."
        in fleet.last["high"].message
    )
    fleet.now = 719.0
    fleet.decide()
    assert fleet.last["high"].preemption is None
    fleet.now = 721.0
    fleet.decide()
    assert fleet.last["high"].preemption is not None


def test_each_attempt_to_preempt_is_counted_also_where_the_pod_may_not_yet() -> None:
    fleet = full(delay="2m")
    evaluator = fleet.engine.preemptions.evaluator
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert evaluator.attempts == 1
    fleet.come("never", 5, asks(gpumem=8000), preemptionPolicy="Never")
    fleet.now = 121.0
    fleet.decide()
    assert evaluator.attempts == 3


def test_who_needs_more_evictions_than_are_allowed_is_tried_again_once_a_budget_is_tightened() -> None:
    fleet = Fleet([node("a", cards("a", 2))], preemption={"mayPreempt": True, "perHour": 1, "budgets": "Exceed"})
    for name, priority, memory in (("one", 0, 4000), ("two", 0, 4000), ("alone", 1, 8000)):
        fleet.come(name, priority, asks(gpumem=memory), labels={"app": "kept"})
    fleet.decide()
    kind = fleet.engine.kinds["PodDisruptionBudget"]
    kind.observe(budget("kept", 2), fleet.now)
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert fleet.last["high"].message.endswith("allows 1 more eviction within the hour, and 2 are needed.")
    fleet.now += 20.0
    kind.observe(msgspec.structs.replace(budget("kept", 0), resource_version=2), fleet.now)
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert [victim.pod for victim in found.victims] == ["default/alone"]


def test_who_needs_more_evictions_than_are_allowed_is_tried_again_once_another_pod_has_run_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = {"mayPreempt": True, "perHour": 1, "minRuntime": "50s"}
    fleet = Fleet([node(name, cards(name, 1), labels={"name": name}) for name in "ab"], preemption=rules)
    fleet.engine.preemptions.evaluator.unix_ahead = NEW_YEAR
    monkeypatch.setattr(preemption_fleet, "CREATED", "2025-12-31T23:00:00Z")
    for name in ("one", "two"):
        fleet.come(name, 0, asks(gpumem=4000), nodeSelector={"name": "a"})
    fleet.decide()
    monkeypatch.setattr(preemption_fleet, "CREATED", CREATED)
    fleet.come("alone", 1, asks(gpumem=8000), nodeSelector={"name": "b"})
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    assert fleet.last["high"].message.endswith("allows 1 more eviction within the hour, and 2 are needed.")
    fleet.now = 51.0
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert [victim.pod for victim in found.victims] == ["default/alone"]
