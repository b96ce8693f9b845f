"""What it costs to decide a pod whose cards are chosen by their links: one node, from the pod to the placement."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.decisions import linked
from benchmarks.replay import NAME, new_engine
from vgpu_devcluster import A100_PROFILES, equip
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_node, decode_pod

ROUNDS = 12
MIG_CARDS, SLICES = 8, 7
AIM = 5.0
"""Milliseconds that no decision should take."""

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of cards for which the decision took longest, and how long.

    Attributes
    ----------
    what
        Candidates and links.
    wanted
        How many cards were asked for.
    worst
        Milliseconds, the least of some rounds.
    """

    what: str
    wanted: int
    worst: float


HARD = {16: 96, MIG_CARDS: 69}
"""By the number of cards: the seed of the random scores that took longest of the first 120."""


def tables(cards: int) -> Mapping[str, Table]:
    """Return pair scores of this many cards: all alike, in two groups, in pairs, and at random."""
    group = np.arange(cards)
    halves = np.where((group[:, None] < cards // 2) == (group[None, :] < cards // 2), 600, 20)
    pairs = np.where(group[:, None] // 2 == group[None, :] // 2, 600, 20)
    chance, hard = (np.random.default_rng(seed).integers(0, 1000, size=(cards, cards)) for seed in (1, HARD[cards]))
    return {
        "all alike": np.full((cards, cards), 300),
        "two groups": halves,
        "pairs": pairs,
        "at random": np.triu(chance) + np.triu(chance, 1).T,
        "at random, the hardest of 120": np.triu(hard) + np.triu(hard, 1).T,
    }


def engine(cards: int, table: Table, *, mig: bool) -> Engine:
    """Return an engine that knows one node, whose cards are linked as the table says."""
    found = equip("node", ["A100-40G"] * cards, count=SLICES if mig else 10, mode="mig" if mig else "hami-core")
    if mig:
        found = [replace(card, profiles=A100_PROFILES) for card in found]
    node = {
        "metadata": {
            "name": "node",
            "uid": "node",
            "annotations": linked(found, lambda one, other: int(table[one, other])),
        },
        "status": {"allocatable": {"pods": "110", "nvidia.com/gpu": "1000"}},
    }
    made = new_engine()
    made.observe_node(decode_node(node), 0.0)
    return made


def decide(made: Engine, uid: str, wanted: int) -> float:
    """Decide a pod that asks for so many cards, and give them back; return the seconds that the decision took."""
    limits = {"nvidia.com/gpu": str(wanted), "nvidia.com/gpumem": "1000"}
    metadata: dict[str, Any] = {
        "name": uid,
        "namespace": "default",
        "uid": uid,
        "annotations": {"hami.io/gpu-scheduler-policy": "topology-aware"},
    }
    spec = {"schedulerName": NAME, "containers": [{"name": "main", "resources": {"limits": limits}}]}
    made.observe_pod(decode_pod({"metadata": metadata, "spec": spec}), 0.0)
    began = time.perf_counter()
    decision = made.attempt(0.0)
    took = time.perf_counter() - began
    assert decision is not None
    assert decision.placement is not None, decision.message
    made.remove_pod(uid, 0.0)
    return took


def slowest(what: str, cards: int, table: Table, *, mig: bool = False) -> Decision:
    """Ask for every number of cards; return the slowest decision."""
    found = Decision(what, 0, 0.0)
    for wanted in range(1, cards * (SLICES if mig else 1)):
        # A new engine each time: nothing of the answer is known before.
        engines = [engine(cards, table, mig=mig) for _ in range(ROUNDS)]
        best = min(decide(made, f"pod-{wanted}", wanted) for made in engines)
        if best * 1e3 > found.worst:
            found = Decision(what, wanted, best * 1e3)
    return found


def measure() -> Iterator[Decision]:
    """Measure 16 whole cards, and the 56 placements of 8 MIG cards."""
    for name, table in tables(16).items():
        yield slowest(f"16 cards, {name}", 16, table)
    for name, table in tables(MIG_CARDS).items():
        yield slowest(f"{MIG_CARDS * SLICES} placements on {MIG_CARDS} cards, {name}", MIG_CARDS, table, mig=True)
