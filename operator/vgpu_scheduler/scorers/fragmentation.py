"""The fragmentation scorer: packs pods so that no cards get stranded, optionally with learned card prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.kernels import (
    POINTS_PER_CARD,
    TERMS,
    CardPrices,
    CardScratch,
    NodeCpu,
    PricedScratch,
    Term,
    fragmentation_nodes,
    priced_nodes,
)
from vgpu_scheduler.kube import CPU
from vgpu_scheduler.model import vendors_of
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod, bounded_demand
from vgpu_scheduler.state import DeviceMatrix, State


@dataclass(frozen=True, slots=True)
class FragmentationScorer:
    """50 - 5 x (growth of stranded cards + free parts of the pod's cards), in whole points from 0 to 100.

    What is *left* of a card is the smaller of its free fractions of memory and cores; nothing is left of a card that
    has no free slot, is unhealthy or cordoned. Cards are *stranded* if the node has no cpu left to use them, at the
    node's ratio of cpu per card::

        stranded = max(0, cards left - cpu left x cards / cpu)
        cost     = stranded with the pod - stranded without it + what is left of the cards that the pod takes
        score    = floor(50.5 - 5 x cost), 0 to 100; 100 for a node without cards

    The pod is assumed to take the cards that it fits tightest (card order ``bestFit``, which is meant to be used with
    this scorer), regardless of its annotations; claims of init containers are not counted, because they are given back.
    A plain pod goes where it strands nothing, a pod with much cpu where cpu is abundant, a share of a card onto the
    card that it fills up. All amounts are in cards, so that scores of large and small nodes are comparable.

    Points are coarse on purpose: nodes that differ by less than a fifth of a card tie, and ties go to the first node by
    name, so that pods of different shapes fill the same nodes. With random tie-breaking, the openb production trace
    with many multi-card pods loses a tenth of its cards.

    With ``learned`` the cost uses the prices in ``State.prices``, if there are prices for all vendors that the pod
    claims (for a pod without claims: any prices)::

        cost  = worth that the free parts of cards lose beyond the part that the pod takes
                + 0.2 x growth of stranded cards, at the cpu that pods request per card if nodes have more
                + 0.08 x free parts of the cards that the pod takes
                + cards taken x contention of their models
                + idle cards that multi-card pods could no longer use x demand of these pods
        score = 50 - 2 x cost, in steps of 1/32 card

    See :mod:`vgpu_scheduler.scorers.prices` for how prices are learned.

    Attributes
    ----------
    learned
        Whether learned prices are used if there are any.
    """

    learned: bool = False

    name = "fragmentation"
    direction = 1.0
    ranks_plain_pods = True

    def compile(self, workload: ScoredPod) -> CompiledFragmentation:
        """Prepare the scorer for one pod."""
        return CompiledFragmentation(workload, learned=self.learned)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores unchanged: they are between 0 and 100, and more is better."""
        return raw


class CompiledFragmentation(CompiledScorer):
    """The scorer for one pod.

    Parameters
    ----------
    workload
        The pod.
    learned
        Whether learned prices are used if there are any.
    """

    def __init__(self, workload: ScoredPod, *, learned: bool) -> None:
        self._learned = learned
        self._terms: NDArray[np.float64] = np.zeros(TERMS, dtype=np.float64)
        self._vendors = vendors_of(workload.claims)
        self._cpu = workload.requests.get(CPU, 0)
        self._claims = workload.claims
        self._dialect = workload.dialect

    def epoch(self, state: State) -> int:
        """Return the epoch of the prices, if they are used."""
        return state.price_epoch if self._learned else 0

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes from 0 to 100."""
        del fit
        scores, self._terms = self._scored(state, rows)
        return scores

    def terms(self, state: State, row: int, fit: FitColumns) -> tuple[tuple[str, float], ...]:
        """Return what each price term adds to or takes off the 50 points of a node; empty without prices."""
        del state, row, fit
        terms = self._terms.tolist()
        return tuple((term.name.lower(), -POINTS_PER_CARD * terms[term]) for term in Term if terms[term])

    def _scored(self, state: State, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores, and the cost terms of the last node."""
        nodes, devices = state.nodes, state.matrix(self._dialect)
        column = nodes.resources.columns[CPU]
        cpu = NodeCpu(self._cpu, nodes.allocatable.T[column], nodes.used.T[column])
        demand, scratch = bounded_demand(self._claims, devices), _scratch(devices)
        scores, terms = np.zeros(rows.shape[0], dtype=np.float64), np.zeros(TERMS, dtype=np.float64)
        prices = self._prices(state, devices)
        if prices is None:
            fragmentation_nodes(cpu, devices.columns, demand, rows, scratch, scores)
        else:
            priced_nodes(cpu, devices.columns, demand, prices, rows, PricedScratch(scratch, terms), scores)
        return scores, terms

    def _prices(self, state: State, devices: DeviceMatrix) -> CardPrices | None:
        """Return the prices, if there are some for all vendors that the pod claims."""
        prices = state.prices.get(self._dialect or next(iter(state.matrices))) if self._learned else None
        if prices is None or not self._vendors:
            return prices
        known = {vendor for (vendor, _, _), known in zip(devices.models, prices.known, strict=False) if known}
        return prices if self._vendors <= known else None


def _scratch(devices: DeviceMatrix) -> CardScratch:
    most = max(devices.most_cards, 1)
    return CardScratch(
        used=np.zeros((most, devices.dimensions), dtype=np.int64),
        left=np.zeros(most, dtype=np.float64),
        taken=np.zeros(most, dtype=np.bool_),
        passed=np.zeros(most, dtype=np.bool_),
    )
