"""Pods on MIG cards, from the decision to the annotations and back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.engine.builders import allocation, asks, card, cards, engine_with, node, pod, pod_object
from tests.policy.resources import policy
from tests.seeds import seeds
from tests.simulation.cluster import MIG

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Outcome

PLACES = "hami.io/vgpu-mig-allocations"


def mig_node(name: str = "a", number: int = 1, annotations: dict[str, str] | None = None) -> Any:
    return node(name, cards(name, number, **MIG), annotations=annotations or {})


def put(engine: Engine, name: str, resources: Any, **more: Any) -> list[tuple[str, str, int]] | str:
    """Decide a pod and bind it; the pieces that it gets, or the reasons, and then it is gone."""
    engine.observe_pod(pod(name, resources, **more), 0.0)
    decision = engine.attempt(1.0, explain=True)
    assert decision is not None
    if decision.outcome is not Outcome.PLACED:
        engine.remove_pod(decision.uid, 1.0)
        return ", ".join(verdict.detail for verdict in decision.verdicts.values())
    assert decision.placement is not None
    notes = engine.dialects.annotations(decision.placement, 0)
    bound = pod(name, resources, version=2, annotations=notes, nodeName=decision.placement.node, started=True)
    before = engine.state.ledger()
    engine.binding_succeeded(bound.uid)
    engine.observe_pod(bound, 1.0)
    assert engine.state.ledger() == before  # what was assumed is what the annotations say
    assert not engine.state.drift()
    pieces = [(a.uuid, a.piece) for container in decision.placement.containers for a in container]
    return [(uuid, piece.profile, piece.start) if piece else (uuid, "", 0) for uuid, piece in pieces]


def test_pieces_are_packed_from_both_ends() -> None:
    engine = engine_with([mig_node()])
    assert put(engine, "one", asks(1, 1000)) == [("a-gpu-0", "1g.2gb", 3)]
    assert put(engine, "two", asks(1, 2000)) == [("a-gpu-0", "2g.4gb", 0)]
    assert put(engine, "large", asks(1, 2000)) == "1/1 CardMigTopologyInfeasible"
    assert put(engine, "three", asks(1, 1984)) == [("a-gpu-0", "1g.2gb", 2)]
    assert engine.state.ledger() == {"a": {"a-gpu-0": (3, 7936, 100, 3, 1, 1, 1, 1, 0, 0, 0, 0)}}
    engine.remove_pod("uid-two", 2.0)
    assert put(engine, "four", asks(1, 3000)) == [("a-gpu-0", "2g.4gb", 0)]


def test_one_container_gets_several_pieces_of_one_card() -> None:
    engine = engine_with([mig_node()])
    assert put(engine, "three", asks(3, 1000)) == [("a-gpu-0", "1g.2gb", start) for start in (3, 2, 1)]
    assert put(engine, "two", asks(2, 1000)) == ("1/1 AllocatedCardsInsufficientRequest, 1/1 CardMigTopologyInfeasible")


def test_modes_and_lists_of_modes() -> None:
    mixed = node("a", [card("core", mode="hami-core"), card("mig", index=1, **MIG)])
    for value, expected in (("mig", {"mig"}), ("hami-core", {"core"}), ("mps", set()), ("mps,mig", {"mig"})):
        engine = engine_with([mixed])
        found = put(engine, "x", asks(1, 1000), annotations={"nvidia.com/vgpu-mode": value})
        if expected:
            assert {uuid for uuid, _, _ in found} == expected
        else:
            assert found == "2/2 CardTypeMismatch"
    engine = engine_with([mixed])
    assert (
        put(engine, "x", asks(3, 1000), annotations={"nvidia.com/vgpu-mode": "hami-core"}) == "NodeInsufficientDevice"
    )


def test_containers_get_pieces_of_their_own_and_init_containers_what_is_free_then() -> None:
    engine = engine_with([mig_node()])
    wire = pod_object("x", asks(1, 2000))
    wire["spec"]["containers"].append({"name": "other", "resources": asks(1, 1000)})
    wire["spec"]["initContainers"] = [{"name": "init", "resources": asks(1, 4000)}]
    engine.observe_pod(decode_pod(wire), 0.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None
    pieces = [[(a.piece.profile, a.piece.start) for a in c if a.piece] for c in decision.placement.containers]
    assert pieces == [[("4g.8gb", 0)], [("2g.4gb", 0)], [("1g.2gb", 3)]]
    assert engine.state.ledger()["a"]["a-gpu-0"] == (2, 7936, 100, 2, 1, 1, 1, 1, 0, 0, 0, 0)


def test_pieces_are_chosen_by_the_links_of_their_cards() -> None:
    links = [
        {"uuid": f"a-gpu-{one}", "score": {f"a-gpu-{two}": 300 if {one, two} == {0, 2} else 20 for two in range(3)}}
        for one in range(3)
    ]
    engine = engine_with([mig_node(number=3, annotations={"hami.io/node-nvidia-score": str(links).replace("'", '"')})])
    topology = {"hami.io/gpu-scheduler-policy": "topology-aware"}
    found = put(engine, "x", asks(4, 1000), annotations=topology)
    assert [uuid for uuid, _, _ in found] == ["a-gpu-2", "a-gpu-2", "a-gpu-0", "a-gpu-0"]
    assert {uuid for uuid, _, _ in put(engine, "y", asks(1, 1000), annotations=topology)} == {"a-gpu-1"}


def test_a_card_out_of_service_is_given_to_nobody_until_its_usage_is_consistent() -> None:
    engine = engine_with([mig_node()])
    notes = {"hami.io/vgpu-node": "a", "hami.io/vgpu-devices-allocated": "a-gpu-0,NVIDIA,1984,25:;"}
    engine.observe_pod(pod("odd", asks(1, 1000), annotations=notes, nodeName="a", started=True), 0.0)
    assert put(engine, "x", asks(1, 1000)) == "1/1 CardNotHealth"
    place = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": "a-gpu-0", "profile": "1g.2gb"}
    notes |= {PLACES: str([{**place, "placement": {"start": 0, "size": 1}}]).replace("'", '"')}
    engine.observe_pod(pod("odd", asks(1, 1000), version=2, annotations=notes, nodeName="a", started=True), 1.0)
    engine.remove_pod("uid-x", 1.0)
    assert put(engine, "y", asks(1, 1000)) == [("a-gpu-0", "1g.2gb", 3)]


OLD = "t,7,40960,100,NVIDIA A100-SXM4-40GB,0,true,0,mig:"


def test_the_first_pod_on_a_card_chooses_its_template_until_the_last_is_gone() -> None:
    engine = engine_with([node("a", OLD)])
    assert put(engine, "one", asks(1, 6000, 20)) == [("t", "2g.10gb", 0)]
    held = engine.state.reservation("uid-one")
    assert held is not None
    assert held.uses["hami"].charges == {"t": (1, 10240, 20, 64**2, 1, 0, 0, 0, 0, 0, 0, 0)}
    assert put(engine, "small", asks(2, 5000)) == [("t", "2g.10gb", 1), ("t", "2g.10gb", 2)]
    assert put(engine, "last", asks(1, 5000)) == [("t", "1g.5gb", 3)]
    assert put(engine, "none", asks(1, 1)) == "1/1 CardMigTopologyInfeasible"
    assert put(engine, "large", asks(1, 20000)) == "1/1 CardInsufficientMemory"
    for name in ("one", "small", "last"):
        engine.remove_pod(f"uid-{name}", 2.0)
    assert engine.state.ledger() == {}
    assert put(engine, "again", asks(1, 20480)) == [("t", "3g.20gb", 0)]


def test_instances_are_written_with_template_and_number() -> None:
    engine = engine_with([node("a", OLD)])
    engine.observe_pod(pod("x", asks(2, 10240, 30)), 0.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None
    notes = engine.dialects.annotations(decision.placement, 0)
    assert notes["hami.io/vgpu-devices-allocated"] == "t[1-0],NVIDIA,10240,30:t[1-1],NVIDIA,10240,30:;"
    assert PLACES not in notes


def test_pieces_are_no_whole_cards() -> None:
    engine = engine_with([mig_node()])
    engine.policy_tracker.observe(policy("whole", {"devices": {"exclusive": True}}))
    assert put(engine, "x", asks(1, 1000)) == "1/1 CardDeniedByPolicy"


def test_placements_that_a_pod_brings_along_are_overwritten() -> None:
    forged = (
        '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"a-gpu-1","profile":"1g","placement":{"start":0,"size":1}}]'
    )
    engine = engine_with([node("a", cards("a", 2))])
    bringing = pod("p", annotations={PLACES: forged})
    engine.observe_pod(bringing, 0.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None
    assert engine.dialects.annotations(decision.placement, 0, bringing)[PLACES] == "[]"
    assert PLACES not in engine.dialects.annotations(decision.placement, 0, pod("q"))


def test_a_card_full_of_pieces_is_not_beyond_what_it_has() -> None:
    engine = engine_with([mig_node()])
    used = (4, 4 * 1984, 4 * 40, 4, 1, 1, 1, 1, 0, 0, 0, 0)
    row = engine.state.nodes.row("a")
    assert row is not None
    device = engine.state.devices.position(row, "a-gpu-0")
    assert device is not None
    engine.state.devices.charge(device, used, 1)
    assert engine.state.over_capacity() == {}
    engine.state.devices.charge(device, (0, 0, 0, 1, 1), 1)
    assert engine.state.over_capacity() == {"a": ["a-gpu-0"]}


def test_an_assumed_piece_is_checked_again_when_somebody_may_be_anywhere_on_the_card() -> None:
    engine = engine_with([mig_node()])
    engine.observe_pod(pod("x", asks(1, 1000)), 0.0)
    assert engine.attempt(1.0) is not None
    assert engine.assumed.recheck("uid-x") is not None
    stranger = pod("t", asks(1, 1000), annotations=allocation("a", ("a-gpu-0", 1984, 10)), started=True, nodeName="a")
    engine.observe_pod(stranger, 2.0)
    assert engine.assumed.recheck("uid-x") is None


def test_a_preference_for_links_takes_the_first_numa_node_with_enough_cards() -> None:
    four = [card(f"g{n}", index=n, numa=n // 2, healthy=n != 0) for n in range(4)]
    engine = engine_with([node("a", four)])
    engine.policy_tracker.observe(policy("close", {"devices": {"topology": "Preferred", "numa": "Required"}}))
    engine.observe_pod(pod("p", asks(2)), 0.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None
    assert sorted(a.uuid for a in decision.placement.containers[0]) == ["g2", "g3"]


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_what_is_free_of_a_card_in_pieces_is_what_a_pod_can_get_of_it(seed: int) -> None:
    drawn = random.Random(seed)
    engine = engine_with([drawn.choice([mig_node(), node("a", OLD)])])
    for number in range(drawn.randrange(1, 5)):
        put(engine, f"p{number}", asks(1, drawn.choice([1000, 2000, 4000, 9000])))
    for number in range(drawn.randrange(2)):
        engine.remove_pod(f"uid-p{number}", 2.0)
    engine.observe_pod(pod("all", asks(1)), 3.0)
    waiting = engine.state.pod("uid-all")
    assert waiting is not None
    decision, near = engine.algorithm.decide(waiting), engine.algorithm.nearest(waiting)
    if decision.placement is not None:
        assert near is None
        return
    engine.remove_pod("uid-all", 4.0)
    assert near is not None
    free = {each.dimension: each.free for each in near.shortages}
    assert "memory" in free
    assert isinstance(put(engine, "more", asks(1, free["memory"] + 1)), str)
    if free["memory"]:
        assert isinstance(put(engine, "as-much", asks(1, free["memory"])), list)


def test_a_card_without_compute_left_lacks_it_for_a_pod_that_asks_for_none() -> None:
    engine = engine_with([node("a", [card("a-gpu-0")])])
    put(engine, "all-compute", asks(1, 1000, 100))
    engine.observe_pod(pod("more", asks(1, 16000)), 1.0)
    waiting = engine.state.pod("uid-more")
    assert waiting is not None
    near = engine.algorithm.nearest(waiting)
    assert near is not None
    assert {each.dimension: (each.free, each.asked) for each in near.shortages}["cores"] == (0, 1)
