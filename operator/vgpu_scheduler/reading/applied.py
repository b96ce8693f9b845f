"""Objects of files as ``kubectl apply`` leaves them: what the files do not name stays as it is in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.whatif import World, is_workload
from vgpu_scheduler.whatif.objects.objects import group_of, namespace_of
from vgpu_scheduler.whatif.objects.storage import with_default_class

_CLAIM: Final = "PersistentVolumeClaim"
_BOUND_KINDS: Final = frozenset({_CLAIM, "PersistentVolume"})
"""The kinds of whose specification controllers write a part."""
_MUTABLE: Final = frozenset({"resources", "volumeAttributesClassName"})
"""The fields of a claim's specification that may change."""
_Key = tuple[str, str, str, str]


def as_applied(world: World, there: Sequence[Object], written: Sequence[Object]) -> list[Object]:
    """Return objects of files as they are once they are applied; pods and workloads are left as they are.

    Parameters
    ----------
    world
        The cluster with the objects that were read, whose default class new claims get.
    there
        The objects that were read.
    """
    known = _known(there, written)
    return [obj if is_workload(obj) else _applied(obj, known.get(_key(obj)), world) for obj in written]


def immutable_fields(there: Sequence[Object], written: Sequence[Object]) -> Iterator[tuple[Object, str]]:
    """Yield the claims of files, with the field, that change what the API server lets nobody change."""
    known = _known(there, [obj for obj in written if obj.get("kind") == _CLAIM])
    for obj in written:
        if obj.get("kind") == _CLAIM and (found := known.get(_key(obj))) is not None:
            spec, before = mapping_of(obj.get("spec")), mapping_of(found.get("spec"))
            for name in sorted(spec.keys() - _MUTABLE):
                if name in before and spec[name] != before[name]:
                    yield obj, name


def without_existing(there: Sequence[Object], made: Sequence[Object]) -> list[Object]:
    """Return the objects of those that controllers make that are not there yet."""
    known = _known(there, made)
    return [obj for obj in made if _key(obj) not in known]


def _applied(obj: Object, there: Object | None, world: World) -> Object:
    if there is None:
        return with_default_class(obj, world.default_class) if obj.get("kind") == _CLAIM else obj
    made: dict[str, Any] = {**obj, "metadata": _metadata(mapping_of(there.get("metadata")), obj["metadata"])}
    if "status" in there:
        made["status"] = there["status"]
    if obj.get("kind") in _BOUND_KINDS and isinstance(obj.get("spec", {}), Mapping):
        made["spec"] = _spec(mapping_of(there.get("spec")), mapping_of(obj.get("spec")), str(obj["kind"]))
    return made


def _metadata(there: Object, written: Object) -> Object:
    texts = {
        name: {**mapping_of(there.get(name)), **mapping_of(written.get(name))}
        for name in ("annotations", "labels")
        if name in there and isinstance(written.get(name) or {}, Mapping)
    }
    return {**there, **written, **texts}


def _spec(there: Object, written: Object, kind: str) -> Object:
    if kind != _CLAIM:
        return {**there, **written}
    return {**written, **there, **{name: value for name, value in written.items() if name in _MUTABLE}}


def _known(there: Sequence[Object], written: Sequence[Object]) -> dict[_Key, Object]:
    """Return the objects that were read and are written in files, too."""
    asked = {_key(obj) for obj in written if isinstance(obj.get("metadata"), Mapping)}
    kinds = {kind for kind, *_ in asked}
    return {key: obj for obj in there if obj.get("kind") in kinds and (key := _key(obj)) in asked}


def _key(obj: Object) -> _Key:
    metadata = mapping_of(obj.get("metadata"))
    kind = str(obj.get("kind", ""))
    group = group_of(obj) if kind == "PodGroup" else ""  # the one kind here of which several groups have one
    return kind, group, namespace_of(metadata), str(metadata.get("name"))
