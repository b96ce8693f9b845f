"""Whom an engine chooses otherwise than kube-scheduler, by its own measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.golden.deviations import Deviations
from tests.golden.kubernetes import cases, decide
from tests.naive.kubernetes_quirks import KubernetesQuirk

from vgpu_scheduler.engine.preemption.victims import Cost, Victims, by_importance
from vgpu_scheduler.kube import decode_budget, decode_pod, violating_budgets

CHEAPER = KubernetesQuirk.REPRIEVES_AMONG_ALL_PRIORITIES.value


def cost(case: dict[str, Any], node: str, names: Sequence[str]) -> Cost:
    """Return what the end of some pods costs by kube-scheduler's order."""
    budgets = [decode_budget(found) for found in case["objects"]["poddisruptionbudgets"]]
    pods = by_importance(pod for pod in map(decode_pod, case["pods"]) if pod.key in names)
    assert len(pods) == len(names)
    return Victims(node, tuple(pods), len(violating_budgets(pods, budgets))).cost


def test_whom_the_engine_chooses_otherwise_than_kube_scheduler_costs_less() -> None:
    (listed,) = (each.cases for each in Deviations.read().all if each.quirk == CHEAPER)
    found = [case for case in cases("preemption") if case["id"] in listed]
    assert len(found) == len(listed)
    for case in found:
        answer, theirs = decide(case).preemption, case["expect"]["preemption"]
        assert answer is not None
        chosen = answer["chosen"]
        assert cost(case, chosen.node, chosen.victims) < cost(case, theirs["nominated"], theirs["victims"]), case["id"]
