"""What annotations of pods say of how near to each other the pods of a group are placed, and in which order.

Kueue's annotations are on the pods of whichever group (https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling,
v0.14). Where Kueue assigns nodes itself it pins the pods by node selectors, which say the same.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups.source import number_in
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import TopologyConstraint

__all__ = ["PREFERRED_TOPOLOGY", "REQUIRED_TOPOLOGY", "rank", "topology"]

REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"

_JOBS: Final = ("jobset.sigs.k8s.io/job-global-index", "leaderworkerset.sigs.k8s.io/group-index")
"""What numbers the parts of a group, each of which numbers its pods."""
_PODS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)
"""What numbers the pods of a group, or of a part of it, as Job, LeaderWorkerSet, Kubeflow's Training Operator,
StatefulSet and Kueue write it."""


def topology(pod: Pod) -> tuple[TopologyConstraint, ...]:
    """Return what a pod says of how near to the others of its group it is placed."""
    return tuple(
        TopologyConstraint(key, required, f"annotation {annotation}")
        for annotation, required in ((REQUIRED_TOPOLOGY, True), (PREFERRED_TOPOLOGY, False))
        if (key := pod.annotations.get(annotation))
    )


def rank(pod: Pod) -> tuple[int, int] | None:
    """Return which pod of its group a pod is: neighbours in that order exchange most data; None if it does not say."""
    number = _number(pod, _PODS)
    return None if number is None else (_number(pod, _JOBS) or 0, number)


def _number(pod: Pod, keys: tuple[str, ...]) -> int | None:
    texts = (pod.labels.get(key) or pod.annotations.get(key, "") for key in keys)
    return next((number for number in map(number_in, texts) if number is not None), None)
