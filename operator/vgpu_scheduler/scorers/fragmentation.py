"""Packing without knowledge of what will come: keep cards from being stranded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.kernels import CardScratch, NodeCpu, fragmentation_nodes
from vgpu_scheduler.kube import CPU
from vgpu_scheduler.scorers.base import CompiledScorer, Workload
from vgpu_scheduler.scorers.demand import pod_demand
from vgpu_scheduler.state import State


@dataclass(frozen=True, slots=True)
class FragmentationScorer:
    """50 - 5 x (growth of what is stranded + what is left beside the pod), in whole points from 0 to 100.

    A card is *left* as far as its scarcest share is: the smaller of free memory and free cores; nothing is left of
    a card that has no free slot, is unhealthy or cordoned. Cards are *stranded* when the node has no cpu left to use
    them with, at the rate at which it has cpu per card::

        stranded = max(0, cards left - cpu left x cards / cpu)
        cost     = stranded with the pod - stranded without it + what is left of the cards that the pod takes
        score    = floor(50.5 - 5 x cost), 0 to 100; 100 for a node without cards

    The pod is assumed to take the cards that it fits best (card order ``bestFit``, with which this scorer belongs
    together), without regard to its annotations; what its init containers claim is not counted, as it is given back.
    A plain pod goes where it strands nothing, a pod with much cpu to where cpu abounds, a share of a card onto the
    card that it fills up. All amounts are in cards, so that the scores of large and small nodes compare.

    Points are coarse on purpose: nodes that differ by less than a fifth of a card score the same, and equal scores go
    to the first node by name, so that pods of different shapes fill the same nodes. With equal scores broken at random,
    the openb production trace with many multi-card pods loses a tenth of its cards.
    """

    name = "fragmentation"
    direction = 1.0
    ranks_plain_pods = True

    def compile(self, workload: Workload) -> CompiledFragmentation:
        """Prepare the scorer for one pod."""
        return CompiledFragmentation(workload)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores as they are: they lie between 0 and 100 and more is better."""
        return raw


class CompiledFragmentation(CompiledScorer):
    """The scorer for one pod.

    Parameters
    ----------
    workload
        The pod.
    """

    def __init__(self, workload: Workload) -> None:
        self._cpu = workload.requests.get(CPU, 0)
        self._claims = workload.claims
        self._dialect = workload.dialect

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes in whole points from 0 to 100."""
        del fit
        nodes, devices = state.nodes, state.matrix(self._dialect)
        cpu = nodes.resources[CPU]
        most = max(devices.most_cards, 1)
        scratch = CardScratch(
            used=np.zeros((most, devices.dimensions), dtype=np.int64),
            left=np.zeros(most, dtype=np.float64),
            taken=np.zeros(most, dtype=np.bool_),
            passed=np.zeros(most, dtype=np.bool_),
        )
        scores = np.zeros(rows.shape[0], dtype=np.float64)
        fragmentation_nodes(
            NodeCpu(self._cpu, nodes.allocatable.T[cpu], nodes.used.T[cpu]),
            devices.columns,
            pod_demand(self._claims, devices),
            rows,
            scratch,
            scores,
        )
        return scores
