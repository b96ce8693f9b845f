"""The OpenAPI documents that kubectl reads: which kinds support ``fieldValidation``, and the data of ``explain``.

Each path lists only the operations that kubectl looks at. Strategic merge patches are not announced: kubectl then
computes them with its built-in types, and needs no merge keys from here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from . import builtin_schemas
from .store import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .resources import Resource

Object = dict[str, Any]

ROOT = "/openapi/v3"
ROOT_OF_V2 = "/openapi/v2"
TYPE_OF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
DOCUMENT_OF_V2 = b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned"
"""A protobuf with ``swagger``, and ``info`` with ``title`` and ``version``. kubectl requests it for a ``List``, and
validates the items against it: it defines nothing, because the server validates them one by one.
"""
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind}}
    for name, kind in (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
]
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_METADATA = "V1ObjectMeta"


def document(path: str, resources: Iterable[Resource]) -> Object | None:
    """Return the document at a path below :data:`ROOT`, or at the root the index of all documents; None without one."""
    groups: dict[str, list[Resource]] = {}
    for row in resources:
        groups.setdefault(f"{'apis' if row.group else 'api'}/{row.api_version}", []).append(row)
    name = path.removeprefix(ROOT).strip("/")
    if name:
        return _document(groups[name]) if name in groups else None
    return {"paths": {group: {"serverRelativeURL": _address(group, groups[group])} for group in sorted(groups)}}


def _address(group: str, rows: list[Resource]) -> str:
    """Return the address of a group's document; the hash changes with the content, because clients cache documents."""
    content = encode([(row.plural, row.kind, row.schema) for row in rows])
    return f"{ROOT}/{group}?hash={hashlib.sha256(content).hexdigest()[:32].upper()}"


def _document(rows: list[Resource]) -> Object:
    paths: Object = {}
    schemas: Object = {}
    models: set[str] = set()
    for row in rows:
        paths |= _paths(row)
        name, schema = _schema(row)
        model = builtin_schemas.model_of(row.group, row.version, row.kind) if row.schema is None else _METADATA
        if model:
            models.update(builtin_schemas.models_below(model))
        schemas[name] = schema | {"x-kubernetes-group-version-kind": [_identity(row)]}
    below = {builtin_schemas.component(model): builtin_schemas.schema(model) for model in sorted(models)}
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": below | schemas}}


def _schema(row: Resource) -> tuple[str, Object]:
    """Return the schema of a kind under its name."""
    model = "" if row.schema is not None else builtin_schemas.model_of(row.group, row.version, row.kind)
    if model:
        return builtin_schemas.component(model), dict(builtin_schemas.schema(model))
    head = {name: {"type": "string"} for name in ("apiVersion", "kind")}
    schema = dict(row.schema or {"type": "object"})
    inherited = {**head, "metadata": {"allOf": [builtin_schemas.reference(_METADATA)]}}
    schema["properties"] = {**(schema.get("properties") or {}), **inherited}
    return f"{'.'.join(reversed(row.group.split('.')))}.{row.version}.{row.kind}", schema


def _identity(row: Resource) -> Object:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _paths(row: Resource) -> Object:
    root = f"/{'apis' if row.group else 'api'}/{row.api_version}"
    where = f"{root}/namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"{root}/{row.plural}"
    answer = {"200": {"description": "OK"}}
    action = {"x-kubernetes-group-version-kind": _identity(row), "responses": answer}
    body = {"content": {kind: {} for kind in _PATCHES}, "required": True}
    write = {**action, "parameters": _PARAMETERS}
    item = {"get": action, "put": write, "patch": {**write, "requestBody": body}}
    return {where: {"get": action, "post": write}, f"{where}/{{name}}": item}
