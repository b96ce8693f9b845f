"""Several dialects in one engine: who owns a name, whose a pod is, and what it is charged."""

from __future__ import annotations

import pytest
from tests.engine.builders import OURS, allocation, card, node_object
from tests.engine.dialect_worlds import (
    CORE,
    GIB,
    GPU,
    HAMI,
    HAMI_KEY,
    KOORDINATOR,
    KOORDINATOR_KEY,
    MEMORY,
    NUMBER,
    RATIO,
    VOLCANO,
    VOLCANO_KEY,
    Obj,
    asking,
    beside,
    decided,
    engine_of,
    koordinator_node,
    mixed,
    under,
    volcano_node,
)

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import Dialect, Dialects
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.intake import inventory_kind
from vgpu_scheduler.kube import DecodeError, NodeInventory, decode_node
from vgpu_scheduler.model import Outcome

# Who owns a name -----------------------------------------------------------------------------------------------------


def test_each_pod_goes_to_the_node_of_its_dialect_and_carries_its_annotations() -> None:
    engine = mixed()
    for asked, node, key in (
        ({GPU: 1, "nvidia.com/gpumem": 1000}, "h", HAMI_KEY),
        ({NUMBER: 1, MEMORY: 1000}, "v", VOLCANO_KEY),
        ({CORE: 50, RATIO: 50}, "k", KOORDINATOR_KEY),
    ):
        decision = decided(engine, asking(f"on-{node}", asked))
        assert decision.placement is not None, decision.message
        assert decision.placement.node == node
        assert key in engine.dialects.annotations(decision.placement, 0)
    assert set(engine.state.ledger()) == {"h", "v", "k"}
    assert not engine.state.drift()


@pytest.mark.parametrize(
    ("listed", "owner"),
    [
        ((HAMI, KOORDINATOR), "hami"),
        ((KOORDINATOR, HAMI), "koordinator"),
        ((VOLCANO, KOORDINATOR, HAMI), "koordinator"),
    ],
)
def test_the_first_listed_dialect_that_knows_a_name_owns_it(listed: tuple[Dialect, ...], owner: str) -> None:
    dialects = Dialects(listed)
    assert dialects.of_waiting(asking("p", {GPU: 1})).name == owner


@pytest.mark.parametrize("asked", [{GPU: 1, CORE: 50}, {NUMBER: 1, "nvidia.com/gpumem": 5}])
def test_a_waiting_pod_whose_names_belong_to_two_is_refused_by_name(asked: dict[str, object]) -> None:
    decision = decided(mixed(), asking("p", asked))
    assert decision.outcome is Outcome.REFUSED
    assert all(name in decision.message for name in asked)
    assert "belong to different dialects" in decision.message


def test_a_pod_without_devices_has_no_dialect() -> None:
    decision = decided(mixed(), asking("p", {}))
    assert decision.placement is not None
    assert decision.placement.dialect == ""


def test_dialects_have_different_names() -> None:
    for listed in ((), (HAMI, HAMI)):
        with pytest.raises(ValueError, match="dialects"):
            Dialects(listed)


# What a bound pod is charged -----------------------------------------------------------------------------------------


def koordinator_note(uuid: str, percent: int, minor: int = 0) -> dict[str, str]:
    return {
        KOORDINATOR_KEY: f'{{"gpu":[{{"minor":{minor},"id":"{uuid}","resources":'
        f'{{"{CORE}":"{percent}","{RATIO}":"{percent}","koordinator.sh/gpu-memory":"8Gi"}}}}]}}'
    }


def test_a_bound_pod_is_read_by_the_dialect_whose_key_it_carries_else_by_its_names() -> None:
    dialects = Dialects([HAMI, VOLCANO, KOORDINATOR])
    ordinary = asking("p", {GPU: 1}, nodeName="h", annotations=allocation("h", ("h-gpu-0", 1000, 10)), started=True)
    assert set(dialects.uses(ordinary)) == {"hami"}
    koordinators = asking("p", {GPU: 1}, nodeName="h", annotations=koordinator_note("GPU-0", 100), started=True)
    assert set(dialects.uses(koordinators)) == {"koordinator"}
    unreadable = asking("p", {GPU: 1}, nodeName="h", started=True)
    assert set(dialects.uses(unreadable)) == {"hami"}
    both = {**allocation("h", ("h-gpu-0", 1000, 10)), **koordinator_note("GPU-0", 100)}
    assert set(dialects.uses(asking("p", {GPU: 1}, nodeName="h", annotations=both))) == {"hami", "koordinator"}
    foreign = {**allocation("h", ("h-gpu-0", 1000, 10)), VOLCANO_KEY: "GPU-1,NVIDIA,1,1:;"}
    assert set(dialects.uses(asking("p", {GPU: 1}, nodeName="h", annotations=foreign))) == {"hami"}


def test_a_bound_pod_whose_names_belong_to_two_is_charged_in_both() -> None:
    engine = mixed()
    notes = {**allocation("k", ("x", 1000, 10)), **koordinator_note("GPU-k0", 50)}
    problems = engine.observe_pod(
        asking("p", {GPU: 1, CORE: 50, RATIO: 50}, nodeName="k", annotations=notes, started=True), 0.0
    )
    held = engine.state.reservation("uid-p")
    assert held is not None
    assert set(held.uses) == {"hami", "koordinator"}, problems
    assert engine.state.ledger() == {"k": {"gpu/0/GPU-k0": (0, 8 * GIB, 50, 50)}}
    assert engine.state.quota_usage.as_values()["default"].keys() == {("hami", "NVIDIA"), ("koordinator", "gpu")}
    assert not engine.state.drift()
    halves = asking("q", {GPU: 1, CORE: 50, RATIO: 50}, nodeName="k", annotations=koordinator_note("GPU-k1", 50))
    assert set(engine.dialects.uses(halves)) == {"koordinator"}, "it has not started: it holds nothing of HAMi's yet"
    started = asking("q", {GPU: 1, CORE: 50, RATIO: 50}, nodeName="k", annotations=halves.annotations, started=True)
    assert set(engine.dialects.uses(started)) == {"hami", "koordinator"}
    assert "hami.io/vgpu-devices-allocated is missing" in engine.dialects.uses(started)["hami"].problem


# One card in two dialects --------------------------------------------------------------------------------------------


def test_a_card_that_two_dialects_register_is_closed_in_both_until_one_lets_go() -> None:
    engine = engine_of()
    wire = volcano_node("n", "GPU-0", "GPU-1")
    wire["metadata"]["annotations"] |= node_object("n", [card("GPU-0"), card("GPU-2")])["metadata"]["annotations"]
    (problem,) = engine.observe_node(decode_node(wire), 0.0)
    assert problem.reason == "DeviceRegisteredTwice"
    assert "device GPU-0 is registered by hami and by volcano" in problem.message
    first = decided(engine, asking("h", {GPU: 1, "nvidia.com/gpumem": 100}))
    second = decided(engine, asking("v", {NUMBER: 1, MEMORY: 100}))
    assert first.placement is not None
    assert second.placement is not None
    assert [a.uuid for p in (first.placement, second.placement) for c in p.containers for a in c] == ["GPU-2", "GPU-1"]
    two = decided(engine, asking("two", {GPU: 2, "nvidia.com/gpumem": 100}))
    assert "1 CardCordoned" in two.message
    assert engine.observe_node(decode_node(volcano_node("n", "GPU-0", "GPU-1", version=2)), 1.0) == ()
    assert not any(device.cordoned for device in engine.state.matrix("volcano").devices(0))


def test_a_card_is_the_same_hardware_in_koordinators_books() -> None:
    engine = engine_of()
    engine.observe_node(decode_node(node_object("n", [card("GPU-0")], allocatable={CORE: "100", RATIO: "100"})), 0.0)
    (problem,) = engine.observe_inventory("n", beside("GPU-0"), 0.0)
    assert "device GPU-0 is registered by hami and by koordinator" in problem.message
    assert all(device.cordoned for name in ("hami", "koordinator") for device in engine.state.matrix(name).devices(0))


# Objects beside nodes ------------------------------------------------------------------------------------------------


def listing(version: int, *ids: str, uid: str = "uid-k") -> NodeInventory:
    return NodeInventory("k", beside(*ids), uid, version)


def test_objects_beside_nodes_are_taken_in_by_version_and_by_lists() -> None:
    engine = engine_of()
    kind = engine.kinds["Device"]
    assert kind.observe(listing(5, "GPU-0"), 0.0) == (), "it may come before its node"
    engine.observe_node(decode_node(koordinator_node("k")), 0.0)
    listed = engine.state.matrix("koordinator")

    def known() -> list[str]:
        return [device.uuid for device in listed.devices(0)]

    assert known() == ["gpu/0/GPU-0"]
    kind.observe(listing(4), 1.0)
    assert known() == ["gpu/0/GPU-0"], "an older version changes nothing"
    relist = engine.lists.relist("Device", 9)
    relist.take(listing(8, "GPU-0", "GPU-1"), 2.0)
    assert relist.missing() == []
    assert known() == ["gpu/0/GPU-0", "gpu/1/GPU-1"]
    undefined = engine.lists.relist("Device", None)
    (gone,) = undefined.missing()
    undefined.remove(gone, 3.0)
    assert known() == []


def test_without_koordinator_no_object_beside_nodes_is_looked_at() -> None:
    assert "Device" not in engine_of(HAMI, VOLCANO).kinds
    assert not Dialects([HAMI, VOLCANO]).inventory_kinds


def test_an_object_that_cannot_be_read_names_itself() -> None:
    kind = inventory_kind(KOORDINATOR.inventory.kind)
    found = kind.decode({"metadata": {"name": "k", "uid": "u", "resourceVersion": "7"}, "spec": {}})
    assert (found.name, found.uid, found.resource_version, found.content["spec"]) == ("k", "u", 7, {})
    for broken in ({}, {"metadata": {"name": ""}}, {"metadata": {"name": "k", "resourceVersion": "x"}}, [], b"{"):
        with pytest.raises(DecodeError, match="Device"):
            kind.decode(broken)


# At admission --------------------------------------------------------------------------------------------------------


def test_a_pod_is_completed_at_admission_by_its_dialect() -> None:
    generous = hami_dialect(configured(VendorSection({"nvidia": {"wholeIsExclusive": True}})))
    rules = AdmissionRules(Dialects([KOORDINATOR, VOLCANO, generous]), (OURS,))

    def reviewed(**amounts: str) -> Obj:
        container = {"name": "c", "resources": {"limits": amounts, "requests": amounts}}
        verdict = review({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, "default", rules)
        assert verdict.pod is not None
        return dict(verdict.pod["spec"])

    for amounts in ({CORE: "50", RATIO: "50"}, {NUMBER: "1"}, {GPU: "1"}, {GPU: "1", "nvidia.com/gpumem": "1"}):
        spec = reviewed(**amounts)
        assert spec["schedulerName"] == OURS
        assert spec["containers"][0]["resources"]["limits"] == amounts, "nothing is added that another would own"
    assert "schedulerName" not in reviewed(cpu="1")
    hamis = AdmissionRules(Dialects([generous, KOORDINATOR]), (OURS,))
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpumem": "100"}}}
    completed = review({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, "default", hamis).pod
    assert completed is not None
    assert completed["spec"]["containers"][0]["resources"]["limits"][GPU] == "1", "HAMi completes its own"


# Policies ------------------------------------------------------------------------------------------------------------


def test_scorers_and_card_orders_that_a_dialect_does_not_know_are_left_out_with_a_warning() -> None:
    engine = under({"nodes": {"scorers": [{"name": "fragmentation"}, {"name": "binpack"}]}})
    decision = decided(engine, asking("k", {CORE: 50, RATIO: 50}))
    assert decision.placement is not None
    assert [part.scorer for part in decision.scores["k"]] == ["binpack"]
    assert any("fragmentation" in warning and "koordinator" in warning for warning in decision.warnings)
    assert not decided(engine, asking("h", {GPU: 1})).warnings

    engine = under({"devices": {"policy": "LeastAllocated"}})
    decision = decided(engine, asking("v", {NUMBER: 1}))
    assert decision.placement is not None
    assert any("Koordinator's card score" in warning for warning in decision.warnings)


def test_restrictions_that_a_dialect_does_not_know_refuse() -> None:
    engine = under({"devices": {"numa": "Required"}})
    for asked in ({CORE: 50, RATIO: 50}, {NUMBER: 1}):
        decision = decided(engine, asking("-".join(asked).replace("/", "").lower(), asked))
        assert decision.outcome is Outcome.REFUSED
        assert "devices.numa" in decision.message


def test_plain_pods_see_the_devices_of_all_dialects() -> None:
    engine = mixed()
    engine.observe_node(decode_node(node_object("z")), 0.0)
    decision = decided(engine, asking("plain", {}))
    assert decision.placement is not None
    assert decision.placement.node == "z", "every other node has devices of some dialect"
