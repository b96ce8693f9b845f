"""The pods that a workload would make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vgpu_scheduler.whatif.world import WorldError

Object = Mapping[str, Any]

_NUMBER_OF: Final = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}
_MOST_PODS: Final = 10_000


def pods_of(obj: Object) -> list[Object]:
    """Return a pod itself, or the pods that a Deployment, ReplicaSet, StatefulSet or Job would make at once.

    Raises
    ------
    WorldError
        If it is of another kind, or a field is malformed.
    """
    kind = str(obj.get("kind", ""))
    if kind == "Pod":
        return [obj]
    metadata = _mapping(obj, "metadata", kind or "an object without a kind")
    title = f"{kind or 'an object without a kind'} {metadata.get('name', '')}".rstrip()
    if kind not in _NUMBER_OF:
        raise WorldError(f"{title}: only pods can be placed, and those of {', '.join(_NUMBER_OF)}")
    spec = _mapping(obj, "spec", title)
    template = _mapping(spec, "template", title, "spec.")
    number = spec.get(_NUMBER_OF[kind], 1)
    if type(number) is not int or not 0 <= number <= _MOST_PODS:
        raise WorldError(f"{title}: spec.{_NUMBER_OF[kind]}: {number!r} is no number up to {_MOST_PODS}")
    head = {key: metadata[key] for key in ("namespace",) if key in metadata}
    if template.get("metadata") is not None:
        head |= _mapping(template, "metadata", title, "spec.template.")
    pod = {"kind": "Pod", "spec": template.get("spec")}
    return [{**pod, "metadata": {**head, "name": f"{metadata.get('name', '')}-{index}"}} for index in range(number)]


def _mapping(obj: Object, field: str, title: str, path: str = "") -> Mapping[str, Any]:
    found = obj.get(field)
    if not isinstance(found, Mapping):
        raise WorldError(f"{title}: {path}{field} is {'missing' if found is None else 'no mapping'}")
    return found
