"""Decisions on the cards of other makers than NVIDIA: what policies, quotas and dead plugins come to there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.builders import OURS, node, pod_object

from vgpu_scheduler.allocators import Budget, CardChoice
from vgpu_scheduler.dialects import HamiDialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import ResourceQuota, decode_pod
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


# Quotas --------------------------------------------------------------------------------------------------------------

AMD_CARDS = (("M0", 304), ("M1", 110))
AMD = {"hami.io/node-amd-register": json.dumps(
    [{"id": uuid, "index": i, "count": 10, "devmem": 1000, "devcore": cores, "type": "AMD", "health": True}
     for i, (uuid, cores) in enumerate(AMD_CARDS)]
)}  # fmt: skip
SGPU = {"metax-tech.com/node-gpu-devices": json.dumps(
    [{"uuid": "S0", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True, "linkZone": 1}]
)}  # fmt: skip


def amd(count: int = 1, cores: int | None = None) -> Obj:
    said = {} if cores is None else {"amd.com/gpucores": str(cores)}
    return {"amd.com/gpu": str(count), "amd.com/gpumem": "10", **said}


def limited(annotations: Obj, amounts: Obj, **hard: str) -> Engine:
    engine = engine_on(annotations, amounts)
    limits = {f"limits.{name}": limit for name, limit in hard.items()}
    assert engine.quotas.observe(ResourceQuota("default", "q", limits, uid="q", resource_version=1)) == ()
    return engine


def test_a_quota_on_compute_units_is_in_percent_of_cards() -> None:
    engine = limited(AMD, {"amd.com/gpu": "20"}, **{"amd.com/gpucores": "150"})
    assert given(decide(engine, amd(), name="whole")) in ([(1, 10, 304)], [(1, 10, 110)])
    assert engine.quotas.describe("default", engine.state) == (
        "namespace default uses 100 of 150 percent of limits.amd.com/gpucores"
    )
    refused = decide(engine, amd(cores=51), name="beyond", now=200.0)
    assert refused.message == "0/1 nodes are available: 1 ResourceQuotaNotFit."
    assert decide(engine, amd(cores=50), name="rest", now=300.0).placement is not None
    assert [report.used for report in engine.quotas.report(engine.state)] == [150]
    assert decide(engine, amd(cores=1), name="one", now=400.0).placement is None


def test_several_cards_count_together_in_percent_of_each() -> None:
    engine = limited(AMD, {"amd.com/gpu": "20"}, **{"amd.com/gpucores": "60"})
    assert decide(engine, amd(2, 31), name="beyond").placement is None
    assert sorted(given(decide(engine, amd(2, 30), name="fits", now=200.0))) == [(1, 10, 33), (1, 10, 91)]
    assert [report.used for report in engine.quotas.report(engine.state)] == [60]


def test_a_share_of_compute_units_is_refused_at_admission() -> None:
    engine = limited(AMD, {"amd.com/gpu": "20"}, **{"amd.com/gpucores": "100"})

    def refuses(limits: Obj) -> bool:
        claims = engine.dialect.claims(decode_pod(pod_object("p", {"limits": limits})))
        return engine.quotas.refuses("default", claims, engine.state)

    assert refuses(amd(2, 51))
    assert not refuses(amd(2, 50))
    decide(engine, amd(cores=90))
    assert refuses(amd(cores=11))
    assert not refuses(amd(cores=10))


@pytest.mark.parametrize("limit", ["8", "8Gi", "8192Mi"])
def test_a_quota_is_read_as_the_memory_of_pods_is(limit: str) -> None:
    engine = limited(SGPU, {"metax-tech.com/sgpu": "16"}, **{"metax-tech.com/vmemory": limit})
    share = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "10"}
    assert decide(engine, {**share, "metax-tech.com/vmemory": "9"}, name="beyond").placement is None
    for number, memory in enumerate(("4", "4Gi")):
        limits = {**share, "metax-tech.com/vmemory": memory}
        assert decide(engine, limits, name=memory, now=200.0 + number).placement is not None
    assert [(report.used, report.limit) for report in engine.quotas.report(engine.state)] == [(8192, 8192)]


def test_no_slice_goes_beyond_what_is_left_to_a_pod() -> None:
    """What is left is told for a maker that no quota limits today."""
    engine = engine_on(DRS, {"enflame.com/drs-gcu": "6"})
    waiting = decode_pod(pod_object("p", {"limits": {"enflame.com/drs-gcu": "1"}}))
    claims = engine.dialect.claims(waiting)
    for left, fits in ((6143, False), (6144, True)):
        choice = CardChoice(budgets=(Budget("Enflame", 1, left),))
        containers = engine.dialect.allocator({}, claims, choice).place(engine.state.devices, 0)
        assert (containers is not None) is fits
