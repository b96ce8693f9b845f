"""The nodes on which a trace is replayed, as plain numbers for the audit, independent of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif.traces.format import TraceError, TraceNode, TracePod

SHARES: Final = 10
"""How many pods may share a card, the default of HAMi's device plugin."""


class Fleet:
    """Nodes in an order that breaks ties.

    Parameters
    ----------
    nodes
        The nodes, at least one of them with a card.

    Raises
    ------
    TraceError
        If no node has a card.
    """

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        self.nodes = tuple(nodes)
        if not any(node.models for node in self.nodes):
            raise TraceError("no node has a card")

    def in_order(self, order: Sequence[int]) -> Fleet:
        """Return the same nodes in another order."""
        return Fleet([self.nodes[number] for number in order])

    @cached_property
    def capacity(self) -> int:
        """The sum of all cards, in percent of a card."""
        return WHOLE * sum(len(node.models) for node in self.nodes)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models of the cards, sorted."""
        return tuple(sorted({model for node in self.nodes for model in node.models}))

    @cached_property
    def card_models(self) -> NDArray[np.int64]:
        """The index of each card's model, by node and card; -1 where there is no card."""
        most = max(len(node.models) for node in self.nodes)
        numbers = {model: number for number, model in enumerate(self.models)}
        found = np.full((len(self.nodes), most), -1, dtype=np.int64)
        for row, node in enumerate(self.nodes):
            found[row, : len(node.models)] = [numbers[model] for model in node.models]
        return found

    def allowed(self, pod: TracePod) -> NDArray[np.bool_]:
        """Tell for each model, by index, whether a pod accepts it."""
        return np.array([not pod.models or model in pod.models for model in self.models], dtype=np.bool_)


@dataclass(slots=True)
class Room:
    """The free resources on the nodes of a fleet.

    Attributes
    ----------
    cpu, memory, pods
        By node: millicores, MiB and number of pods.
    cards
        Free percent of each card, by node and card; -1 where there is no card.
    shares
        How many more pods may share each card.
    """

    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    pods: NDArray[np.int64]
    cards: NDArray[np.int64]
    shares: NDArray[np.int64]

    @classmethod
    def of(cls, fleet: Fleet) -> Room:
        """Return the free resources of an unused fleet."""
        cpu, memory, pods = np.array([(n.cpu, n.memory, n.pods) for n in fleet.nodes], dtype=np.int64).T.copy()
        there = fleet.card_models >= 0
        return cls(cpu, memory, pods, np.where(there, WHOLE, -1), np.where(there, SHARES, 0))

    def fits(self, pod: TracePod, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell for each node whether a pod fits, given the cards that it accepts (by node and card)."""
        plain = (self.cpu >= pod.cpu) & (self.memory >= pod.memory) & (self.pods >= 1)
        if not pod.cards:
            return plain
        passing = (self.cards >= pod.share) & (self.shares >= 1) & allowed
        found: NDArray[np.bool_] = plain & (passing.sum(axis=1) >= pod.cards)
        return found
