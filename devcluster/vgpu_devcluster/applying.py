"""Server-side apply: merges fields into the live object, and tracks ownership and conflicts."""

from __future__ import annotations

import yaml

from . import managed_fields, status
from .clock import now
from .managed_fields import APPLY, BEFORE, UPDATE, Manager
from .objects import Target, drop_unknown
from .registry import Answer, Registry, WriteOptions, default
from .resources import Resource
from .shapes import Path, shape_of
from .store import Entry, Object


def apply(registry: Registry, target: Target, data: bytes, options: WriteOptions, *, named: bool) -> Answer:
    """Apply a configuration.

    Parameters
    ----------
    data
        YAML or JSON.
    named
        Whether the request names its field manager, which is required.
    """
    if not named:
        cause = status.Cause.required("fieldManager", "is required for apply patch")
        raise status.invalid_options("PatchOptions", cause)
    resource, applied = target.resource, _configuration(target, data)
    entry = registry.store.get(resource, target.namespace, target.name)
    shape, manager = shape_of(resource), Manager(options.manager, APPLY)
    fields = frozenset(shape.leaves(applied))
    if entry is None:
        owned = managed_fields.write({manager: fields}, [], resource.api_version, now())
        return registry.create(target, applied, options, managed=owned)
    return _merge(registry, target, entry, applied, options)


def _configuration(target: Target, data: bytes) -> Object:
    """Decode and check the applied configuration."""
    try:
        parsed = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise status.bad_request(f"error decoding YAML: {error}") from error
    resource = target.resource
    if not isinstance(parsed, dict) or not parsed.get("apiVersion") or not parsed.get("kind"):
        raise status.bad_request("invalid object type: apiVersion and kind are needed to apply an object")
    if (parsed["apiVersion"], parsed["kind"]) != (resource.api_version, resource.kind):
        text = f"patch of {parsed['apiVersion']} {parsed['kind']} does not fit {resource.api_version} {resource.kind}"
        raise status.bad_request(text)
    metadata = parsed.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise _untyped(target, f".metadata: expected map, got {metadata}")
    if metadata.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    name = metadata.setdefault("name", target.name)
    if name != target.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    unknown = drop_unknown(resource, parsed)
    if unknown:
        words = ", ".join(f".{path}: field not declared in schema" for path in unknown)
        raise _untyped(target, words)
    return parsed


def _untyped(target: Target, why: str) -> status.ApiError:
    resource = target.resource
    what = f"({target.namespace}/{target.name}; {resource.group}/{resource.version}, Kind={resource.kind})"
    return status.ApiError(500, "", f"failed to create typed patch object {what}: {why}")


def _merge(registry: Registry, target: Target, entry: Entry, applied: Object, options: WriteOptions) -> Answer:
    resource, manager = target.resource, Manager(options.manager, APPLY, target.subresource)
    shape = shape_of(resource)
    live = entry.thaw()
    before = live["metadata"].get("managedFields") or []
    was, fields = shape.leaves(live), frozenset(shape.leaves(applied))
    owned = managed_fields.read(live["metadata"]) if before else {Manager(BEFORE, UPDATE): frozenset(was)}
    merged = shape.merge(live, applied)
    given_up = owned.get(manager, frozenset()) - fields
    shared = frozenset().union(*(theirs for one, theirs in owned.items() if one != manager))
    shape.remove(merged, given_up - shared)
    now_there = shape.leaves(merged)
    changed = frozenset(path for path, value in now_there.items() if path not in was or was[path] != value)
    contested = managed_fields.conflicts(owned, manager, changed)
    if contested and not options.force:
        raise _conflict(contested, resource)
    gone = was.keys() - now_there.keys()
    owned = {one: theirs - changed - gone for one, theirs in owned.items()} | {manager: fields}
    merged["metadata"]["managedFields"] = managed_fields.write(owned, before, resource.api_version, now())
    default(resource, merged, status.unreadable_patch)
    return registry.write(target, entry, merged, options, tracked=True)


def _conflict(contested: list[tuple[Manager, Path]], resource: Resource) -> status.ApiError:
    """Return the refusal of an apply that changes fields of other managers."""
    by_owner: dict[str, list[str]] = {}
    for owner, path in contested:
        by_owner.setdefault(_owner(owner, resource), []).append(managed_fields.shown(path))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, paths in by_owner.items()
        for path in paths
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lists = [f"conflicts with {owner}:\n" + "\n".join(f"- {p}" for p in paths) for owner, paths in by_owner.items()]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lists)
    return status.ApiError(409, "Conflict", text, {"causes": causes})


def _owner(manager: Manager, resource: Resource) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {resource.api_version}" if manager.operation == UPDATE else text
