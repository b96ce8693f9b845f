"""Kubernetes' own workloads: Deployment, ReplicaSet, StatefulSet and Job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError
from vgpu_scheduler.whatif.workloads.field_reader import FieldReader, workload
from vgpu_scheduler.whatif.workloads.workload_pods import Owner, PodSet, WorkloadPods, is_suspended, pod_of, with_texts

_HASH: Final = {"pod-template-hash": "new"}
"""The pod template hash of a Deployment's new ReplicaSet."""
_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def read_deployment(obj: Object) -> WorkloadPods:
    """Read a Deployment; its pods are owned by a new ReplicaSet.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    metadata, spec = written.part("metadata").fields, written.part("spec")
    own, selector = Owner.of("Deployment", metadata), spec.fields.get("selector")
    owner = Owner("ReplicaSet", f"{own.name}-{_HASH['pod-template-hash']}", f"{own.uid}-new", own.home)
    if isinstance(selector, Mapping):
        selector = with_texts(selector, "matchLabels", _HASH)
    template = spec.part("template")
    pods = [pod_of(template, f"{own.name}-{n}", owner, _HASH) for n in range(spec.number("replicas", 1))]
    return WorkloadPods([PodSet(pods)], controllers=[owner.selecting(selector)])


def read_replica_set(obj: Object) -> WorkloadPods:
    """Read a ReplicaSet.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    spec, owner = written.part("spec"), Owner.of("ReplicaSet", written.part("metadata").fields)
    template = spec.part("template")
    pods = [pod_of(template, f"{owner.name}-{n}", owner) for n in range(spec.number("replicas", 1))]
    return WorkloadPods([PodSet(pods)], controllers=[owner.selecting(spec.fields.get("selector"))])


def read_stateful_set(obj: Object) -> WorkloadPods:
    """Read a StatefulSet, with the volume claims of its pods.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    spec, owner = written.part("spec"), Owner.of("StatefulSet", written.part("metadata").fields)
    template, number = spec.part("template"), spec.number("replicas", 1)
    ordinals = spec.fields.get("ordinals")
    first = spec.part("ordinals").large_number("start") if isinstance(ordinals, Mapping) else 0
    claims = VolumeClaimTemplates(spec)
    names = [f"{owner.name}-{ordinal}" for ordinal in range(first, first + number)]
    pods = [claims.added(pod_of(template, name, owner), name) for name in names]
    made = [claim for name in names for claim in claims.claims(name, owner)]
    return WorkloadPods([PodSet(pods)], made, [owner.selecting(spec.fields.get("selector"))])


def read_job(obj: Object) -> WorkloadPods:
    """Read a Job.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    spec, owner = written.part("spec"), Owner.of("Job", written.part("metadata").fields)
    template = spec.part("template")
    indexes = range(number_of_job(spec))
    pods = [pod_of(template, f"{owner.name}-{n}", owner, *completion_index(spec, n)) for n in indexes]
    return WorkloadPods([PodSet(pods)], notes=is_suspended(spec))


def number_of_job(spec: FieldReader) -> int:
    """Return how many pods of a Job run at the same time.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    number = spec.number("parallelism", 1)
    return min(number, spec.large_number("completions")) if spec.has("completions") else number


def completion_index(
    spec: FieldReader, number: int, default: str = "NonIndexed"
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations with a pod's completion index; empty unless the Job is indexed.

    Parameters
    ----------
    default
        The completion mode if the Job does not set it.
    """
    mode = spec.fields.get("completionMode") or default
    return ({_INDEX: str(number)}, {_INDEX: str(number)}) if mode == "Indexed" else ({}, {})


class VolumeClaimTemplates:
    """The volume claim templates of a StatefulSet, from which each pod gets its own claims.

    Parameters
    ----------
    spec
        The spec with the templates.

    Raises
    ------
    InvalidObjectsError
        If the templates are malformed.
    """

    def __init__(self, spec: FieldReader) -> None:
        self._templates = spec.parts("volumeClaimTemplates")
        self._metadata = [dict(each.part("metadata").fields) for each in self._templates]
        self._names = [str(each.get("name", "")) for each in self._metadata]
        if len(set(self._names)) < len(self._names):
            raise InvalidObjectsError(f"{spec.title}: {spec.path}volumeClaimTemplates: two have the same name")

    def added(self, pod: dict[str, Any], name: str) -> dict[str, Any]:
        """Return a pod with volumes for its own claims."""
        spec = pod["spec"]
        if not self._names or not isinstance(spec, Mapping):
            return pod
        there = spec.get("volumes") or []
        if not isinstance(there, list):
            return pod
        others = [v for v in there if not isinstance(v, Mapping) or v.get("name") not in self._names]
        own = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in self._names]
        return {**pod, "spec": {**spec, "volumes": [*others, *own]}}

    def claims(self, name: str, owner: Owner) -> list[Object]:
        """Return the claims of one pod."""
        return [
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {**metadata, **owner.home, "name": f"{each}-{name}"},
                "spec": template.fields.get("spec"),
            }
            for template, metadata, each in zip(self._templates, self._metadata, self._names, strict=True)
        ]
