"""The pods that a workload would make, and their claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vgpu_scheduler.whatif.objects import WorldError

Object = Mapping[str, Any]

_NUMBER_OF: Final = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}
_SELECTING: Final = ("Deployment", "ReplicaSet", "StatefulSet")
"""The kinds whose pods have a controller that selects them; a Job's is none of those that kube-scheduler looks at."""
_HASH: Final = {"pod-template-hash": "new"}
"""What tells the pods of a Deployment's new ReplicaSet from those of the others."""
WORKLOADS: Final = frozenset({"Pod", *_NUMBER_OF})
"""The kinds of which the pods are known."""
_MOST_PODS: Final = 10_000


def pods_of(obj: Object) -> list[Object]:
    """Return a pod itself, or the pods that a Deployment, ReplicaSet, StatefulSet or Job would make at once.

    Raises
    ------
    WorldError
        If it is of another kind, or a field is malformed.
    """
    if obj.get("kind") == "Pod":
        return [obj]
    workload = _Workload(obj)
    return [workload.pod(index) for index in workload.indexes]


def claims_of(obj: Object) -> list[Object]:
    """Return the claims that a StatefulSet would make for its pods.

    Raises
    ------
    WorldError
        If a field is malformed.
    """
    if obj.get("kind") != "StatefulSet":
        return []
    workload = _Workload(obj)
    return [claim for index in workload.indexes for claim in workload.claims(index)]


def controllers_of(obj: Object) -> list[Object]:
    """Return what would own the pods of a workload, and select them: the workload, or a Deployment's new ReplicaSet.

    Raises
    ------
    WorldError
        If a field is malformed.
    """
    return [_Workload(obj).controller] if obj.get("kind") in _SELECTING else []


class _Workload:
    """A workload, as far as it says which pods there are.

    Attributes
    ----------
    indexes
        The numbers of its pods.
    """

    def __init__(self, obj: Object) -> None:
        kind = str(obj.get("kind", ""))
        self._metadata = _mapping(obj, "metadata", kind or "an object without a kind")
        self._title = f"{kind or 'an object without a kind'} {self._metadata.get('name', '')}".rstrip()
        if kind not in _NUMBER_OF:
            raise WorldError(f"{self._title}: only pods can be placed, and those of {', '.join(_NUMBER_OF)}")
        spec = _mapping(obj, "spec", self._title)
        self._kind, self._selector = kind, spec.get("selector")
        self._template = _mapping(spec, "template", self._title, "spec.")
        number = spec.get(_NUMBER_OF[kind], 1)
        if type(number) is not int or not 0 <= number <= _MOST_PODS:
            raise WorldError(f"{self._title}: spec.{_NUMBER_OF[kind]}: {number!r} is no number up to {_MOST_PODS}")
        completions = spec.get("completions") if kind == "Job" else None
        if completions is not None:
            if type(completions) is not int or completions < 0:
                raise WorldError(f"{self._title}: spec.completions: {completions!r} is no number of 0 or more")
            number = min(number, completions)
        stateful = kind == "StatefulSet"
        first = self._first(spec) if stateful else 0
        self.indexes = range(first, first + number)
        templates = spec.get("volumeClaimTemplates") or [] if stateful else []
        if not isinstance(templates, list):
            raise WorldError(f"{self._title}: spec.volumeClaimTemplates is no list")
        self._claims = [
            _mapping({"item": each}, "item", self._title, f"spec.volumeClaimTemplates[{position}].")
            for position, each in enumerate(templates)
        ]

    def _first(self, spec: Object) -> int:
        ordinals = spec.get("ordinals")
        first = ordinals.get("start", 0) if isinstance(ordinals, Mapping) else 0
        if type(first) is not int or not 0 <= first < 2**31:
            raise WorldError(f"{self._title}: spec.ordinals.start: {first!r} is no number of 0 or more")
        return first

    @property
    def _namespace(self) -> dict[str, Any]:
        return {key: self._metadata[key] for key in ("namespace",) if key in self._metadata}

    @property
    def controller(self) -> Object:
        """What owns the pods: the workload, or the ReplicaSet that a Deployment makes of its template."""
        name = str(self._metadata.get("name", ""))
        uid = str(self._metadata.get("uid") or f"{self._kind}-{self._metadata.get('namespace', 'default')}-{name}")
        kind, selector = self._kind, self._selector
        if kind == "Deployment":
            kind, name, uid = "ReplicaSet", f"{name}-{_HASH['pod-template-hash']}", f"{uid}-new"
            if isinstance(selector, Mapping):
                selector = _with_hash(selector, "matchLabels")
        return {"kind": kind, "metadata": {**self._namespace, "name": name, "uid": uid}, "spec": {"selector": selector}}

    def pod(self, index: int) -> Object:
        """Return one of the pods."""
        head, spec = self._namespace, self._template.get("spec")
        if self._template.get("metadata") is not None:
            head |= _mapping(self._template, "metadata", self._title, "spec.template.")
        if self._kind == "Deployment":
            head = _with_hash(head, "labels")
        owner = self.controller
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        head["ownerReferences"] = [{**reference, "controller": True}]
        if self._claims and isinstance(spec, Mapping):
            names = self._claim_names(index)
            others = [v for v in spec.get("volumes") or () if not isinstance(v, Mapping) or v.get("name") not in names]
            own = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in names.items()]
            spec = {**spec, "volumes": [*others, *own]}
        name = f"{self._metadata.get('name', '')}-{index}"
        return {"kind": "Pod", "metadata": {**head, "name": name}, "spec": spec}

    def claims(self, index: int) -> list[Object]:
        """Return the claims of one of the pods."""
        names = self._claim_names(index)
        made: list[Object] = []
        for template, name in zip(self._claims, names.values(), strict=True):
            metadata = {**_mapping(template, "metadata", self._title), **self._namespace, "name": name}
            made.append({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template.get("spec")})
        return made

    def _claim_names(self, index: int) -> dict[str, str]:
        """Return the name of each claim by that of its template."""
        names = [str(_mapping(claim, "metadata", self._title).get("name", "")) for claim in self._claims]
        if len(set(names)) < len(names):
            raise WorldError(f"{self._title}: spec.volumeClaimTemplates: two have the same name")
        return {name: f"{name}-{self._metadata.get('name', '')}-{index}" for name in names}


def _with_hash(obj: Object, field: str) -> dict[str, Any]:
    """Return an object with the label of a new ReplicaSet among those of a field, unless these are malformed."""
    labels = obj.get(field) or {}
    return {**obj, field: {**labels, **_HASH} if isinstance(labels, Mapping) else labels}


def _mapping(obj: Object, field: str, title: str, path: str = "") -> Mapping[str, Any]:
    found = obj.get(field)
    if not isinstance(found, Mapping):
        raise WorldError(f"{title}: {path}{field} is {'missing' if found is None else 'no mapping'}")
    return found
