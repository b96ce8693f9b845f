"""Groups of pods with exclusive use of a topology domain, as JobSet and LeaderWorkerSet place them.

The first pod of a group requires a domain without other groups; the controller creates the others once the first has a
node, with a node selector for its domain. That domain is not known in advance, so here the other pods require affinity
to pods of their group, which has the same effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha1
from typing import Any, Final

from vgpu_scheduler.kube import Object

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
    """Return a pod with the affinity terms of its group; a pod with a malformed affinity is returned as it is.

    Parameters
    ----------
    label
        The label shared by all pods of the group, and its value.
    others
        Further label expressions for pods that keep the group away.
    is_first
        Whether this is the pod that chooses the domain.
    more
        Further fields of each affinity term.
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
    """Return the mapping in a field: empty if missing, None if malformed."""
    found = obj.get(field) or {} if isinstance(obj, Mapping) else None
    return found if isinstance(found, Mapping) else None


def sha1_of(text: str) -> str:
    """Return the hash by which the controllers tell groups apart in labels."""
    return sha1(text.encode(errors="replace"), usedforsecurity=False).hexdigest()
