"""Topology spread constraints, compiled once and matched often.

The rules are those of kube-scheduler's PodTopologySpread.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from vgpu_scheduler.kube.selectors import LabelSelector, compile_each, compile_label_selector, same_labels
from vgpu_scheduler.kube.wire import WireSpread

_HONOR: Final = "Honor"
_DO_NOT_SCHEDULE: Final = "DoNotSchedule"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """A constraint that selected pods of a namespace are spread evenly over the values of a node label.

    Attributes
    ----------
    topology_key
        The node label; each of its values is a domain.
    max_skew
        The maximum difference between the pods of a domain and those of the domain with the fewest.
    labels
        Selects the pods; None selects none.
    hard
        Whether it filters nodes (DoNotSchedule); a soft constraint only scores them.
    min_domains
        If there are fewer domains than this, the minimum is taken as 0 pods.
    honors_affinity, honors_taints
        Whether to leave out nodes that the pod's node affinity does not select, and those with untolerated taints.
    match_label_keys
        Labels whose values selected pods must share with the pod.
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
        """Return the selector of the pods to count for a pod with these labels; None selects none."""
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
