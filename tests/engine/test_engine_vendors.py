"""Decisions on the cards of other vendors than NVIDIA: dead plugins, quotas, and what is told of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.engine.builders import node, pod_object
from tests.engine.engine_vendors import (
    AMD,
    DRS,
    SGPU,
    Obj,
    amd,
    decide,
    engine_on,
    given,
    json_cards,
)

from vgpu_scheduler.allocators import CardChoice, QuotaRemainder
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, card_verdicts
from vgpu_scheduler.kube import ResourceQuota, decode_pod
from vgpu_scheduler.model import NO_USAGE

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
    alone = {v.key for v in hami_dialect().claims.vendors if set(v.claims.counts) & set(v.claims.unadvertised)}
    assert alone == {"Enflame"}


# What is written -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("product", ["AMD, MI300X: VF;", "AMD Instinct MI300X VF"])
def test_a_products_name_can_be_read_back_whatever_is_in_it(product: str) -> None:
    cards = [{"id": "M0", "count": 10, "devmem": 1000, "devcore": 304, "type": product, "health": True}]
    engine = engine_on({"hami.io/node-amd-register": json.dumps(cards)}, {"amd.com/gpu": "20"})
    wanted = {"amd.com/gpu": "1", "amd.com/gpumem": "10"}
    decision = decide(engine, wanted, {"amd.com/use-gputype": "mi300x"})
    assert decision.placement is not None, decision.message
    written = engine.dialects.annotations(decision.placement, 1.0)
    tenant = pod_object("p", {"limits": wanted}, annotations=written, nodeName="n", started=True)
    usage = engine.dialects.uses(decode_pod(tenant)).get("hami", NO_USAGE)
    assert (usage.problem, usage.charges) == ("", {"M0": (1, 10, 304)})
    assert (f",{product}," in written["hami.io/amd-devices-allocated"]) is (product == "AMD Instinct MI300X VF")


# Quotas --------------------------------------------------------------------------------------------------------------


def limited(annotations: Obj, amounts: Obj, **hard: str) -> Engine:
    engine = engine_on(annotations, amounts)
    limits = {f"limits.{name}": limit for name, limit in hard.items()}
    assert engine.quota_limits.observe(ResourceQuota("default", "q", limits, uid="q", resource_version=1)) == ()
    return engine


def test_a_quota_on_compute_units_is_in_percent_of_cards() -> None:
    engine = limited(AMD, {"amd.com/gpu": "20"}, **{"amd.com/gpucores": "150"})
    assert given(decide(engine, amd(), name="whole")) in ([(1, 10, 304)], [(1, 10, 110)])
    assert engine.quota_limits.describe("default", engine.state) == (
        "namespace default uses 100 of 150 percent of limits.amd.com/gpucores"
    )
    refused = decide(engine, amd(cores=51), name="beyond", now=200.0)
    assert refused.message == "0/1 nodes are available: 1 ResourceQuotaNotFit."
    assert decide(engine, amd(cores=50), name="rest", now=300.0).placement is not None
    assert [report.used for report in engine.quota_limits.report(engine.state)] == [150]
    assert decide(engine, amd(cores=1), name="one", now=400.0).placement is None


def test_several_cards_count_together_in_percent_of_each() -> None:
    engine = limited(AMD, {"amd.com/gpu": "20"}, **{"amd.com/gpucores": "60"})
    assert decide(engine, amd(2, 31), name="beyond").placement is None
    assert sorted(given(decide(engine, amd(2, 30), name="fits", now=200.0))) == [(1, 10, 33), (1, 10, 91)]
    assert [report.used for report in engine.quota_limits.report(engine.state)] == [60]


def test_a_share_of_compute_units_is_refused_at_admission() -> None:
    engine = limited(AMD, {"amd.com/gpu": "20"}, **{"amd.com/gpucores": "100"})

    def refuses(limits: Obj) -> bool:
        claims = engine.dialects.first.claims.read(decode_pod(pod_object("p", {"limits": limits})))
        return engine.quota_limits.refuses("default", claims, engine.state)

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
    assert [(report.used, report.limit) for report in engine.quota_limits.report(engine.state)] == [(8192, 8192)]


def test_no_slice_goes_beyond_what_is_left_to_a_pod() -> None:
    """What is left is told for a vendor that no quota limits today."""
    engine = engine_on(DRS, {"enflame.com/drs-gcu": "6"})
    waiting = decode_pod(pod_object("p", {"limits": {"enflame.com/drs-gcu": "1"}}))
    claims = engine.dialects.first.claims.read(waiting)
    for left, fits in ((6143, False), (6144, True)):
        choice = CardChoice(remainders=(QuotaRemainder("Enflame", 1, left),))
        containers = engine.dialects.first.claims.allocator({}, claims, choice).place(engine.state.devices, 0)
        assert (containers is not None) is fits


@pytest.mark.parametrize("seed", range(3))
def test_nobody_ever_gets_more_percent_than_a_quota_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    totals = {f"M{i}": cores for i, cores in enumerate((304, 110, 20, 7))}
    cards = [{"id": uuid, "devmem": 1000, "devcore": cores, "type": "AMD"} for uuid, cores in totals.items()]
    limit = int(rng.integers(50, 300))
    engine = limited(
        {"hami.io/node-amd-register": json_cards(*cards)}, {"amd.com/gpu": "99"}, **{"amd.com/gpucores": str(limit)}
    )
    placed = 0
    for number in range(40):
        wanted = amd(int(rng.choice([1, 1, 2])), int(rng.integers(1, 60)))
        placed += decide(engine, wanted, name=f"p{number}", now=100.0 * (number + 1)).placement is not None
        held = {uuid: amounts[2] for uuid, amounts in engine.state.ledger().get("n", {}).items()}
        percent = sum(-(-100 * cores // totals[uuid]) for uuid, cores in held.items())
        assert [report.used for report in engine.quota_limits.report(engine.state)] == [percent]
        assert percent <= limit
        if rng.random() < 0.3:
            engine.remove_pod(f"uid-p{int(rng.integers(0, number + 1))}", 100.0 * (number + 1) + 1)
        assert not engine.state.drift()
    assert placed > 3
    for number in range(40):
        engine.remove_pod(f"uid-p{number}", 9000.0)
    assert [report.used for report in engine.quota_limits.report(engine.state)] == [0]


# The nearest miss ----------------------------------------------------------------------------------------------------

SOFT = {"huawei.com/vnpu-mode": "hami-core"}
NPU = "huawei.com/Ascend910B4"


def nearest(engine: Engine, limits: Obj, annotations: Obj | None = None) -> str:
    decision = decide(engine, limits, annotations, "missed", 900.0)
    assert decision.placement is None
    waiting = engine.state.pod("uid-missed")
    assert waiting is not None
    return str(engine.algorithm.nearest(waiting))


def npu(memory: int, cores: int) -> Obj:
    return {NPU: "1", f"{NPU}-memory": str(memory), f"{NPU}-core": str(cores)}


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (npu(40000, 30), "nearest: 31768 of 40000 MiB memory free on n/A0"),
        (npu(1000, 60), "nearest: 50 of 60 percent cores free on n/A0"),
    ],
)
def test_compute_of_soft_chips_is_missed_in_percent(limits: Obj, says: str) -> None:
    chip = json_cards({"id": "A0", "devmem": 32768, "devcore": 20, "type": "Ascend910B4"})
    engine = engine_on({"hami.io/node-register-Ascend910B4": chip, "hami-vnpu-core": "true"}, {NPU: "4"})
    assert decide(engine, npu(1000, 50), SOFT).placement is not None
    assert nearest(engine, limits, SOFT) == says


def test_compute_units_are_missed_in_percent() -> None:
    engine = engine_on(AMD, {"amd.com/gpu": "20"})
    assert given(decide(engine, amd(2, 50), name="first")) == [(1, 10, 55), (1, 10, 152)]
    assert nearest(engine, amd(cores=60)) == "nearest: 50 of 60 percent cores free on n/M0"
    waiting = engine.state.pod("uid-missed")
    assert waiting is not None
    verdicts = card_verdicts(engine.algorithm, waiting, "n")
    assert [str(verdict.lack) for verdict in verdicts] == ["50 of 60 percent cores free"] * 2


def test_a_percentage_of_few_compute_units_is_missed_as_at_least_one_unit() -> None:
    card = json_cards({"id": "M0", "count": 10, "devmem": 65536, "devcore": 64, "type": "AMDGPU"})
    engine = engine_on({"hami.io/node-amd-register": card}, {"amd.com/gpu": "10"})
    assert given(decide(engine, amd(cores=100), name="first")) == [(1, 10, 64)]
    assert nearest(engine, amd(cores=1)) == "nearest: 0 of 2 percent cores free on n/M0"  # one of 64


def test_what_is_not_asked_of_a_makers_cards_is_not_missed() -> None:
    """Cards of another vendor have too little of what nobody asks of them, and slices are not held against memory."""
    slices = json_cards({"id": "X0", "count": 2, "devmem": 98304, "devcore": 100, "type": "XPU"})
    notes = {"hami.io/node-register-xpu": slices, "hami.io/node-va-register": json_cards({"id": "V0", "count": 1})}
    engine = engine_on(notes, {"kunlunxin.com/vxpu": "9", "vastaitech.com/va": "9"})
    assert decide(engine, {"vastaitech.com/va": "1"}, name="first").placement is not None
    both = {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576", "vastaitech.com/va": "1"}
    assert nearest(engine, both) == "nearest: 0 of 1 shares free on n/V0"
