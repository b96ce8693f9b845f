"""Every vendor's cards from claim to ledger: what is written is what is read back, and no card is overbooked."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.dialects.guard import guarded
from tests.dialects.vendors import MODES, NODES, asking, bound, node, pod

from vgpu_scheduler.allocators import CardChoice
from vgpu_scheduler.dialects import ClaimError, stamped
from vgpu_scheduler.dialects.hami import Vendor, hami_dialect, vendors
from vgpu_scheduler.kube import Node, Pod, decode_node, decode_pod
from vgpu_scheduler.model import NO_USAGE, Amounts, Compute, Placement, Usage
from vgpu_scheduler.state import State

DIALECT = hami_dialect()
VENDORS = {vendor.key: vendor for vendor in vendors()}
POLICIES = ("binpack", "spread", "mutex", "numa", "spread", "binpack")
PODS = 30


@pytest.mark.parametrize("key", [*VENDORS, "all of them"])
def test_what_is_written_is_read_back_and_no_card_is_overbooked(key: str) -> None:
    makers = [VENDORS[key]] if key in VENDORS else list(VENDORS.values())
    placed: Counter[str] = Counter()
    for seed in range(6):
        placed += book_many(makers, np.random.default_rng(seed))
    expected = {vendor.key for vendor in makers}
    if key == "NVIDIA":
        expected |= {f"NVIDIA {mode}" for mode in MODES}
    assert expected <= placed.keys(), f"of {placed} some were never given out"


@pytest.mark.parametrize("text", ["0", "0k", "00", "0.0", "0Gi"])
@pytest.mark.parametrize("key", VENDORS)
def test_nothing_is_asked_for_however_it_is_written(key: str, text: str) -> None:
    wire = asking(dict.fromkeys(VENDORS[key].claims.counts, text))
    running = decode_pod(bound(wire, "n", {}))
    assert DIALECT.allocation.usage(running) == NO_USAGE
    assert not DIALECT.claims.read(decode_pod(wire))[0].claims


def test_what_goes_first_says_that_nothing_is_asked_for() -> None:
    """A number of devices goes before one of cores, slices before memory."""
    for limits in (
        {"aws.amazon.com/neuron": "0", "aws.amazon.com/neuroncore": "2"},
        {"enflame.com/drs-gcu": "0k", "enflame.com/gcu-memory": "4"},
    ):
        assert DIALECT.allocation.usage(decode_pod(bound(asking(limits), "n", {}))) == NO_USAGE
        assert not DIALECT.claims.read(decode_pod(asking(limits)))[0].claims


def book_many(makers: list[Vendor], rng: np.random.Generator) -> Counter[str]:
    """Place many pods, each in the sight of those before it; count how often each vendor's cards were given out."""
    nodes = [decode_node(node(name, makers, rng)) for name in NODES]
    state = fresh(nodes)
    assert all(state.devices.devices(row) for row in state.nodes.rows().tolist())
    tenants: list[tuple[Pod, Usage]] = []
    given: Counter[str] = Counter()
    for number in range(PODS):
        wire = pod(f"p{number}", makers, rng)
        name = str(rng.choice(NODES))
        placement = place(state, decode_pod(wire), name, str(rng.choice(POLICIES)))
        if placement is None:
            continue
        written = DIALECT.allocation.annotations(placement, 1, decode_pod(wire))
        assert stamped(DIALECT.allocation.annotations(placement, 0, decode_pod(wire)), 1) == written
        tenant = decode_pod(bound(wire, name, written))
        assert all(map(guarded, written)), written
        usage = DIALECT.allocation.usage(tenant)
        decided = Usage.of_placement(placement, DIALECT.claims.read(decode_pod(wire)))
        assert trimmed(usage) == trimmed(decided), written
        assert not usage.problem
        state.observe_pod(tenant, {DIALECT.name: usage})
        tenants.append((tenant, usage))
        given.update(placement.vendors())
        given.update(f"NVIDIA {mode}" for mode in modes(state, placement))
        assert_in_order(state, tenant)
    again = fresh(nodes)
    for position in rng.permutation(len(tenants)).tolist():
        tenant, usage = tenants[position]
        again.observe_pod(tenant, {DIALECT.name: usage})
    assert again.ledger() == state.ledger()
    assert_in_order(again, None)
    for position in rng.permutation(len(tenants)).tolist():
        state.remove_pod(tenants[position][0].uid)
    assert not state.ledger()
    return given


def modes(state: State, placement: Placement) -> set[str]:
    """The modes of NVIDIA's cards that were given out."""
    row = state.nodes.row(placement.node)
    assert row is not None
    listed = {device.uuid: device for device in state.devices.devices(row)}
    given = [a for container in placement.containers for a in container if a.vendor == "NVIDIA"]
    templates = {a.uuid for a in given if a.piece is not None and a.piece.template is not None}
    return {f"{listed[a.uuid].mode}{' by templates' * (a.uuid in templates)}" for a in given}


def fresh(nodes: list[Node]) -> State:
    state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
    for observed in nodes:
        state.observe_node(observed, {DIALECT.name: DIALECT.inventory.devices(observed)})
    return state


def place(state: State, waiting: Pod, name: str, policy: str) -> Placement | None:
    try:
        claims = DIALECT.claims.read(waiting)
    except ClaimError:
        return None
    if not any(container.claims for container in claims):
        return None
    allocator = DIALECT.claims.allocator(waiting.annotations, claims, CardChoice(policy))
    row = state.nodes.row(name)
    assert row is not None
    containers = allocator.place(state.devices, row)
    return None if containers is None else Placement(name, containers)


def assert_in_order(state: State, newest: Pod | None) -> None:
    assert state.over_capacity() == {}, newest
    for row in state.nodes.rows().tolist():
        assert state.devices.inconsistent(row) == [], newest


def trimmed(usage: Usage) -> dict[str, Amounts]:
    """The charges without zeros at the end: dimensions that a vendor does not have."""
    found = {}
    for uuid, amounts in usage.charges.items():
        last = max((position for position, amount in enumerate(amounts) if amount), default=-1)
        found[uuid] = amounts[: last + 1]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_makers_are_said_to_count_compute_in_percent_only_where_all_of_their_cards_do(seed: int) -> None:
    """What is said of the others may depend on the node."""
    rng = np.random.default_rng(seed)
    inventory = DIALECT.inventory
    devices = inventory.devices(decode_node(node("node-0", list(VENDORS.values()), rng)))
    assert {device.vendor for device in devices} >= inventory.in_percent
    for device in devices:
        assert (device.compute is Compute.PERCENT) == (device.vendor in inventory.in_percent), device
