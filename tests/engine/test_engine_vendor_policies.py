"""Policies on the cards of all vendors: what they say means the same everywhere."""

from __future__ import annotations

import pytest
from tests.engine.builders import OURS, pod_object
from tests.engine.engine_vendors import (
    ALL_VENDORS,
    AMOUNTS,
    ASKS,
    Obj,
    amd,
    decide,
    engine_on,
    given,
    json_cards,
    under,
)
from tests.policy.resources import policy

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Outcome


@pytest.mark.parametrize("vendor", ASKS)
def test_cards_that_nobody_joins(vendor: str) -> None:
    engine = under({"selector": {"matchLabels": {"team": "red"}}, "devices": {"exclusive": True}})
    wire = pod_object("mine", {"limits": ASKS[vendor]}, labels={"team": "red"})
    engine.observe_pod(decode_pod(wire), 1.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None, decision.message
    (mine,) = (card.uuid for container in decision.placement.containers for card in container)
    for number in range(100):
        other = decide(engine, ASKS[vendor], name=f"other-{number}", now=100.0 + 100 * number)
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


@pytest.mark.parametrize("vendor", ASKS)
def test_cards_without_a_mode_are_in_any(vendor: str) -> None:
    assert decide(under({"devices": {"modes": ["hami-core"]}}), ASKS[vendor]).placement is not None
    if vendor == "NVIDIA":
        assert "CardDeniedByPolicy" in decide(under({"devices": {"modes": ["mps"]}}), ASKS[vendor]).message


@pytest.mark.parametrize(
    ("vendor", "cores"),
    [
        ("NVIDIA", 20), ("Hygon", 20), ("Cambricon", 20), ("MetaX", 20), ("AMD", 22), ("Moore Threads", 4),
        ("Ascend", 0), ("Enflame", 17), ("Neuron devices", 3), ("Neuron cores", 1), ("Vastai", 0),
    ],
)  # fmt: skip
def test_default_compute_is_in_percent_of_a_card(vendor: str, cores: int) -> None:
    decision = decide(under({"defaults": {"cores": 20}, "devices": {"policy": "binpack"}}), ASKS[vendor])
    assert isinstance(given(decision), list), decision.message
    assert [each[2] for each in given(decision)] == [cores]


def test_default_compute_of_soft_chips_is_in_percent() -> None:
    engine = engine_on({**ALL_VENDORS, "hami-vnpu-core": "true"}, AMOUNTS)
    engine.policy_tracker.observe(policy("p", {"defaults": {"cores": 20}}))
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
    assert f" {most} percent of compute" in refused.message


@pytest.mark.parametrize("limits", [{"hygon.com/dcunum": "2"}, {"huawei.com/Ascend910B4": "2"}])
def test_a_numa_node_for_all_cards_holds_for_every_maker(limits: Obj) -> None:
    assert decide(under({"devices": {"policy": "binpack"}}), limits).placement is not None
    assert "NumaNotFit" in decide(under({"devices": {"numa": "Required"}}), limits).message


def test_chips_that_go_together_are_looked_for_on_each_numa_node() -> None:
    """Node 0 has one module of two chips and a half; node 1 has halves only."""
    listed = [(0, 0), (1, 0), (2, 0), (4, 1), (6, 1), (9, 1)]
    register = json_cards(
        *({"id": f"C{i}", "index": i, "devmem": 65536, "devcore": 20, "type": "Ascend910C", "numa": numa}
          for i, numa in listed)
    )  # fmt: skip
    for number in ("2", "4"):
        notes = {"hami.io/node-register-Ascend910C": register}
        engine = engine_on(notes, {"huawei.com/Ascend910C": "40"})
        engine.policy_tracker.observe(policy("p", {"devices": {"numa": "Required"}}))
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
    dialect = hami_dialect(configured(VendorSection({"nvidia": {"wholeIsExclusive": True, **section}})))
    engine = engine_on(ALL_VENDORS, AMOUNTS, dialect)
    if defaults:
        engine.policy_tracker.observe(policy("p", {"defaults": defaults}))
    wire = pod_object("p", {"limits": {"nvidia.com/gpu": "1"}})
    if reviewed:
        answer = review(
            wire, "default", AdmissionRules(Dialects([dialect]), (OURS,), defaults=engine.policies.claim_defaults)
        ).pod
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
    dialect = hami_dialect()
    assert set(dialect.claims.pod_annotations) == {
        name for names in dialect.claims.overrides.values() for name in names
    }


@pytest.mark.parametrize(("number", "fits"), [(1, True), (2, True), (4, True), (8, False)])
def test_a_numa_node_is_a_wing_of_a_server(number: int, *, fits: bool) -> None:
    engine = engine_on({}, {"kunlunxin.com/xpu": "8"})
    engine.policy_tracker.observe(policy("p", {"devices": {"numa": "Required"}}))
    decision = decide(engine, {"kunlunxin.com/xpu": str(number)})
    assert (decision.placement is not None) is fits
    if decision.placement is not None:
        indexes = {int(card.uuid.rsplit("-", 1)[-1]) for card in decision.placement.containers[0]}
        assert len(indexes) == number
        assert len({index // 4 for index in indexes}) == 1


@pytest.mark.parametrize("defaults", [{"memory": "512Mi"}, {"cores": 20}, {"memory": "512Mi", "cores": 20}], ids=str)
@pytest.mark.parametrize("vendor", ASKS)
def test_defaults_are_the_same_with_and_without_the_webhook(vendor: str, defaults: Obj) -> None:
    count, number = next(iter(ASKS[vendor].items()))

    def shares(*, reviewed: bool) -> list[tuple[int, ...]] | str:
        engine = under({"defaults": defaults})
        wire = pod_object("p", {"limits": {count: number}})
        if reviewed:
            answer = review(
                wire,
                "default",
                AdmissionRules(Dialects([engine.dialects.first]), (OURS,), defaults=engine.policies.claim_defaults),
            )
            assert answer.pod is not None
            wire = dict(answer.pod)
        engine.observe_pod(decode_pod(wire), 1.0)
        decision = engine.attempt(1.0)
        assert decision is not None
        return given(decision)

    assert shares(reviewed=True) == shares(reviewed=False)


@pytest.mark.parametrize(
    ("limits", "memory", "fits"),
    [
        ({"enflame.com/drs-gcu": "1"}, "30Gi", False),
        ({"enflame.com/drs-gcu": "1"}, "40Gi", True),
        ({"enflame.com/gcu-core": "50"}, "30Gi", False),
        ({"vastaitech.com/va": "1"}, "1Gi", True),  # their plugin says nothing of memory
        ({"aws.amazon.com/neuron": "1"}, "1Gi", True),
    ],
)
def test_a_claim_that_names_no_memory_counts_as_all_of_it(limits: Obj, memory: str, *, fits: bool) -> None:
    decision = decide(under({"limits": {"memoryPerPod": memory}}), limits)
    assert (decision.placement is not None) is fits, decision.message
    assert ("CardDeniedByPolicy" in decision.message) is not fits


@pytest.mark.parametrize("app_class", ["online", "offline"])
def test_cards_for_nobody_else_are_not_for_pods_that_share_theirs(app_class: str) -> None:
    refused = decide(under({"devices": {"exclusive": True}}), SHARE, {"metax-tech.com/sgpu-app-class": app_class})
    assert "leave out annotation metax-tech.com/sgpu-app-class" in refused.message


@pytest.mark.parametrize("cores", [0, 101])
def test_compute_of_amd_cards_is_never_none(cores: int) -> None:
    refused = decide(engine_on(ALL_VENDORS, AMOUNTS), amd(cores=cores))
    assert f"amd.com/gpucores: {cores} is not a percentage of a card" in refused.message
    least = under({"defaults": {"cores": 0}})
    assert [share[2] for share in given(decide(least, {"amd.com/gpu": "1"}))] in ([1], [3])
