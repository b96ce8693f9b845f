"""Koordinator's DeviceShare (D4): prefers nodes whose devices are least, or most, allocated with the pod."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns, ShareOrder, Strategy, Weights, share_terms
from vgpu_scheduler.kernels import ShareDemand, deviceshare_nodes
from vgpu_scheduler.model import PodClaims
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod, checked_weights
from vgpu_scheduler.state import DeviceMatrix, State

DOCUMENTED_SHARE_WEIGHTS: Weights = (("koordinator.sh/gpu-memory-ratio", 1),)
"""The default weights."""
KOORDINATOR_SHARE_WEIGHTS: Weights = (
    ("koordinator.sh/fpga", 1),
    ("koordinator.sh/gpu-memory", 1),
    ("koordinator.sh/gpu-memory-ratio", 1),
    ("koordinator.sh/rdma", 1),
)
"""Koordinator's own current default weights."""

_MOST = 100.0


@dataclass(frozen=True, slots=True)
class DeviceShareScorer:
    """Per device type that the pod requests, the free (or allocated) percentage of the node's devices, 0 to 100.

    The healthy devices of a node are summed up first, and one formula is applied to the sums; the scores of several
    types are added. As in Koordinator, a resource that the node's devices lack is skipped with its weight; a weighted
    resource that the pod does not request counts with its usage; divisions truncate.

    As in Koordinator, the request that is added to the usage is that of *one instance*, however many devices the pod
    requests. If several containers claim devices of one vendor, it is the largest request for one device, per
    dimension. A claim in percent counts only for resources that are counted in percent; an amount counts for all, and
    is converted to percent of the node's average card if necessary.

    Resource names that the dialect maps to devices (``ScoredPod.resources``) count; others are skipped.

    Attributes
    ----------
    weights
        Weight per resource; kept sorted by name, so that equal weights are equal scorers.

    Raises
    ------
    ValueError
        If a weight is negative or a resource is given twice.
    """

    strategy: Strategy = Strategy.LEAST_ALLOCATED
    weights: Weights = DOCUMENTED_SHARE_WEIGHTS

    name = "deviceshare"
    direction = 1.0
    ranks_plain_pods = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", checked_weights(self.weights))

    def compile(self, workload: ScoredPod) -> CompiledDeviceShare:
        """Prepare the scorer for one pod."""
        return CompiledDeviceShare(ShareOrder(self.strategy, self.weights), workload)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores capped at 100: the sum over several device types may exceed it."""
        return np.minimum(raw, _MOST)


class CompiledDeviceShare(CompiledScorer):
    """The scorer for one pod.

    Parameters
    ----------
    order
        Strategy and weights.
    workload
        The pod.
    """

    def __init__(self, order: ShareOrder, workload: ScoredPod) -> None:
        self._order = order
        self._resources = workload.resources
        self._claims = workload.claims
        self._dialect = workload.dialect

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes from 0 to 100 per device type that the pod requests."""
        del fit
        scores = np.zeros(rows.shape[0], dtype=np.float64)
        devices = state.matrix(self._dialect)
        terms = share_terms(self._order, self._resources, devices)
        deviceshare_nodes(devices.columns, terms, share_demand(self._claims, devices), rows, scores)
        return scores


def share_demand(claims: PodClaims, devices: DeviceMatrix) -> ShareDemand:
    """Return the request of one instance of a pod per vendor: the largest of its claims per dimension."""
    flat = [claim for container in claims for claim in container.claims]
    vendors = list(dict.fromkeys(claim.vendor for claim in flat))
    amounts = np.zeros((len(vendors), devices.dimensions), dtype=np.int64)
    percent = np.zeros((len(vendors), devices.dimensions), dtype=np.int64)
    for claim in flat:
        number, wide = vendors.index(claim.vendor), len(claim.amounts)
        np.maximum(amounts[number, :wide], claim.amounts, out=amounts[number, :wide])
        np.maximum(percent[number, :wide], claim.percent, out=percent[number, :wide])
    return ShareDemand(
        vendor=np.array([devices.vendor_number(vendor) for vendor in vendors], dtype=np.int32),
        amounts=amounts,
        percent=percent,
    )
