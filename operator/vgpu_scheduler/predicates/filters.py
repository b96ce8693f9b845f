"""What a filter is that looks beyond a single node, or at objects of the pod's own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates.reasons import Reason, RejectionCodes
from vgpu_scheduler.state import State

__all__ = ["ClusterFilter", "ClusterPlugin", "FilterError"]


class FilterError(Exception):
    """A filter cannot be evaluated, such as for an object that should exist; the attempt fails and is made again."""


class ClusterFilter(ABC):
    """A filter for pods that ask the same of the cluster; its answers follow every later change of the state."""

    @property
    @abstractmethod
    def rejections(self) -> RejectionCodes:
        """What the codes of :meth:`evaluate` stand for."""

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return why no node need be tried for a pod now, whatever the nodes are; None, as here, if they are to be."""
        del pod
        return None

    @abstractmethod
    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes.

        Parameters
        ----------
        pod
            One of the pods.
        rows
            Live rows that all filters before this one let pass; shape (n,).

        Returns
        -------
        NDArray[int32], shape (n,), or None
            0 where the pod can go; else a code of ``rejections``. None if it can go everywhere.

        Raises
        ------
        FilterError
            If that cannot be told.
        """

    @abstractmethod
    def equivalence(self, pod: Pod) -> Hashable:
        """Return what of one of the pods, as things stand, its answers depend on.

        Pods with this filter for which it is equal get the same answers.
        """

    def close(self) -> None:  # noqa: B027
        """Give back what is kept for this filter alone, here nothing; it is not used any more."""


@dataclass(frozen=True, slots=True)
class ClusterPlugin:
    """One of kube-scheduler's plugins, as far as it filters by more than a single node.

    Attributes
    ----------
    name
        As kube-scheduler has it.
    key
        Returns what of a pod its filter depends on: pods with equal keys share one filter. None for a pod that the
        plugin has nothing to say about.
    make
        Makes the filter of a pod with a key.
    """

    name: str
    key: Callable[[Pod, State], Hashable | None]
    make: Callable[[Pod, State], ClusterFilter]
