"""Generates the two CustomResourceDefinitions from the policy models.

It makes pydantic's JSON schema structural: references are inlined, optional fields are not unions with null, and
integers and lists get their formats. Bounds, defaults, descriptions and rules come from the models.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from vgpu_scheduler.policy.models import (
    CLUSTER_KIND,
    GROUP,
    NAME_RULE,
    NAMESPACED_KIND,
    POLICY_KINDS,
    VERSION,
    ClusterVGPUPolicySpec,
    PolicyConditionType,
    PolicyStatus,
    VGPUPolicySpec,
)

Schema = dict[str, Any]

CATEGORY: Final = "vgpu"
READY: Final = f'.status.conditions[?(@.type=="{PolicyConditionType.READY}")]'

_PURPOSE: Final = {
    NAMESPACED_KIND: "VGPUPolicy chooses how the pods of its namespace that share GPUs are placed: which node, which"
    " cards of it, and how much of them at most.",
    CLUSTER_KIND: "ClusterVGPUPolicy chooses how pods that share GPUs are placed, in all namespaces or in those that it"
    " selects: which node, which cards of it, and how much of them at most.",
}

_ORDER: Final = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-validations",
)
"""The schema keywords in output order; any other may not be allowed in a structural schema."""

_RULE: Final = ("rule", "message", "fieldPath")


def crds() -> tuple[Schema, Schema]:
    """Return the CustomResourceDefinitions of VGPUPolicy and ClusterVGPUPolicy."""
    return (
        _crd(NAMESPACED_KIND, "Namespaced", "vgp", VGPUPolicySpec),
        _crd(CLUSTER_KIND, "Cluster", "cvgp", ClusterVGPUPolicySpec),
    )


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model.

    Raises
    ------
    ValueError
        If the model's schema cannot be made structural.
    """
    raw = model.model_json_schema(by_alias=True)
    return _structural(raw, raw.get("$defs", {}))


def _crd(kind: str, scope: str, short_name: str, spec: type[VGPUPolicySpec]) -> Schema:
    singular = kind.lower()
    plural = POLICY_KINDS[kind].plural
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/name": "vgpu-scheduler"}},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [short_name],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(),
                    "schema": {"openAPIV3Schema": _resource(kind, spec)},
                }
            ],
        },
    }


def _columns() -> list[Schema]:
    columns = (
        ("Ready", "string", f"{READY}.status", "Whether the policy is understood and in force."),
        ("Priority", "integer", ".spec.priority", "Rank among the policies of the same kind."),
        ("Nodes", "string", ".status.nodes", "How nodes are chosen."),
        ("Devices", "string", ".status.devices", "How devices are chosen."),
        ("Pods", "integer", ".status.pods", "Number of pods for which the policy is in force."),
        ("Age", "date", ".metadata.creationTimestamp", "Time since the policy was created."),
    )
    wide = (
        ("Preemption", "string", ".status.preemption", "The rules of preemption."),
        ("Reason", "string", f"{READY}.reason", "Why the policy is not ready."),
    )
    return [*map(_column, columns), *({**_column(column), "priority": 1} for column in wide)]


def _column(column: tuple[str, str, str, str]) -> Schema:
    name, kind, path, text = column
    return {"name": name, "type": kind, "jsonPath": path, "description": text}


def _resource(kind: str, spec: type[VGPUPolicySpec]) -> Schema:
    return {
        "description": _PURPOSE[kind],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
            "kind": {"type": "string", "description": kind},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": structural(spec),
            "status": structural(PolicyStatus),
        },
        "x-kubernetes-validations": [NAME_RULE.as_schema()],
    }


def _structural(raw: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    node = _inlined(raw, defs)
    if node.get("additionalProperties") is False:
        del node["additionalProperties"]  # the API server prunes unknown fields, and strict clients refuse them
    if node.get("default", 0) in (None, [], {}):
        del node["default"]  # the same as being absent
    if "description" in node:
        node["description"] = inspect.cleandoc(node["description"]).replace("\n\n", "\0").replace("\n", " ")
        node["description"] = node["description"].replace("\0", "\n\n")
    if node.get("type") == "integer":
        node.setdefault("format", "int32")
    if node.get("type") == "array":
        node.setdefault("x-kubernetes-list-type", "atomic")
        node["items"] = _structural(node["items"], defs)
    if "properties" in node:
        node["properties"] = {name: _structural(field, defs) for name, field in node["properties"].items()}
    if "additionalProperties" in node:
        node["additionalProperties"] = _structural(node["additionalProperties"], defs)
    if "x-kubernetes-validations" in node:
        rules = node["x-kubernetes-validations"]
        node["x-kubernetes-validations"] = [{key: rule[key] for key in _RULE if key in rule} for rule in rules]
    if unknown := node.keys() - set(_ORDER):
        raise ValueError(f"not structural: {', '.join(sorted(unknown))} in {raw}")
    return {keyword: node[keyword] for keyword in _ORDER if keyword in node}


def _inlined(raw: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """Return the schema without references and unions with null; keywords of a field override those of its type."""
    node = {key: value for key, value in raw.items() if key not in ("title", "$defs")}
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            inner = defs[node.pop("$ref").rpartition("/")[2]]
        else:
            inner, *others = (part for part in node.pop("anyOf") if part != {"type": "null"})
            if others:
                raise ValueError(f"not structural: a union in {raw}")
        node = {**{key: value for key, value in inner.items() if key != "title"}, **node}
    return node
