"""Topology spread constraints, compiled once and matched often.

The rules are those of kube-scheduler's PodTopologySpread.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from vgpu_scheduler.kube.selectors import LabelSelector, compile_each, compile_label_selector, same_labels
from vgpu_scheduler.kube.wire import WireSpread

__all__ = ["SpreadConstraint", "compile_spread"]

_HONOR: Final = "Honor"
_DO_NOT_SCHEDULE: Final = "DoNotSchedule"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """How evenly the pods of a namespace that a selector selects are to lie on the values of a node label.

    Attributes
    ----------
    topology_key
        The node label; each of its values is a domain.
    max_skew
        By how many pods a domain may be ahead of the one with the fewest.
    labels
        What labels the pods have; None selects none.
    hard
        Whether nodes are forbidden; a soft constraint only ranks them.
    min_domains
        With fewer domains than this, the fewest pods of a domain are taken to be none.
    honors_affinity, honors_taints
        Whether nodes count whose labels the pod does not select, and those whose taints it does not tolerate.
    match_label_keys
        Labels of the pod that the others must have with the same value.
    """

    topology_key: str
    max_skew: int
    labels: LabelSelector | None
    hard: bool
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    match_label_keys: tuple[str, ...] = ()

    def selector(self, labels: Mapping[str, str]) -> LabelSelector | None:
        """Return which pods are counted for a pod with these labels; None for no pod at all."""
        if self.labels is None:
            return None
        own = same_labels(labels, self.match_label_keys)
        return LabelSelector((*self.labels.requirements, *own)) if own else self.labels


def compile_spread(constraints: Sequence[WireSpread]) -> tuple[tuple[SpreadConstraint, ...], str]:
    """Compile the topology spread constraints of a pod; see :func:`compile_each`."""
    return compile_each(constraints, _compile, "spec.topologySpreadConstraints[{}].labelSelector")


def _compile(wire: WireSpread) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=wire.topology_key,
        max_skew=wire.max_skew,
        labels=compile_label_selector(wire.label_selector),
        hard=wire.when_unsatisfiable == _DO_NOT_SCHEDULE,
        min_domains=1 if wire.min_domains is None else wire.min_domains,
        honors_affinity=(wire.node_affinity_policy or _HONOR) == _HONOR,
        honors_taints=wire.node_taints_policy == _HONOR,
        match_label_keys=tuple(wire.match_label_keys or ()),
    )
