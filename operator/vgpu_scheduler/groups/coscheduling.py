"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins; KubeRay and Kubeflow Trainer write for it.

A label of the pod names a PodGroup, whose ``minMember`` says how many pods have to be placed
(https://github.com/kubernetes-sigs/scheduler-plugins, ``apis/scheduling/v1alpha1/types.go``, v0.31). Its
``scheduleTimeoutSeconds`` bounds how long pods of an incomplete group keep room while they wait: here they keep none.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups.pod_group import pod_group_kind
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, first_value, read_minimum
from vgpu_scheduler.kube import Pod

__all__ = ["COSCHEDULING", "COSCHEDULING_BEFORE"]

_NOW: Final = "coscheduling"
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_KIND: Final = pod_group_kind("scheduling.x-k8s.io", "v1alpha1")

_BEFORE: Final = "coscheduling-before"
_LABELS_BEFORE: Final = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")
_MINIMUM_BEFORE: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_KIND_BEFORE: Final = pod_group_kind("scheduling.sigs.k8s.io", "v1alpha1")


def _membership(pod: Pod) -> Membership | None:
    name = pod.labels.get(_LABEL)
    return Membership(GroupKey(_NOW, pod.namespace, name), f"label {_LABEL}") if name else None


def _membership_before(pod: Pod) -> Membership | None:
    label, name = first_value(pod.labels, _LABELS_BEFORE)
    if not name:
        return None
    key, text = GroupKey(_BEFORE, pod.namespace, name), pod.labels.get(_MINIMUM_BEFORE)
    if text is None:
        return Membership(key, f"label {label}")
    return Membership(key, f"label {label}", *read_minimum(text, f"label {_MINIMUM_BEFORE}"))


COSCHEDULING: Final = GroupSource(_NOW, _membership, (_KIND,))
"""As it is now."""
COSCHEDULING_BEFORE: Final = GroupSource(_BEFORE, _membership_before, (_KIND_BEFORE, _KIND))
"""As it was until v0.24, and as Koordinator reads it still; some clusters keep the labels beside newer objects."""
