"""Learned prices in decisions: when they come, what they rest on, what they do, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.engine.builders import asks, card, cards, engine_with, node, node_part, pod
from tests.engine.policy_worlds import with_policies

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine import prices as learning
from vgpu_scheduler.kernels import CardPrices
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import Decision, Outcome, Placement
from vgpu_scheduler.scorers.prices import LEAST_SEEN

AUTO = {"nodes": {"scorers": [{"name": "fragmentation", "prices": "Auto"}]}}
ROOM = {"cpu": "64", "pods": "500", "nvidia.com/gpu": "500"}
T4 = {"nvidia.com/use-gputype": "T4"}


def fleet(*, each: int = 4) -> list[Node]:
    """Nodes with T4s and nodes with A100s, 4 cards each."""
    return [node(f"t4-{i}", cards(f"t4-{i}", 4), allocatable=ROOM) for i in range(each)] + [
        node(f"a100-{i}", cards(f"a100-{i}", 4, type="NVIDIA-A100", memory=80000), allocatable=ROOM)
        for i in range(each)
    ]


def learned(nodes: Sequence[Node], policy: dict[str, Any] = AUTO) -> Engine:
    return with_policies(engine_with(nodes), policy)


def holding(engine: Engine, pods: Iterator[Pod] | Sequence[Pod]) -> None:
    """Have pods placed, or turned away where they do not fit."""
    for asking in pods:
        assert decided(engine, asking).outcome in (Outcome.PLACED, Outcome.UNSCHEDULABLE)


def decided(engine: Engine, asking: Pod, **more: Any) -> Decision:
    engine.observe_pod(asking, 0.0)
    decision = engine.attempt(0.0, **more)
    assert decision is not None
    assert decision.uid == asking.uid
    if decision.placement is None:
        engine.remove_pod(asking.uid, 0.0)
    return decision


def place(engine: Engine, asking: Pod) -> Placement:
    placement = decided(engine, asking).placement
    assert placement is not None
    return placement


def shares(number: int, gpumem: int = 2000, **more: Any) -> list[Pod]:
    return [pod(f"share-{gpumem}-{i}", asks(1, gpumem, cpu="100m"), **more) for i in range(number)]


def by_model(engine: Engine) -> dict[str, Any]:
    """The prices as they are, by the names of the models instead of their numbers."""
    found = engine.state.prices["hami"]
    names = engine.state.devices.models
    return {
        "sizes": (found.cards.tolist(), found.cpu.tolist()),
        **{
            "/".join(names[number]): [column[number].tolist() for column in _of_models(found)]
            for number in range(len(found.known))
        },
    }


def _of_models(prices: CardPrices) -> list[Any]:
    return [column for name, column in prices._asdict().items() if name not in ("cards", "cpu")]


# When ---------------------------------------------------------------------------------------------------------------


def test_nothing_is_known_before_enough_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EVERY", 1)
    engine, without = learned(fleet()), learned(fleet(), {"nodes": {"scorers": [{"name": "fragmentation"}]}})
    for asking in shares(LEAST_SEEN):
        assert not engine.state.prices
        found, plain = decided(engine, asking, explain=True), decided(without, asking, explain=True)
        assert (found.placement, found.scores) == (plain.placement, plain.scores)
    decision = decided(engine, pod("last"), explain=True)
    assert engine.state.prices["hami"].known.any()
    assert decision.scores != decided(without, pod("last"), explain=True).scores


def test_prices_are_replaced_at_fixed_counts_of_decisions_that_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EVERY", 4)
    other = {"selector": {"matchLabels": {"app": "other"}}, "priority": 5, "nodes": {"policy": "binpack"}}
    engine, learns = with_policies(engine_with(fleet()), AUTO, other), []
    monkeypatch.setattr(
        learning.PriceLearner, "learn", lambda self: learns.append(len(list(self._state.reservations())))
    )
    holding(engine, shares(6))
    assert learns == [0, 4]
    holding(engine, shares(7, 1000, labels={"app": "other"}))
    assert learns == [0, 4], "pods that are ranked without prices do not count"
    holding(engine, shares(3, 3000))
    assert learns == [0, 4, 15]


def test_the_same_prices_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EVERY", 1)
    engine = learned(fleet())
    holding(engine, shares(LEAST_SEEN))
    place(engine, pod("one"))
    epoch = engine.state.price_epoch
    for name in ("large", "larger"):  # they go nowhere, so that nothing changes after "one" was priced in
        assert decided(engine, pod(name, asks(1, 90000))).outcome is Outcome.UNSCHEDULABLE
        assert engine.state.price_epoch == epoch + 1


def test_new_prices_cost_a_scoring_and_no_fit() -> None:
    engine = learned(fleet())
    holding(engine, shares(LEAST_SEEN + 1))
    asking, state = pod("p"), engine.state
    part, rows = node_part(engine.algorithm, asking), state.nodes.rows()
    part.refresh(state, rows)
    before = part.score.copy()
    engine.algorithm._prices.learn()  # type: ignore[union-attr]
    assert part.refresh(state, rows) == 0
    assert (part.score != before).any()
    assert part.refresh(state, rows) == 0


# What they rest on --------------------------------------------------------------------------------------------------


def mixed(rng: np.random.Generator, number: int) -> Iterator[Pod]:
    """Pods of many kinds."""
    for i in range(number):
        kind = {
            0: {"resources": asks(1, int(rng.choice([700, 2600, 6500])), int(rng.choice([0, 20])), cpu="500m")},
            1: {"resources": asks(2, 8000, cpu="3")},
            2: {"resources": asks(1, 4000, cpu="1"), "annotations": T4},
            3: {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "35"}}},
            4: {"resources": asks(1, 900), "nodeSelector": {"pool": "rare"}},
        }
        yield pod(f"p{i}", **kind[int(rng.integers(0, 5))])


def mixed_fleet() -> list[Node]:
    rare = [node("rare", cards("rare", 4, type="NVIDIA-L4"), allocatable=ROOM, labels={"pool": "rare"})]
    sick = [node("sick", [card("sick-0", healthy=False), card("sick-1")], allocatable=ROOM)]
    return [*fleet(each=6), *rare, *sick]


@pytest.mark.parametrize("seed", range(3))
def test_a_restarted_scheduler_has_the_same_prices(seed: int) -> None:
    """Whatever it sees first: prices follow from the pods that are bound, not from how they came to be there."""
    rng = np.random.default_rng(seed)
    engine, bound = learned(mixed_fleet()), {}
    for asking in mixed(rng, 400):
        placement = decided(engine, asking).placement
        if placement is not None:
            annotations = engine.dialects.annotations(placement, 0.0, asking)
            bound[asking.uid] = (asking, placement.node, {**asking.annotations, **annotations})
        if bound and rng.random() < 0.3:
            gone = str(rng.choice(sorted(bound)))
            del bound[gone]
            engine.remove_pod(gone, 0.0)
    engine.algorithm._prices.learn()  # type: ignore[union-attr]

    restarted = learned([mixed_fleet()[i] for i in rng.permutation(len(mixed_fleet()))])
    for uid in rng.permutation(sorted(bound)).tolist():
        asking, name, annotations = bound[uid]
        seen = pod_like(asking, name, annotations)
        restarted.observe_pod(seen, 0.0)
    assert restarted.state.ledger() == engine.state.ledger()
    assert not restarted.state.prices
    holding(restarted, [pod("first", asks(1, 10**7))])
    assert by_model(restarted) == by_model(engine)
    assert any(restarted.state.prices["hami"].contended)
    assert restarted.state.prices["hami"].reserve.any()


def pod_like(asking: Pod, name: str, annotations: dict[str, str]) -> Pod:
    return msgspec.structs.replace(asking, node_name=name, annotations=annotations, resource_version=2, phase="Running")


# What they do -------------------------------------------------------------------------------------------------------


def test_models_that_others_need_are_left_to_them() -> None:
    nodes = [*(node(f"t4-{i}", cards(f"t4-{i}", 8), allocatable=ROOM) for i in range(8)),
             *(node(f"v100-{i}", cards(f"v100-{i}", 8, type="V100"), allocatable=ROOM) for i in range(8))]  # fmt: skip
    pinned = [pod(f"pinned-{i}", asks(1, 8000), annotations={"nvidia.com/use-gputype": "V100"}) for i in range(30)]
    engine = learned(nodes[8:] + nodes[:8])
    holding(engine, [*pinned, *shares(LEAST_SEEN, 4000)])
    engine.algorithm._prices.learn()  # type: ignore[union-attr]
    contended = dict(zip(engine.state.devices.models, engine.state.prices["hami"].contended, strict=True))
    assert contended["NVIDIA", "NVIDIA-Tesla T4", "hami-core"] == 0 < contended["NVIDIA", "V100", "hami-core"]
    names = {place(engine, asking).node[:2] for asking in shares(8, 8000, priority=3)}
    assert names == {"t4"}


def test_rests_are_worth_what_somebody_asks_for() -> None:
    engine = learned([node("a", cards("a", 40, memory=10000), allocatable=ROOM)])
    holding(engine, [pod(f"half-{i}", asks(1, 5000)) for i in range(LEAST_SEEN)])
    engine.algorithm._prices.learn()  # type: ignore[union-attr]
    worth = engine.state.prices["hami"].worth[0, 0]
    assert worth[49] == 0
    assert worth[50] == worth[99] == pytest.approx(0.5)
    assert worth[100] == pytest.approx(1)


def test_nodes_are_left_to_pods_with_several_cards() -> None:
    nodes = [node(f"n{i}", cards(f"n{i}", 4), allocatable=ROOM) for i in range(40)]
    engine = learned(nodes)
    holding(engine, [pod(f"four-{i}", asks(4, 8000)) for i in range(34)])
    holding(engine, shares(LEAST_SEEN, 8000 // 4))
    engine.algorithm._prices.learn()  # type: ignore[union-attr]
    prices = engine.state.prices["hami"]
    assert prices.cards.tolist() == [4]
    assert prices.reserve.max() > 0
    broken = [place(engine, asking).node for asking in shares(3, 8000)]
    engine.remove_pod("uid-share-8000-0", 0.0)
    assert broken[0] != place(engine, pod("four", asks(4, 8000))).node
    assert len(set(broken)) == 1, "the node that is broken into already is taken, until it is full"


def test_the_terms_explain_the_score() -> None:
    engine = learned(fleet(each=8))
    holding(engine, [pod(f"two-{i}", asks(2, 8000)) for i in range(2)])
    holding(engine, shares(LEAST_SEEN, 2600, annotations=T4))
    engine.algorithm._prices.learn()  # type: ignore[union-attr]
    decision = decided(engine, pod("p", asks(1, 3000)), explain=True)
    assert len(decision.scores) > 1
    for parts in decision.scores.values():
        whole, *terms = parts
        assert terms
        assert {term.within for term in terms} == {"fragmentation"}
        assert abs(50 + sum(term.value for term in terms) - whole.value) < 1 / 16
    assert decision.placement is not None
    assert decision.score == decision.scores[decision.placement.node][0].value


# Whatever there is --------------------------------------------------------------------------------------------------


def test_cards_that_nobody_claims_are_ranked_without_prices() -> None:
    """Vendors of which too little was seen: their pods, and plain pods, are ranked all the same."""
    engine = learned(fleet())
    holding(engine, shares(LEAST_SEEN))
    engine.observe_node(node("late", cards("late", 2, type="NVIDIA-H100"), allocatable=ROOM), 0.0)
    engine.algorithm._prices.learn()  # type: ignore[union-attr]
    engine.observe_node(node("later", cards("later", 2, type="NVIDIA-B200"), allocatable=ROOM), 0.0)
    holding(engine, [pod("plain", asks(0, cpu="2")), pod("huge", asks(1, 70000)), pod("b", annotations={
        "nvidia.com/use-gputype": "B200"})])  # fmt: skip
    reservation = engine.state.reservation("uid-b")
    assert reservation is not None
    assert reservation.node == "later"


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0"}},
        {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"}},
        asks(1, 1),
        asks(0, cpu="10m"),
    ],
)
def test_pods_that_are_all_alike(resources: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EVERY", 16)
    nodes = [node(f"n{i}", cards(f"n{i}", 8, count=10), allocatable=ROOM) for i in range(10)]
    engine = learned([*nodes, node("bare", allocatable=ROOM)])
    holding(engine, [pod(f"p{i}", resources) for i in range(100)])
    for prices in engine.state.prices.values():
        assert all(np.isfinite(column).all() for column in prices)
    assert not engine.state.over_capacity()
