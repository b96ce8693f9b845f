"""Devices and pods for the kernels of DeviceShare, and the comparison with their twins.

``python -m tests.kernels.share_worlds COUNT`` checks that many random worlds, for a run in another process.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from tests.kernels.worlds import KINDS, claim, expected_picks, matrix_of, number, picks, random_world, some
from tests.naive import deviceshare, partitions, shares
from tests.naive.deviceshare import LEAST, MOST, Weighed
from tests.naive.hami_values import Card, Wish
from tests.naive.partitions import Table

from vgpu_scheduler.allocators import (
    CardChoice,
    CardLimits,
    DeviceShareAllocator,
    DeviceWish,
    FitColumns,
    HamiAllocator,
    JointOrder,
    PartitionOrder,
    ScopeOrder,
    ShareChoice,
    ShareDimensions,
    ShareOrder,
    Strategy,
    card_order,
)
from vgpu_scheduler.allocators.order import OrderKind
from vgpu_scheduler.dialects.hami.rules import DeviceRules, VendorRules
from vgpu_scheduler.kernels import fit_shares
from vgpu_scheduler.kube import decode_node
from vgpu_scheduler.model import CardReason, Claim, ContainerClaims, Device, DeviceResource, Partition, PartitionTable
from vgpu_scheduler.scorers import DeviceShareScorer, ScoredPod
from vgpu_scheduler.state import State

DIMENSIONS = 4
VENDORS = ("gpu", "rdma")
RESOURCES = {
    "gpu-core": DeviceResource("gpu", 2),
    "gpu-memory": DeviceResource("gpu", 1),
    "gpu-memory-percent": DeviceResource("gpu", 1, percent=True),
    "gpu-memory-ratio": DeviceResource("gpu", 3),
    "rdma": DeviceResource("rdma", 0),
}
CARD_RESOURCES = {
    "slots": DeviceResource("NVIDIA", 0),
    "memory": DeviceResource("NVIDIA", 1),
    "ratio": DeviceResource("NVIDIA", 1, percent=True),
    "cores": DeviceResource("NVIDIA", 2),
    "other": DeviceResource("ACME", 1, percent=True),
}
REASON_OF = {reason.text: reason for reason in CardReason}


@dataclass
class World:
    """Nodes with their devices, and a pod."""

    nodes: list[list[shares.Device]]
    pod: shares.Pod
    weights: dict[str, int]

    def state(self, order: Sequence[int] | None = None) -> State:
        """The world as a state whose nodes were seen in this order."""
        state = State({"hami": DIMENSIONS})
        for node in range(len(self.nodes)) if order is None else order:
            wire = {"metadata": {"name": f"node-{node}"}, "spec": {}, "status": {}}
            state.observe_node(decode_node(wire), {"hami": [_device(d) for d in self.nodes[node]]})
            row = state.nodes.row(f"node-{node}")
            assert row is not None
            for own in self.nodes[node]:
                position = state.devices.position(row, own.name)
                assert position is not None
                state.devices.charge(position, tuple(own.used), 1)
        return state

    def claims(self) -> tuple[ContainerClaims, ...]:
        return tuple(
            ContainerClaims(
                f"c{number}",
                KINDS[container.kind],
                tuple(Claim(w.vendor, w.count, w.amounts, w.percents, w.mode) for w in container.wants),
            )
            for number, container in enumerate(self.pod.containers)
        )

    def order(self) -> ShareOrder:
        return ShareOrder(Strategy(self.pod.order.strategy), tuple(sorted(self.weights.items())))


def _device(own: shares.Device) -> Device:
    return Device(
        own.name,
        own.vendor,
        own.model,
        tuple(own.total),
        own.index,
        own.numa,
        own.mode,
        healthy=own.healthy,
        cordoned=own.cordoned,
        group=own.switch,
        labels=(("kind", own.label),) if own.label else (),
        partitions=_table(own),
    )


def _table(own: shares.Device) -> PartitionTable | None:
    listed = [partition for found in (own.table or {}).values() for partition in found]
    if own.table is None and not own.only:
        return None
    return PartitionTable(
        tuple(Partition(tuple(sorted(each.members)), each.score, each.bandwidth) for each in listed), only=own.only
    )


def check(world: World) -> Counter[str]:
    """Assert that allocator and scorer say what their twins say; count the nodes per outcome."""
    state, claims, pod = world.state(), world.claims(), world.pod
    limits = CardLimits(deny=(pod.denied,) if pod.denied else (), most_memory=pod.most_memory, exclusive=pod.exclusive)
    dimensions = ShareDimensions(
        reasons=tuple(REASON_OF[text] for text in shares.REASONS),
        memory=1,
        cores=2,
        cards=frozenset({"gpu"}),
        resources=RESOURCES,
        fill=lambda asked, _: asked,
    )
    chosen = ShareChoice(
        ScopeOrder("gpu", _is_whole, pod.scope) if pod.by_tree else None,
        _partition_order(pod) if pod.by_tree else None,
        _wishes(pod),
        JointOrder(pod.joint, frozenset({*pod.joint} - {"gpu"}), pod.same_switch) if pod.joint else None,
    )
    choice = CardChoice(idle_only=pod.idle, limits=limits)
    allocator = DeviceShareAllocator(claims, world.order(), choice, dimensions, chosen)
    rows, columns = state.nodes.rows(), FitColumns.empty(state.nodes.capacity)
    columns.counts[:] = 7  # what was there before must not show
    columns.cards[:] = 7
    columns.score[:] = 7
    allocator.fit(state.devices, rows, columns)
    outcomes: Counter[str] = Counter()
    points = node_scores(world, state)
    for row in rows.tolist():
        name = state.nodes.name(row)
        devices = world.nodes[int(name.removeprefix("node-"))]
        counts = {CardReason(i).text: int(n) for i, n in enumerate(columns.counts[row]) if n}
        assert columns.score[row] == 0
        assert points[name] == naive_score(world, devices), name
        outcomes["scores"] += 0 < points[name] < 100
        if not devices:
            assert (bool(columns.fits[row]), counts) == (False, {"node unregistered": 1})
            continue
        expected = shares.place(devices, pod)
        reasons = {} if expected.fits else {reason: n for reason, n in expected.counts.items() if n}
        assert (bool(columns.fits[row]), counts) == (expected.fits, reasons), name
        if not expected.fits:
            assert int(columns.cards[row]) == expected.choice, name
        placed = allocator.place(state.devices, row)
        found = None if placed is None else [[a.uuid for a in container] for container in placed]
        assert found == (expected.picks if expected.fits else None), name
        outcomes.update(reasons or ["fits"])
    return outcomes


def _is_whole(claim: Claim) -> bool:
    return claim.amounts[3] >= 100


def _partition_order(pod: shares.Pod) -> PartitionOrder:
    if pod.partition is None:
        return PartitionOrder("gpu", _is_whole)
    restricted, bandwidth = pod.partition
    return PartitionOrder("gpu", _is_whole, required=True, first_only=restricted, bandwidth=bandwidth)


def _wishes(pod: shares.Pod) -> dict[str, DeviceWish]:
    selected = dict(pod.selected)
    return {
        vendor: DeviceWish(
            _has_label(selected[vendor]) if vendor in selected else None,
            every=vendor in pod.every,
            functions=f"{vendor}-vf" if vendor in pod.functions else "",
        )
        for vendor in (*selected, *pod.every, *pod.functions)
    }


def _has_label(label: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda labels: labels.get("kind", "") == label


def node_scores(world: World, state: State) -> dict[str, float]:
    """The scores by node name."""
    scorer = DeviceShareScorer(world.order().strategy, world.order().weights)
    rows = state.nodes.rows()
    compiled = scorer.compile(ScoredPod({}, world.claims(), RESOURCES))
    found = compiled.score(state, rows, FitColumns.empty(state.nodes.capacity))
    assert found.dtype == np.float64
    assert (scorer.normalise(found) <= 100).all()
    return {state.nodes.name(row): float(score) for row, score in zip(rows.tolist(), found, strict=True)}


def naive_score(world: World, devices: Sequence[shares.Device]) -> int:
    wants = [want for container in world.pod.containers for want in container.wants]
    held, order, points = [own.held() for own in devices], world.pod.order, 0
    for vendor in dict.fromkeys(want.vendor for want in wants):
        if deviceshare.anything_free(held, vendor):
            amounts = [max(column) for column in zip(*(w.amounts for w in wants if w.vendor == vendor), strict=True)]
            percents = [max(column) for column in zip(*(w.percents for w in wants if w.vendor == vendor), strict=True)]
            points += deviceshare.share(held, vendor, order.weighed, amounts, percents, order.strategy)
    return points


def check_cards(nodes: Sequence[Sequence[Card]], wish: Wish, weights: Mapping[str, int], strategy: str) -> int:
    """Assert that HAMi's allocator takes the cards that the twin takes; count the nodes that fit."""
    claims = tuple(ContainerClaims(c.name, KINDS[c.kind], tuple(map(claim, c.asks))) for c in wish.containers)
    share = ShareOrder(Strategy(strategy), tuple(sorted(weights.items())))
    numa_bind = wish.rules.numa_bind
    order = card_order(wish.policy, OrderKind.SCORE_FIRST, numa_bind=numa_bind)
    choice = CardChoice(device_share_order=share, limits=CardLimits(**asdict(wish.limits)), topology=wish.near)
    allocator = HamiAllocator(claims, _rules(wish), order, choice, CARD_RESOURCES)
    matrix = matrix_of(nodes)
    fits = 0
    weighed = _weighed(weights, CARD_RESOURCES)
    for row, cards in enumerate(nodes):
        expected = shares.place_cards(cards, wish, shares.Order(strategy, weighed)) if cards else None
        found = picks(allocator, matrix, row)
        assert found == (expected_picks(expected) if expected else None), f"node {row}"
        fits += found is not None
    return fits


def _rules(wish: Wish) -> DeviceRules:
    rules = wish.rules
    return DeviceRules(
        {
            "NVIDIA": VendorRules(
                tuple(part.lower() for part in rules.use_types),
                tuple(part.lower() for part in rules.no_use_types),
                frozenset(rules.use_uuids),
                frozenset(rules.no_use_uuids),
                rules.mode,
            )
        },
        rules.numa_bind,
    )


# Chance ------------------------------------------------------------------------------------------------------------


def random_share_world(rng: np.random.Generator) -> World:
    weights = {name: some(rng, 1, 1, 3, 100) for name in (*RESOURCES, "nowhere") if rng.random() < 0.6}
    order = shares.Order(some(rng, LEAST, MOST), _weighed(weights, RESOURCES))
    kinds = [some(rng, "init", "sidecar", "app") for _ in range(number(rng, 0, 2))]
    containers = [_container(rng, kind) for kind in kinds]
    containers.append(shares.Container("app", (_want(rng, some(rng, *VENDORS)),)))
    pod = shares.Pod(
        tuple(containers),
        order,
        denied=some(rng, "", "", "h100"),
        most_memory=some(rng, None, None, 1000, 500),
        exclusive=bool(rng.random() < 0.15),
        idle=bool(rng.random() < 0.15),
        by_tree=bool(rng.random() < 0.4),
        scope=some(rng, 0, 0, 0, 0, 1, 2, 3),
    )
    world = World([_node(rng, node) for node in range(number(rng, 1, 5))], pod, weights)
    if rng.random() < 0.25:
        _set_partitions(rng, world)
    if rng.random() < 0.25:
        _set_joint(rng, world)
    if rng.random() < 0.15:
        _set_modes(rng, world)
    if rng.random() < 0.25:
        _set_labels(rng, world)
    if rng.random() < 0.2:
        _set_functions(rng, world)
    return world


def _set_joint(rng: np.random.Generator, world: World) -> None:
    """Have one container ask for GPUs and other devices that are near each other, of which there are more."""
    gpus = _want(rng, "gpu") if rng.random() < 0.3 else shares.Want("gpu", some(rng, 1, 2, 3), (0, 0, 0, 100), (0,) * 4)
    wants = (gpus, _want(rng, "rdma"))
    joint = some(rng, ("gpu", "rdma"), ("gpu", "rdma"), ("rdma", "gpu"))
    same, tree = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    world.pod = replace(
        world.pod, containers=(shares.Container("app", wants),), joint=joint, same_switch=same, by_tree=tree
    )
    for place, node in enumerate(world.nodes):
        last = sum(device.vendor == "rdma" for device in node)
        node += [_random_device(rng, f"{place}/rdma/{i}", "rdma", i, even=True) for i in range(last, last + 3)]
        if rng.random() < 0.8:
            _set_places(rng, node)


def _set_partitions(rng: np.random.Generator, world: World) -> None:
    """Give GPUs out together, on some nodes, and have the pod ask for whole ones, perhaps for a partition."""
    for node in world.nodes:
        cards = [device for device in node if device.vendor == "gpu"]
        for index, card in enumerate(cards):
            card.index = index
        table = _random_table(rng, len(cards)) if rng.random() < 0.7 else None
        only = bool(rng.random() < 0.4)
        for card in cards:
            card.table, card.only = table, only
    wants = shares.Want("gpu", some(rng, 1, 2, 2, 4), (0, 0, 0, 100), (0, 100, 0, 0))
    partition = (bool(rng.random() < 0.3), some(rng, None, None, 0, 3)) if rng.random() < 0.4 else None
    (*others, last) = world.pod.containers
    containers = (*others, replace(last, wants=(wants,)))
    world.pod = replace(world.pod, containers=containers, partition=partition, by_tree=True)


def _random_table(rng: np.random.Generator, cards: int) -> Table:
    """Sets of neighbours, or of any cards, some of which are not there."""
    table: dict[int, list[partitions.Partition]] = {}
    for size in (1, 2, 3, 4, 8):
        for first in range(0, cards, size):
            members = tuple(range(first, first + size))
            if rng.random() < 0.3:
                members = tuple(rng.permutation(cards + 1)[:size].tolist())
            if rng.random() < 0.85 and len(members) == size:
                score, bandwidth = some(rng, 1, 1, 2, 3), some(rng, None, 2, 4)
                table.setdefault(size, []).append(partitions.Partition(members, score, bandwidth))
    return table


def _set_functions(rng: np.random.Generator, world: World) -> None:
    """Give the devices that are no GPUs functions, and have the pod want one with each of them."""
    for place, node in enumerate(world.nodes):
        nics = [device for device in node if device.vendor == "rdma"]
        for owner, nic in enumerate(nics):
            nic.index = owner
            node += [
                shares.Device(
                    f"{place}/{owner}/{i}", "rdma-vf", i, rng.random() < 0.9, rng.random() < 0.1, "",
                    [100, 0, 0, 0], [some(rng, 0, 0, 100), 0, 0, 0], switch=owner, label=some(rng, "", "a"),
                )
                for i in rng.permutation(some(rng, 0, 1, 3))
            ]  # fmt: skip
    selected = (("rdma-vf", some(rng, "", "a")),) if rng.random() < 0.3 else ()
    world.pod = replace(world.pod, functions=frozenset({"rdma"}), selected=(*world.pod.selected, *selected))


def _set_labels(rng: np.random.Generator, world: World) -> None:
    """Have the pod want devices with a label, which not all have, or all that are no GPUs."""
    for device in (device for node in world.nodes for device in node):
        device.label = some(rng, "", "a")
    selected = tuple((vendor, some(rng, "", "a")) for vendor in VENDORS if rng.random() < 0.6)
    every = frozenset({"rdma"} if rng.random() < 0.5 else ())
    world.pod = replace(world.pod, selected=selected, every=every)


def _set_modes(rng: np.random.Generator, world: World) -> None:
    """Have the pod want GPUs of one mode, which not all have."""
    mode = some(rng, "", "isolated")
    wanted = [
        replace(c, wants=tuple(replace(w, mode=mode) if w.vendor == "gpu" else w for w in c.wants))
        for c in world.pod.containers
    ]
    world.pod = replace(world.pod, containers=tuple(wanted))
    for device in (device for node in world.nodes for device in node):
        device.mode = mode if rng.random() < 0.7 else some(rng, "", "isolated")


def random_card_world(rng: np.random.Generator) -> tuple[Sequence[Sequence[Card]], Wish, dict[str, int], str]:
    nodes, wish = random_world(rng)
    weights = {name: some(rng, 1, 1, 3, 100) for name in (*CARD_RESOURCES, "nowhere") if rng.random() < 0.6}
    return nodes, wish, weights, some(rng, LEAST, MOST)


def _weighed(weights: Mapping[str, int], resources: Mapping[str, DeviceResource]) -> tuple[Weighed, ...]:
    return tuple(
        Weighed(weight, resources[name].vendor, resources[name].dimension, resources[name].percent)
        for name, weight in sorted(weights.items())
        if name in resources
    )


def _container(rng: np.random.Generator, kind: str) -> shares.Container:
    return shares.Container(kind, tuple(_want(rng, vendor) for vendor in VENDORS if rng.random() < 0.5))


def _want(rng: np.random.Generator, vendor: str) -> shares.Want:
    if vendor == "rdma":
        return shares.Want(vendor, some(rng, 1, 1, 2), (some(rng, 1, 50, 100), 0, 0, 0), (0, 0, 0, 0))
    in_bytes = rng.random() < 0.5
    ratio = 0 if in_bytes else some(rng, 10, 33, 50, 100)
    memory = some(rng, 1, 300, 1000, 2**60) if in_bytes else 0
    return shares.Want(vendor, some(rng, 1, 1, 2, 4), (0, memory, some(rng, 0, 30, 100), ratio), (0, ratio, 0, 0))


def _node(rng: np.random.Generator, node: int) -> list[shares.Device]:
    even = rng.random() < 0.5
    count = {"gpu": number(rng, 0, 6), "rdma": number(rng, 0, 2)}
    devices = [
        _random_device(rng, f"{node}/{vendor}/{i}", vendor, i, even=even)
        for vendor in VENDORS
        for i in range(count[vendor])
    ]
    if rng.random() < 0.7:
        _set_places(rng, devices)
    return [devices[i] for i in rng.permutation(len(devices))] if rng.random() < 0.5 else devices


def _set_places(rng: np.random.Generator, devices: Sequence[shares.Device]) -> None:
    """Put devices below two switches of each of two NUMA nodes, but for some whose place nobody knows."""
    complete = rng.random() < 0.8
    for device in devices:
        if complete or rng.random() < 0.8:
            device.numa = number(rng, 0, 1)
            device.switch = 2 * device.numa + number(rng, 0, 1)


def _random_device(rng: np.random.Generator, name: str, vendor: str, index: int, *, even: bool) -> shares.Device:
    memory = 1000 if even else some(rng, 0, 999, 1000, 3000)
    total = [0, memory, 100 if even else some(rng, 0, 100), 100] if vendor == "gpu" else [100, 0, 0, 0]
    used = [0] * DIMENSIONS
    if rng.random() < 0.6:
        used = [number(rng, 0, 4) * amount // 4 for amount in total]
        if rng.random() < 0.15:
            used = [max(amount - number(rng, 0, 3), 0) for amount in total]
        if rng.random() < 0.1:  # more than there is, or of what the device has not
            used = [amount + some(rng, 0, 7) for amount in used]
    return shares.Device(
        name,
        vendor,
        index if even else number(rng, 0, 2),
        rng.random() < 0.9,
        rng.random() < 0.05,
        some(rng, "A100", "NVIDIA H100"),
        total,
        used,
    )


def main(count: int) -> None:
    rng = np.random.default_rng(8)
    fits = sum(check(random_share_world(rng))["fits"] for _ in range(count))
    cards = sum(check_cards(*random_card_world(rng)) for _ in range(count))
    how = "compiled" if hasattr(fit_shares, "py_func") else "interpreted"
    print(f"{count} worlds, {fits} and {cards} nodes fit, {how}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
