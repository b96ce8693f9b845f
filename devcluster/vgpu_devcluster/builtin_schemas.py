"""The fields of the built-in kinds, with their types and descriptions, as OpenAPI schemas.

They come from the models of the Kubernetes client library, which are generated from the API server's specification. The
library is imported at first use, because that takes a good part of a second.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

Schema = dict[str, Any]

PREFIX = "io.k8s.api"
_SCALARS: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {"x-kubernetes-preserve-unknown-fields": True},
}
_MAP = re.compile(r"dict[(\[]str, ?(.*)[)\]]")
_LIST = re.compile(r"list\[(.*)\]")
_VERSIONED = re.compile(r"((?:[A-Z][a-z]+?)??)(V\d+(?:(?:alpha|beta)\d+)?)([A-Z].*)")
_MODELS = {("Event", ""): "CoreV1Event", ("Event", "events.k8s.io"): "EventsV1Event"}


@cache
def model_of(group: str, version: str, kind: str) -> str:
    """Return the library's name of a kind; empty if it has none."""
    name = _MODELS.get((kind, group), f"{version.capitalize()}{kind}")
    return name if _model(name) is not None else ""


def reference(model: str) -> Schema:
    """Return a reference to a model's schema, by the name whose end ``kubectl explain`` shows."""
    return {"$ref": f"#/components/schemas/{component(model)}"}


def component(model: str) -> str:
    """Return the name of a model's schema in a document: ``V1PodSpec`` is ``io.k8s.api.v1.PodSpec``."""
    match = _VERSIONED.fullmatch(model)
    return f"{PREFIX}.{match[2].lower()}.{match[1]}{match[3]}" if match else f"{PREFIX}.{model}"


@cache
def schema(model: str) -> Schema:
    """Return the schema of a model; the models of its fields are references."""
    described = _model(model)
    if described is None:
        return dict(_SCALARS["object"])
    properties: Schema = {}
    for attribute, name in described.attribute_map.items():
        part = _typed(described.openapi_types[attribute])
        text = _description(getattr(described, attribute).__doc__ or "")
        properties[name] = {"description": text, **({"allOf": [part]} if "$ref" in part else part)}
    return {"type": "object", "properties": properties}


@cache
def fields(model: str) -> dict[str, tuple[str, str]] | None:
    """Return the fields of a model: the shape of each (``""``, ``list`` or ``map``), and the model of its contents.

    None means that the type is not a model, so that anything is allowed below it.
    """
    described = _model(model)
    if described is None:
        return None
    return {name: _shape(described.openapi_types[attribute]) for attribute, name in described.attribute_map.items()}


def models_below(*models: str) -> list[str]:
    """Return these models and all models that their fields refer to, by name."""
    found: set[str] = set()
    left = list(models)
    while left:
        model = left.pop()
        if model not in found and (below := fields(model)) is not None:
            found.add(model)
            left += [inner for _, inner in below.values()]
    return sorted(found)


def unknown(model: str, value: Any, path: str = "") -> list[str]:
    """Drop the fields that a model does not have from an object, and return their paths."""
    known = fields(model)
    if known is None or not isinstance(value, dict):
        return []
    found = []
    for name in sorted(value):
        where = f"{path}.{name}" if path else name
        if name not in known:
            del value[name]
            found.append(where)
            continue
        shape, inner = known[name]
        part = value[name]
        if shape == "list" and isinstance(part, list):
            for index, item in enumerate(part):
                found += unknown(inner, item, f"{where}[{index}]")
        elif shape == "map" and isinstance(part, dict):
            for key, item in part.items():
                found += unknown(inner, item, f"{where}.{key}")
        elif not shape:
            found += unknown(inner, part, where)
    return found


def _model(name: str) -> Any:
    found = getattr(import_module("kubernetes_asyncio.client.models"), name, None)
    return found if hasattr(found, "openapi_types") else None


def _shape(kind: str) -> tuple[str, str]:
    if match := _LIST.fullmatch(kind):
        return "list", match[1]
    if match := _MAP.fullmatch(kind):
        return "map", match[1]
    return "", kind


def _typed(kind: str) -> Schema:
    shape, inner = _shape(kind)
    if shape == "list":
        return {"type": "array", "items": _typed(inner)}
    if shape == "map":
        return {"type": "object", "additionalProperties": _typed(inner)}
    return dict(_SCALARS[inner]) if inner in _SCALARS else reference(inner)


def _description(doc: str) -> str:
    """Return the description in a getter's docstring, without the heading and types that the generator adds."""
    lines = [line.strip().removesuffix("# noqa: E501").strip() for line in doc.splitlines()]
    return " ".join(line for line in lines[1:] if line and not line.startswith((":return", ":rtype")))
