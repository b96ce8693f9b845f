"""What each scorer takes where all others take something else."""

import numpy as np
import pytest
from tests.scorers.clusters import NodeOf, cluster, pod, scores, winner

from vgpu_scheduler.scorers import (
    BinpackScorer,
    FragmentationScorer,
    HamiScorer,
    NodePolicy,
    NodeScorer,
    WeightedScorer,
)

SCORERS: dict[str, NodeScorer] = {
    "binpack": BinpackScorer(),
    "fragmentation": FragmentationScorer(),
    "hami binpack": HamiScorer(NodePolicy.BINPACK),
    "hami spread": HamiScorer(NodePolicy.SPREAD),
}

# The pod asks for 2 of 32 cpu and half a card.
NODES = {
    # Its cards are the fullest, but taking half of one of them leaves a quarter that is hard to use.
    "a-full-cards": NodeOf(16, 64, (16384, 16384, 4096, 16384)),
    # Hardly any cpu is left for its two idle cards.
    "b-full-cpu": NodeOf(28, 118, (16384, 16384, 0, 0)),
    # Nothing is used.
    "c-idle": NodeOf(0, 0, (0, 0, 0, 0)),
    # Half a card is left on one of its cards, and there is cpu for the others.
    "d-half-card": NodeOf(8, 32, (8192, 0, 0, 0)),
}
CHOICES = {
    "binpack": "b-full-cpu",
    "fragmentation": "d-half-card",
    "hami binpack": "a-full-cards",
    "hami spread": "c-idle",
}


def alone(name: str) -> WeightedScorer:
    return WeightedScorer(SCORERS[name])


@pytest.mark.parametrize("name", sorted(SCORERS))
def test_each_takes_a_node_of_its_own(name: str) -> None:
    asked = pod(cpu="2", memory="8Gi", gpu="1", gpumem="8192")
    assert winner(cluster(NODES), asked, alone(name)) == CHOICES[name]
    assert len(set(CHOICES.values())) == len(CHOICES)


@pytest.mark.parametrize("name", sorted(SCORERS))
def test_the_order_of_observation_does_not_matter(name: str) -> None:
    asked = pod(cpu="2", memory="8Gi", gpu="1", gpumem="8192")
    rng, expected = np.random.default_rng(5), scores(cluster(NODES), asked, alone(name))
    for _ in range(5):
        names = [str(node) for node in rng.permutation(sorted(NODES))]
        found = scores(cluster({node: NODES[node] for node in names}), asked, alone(name))
        assert found == expected


@pytest.mark.parametrize("off", sorted(SCORERS))
@pytest.mark.parametrize("name", sorted(SCORERS))
def test_a_weight_of_0_has_no_effect(name: str, off: str) -> None:
    asked = pod(cpu="2", memory="8Gi", gpu="1", gpumem="8192")
    state = cluster(NODES)
    assert scores(state, asked, alone(name), WeightedScorer(SCORERS[off], 0)) == scores(state, asked, alone(name))
    two = (alone(name), WeightedScorer(BinpackScorer((("cpu", 5),)), 3))
    assert scores(state, asked, *two, WeightedScorer(SCORERS[off], 0)) == scores(state, asked, *two)


# Binpack -----------------------------------------------------------------------------------------------------------


def test_weights_are_complete_and_sorted() -> None:
    assert BinpackScorer().weights == (("cpu", 1), ("memory", 1))
    made = BinpackScorer((("nvidia.com/gpu", 10), ("memory", 0)))
    assert made.weights == (("cpu", 1), ("memory", 0), ("nvidia.com/gpu", 10))
    assert {made: 1}[BinpackScorer((("memory", 0), ("nvidia.com/gpu", 10), ("cpu", 1)))] == 1
    for wrong in ((("cpu", -1),), (("x", 1), ("x", 2))):
        with pytest.raises(ValueError, match="weight"):
            BinpackScorer(wrong)


def test_device_memory_counts_where_no_node_offers_it() -> None:
    """8192 of 65536 MiB asked, 53248 used on the fullest node: what the scheduler knows, and no kubelet."""
    asked = pod(cpu="2", memory="8Gi", gpu="1", gpumem="8192")
    only = BinpackScorer((("cpu", 0), ("memory", 0), ("nvidia.com/gpumem", 1)))
    found = scores(cluster(NODES), asked, WeightedScorer(only))
    assert found == {
        "a-full-cards": 100 * (3 * 16384 + 4096 + 8192) / 65536,
        "b-full-cpu": 100 * (2 * 16384 + 8192) / 65536,
        "c-idle": 12.5,
        "d-half-card": 25.0,
    }


def test_percent_of_a_card() -> None:
    """Half a card of four: 12.5 percent of the cards, counted in whole percent of the average card."""
    asked = pod(cpu="2", gpu="1", gpumem="8192")
    only = BinpackScorer((("cpu", 0), ("memory", 0), ("nvidia.com/gpumem-percentage", 1)))
    found = scores(cluster({"node": NodeOf(0, 0, (4096, 0, 0, 0))}), asked, WeightedScorer(only))
    assert found == {"node": 100 * (25 + 50) / 400}


def test_the_overflow_of_one_resource_makes_the_whole_node_0() -> None:
    asked = pod(cpu="4", memory="8Gi")
    nodes = {"exact": NodeOf(28, 0), "over": NodeOf(29, 0)}
    scorer = WeightedScorer(BinpackScorer((("memory", 100),)))
    found = scores(cluster(nodes), asked, scorer)
    assert found["over"] == 0
    assert found["exact"] == pytest.approx(100 * (1 + 100 * 8 / 128) / 101)


def test_a_pod_that_asks_for_nothing_scores_0() -> None:
    assert set(scores(cluster(NODES), pod(), alone("binpack")).values()) == {0.0}


# Fragmentation -----------------------------------------------------------------------------------------------------


def test_points_are_those_of_the_formula() -> None:
    asked = pod(cpu="2", memory="8Gi", gpu="1", gpumem="8192")
    found = scores(cluster(NODES), asked, alone("fragmentation"))
    # a: 0.75 cards left and cpu for 2: nothing is stranded; a quarter of the card is left beside the pod.
    # b: stranded 2 - 0.5 before and 1.5 - 0.25 with it; half a card is left beside it. c: half a card beside it.
    # d: stranded 3.5 - 3 before and 3 - 2.75 with it; nothing beside it.
    assert found == {"a-full-cards": 49, "b-full-cpu": 49, "c-idle": 48, "d-half-card": 51}


def test_a_plain_pod_goes_where_it_strands_no_card() -> None:
    nodes = {
        "a-cards-need-the-cpu": NodeOf(16, 0, (16384, 16384, 0, 0)),
        "b-cards-are-taken": NodeOf(0, 0, (16384, 16384, 16384, 16384)),
        "c-no-cards": NodeOf(0, 0),
    }
    found = scores(cluster(nodes), pod(cpu="8"), alone("fragmentation"))
    assert found == {"a-cards-need-the-cpu": 45, "b-cards-are-taken": 50, "c-no-cards": 100}


def test_whole_points_only() -> None:
    nodes = {f"n{i:02}": NodeOf(i, i, (997 * i % 16384, 0)) for i in range(32)}
    found = scores(cluster(nodes), pod(cpu="1", gpu="1", gpumem="777", gpucores="13"), alone("fragmentation"))
    assert all(score.is_integer() for score in found.values())
    assert len(set(found.values())) > 3
