"""What the controllers of a workload make: its pods, and what comes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from vgpu_scheduler.groups import membership
from vgpu_scheduler.kube import DecodeError, Object, decode_pod
from vgpu_scheduler.whatif.workloads.field_reader import MOST_PODS, FieldReader

__all__ = [
    "GROUP_LABEL",
    "Owner",
    "PodSet",
    "WorkloadPods",
    "checked_number",
    "is_suspended",
    "pod_group",
    "pod_of",
    "says_group",
    "with_container",
    "with_texts",
]

GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label of the coscheduling plugin, whose PodGroups several controllers make."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template.

    Attributes
    ----------
    pods
        As they are created; of random ends of their names there is a number instead.
    path
        Where the template is, with a dot at its end; empty where the workload has one template only.
    """

    pods: Sequence[Object]
    path: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """What the controllers of a workload make.

    Attributes
    ----------
    sets
        Its pods, by template.
    claims
        The claims that are made for its pods.
    controllers
        What owns the pods, and selects them.
    groups
        The objects that describe groups of its pods.
    notes
        What is assumed, and what differs from a cluster, in sentences without an end.
    """

    sets: Sequence[PodSet]
    claims: Sequence[Object] = ()
    controllers: Sequence[Object] = ()
    groups: Sequence[Object] = ()
    notes: Sequence[str] = ()

    @property
    def pods(self) -> list[Object]:
        """All its pods."""
        return list(chain.from_iterable(each.pods for each in self.sets))


@dataclass(frozen=True, slots=True)
class Owner:
    """What owns pods: a workload, or what its controller makes between.

    Attributes
    ----------
    home
        Its namespace, as the metadata of its pods says it; nothing where it says none.
    """

    kind: str
    name: str
    uid: str
    home: Object = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, metadata: Object, name: str = "") -> Owner:
        """Return what owns pods by the metadata of the workload, which need not have a UID.

        Parameters
        ----------
        name
            Its name, where its controller makes it for the workload.
        """
        called = name or str(metadata.get("name", ""))
        uid = "" if name else metadata.get("uid")
        home = {key: metadata[key] for key in ("namespace",) if key in metadata}
        return cls(kind, called, str(uid or f"{kind}-{metadata.get('namespace', 'default')}-{called}"), home)

    @property
    def namespace(self) -> str:
        """The namespace, if need be the one that objects without any are in."""
        return str(self.home.get("namespace", "default"))

    def selecting(self, selector: object) -> Object:
        """Return it as an object that selects its pods."""
        metadata = {**self.home, "name": self.name, "uid": self.uid}
        return {"kind": self.kind, "metadata": metadata, "spec": {"selector": selector}}


def pod_of(
    template: FieldReader,
    name: str,
    owner: Owner,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod of a template.

    Parameters
    ----------
    labels, annotations
        What its controller adds to those of the template.

    Raises
    ------
    WorldError
        If the metadata of the template are no mapping.
    """
    head: dict[str, Any] = dict(owner.home)
    if template.has("metadata"):
        head |= template.part("metadata").fields
    for key, texts in (("labels", labels), ("annotations", annotations)):
        head = with_texts(head, key, texts or {})
    reference = {"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}
    head["ownerReferences"] = [reference]
    return {"kind": "Pod", "metadata": {**head, "name": name}, "spec": template.fields.get("spec")}


def with_texts(obj: Object, key: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return an object with more texts in one of its mappings, unless that is malformed."""
    there = obj.get(key) or {}
    if not texts or not isinstance(there, Mapping):
        return dict(obj)
    return {**obj, key: {**there, **texts}}


def with_container(pod: Object, field_name: str, container: Object) -> dict[str, Any]:
    """Return a pod with one more container, unless what is there is malformed."""
    spec = pod["spec"]
    there = spec.get(field_name) or [] if isinstance(spec, Mapping) else None
    if not isinstance(there, list):
        return dict(pod)
    return {**pod, "spec": {**spec, field_name: [*there, container]}}


def pod_group(api_version: str, name: str, home: Object, minimum: int) -> Object:
    """Return an object that describes a group."""
    head = {"apiVersion": api_version, "kind": "PodGroup", "metadata": {**home, "name": name}}
    return {**head, "spec": {"minMember": minimum}}


def says_group(sets: Sequence[PodSet]) -> bool:
    """Tell whether the pods say by themselves that they belong to a group."""
    return any(_has_group(each.pods[0]) for each in sets if each.pods)


def _has_group(pod: Object) -> bool:
    spec = pod["spec"]
    group = {"schedulingGroup": spec.get("schedulingGroup")} if isinstance(spec, Mapping) else {}
    metadata = {**pod["metadata"], "uid": "written", "namespace": "default"}
    try:
        return membership(decode_pod({**pod, "metadata": metadata, "spec": {"containers": [], **group}})) is not None
    except DecodeError:
        return True  # it is refused when it is read


def checked_number(part: FieldReader, field_name: str, number: int, before: int = 0) -> int:
    """Return how many pods there are with those before, unless these are too many.

    Raises
    ------
    WorldError
        If they are.
    """
    if before + number > MOST_PODS:
        raise part.error(field_name, f": that makes more than {MOST_PODS} pods")
    return before + number


def is_suspended(spec: FieldReader, field_name: str = "suspend") -> list[str]:
    """Return the note about a workload that is suspended; none if it is not."""
    if not spec.is_true(field_name):
        return []
    return [f"{spec.path}{field_name} is true: there are no pods of it before it is resumed; here there are"]
