"""The interface of score plugins that rank nodes by preferences of pods and by PreferNoSchedule taints."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import State

MOST_POINTS: Final = 100
"""The highest normalised score (MaxNodeScore)."""


class Scores(NamedTuple):
    """A plugin's scores of some nodes.

    Attributes
    ----------
    raw
        The result of upstream's Score, in the plugin's own units; shape (n,).
    normalised
        The result of upstream's NormalizeScore, 0 to 100, more is better; shape (n,).
    """

    raw: NDArray[np.int64]
    normalised: NDArray[np.int64]

    def distinguish(self) -> bool:
        """Tell whether the normalised scores differ."""
        return bool((self.normalised != self.normalised[0]).any())


class PodScore(ABC):
    """A score for all pods with the same plugin key; it reads the current state at each evaluation."""

    @abstractmethod
    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores | None:
        """Score nodes.

        Parameters
        ----------
        pod
            One of the pods.
        rows
            The feasible rows, at least one; shape (n,). Scores are relative to each other.

        Returns
        -------
        Scores or None
            None if upstream would skip the plugin or score all nodes alike.
        """

    def close(self) -> None:  # noqa: B027
        """Release the resources of this score, by default none; it must not be used afterwards."""


@dataclass(frozen=True, slots=True)
class ScorePlugin:
    """The score side of a kube-scheduler plugin.

    Attributes
    ----------
    name
        The plugin's name in kube-scheduler.
    weight
        The plugin's weight in the default profile.
    key
        Returns the key of a pod: pods with equal keys share one score. None if the plugin does not concern the pod now.
    make
        Makes the score of a pod with a key.
    """

    name: str
    weight: int
    key: Callable[[Pod, State], Hashable | None]
    make: Callable[[Pod, State], PodScore]


def of_largest(raw: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Normalise non-negative scores by the largest to 0 to 100; with ``reverse`` a raw score of 0 gets 100.

    The rule is upstream's DefaultNormalizeScore, whose divisions truncate.
    """
    largest = raw.max(initial=0)
    shares: NDArray[np.int64] = MOST_POINTS * raw // largest if largest else raw
    return MOST_POINTS - shares if reverse else shares


def of_range(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Normalise scores linearly between the smallest (0) and the largest (100); all get 0 if all are equal.

    As upstream's InterPodAffinity, it divides in doubles and truncates.
    """
    smallest = raw.min()
    width = raw.max() - smallest
    if not width:
        return np.zeros_like(raw)
    points: NDArray[np.int64] = (MOST_POINTS * ((raw - smallest) / width)).astype(np.int64)
    return points
