"""Volcano's PodGroups, as LeaderWorkerSet and others write them for pods that some other scheduler places.

An annotation of the pod names a PodGroup, whose ``minMember`` says how many pods have to be placed
(https://github.com/volcano-sh/apis, ``pkg/apis/scheduling/v1beta1/types.go``, v1.13). Nothing is written to it: pods of
Volcano's own jobs are made only when Volcano's scheduler sets its phase.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups.pod_group import pod_group_kind
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, first_value
from vgpu_scheduler.kube import Pod

__all__ = ["VOLCANO"]

_SOURCE: Final = "volcano"
_NAMES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


def _membership(pod: Pod) -> Membership | None:
    annotation, name = first_value(pod.annotations, _NAMES)
    return Membership(GroupKey(_SOURCE, pod.namespace, name), f"annotation {annotation}") if name else None


VOLCANO: Final = GroupSource(_SOURCE, _membership, (pod_group_kind("scheduling.volcano.sh", "v1beta1"),))
