"""What pods hold of the cards of their nodes, and checks for cards that are handed out wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import allocation
from .allocation import Amount
from .cards import Card, equip
from .migs import Instance, clashes, instances
from .vendors import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    SchedulableClass = Callable[[str], list[Card]]
    Fitting = Sequence[str] | SchedulableClass | Mapping[Vendor, SchedulableClass]

Object = dict[str, Any]


@dataclass(slots=True)
class Rack:
    """One vendor's cards of a node, and the pods that its plugin has served."""

    vendor: Vendor
    cards: dict[str, Card]
    served: set[str] = field(default_factory=set)


def racks_of(node: str, cards: Fitting, vendor: Vendor, *, count: int) -> list[Rack]:
    """Return the racks of a node; see :meth:`NodeSide.register`."""
    if isinstance(cards, Mapping):
        listed = {whose: fitted(node) for whose, fitted in cards.items()}
    else:
        made = cards(node) if callable(cards) else equip(node, cards, count=count)
        listed = {vendor: made}
    return [Rack(whose, {card.uuid: card for card in found}) for whose, found in listed.items()]


@dataclass(slots=True)
class GpuNode:
    """One node: its cards, the amounts handed out, and the values of its locks by annotation.

    ``mutex`` serialises admissions, because the kubelet admits one pod at a time.
    """

    racks: list[Rack]
    mutex: asyncio.Lock = field(default_factory=asyncio.Lock)
    locks: dict[str, str] = field(default_factory=dict)
    used: dict[str, Amount] = field(default_factory=dict)
    instances: dict[str, list[Instance]] = field(default_factory=dict)

    @property
    def cards(self) -> dict[str, Card]:
        """All cards by name."""
        return {name: card for rack in self.racks for name, card in rack.cards.items()}

    def annotations(self, shuffle: Callable[[list[Card]], None] = lambda _: None) -> dict[str, str]:
        """Return the node's registration of its cards, in the order given by ``shuffle``."""
        written: dict[str, str] = {}
        for rack in self.racks:
            listed = list(rack.cards.values())
            shuffle(listed)
            written |= rack.vendor.annotations(listed)
        return written

    def capacity(self) -> dict[str, str]:
        """Return what the kubelet can hand out."""
        amounts: dict[str, str] = {}
        for rack in self.racks:
            amounts |= rack.vendor.capacity(list(rack.cards.values()))
        return amounts

    def slices(self) -> dict[str, list[int]]:
        """Return the slices of MIG cards, or the instances of their templates, that are handed out."""
        found: dict[str, set[int]] = {}
        for instance in (instance for listed in self.instances.values() for instance in listed):
            found.setdefault(instance.card, set()).update(range(instance.start, instance.start + instance.size))
        return {card: sorted(taken) for card, taken in found.items()}

    def follow(self, annotations: dict[str, str]) -> None:
        """Update the locks from the node's annotations."""
        self.locks = {rack.vendor.lock: annotations.get(rack.vendor.lock, "") for rack in self.racks}

    def asked(self, pod: Object) -> list[Rack]:
        """Return the racks of the cards that a pod asks for, in the order of its containers.

        For a container that asks several vendors the kubelet calls the plugins in any order; here it is that of the
        racks.
        """
        order: list[tuple[int, int, Rack]] = []
        for rack in self.racks:
            asking = [bool(container.cards) for container in allocation.containers(pod, rack.vendor)]
            if any(asking):
                order.append((asking.index(True), len(order), rack))
        return [rack for *_, rack in sorted(order, key=lambda found: found[:2])]


class Books:
    """What pods hold, on all nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, GpuNode] = {}
        self._charged: dict[str, tuple[str, dict[str, Amount]]] = {}  # by pod UID: its node and what it holds

    def charge(self, pod: Object) -> Iterator[str]:
        """Count what a pod holds; yield overcommitted cards, and parts of cards that are handed out twice."""
        uid, name = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        node = self.nodes[name]
        self.release(uid)
        try:
            held = {card: amount for rack in node.racks for card, amount in allocation.usage(pod, rack.vendor).items()}
            own = [instance for rack in node.racks if rack.vendor.cuts for instance in instances(pod, rack.vendor)]
        except ValueError:
            return  # an earlier pod with unreadable annotations: what it holds cannot be known
        self._charged[uid] = (name, held)
        cards = node.cards
        for uuid, amount in held.items():
            used = node.used[uuid] = node.used.get(uuid, Amount()) + amount
            card = cards.get(uuid)
            if card is not None and card.mode != "mig":  # for MIG cards instances are checked below
                yield from _overcommitted(card, used)
        others = [instance for listed in node.instances.values() for instance in listed]
        if own:
            node.instances[uid] = own
        for one, two in clashes(own, others):
            yield f"card {one.card} is allocated twice: {one} and {two}"

    def release(self, uid: str) -> None:
        """Return what a pod held."""
        name, held = self._charged.pop(uid, ("", {}))
        for uuid, amount in held.items():
            self.nodes[name].used[uuid] -= amount
        if name:
            self.nodes[name].instances.pop(uid, None)

    def forget(self) -> None:
        """Forget what all pods hold, and which pods were served."""
        self._charged.clear()
        for node in self.nodes.values():
            node.used.clear()
            node.instances.clear()
            for rack in node.racks:
                rack.served.clear()


def _overcommitted(card: Card, used: Amount) -> Iterator[str]:
    for what, have, limit in (
        ("slots", used.slots, card.count),
        ("memory", used.memory, card.memory),
        ("cores", used.cores, card.cores),
    ):
        if have > limit:
            yield f"card {card.uuid} has {have} of {limit} {what} handed out"
