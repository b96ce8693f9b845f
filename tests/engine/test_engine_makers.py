"""Decisions on the cards of other makers than NVIDIA: what policies, quotas and dead plugins come to there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.builders import OURS, node, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.allocators import Budget, CardChoice
from vgpu_scheduler.dialects import HamiDialect
from vgpu_scheduler.dialects.hami import Section, configured
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import ResourceQuota, decode_node, decode_pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import Policies, PolicyDefaults

Obj = dict[str, Any]

DRS = {"enflame.com/gcu-drs-capacity": json.dumps(
    {"devices": [{"index": "0", "minor": "0", "capacity": 6}], "profiles": {"1g.6gb": "0", "6g.40gb": "2"}}
)}  # fmt: skip


def engine_on(annotations: Obj, amounts: Obj, dialect: HamiDialect | None = None, **more: Any) -> Engine:
    """Return an engine with one node, ``n``, whose capacity is allocatable unless ``more`` says otherwise."""
    engine = Engine(dialect or HamiDialect(), Policies(PolicyDefaults()), [OURS])
    wire = node_object("n", annotations=annotations, allocatable=amounts, **more)
    wire["status"]["capacity"] = amounts
    engine.observe_node(decode_node(wire), 0.0)
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


# What is written -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("product", ["AMD, MI300X: VF;", "AMD Instinct MI300X VF"])
def test_a_products_name_can_be_read_back_whatever_is_in_it(product: str) -> None:
    cards = [{"id": "M0", "count": 10, "devmem": 1000, "devcore": 304, "type": product, "health": True}]
    engine = engine_on({"hami.io/node-amd-register": json.dumps(cards)}, {"amd.com/gpu": "20"})
    wanted = {"amd.com/gpu": "1", "amd.com/gpumem": "10"}
    decision = decide(engine, wanted, {"amd.com/use-gputype": "mi300x"})
    assert decision.placement is not None, decision.message
    written = engine.dialect.annotations(decision.placement, 1.0)
    tenant = pod_object("p", {"limits": wanted}, annotations=written, nodeName="n", started=True)
    usage = engine.dialect.usage(decode_pod(tenant))
    assert (usage.problem, usage.charges) == ("", {"M0": (1, 10, 304)})
    assert (f",{product}," in written["hami.io/amd-devices-allocated"]) is (product == "AMD Instinct MI300X VF")


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


# Policies ------------------------------------------------------------------------------------------------------------


def _json(*cards: Obj) -> str:
    return json.dumps([{"count": 4, "health": True, "index": i, **card} for i, card in enumerate(cards)])


ALL_MAKERS = {
    "hami.io/node-nvidia-register": _json(
        *({"id": f"G{i}", "devmem": 8000, "devcore": 100, "type": "T4", "mode": "hami-core"} for i in (0, 1))
    ),
    "hami.io/node-dcu-register": "D0,4,65536,100,DCU-Z100,0,true:D1,4,65536,100,DCU-Z100,1,true:",
    "hami.io/node-register-Ascend910B4": _json(
        *({"id": f"A{i}", "devmem": 32768, "devcore": 20, "type": "Ascend910B4", "numa": i} for i in (0, 1))
    ),
    "hami.io/node-va-register": _json({"id": "V0", "devmem": 1000, "count": 1}, {"id": "V1", "devmem": 1000}),
    **AMD,
    **DRS,
    "metax-tech.com/node-gpu-devices": json.dumps(
        [{"uuid": "S0", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True,
          "qosPolicy": "best-effort", "linkZone": 1}]
    ),
}  # fmt: skip
AMOUNTS = {
    "nvidia.com/gpu": "8", "hygon.com/dcunum": "8", "huawei.com/Ascend910B4": "8", "amd.com/gpu": "20",
    "enflame.com/drs-gcu": "6", "metax-tech.com/sgpu": "16", "aws.amazon.com/neuron": "2",
    "aws.amazon.com/neuroncore": "4", "mthreads.com/vgpu": "100", "mthreads.com/sgpu-core": "32",
    "mthreads.com/sgpu-memory": "192", "cambricon.com/vmlu": "4", "cambricon.com/mlu.smlu.vcore": "200",
    "cambricon.com/mlu.smlu.vmemory": "200", "vastaitech.com/va": "4",
}  # fmt: skip
ASKS = {
    "NVIDIA": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"},
    "Hygon": {"hygon.com/dcunum": "1"},
    "Ascend": {"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": "8192"},
    "AMD": amd(),
    "Enflame": {"enflame.com/drs-gcu": "1"},
    "MetaX": {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "1"},
    "Neuron devices": {"aws.amazon.com/neuron": "1"},
    "Neuron cores": {"aws.amazon.com/neuroncore": "1"},
    "Moore Threads": {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "4"},
    "Cambricon": {"cambricon.com/vmlu": "1"},
    "Vastai": {"vastaitech.com/va": "1"},
}


def under(spec: Obj) -> Engine:
    engine = engine_on(ALL_MAKERS, AMOUNTS)
    engine.in_force.observe(policy("p", spec))
    return engine


@pytest.mark.parametrize("maker", ASKS)
def test_cards_that_nobody_joins(maker: str) -> None:
    engine = under({"selector": {"matchLabels": {"team": "red"}}, "devices": {"exclusive": True}})
    wire = pod_object("mine", {"limits": ASKS[maker]}, labels={"team": "red"})
    engine.observe_pod(decode_pod(wire), 1.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None, decision.message
    (mine,) = (card.uuid for container in decision.placement.containers for card in container)
    for number in range(100):
        other = decide(engine, ASKS[maker], name=f"other-{number}", now=100.0 + 100 * number)
        if other.placement is None:
            break
        assert mine not in [card.uuid for container in other.placement.containers for card in container]
    else:
        pytest.fail("there is no end to the cards")


def test_cards_that_others_could_join_are_left_out() -> None:
    engine = under({"devices": {"exclusive": True}})
    wire = {"limits": {"vastaitech.com/va": "2"}}  # of the two cards one takes four tenants
    engine.observe_pod(decode_pod(pod_object("p", wire)), 1.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert "CardDeniedByPolicy" in decision.message


@pytest.mark.parametrize("maker", ASKS)
def test_cards_without_a_mode_are_in_any(maker: str) -> None:
    assert decide(under({"devices": {"modes": ["hami-core"]}}), ASKS[maker]).placement is not None
    if maker == "NVIDIA":
        assert "CardDeniedByPolicy" in decide(under({"devices": {"modes": ["mps"]}}), ASKS[maker]).message


@pytest.mark.parametrize(
    ("maker", "cores"),
    [
        ("NVIDIA", 20), ("Hygon", 20), ("Cambricon", 20), ("MetaX", 20), ("AMD", 22), ("Moore Threads", 4),
        ("Ascend", 0), ("Enflame", 17), ("Neuron devices", 3), ("Neuron cores", 1), ("Vastai", 0),
    ],
)  # fmt: skip
def test_default_compute_is_in_percent_of_a_card(maker: str, cores: int) -> None:
    decision = decide(under({"defaults": {"cores": 20}, "devices": {"policy": "binpack"}}), ASKS[maker])
    assert isinstance(given(decision), list), decision.message
    assert [each[2] for each in given(decision)] == [cores]


def test_default_compute_of_soft_chips_is_in_percent() -> None:
    engine = engine_on({**ALL_MAKERS, "hami-vnpu-core": "true"}, AMOUNTS)
    engine.in_force.observe(policy("p", {"defaults": {"cores": 20}}))
    soft = {"huawei.com/vnpu-mode": "hami-core"}
    assert given(decide(engine, ASKS["Ascend"], soft)) == [(1, 8192, 20)]


def test_default_compute_is_of_each_of_several_cards() -> None:
    two = {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-memory": "8"}
    assert given(decide(under({"defaults": {"cores": 20}}), two)) == [(1, 2048, 4), (1, 2048, 4)]


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({**ASKS["Moore Threads"], "mthreads.com/sgpu-core": "4"}, 25),
        (amd(cores=30), 30),
        (amd(2, 30), 60),
        (ASKS["Neuron cores"], 50),
        (ASKS["Neuron devices"], 100),
        (ASKS["Ascend"], 100),
    ],
)
def test_limits_on_compute_are_in_percent_of_a_card(limits: Obj, most: int) -> None:
    assert decide(under({"limits": {"coresPerPod": most}}), limits).placement is not None
    refused = decide(under({"limits": {"coresPerPod": most - 1}}), limits)
    assert f"pod asks for {most} percent of compute" in refused.message


@pytest.mark.parametrize("limits", [{"hygon.com/dcunum": "2"}, {"huawei.com/Ascend910B4": "2"}])
def test_a_numa_node_for_all_cards_holds_for_every_maker(limits: Obj) -> None:
    assert decide(under({"devices": {"policy": "binpack"}}), limits).placement is not None
    assert "NumaNotFit" in decide(under({"devices": {"numa": "Required"}}), limits).message


def test_chips_that_go_together_are_looked_for_on_each_numa_node() -> None:
    """Node 0 has one module of two chips and a half; node 1 has halves only."""
    listed = [(0, 0), (1, 0), (2, 0), (4, 1), (6, 1), (9, 1)]
    register = _json(
        *({"id": f"C{i}", "index": i, "devmem": 65536, "devcore": 20, "type": "Ascend910C", "numa": numa}
          for i, numa in listed)
    )  # fmt: skip
    for number in ("2", "4"):
        notes = {"hami.io/node-register-Ascend910C": register}
        engine = engine_on(notes, {"huawei.com/Ascend910C": "40"})
        engine.in_force.observe(policy("p", {"devices": {"numa": "Required"}}))
        decision = decide(engine, {"huawei.com/Ascend910C": number})
        if number == "2":
            assert decision.placement is not None, decision.message
            assert {card.uuid for card in decision.placement.containers[0]} == {"C0", "C1"}
        else:
            assert decision.placement is None


@pytest.mark.parametrize("reviewed", [False, True])
@pytest.mark.parametrize(
    ("section", "defaults", "share"),
    [
        ({}, {}, (1, 8000, 100)),
        ({}, {"cores": 20}, (1, 8000, 20)),
        ({}, {"cores": 0}, (1, 8000, 0)),
        ({}, {"memory": "4Gi"}, (1, 4096, 0)),
        ({}, {"memory": "4Gi", "cores": 20}, (1, 4096, 20)),
        ({"defaultCores": 30}, {}, (1, 8000, 100)),  # as HAMi has it
        ({"defaultCores": 30}, {"cores": 20}, (1, 8000, 20)),
    ],
)
def test_defaults_go_before_whole_cards_for_nobody_else(
    section: Obj, defaults: Obj, share: tuple[int, ...], *, reviewed: bool
) -> None:
    dialect = HamiDialect(configured(Section({"nvidia": {"wholeIsExclusive": True, **section}})))
    engine = engine_on(ALL_MAKERS, AMOUNTS, dialect)
    if defaults:
        engine.in_force.observe(policy("p", {"defaults": defaults}))
    wire = pod_object("p", {"limits": {"nvidia.com/gpu": "1"}})
    if reviewed:
        answer = review(wire, "default", AdmissionRules(dialect, (OURS,))).pod
        assert answer is not None
        wire = dict(answer)
    engine.observe_pod(decode_pod(wire), 1.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert given(decision) == [share]


NO_MODE = {"podOverrides": {"allow": ["devicePolicy"]}}
SHARE = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "1", "metax-tech.com/vcore": "10"}
ONLINE = {"metax-tech.com/sgpu-app-class": "online"}


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        (ASKS["Ascend"], {"huawei.com/vnpu-mode": "hami-core"}),
        (SHARE, ONLINE),
        (SHARE, {"metax-tech.com/sgpu-qos-policy": "burst-share"}),
    ],
)
def test_what_a_node_would_follow_is_refused_where_no_policy_allows_it(limits: Obj, annotations: Obj) -> None:
    name = next(iter(annotations))
    refused = decide(under(NO_MODE), limits, annotations)
    assert refused.outcome is Outcome.REFUSED
    assert f"annotation {name}: podOverrides of ClusterVGPUPolicy p does not allow it" in refused.message
    others = decide(under(NO_MODE), ASKS["Hygon"], annotations)
    assert others.placement is not None, "their nodes do not know it"
    assert [warning.split()[1] for warning in others.warnings] == [name]
    allowed = {"podOverrides": {"allow": ["mode"]}}
    assert decide(under(allowed), limits, annotations).outcome is not Outcome.REFUSED


def test_what_asks_for_nothing_needs_no_permission() -> None:
    engine = under(NO_MODE)
    quality = {"metax-tech.com/sgpu-qos-policy": "best-effort"}  # as the webhook writes it
    for name in ("first", "second"):
        decision = decide(engine, SHARE, quality, name)
        assert decision.placement is not None, decision.message
        assert decision.warnings == ()


def test_a_wish_about_the_choice_of_cards_goes_with_their_policy() -> None:
    name = "metax-tech.com/sgpu-topology-aware"
    decision = decide(under({"podOverrides": {"allow": ["mode"]}}), SHARE, {name: "true"})
    assert decision.warnings == (
        f"annotation {name} is not followed: podOverrides of ClusterVGPUPolicy p does not allow it",
    )
    assert decide(under({"podOverrides": {"allow": ["devicePolicy"]}}), SHARE, {name: "true"}).warnings == ()


def test_every_wish_has_a_word() -> None:
    dialect = HamiDialect()
    assert set(dialect.pod_annotations) == {name for names in dialect.overrides.values() for name in names}


# The nearest miss ----------------------------------------------------------------------------------------------------

SOFT = {"huawei.com/vnpu-mode": "hami-core"}
NPU = "huawei.com/Ascend910B4"


def nearest(engine: Engine, limits: Obj, annotations: Obj | None = None) -> str:
    decision = decide(engine, limits, annotations, "missed", 900.0)
    assert decision.placement is None
    waiting = engine.state.pod("uid-missed")
    assert waiting is not None
    return str(engine.cycle.nearest(waiting))


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
    chip = _json({"id": "A0", "devmem": 32768, "devcore": 20, "type": "Ascend910B4"})
    engine = engine_on({"hami.io/node-register-Ascend910B4": chip, "hami-vnpu-core": "true"}, {NPU: "4"})
    assert decide(engine, npu(1000, 50), SOFT).placement is not None
    assert nearest(engine, limits, SOFT) == says


def test_compute_units_are_missed_in_percent() -> None:
    engine = engine_on(AMD, {"amd.com/gpu": "20"})
    assert given(decide(engine, amd(2, 50), name="first")) == [(1, 10, 55), (1, 10, 152)]
    assert nearest(engine, amd(cores=60)) == "nearest: 50 of 60 percent cores free on n/M0"


def test_what_is_not_asked_of_a_makers_cards_is_not_missed() -> None:
    """Cards of another maker have too little of what nobody asks of them, and slices are not held against memory."""
    slices = _json({"id": "X0", "count": 2, "devmem": 98304, "devcore": 100, "type": "XPU"})
    notes = {"hami.io/node-register-xpu": slices, "hami.io/node-va-register": _json({"id": "V0", "count": 1})}
    engine = engine_on(notes, {"kunlunxin.com/vxpu": "9", "vastaitech.com/va": "9"})
    assert decide(engine, {"vastaitech.com/va": "1"}, name="first").placement is not None
    both = {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576", "vastaitech.com/va": "1"}
    assert nearest(engine, both) == "nearest: 0 of 1 shares slots free on n/V0"
