"""The kinds of objects that checks examine: their paths, the rights needed, and their decoders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.doctor.objects import (
    AdmissionBinding,
    AdmissionPolicy,
    Definition,
    Lease,
    PolicyObject,
    ResourceSlice,
    Role,
    RoleBinding,
    Workload,
    decoder,
)
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import (
    API_RESOURCES,
    ApiResource,
    Decode,
    DecodeError,
    Encoded,
    decode_inventory,
    decode_namespace,
    decode_node,
    decode_pod,
    decode_quota,
    in_namespaces,
)
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, POLICY_KINDS

OBJECT_UNREADABLE = Diagnosis(
    "object-unreadable",
    Severity.WARNING,
    "A field of the object has the wrong type, or a quantity cannot be parsed. The scheduler ignores such "
    "an object, too: such a pod is never placed, and no pod is placed on such a node.",
    "Correct the field that the message names, or delete the object.",
)


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A kind of objects that checks examine.

    Attributes
    ----------
    resource
        How the API server serves it.
    decode
        Decodes one object.
    names
        The names of the objects to read one by one; if empty, all are listed.
    namespace
        The namespace to list; empty for all.
    own_name
        Its name if several kinds share the ``kind`` of their objects; empty if none does.
    """

    resource: ApiResource
    decode: Decode[Any]
    names: tuple[str, ...] = ()
    namespace: str = ""
    own_name: str = ""

    @property
    def kind(self) -> str:
        """The name by which checks refer to the kind."""
        return self.own_name or self.resource.kind

    def is_of(self, obj: Mapping[str, Any]) -> bool:
        """Tell whether an object in a file is of this kind."""
        if obj.get("kind") != self.resource.kind:
            return False
        return not self.own_name or obj.get("apiVersion") == self.resource.api_version

    @property
    def right(self) -> str:
        """The right to read the objects in kubectl's words, with the namespaces if they are namespaced."""
        where = f" {in_namespaces(self.namespace)}" if self.resource.namespaced else ""
        return f"{'get' if self.names else 'list'} {self.resource}{where}"


DEFINITIONS = tuple(map(str, POLICY_KINDS.values()))
"""The names of the CRDs of the policies."""


def _kubernetes(kind: str, decode: Decode[Any], names: tuple[str, ...] = ()) -> ListedKind:
    """Return one of Kubernetes' own kinds."""
    return ListedKind(API_RESOURCES[kind], decode, names)


EXAMINED_KINDS: tuple[ListedKind, ...] = (
    _kubernetes("Node", decode_node),
    _kubernetes("Namespace", decode_namespace),
    _kubernetes("Pod", decode_pod),
    _kubernetes("ResourceQuota", decode_quota),
    *(
        _kubernetes(kind, decoder(kind, wire))
        for kind, wire in (
            ("DaemonSet", Workload),
            ("Deployment", Workload),
            ("Lease", Lease),
            ("ValidatingAdmissionPolicy", AdmissionPolicy),
            ("ValidatingAdmissionPolicyBinding", AdmissionBinding),
        )
    ),
    _kubernetes("CustomResourceDefinition", decoder("CustomResourceDefinition", Definition), DEFINITIONS),
    _kubernetes("ResourceSlice", decoder("ResourceSlice", ResourceSlice)),
    *(ListedKind(POLICY_KINDS[kind], decoder(kind, PolicyObject)) for kind in (CLUSTER_KIND, NAMESPACED_KIND)),
    *(ListedKind(kind.resource, kind.decode, own_name=kind.name) for kind in POD_GROUP_KINDS),
)
"""The kinds that every examination reads."""

OF_A_NAMESPACE = frozenset({"ResourceQuota", NAMESPACED_KIND})
"""The kinds that may be read in a single namespace."""

ROLE_KINDS: tuple[ListedKind, ...] = tuple(
    _kubernetes(kind, decoder(kind, wire))
    for kind, wire in (
        ("ClusterRole", Role),
        ("ClusterRoleBinding", RoleBinding),
        ("Role", Role),
        ("RoleBinding", RoleBinding),
    )
)
"""The kinds that show who may do what, if the API server cannot be asked."""


def inventory_kind(resource: ApiResource) -> ListedKind:
    """Return the listed kind for objects that list the devices of nodes."""
    return ListedKind(resource, partial(decode_inventory, resource.kind))


def decode_objects(listed: ListedKind, items: Iterable[Encoded]) -> tuple[list[Any], list[Finding]]:
    """Decode objects; return those that can be decoded, and findings about the others."""
    values: list[Any] = []
    findings: list[Finding] = []
    for item in items:
        try:
            values.append(listed.decode(item))
        except DecodeError as error:
            namespace, _, name = error.key.rpartition("/")
            ref = ObjectRef(listed.kind, name or "(unnamed)", namespace)
            field = f"{error.field}: " if error.field else ""
            findings.append(OBJECT_UNREADABLE.of(ref, f"it cannot be read: {field}{error.problem}"))
    return values, findings
