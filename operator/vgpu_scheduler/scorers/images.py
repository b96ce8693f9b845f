"""kube-scheduler's ImageLocality, for policies that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod
from vgpu_scheduler.state import State

_LEAST: Final = 23 << 20
"""Up to this many bytes on the node score 0 (minThreshold)."""
_MOST: Final = 1000 << 20
"""From this many bytes per container on, the score is 100 (maxContainerThreshold)."""


@dataclass(frozen=True, slots=True)
class ImageLocalityScorer:
    """The bytes of the pod's images on a node, each scaled by the fraction of nodes that have it: 0 to 100.

    23 MiB and less score 0, 1000 MiB per container and more 100. Images on few nodes score little, so that the first
    node with an image does not attract all pods. Nodes list their 50 largest images.
    """

    name = "imageLocality"
    direction = 1.0
    ranks_plain_pods = True

    def compile(self, workload: ScoredPod) -> CompiledImageLocality:
        """Prepare the scorer for one pod."""
        return CompiledImageLocality(workload)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores unchanged: they are between 0 and 100, and more is better."""
        return raw


class CompiledImageLocality(CompiledScorer):
    """The scorer for one pod.

    Parameters
    ----------
    workload
        The pod.
    """

    def __init__(self, workload: ScoredPod) -> None:
        self._images = workload.images
        self._most = _MOST * max(workload.containers, 1)

    def epoch(self, state: State) -> int:
        """Return a number that rises when nodes get or lose images: scores depend on how many nodes have an image."""
        return state.nodes.images.epoch

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes in whole points from 0 to 100."""
        del fit
        nodes, there = state.nodes, np.zeros(rows.shape[0], dtype=np.int64)
        for image in self._images:
            sizes = nodes.images.sizes(image)
            spread = np.count_nonzero(sizes) / max(len(nodes), 1)
            there += (sizes.take(rows) * spread).astype(np.int64)
        points = 100 * (np.clip(there, _LEAST, self._most) - _LEAST) // (self._most - _LEAST)
        return points.astype(np.float64)
