"""Volcano's binpack (D1): the node that is fullest once the pod is there."""

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
    """What the arguments of a plugin come to that packs nodes by resources.

    Attributes
    ----------
    weight
        The global weight: any integer; 0 switches the scorer off, below 0 the order is inverted.
    weights
        Weight per resource, sorted by name; ``cpu`` and ``memory`` are among them.
    warnings
        What was given and is not followed, for the status of the policy.
    """

    weight: int
    weights: Weights
    warnings: tuple[str, ...] = ()


ReadBinpackArguments = Callable[[Mapping[str, object]], BinpackArguments]
"""Reads such arguments as they stand in the plugin's own configuration; what it cannot read becomes a warning."""


@dataclass(frozen=True, slots=True)
class BinpackScorer:
    """100 x the weighted mean, over the resources that the pod requests, of (used + requested) / capacity.

    Every rule is Volcano's: a resource without a weight is left out; one that the node lacks, or whose
    weight is 0, adds nothing; one that would overflow makes the whole node 0. Volcano's global weight is the weight of
    the scorer in its policy.

    A resource is counted on the node where the node offers it. Where it does not, and the resource stands for amounts
    of devices (``ScoredPod.resources``), it is counted over the node's devices of that vendor, healthy or not: what
    they have, what is used of them, and what the pod takes of them at its peak (number of devices x amount per device).
    A claim in percent takes that percent of the node's average card. A resource that is counted in percent has 100 per
    card, and a claim's amount is brought to percent of the average card; all are cut to whole percent.

    Attributes
    ----------
    weights
        Weight per resource, 0 or more; ``cpu`` and ``memory`` are always there and weigh 1 unless given. Whatever is
        passed is kept sorted by name, so that equal weights are equal scorers.

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
        """Return the scores as they are: they lie between 0 and 100 and more is better."""
        return raw


class CompiledBinpack(CompiledScorer):
    """The weighted resources that one pod requests.

    Parameters
    ----------
    weights
        Weight per resource.
    workload
        The pod; it takes one of the ``pods`` that a node may run.
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
        # The lines of the node table, not its columns: those are contiguous.
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
