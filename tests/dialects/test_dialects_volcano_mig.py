"""MIG cards of Volcano's: which instance a pod gets, what is written, and what is believed of others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import node_object
from tests.engine.dialect_worlds import MEMORY, NUMBER, PERCENT, asking, decided, engine_of
from tests.seeds import seeds

from vgpu_scheduler.dialects.hami.templates import MigGeometry
from vgpu_scheduler.dialects.volcano import VolcanoRequests, volcano_dialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, decode_node
from vgpu_scheduler.model import Decision

Obj = dict[str, Any]
IDS, NODE, MODE = "volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-node", "volcano.sh/vgpu-mode"
A100 = MigGeometry(
    ("A100",),
    (
        (("1g.5gb", 5120, 7),),
        (("2g.10gb", 10240, 3), ("1g.5gb", 5120, 1)),
        (("3g.20gb", 20480, 2),),
    ),
    ("small", "mixed", "large"),
)
A30 = MigGeometry(("A30",), ((("1g.6gb", 6144, 4),), (("4g.24gb", 24576, 1),)), ("small", "whole-card"))
SIZES = {"A100": 40960, "A30": 24576, "H100": 81920}


def node(name: str, *models: str, mode: str = "mig", factor: int = 1) -> Obj:
    listed = "".join(
        f"GPU-{name}{number},10,{SIZES[model] // factor},NVIDIA-NVIDIA {model},true,{mode}:"
        for number, model in enumerate(models)
    )
    amounts = {NUMBER: "80", MEMORY: "400000", PERCENT: "800"}
    return node_object(name, annotations={"volcano.sh/node-vgpu-register": listed}, allocatable=amounts)


def engine(*nodes: Obj, factor: int = 1) -> Engine:
    names = VolcanoRequests(memory_factor=factor, mig_geometries=(A100, A30))
    made = engine_of(volcano_dialect(names))
    for each in nodes:
        made.observe_node(decode_node(each), 0.0)
    return made


def asks(name: str, memory: int, number: int = 1, **more: Any) -> Pod:
    return asking(name, {NUMBER: number, MEMORY: memory}, **more)


def written(engine: Engine, decision: Decision) -> str:
    assert decision.placement is not None, decision.message
    return str(engine.dialects.annotations(decision.placement, 0)[IDS])


def running(pod: Pod, on: str, ids: str) -> Pod:
    served = {"volcano.sh/devices-to-allocate": "", "volcano.sh/vgpu-time": str(2**64 - 1)}
    notes = {**pod.annotations, NODE: on, IDS: ids, **served}
    amounts = dict(pod.spec.containers[0].limits)
    return asking(pod.name, amounts, version=2, started=True, nodeName=on, annotations=notes)


def test_the_first_group_with_a_large_enough_instance_is_followed() -> None:
    world = engine(node("n", "A100"))
    assert written(world, decided(world, asks("a", 8000))) == "GPU-n0[mixed-0],NVIDIA,10240,0:"
    assert written(world, decided(world, asks("b", 3000))) == "GPU-n0[mixed-3],NVIDIA,5120,0:", "the smallest"
    assert written(world, decided(world, asks("c", 3000))) == "GPU-n0[mixed-1],NVIDIA,10240,0:"
    assert "CardMigTopologyInfeasible" in decided(world, asks("d", 12000)).message
    world.remove_pod("uid-d", 1.0)
    world.remove_pod("uid-a", 1.0)
    assert written(world, decided(world, asks("e", 3000))) == "GPU-n0[mixed-0],NVIDIA,10240,0:"
    for name in "bce":
        world.remove_pod(f"uid-{name}", 2.0)
    assert written(world, decided(world, asks("f", 20000), 600.0)) == "GPU-n0[large-0],NVIDIA,20480,0:"


def test_the_unit_of_memory_is_that_of_the_plugin() -> None:
    world = engine(node("n", "A30", factor=10), factor=10)
    assert written(world, decided(world, asks("a", 614))) == "GPU-n0[small-0],NVIDIA,614,0:"
    assert "CardMigTopologyInfeasible" in decided(world, asks("b", 615)).message


@pytest.mark.parametrize(("mode", "where"), [("mig", "m"), ("hami-core", "h"), (None, "h")])
def test_a_pod_may_say_how_its_card_is_shared(mode: str | None, where: str) -> None:
    world = engine(node("m", "A30"), node("h", "A30", mode="hami-core"))
    notes = {} if mode is None else {MODE: mode}
    decision = decided(world, asks("a", 24576, annotations=notes))
    assert decision.placement is not None
    assert decision.placement.node == where


def test_a_model_without_a_geometry_is_given_to_nobody() -> None:
    world = engine(node("n", "H100"))
    assert decided(world, asks("a", 1)).message == "0/1 nodes are available: 1 CardTypeMismatch."


@pytest.mark.parametrize(
    ("mode", "ids"),
    [
        ("mig", "GPU-n0[unknown-0],NVIDIA,10,0:"),
        ("mig", "GPU-n0[small-7],NVIDIA,10,0:"),
        ("mig", "GPU-n0[small-99],NVIDIA,10,0:"),
        ("mig", "GPU-n0[small-0],NVIDIA,10,0:GPU-n0[small-0],NVIDIA,10,0:"),
        ("mig", "GPU-n0[small-0],NVIDIA,10,0:GPU-n0[mixed-1],NVIDIA,10,0:"),
        ("mig", "GPU-n0,NVIDIA,10,0:"),
        ("mig", "GPU-n0[small-x],NVIDIA,10,0:"),
        ("hami-core", "GPU-n0[small-0],NVIDIA,10,0:"),
    ],
)
def test_what_has_no_place_closes_the_card(mode: str, ids: str) -> None:
    world = engine(node("n", "A100", mode=mode))
    world.observe_pod(running(asks("odd", 10), "n", ids), 0.0)
    assert decided(world, asks("a", 10)).message == "0/1 nodes are available: 1 CardNotHealth."
    assert not world.state.drift()


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_no_instance_is_given_out_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node("n", *rng.choice(["A100", "A30"], size=2)), node("o", "A100")]
    world, held = engine(*nodes), dict[str, Pod]()
    for number in range(60):
        now = number * 600.0
        if held and rng.random() < 0.4:
            world.remove_pod(held.pop(str(rng.choice(sorted(held)))).uid, now)
        pod = asks(f"p{number}", int(rng.integers(1, 22000)), int(rng.integers(1, 4)))
        decision = decided(world, pod, now)
        if decision.placement is None:
            world.remove_pod(pod.uid, now)
        else:
            held[pod.name] = running(pod, decision.placement.node, written(world, decision))
            world.observe_pod(held[pod.name], now)
        names = [name for each in held.values() for name in re.findall(r"GPU-[^,]+", each.annotations[IDS])]
        assert len(set(names)) == len(names)
        followed = {(name.partition("[")[0], name.partition("[")[2].rpartition("-")[0]) for name in names}
        assert len({card for card, _ in followed}) == len(followed), "a card follows one group"
        if number % 10 == 9:
            again = engine(*nodes)
            for each in held.values():
                again.observe_pod(each, now)
            assert again.state.ledger() == world.state.ledger()
            world = again
        assert not world.state.drift()
        assert not world.state.over_capacity()
