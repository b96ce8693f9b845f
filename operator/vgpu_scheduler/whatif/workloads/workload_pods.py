"""The objects that a workload's controllers create: its pods, and what belongs to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from vgpu_scheduler.groups import membership
from vgpu_scheduler.kube import DecodeError, Object, decode_pod
from vgpu_scheduler.whatif.objects.objects import namespace_of
from vgpu_scheduler.whatif.workloads.field_reader import MOST_PODS, FieldReader


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template.

    Attributes
    ----------
    pods
        The pods as created, with numbers in place of random name suffixes.
    path
        The path of the template, with a trailing dot; empty if the workload has only one.
    """

    pods: Sequence[Object]
    path: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """The objects that a workload's controllers create.

    Attributes
    ----------
    sets
        The pods, by template.
    claims
        The volume claims of the pods.
    controllers
        The owners of the pods, with their selectors.
    groups
        The objects that describe pod groups.
    notes
        Assumptions, and differences from a cluster, as sentences without a final full stop.
    """

    sets: Sequence[PodSet]
    claims: Sequence[Object] = ()
    controllers: Sequence[Object] = ()
    groups: Sequence[Object] = ()
    notes: Sequence[str] = ()

    @property
    def pods(self) -> list[Object]:
        """All pods."""
        return list(chain.from_iterable(each.pods for each in self.sets))


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of pods: a workload, or an intermediate object such as a ReplicaSet.

    Attributes
    ----------
    home
        The namespace as pod metadata; empty if the workload does not name one.
    """

    kind: str
    name: str
    uid: str
    home: Object = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, metadata: Object, name: str = "") -> Owner:
        """Return an owner in the namespace of a workload's metadata; a missing UID is made up.

        Parameters
        ----------
        name
            The owner's name, if it is an intermediate object.
        """
        called = name or str(metadata.get("name", ""))
        uid = "" if name else metadata.get("uid")
        home = {key: metadata[key] for key in ("namespace",) if metadata.get(key)}
        return cls(kind, called, str(uid or f"{kind}-{namespace_of(metadata)}-{called}"), home)

    @property
    def namespace(self) -> str:
        """The namespace, by default ``default``."""
        return namespace_of(self.home)

    def selecting(self, selector: object) -> Object:
        """Return the owner as an object that selects its pods."""
        metadata = {**self.home, "name": self.name, "uid": self.uid}
        return {"kind": self.kind, "metadata": metadata, "spec": {"selector": selector}}


def pod_of(
    template: FieldReader,
    name: str,
    owner: Owner,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod made from a template.

    Parameters
    ----------
    labels, annotations
        What the controller adds to those of the template.

    Raises
    ------
    InvalidObjectsError
        If the template's metadata is not a mapping.
    """
    written = template.part("metadata").fields if template.has("metadata") else {}
    head: dict[str, Any] = {key: value for key, value in written.items() if key != "namespace"} | dict(owner.home)
    for key, texts in (("labels", labels), ("annotations", annotations)):
        head = with_texts(head, key, texts or {})
    reference = {"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}
    head["ownerReferences"] = [reference]
    return {"kind": "Pod", "metadata": {**head, "name": name}, "spec": template.fields.get("spec")}


def with_texts(obj: Object, key: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return an object with strings added to one of its mappings, unless that is malformed."""
    there = obj.get(key) or {}
    if not texts or not isinstance(there, Mapping):
        return dict(obj)
    return {**obj, key: {**there, **texts}}


def with_container(pod: Object, field_name: str, container: Object) -> dict[str, Any]:
    """Return a pod with one more container, unless the list is malformed."""
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
    """Tell whether the pods themselves declare a group."""
    return any(_has_group(each.pods[0]) for each in sets if each.pods)


def _has_group(pod: Object) -> bool:
    spec = pod["spec"]
    group = {"schedulingGroup": spec.get("schedulingGroup")} if isinstance(spec, Mapping) else {}
    metadata = {**pod["metadata"], "uid": "written", "namespace": "default"}
    try:
        return membership(decode_pod({**pod, "metadata": metadata, "spec": {"containers": [], **group}})) is not None
    except DecodeError:
        return True  # the pod is refused later


def checked_number(part: FieldReader, number: int, before: int = 0) -> int:
    """Return the total number of pods so far, unless it exceeds the limit.

    Raises
    ------
    InvalidObjectsError
        If it does.
    """
    if before + number > MOST_PODS:
        raise part.error("replicas", f": that makes more than {MOST_PODS} pods")
    return before + number


def is_suspended(spec: FieldReader) -> list[str]:
    """Return the note about a suspended workload; empty if it is not suspended."""
    if not spec.is_true("suspend"):
        return []
    return [f"{spec.path}suspend is true: it has no pods before it is resumed; here they are placed"]
