"""Cards that nobody registers: their plugins only raise the node's capacity of a resource."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.inventory import check_number
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import Compute, Device


@dataclass(frozen=True, slots=True)
class CardKind:
    """What all cards of a node are.

    Attributes
    ----------
    number
        How many there are.
    slots, memory, cores
        What each has: shares, MiB, percent.
    """

    number: int
    slots: int
    memory: int
    cores: int


@dataclass(frozen=True, slots=True)
class CardsByCapacity:
    """Cards that are counted by a node's capacity.

    Attributes
    ----------
    resources
        The resources that say it; the first one must be there.
    kind
        What the cards are, from the amounts of these resources.
    name
        The middle of the cards' names: ``<node>-<name>-<number>``.
    numa
        The NUMA node of a card, from its number and how many there are.
    compute
        What they count compute in.
    """

    resources: tuple[str, ...]
    kind: Callable[..., CardKind]
    name: str
    numa: Callable[[int, int], int] = lambda number, cards: 0  # noqa: ARG005
    compute: Compute = Compute.PERCENT

    cordon = ""
    health = ""

    @property
    def source(self) -> str:
        """What an error names."""
        return f"capacity of {self.resources[0]}"

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
    """Cards that are counted, of which the node says something more: where ``decode`` and ``facts`` begin."""

    counted: CardsByCapacity

    cordon = ""
    health = ""

    @property
    def source(self) -> str:
        """What an error names."""
        return self.counted.source
