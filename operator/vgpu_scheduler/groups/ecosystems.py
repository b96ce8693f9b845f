"""The sources of pod groups, one per ecosystem; the first one that finds a group for a pod counts.

Each source reads the labels, annotations or a field of a pod and, if the ecosystem has one, the group's object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, PodGroupKind, number_in
from vgpu_scheduler.kube import VOLCANO_GROUP_ANNOTATIONS, ApiResource, Pod, decode_native_pod_group, decode_pod_group
from vgpu_scheduler.model import quoted


def _first_value(values: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str, str]:
    """Return the first of some keys with a non-empty value, and the value; two empty texts if there is none."""
    for key in keys:
        if value := values.get(key):
            return key, value
    return "", ""


def _read_minimum(text: str, field: str) -> tuple[int, str]:
    """Parse a number of pods; return it and the problem of an invalid text, naming the field, else an empty text.

    The number is 1 if the text is invalid.
    """
    number = number_in(text)
    if number:
        return number, ""
    return 1, f"{field}: {quoted(text)} is not a number of pods: it must be a whole number from 1 on"


def _pod_group_kind(api_version: str) -> PodGroupKind:
    """Return the kind ``PodGroup`` of an API version, with the needed number of pods in ``spec.minMember``."""
    resource = _pod_groups(*api_version.split("/"))
    name = f"PodGroup.{resource.group}"
    return PodGroupKind(name, resource, partial(decode_pod_group, name))


def _pod_groups(group: str, version: str) -> ApiResource:
    return ApiResource("PodGroup", group, version, "podgroups", namespaced=True)


_NATIVE_API_GROUP: Final = "scheduling.k8s.io"
_NATIVE_FIELD: Final = "spec.schedulingGroup.podGroupName"


def _native_kind(version: str, condition: str) -> PodGroupKind:
    name = f"PodGroup.{version}.{_NATIVE_API_GROUP}"
    resource = _pod_groups(_NATIVE_API_GROUP, version)
    return PodGroupKind(name, resource, partial(decode_native_pod_group, name, condition), condition)


def _in_native(pod: Pod) -> Membership | None:
    return (
        Membership(GroupKey("kubernetes", pod.namespace, pod.pod_group), f"field {_NATIVE_FIELD}")
        if pod.pod_group
        else None
    )


NATIVE: Final = GroupSource(
    "kubernetes",
    _in_native,
    (_native_kind("v1beta1", "PodGroupInitiallyScheduled"), _native_kind("v1alpha2", "PodGroupScheduled")),
    needs_object=True,
)
"""Kubernetes' own PodGroups, named by ``spec.schedulingGroup`` of pods.

They are of Kubernetes 1.36 (``scheduling.k8s.io/v1alpha2``, behind the feature gate GenericWorkload) and 1.37
(``v1beta1``); see https://github.com/kubernetes/api, ``scheduling/v1alpha2/types.go`` (v0.36.3) and
``scheduling/v1beta1/types.go`` (v0.37.2). An API server without the gate drops the field, so a pod that has the field
is never placed without its PodGroup.
"""


COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The coscheduling plugin's label; several controllers create its PodGroups."""
COSCHEDULING_API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"
_COSCHEDULING_KIND: Final = _pod_group_kind(COSCHEDULING_API_VERSION)

_BEFORE_LABELS: Final = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")
_BEFORE_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_BEFORE_KIND: Final = _pod_group_kind("scheduling.sigs.k8s.io/v1alpha1")


def _in_coscheduling(pod: Pod) -> Membership | None:
    name = pod.labels.get(COSCHEDULING_LABEL)
    return Membership(GroupKey("coscheduling", pod.namespace, name), f"label {COSCHEDULING_LABEL}") if name else None


def _in_coscheduling_before(pod: Pod) -> Membership | None:
    label, name = _first_value(pod.labels, _BEFORE_LABELS)
    if not name:
        return None
    key, text = GroupKey("coscheduling-before", pod.namespace, name), pod.labels.get(_BEFORE_MINIMUM)
    if text is None:
        return Membership(key, f"label {label}")
    return Membership(key, f"label {label}", *_read_minimum(text, f"label {_BEFORE_MINIMUM}"))


COSCHEDULING: Final = GroupSource("coscheduling", _in_coscheduling, (_COSCHEDULING_KIND,))
"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins; KubeRay and Kubeflow Trainer write for it.

A label of the pod names a PodGroup with the needed number of pods in ``minMember``
(https://github.com/kubernetes-sigs/scheduler-plugins, ``apis/scheduling/v1alpha1/types.go``, v0.31). Its
``scheduleTimeoutSeconds`` limits how long pods of an incomplete group keep room while they wait: here they keep none.
"""
COSCHEDULING_BEFORE: Final = GroupSource(
    "coscheduling-before", _in_coscheduling_before, (_BEFORE_KIND, _COSCHEDULING_KIND)
)
"""The labels of the coscheduling plugin until v0.24, which Koordinator still reads; some clusters use them together
with newer objects.
"""


_GANG: Final = "gang.scheduling.koordinator.sh/name"
_GANG_MINIMUM: Final = "gang.scheduling.koordinator.sh/min-available"


def _in_koordinator(pod: Pod) -> Membership | None:
    name = pod.annotations.get(_GANG)
    if not name:
        return None
    minimum, problem = _read_minimum(pod.annotations.get(_GANG_MINIMUM, ""), f"annotation {_GANG_MINIMUM}")
    return Membership(GroupKey("koordinator", pod.namespace, name), f"annotation {_GANG}", minimum, problem)


KOORDINATOR: Final = GroupSource("koordinator", _in_koordinator)
"""Koordinator's gangs, defined by pod annotations without an object.

See https://koordinator.sh/docs/user-manuals/gang-scheduling (v1.6). Its ``total-number``, ``mode`` and ``waiting-time``
concern pods that keep room while they wait for others: here none is kept, and an incomplete gang waits.
"""


_KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
_KUEUE_FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"


def _in_kueue(pod: Pod) -> Membership | None:
    name = pod.labels.get(_KUEUE_GROUP)
    if not name or pod.annotations.get(_KUEUE_FAST) == "true":
        return None
    minimum, problem = _read_minimum(pod.annotations.get(_KUEUE_TOTAL, ""), f"annotation {_KUEUE_TOTAL}")
    return Membership(GroupKey("kueue", pod.namespace, name), f"label {_KUEUE_GROUP}", minimum, problem)


KUEUE: Final = GroupSource("kueue", _in_kueue)
"""Kueue's groups of plain pods: it removes their scheduling gates together, and they have to run together.

See https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods (v0.14). If a group is admitted with its first pod
(``pod-group-fast-admission``), the other pods may come much later, so each of its pods is placed by itself.
"""


def _in_volcano(pod: Pod) -> Membership | None:
    annotation, name = _first_value(pod.annotations, VOLCANO_GROUP_ANNOTATIONS)
    return Membership(GroupKey("volcano", pod.namespace, name), f"annotation {annotation}") if name else None


VOLCANO_API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
VOLCANO: Final = GroupSource("volcano", _in_volcano, (_pod_group_kind(VOLCANO_API_VERSION),))
"""Volcano's PodGroups, as LeaderWorkerSet and others create them for pods that another scheduler places.

An annotation of the pod names a PodGroup with the needed number of pods in ``minMember``
(https://github.com/volcano-sh/apis, ``pkg/apis/scheduling/v1beta1/types.go``, v1.13). Nothing is written to it: pods of
Volcano's own jobs are created only when Volcano's scheduler sets its phase.
"""


GROUP_SOURCES: tuple[GroupSource, ...] = (NATIVE, COSCHEDULING, COSCHEDULING_BEFORE, KOORDINATOR, KUEUE, VOLCANO)
"""All sources. A pod belongs to the group that the first of them finds."""
POD_GROUP_KINDS: tuple[PodGroupKind, ...] = tuple(
    dict.fromkeys(kind for source in GROUP_SOURCES for kind in source.kinds)
)
"""The kinds of PodGroup objects."""


def pod_group_kind(api_version: str) -> PodGroupKind | None:
    """Return the kind of the objects ``PodGroup`` of an API version; None if no ecosystem defines it."""
    name = f"PodGroup.{api_version.partition('/')[0]}"
    kinds = (kind for kind in POD_GROUP_KINDS if api_version == kind.resource.api_version or name == kind.name)
    return next(kinds, None)


def membership(pod: Pod) -> Membership | None:
    """Return the group membership of a pod; None if it belongs to no group."""
    for source in GROUP_SOURCES:
        if found := source.membership(pod):
            return found
    return None


POD_LABELS: Final = (COSCHEDULING_LABEL, *_BEFORE_LABELS, _BEFORE_MINIMUM, _KUEUE_GROUP)
"""The labels that assign a pod to its group."""
POD_ANNOTATIONS: Final = (_GANG, _GANG_MINIMUM, _KUEUE_TOTAL, _KUEUE_FAST, *VOLCANO_GROUP_ANNOTATIONS)
"""The annotations that assign a pod to its group."""
