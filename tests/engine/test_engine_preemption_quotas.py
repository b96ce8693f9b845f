"""Quotas beside preemption: nobody is evicted for a pod that its own quota keeps waiting then."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.builders import asks, cards, in_group, node
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_preemption_ends import under_way

from vgpu_scheduler.kube import ResourceQuota

SIZE = 8000


def limit(fleet: Fleet, namespace: str, memory: int) -> None:
    fleet.engine.quota_limits.observe(ResourceQuota(namespace, "q", {"limits.nvidia.com/gpumem": str(memory)}))


def full(names: str, namespace: str = "victims") -> Fleet:
    """Return nodes whose cards are taken by pods of a namespace."""
    fleet = Fleet([node(name, cards(name, 1)) for name in names])
    for name in names:
        fleet.come(f"low-{name}", 0, asks(gpumem=SIZE), namespace=namespace)
    fleet.decide()
    return fleet


@pytest.mark.parametrize("seed", range(50))
def test_others_of_its_namespace_get_what_its_quota_leaves_beside_it(seed: int) -> None:
    """While its victims of another namespace are still there, as after they have gone."""
    memory = int(np.random.default_rng(seed).integers(1, SIZE + 1))
    fleet = full("a")
    limit(fleet, "t", SIZE + 4000)
    fleet.come("high", 9, asks(gpumem=SIZE), namespace="t")
    fleet.decide()
    assert under_way(fleet, "high") is not None
    assert fleet.engine.state.quota_usage.used("t", ("hami", "NVIDIA"), 1) == SIZE
    fleet.engine.observe_node(node("b", cards("b", 1)), 0.0)
    fleet.come("later", 0, asks(gpumem=memory), namespace="t")
    fleet.decide()
    assert bool(fleet.node_of("later")) == (memory <= 4000)
    fleet.end("uid-low-a")
    fleet.now += 60.0
    fleet.decide()
    assert fleet.node_of("high") == "a"
    assert bool(fleet.node_of("later")) == (memory <= 4000)


@pytest.mark.parametrize("seed", range(60))
def test_whoever_has_others_evicted_is_placed_once_these_are_gone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = "abcd"[: int(rng.integers(2, 5))]
    fleet = full(names)
    state = fleet.engine.state
    quota = int(rng.integers(SIZE // 2, 3 * SIZE))
    limit(fleet, "t", quota)
    wanted = [int(rng.integers(SIZE // 4, SIZE + 1)) for _ in range(int(rng.integers(1, 6)))]
    for number, memory in enumerate(wanted):
        fleet.come(f"high-{number}", 9, asks(gpumem=memory), namespace="t")
        if rng.random() < 0.5:
            fleet.decide()
    fleet.decide()
    preempting = {uid: found for uid, found in fleet.victims_of.items() if found.victims}
    assert (
        sum(
            hold.reservation.uses["hami"].charges[uuid][1]
            for hold in state.holds
            for uuid in hold.reservation.uses["hami"].charges
        )
        <= quota
    )
    for uid in sorted({victim.uid for found in preempting.values() for victim in found.victims}):
        fleet.end(uid)
    fleet.now += 60.0
    fleet.decide()
    for uid in preempting:
        assert state.reservation(uid) is not None, f"{uid} had others evicted, and waits"
    assert state.quota_usage.as_values().get("t", {}).get(("hami", "NVIDIA"), (0, 0))[1] <= quota
    assert not state.drift()


@pytest.mark.parametrize("group", ["", "team"])
@pytest.mark.parametrize("seed", range(50))
def test_what_is_kept_for_a_pod_does_not_keep_it_from_another_node(seed: int, group: str) -> None:
    """Its victims are still there when another node comes; its quota has room for it once."""
    memory, number = int(np.random.default_rng(seed).integers(SIZE // 2 + 1, SIZE + 1)), 2 if group else 1
    fleet = full("ab"[:number])
    limit(fleet, "t", number * memory)
    names = [f"high-{n}" for n in range(number)]
    for name in names:
        fleet.come(name, 9, asks(gpumem=memory), namespace="t", annotations=in_group(group, number) if group else {})
    fleet.decide()
    assert len(list(fleet.engine.state.holds)) == number
    for name in "cd"[:number]:
        fleet.engine.observe_node(node(name, cards(name, 1)), fleet.now)
    fleet.now += 60.0
    fleet.decide()
    assert {fleet.node_of(name) for name in names} == set("cd"[:number])
    assert not list(fleet.engine.state.holds)
    assert not fleet.engine.state.drift()
    assert fleet.engine.state.quota_usage.used("t", ("hami", "NVIDIA"), 1) == number * memory


@pytest.mark.parametrize("seed", range(50))
def test_a_higher_priority_goes_before_what_is_kept_for_a_lower_one_of_its_namespace(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lower, higher = (int(rng.integers(SIZE // 2 + 1, SIZE + 1)) for _ in range(2))
    fleet = full("a")
    limit(fleet, "t", max(lower, higher))
    fleet.come("lower", 9, asks(gpumem=lower), namespace="t")
    fleet.decide()
    assert under_way(fleet, "lower") is not None
    fleet.engine.observe_node(node("b", cards("b", 1), unschedulable=True), fleet.now)
    fleet.come("higher", 100, asks(gpumem=higher), namespace="t")
    fleet.engine.observe_node(node("b", cards("b", 1), version=2), fleet.now)
    fleet.decide()
    assert fleet.node_of("higher"), fleet.last["higher"].message
    assert not fleet.node_of("lower")
    fleet.end("uid-low-a")
    fleet.now += 60.0
    fleet.decide()
    assert fleet.engine.state.quota_usage.used("t", ("hami", "NVIDIA"), 1) <= max(lower, higher)
    assert not fleet.engine.state.drift()
