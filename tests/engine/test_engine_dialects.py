"""Several dialects in one engine: who owns a name, whose a pod is, and what it is charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import OURS, allocation, asks, card, cards, node_object, pod_object

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects
from vgpu_scheduler.dialects.hami import Section, configured, hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments, volcano_dialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import beside_kind
from vgpu_scheduler.kube import DecodeError, NodeInventory, Pod, decode_node, decode_pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import CLUSTER_KIND, Policies, PolicyDefaults, decode_policy

Obj = dict[str, Any]

HAMI, VOLCANO, KOORDINATOR = hami_dialect(), volcano_dialect(), koordinator_dialect()
GPU, CORE, RATIO = "nvidia.com/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
NUMBER, MEMORY, PERCENT = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
HAMI_KEY, VOLCANO_KEY = "hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"
KOORDINATOR_KEY = "scheduling.koordinator.sh/device-allocated"
GIB = 2**30


def engine_of(*dialects: Dialect) -> Engine:
    defaults = PolicyDefaults(read_arguments=parse_binpack_arguments)
    return Engine(dialects or (HAMI, VOLCANO, KOORDINATOR), Policies(defaults), [OURS])


def volcano_node(name: str, *ids: str, version: int = 1) -> Obj:
    listed = "".join(f"{uuid},10,24576,NVIDIA-NVIDIA A10,true,hami-core:" for uuid in ids)
    amounts = {NUMBER: "80", MEMORY: "196608", PERCENT: "800"}
    notes = {"volcano.sh/node-vgpu-register": listed}
    return node_object(name, annotations=notes, allocatable=amounts, version=version)


def beside(*ids: str) -> Obj:
    amounts = {CORE: "100", RATIO: "100", "koordinator.sh/gpu-memory": "16Gi"}
    listed = [
        {"type": "gpu", "minor": minor, "id": uuid, "health": True, "resources": amounts}
        for minor, uuid in enumerate(ids)
    ]
    return {"spec": {"devices": listed}}


def koordinator_node(name: str, cards: int = 2) -> Obj:
    amounts = {CORE: f"{cards}00", RATIO: f"{cards}00", "koordinator.sh/gpu-memory": f"{cards * 16}Gi"}
    return node_object(name, allocatable=amounts)


def limits(**amounts: object) -> Obj:
    return {"limits": {name: str(amount) for name, amount in amounts.items()}}


def asking(name: str, amounts: dict[str, object], **more: Any) -> Pod:
    given = {resource: str(amount) for resource, amount in amounts.items()}
    return decode_pod(pod_object(name, {"limits": given, "requests": given}, **more))


def decided(engine: Engine, waiting: Pod, now: float = 0.0) -> Decision:
    engine.observe_pod(waiting, now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.uid == waiting.uid
    return decision


def mixed() -> Engine:
    """One node of each dialect, each with two cards."""
    engine = engine_of()
    engine.observe_node(decode_node(node_object("h", cards("h", 2))), 0.0)
    engine.observe_node(decode_node(volcano_node("v", "GPU-v0", "GPU-v1")), 0.0)
    engine.observe_node(decode_node(koordinator_node("k")), 0.0)
    engine.observe_inventory("k", beside("GPU-k0", "GPU-k1"), 0.0)
    return engine


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
    assert engine.state.quotas.as_values()["default"].keys() == {("hami", "NVIDIA"), ("koordinator", "gpu")}
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
    sweep = engine.sweep("Device", 9)
    sweep.take(listing(8, "GPU-0", "GPU-1"), 2.0)
    assert sweep.missing() == []
    assert known() == ["gpu/0/GPU-0", "gpu/1/GPU-1"]
    undefined = engine.sweep("Device", None)
    (gone,) = undefined.missing()
    undefined.remove(gone, 3.0)
    assert known() == []


def test_without_koordinator_no_object_beside_nodes_is_looked_at() -> None:
    assert "Device" not in engine_of(HAMI, VOLCANO).kinds
    assert not Dialects([HAMI, VOLCANO]).beside


def test_an_object_that_cannot_be_read_names_itself() -> None:
    kind = beside_kind("Device", "/devices")
    found = kind.decode({"metadata": {"name": "k", "uid": "u", "resourceVersion": "7"}, "spec": {}})
    assert (found.name, found.uid, found.resource_version, found.content["spec"]) == ("k", "u", 7, {})
    for broken in ({}, {"metadata": {"name": ""}}, {"metadata": {"name": "k", "resourceVersion": "x"}}, [], b"{"):
        with pytest.raises(DecodeError, match="Device"):
            kind.decode(broken)


# At admission --------------------------------------------------------------------------------------------------------


def test_a_pod_is_completed_at_admission_by_its_dialect() -> None:
    generous = hami_dialect(configured(Section({"nvidia": {"wholeIsExclusive": True}})))
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


def under(spec: Obj, engine: Engine | None = None) -> Engine:
    engine = engine or mixed()
    metadata = {"name": "policy", "uid": "u", "generation": 1, "resourceVersion": "1"}
    engine.effective_policies.observe(decode_policy({"kind": CLUSTER_KIND, "metadata": metadata, "spec": spec}))
    return engine


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


# Everything together -------------------------------------------------------------------------------------------------


def hami_limits(rng: np.random.Generator) -> dict[str, object]:
    return {
        GPU: int(rng.integers(1, 3)),
        "nvidia.com/gpumem": int(rng.integers(1, 9)) * 1000,
        "nvidia.com/gpucores": int(rng.integers(0, 6)) * 10,
    }


def volcano_limits(rng: np.random.Generator) -> dict[str, object]:
    return {NUMBER: int(rng.integers(1, 3)), MEMORY: int(rng.integers(1, 9)) * 2000, PERCENT: int(rng.integers(0, 60))}


def koordinator_limits(rng: np.random.Generator) -> dict[str, object]:
    percent = int(rng.choice([10, 25, 50, 100, 200]))
    return {CORE: percent, RATIO: percent}


@pytest.mark.parametrize("seed", range(6))
def test_three_dialects_at_once_keep_their_books_and_hami_decides_as_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    together, alone = engine_of(), engine_of(HAMI)
    for number in range(3):
        wire = decode_node(node_object(f"h{number}", cards(f"h{number}", 4)))
        together.observe_node(wire, 0.0)
        alone.observe_node(wire, 0.0)
        together.observe_node(decode_node(volcano_node(f"v{number}", *(f"v{number}-{i}" for i in range(4)))), 0.0)
        together.observe_node(decode_node(koordinator_node(f"k{number}", 4)), 0.0)
        together.observe_inventory(f"k{number}", beside(*(f"k{number}-{i}" for i in range(4))), 0.0)
    kinds = (hami_limits, volcano_limits, koordinator_limits)
    placed, living = 0, []
    for step in range(120):
        asked = kinds[int(rng.integers(3))](rng)
        name = f"p{step}"
        waiting = asking(name, asked)
        decision = decided(together, waiting, float(step))
        if GPU in asked:
            lonely = decided(alone, waiting, float(step))
            assert lonely.placement == decision.placement
            here = {reason: count for reason, count in decision.reasons.items() if reason != "node unregistered"}
            assert here == lonely.reasons
        if decision.placement is not None:
            placed += 1
            notes = together.dialects.annotations(decision.placement, step, waiting)
            bound = asking(name, asked, nodeName=decision.placement.node, annotations=notes, version=2)
            for engine in (together, alone) if GPU in asked else (together,):
                engine.confirmed(waiting.uid)
                engine.observe_pod(bound, float(step))
            living.append((waiting.uid, GPU in asked))
        else:
            for engine in (together, alone) if GPU in asked else (together,):
                engine.remove_pod(waiting.uid, float(step))
        if living and rng.random() < 0.3:
            uid, hamis = living.pop(int(rng.integers(len(living))))
            for engine in (together, alone) if hamis else (together,):
                engine.remove_pod(uid, float(step))
        assert together.state.ledger() == together.state.rebuild().ledger()
        assert not together.state.over_capacity()
    assert placed > 40
    ours = {node: used for node, used in together.state.ledger().items() if node.startswith("h")}
    assert ours == alone.state.ledger()
    assert together.state.quotas.as_values() == together.state.rebuild().quotas.as_values()


def test_the_claims_of_one_dialect_are_not_read_by_another() -> None:
    with pytest.raises(ClaimError, match=r"nvidia.com/gpu \(hami\) and koordinator.sh/gpu-core \(koordinator\)"):
        Dialects([HAMI, KOORDINATOR]).of_waiting(asking("p", {GPU: 1, CORE: 1}))


def test_asks_are_read_as_by_hami_alone() -> None:
    wire = decode_pod(pod_object("p", asks(2, 3000, 20)))
    assert Dialects([HAMI, KOORDINATOR]).of_waiting(wire).claims.read(wire) == HAMI.claims.read(wire)


def test_plain_pods_are_scored_by_the_devices_that_a_node_has_the_lowest_score_of_several() -> None:
    scorers = {"nodes": {"scorers": [{"name": "fragmentation"}]}}

    def scored(*dialects: Dialect) -> dict[str, float]:
        engine = under(scorers, engine_of(*dialects))
        both = volcano_node("both", "GPU-b0")
        both["metadata"]["annotations"] |= node_object("both", cards("both", 4))["metadata"]["annotations"]
        for wire in (node_object("h", cards("h", 4)), volcano_node("v", "GPU-v0", "GPU-v1"), both, node_object("bare")):
            engine.observe_node(decode_node(wire), 0.0)
        engine.observe_pod(decode_pod(pod_object("p", {"requests": {"cpu": "8"}})), 0.0)
        decision = engine.attempt(0.0, explain=True)
        assert decision is not None
        return {node: parts[0].raw for node, parts in decision.scores.items()}

    together, hamis, volcanos = scored(HAMI, VOLCANO), scored(HAMI), scored(VOLCANO)
    assert together["h"] == hamis["h"] < hamis["bare"]
    assert together["v"] == volcanos["v"] < volcanos["bare"]
    assert together["both"] == min(hamis["both"], volcanos["both"]) < max(hamis["both"], volcanos["both"])
    assert together["bare"] == hamis["bare"]
