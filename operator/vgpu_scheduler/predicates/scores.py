"""What a soft score is: what a pod, the taints of nodes and the pods that are there would like, in points per node."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import State

__all__ = ["MOST_POINTS", "PodScore", "ScorePlugin", "Scores", "of_largest", "of_range"]

MOST_POINTS: Final = 100
"""What the best node can have (MaxNodeScore)."""


class Scores(NamedTuple):
    """What a plugin says of some nodes.

    Attributes
    ----------
    raw
        In the plugin's own units, as upstream's Score has it; shape (n,).
    normalised
        0 to 100, more is better; shape (n,).
    """

    raw: NDArray[np.int64]
    normalised: NDArray[np.int64]

    def distinguish(self) -> bool:
        """Tell whether some node has more points than another."""
        return bool((self.normalised != self.normalised[0]).any())


class PodScore(ABC):
    """A score for pods that like the same; its answers follow every later change of the state."""

    @abstractmethod
    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores | None:
        """Score nodes.

        Parameters
        ----------
        pod
            One of the pods.
        rows
            The rows where the pod fits, at least one; shape (n,). Scores are relative to each other.

        Returns
        -------
        Scores or None
            None if the plugin has nothing to say, which is where upstream skips it or scores all nodes alike because
            none of them is concerned.
        """

    def close(self) -> None:  # noqa: B027
        """Give back what is kept for this score alone, here nothing; it is not used any more."""


@dataclass(frozen=True, slots=True)
class ScorePlugin:
    """One of kube-scheduler's plugins, as far as it ranks nodes by what somebody would like.

    Attributes
    ----------
    name
        As kube-scheduler has it.
    weight
        How often its points count in the sum, as in the default profile.
    key
        Returns what of a pod its score depends on: pods with equal keys share one score. None for a pod that the
        plugin has nothing to say about now.
    make
        Makes the score of a pod with a key.
    """

    name: str
    weight: int
    key: Callable[[Pod, State], Hashable | None]
    make: Callable[[Pod, State], PodScore]


def of_largest(raw: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Bring what is not negative to shares of the largest, in points; with ``reverse`` 0 is worth most.

    The rule is upstream's DefaultNormalizeScore, whose divisions truncate.
    """
    largest = raw.max(initial=0)
    shares: NDArray[np.int64] = MOST_POINTS * raw // largest if largest else raw
    return MOST_POINTS - shares if reverse else shares


def of_range(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bring what may be negative to where it lies between the smallest (0) and the largest (100); 0 if all are equal.

    The rule is that of upstream's InterPodAffinity, which divides in doubles and truncates.
    """
    smallest = raw.min()
    width = raw.max() - smallest
    if not width:
        return np.zeros_like(raw)
    points: NDArray[np.int64] = (MOST_POINTS * ((raw - smallest) / width)).astype(np.int64)
    return points
