"""What namespaces have held over time is what their pods held, one by one, at every moment."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, node, pod
from tests.engine.test_engine_pools import WORLDS, _of_dialect, _of_makers

from vgpu_scheduler.engine import Engine, UsageMeter

GIB = 2**30
MOST = 1000


def meter_of(engine: Engine, most: int = MOST) -> UsageMeter:
    return UsageMeter(engine.state, engine.dialects, most, "other")


def held_now(engine: Engine) -> dict[tuple[str, str], list[float]]:
    """Return bytes and cards that each namespace holds of each model, added up pod by pod."""
    found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    shares: dict[Any, list[tuple[tuple[str, str], float]]] = defaultdict(list)
    for held in engine.state.reservations():
        row = engine.state.nodes.row(held.node)
        if row is None:
            continue
        for name, usage in held.uses.items():
            matrix, inventory = engine.state.matrix(name), engine.dialects[name].inventory
            listed = {device.uuid: device for device in matrix.devices(row)}
            for uuid, amounts in usage.charges.items():
                if (device := listed.get(uuid)) is None:
                    continue
                key = (held.namespace, device.type)
                found[key][0] += amounts[inventory.memory] * inventory.memory_unit
                slots, memory, cores = (device.total[n] for n in (0, inventory.memory, inventory.cores))
                of_compute = device.compute_percent(amounts[inventory.cores], cores) / 100 if cores else 0.0
                of_memory = amounts[inventory.memory] / memory if memory else 0.0
                share = max(of_compute, of_memory, amounts[0] / slots if slots else 0.0)
                shares[held.node, name, uuid].append((key, min(share, 1.0)))
    for on_card in shares.values():
        whole = max(sum(share for _, share in on_card), 1.0)
        for key, share in on_card:
            found[key][1] += share / whole
    return found


@pytest.mark.parametrize("seed", range(WORLDS))
def test_it_adds_up_what_is_held_at_every_moment(seed: int) -> None:
    engine, rng, now = _of_makers(seed), np.random.default_rng(seed), 0.0
    meter = meter_of(engine)
    meter.start(now)
    expected: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for _ in range(12):
        seconds = float(rng.integers(1, 100))
        now += seconds
        for key, (memory, part) in held_now(engine).items():
            expected[key][0] += memory * seconds
            expected[key][1] += part * seconds
        meter.advance(now)
        pods = sorted(held.uid for held in engine.state.reservations())
        if pods and rng.random() < 0.7:
            engine.remove_pod(str(rng.choice(pods)), now)
        elif rng.random() < 0.3 and (names := sorted(each.name for each in engine.state.all_nodes())):
            engine.remove_node(str(rng.choice(names)))
        meter.advance(now)  # what changed is looked at
    found = {(each.namespace, each.model): (each.byte_seconds, each.card_seconds) for each in meter.metered()}
    for key, (memory, part) in expected.items():
        assert found[key] == pytest.approx((memory, part), rel=1e-6, abs=1e-3), key
    assert {key for key, values in found.items() if any(values)} <= expected.keys()


@pytest.mark.parametrize("dialect", ["hami", "volcano", "koordinator"])
def test_no_card_counts_more_than_once(dialect: str) -> None:
    engine = _of_dialect(dialect)
    meter = meter_of(engine)
    meter.start(0.0)
    meter.advance(10.0)
    used = {
        (held.node, uuid)
        for held in engine.state.reservations()
        for usage in held.uses.values()
        for uuid in usage.charges
    }
    total = sum(each.card_seconds for each in meter.metered())
    assert 0 < total <= 10 * len(used) + 1e-6
    assert sum(each.byte_seconds for each in meter.metered()) == pytest.approx(
        10 * sum(memory for memory, _ in held_now(engine).values())
    )


def whole_cards(number: int) -> Engine:
    held = pod("p", annotations=allocation("a", *((f"a-gpu-{n}", 8000, 100) for n in range(number))), nodeName="a")
    return engine_with([node("a", cards("a", number))], [held])


def test_whole_cards_count_as_such() -> None:
    meter = meter_of(whole_cards(3))
    meter.start(100.0)
    meter.advance(160.0)
    (each,) = meter.metered()
    assert (each.namespace, each.card_seconds, each.byte_seconds) == ("default", 180.0, 3 * 8000 * 2**20 * 60.0)


def test_cards_whose_shares_add_up_to_more_are_divided() -> None:
    holders = [("most-memory", 7200, 10), ("most-compute", 800, 90)]
    pods = [
        pod(name, annotations=allocation("a", ("a-gpu-0", memory, cores)), nodeName="a", namespace=name)
        for name, memory, cores in holders
    ]
    meter = meter_of(engine_with([node("a", cards("a", 1))], pods))
    meter.start(0.0)
    meter.advance(10.0)
    assert {each.namespace: each.card_seconds for each in meter.metered()} == pytest.approx(
        {"most-memory": 5.0, "most-compute": 5.0}
    )


def test_names_that_come_later_are_metered_together_and_no_counter_goes_back() -> None:
    engine = engine_with([node("a", cards("a", 4))], [])
    meter = meter_of(engine, 2)
    meter.start(0.0)
    seen: dict[str, float] = {}
    for number in range(8):
        now = 10.0 * (number + 1)
        name = f"team-{number}"
        engine.observe_pod(pod(name, asks(1, 1000), namespace=name), now)
        assert engine.attempt(now) is not None
        if number > 2:
            engine.remove_pod(f"uid-team-{number - 3}", now)
        meter.advance(now)
        for each in meter.metered():
            assert each.byte_seconds >= seen.get(each.namespace, 0.0)
            seen[each.namespace] = each.byte_seconds
    assert seen.keys() == {"team-0", "team-1", "other"}


def test_what_was_held_before_it_began_does_not_count() -> None:
    meter = meter_of(whole_cards(1))
    meter.advance(1000.0)
    assert not list(meter.metered())
    meter.start(2000.0)
    meter.advance(2010.0)
    meter.start(5000.0)  # it led no more for a while
    meter.advance(5010.0)
    (each,) = meter.metered()
    assert each.card_seconds == 20.0


@pytest.mark.parametrize("seed", range(50))
def test_over_a_failover_what_prometheus_adds_up_is_what_was_held(seed: int) -> None:
    """Two replicas, of which the first is killed: what each shows while it leads grows by what was held, within 1 %."""
    rng = np.random.default_rng(seed)
    scrape_every, lease, hours = 15.0, 15.0, 2
    engine = whole_cards(2)
    killed = float(rng.uniform(600.0, 6000.0))
    leads = killed + float(rng.uniform(0.0, lease))
    first, second = meter_of(engine), meter_of(engine)
    first.start(0.0)
    grown = 0.0
    for meter, begins, ends in ((first, 0.0, killed), (second, leads, 3600.0 * hours)):
        meter.start(begins)
        offset = float(rng.uniform(0.0, scrape_every))
        shown = []
        for now in np.arange(begins + offset, ends, scrape_every).tolist():
            meter.advance(now)
            shown.append(next(iter(meter.metered())).card_seconds)
        grown += shown[-1] - shown[0]
    assert grown == pytest.approx(2 * 3600.0 * hours, rel=0.01)
