"""What condition and event tell without the nodes: whoever does it sees the pod fit, in every dialect."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import pod, world_of
from tests.whatif.test_whatif_remedies_dialects import BYTES, CORE, CORES, MEMORY, NUMBER, RATIO, SHARED, SIZE, cluster

from vgpu_scheduler.engine import EngineOptions, QuotaReport, event_note, quotas_told_in
from vgpu_scheduler.model import NearMiss
from vgpu_scheduler.whatif import ConditionRemedies, World, ask, make_dialect, remedies_from_condition

Object = dict[str, Any]

WORLDS = 60
HAMI = tuple(f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpucores"))
ASK = re.compile(r"ask (\d+)(Mi)? of (\S+) ")
CARDS = re.compile(r"(\d+)(Mi)? of (\S+?)(?:,|$)")
DOABLE = re.compile(r"ask \d|ask for \d+ card")
MOST_ROUNDS = 8


def asked_in(dialect: str, rng: np.random.Generator) -> Object:
    """Return what a container asks in a dialect: more than half of a card, or all of it, of one or two cards."""
    memory, cores, count = int(rng.integers(SIZE // 2, SIZE * 2)), int(rng.integers(51, 101)), int(rng.integers(1, 3))
    if dialect == "koordinator":
        if rng.random() < 0.5:
            return {SHARED: count, CORE: cores * count, RATIO: cores * count}
        return {SHARED: count, CORE: cores * count, BYTES: f"{memory * count}Mi"}
    names = HAMI if dialect == "hami" else (NUMBER, MEMORY, CORES)
    if dialect == "hami" and rng.random() < 0.2:
        return {names[0]: count, "nvidia.com/gpumem-percentage": int(rng.integers(51, 101))}
    chosen = {names[0]: count, names[1]: memory, names[2]: cores}
    return {name: chosen[name] for name in names if name == names[0] or rng.random() < 0.8}


def random_cards(rng: np.random.Generator) -> list[list[tuple[int, int]]]:
    """Return the cards of a node, each held in part."""
    return [
        [(int(rng.integers(1, SIZE // 2 + 1)), int(rng.integers(1, 51))) for _ in range(2)]
        for _ in range(int(rng.integers(1, 4)))
    ]


def answer(world: World) -> tuple[str, ConditionRemedies]:
    """Return where the pod that waits goes, and what its condition and its event tell."""
    (waiting,) = world.pending.values()
    decision = ask(world, waiting).decision
    if decision.placement is not None:
        return decision.placement.node, ConditionRemedies(None, (), ())
    event = f"{decision.message} {event_note(world.engine, waiting, decision)}"
    alone = World(EngineOptions([make_dialect(world.cards.name)]))  # it knows the settings, and no node
    return "", remedies_from_condition(alone, alone.pod(world.written(waiting)), decision.message, event)


def done(written: Object, remedy: str) -> Object:
    """Return a pod that does what a remedy says."""
    changed = copy.deepcopy(written)
    limits = changed["spec"]["containers"][0]["resources"]["limits"]
    pattern = CARDS if remedy.startswith("ask for ") else ASK
    for amount, unit, name in pattern.findall(remedy.partition(" (more")[0]):
        limits[name] = amount + unit
    return changed


@pytest.mark.parametrize("dialect", ["hami", "volcano", "koordinator"])
@pytest.mark.parametrize("seed", range(WORLDS))
def test_doing_what_is_told_makes_the_pod_fit(dialect: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(dialect, *(random_cards(rng) for _ in range(2)))
    written = pod("asked", asked_in(dialect, rng))
    for _ in range(MOST_ROUNDS):
        node, told = answer(world_of(*objects, written, dialect=dialect)[0])
        if node:
            return
        assert told.remedies, told
        with_amounts = [remedy for remedy in told.remedies if DOABLE.match(remedy)]
        if not with_amounts:  # nothing tells how much nodes, other than cards, have left
            assert any(remedy.startswith("ask for less") for remedy in told.remedies), told
            return
        written = done(written, with_amounts[0])
    raise AssertionError(told)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_near_misses_and_quotas_are_read_back_from_events(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def number() -> int:
        return int(rng.integers(0, 10**6))

    near = NearMiss(f"n-{number()}.x", f"GPU-{number()}-MIG_1", "memory ratio", "percent", number(), number())
    told = tuple(
        QuotaReport("team", f"x-{n}.com/gpu.mem_{n}", number(), number(), "MiB") for n in range(int(rng.integers(1, 4)))
    )
    described = f"namespace team uses {', '.join(map(str, told))}"
    text = f"0/1 nodes are available: 1 CardInsufficientMemory. ({near}; {described}) (see https://x/y#failed)"
    assert NearMiss.found_in(text) == near
    assert quotas_told_in(text) == told
    assert NearMiss.found_in(described) is None
    assert quotas_told_in(str(near)) == ()


def test_the_nearest_card_is_one_that_the_pod_may_use() -> None:
    """Nobody can do anything with a shortage of a card that is denied anyway."""
    registered = "A,10,16384,100,NVIDIA-A100,0,true,0,hami-core:T,10,9000,100,NVIDIA-T4,0,true,1,hami-core:"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", HAMI[0]: "20"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": registered}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    denied = {"metadata": {"annotations": {"nvidia.com/use-gputype": "T4"}}}
    _, told = answer(world_of(node, pod("asked", {HAMI[0]: 1, HAMI[1]: 17000}, **denied))[0])
    assert str(told.near_miss) == "nearest: 9000 of 17000 MiB memory free on n/T"
