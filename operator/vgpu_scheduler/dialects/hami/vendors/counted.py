"""Cards that are not registered: their plugins only advertise a capacity of the node."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.vendors.base import CardSource
from vgpu_scheduler.dialects.inventory import check_number
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import Compute, Device


@dataclass(frozen=True, slots=True)
class CardKind:
    """The kind of all cards of a node.

    Attributes
    ----------
    number
        The number of cards.
    slots, memory, cores
        The capacity of each: slots, MiB, percent.
    """

    number: int
    slots: int
    memory: int
    cores: int


@dataclass(frozen=True, slots=True)
class CardsByCapacity:
    """Cards that are derived from a node's capacity.

    Attributes
    ----------
    resources
        The capacity resources; the first one must be present.
    kind
        Returns the kind of the cards from the amounts of these resources.
    name
        The middle of the cards' names: ``<node>-<name>-<number>``.
    numa
        Returns the NUMA node of a card from its number and the number of cards.
    compute
        The unit of compute.
    """

    resources: tuple[str, ...]
    kind: Callable[..., CardKind]
    name: str
    numa: Callable[[int, int], int] = lambda number, cards: 0  # noqa: ARG005
    compute: Compute = Compute.PERCENT

    cordon = ""
    health = ""

    @property
    def source(self) -> CardSource:
        """Where nodes list the cards."""
        return CardSource(capacity=self.resources[0])

    def facts(self, node: Node) -> Hashable | None:
        """Return the node's name and the amounts."""
        if node.capacity.get(self.resources[0], 0) <= 0:
            return None
        return (node.name, *(node.capacity.get(name, 0) for name in self.resources))

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of their numbers; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, tuple)
        node, *amounts = facts
        kind = self.kind(*amounts)
        check_number(kind.number)
        if kind.memory > INT32:
            raise CodecError(f"{kind.memory} MiB are more than a card has (at most {INT32})")
        return tuple(
            Device(
                uuid=f"{node}-{self.name}-{number}",
                vendor=vendor,
                type=vendor,
                total=(kind.slots, kind.memory, kind.cores),
                index=number,
                numa=self.numa(number, kind.number),
                tag=str(number),
                compute=self.compute,
            )
            for number in range(kind.number)
        )


@dataclass(frozen=True, slots=True)
class CountedCards:
    """Base of counted cards for which nodes have further facts; subclasses extend ``facts`` and ``decode``."""

    counted: CardsByCapacity

    cordon = ""
    health = ""

    @property
    def source(self) -> CardSource:
        """Where nodes list the cards."""
        return self.counted.source
