"""Kueue's groups of plain pods: it opens their gates together, and they have to run together.

See https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods (v0.14). Where a group is admitted with its first pod
(``pod-group-fast-admission``) the others may come much later: each of its pods is placed by itself.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, read_minimum
from vgpu_scheduler.kube import Pod

__all__ = ["KUEUE"]

_SOURCE: Final = "kueue"
_NAME: Final = "kueue.x-k8s.io/pod-group-name"
_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
_FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"


def _membership(pod: Pod) -> Membership | None:
    name = pod.labels.get(_NAME)
    if not name or pod.annotations.get(_FAST) == "true":
        return None
    minimum, problem = read_minimum(pod.annotations.get(_TOTAL, ""), f"annotation {_TOTAL}")
    return Membership(GroupKey(_SOURCE, pod.namespace, name), f"label {_NAME}", minimum, problem)


KUEUE: Final = GroupSource(_SOURCE, _membership)
