"""Check that the placements of a replay are possible, by repeating each step on plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.whatif.traces.arrivals import Arrivals
from vgpu_scheduler.whatif.traces.fleet import Fleet, Room
from vgpu_scheduler.whatif.traces.format import TracePod
from vgpu_scheduler.whatif.traces.placing import CardLocation


class AuditError(Exception):
    """A placement that is impossible."""


class FreeResources:
    """The free resources of a fleet.

    Parameters
    ----------
    fleet
        The fleet, all of it free at first.

    Attributes
    ----------
    used
        The allocated amount of all cards, in percent of a card.
    rejected
        Pods that were rejected so far.
    withheld
        Rejected pods for which a node had room.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.room = Room.of(fleet)
        self.used = 0
        self.rejected = 0
        self.withheld = 0
        self._allowed: dict[tuple[str, ...], NDArray[np.bool_]] = {}

    def reject(self, pod: TracePod) -> None:
        """Record that a pod was rejected."""
        if pod.models not in self._allowed:
            self._allowed[pod.models] = self.fleet.allowed(pod)[self.fleet.card_models]
        self.rejected += 1
        self.withheld += int(self.room.fits(pod, self._allowed[pod.models]).any())

    def take(self, pod: TracePod, location: CardLocation) -> None:
        """Allocate a pod's cards and node resources.

        Raises
        ------
        AuditError
            If there is no room, or the cards are not what the pod asked for.
        """
        node = self.fleet.nodes[location.node]
        where = f"{pod} on node {node.name}, cards {list(location.cards)}"
        if len(location.cards) != pod.cards or len(set(location.cards)) != pod.cards:
            raise AuditError(f"{where}: it asked for {pod.cards} cards")
        for card in location.cards:
            if not 0 <= card < len(node.models):
                raise AuditError(f"{where}: there is no card {card}")
            if pod.models and node.models[card] not in pod.models:
                raise AuditError(f"{where}: card {card} is of model {node.models[card]}")
        self._move(pod, location, 1)
        for what, left in self._left(location):
            if left < 0:
                raise AuditError(f"{where}: {-left} more {what} than there is")

    def release(self, pod: TracePod, location: CardLocation) -> None:
        """Release what a pod had."""
        self._move(pod, location, -1)

    def _move(self, pod: TracePod, location: CardLocation, sign: int) -> None:
        room, node, cards = self.room, location.node, list(location.cards)
        room.cpu[node] -= sign * pod.cpu
        room.memory[node] -= sign * pod.memory
        room.pods[node] -= sign
        room.cards[node, cards] -= sign * pod.share
        room.shares[node, cards] -= sign
        self.used += sign * pod.demand

    def _left(self, location: CardLocation) -> Iterator[tuple[str, int]]:
        room, node = self.room, location.node
        yield "millicores of cpu", int(room.cpu[node])
        yield "MiB of memory", int(room.memory[node])
        yield "pods", int(room.pods[node])
        for card in location.cards:
            yield f"percent of card {card}", int(room.cards[node, card])
            yield f"shares of card {card}", int(room.shares[node, card])


def audited(fleet: Fleet, arrivals: Arrivals, locations: Sequence[CardLocation | None]) -> Iterator[FreeResources]:
    """Repeat the steps of a replay; after each, yield the free resources, always the same object.

    Parameters
    ----------
    locations
        The location of each pod; None for rejected pods.

    Raises
    ------
    AuditError
        If a placement does not fit, or is not what the pod asked for.
    """
    free = FreeResources(fleet)
    for step in arrivals.steps:
        number = step if step >= 0 else ~step
        pod, location = arrivals.pods[number], locations[number]
        if step >= 0:
            if location is None:
                free.reject(pod)
            else:
                free.take(pod, location)
        elif location is not None:
            free.release(pod, location)
        yield free
