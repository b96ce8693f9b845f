"""Kubernetes' own PodGroups, which ``spec.schedulingGroup`` of a pod names.

They are of Kubernetes 1.36 (``scheduling.k8s.io/v1alpha2``, behind the feature gate GenericWorkload) and 1.37
(``v1beta1``); see https://github.com/kubernetes/api, ``scheduling/v1alpha2/types.go`` (v0.36.3) and
``scheduling/v1beta1/types.go`` (v0.37.2). An API server without the gate drops the field of the pod: one that names a
group is never placed without it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from vgpu_scheduler.groups.pod_group import PodGroupKind
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership
from vgpu_scheduler.kube import Pod, decode_native_pod_group

__all__ = ["NATIVE"]

_SOURCE: Final = "kubernetes"
_API_GROUP: Final = "scheduling.k8s.io"
_FIELD: Final = "spec.schedulingGroup.podGroupName"


def _kind(version: str, condition: str) -> PodGroupKind:
    name = f"PodGroup.{version}.{_API_GROUP}"
    path = f"/apis/{_API_GROUP}/{version}/podgroups"
    return PodGroupKind(name, path, partial(decode_native_pod_group, name, condition), condition)


def _membership(pod: Pod) -> Membership | None:
    return Membership(GroupKey(_SOURCE, pod.namespace, pod.pod_group), f"field {_FIELD}") if pod.pod_group else None


NATIVE: Final = GroupSource(
    _SOURCE,
    _membership,
    (_kind("v1beta1", "PodGroupInitiallyScheduled"), _kind("v1alpha2", "PodGroupScheduled")),
    needs_object=True,
)
