"""What a class asks of more than one node: kube-scheduler's cluster-wide filters for one pod."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.pod_plugins import PodPlugins
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import CLUSTER_PLUGINS, ClusterFilter, FilterError, Reason, Rejections
from vgpu_scheduler.state import State


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """The filters of a pod that look beyond a single node.

    They hold small values, and are evaluated per decision from what events keep.

    Attributes
    ----------
    filters
        At least one, in kube-scheduler's order; pods that ask the same share them.
    """

    filters: tuple[ClusterFilter, ...]

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return why no node need be tried for the pod now; None if they are to be tried."""
        return next((reason for each in self.filters if (reason := each.pre_filter(pod)) is not None), None)

    def equivalence(self, pod: Pod) -> Hashable:
        """Return what of the pod, as things stand, the answers depend on; equal for pods that get the same."""
        return tuple((each, each.equivalence(pod)) for each in self.filters)

    def lets(self, pod: Pod, row: int) -> bool:
        """Tell whether the pod may go to a node, as far as these filters know; not where one cannot tell."""
        rows = np.array([row], dtype=np.int64)
        try:
            if self.pre_filter(pod) is not None:
                return False
            answers = (each.evaluate(pod, rows) for each in self.filters)
            return all(codes is None or codes[0] == Rejections.PASSES for codes in answers)
        except FilterError:
            return False

    def evaluate(
        self, pod: Pod, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[tuple[Rejections, NDArray[np.int64], NDArray[np.int32]]]]:
        """Filter nodes.

        Parameters
        ----------
        rows
            Rows that pass the filters of single nodes, shape (n,).

        Returns
        -------
        passing : NDArray[int64], shape (m,)
            The rows where the pod can go.
        rejected : list
            For each filter that rejects some: what its codes stand for, the rows that it was asked about, and their
            codes.
        """
        rejected = []
        for each in self.filters:
            codes = each.evaluate(pod, rows)
            if codes is not None and codes.any():
                rejected.append((each.rejections, rows, codes))
                rows = rows[codes == Rejections.PASSES]
        return rows, rejected


class ClusterParts:
    """Makes the cluster parts of pods; pods that ask the same share filters.

    Parameters
    ----------
    state
        What is known.
    """

    def __init__(self, state: State) -> None:
        self._plugins = PodPlugins(((plugin, plugin.key, plugin.make) for plugin in CLUSTER_PLUGINS), state)

    def of(self, pod: Pod) -> ClusterPart | None:
        """Return what a pod asks of more than one node; None if that is nothing."""
        found = self._plugins.of(pod)
        return ClusterPart(tuple(each for _, each in found)) if found else None
