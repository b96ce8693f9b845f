"""HAMi's node score: the load of the node before the pod is placed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod
from vgpu_scheduler.state import State

_TO_PERCENT = 10.0 / 3.0


class NodePolicy(Enum):
    """Whether the highest or the lowest load wins."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class HamiScorer(CompiledScorer):
    """10 x (shares used / shares + cores used / cores + memory used / memory), over all cards of the node.

    Raw scores are 0 to 30, or more if cards are used beyond capacity. The fit kernel computes them together with the
    fit; ``policy`` decides whether the highest or the lowest wins.
    """

    policy: NodePolicy = NodePolicy.BINPACK

    name = "hami"
    ranks_plain_pods = False

    @property
    def direction(self) -> float:
        """+1: binpack takes the fullest node; -1: spread takes the emptiest."""
        return -1.0 if self.policy is NodePolicy.SPREAD else 1.0

    def compile(self, workload: ScoredPod) -> HamiScorer:
        """Return the scorer itself: the load before the pod does not depend on the pod."""
        del workload
        return self

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Return the load that the fit computed, plus or minus the score of the chosen cards.

        Some vendors prefer nodes where cards that belong together are free, under both policies. For ``spread`` the
        score of the cards is subtracted, because the lowest score wins.
        """
        del state
        choice_score = fit.choice_score[rows, 1 if self.policy is NodePolicy.SPREAD else 0]
        found: NDArray[np.float32] = fit.score[rows] + np.float32(self.direction) * choice_score
        return found.astype(np.float64)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalise 0 to 30 to 0 to 100; for spread the emptiest node gets 100."""
        percent = np.minimum(raw * _TO_PERCENT, 100.0)
        return percent if self.policy is NodePolicy.BINPACK else 100.0 - percent
