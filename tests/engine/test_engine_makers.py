"""Decisions on the cards of other makers than NVIDIA: what policies, quotas and dead plugins come to there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.builders import OURS, node, pod_object

from vgpu_scheduler.dialects import HamiDialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Decision
from vgpu_scheduler.policy import Policies, PolicyDefaults

Obj = dict[str, Any]

DRS = {"enflame.com/gcu-drs-capacity": json.dumps(
    {"devices": [{"index": "0", "minor": "0", "capacity": 6}], "profiles": {"1g.6gb": "0", "6g.40gb": "2"}}
)}  # fmt: skip


def engine_on(annotations: Obj, amounts: Obj, dialect: HamiDialect | None = None, **more: Any) -> Engine:
    """Return an engine with one node, ``n``, whose capacity is allocatable unless ``more`` says otherwise."""
    engine = Engine(dialect or HamiDialect(), Policies(PolicyDefaults()), [OURS])
    engine.observe_node(node("n", annotations=annotations, allocatable=amounts, **more), 0.0)
    return engine


def decide(
    engine: Engine, limits: Obj, annotations: Obj | None = None, name: str = "p", now: float = 100.0
) -> Decision:
    wire = pod_object(name, {"limits": limits, "requests": limits}, annotations=annotations)
    engine.observe_pod(decode_pod(wire), now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.error is None
    return decision


def given(decision: Decision) -> list[tuple[int, ...]] | str:
    """Return shares, memory and cores of each card, or why there are none."""
    if decision.placement is None:
        return decision.message
    return [card.amounts[:3] for container in decision.placement.containers for card in container]


# Plugins that are gone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"enflame.com/drs-gcu": "1"}, {"enflame.com/gcu-memory": "4"}])
def test_slices_of_a_plugin_that_is_gone_are_given_to_nobody(limits: Obj) -> None:
    engine = engine_on(DRS, {"enflame.com/drs-gcu": "6"})
    assert given(decide(engine, limits, name="before")) == [(1, 6144, 17)]
    engine.observe_node(node("n", annotations=DRS, allocatable={"enflame.com/drs-gcu": "0"}, version=2), 101.0)
    assert decide(engine, limits, now=200.0).placement is None
    assert engine.state.ledger()["n"] == {"n-enflame-drs-0": (1, 6144, 17, 1)}, "who had slices has them still"
    engine.observe_node(node("n", annotations=DRS, allocatable={"enflame.com/drs-gcu": "6"}, version=3), 201.0)
    assert given(decide(engine, limits, name="after", now=300.0)) == [(1, 6144, 17)]


def test_a_claim_that_names_nothing_advertised_has_cards_that_know_whether_their_plugin_lives() -> None:
    """The resource filter looks at claims only through what nodes advertise."""
    alone = {v.key for v in HamiDialect().vendors if set(v.claims.counts) & set(v.claims.unadvertised)}
    assert alone == {"Enflame"}
