"""Topology constraints of pod groups, and ranks of their pods, from annotations and labels of pods.

Kueue's annotations may be on pods of any group (https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling,
v0.14). If Kueue assigns nodes itself, it pins the pods by node selectors, which have the same effect.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups.source import number_in
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import TopologyConstraint

REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"

_JOBS: Final = ("jobset.sigs.k8s.io/job-global-index", "leaderworkerset.sigs.k8s.io/group-index")
"""Labels with the index of a part of a group; within each part pods have their own indexes."""
_PODS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)
"""Labels with the index of a pod in a group or a part of it, as written by Job, LeaderWorkerSet, Kubeflow's Training
Operator, StatefulSet and Kueue."""


def topology(pod: Pod) -> tuple[TopologyConstraint, ...]:
    """Return the topology constraints in the annotations of a pod."""
    return tuple(
        TopologyConstraint(key, required, f"annotation {annotation}")
        for annotation, required in ((REQUIRED_TOPOLOGY, True), (PREFERRED_TOPOLOGY, False))
        if (key := pod.annotations.get(annotation))
    )


def rank(pod: Pod) -> tuple[int, int] | None:
    """Return the rank of a pod in its group, None if unknown; pods with adjacent ranks exchange the most data."""
    number = _number(pod, _PODS)
    return None if number is None else (_number(pod, _JOBS) or 0, number)


def _number(pod: Pod, keys: tuple[str, ...]) -> int | None:
    texts = (pod.labels.get(key) or pod.annotations.get(key, "") for key in keys)
    return next((number for number in map(number_in, texts) if number is not None), None)
