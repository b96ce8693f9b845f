"""Beside another scheduler of the same ecosystem: nodes that are not ours, pods that it has announced; many vendors."""

from __future__ import annotations

import pytest
from tests.engine.builders import OURS, Obj, allocation, card, cards, engine_with, node, node_object, pod

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.hami.inventory import HamiInventory
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node, parse_label_selector
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.policy import PolicyDefaults

HAMI = "hami-scheduler"


def engine_beside(*coexist_with: str) -> Engine:
    engine = Engine(EngineOptions([hami_dialect()], PolicyDefaults(), [OURS], coexist_with))
    engine.observe_node(node("a", [card("x", memory=8000, count=10)]), 0.0)
    return engine


def used(engine: Engine) -> list[int]:
    row = engine.state.nodes.row("a")
    number = None if row is None else engine.state.devices.position(row, "x")
    assert number is not None
    return [int(amount) for amount in engine.state.devices.columns.used[number][:3]]


def test_pods_go_only_to_managed_nodes() -> None:
    defaults = PolicyDefaults(managed=parse_label_selector("pool=ours,!spare"))
    nodes = [
        node("a", cards("a", 1)),
        node("b", cards("b", 1), labels={"pool": "ours"}),
        node("c", cards("c", 1), labels={"pool": "ours", "spare": "yes"}),
    ]
    engine = engine_with(nodes, [pod("p"), pod("q", {})], defaults)
    for number in range(2):
        decision = engine.attempt(1.0 + number)
        assert decision is not None
        assert decision.placement is not None
        assert decision.placement.node == "b"
    engine.observe_pod(pod("r", nodeSelector={"pool": "hami"}), 2.0)
    decision = engine.attempt(3.0)
    assert decision is not None
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message == "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


def test_a_pod_says_that_no_managed_node_is_left() -> None:
    defaults = PolicyDefaults(managed=parse_label_selector("pool=ours"))
    engine = engine_with([node("a", cards("a", 1))], [pod("p")], defaults)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.message == "0/1 nodes are available: 1 node(s) are not managed by this scheduler."
    engine.observe_node(node("a", cards("a", 1), labels={"pool": "ours"}, version=2), 2.0)
    decision = engine.attempt(30.0)
    assert decision is not None
    assert decision.placement is not None


def test_what_a_neighbour_announces_counts_before_it_has_bound_it() -> None:
    announced = pod("p", annotations=allocation("a", ("x", 3000, 30)), scheduler=HAMI)
    trusting, alone = engine_beside(HAMI), engine_beside()
    for engine in (trusting, alone):
        engine.observe_pod(announced, 0.0)
    assert used(trusting) == [1, 3000, 30]
    assert used(alone) == [0, 0, 0]
    trusting.observe_pod(pod("p", annotations=allocation("a", ("x", 3000, 30)), scheduler=HAMI, version=2,
                             nodeName="a"), 0.0)  # fmt: skip
    assert used(trusting) == [1, 3000, 30]


def test_an_announcement_can_be_taken_back() -> None:
    engine = engine_beside(HAMI)
    engine.observe_pod(pod("p", annotations=allocation("a", ("x", 3000, 30)), scheduler=HAMI), 0.0)
    engine.observe_pod(pod("p", scheduler=HAMI, version=2), 0.0)
    assert used(engine) == [0, 0, 0]
    engine.observe_pod(pod("p", annotations=allocation("elsewhere", ("x", 3000, 30)), scheduler=HAMI, version=3), 0.0)
    assert used(engine) == [0, 0, 0]


@pytest.mark.parametrize("scheduler", [OURS, "default-scheduler"])
def test_nobody_else_can_announce_anything(scheduler: str) -> None:
    engine = engine_beside(HAMI)
    engine.observe_pod(pod("p", annotations=allocation("a", ("x", 3000, 30)), scheduler=scheduler), 0.0)
    assert used(engine) == [0, 0, 0]


DCU = "hami.io/node-dcu-register"


def two_makers(dcu: str, gpu: object = "g,4,8000,100,NVIDIA T4,0,true:", version: int = 1) -> Obj:
    return node_object("a", gpu if isinstance(gpu, str) else None, annotations={DCU: dcu}, version=version)


def test_a_registration_that_cannot_be_read_is_the_matter_of_its_maker() -> None:
    engine = engine_with()
    assert engine.observe_node(decode_node(two_makers("d,4,16000,100,DCU-Z100,0,true:")), 0.0) == ()
    (problem,) = engine.observe_node(decode_node(two_makers("d,4", "g,4,9000,100,NVIDIA T4,0,true:", 2)), 0.0)
    assert (problem.reason, problem.message.split(":")[0]) == ("RegistrationUnreadable", f"annotation {DCU}")
    row = engine.state.nodes.row("a")
    assert row is not None
    assert {(d.uuid, d.total[1]) for d in engine.state.devices.devices(row)} == {("g", 9000), ("d", 16000)}


def test_two_makers_cannot_list_one_device() -> None:
    engine = engine_with()
    (problem,) = engine.observe_node(decode_node(two_makers("g,4,16000,100,DCU-Z100,0,true:")), 0.0)
    assert "device g is listed by another vendor, too" in problem.message
    row = engine.state.nodes.row("a")
    assert row is not None
    assert [device.vendor for device in engine.state.devices.devices(row)] == ["NVIDIA"]


def test_a_card_that_moves_to_another_maker_is_listed_once() -> None:
    names = [f"hami.io/node-register-Ascend910B4{more}" for more in ("-1", "")]
    listed = '[{"id":"x","count":4,"devmem":32768,"devcore":20,"type":"Ascend","health":true}]'
    engine = engine_with()
    assert engine.observe_node(decode_node(node_object("a", annotations={names[0]: listed})), 0.0) == ()
    both = decode_node(node_object("a", annotations=dict.fromkeys(names, listed), version=2))
    (problem,) = engine.observe_node(both, 0.0)
    assert "device x is listed by another vendor, too" in problem.message
    row = engine.state.nodes.row("a")
    assert row is not None
    assert [device.vendor for device in engine.state.devices.devices(row)] == ["Ascend910B4"]


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("annotations", "capacity"),
    [
        ({"metax-tech.com/gpu.topology.losses": f'{{"1":{HUGE}}}'}, {"metax-tech.com/gpu": "2"}),
        ({}, {"cambricon.com/mlu.smlu.vcore": "100", "cambricon.com/mlu.smlu.vmemory": "1E"}),
        ({}, {"mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "1E"}),
        ({"hami.io/node-dcu-register": f"d,4,{HUGE},100,DCU-Z100,0,true:"}, {}),
        ({"hami.io/node-register-xpu": f'[{{"id":"x","index":{HUGE},"health":true}}]'}, {}),
    ],
)
def test_a_node_that_says_nonsense_stops_nobody(annotations: dict[str, str], capacity: dict[str, str]) -> None:
    engine = engine_with()
    bad = node_object("bad", annotations=annotations, allocatable=capacity)
    bad["status"]["capacity"] = capacity
    engine.observe_node(decode_node(bad), 0.0)
    engine.observe_node(node("good", cards("good", 1)), 0.0)
    engine.observe_pod(pod("p"), 0.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None
    assert [given.uuid for container in decision.placement.containers for given in container] == ["good-gpu-0"]


def test_a_registration_that_raises_leaves_the_last_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_beside()

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(HamiInventory, "devices", fail)
    (problem,) = engine.observe_node(node("a", [card("y")], version=2), 0.0)
    assert (problem.reason, problem.message) == ("RegistrationUnreadable", "internal error: RuntimeError('a bug')")
    assert used(engine) == [0, 0, 0]
