"""Meters what namespaces hold of cards over time: memory and cards, each multiplied by seconds.

A pod's share of a card is the largest of its shares of slots, memory and compute, as far as the card has these. If the
shares on a card add up to more than the card, they are scaled down, so that no card counts for more than one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from vgpu_scheduler.dialects import Dialects, Inventory
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.model import WHOLE, Amounts, Device
from vgpu_scheduler.state import Reservation, State

PARTS: Final = 1_000_000_000
"""Parts of a card. Rates are whole numbers, so that adding and subtracting them leaves no rounding error."""
_Key = tuple[str, str]
"""Namespace and model."""


class _Rate(NamedTuple):
    """The amounts of cards of one model that pods hold.

    Attributes
    ----------
    memory
        Bytes.
    cards
        In ``PARTS`` of a card.
    """

    memory: int
    cards: int


class Metered(NamedTuple):
    """What the pods of a namespace have held of the cards of a model over time.

    Attributes
    ----------
    byte_seconds
        Memory times seconds.
    card_seconds
        Cards times seconds.
    """

    namespace: str
    model: str
    byte_seconds: float
    card_seconds: float


class HeldCard(NamedTuple):
    """What a pod holds of a card.

    Attributes
    ----------
    memory
        Bytes.
    part
        Its share of the card in ``PARTS``.
    """

    pod: Reservation
    model: str
    memory: int
    part: int


def cards_held(state: State, dialects: Dialects, row: int) -> Iterator[HeldCard]:
    """Yield what pods hold of the cards of a node; unlisted cards are left out, as their model is unknown.

    Devices of other kinds, such as RDMA, are left out, too.
    """
    held: defaultdict[tuple[str, str], list[tuple[Reservation, Amounts]]] = defaultdict(list)
    for reservation in state.reservations(state.nodes.name(row)):
        for dialect, usage in reservation.uses.items():
            for uuid, amounts in usage.charges.items():
                held[dialect, uuid].append((reservation, amounts))
    for (dialect, uuid), charges in held.items():
        matrix, inventory = state.matrix(dialect), dialects[dialect].inventory
        number = matrix.position(row, uuid)
        if number is None:
            continue
        device = matrix.listed(row, number)
        if device.part or device.vendor not in inventory.cards:
            continue  # counted with the device that it is a part of, or of another kind
        parts = [part_of_card(inventory, device, amounts) for _, amounts in charges]
        too_much = max(sum(parts), PARTS)
        for (reservation, amounts), part in zip(charges, parts, strict=True):
            memory = amounts[inventory.memory] * inventory.memory_unit
            yield HeldCard(reservation, device.type, memory, part * PARTS // too_much)


def part_of_card(inventory: Inventory, device: Device, amounts: Amounts) -> int:
    """Return the share of a card that amounts take, in ``PARTS``: the largest of slots, memory and compute."""
    found = [
        amounts[dimension] * PARTS // device.total[dimension]
        for dimension in (SLOTS, inventory.memory)
        if device.total[dimension]
    ]
    if total := device.total[inventory.cores]:
        found.append(round(device.compute_percent(amounts[inventory.cores], total) * PARTS / WHOLE))
    return min(max(found, default=0), PARTS)


class UsageMeter:
    """Adds up what pods hold of cards over time; between two calls of ``advance`` it is taken as constant.

    A call costs time in proportion to the number of nodes that changed since the last one.

    Parameters
    ----------
    state
        The cluster's state.
    dialects
        Tell which dimensions are memory and compute.
    most_names
        Maximum number of namespaces, and of models, that are metered by name, first come first served: a name must not
        change, since counters must not move between names.
    other
        The name under which all others are metered together.
    """

    def __init__(self, state: State, dialects: Dialects, most_names: int, other: str) -> None:
        self._state = state
        self._dialects = dialects
        self._most_names = most_names
        self._other = other
        self._looked_at: float | None = None
        self._nodes_version = -1
        self._of_row: dict[int, Mapping[_Key, _Rate]] = {}
        self._memory: Counter[_Key] = Counter()
        self._cards: Counter[_Key] = Counter()
        self._byte_seconds: defaultdict[_Key, float] = defaultdict(float)
        self._card_seconds: defaultdict[_Key, float] = defaultdict(float)
        self._named: tuple[set[str], set[str]] = (set(), set())

    def start(self, now: float) -> None:
        """Start or resume metering; what was held while nothing was metered does not count."""
        self._look()
        self._looked_at = now

    def advance(self, now: float) -> None:
        """Add what was held since the last call.

        Parameters
        ----------
        now
            Seconds of a clock that does not go back.
        """
        if self._looked_at is None:
            return
        seconds, self._looked_at = now - self._looked_at, now
        for key, memory in self._memory.items():
            self._byte_seconds[key] += memory * seconds
            self._card_seconds[key] += self._cards[key] / PARTS * seconds
        self._look()

    def metered(self) -> Iterator[Metered]:
        """Yield what was held up to the last call of :meth:`advance`, by namespace and model."""
        for (namespace, model), byte_seconds in sorted(self._byte_seconds.items()):
            yield Metered(namespace, model, byte_seconds, self._card_seconds[namespace, model])

    def _look(self) -> None:
        """Update the rates of the nodes that have changed."""
        nodes = self._state.nodes
        changed = np.flatnonzero(nodes.version > self._nodes_version).tolist()
        self._nodes_version = nodes.latest_version
        for row in changed:
            self._add(self._of_row.pop(row, {}), -1)
            found = self._held_on(row) if nodes.alive[row] else {}
            if found:
                self._of_row[row] = found
                self._add(found, 1)

    def _add(self, rates: Mapping[_Key, _Rate], sign: int) -> None:
        for key, rate in rates.items():
            self._memory[key] += sign * rate.memory
            self._cards[key] += sign * rate.cards
            if not self._memory[key] and not self._cards[key]:
                del self._memory[key], self._cards[key]
            else:
                self._byte_seconds[key] += 0.0  # show the counter from the start

    def _held_on(self, row: int) -> dict[_Key, _Rate]:
        """Return the rates of the cards of a node."""
        found: dict[_Key, _Rate] = {}
        for pod, model, memory, part in cards_held(self._state, self._dialects, row):
            key = (self._name(0, pod.namespace), self._name(1, model))
            before = found.get(key, _Rate(0, 0))
            found[key] = _Rate(before.memory + memory, before.cards + part)
        return found

    def _name(self, which: int, name: str) -> str:
        """Return the name under which a namespace or model is metered."""
        named = self._named[which]
        if name not in named and len(named) < self._most_names:
            named.add(name)
        return name if name in named else self._other
