"""Pods that have a domain of nodes for themselves, as JobSet and LeaderWorkerSet write it.

The first pod of such a part requires a domain without other parts; the others are created once it has a node, with a
node selector for its domain. Which that is nobody knows before: here they require to be where pods of their part are,
which comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.kube import Object

__all__ = ["COMES_LATER", "exclusive"]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
COMES_LATER: Final = "the others of a part are created once its first pod has a node, so they are placed after it"


def exclusive(
    pod: Object,
    label: tuple[str, str],
    topology_key: str,
    others: Sequence[Object] = (),
    *,
    is_first: bool,
    **more: Any,
) -> dict[str, Any]:
    """Return a pod with the affinity of its part, unless what is there is malformed.

    Parameters
    ----------
    label
        The label that all pods of the part have, and its value.
    others
        What else is required of a label of pods that keep the part away.
    is_first
        Whether it is the pod that takes the domain.
    more
        Further fields of each term.
    """
    key, value = label
    ours = {"key": key, "operator": "In", "values": [value]}
    found = _with_term(pod, "podAffinity", {**_term([ours], topology_key), **more})
    if not is_first:
        return found
    theirs: list[Object] = [{"key": key, "operator": "Exists"}, {**ours, "operator": "NotIn"}, *others]
    return _with_term(found, "podAntiAffinity", {**_term(theirs, topology_key), **more})


def _term(expressions: Sequence[Object], topology_key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": list(expressions)}, "topologyKey": topology_key}


def _with_term(pod: Object, field: str, term: Object) -> dict[str, Any]:
    spec = pod["spec"]
    affinity = _inner(spec, "affinity")
    inner = _inner(affinity, field)
    there = inner.get(_REQUIRED) or [] if inner is not None else None
    if affinity is None or inner is None or not isinstance(there, list):
        return dict(pod)
    return {**pod, "spec": {**spec, "affinity": {**affinity, field: {**inner, _REQUIRED: [*there, term]}}}}


def _inner(obj: Object | None, field: str) -> Object | None:
    """Return the mapping in a field, an empty one if it is missing; None if it is malformed."""
    found = obj.get(field) or {} if isinstance(obj, Mapping) else None
    return found if isinstance(found, Mapping) else None
