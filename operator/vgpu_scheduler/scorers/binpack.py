"""Volcano's binpack (D1): prefers the node that is fullest with the pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns, Weights
from vgpu_scheduler.kernels import NO_LINE, NO_VENDOR, WeighedResources, binpack_nodes
from vgpu_scheduler.kube import CPU, MEMORY, PODS
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod, bounded_demand, checked_weights
from vgpu_scheduler.state import DeviceMatrix, NodeTable, State

DEFAULT_WEIGHTS: Weights = ((CPU, 1), (MEMORY, 1))

_QUOTA_NAMES = "count/"  # names of object quotas: Volcano drops them, though a container may request them


@dataclass(frozen=True, slots=True)
class BinpackArguments:
    """The parsed arguments of a bin-packing plugin.

    Attributes
    ----------
    weight
        The global weight: any integer; 0 switches the scorer off, a negative weight inverts the order.
    weights
        Weight per resource, sorted by name; ``cpu`` and ``memory`` are among them.
    warnings
        Arguments that are ignored, for the status of the policy.
    """

    weight: int
    weights: Weights
    warnings: tuple[str, ...] = ()


ReadBinpackArguments = Callable[[Mapping[str, object]], BinpackArguments]
"""Parses the arguments of the plugin's own configuration; what it cannot parse becomes a warning."""


@dataclass(frozen=True, slots=True)
class BinpackScorer:
    """100 x the weighted mean, over the resources that the pod requests, of (used + requested) / capacity.

    As in Volcano, a resource without a weight is left out; a resource that the node lacks, or whose weight is 0, adds
    nothing; if a resource would exceed the capacity, the node scores 0. Volcano's global weight is the weight of the
    scorer in its policy.

    A resource that the node offers is counted there. Otherwise, if the dialect maps it to devices
    (``ScoredPod.resources``), it is counted over all the node's devices of that vendor, healthy or not: their capacity,
    their usage, and the pod's peak request (number of devices x amount per device). A claim in percent takes that
    percentage of the node's average card. A resource that is counted in percent has 100 per card, and a claim's amount
    is converted to percent of the average card; all are truncated to whole percent.

    Attributes
    ----------
    weights
        Weight per resource, 0 or more; ``cpu`` and ``memory`` have weight 1 by default. Kept sorted by name, so that
        equal weights are equal scorers.

    Raises
    ------
    ValueError
        If a weight is negative or a resource is given twice.
    """

    weights: Weights = DEFAULT_WEIGHTS

    name = "binpack"
    direction = 1.0
    ranks_plain_pods = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", checked_weights(self.weights, DEFAULT_WEIGHTS))

    def compile(self, workload: ScoredPod) -> CompiledBinpack:
        """Prepare the scorer for one pod."""
        return CompiledBinpack(self.weights, workload)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores unchanged: they are between 0 and 100, and more is better."""
        return raw


class CompiledBinpack(CompiledScorer):
    """The weighted resources that one pod requests.

    Parameters
    ----------
    weights
        Weight per resource.
    workload
        The pod; it also requests 1 of the resource ``pods``.
    """

    def __init__(self, weights: Weights, workload: ScoredPod) -> None:
        requests = {name: amount for name, amount in workload.requests.items() if not name.startswith(_QUOTA_NAMES)}
        requests[PODS] = 1
        stands = workload.resources
        weighed = [(name, weight) for name, weight in weights if requests.get(name) or name in stands]
        self._names = [name for name, _ in weighed]
        self._weight = np.array([weight for _, weight in weighed], dtype=np.float64)
        self._asked = np.array([requests.get(name, 0) for name in self._names], dtype=np.int64)
        self._devices = [stands.get(name) for name in self._names]
        self._claims = workload.claims
        self._dialect = workload.dialect

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes from 0 to 100."""
        del fit
        scores = np.zeros(rows.shape[0], dtype=np.float64)
        nodes, devices = state.nodes, state.matrix(self._dialect)
        # Transposed, because the amounts of one resource are contiguous.
        binpack_nodes(
            nodes.allocatable.T,
            nodes.used.T,
            devices.columns,
            self._resources(nodes, devices),
            bounded_demand(self._claims, devices),
            rows,
            scores,
        )
        return scores

    def _resources(self, nodes: NodeTable, devices: DeviceMatrix) -> WeighedResources:
        columns = nodes.resources.columns
        return WeighedResources(
            weight=self._weight,
            column=np.array([columns.get(name, NO_LINE) for name in self._names], dtype=np.int64),
            asked=self._asked,
            vendor=np.array(
                [devices.vendor_number(d.vendor) if d else NO_VENDOR for d in self._devices], dtype=np.int32
            ),
            dimension=np.array([d.dimension if d else 0 for d in self._devices], dtype=np.int64),
            percent=np.array([d.percent if d else False for d in self._devices], dtype=np.bool_),
        )
