"""Sums over cards by model and over what namespaces hold are those of the cards and pods one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.dialects.vendors import NODES, node, pod
from tests.whatif.test_whatif_remedies_dialects import HALF, cluster

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import RESOURCES, Engine, EngineOptions, held_by_namespace, pools
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.whatif import World, make_dialect

WORLDS = 60
"""Each is one more input: random nodes of random vendors, some cards out of service, and pods of three namespaces."""
SHARED = {"hami": True, "volcano": True, "koordinator": False}
"""Whether the cards of a dialect are counted in shares."""


@cache
def _of_makers(seed: int) -> Engine:
    rng = np.random.default_rng(seed)
    dialect = hami_dialect()
    engine = Engine(EngineOptions([dialect]))
    vendors = list(dialect.claims.vendors)
    chosen = [vendors[number] for number in rng.choice(len(vendors), size=int(rng.integers(1, 6)), replace=False)]
    for name in NODES:
        written = node(name, chosen, rng)
        written["metadata"]["resourceVersion"] = "1"
        written["status"]["allocatable"] = {**written["status"]["allocatable"], "pods": "110", **_counts(chosen)}
        notes = written["metadata"]["annotations"]
        for key in notes:
            if rng.random() < 0.3:
                notes[key] = notes[key].replace('"health":true', '"health":false', int(rng.integers(1, 4)))
        cordons = dialect.inventory.cordons
        notes |= {cordons[v.key]: f"{name}-{v.key}-{rng.integers(8)}" for v in chosen if v.key in cordons}
        engine.observe_node(decode_node(written), 0.0)
    for number in range(int(rng.integers(5, 30))):
        written = pod(f"p{number}", chosen, rng)
        written["metadata"] |= {"namespace": f"team-{rng.integers(3)}", "resourceVersion": "1"}
        written["spec"]["schedulerName"] = "vgpu-scheduler"
        engine.observe_pod(decode_pod(written), 0.0)
    while engine.attempt(1.0) is not None:
        pass
    if rng.random() < 0.3:
        engine.state.remove_node(str(rng.choice(NODES)))
    return engine


def _counts(vendors: list[Any]) -> dict[str, str]:
    return {name: "1000000" for vendor in vendors for name in vendor.claims.resources}


def _of_dialect(dialect: str) -> Engine:
    made = World(EngineOptions([make_dialect(dialect)]))
    made.add(cluster(dialect, [[], [HALF]], [[HALF, (100, 10)], []]))
    return made.engine


def _engines() -> list[Any]:
    made = [pytest.param(lambda n=n: _of_makers(n), id=f"vendors-{n}") for n in range(WORLDS)]
    return made + [pytest.param(lambda name=name: _of_dialect(name), id=name) for name in SHARED]


def _one_by_one(engine: Engine) -> tuple[dict[Any, Counter[str]], dict[Any, Counter[str]]]:
    """Count cards by state, and add up amounts, device by device in whole numbers and fractions."""
    states: dict[Any, Counter[str]] = defaultdict(Counter)
    amounts: dict[Any, Counter[str]] = defaultdict(Counter)
    for dialect in engine.dialects:
        inventory, matrix = dialect.inventory, engine.state.matrix(dialect.name)
        for row in engine.state.nodes.rows().tolist():
            for device, (_, used) in zip(matrix.devices(row), matrix.usage(row), strict=True):
                model = (dialect.name, device.type)
                states[model][device.state] += 1
                has = {
                    "memory": device.total[inventory.memory] * inventory.memory_unit,
                    "cores": 100 if device.total[inventory.cores] else 0,
                    "shares": device.total[0] if SHARED[dialect.name] else 0,
                }
                takes = {
                    "memory": used[inventory.memory] * inventory.memory_unit,
                    "cores": device.compute_percent(used[inventory.cores], device.total[inventory.cores]),
                    "shares": used[0],
                }
                for name, total in has.items():
                    ready = device.state == "ready"
                    amounts[*model, name]["capacity"] += total
                    amounts[*model, name]["allocatable"] += total * ready
                    amounts[*model, name]["allocated"] += takes[name]
                    amounts[*model, name]["free"] += max(total - takes[name], 0) * ready
    return states, amounts


@pytest.mark.parametrize("make", _engines())
def test_pools_are_the_sums_of_their_cards(make: Any) -> None:
    engine = make()
    states, amounts = _one_by_one(engine)
    found = pools(engine.state, engine.dialects)
    assert [(pool.dialect, pool.model) for pool in found] == sorted(states)
    for pool in found:
        assert {name: count for name, count in pool.cards.items() if count} == states[pool.dialect, pool.model]
        for name in RESOURCES:
            expected = amounts[pool.dialect, pool.model, name]
            if expected["capacity"]:
                assert pool.amounts[name]._asdict() == pytest.approx(dict(expected))
            else:
                assert name not in pool.amounts


@pytest.mark.parametrize("make", _engines())
def test_what_namespaces_hold_is_the_sum_of_what_their_pods_hold(make: Any) -> None:
    engine = make()
    expected: dict[Any, Counter[str]] = defaultdict(Counter)
    for held in engine.state.reservations():
        for name, usage in held.uses.items():
            inventory, matrix = engine.dialects[name].inventory, engine.state.matrix(name)
            row = engine.state.nodes.row(held.node)
            listed = {device.uuid: device for device in matrix.devices(row)} if row is not None else {}
            for uuid, amounts in usage.charges.items():
                sums, device = expected[held.namespace, name], listed.get(uuid)
                sums["memory"] += amounts[inventory.memory] * inventory.memory_unit
                if device is not None:
                    sums["cores"] += device.compute_percent(amounts[inventory.cores], device.total[inventory.cores])
                sums["shares"] += amounts[0] if SHARED[name] else 0
    found = held_by_namespace(engine.state, engine.dialects)
    assert found.keys() == expected.keys()
    for key, sums in expected.items():
        shown = {name: amount for name, amount in found[key].items() if name != "cores" or _all_listed(engine)}
        assert shown == pytest.approx({name: sums[name] for name in shown})


def _all_listed(engine: Engine) -> bool:
    """Tell whether each node is there: of the compute of another one is known what is counted in percent alone."""
    return all(engine.state.nodes.row(held.node) is not None for held in engine.state.reservations())


def test_the_worlds_have_cards_of_each_kind_in_each_state_and_pods_on_them() -> None:
    """What the tests above prove rests on that."""
    engines = [_of_makers(seed) for seed in range(WORLDS)]
    everything = [pool for engine in engines for pool in pools(engine.state, engine.dialects)]
    assert len({pool.model for pool in everything}) > 15
    for state in ("ready", "unhealthy", "cordoned"):
        assert sum(pool.cards[state] for pool in everything) > 10
    used = [pool for pool in everything if any(amount.allocated for amount in pool.amounts.values())]
    assert len({pool.model for pool in used}) > 10


def test_without_cards_there_is_nothing() -> None:
    engine = Engine(EngineOptions([hami_dialect()]))
    assert (pools(engine.state, engine.dialects), held_by_namespace(engine.state, engine.dialects)) == ([], {})
