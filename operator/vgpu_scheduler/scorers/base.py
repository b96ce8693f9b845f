"""What a scorer is: a value that ranks nodes for a pod, and its form compiled for one pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns, pod_demand
from vgpu_scheduler.kernels import PodDemand
from vgpu_scheduler.model import DeviceResource, PodClaims
from vgpu_scheduler.state import DeviceMatrix, State

# A claim beyond this fits nowhere; held below it, no sum leaves int64.
_MOST_CARDS = 1 << 16
_MOST_AMOUNT = 1 << 40


def bounded_demand(claims: PodClaims, devices: DeviceMatrix) -> PodDemand:
    """Return a pod's claims as the kernels of scorers take them: no sum of them leaves int64."""
    demand = pod_demand(claims, devices)
    return demand._replace(
        amounts=np.minimum(demand.amounts, _MOST_AMOUNT), wanted=np.minimum(demand.wanted, _MOST_CARDS)
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """What a scorer may know about a pod.

    Attributes
    ----------
    requests
        Kubernetes resources of the whole pod, cpu in milli and all else in whole units.
    claims
        Its claims on devices.
    resources
        The resource names that stand for amounts of devices, as the dialect counts them. A name that a node offers in
        its allocatable amounts is counted there instead.
    dialect
        Whose devices these are; empty for those of the dialect that is listed first.
    unrequested
        The cpu (milli) and memory (bytes) that some scorers add for containers that request none.
    images
        The images that it needs.
    containers
        How many containers it has.
    """

    requests: Mapping[str, int]
    claims: PodClaims
    resources: Mapping[str, DeviceResource] = field(default_factory=dict)
    dialect: str = ""
    unrequested: tuple[int, int] = (0, 0)
    images: tuple[str, ...] = ()
    containers: int = 1


class CompiledScorer(Protocol):
    """A scorer for one pod."""

    def epoch(self, state: State) -> int:
        """Return a number that rises when something beside the node changes what the scorer says, such as prices."""
        del state
        return 0

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes on the scorer's own scale.

        Parameters
        ----------
        state
            What is known; the pod is not in it.
        rows
            Node rows, shape (n,).
        fit
            The outcome of the fit, already written at these rows.

        Returns
        -------
        NDArray[float64], shape (n,)
        """

    def terms(self, state: State, row: int, fit: FitColumns) -> tuple[tuple[str, float], ...]:
        """Return what the score of one node is made of, in points, if it is made of parts that have names.

        It is asked right after the score of this node alone.
        """
        del state, row, fit
        return ()


class NodeScorer(Protocol):
    """A rule that ranks nodes; a value that can be compared and hashed."""

    @property
    def name(self) -> str:
        """The name that policies and explanations use."""

    @property
    def direction(self) -> float:
        """+1 when the highest raw score wins, -1 when the lowest does."""

    @property
    def ranks_plain_pods(self) -> bool:
        """Whether it has something to say about pods without device claims."""

    def compile(self, workload: Workload) -> CompiledScorer:
        """Prepare the scorer for one pod."""

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring raw scores to 0 to 100, where more is better (C-03)."""
