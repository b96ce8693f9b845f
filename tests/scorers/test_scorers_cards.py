"""The card that fits best: ``bestFit`` takes one that neither ``binpack`` nor ``spread`` takes."""

import pytest
from tests.scorers.clusters import NodeOf, cluster, pod

from vgpu_scheduler.allocators import CardChoice, HamiAllocator, card_order
from vgpu_scheduler.dialects.hami.rules import DeviceRules
from vgpu_scheduler.model import DEVICE_POLICIES, OrderKind

# 8000 MiB of these cards leave 8384, 576 and 960 MiB; the last is the fullest in shares of itself.
CARDS = NodeOf(cards=(0, 16000, 32000), most=(16384, 24576, 40960))


def taken(policy: str, kind: OrderKind = OrderKind.SCORE_FIRST, node: NodeOf = CARDS, **amounts: str) -> list[str]:
    state = cluster({"node": node})
    workload, _ = pod(**(amounts or {"gpu": "1", "gpumem": "8000"}))
    order = card_order(policy, kind, numa_bind=False)
    placed = HamiAllocator(workload.claims, DeviceRules(), order, CardChoice(policy)).place(state.devices, 0)
    assert placed is not None
    return [assignment.uuid for assignment in placed[0]]


@pytest.mark.parametrize("kind", list(OrderKind))
def test_only_best_fit_takes_it(kind: OrderKind) -> None:
    assert taken("bestFit", kind) == ["node/1"]
    assert taken("binpack", kind) == ["node/2"]
    assert taken("spread", kind) == ["node/0"]


def test_what_does_not_hold_the_claim_is_passed_over() -> None:
    assert taken("bestFit", gpu="1", gpumem="8700") == ["node/2"]
    assert taken("bestFit", gpu="2", gpumem="8500") == ["node/1", "node/2"]


def test_a_percentage_is_that_of_each_card() -> None:
    """Nothing is left of a card that is claimed whole: all are equal, and the later one comes first."""
    idle = NodeOf(cards=(0, 0, 0), most=(16384, 40960, 24576))
    assert taken("bestFit", node=idle, gpu="1") == ["node/2"]
    assert taken("bestFit", node=idle, gpu="1", gpumem="1") == ["node/0"]


def test_equal_memory_goes_by_cores() -> None:
    state = cluster({"node": NodeOf(cards=(4096, 4096, 4096))})
    for number, cores in enumerate((20, 50, 10)):
        position = state.devices.position(0, f"node/{number}")
        assert position is not None
        state.devices.charge(position, (0, 0, cores), 1)
    workload, _ = pod(gpu="3", gpumem="1000", gpucores="30")
    order = card_order("bestFit", OrderKind.NUMA_FIRST, numa_bind=False)
    placed = HamiAllocator(workload.claims, DeviceRules(), order).place(state.devices, 0)
    assert placed is not None
    assert [assignment.uuid for assignment in placed[0]] == ["node/1", "node/0", "node/2"]


def test_it_is_a_word_of_policies_and_only_alone() -> None:
    assert "bestFit" not in DEVICE_POLICIES
    assert taken("bestFit,numa") == taken("numa,unknown") != taken("bestFit")
    assert taken("bestfit") == taken(" bestFit") == taken("spread")
