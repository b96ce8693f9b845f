"""The interface of filters that read more than a single node, or objects that the pod refers to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates.reasons import Reason, RejectionCodes
from vgpu_scheduler.state import State


class FilterError(Exception):
    """A filter cannot be evaluated, for example because an object is missing; the attempt fails and is retried."""


class ClusterFilter(ABC):
    """A filter for all pods with the same plugin key; it reads the current state at each evaluation."""

    @property
    @abstractmethod
    def rejections(self) -> RejectionCodes:
        """The rejections that the codes of :meth:`evaluate` stand for."""

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return why no node can take the pod now (PreFilter); None, the default, to try the nodes."""
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
            Live rows that passed all earlier filters; shape (n,).

        Returns
        -------
        NDArray[int32], shape (n,), or None
            0 where the pod fits; else a code of ``rejections``. None if it fits everywhere.

        Raises
        ------
        FilterError
            If the filter cannot be evaluated.
        """

    @abstractmethod
    def equivalence(self, pod: Pod) -> Hashable:
        """Return the properties of a pod that the answers depend on in the current state.

        Pods of this filter with equal values get the same answers.
        """

    def close(self) -> None:  # noqa: B027
        """Release the resources of this filter, by default none; it must not be used afterwards."""


@dataclass(frozen=True, slots=True)
class ClusterPlugin:
    """The filter side of a kube-scheduler plugin that reads more than a single node.

    Attributes
    ----------
    name
        The plugin's name in kube-scheduler.
    key
        Returns the key of a pod: pods with equal keys share one filter. None if the plugin does not concern the pod.
    make
        Makes the filter of a pod with a key.
    """

    name: str
    key: Callable[[Pod, State], Hashable | None]
    make: Callable[[Pod, State], ClusterFilter]
