"""Who uses what: cards, nodes, pods and namespaces in numbers.

Memory is in MiB, compute in percent of a card; a card of a dialect that knows no shares has none to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import MIB, Amounts, Device
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.world.world import World


@dataclass(frozen=True, slots=True)
class UsedAmount:
    """So much of so much.

    Attributes
    ----------
    free
        What somebody can get: what is left of cards in service. A card that is used beyond what it has takes nothing
        off what is left of others.
    """

    used: int
    total: int
    free: int

    @classmethod
    @lru_cache(4096)
    def of_card(cls, used: int, total: int, *, in_service: bool) -> UsedAmount:
        """Return what is used of one card; of most cards it is the same as of others."""
        return cls(used, total, max(total - used, 0) if in_service else 0)

    def __add__(self, other: UsedAmount) -> UsedAmount:
        """Add what other cards have."""
        return UsedAmount(self.used + other.used, self.total + other.total, self.free + other.free)

    @property
    def percent(self) -> int:
        """The part that is used, rounded down; 0 of nothing."""
        return 100 * self.used // self.total if self.total else 0

    def __str__(self) -> str:
        """Word it."""
        return f"{self.used}/{self.total}"


@dataclass(frozen=True, slots=True)
class CardUsage:
    """One card.

    Attributes
    ----------
    vendor
        The vendor's word, in its dialect.
    pods
        The pods that hold something of it, by ``namespace/name``.
    state
        ``ready``, ``unhealthy`` or ``cordoned``.
    """

    node: str
    card: str
    dialect: str
    vendor: str
    model: str
    mode: str
    numa: int
    memory: UsedAmount
    cores: UsedAmount
    slots: UsedAmount
    pods: tuple[str, ...]
    state: str

    @property
    def idle(self) -> bool:
        """Whether nobody has anything of it."""
        return not (self.memory.used or self.cores.used or self.slots.used)


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """The cards of one node, or of all.

    Attributes
    ----------
    idle
        Cards in service of which nobody has anything.
    fragmentation
        Percent of the free memory of cards in service that lies on cards that are partly used: what a pod that wants a
        whole card cannot have.
    """

    node: str
    cards: int
    idle: int
    memory: UsedAmount
    cores: UsedAmount
    slots: UsedAmount
    pods: int
    fragmentation: int


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The cards of one model in one dialect.

    Attributes
    ----------
    idle
        Cards in service of which nobody has anything.
    unhealthy, cordoned
        Cards that are not in service; one that is both is unhealthy.
    free_memory, free_cores
        What is left of the cards in service.
    pods
        How many hold something of a card.
    """

    model: str
    dialect: str
    cards: int
    idle: int
    unhealthy: int
    cordoned: int
    memory: UsedAmount
    free_memory: int
    cores: UsedAmount
    free_cores: int
    slots: UsedAmount
    pods: int


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What one pod holds of cards, or what a namespace does.

    Attributes
    ----------
    cards
        The cards that it has a part of.
    memory, cores
        Sums over these; None where the node is not known, and it takes the card to tell what its compute is in percent.
    """

    namespace: str
    pod: str
    node: str
    cards: tuple[str, ...]
    memory: int
    cores: int | None


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    """What the pods of a namespace hold of cards, how many wait, and how its quotas of cards stand."""

    namespace: str
    pods: int
    waiting: int
    cards: int
    memory: int
    cores: int
    quotas: tuple[QuotaReport, ...] = ()


_NOTHING: Final = UsedAmount(0, 0, 0)
Usage = CardUsage | NodeUsage | ModelUsage | PodUsage | NamespaceUsage


def as_json(row: Usage) -> dict[str, object]:
    """Return the values of a row as plain ones, for scripts."""
    found: dict[str, object] = {}
    for name, value in asdict(row).items():
        found[name] = list(value) if isinstance(value, tuple) else value
    return found


_KEPT: Final[WeakKeyDictionary[World, dict[str, tuple[int, list[CardUsage]]]]] = WeakKeyDictionary()
"""By world and node: the version of the node, and its cards then."""


def cards(world: World) -> list[CardUsage]:
    """Return all cards, by node and in the order of their node; only those of nodes that have changed are looked at."""
    for name in _KEPT.setdefault(world, {}).keys() - world.nodes.keys():
        del _KEPT[world][name]
    return cards_on(world, world.nodes)


def cards_on(world: World, nodes: Iterable[str]) -> list[CardUsage]:
    """Return the cards of some nodes; see :func:`cards`."""
    kept, state = _KEPT.setdefault(world, {}), world.engine.state.nodes
    versions = {name: int(state.version[row]) for name in nodes if (row := state.row(name)) is not None}
    changed = {name for name, version in versions.items() if name not in kept or kept[name][0] != version}
    held_by: dict[tuple[str, str, str], list[str]] = {}
    for pod in world.bound.values():
        if pod.node_name in changed:
            for dialect, usage in world.engine.uses(pod).items():
                for uuid in usage.charges:
                    held_by.setdefault((pod.node_name, dialect, uuid), []).append(pod.key)
    for name in changed:
        theirs = [card for each in world.engine.dialects for card in _cards_of(world, each, name, held_by)]
        kept[name] = (versions[name], theirs)
    return [card for name in sorted(versions) for card in kept[name][1]]


def _cards_of(
    world: World, dialect: Dialect, node: str, held_by: dict[tuple[str, str, str], list[str]]
) -> Iterable[CardUsage]:
    for device, amounts in world.engine.state.usage_on(node, dialect.name):
        if device.part:
            continue
        in_service = device.state == "ready"
        parts = (_memory(dialect, device, amounts), _cores(dialect, device, amounts), _slots(device, amounts))
        memory, cores, slots = (UsedAmount.of_card(*part, in_service=in_service) for part in parts)
        yield CardUsage(
            node=node,
            card=card_name(device.vendor, device.uuid),
            dialect=dialect.name,
            vendor=device.vendor,
            model=device.type,
            mode=device.mode,
            numa=device.numa,
            memory=memory,
            cores=cores,
            slots=slots,
            pods=tuple(sorted(held_by.get((node, dialect.name, device.uuid), ()))),
            state=device.state,
        )


def is_idle(world: World, card: CardUsage) -> bool:
    """Tell whether nobody has anything of a card now."""
    on_node = world.engine.state.usage_on(card.node, card.dialect)
    in_use = (any(used) for device, used in on_node if card_name(card.vendor, device.uuid) == card.card)
    return world.has_node(card.node) and not any(in_use)


def _memory(dialect: Dialect, device: Device, used: Amounts) -> tuple[int, int]:
    """Return how much memory is used of a card, and how much it has, in MiB."""
    column, unit = dialect.inventory.memory, dialect.inventory.memory_unit
    return used[column] * unit // MIB, device.total[column] * unit // MIB


def _cores(dialect: Dialect, device: Device, used: Amounts) -> tuple[int, int]:
    """Return how much compute is used of a card, and how much it has, in percent."""
    column = dialect.inventory.cores
    total = device.total[column]
    return round(device.compute_percent(used[column], total)), 100 if total else 0


def _slots(device: Device, used: Amounts) -> tuple[int, int]:
    return used[SLOTS], device.total[SLOTS]


def nodes(listed: Iterable[CardUsage]) -> list[NodeUsage]:
    """Return what the nodes of cards have, by name."""
    by_node: dict[str, list[CardUsage]] = {}
    for card in listed:
        by_node.setdefault(card.node, []).append(card)
    return [summed(name, theirs) for name, theirs in by_node.items()]


def summed(name: str, listed: Sequence[CardUsage]) -> NodeUsage:
    """Add up cards; one that two dialects register is one card."""
    if len({card.dialect for card in listed}) > 1:
        listed = _each_once(listed)
    idle = stranded = 0
    memory = cores = slots = _NOTHING
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
    """Return cards without those that stand for the same one, which has what is held of all of them."""
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
    """Return what is held of one card by way of two registrations: nobody gets the rest."""
    return UsedAmount(held.used + again.used, held.total, 0)


def models(world: World, listed: Iterable[CardUsage]) -> list[ModelUsage]:
    """Return what cards are together, by dialect in the order of the settings, then by model."""
    by_model: dict[tuple[str, str], list[CardUsage]] = {}
    for card in listed:
        by_model.setdefault((card.dialect, card.model), []).append(card)
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
    )


def pods(world: World) -> list[PodUsage]:
    """Return the bound pods that hold something of a card, by namespace and name."""
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
                continue  # its device is counted
            held.append(card_name(device.vendor, uuid) if device else uuid)
            memory += amounts[dialect.inventory.memory] * dialect.inventory.memory_unit // MIB
            if device is not None:
                cores += _cores(dialect, device, amounts)[0]
            elif usage.vendors.get(uuid) in dialect.inventory.in_percent:
                cores += amounts[dialect.inventory.cores]
            else:
                known = world.has_node(pod.node_name)
    return PodUsage(pod.namespace, pod.name, pod.node_name, tuple(held), memory, cores if known else None)


def namespaces(world: World) -> list[NamespaceUsage]:
    """Return the namespaces whose pods hold something of a card or wait for one, or that have a quota, by name."""
    held: dict[str, list[PodUsage]] = {}
    for usage in pods(world):
        held.setdefault(usage.namespace, []).append(usage)
    waiting: dict[str, int] = {}
    for pod in world.pending.values():
        if world.engine.dialects.owners(pod):
            waiting[pod.namespace] = waiting.get(pod.namespace, 0) + 1
    quotas: dict[str, list[QuotaReport]] = {}
    for report in world.engine.quota_limits.report(world.engine.state):
        quotas.setdefault(report.namespace, []).append(report)
    return [
        NamespaceUsage(
            namespace=name,
            pods=len(listed := held.get(name, [])),
            waiting=waiting.get(name, 0),
            cards=len({(usage.node, card) for usage in listed for card in usage.cards}),
            memory=sum(usage.memory for usage in listed),
            cores=sum(usage.cores or 0 for usage in listed),
            quotas=tuple(quotas.get(name, ())),
        )
        for name in sorted({*held, *waiting, *quotas})
    ]
