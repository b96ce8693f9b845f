"""The kinds of objects that checks examine: their paths, the rights needed, and their decoders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from vgpu_scheduler.dialects import InventoryKind
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
from vgpu_scheduler.groups import POD_GROUP_KINDS, PodGroupKind
from vgpu_scheduler.kube import (
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
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, NAMESPACED_KIND, PLURALS, VERSION

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
    kind
        As in ``kind``; checks refer to it by this name.
    group, version, resource
        The API group, version and resource; the core group is empty.
    decode
        Decodes one object.
    names
        The names of the objects to read one by one; if empty, all are listed.
    older
        Versions that older API servers serve instead.
    namespace
        The namespace to list; empty for all.
    object_kind
        The ``kind`` of the objects if several kinds share that name; empty if it equals this ``kind``.
    is_namespaced
        Whether the objects are in namespaces.
    """

    kind: str
    group: str
    version: str
    resource: str
    decode: Decode[Any]
    names: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    namespace: str = ""
    object_kind: str = ""
    is_namespaced: bool = False

    def is_of(self, obj: Mapping[str, Any]) -> bool:
        """Tell whether an object in a file is of this kind."""
        if not self.object_kind:
            return obj.get("kind") == self.kind
        return (obj.get("apiVersion"), obj.get("kind")) == (f"{self.group}/{self.version}", self.object_kind)

    @property
    def paths(self) -> tuple[str, ...]:
        """The list paths of the kind, the newest API version first."""
        prefix = f"/apis/{self.group}" if self.group else "/api"
        within = f"namespaces/{self.namespace}/" if self.namespace else ""
        return tuple(f"{prefix}/{version}/{within}{self.resource}" for version in (self.version, *self.older))

    @property
    def right(self) -> str:
        """The right to read the objects in kubectl's words, with the namespaces if they are namespaced."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" {in_namespaces(self.namespace)}" if self.is_namespaced else ""
        return f"{'get' if self.names else 'list'} {resource}{where}"


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

DEFINITIONS = tuple(f"{plural}.{GROUP}" for plural in PLURALS.values())
"""The names of the CRDs of the policies."""


def _pod_group_kind(kind: PodGroupKind) -> ListedKind:
    api_group, _, version = kind.api_version.partition("/")
    return ListedKind(
        kind.name, api_group, version, "podgroups", kind.decode, object_kind="PodGroup", is_namespaced=True
    )


EXAMINED_KINDS: tuple[ListedKind, ...] = (
    ListedKind("Node", "", "v1", "nodes", decode_node),
    ListedKind("Namespace", "", "v1", "namespaces", decode_namespace),
    ListedKind("Pod", "", "v1", "pods", decode_pod, is_namespaced=True),
    ListedKind("ResourceQuota", "", "v1", "resourcequotas", decode_quota, is_namespaced=True),
    ListedKind("DaemonSet", "apps", "v1", "daemonsets", decoder("DaemonSet", Workload), is_namespaced=True),
    ListedKind("Deployment", "apps", "v1", "deployments", decoder("Deployment", Workload), is_namespaced=True),
    ListedKind("Lease", "coordination.k8s.io", "v1", "leases", decoder("Lease", Lease), is_namespaced=True),
    ListedKind(
        "ValidatingAdmissionPolicy",
        _ADMISSION,
        "v1",
        "validatingadmissionpolicies",
        decoder("ValidatingAdmissionPolicy", AdmissionPolicy),
    ),
    ListedKind(
        "ValidatingAdmissionPolicyBinding",
        _ADMISSION,
        "v1",
        "validatingadmissionpolicybindings",
        decoder("ValidatingAdmissionPolicyBinding", AdmissionBinding),
    ),
    ListedKind(
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        decoder("CustomResourceDefinition", Definition),
        DEFINITIONS,
    ),
    ListedKind(
        "ResourceSlice",
        "resource.k8s.io",
        "v1",
        "resourceslices",
        decoder("ResourceSlice", ResourceSlice),
        older=("v1beta2", "v1beta1"),
    ),
    *(
        ListedKind(
            kind,
            GROUP,
            VERSION,
            PLURALS[kind],
            decoder(kind, PolicyObject),
            is_namespaced=kind == NAMESPACED_KIND,
        )
        for kind in (CLUSTER_KIND, NAMESPACED_KIND)
    ),
    *map(_pod_group_kind, POD_GROUP_KINDS),
)
"""The kinds that every examination reads."""

OF_A_NAMESPACE = frozenset({"ResourceQuota", NAMESPACED_KIND})
"""The kinds that may be read in a single namespace."""

ROLE_KINDS: tuple[ListedKind, ...] = (
    ListedKind("ClusterRole", _RBAC, "v1", "clusterroles", decoder("ClusterRole", Role)),
    ListedKind("ClusterRoleBinding", _RBAC, "v1", "clusterrolebindings", decoder("ClusterRoleBinding", RoleBinding)),
    ListedKind("Role", _RBAC, "v1", "roles", decoder("Role", Role), is_namespaced=True),
    ListedKind("RoleBinding", _RBAC, "v1", "rolebindings", decoder("RoleBinding", RoleBinding), is_namespaced=True),
)
"""The kinds that show who may do what, if the API server cannot be asked."""


def inventory_kind(kind: InventoryKind) -> ListedKind:
    """Return the listed kind for objects that list the devices of nodes."""
    _, _, group, version, resource = kind.path.split("/")
    return ListedKind(kind.name, group, version, resource, partial(decode_inventory, kind.name))


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
