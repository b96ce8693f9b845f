"""Targets of requests, the stored form of objects, and the bytes of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import builtin_schemas, status
from .schema import prune
from .store import Entry, Object, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .resources import Resource


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def check_kind(resource: Resource, obj: Object) -> None:
    """Refuse a body of another kind or version."""
    kind, version = obj.get("kind") or resource.kind, obj.get("apiVersion") or resource.api_version
    if kind != resource.kind or version != resource.api_version:
        text = f'{kind} in version "{version}" cannot be handled as a {resource.kind}'
        raise status.bad_request(text)


def drop_unknown(resource: Resource, obj: Object) -> list[str]:
    """Drop the fields that the kind does not have, and return their paths."""
    if resource.schema is None:
        model = builtin_schemas.model_of(resource.group, resource.version, resource.kind)
        return builtin_schemas.unknown(model, obj)
    found = builtin_schemas.unknown("V1ObjectMeta", obj.get("metadata"), "metadata")
    return [*found, *prune(resource.schema, obj, root=True)]


def stored_form(resource: Resource, obj: Object) -> Object:
    """Return an object as it is stored: in the stored version, kind and apiVersion first."""
    # kind and apiVersion come first in the stored bytes: list items are cut off behind them
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    obj = {key: value for key, value in obj.items() if value is not None}
    return obj if resource.inbound is None else resource.inbound(obj)


def tidy(metadata: Object) -> None:
    """Remove empty fields, as Go's omitempty does."""
    for key in ("labels", "annotations", "finalizers", "ownerReferences", "generateName", "managedFields"):
        if key in metadata and not metadata[key]:
            del metadata[key]


def render(resource: Resource, entry: Entry) -> bytes:
    """Return an object's bytes as this resource shows it."""
    return entry.raw if resource.outbound is None else encode(resource.outbound(entry.thaw()))


def show(resource: Resource, obj: Object) -> bytes:
    """Return the bytes of an object that is not (or no longer) stored."""
    return encode(obj if resource.outbound is None else resource.outbound(obj))


def list_body(resource: Resource, revision: int, entries: Iterable[Entry], more: bytes = b"") -> bytes:
    """Return a list; its items have neither kind nor apiVersion, so these are cut off the stored bytes."""
    items = b",".join([b"{" + render(resource, entry)[len(resource.prefix) :] for entry in entries])
    head = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}",'
    return b'%s"metadata":{"resourceVersion":"%d"%s},"items":[%s]}\n' % (head.encode(), revision, more, items)


def uid_mismatch(target: Target, entry: Entry, uid: str) -> str:
    """Return the message for a write whose UID is another object's."""
    return f"{_precondition(target)}UID in precondition: {uid}, UID in object meta: {entry.uid}"


def revision_mismatch(target: Target, entry: Entry, revision: str) -> str:
    """Return the message for a write whose revision is not the current one."""
    text = f"ResourceVersion in precondition: {revision}, ResourceVersion in object meta: {entry.revision}"
    return _precondition(target) + text


def _precondition(target: Target) -> str:
    key = "/".join(("/registry", target.resource.plural, target.namespace, target.name)).replace("//", "/")
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        "AdditionalErrorMsg: Precondition failed: "
    )
