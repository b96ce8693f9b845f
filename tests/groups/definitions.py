"""The definitions of the objects that describe groups."""

from __future__ import annotations

from typing import Any

from vgpu_scheduler.groups import POD_GROUP_KINDS, PodGroupKind

Obj = dict[str, Any]
DEFINED_KINDS = tuple(kind for kind in POD_GROUP_KINDS if not kind.condition)
"""The kinds of PodGroups that definitions make known; the others are Kubernetes' own."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(kind: PodGroupKind) -> Obj:
    """Return the definition of a kind of PodGroups, as far as the scheduler reads them."""
    _, _, group, version, plural = kind.resource.path.split("/")
    minimum = {"minMember": {"type": "integer", "format": "int32"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": minimum}}}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    names = {"plural": plural, "singular": "podgroup", "kind": "PodGroup"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    metadata = {"name": f"{plural}.{group}", "annotations": approved}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }
