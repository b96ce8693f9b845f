"""Features that nodes declare and pods need: kube-scheduler's NodeDeclaredFeatures for many nodes at once.

It looks at single nodes only, and is here because it comes last: a node that another filter rejects, too, is reported
with that filter's reason.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates.filters import ClusterPlugin
from vgpu_scheduler.predicates.lookups import ValueLookup
from vgpu_scheduler.predicates.reasons import FEATURES, Reason, Rejections
from vgpu_scheduler.state import State

__all__ = ["NODE_DECLARED_FEATURES_PLUGIN", "FeaturesFilter"]

_UNDECLARED: Final = 1


def _key(pod: Pod, state: State) -> Hashable | None:
    del state
    return pod.spec.required_features or None


class FeaturesFilter:
    """The features that pods cannot run without; where a node declares none of them, they wait.

    Parameters
    ----------
    pod
        One of the pods; the features that it needs matter.
    state
        What is known.
    """

    rejections: Final = Rejections((FEATURES,))

    def __init__(self, pod: Pod, state: State) -> None:
        self._state = state
        self._lookup: ValueLookup[tuple[str, ...]] = ValueLookup(
            absent=False, accepts=frozenset(pod.spec.required_features).issubset
        )

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return None: nodes are always to be tried."""
        del pod
        return None

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        del pod
        lacks: NDArray[np.bool_] = ~self._lookup(self._state.nodes.features, rows)
        return lacks * np.int32(_UNDECLARED)

    def equivalence(self, pod: Pod) -> Hashable:
        """Return None: all of the pods get the same answers."""
        del pod
        return None

    def close(self) -> None:
        """Do nothing: nothing is kept for the filter alone."""


NODE_DECLARED_FEATURES_PLUGIN: Final = ClusterPlugin("NodeDeclaredFeatures", _key, FeaturesFilter)
