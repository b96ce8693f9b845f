"""What a class asks of more than one node: kube-scheduler's cluster-wide filters for one pod."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache
from vgpu_scheduler.predicates import CLUSTER_PLUGINS, ClusterFilter, FilterError, Reason, Rejections
from vgpu_scheduler.state import State

__all__ = ["ClusterPart", "ClusterParts", "PodPlugins"]


_MOST_BYTES: Final = 8 * 2**20
"""What is made of each plugin may take."""
_MADE: Final = 16 * 2**10
"""What one takes beside the terms of its pod, which is about eight bytes per node and term."""


class Closing(Protocol):
    """What a plugin makes."""

    def close(self) -> None:
        """Give back what is kept for this one alone."""


_Plugin = TypeVar("_Plugin")
_Made = TypeVar("_Made", bound=Closing)
_Entry = tuple[_Plugin, Callable[[Pod, State], Hashable | None], Callable[[Pod, State], _Made]]


class PodPlugins(Generic[_Plugin, _Made]):
    """Some plugins, and what was made of each for the pods that were asked about last.

    Parameters
    ----------
    plugins
        Each plugin with what says on what of a pod its answers depend (None where it has nothing to say about the pod
        now), and with what makes them.
    state
        What is known.
    """

    def __init__(self, plugins: Iterable[_Entry[_Plugin, _Made]], state: State) -> None:
        self._state = state
        self._plugins = [(*entry, BoundedCache[Hashable, _Made](_MOST_BYTES, forgotten=_close)) for entry in plugins]

    def of(self, pod: Pod) -> list[tuple[_Plugin, _Made]]:
        """Return the plugins that have something to say about a pod now, each with what answers for it."""
        found = []
        for plugin, key_of, make, remembered in self._plugins:
            key = key_of(pod, self._state)
            if key is None:
                continue
            made = remembered.get(key)
            if made is None:
                made = make(pod, self._state)
                remembered.put(key, made, pod.spec.size + _MADE)
            found.append((plugin, made))
        return found


def _close(unused: Closing) -> None:
    unused.close()


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
