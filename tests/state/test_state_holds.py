"""Room that is kept for pods: whatever happens in whatever order, it is what the pods that leave do not hold yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.model import Usage
from vgpu_scheduler.state import Hold, Phase, Reservation, State

NODES = ("a", "b")
CARD = (4, 8000, 100)
"""Shares, MiB and percent of each card."""


def of_team(rng: np.random.Generator) -> str:
    """Return the namespace of a pod."""
    return str(rng.choice(["red", "blue"]))


def claim(rng: np.random.Generator, number: int) -> Reservation:
    """Return what a pod is to hold on one of the nodes."""
    where = str(rng.choice(NODES))
    uuids = [f"{where}-gpu-{index}" for index in range(2) if rng.random() < 0.7]
    charges = {uuid: (1, int(rng.integers(1, 9)) * 1000, int(rng.choice([0, 50, 100]))) for uuid in uuids}
    uses = {"hami": Usage(charges, vendors=dict.fromkeys(charges, "NVIDIA"))} if charges else {}
    requests = {"cpu": int(rng.integers(1, 5)) * 1000, "nvidia.com/gpu": len(uuids)}
    return Reservation(f"uid-w{number}", of_team(rng), f"w{number}", where, Phase.HOLD, uses, requests)


def come(rng: np.random.Generator, engine: Engine, number: int) -> None:
    """Have a pod run on a card of a node."""
    where, memory, cores = str(rng.choice(NODES)), int(rng.integers(1, 5)) * 1000, int(rng.choice([0, 30]))
    notes = allocation(where, (f"{where}-gpu-{int(rng.integers(0, 2))}", memory, cores))
    running = pod(
        f"p{number}", asks(1, memory, cores), nodeName=where, started=True, annotations=notes, namespace=of_team(rng)
    )
    engine.observe_pod(running, 0.0)


Kept = tuple[dict[str, tuple[int, ...]], dict[str, int], int]
"""What is kept of each card, of each resource, and as how many pods."""


def expected(state: State, node_name: str) -> dict[str, Kept]:
    """Return what must be kept on a node for each pod, in plain Python: what leaves counts for one of them, once."""
    holds = sorted((h for h in state.holds if h.node == node_name), key=lambda h: (-h.priority, h.uid))
    cards, resources, pods = dict[tuple[str, str, int], int](), dict[tuple[str, str], int](), dict[str, int]()
    for uid in {uid for hold in holds for uid in hold.leaving}:
        held = state.reservation(uid)
        if held is None or held.node != node_name:
            continue
        pods[uid] = 1
        resources.update({(uid, name): amount for name, amount in held.requests.items()})
        for card, amounts in held.uses["hami"].charges.items() if "hami" in held.uses else ():
            cards.update({(uid, card, number): amount for number, amount in enumerate(amounts)})

    def left_over(needed: int, of_each: dict[Any, int], keys: list[Any]) -> int:
        for key in keys:
            taken = min(needed, of_each.get(key, 0))
            if taken:
                needed, of_each[key] = needed - taken, of_each[key] - taken
        return needed

    found: dict[str, Kept] = {}
    for hold in holds:
        uids = sorted(hold.leaving)
        kept = {
            card: tuple(
                left_over(amount, cards, [(uid, card, number) for uid in uids]) for number, amount in enumerate(amounts)
            )
            for usage in hold.reservation.uses.values()
            for card, amounts in usage.charges.items()
        }
        of_node = {
            name: left_over(amount, resources, [(uid, name) for uid in uids])
            for name, amount in hold.reservation.requests.items()
        }
        without_pods = left_over(1, pods, uids)
        found[hold.uid] = (
            {card: amounts for card, amounts in kept.items() if any(amounts)},
            {name: amount for name, amount in of_node.items() if amount},
            without_pods,
        )
    return found


def counted_in_quotas(state: State) -> dict[str, tuple[int, ...]]:
    """Return what quotas count of each namespace: all that its pods hold or will, what own pods make room for once."""
    sums: dict[str, list[int]] = {}

    def add(namespace: str, amounts: tuple[int, ...]) -> None:
        found = sums.setdefault(namespace, [0] * len(amounts))
        found[:] = [one + other for one, other in zip(found, amounts, strict=True)]

    for held in state.reservations():
        for usage in held.uses.values():
            for amounts in usage.charges.values():
                add(held.namespace, amounts)
    for node_name in sorted({hold.node for hold in state.holds}):
        holds = sorted((h for h in state.holds if h.node == node_name), key=lambda h: (-h.priority, h.uid))
        left: dict[tuple[str, str, int], int] = {}
        for hold in holds:
            there = (leaving for uid in sorted(hold.leaving) if (leaving := state.reservation(uid)) is not None)
            own = [each for each in there if (each.node, each.namespace) == (node_name, hold.reservation.namespace)]
            for usage in hold.reservation.uses.values():
                for card, amounts in usage.charges.items():
                    needed = list(amounts)
                    for each in own:
                        theirs = each.uses["hami"].charges.get(card, ()) if "hami" in each.uses else ()
                        for number, amount in enumerate(theirs):
                            has = left.setdefault((each.uid, card, number), amount)
                            taken = min(has, needed[number])
                            needed[number] -= taken
                            left[each.uid, card, number] = has - taken
                    add(hold.reservation.namespace, tuple(needed))
    return {namespace: tuple(found) for namespace, found in sums.items() if any(found)}


def check(state: State) -> None:
    """Compare everything that is charged with what is made from scratch, and what is kept with its rule."""
    assert not state.drift()
    twin = state.rebuild()
    for name in NODES:
        row, other = state.nodes.row(name), twin.nodes.row(name)
        if row is not None and other is not None:
            assert state.nodes.used[row].tolist() == twin.nodes.used[other].tolist()
    assert state.quota_usage.as_values() == twin.quota_usage.as_values()
    quotas = {
        namespace: (*amounts, *(0,) * (3 - len(amounts)))
        for namespace, vendors in state.quota_usage.as_values().items()
        for amounts in vendors.values()
    }
    assert quotas == counted_in_quotas(state)
    for hold in state.holds:
        kept = state.holds.charged(hold.uid)
        charges = {uuid: amounts for usage in kept.uses.values() for uuid, amounts in usage.charges.items()}
        resources = {name: amount for name, amount in kept.requests.items() if amount}
        assert (charges, resources, kept.pods) == expected(state, hold.node)[hold.uid]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_kept_follows_its_rule_and_equals_a_recount(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = engine_with([node(name, cards(name, 2)) for name in NODES])
    state, kept_together_with_leavers = engine.state, 0
    for number in range(90):
        act = rng.random()
        held = sorted(each.uid for each in state.reservations())
        if act < 0.3:
            come(rng, engine, number)
        elif act < 0.5 and held:
            engine.remove_pod(held[int(rng.integers(0, len(held)))], 0.0)
        elif act < 0.75:
            wanted = claim(rng, number)
            state.observe_pod(pod(f"w{number}", namespace=wanted.namespace), {})
            state.add_hold(Hold(wanted, int(rng.integers(0, 5)), frozenset(uid for uid in held if rng.random() < 0.5)))
        elif act < 0.85 and state.holds:
            state.give_up(next(iter(state.holds)).uid)
        elif act < 0.9:
            engine.remove_pod(f"uid-w{int(rng.integers(0, number + 1))}", 0.0)
        elif act < 0.95:
            name = str(rng.choice(NODES))
            engine.observe_node(node(name, cards(name, int(rng.integers(0, 3))), version=number + 2), 0.0)
        elif state.node("b") is not None:
            engine.remove_node("b")
        else:
            engine.observe_node(node("b", cards("b", 2), uid=f"anew-{number}", version=number + 2), 0.0)
        check(state)
        kept_together_with_leavers += any(not state.holds.charged(hold.uid).pods for hold in state.holds)
        if held and rng.random() < 0.2:
            with state.without(held[:2]):
                pass  # a question about pods that leave changes nothing
            check(state)
    for hold in list(state.holds):
        state.give_up(hold.uid)
    check(state)
    assert kept_together_with_leavers


def test_a_pod_that_is_placed_bound_or_gone_needs_no_room() -> None:
    for end in ("bound", "gone", "ended"):
        engine = engine_with([node("a", cards("a", 2))])
        state = engine.state
        engine.observe_pod(pod("w1"), 0.0)
        charges = {"a-gpu-0": (1, 1000, 0)}
        wanted = Reservation("uid-w1", "default", "w1", "a", Phase.HOLD, {"hami": Usage(charges)}, {"cpu": 1000})
        state.add_hold(Hold(wanted, 0))
        assert state.ledger() == {"a": charges}
        if end == "bound":
            notes = allocation("a", ("a-gpu-1", 2000, 0))
            engine.observe_pod(pod("w1", nodeName="a", annotations=notes, version=2), 0.0)
        elif end == "ended":
            engine.observe_pod(pod("w1", phase="Failed", version=2), 0.0)
        else:
            engine.remove_pod("uid-w1", 0.0)
        assert not state.holds
        assert state.ledger() == ({"a": {"a-gpu-1": (1, 2000, 0)}} if end == "bound" else {})
        state.add_hold(Hold(wanted, 0))
        assert not state.holds, "nothing is kept for a pod that is there, or gone"
