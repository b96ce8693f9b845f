"""``limits.exclusiveCardsPerPod`` bounds the cards that a pod gets for itself, however it comes by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.engine.builders import OURS
from tests.engine.dialect_worlds import HAMI
from tests.engine.odd_values import hami_engine, other_engine
from tests.policy.resources import policy

from vgpu_scheduler.dialects.hami import Vendor
from vgpu_scheduler.dialects.hami.vendors.ascend_chips import NpuRequests
from vgpu_scheduler.dialects.hami.vendors.shares import CountRequests, ShareRequests
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Outcome

VENDORS = {vendor.key: vendor for vendor in HAMI.claims.vendors}
SEEDS = range(6)
MUTEX = {"hami.io/gpu-scheduler-policy": "mutex"}
EXCLUSIVE = {"devices": {"exclusive": True}}
NO_SHARES = {"Metax-GPU", "GCU", "kunlun", "Vastai", "Biren"}
"""Vendors whose cards are asked for whole."""


@dataclass(frozen=True)
class Asked:
    """What containers ask for, and how many cards that makes the pod's own."""

    own: int
    limits: list[dict[str, str]]
    annotations: dict[str, str] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)


def of_maker(vendor: Vendor, dice: Random) -> Iterator[Asked]:
    """Pods that ask for one vendor's cards."""
    claims, count = vendor.claims, dice.choice([2, 4])
    if isinstance(claims, CountRequests):
        yield Asked(count, [{claims.count: str(count)}])
        yield Asked(count + 1, [{claims.count: str(count)}, {claims.count: "1"}])
        return
    if vendor.key == "AWSNeuron":
        yield Asked(0, [{"aws.amazon.com/neuroncore": "1"}])
        yield Asked(count, [{"aws.amazon.com/neuron": str(count)}])
        yield Asked(count, [{"aws.amazon.com/neuroncore": str(2 * count)}])
        return
    if vendor.key == "Enflame":
        yield Asked(0, [{"enflame.com/drs-gcu": "1"}])
        yield Asked(0, [{"enflame.com/gcu-memory": "4"}])
        yield Asked(1, [{"enflame.com/gcu-memory": "4", "enflame.com/gcu-core": "100"}])
        yield Asked(2, [{"enflame.com/drs-gcu": "1"}] * 2, policy=EXCLUSIVE)
        return
    assert isinstance(claims, ShareRequests)
    whole = {claims.count: str(count)}
    yield Asked(count, [whole])
    yield Asked(count, [whole], policy=EXCLUSIVE)
    if vendor.key in NO_SHARES:
        return
    divisor = count if claims.divided else 1
    share = {claims.count: "1", claims.memory: str(max(4096 // claims.memory_factor, 1))}
    if claims.cores:
        share[claims.cores] = str(max(claims.units // 10, 1))
    yield Asked(0, [share] * dice.randint(1, 3))
    yield Asked(count, [whole, share])
    yield Asked(dice.randint(1, 1), [share], MUTEX)
    yield Asked(2, [share, share], policy=EXCLUSIVE)
    yield Asked(1, [share], policy={"devices": {"policy": "numa,mutex"}})
    if claims.cores and not isinstance(claims, NpuRequests):
        full = {**share, claims.count: str(count), claims.cores: str(claims.units * divisor)}
        full[claims.memory] = str(int(share[claims.memory]) * divisor)
        yield Asked(count, [full])
        yield Asked(count + 1, [full, {**share, claims.cores: str(claims.units)}])
    if claims.memory_percent:
        yield Asked(1, [{claims.count: "1", claims.memory_percent: "100"}])
        yield Asked(0, [{claims.count: "1", claims.memory_percent: "99"}])
    if isinstance(claims, NpuRequests) and claims.chip is not None:
        yield Asked(1, [{claims.count: "1", claims.memory: str(claims.chip.allocatable // claims.memory_factor)}])


def of_volcano(dice: Random) -> Iterator[Asked]:
    number, memory, cores = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
    share = {number: "1", memory: str(dice.randint(1, 2000)), cores: str(dice.randint(1, 99))}
    yield Asked(0, [share])
    yield Asked(1, [{**share, cores: "100"}])
    yield Asked(2, [{number: "2"}])
    yield Asked(2, [{**share, number: "2", cores: "100"}])
    yield Asked(1, [share], MUTEX)
    yield Asked(1, [share], policy=EXCLUSIVE)
    yield Asked(2, [{**share, number: "2"}], policy={"devices": {"policy": "mutex"}})


def of_koordinator(dice: Random) -> Iterator[Asked]:
    core, ratio = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
    part = str(dice.randint(1, 99))
    yield Asked(0, [{core: part, ratio: part}])
    yield Asked(1, [{core: "100", ratio: part}])
    yield Asked(1, [{core: part, ratio: "100"}])
    yield Asked(1, [{ratio: "100"}])
    yield Asked(2, [{core: "200", ratio: "200"}])
    yield Asked(2, [{"nvidia.com/gpu": "2"}])
    yield Asked(1, [{core: part, ratio: part}], MUTEX)
    yield Asked(1, [{core: part, ratio: part}], policy=EXCLUSIVE)


def check(engine: Engine, asked: Asked) -> None:
    """Hold a pod against every limit around what it is to count as."""
    names = [{"name": f"c{n}", "resources": {"limits": c, "requests": c}} for n, c in enumerate(asked.limits)]
    wire = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p", "annotations": asked.annotations},
        "spec": {"schedulerName": OURS, "containers": names},
        "status": {"phase": "Pending"},
    }
    if asked.policy:
        engine.policy_tracker.observe(policy("order", asked.policy))
    before = engine.algorithm.decide(decode_pod(wire))
    assert before.outcome is not Outcome.REFUSED, (asked, before.message)
    for most in range(asked.own + 2):
        engine.policy_tracker.observe(policy("house", {"limits": {"exclusiveCardsPerPod": most}}))
        found = engine.algorithm.decide(decode_pod(wire))
        says = f"limits.exclusiveCardsPerPod of ClusterVGPUPolicy house allows {most}"
        assert (says in found.message) == (most < asked.own), (asked, most, found.message)
        if most >= asked.own:
            assert (found.outcome, found.placement) == (before.outcome, before.placement)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_cards_of_its_own_under_hami(vendor: Vendor) -> None:
    for seed in SEEDS:
        for asked in of_maker(vendor, Random(f"{vendor.key} {seed}")):
            check(hami_engine(vendor), asked)


@pytest.mark.parametrize("name", ["volcano", "koordinator"])
def test_cards_of_its_own_under_other_dialects(name: str) -> None:
    for seed in range(8):
        for asked in {"volcano": of_volcano, "koordinator": of_koordinator}[name](Random(seed)):
            check(other_engine(name), asked)
