"""Policies that give pods idle cards only: they are named, with what to change, and the pod fits after that."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif import RemedyType, World, explain_pod, make_dialect
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.simulation import ask

Object = dict[str, Any]
ORDERS = ["mutex", "binpack,mutex", "mutex,numa", "spread,mutex", "numa,mutex,binpack"]
KINDS = ["ClusterVGPUPolicy", "VGPUPolicy"]


def policy(name: str, kind: str, **spec: Any) -> Object:
    namespace = {"namespace": "default"} if kind == "VGPUPolicy" else {}
    return {"kind": kind, "metadata": {"name": name, **namespace}, "spec": spec}


def title(name: str, kind: str) -> str:
    return f"{kind} default/{name}" if kind == "VGPUPolicy" else f"{kind} {name}"


def world_of(*objects: Object, order: str = "spread", **asked: Any) -> World:
    made = World(EngineOptions([make_dialect("hami")], PolicyDefaults(device_policy=order)))
    made.add([node("a", cards=1), *objects, pod("asked", {GPU: 1, MEMORY: 1000}, **asked)])
    return made


BUSY = running("r", "a", "GPU-a-0", 1000)


@pytest.mark.parametrize(("order", "kind", "beside"), [*product(ORDERS, KINDS, [{}, {"order": "ScoreFirst"}])])
def test_the_order_of_cards_is_named_and_changed(order: str, kind: str, beside: Object) -> None:
    world = world_of(BUSY, policy("house", kind, devices={"policy": order, **beside}))
    (waiting,) = world.pending.values()
    found = explain_pod(world, waiting)
    name = title("house", kind)
    assert list(found.causes) == [
        f"spec.devices.policy of {name} ({order}) gives it cards that no other pod uses, and no others."
    ]
    (change,) = [each for each in found.remedies if each.type is RemedyType.CHANGE_POLICY]
    others = ",".join(word.strip() for word in order.split(",") if word.strip() != "mutex")
    assert name in change.text
    assert (f"to {others} (it is {order})" in change.text) is bool(others)
    with objects_replaced(world, change.objects):
        assert ask(world, waiting).node == change.node == "a"


@pytest.mark.parametrize(("order", "own"), [*product(ORDERS, KINDS)])
def test_both_policies_are_named_where_no_card_of_its_own_is_allowed(order: str, own: str) -> None:
    limit = policy("own", own, limits={"exclusiveCardsPerPod": 0})
    world = world_of(limit, policy("house", "ClusterVGPUPolicy", devices={"policy": order}))
    (waiting,) = world.pending.values()
    found = explain_pod(world, waiting)
    assert found.causes[0].startswith(f"spec.devices.policy of ClusterVGPUPolicy house ({order}) gives it")
    texts = [each.text for each in found.remedies]
    assert f"have limits.exclusiveCardsPerPod of {title('own', own)} raised to 1 (it is 0)" in texts
    assert any("spec.devices.policy" in text for text in texts)
    for each in found.remedies:
        with objects_replaced(world, each.objects):
            assert ask(world, waiting).node == each.node


@pytest.mark.parametrize("order", ORDERS)
def test_the_setting_is_named(order: str) -> None:
    world = world_of(BUSY, order=order)
    (waiting,) = world.pending.values()
    (cause,) = explain_pod(world, waiting).causes
    assert cause == f"The setting device_policy ({order}) gives it cards that no other pod uses, and no others."


@pytest.mark.parametrize("order", ["binpack", "spread", "numa,binpack", "bestFit"])
def test_other_orders_are_not_named(order: str) -> None:
    world = world_of(
        running("r", "a", "GPU-a-0", 16000), policy("house", "ClusterVGPUPolicy", devices={"policy": order})
    )
    (waiting,) = world.pending.values()
    found = explain_pod(world, waiting)
    assert not found.causes
    assert not [each for each in found.remedies if each.type is RemedyType.CHANGE_POLICY]


def test_what_the_pod_asks_itself_is_not_said_to_be_a_policys() -> None:
    world = world_of(BUSY, metadata={"annotations": {"hami.io/gpu-scheduler-policy": "mutex"}})
    (waiting,) = world.pending.values()
    assert not explain_pod(world, waiting).causes


@pytest.mark.parametrize("limits", [{GPU: 1}, {GPU: 1, "nvidia.com/gpucores": 100}, {GPU: 2}])
def test_it_is_said_when_a_card_counts_as_its_own(limits: Object) -> None:
    world = World(EngineOptions([make_dialect("hami")]))
    own = policy("own", "ClusterVGPUPolicy", limits={"exclusiveCardsPerPod": 0})
    world.add([node("a"), own, pod("asked", limits)])
    (waiting,) = world.pending.values()
    (cause,) = explain_pod(world, waiting).causes
    assert cause.startswith("A card counts as its own if it asks for all compute or all memory")
