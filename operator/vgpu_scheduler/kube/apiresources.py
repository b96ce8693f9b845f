"""Which kinds of objects the API server serves, and at which paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind of objects as the API server serves it, as ``kubectl api-resources`` lists it.

    Attributes
    ----------
    kind
        As in ``kind``.
    group, version
        As in ``apiVersion``; the group of the core API is empty.
    plural
        The name in paths and in rights.
    namespaced
        Whether the objects are in namespaces.
    older
        Versions that older API servers serve instead, the newest first.
    """

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool = False
    older: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """Group and version, as in ``apiVersion``."""
        return self._api_version(self.version)

    @property
    def path(self) -> str:
        """The path at which all objects are listed and watched."""
        return self._path(self.version)

    @property
    def paths(self) -> tuple[str, ...]:
        """The list paths of all versions, the newest first."""
        return tuple(map(self._path, (self.version, *self.older)))

    def _api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def _path(self, version: str) -> str:
        return f"/{'apis' if self.group else 'api'}/{self._api_version(version)}/{self.plural}"

    def __str__(self) -> str:
        """Return the plural with its group, as rights are told to people."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _in(group: str, version: str, *, namespaced: bool, **plurals: str) -> list[ApiResource]:
    return [ApiResource(kind, group, version, plural, namespaced) for kind, plural in plurals.items()]


API_RESOURCES: Final[Mapping[str, ApiResource]] = {
    found.kind: found
    for found in (
        *_in("", "v1", namespaced=False, Node="nodes", Namespace="namespaces", PersistentVolume="persistentvolumes"),
        *_in(
            "",
            "v1",
            namespaced=True,
            Pod="pods",
            ResourceQuota="resourcequotas",
            LimitRange="limitranges",
            PersistentVolumeClaim="persistentvolumeclaims",
            ConfigMap="configmaps",
            Service="services",
            ReplicationController="replicationcontrollers",
        ),
        *_in(
            "apps",
            "v1",
            namespaced=True,
            Deployment="deployments",
            DaemonSet="daemonsets",
            ReplicaSet="replicasets",
            StatefulSet="statefulsets",
        ),
        *_in("policy", "v1", namespaced=True, PodDisruptionBudget="poddisruptionbudgets"),
        *_in("coordination.k8s.io", "v1", namespaced=True, Lease="leases"),
        *_in("events.k8s.io", "v1", namespaced=True, Event="events"),
        *_in("scheduling.k8s.io", "v1", namespaced=False, PriorityClass="priorityclasses"),
        *_in(
            "storage.k8s.io",
            "v1",
            namespaced=False,
            StorageClass="storageclasses",
            CSIDriver="csidrivers",
            CSINode="csinodes",
            VolumeAttachment="volumeattachments",
        ),
        *_in("storage.k8s.io", "v1", namespaced=True, CSIStorageCapacity="csistoragecapacities"),
        *_in(
            "admissionregistration.k8s.io",
            "v1",
            namespaced=False,
            ValidatingAdmissionPolicy="validatingadmissionpolicies",
            ValidatingAdmissionPolicyBinding="validatingadmissionpolicybindings",
        ),
        *_in("apiextensions.k8s.io", "v1", namespaced=False, CustomResourceDefinition="customresourcedefinitions"),
        ApiResource("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", older=("v1beta2", "v1beta1")),
        *_in(
            "rbac.authorization.k8s.io",
            "v1",
            namespaced=False,
            ClusterRole="clusterroles",
            ClusterRoleBinding="clusterrolebindings",
        ),
        *_in("rbac.authorization.k8s.io", "v1", namespaced=True, Role="roles", RoleBinding="rolebindings"),
    )
}
"""Kubernetes' own kinds that are read or written here, by kind."""
