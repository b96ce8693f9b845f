"""Usage of cards by node, card, model, pod and namespace.

Memory is in MiB, compute in percent of a card. Dialects without slots count none. Devices of other kinds (RDMA, FPGA)
are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import QuotaReport, vendors_on_node
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Amounts, Device, mib_free, mib_needed, percent_used
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.world.nodes import status_of
from vgpu_scheduler.whatif.world.usage_rows import (
    NO_AMOUNT,
    PLUGIN_SILENT,
    CardUsage,
    ModelUsage,
    NamespaceUsage,
    NodeUsage,
    PodUsage,
    UsedAmount,
)
from vgpu_scheduler.whatif.world.world import World

_CARDS_BY_NODE: Final[WeakKeyDictionary[World, dict[str, tuple[int, list[CardUsage]]]]] = WeakKeyDictionary()
"""By world and node: the node's version, and its cards at that version."""


def cards(world: World) -> list[CardUsage]:
    """Return all cards, by node and in the node's order; only nodes that have changed are computed anew."""
    by_node = _CARDS_BY_NODE.setdefault(world, {})
    for name in by_node.keys() - world.nodes.keys():
        del by_node[name]
    return cards_on(world, world.nodes)


def cards_on(world: World, nodes: Iterable[str]) -> list[CardUsage]:
    """Return the cards of some nodes; see :func:`cards`."""
    by_node, state = _CARDS_BY_NODE.setdefault(world, {}), world.engine.state.nodes
    versions = {name: int(state.version[row]) for name in nodes if (row := state.row(name)) is not None}
    changed = {name for name, version in versions.items() if name not in by_node or by_node[name][0] != version}
    held_by: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pod in world.bound.values():
        if pod.node_name in changed:
            for dialect, usage in world.engine.uses(pod).items():
                for uuid in usage.charges:
                    held_by[pod.node_name, dialect, uuid].append(pod.key)
    for name in changed:
        node = _NodeOfCards.of(world, name)
        listed = [card for each in world.engine.dialects for card in _cards_of(world, each, node, held_by)]
        by_node[name] = (versions[name], listed)
    return [card for name in sorted(versions) for card in by_node[name][1]]


@dataclass(frozen=True, slots=True)
class _NodeOfCards:
    """What a node says of all of its cards: its status, and the vendors whose plugins are silent."""

    name: str
    status: str
    silent: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, world: World, name: str) -> _NodeOfCards:
        node = world.engine.state.node(name)
        assert node is not None
        listed = world.engine.state.devices_by_dialect(name)
        silent = {
            (dialect.name, on_node.vendor)
            for dialect in world.engine.dialects
            for on_node in vendors_on_node((dialect,), listed)
            if on_node.offers_none(node)
        }
        return cls(name, status_of(world.nodes[name]), frozenset(silent))


def _cards_of(
    world: World, dialect: Dialect, node: _NodeOfCards, held_by: Mapping[tuple[str, str, str], Sequence[str]]
) -> Iterable[CardUsage]:
    for device, amounts in world.engine.state.usage_on(node.name, dialect.name):
        if device.part or device.vendor not in dialect.inventory.cards:
            continue
        is_silent = device.in_service and (dialect.name, device.vendor) in node.silent
        state = PLUGIN_SILENT if is_silent else device.state
        in_service = state == "ready"
        parts = (_memory(dialect, device, amounts), _cores(dialect, device, amounts), _slots(device, amounts))
        memory, cores, slots = (UsedAmount.of_card(*part, in_service=in_service) for part in parts)
        yield CardUsage(
            node=node.name,
            card=card_name(device.vendor, device.uuid),
            dialect=dialect.name,
            vendor=device.vendor,
            model=device.type,
            mode=device.mode,
            numa=device.numa,
            memory=memory,
            cores=cores,
            slots=slots,
            pods=tuple(sorted(held_by.get((node.name, dialect.name, device.uuid), ()))),
            state=state,
            node_status=node.status,
        )


def is_idle(world: World, card: CardUsage) -> bool:
    """Tell whether nothing of a card is used now."""
    on_node = world.engine.state.usage_on(card.node, card.dialect)
    in_use = (any(used) for device, used in on_node if card_name(card.vendor, device.uuid) == card.card)
    return world.has_node(card.node) and not any(in_use)


def _memory(dialect: Dialect, device: Device, used: Amounts) -> tuple[int, int]:
    """Return the used and the total memory of a card, in MiB; a card that is full has no more in use than it has."""
    column, unit = dialect.inventory.memory, dialect.inventory.memory_unit
    held, total = used[column] * unit, device.total[column] * unit
    return mib_free(total) if held == total else mib_needed(held), mib_free(total)


def _cores(dialect: Dialect, device: Device, used: Amounts) -> tuple[int, int]:
    """Return the used and the total compute of a card, in percent."""
    column = dialect.inventory.cores
    total = device.total[column]
    return percent_used(device, used[column], column), 100 if total else 0


def _slots(device: Device, used: Amounts) -> tuple[int, int]:
    return used[SLOTS], device.most_pieces or device.total[SLOTS]


def nodes(listed: Iterable[CardUsage]) -> list[NodeUsage]:
    """Return the usage of each node, by name."""
    by_node: defaultdict[str, list[CardUsage]] = defaultdict(list)
    for card in listed:
        by_node[card.node].append(card)
    return [replace(summed(name, theirs), status=theirs[0].node_status) for name, theirs in by_node.items()]


def summed(name: str, listed: Sequence[CardUsage]) -> NodeUsage:
    """Add up cards; a card that two dialects register counts once."""
    if len({card.dialect for card in listed}) > 1:
        listed = _each_once(listed)
    idle = stranded = 0
    memory = cores = slots = NO_AMOUNT
    pods: set[str] = set()
    for card in listed:
        memory, cores, slots = memory + card.memory, cores + card.cores, slots + card.slots
        pods.update(card.pods)
        idle += card.idle and card.state == "ready"
        stranded += 0 if card.idle else card.memory.free
    return NodeUsage(
        node=name,
        cards=len(listed),
        idle=idle,
        memory=memory,
        cores=cores,
        slots=slots,
        pods=len(pods),
        fragmentation=100 * stranded // memory.free if memory.free else 0,
    )


def _each_once(listed: Sequence[CardUsage]) -> list[CardUsage]:
    """Merge the entries of a card that several dialects register; the merged one has the usage of all of them."""
    found: dict[tuple[str, str], CardUsage] = {}
    for card in listed:
        key = card.node, card.card
        found[key] = _as_one(found[key], card) if key in found else card
    return list(found.values())


def _as_one(card: CardUsage, again: CardUsage) -> CardUsage:
    return replace(
        card,
        memory=_one_of(card.memory, again.memory),
        cores=_one_of(card.cores, again.cores),
        slots=_one_of(card.slots, again.slots),
        pods=(*card.pods, *again.pods),
    )


def _one_of(held: UsedAmount, again: UsedAmount) -> UsedAmount:
    """Return the usage of a card that two dialects register: it has nothing free, since neither gives it out."""
    return UsedAmount(held.used + again.used, held.total, 0)


def models(world: World, listed: Iterable[CardUsage]) -> list[ModelUsage]:
    """Return the usage by model, ordered by dialect as in the settings, then by model."""
    by_model: defaultdict[tuple[str, str], list[CardUsage]] = defaultdict(list)
    for card in listed:
        by_model[card.dialect, card.model].append(card)
    order = [dialect.name for dialect in world.engine.dialects]
    return [
        _model(dialect, model, by_model[dialect, model])
        for dialect, model in sorted(by_model, key=lambda key: (order.index(key[0]), key[1]))
    ]


def _model(dialect: str, model: str, listed: Sequence[CardUsage]) -> ModelUsage:
    together = summed(model, listed)
    return ModelUsage(
        model=model,
        dialect=dialect,
        cards=together.cards,
        idle=together.idle,
        unhealthy=sum(card.state == "unhealthy" for card in listed),
        cordoned=sum(card.state == "cordoned" for card in listed),
        memory=together.memory,
        free_memory=together.memory.free,
        cores=together.cores,
        free_cores=together.cores.free,
        slots=together.slots,
        pods=together.pods,
        plugin_silent=sum(card.state == PLUGIN_SILENT for card in listed),
    )


def pods(world: World) -> list[PodUsage]:
    """Return the bound pods that hold a part of a card, by namespace and name."""
    found = [usage for pod in world.bound.values() if (usage := _of_pod(world, pod)).cards]
    return sorted(found, key=lambda usage: (usage.namespace, usage.pod))


def _of_pod(world: World, pod: Pod) -> PodUsage:
    held: list[str] = []
    memory = cores = 0
    known = True
    for name, usage in world.engine.uses(pod).items():
        dialect = world.engine.dialects[name]
        devices = {device.uuid: device for device in world.devices(pod.node_name, name)}
        for uuid, amounts in usage.charges.items():
            device = devices.get(uuid)
            if device is not None and device.part:
                continue  # the whole device is counted instead
            if (device.vendor if device else usage.vendors.get(uuid)) not in {*dialect.inventory.cards, None}:
                continue  # a device of another kind
            held.append(card_name(device.vendor, uuid) if device else uuid)
            memory += mib_needed(amounts[dialect.inventory.memory] * dialect.inventory.memory_unit)
            if device is not None:
                cores += _cores(dialect, device, amounts)[0]
            elif usage.vendors.get(uuid) in dialect.inventory.in_percent:
                cores += amounts[dialect.inventory.cores]
            else:
                known = world.has_node(pod.node_name)
    return PodUsage(pod.namespace, pod.name, pod.node_name, tuple(held), memory, cores if known else None)


def namespaces(world: World) -> list[NamespaceUsage]:
    """Return the namespaces with pods that hold or wait for cards, or with quotas of cards, by name."""
    held: defaultdict[str, list[PodUsage]] = defaultdict(list)
    for usage in pods(world):
        held[usage.namespace].append(usage)
    waiting = Counter(pod.namespace for pod in world.pending.values() if world.engine.dialects.owners(pod))
    quotas: defaultdict[str, list[QuotaReport]] = defaultdict(list)
    for report in world.engine.quota_limits.report(world.engine.state):
        quotas[report.namespace].append(report)
    return [
        NamespaceUsage(
            namespace=name,
            pods=len(listed := held.get(name, [])),
            waiting=waiting[name],
            cards=len({(usage.node, card) for usage in listed for card in usage.cards}),
            memory=sum(usage.memory for usage in listed),
            cores=sum(usage.cores or 0 for usage in listed),
            quotas=tuple(quotas.get(name, ())),
        )
        for name in sorted({*held, *waiting, *quotas})
    ]
