"""What checks examine of a cluster: decoded objects, and the settings to compare them with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from vgpu_scheduler.doctor.access import Account, Rights
from vgpu_scheduler.doctor.findings import Finding
from vgpu_scheduler.doctor.kinds import OBJECT_UNREADABLE
from vgpu_scheduler.doctor.objects import (
    AdmissionBinding,
    AdmissionPolicy,
    Definition,
    Lease,
    PolicyObject,
    ResourceSlice,
    Workload,
)
from vgpu_scheduler.engine import Engine, EngineOptions, Problem
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import Node, Pod, ResourceQuota
from vgpu_scheduler.model import Device, EventReason
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, PolicyResource, decode_policy

APP = "vgpu-scheduler"
APP_LABEL = "app.kubernetes.io/name"
"""The label of the scheduler's Deployment and pods, whose value is :data:`APP`."""


@dataclass(frozen=True, kw_only=True)
class ExpectedSettings:
    """The scheduler's settings, as far as checks depend on them.

    Attributes
    ----------
    options
        The options of its engine.
    source
        Where the settings were read from, for messages.
    namespace
        The namespace of its installation; empty for a scheduler that only watches, without a Lease.
    lease_name, lease_namespace, lease_seconds
        Its Lease, and the duration of the Lease.
    """

    options: EngineOptions
    source: str = ""
    namespace: str = ""
    lease_name: str = ""
    lease_namespace: str = ""
    lease_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Server:
    """The API server.

    Attributes
    ----------
    address
        Its address.
    version
        Major and minor version; None if unknown.
    now
        Its time of day.
    local
        The local time of day at the same moment.
    """

    address: str
    version: tuple[int, int] | None
    now: datetime
    local: datetime


class ClusterEngine:
    """What nodes have and which pods use it, computed by the scheduler's own engine.

    Parameters
    ----------
    engine
        An engine that has observed the objects.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.problems: list[Problem] = []
        """Problems found in the objects."""

    @classmethod
    def of(cls, options: EngineOptions, objects: Mapping[str, Sequence[Any]]) -> ClusterEngine:
        """Make an engine from the objects of each kind."""
        made = cls(engine := Engine(options))
        inventories, groups = (
            (resource.kind for resource in engine.dialects.inventory_kinds),
            (kind.name for kind in POD_GROUP_KINDS),
        )
        policies = {
            kind: [_resource(kind, policy) for policy in objects.get(kind, ())]
            for kind in (CLUSTER_KIND, NAMESPACED_KIND)
        }
        known = {**objects, **policies}
        for kind in (*inventories, "Namespace", *policies, "Node", "ResourceQuota", *groups, "Pod"):
            for value in known.get(kind, ()):
                made.problems += engine.kinds[kind].observe(value, 0.0)
        return made

    def devices(self, node: str) -> dict[str, tuple[Device, ...]]:
        """Return the devices that a node lists, by dialect."""
        return self.engine.state.devices_by_dialect(node)

    @cached_property
    def unreadable_registrations(self) -> frozenset[str]:
        """The nodes with a registration of devices that cannot be read."""
        of_nodes = (each for each in self.problems if each.kind == "Node")
        return frozenset(each.name for each in of_nodes if each.reason is EventReason.REGISTRATION_UNREADABLE)

    @cached_property
    def homes(self) -> Mapping[str, str]:
        """The node that lists each device, by UUID."""
        nodes = self.engine.state.all_nodes()
        return {device.uuid: n.name for n in nodes for listed in self.devices(n.name).values() for device in listed}


def _resource(kind: str, policy: PolicyObject) -> PolicyResource:
    """Decode a policy as the scheduler does."""
    metadata = {"name": policy.metadata.name, "uid": policy.metadata.uid or policy.metadata.name}
    if kind == NAMESPACED_KIND:
        metadata["namespace"] = policy.metadata.namespace
    return decode_policy({"kind": kind, "metadata": metadata, "spec": policy.spec})


@dataclass(frozen=True, kw_only=True)
class DoctorInput:
    """What was read of a cluster.

    Attributes
    ----------
    expected, server
        The scheduler's settings, and the API server that was read.
    objects
        The objects of each kind that could be read.
    missing
        Why the objects of a kind could not be read: the missing right, or another reason.
    absent
        The kinds that files neither contain nor declare to be empty.
    rights
        Answers access questions; None if nobody answers them, for the reason in ``missing["rights"]``.
    findings
        Findings made while the objects were read.
    engine
        An engine that has observed the objects already; None to make one.
    """

    expected: ExpectedSettings
    server: Server
    objects: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    absent: Collection[str] = ()
    rights: Rights | None = None
    findings: tuple[Finding, ...] = ()
    engine: Engine | None = None

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes."""
        return self.objects.get("Node", ())

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods."""
        return self.objects.get("Pod", ())

    @property
    def quotas(self) -> Sequence[ResourceQuota]:
        """The quotas of namespaces."""
        return self.objects.get("ResourceQuota", ())

    @property
    def daemon_sets(self) -> Sequence[Workload]:
        """The DaemonSets."""
        return self.objects.get("DaemonSet", ())

    @property
    def deployments(self) -> Sequence[Workload]:
        """The Deployments."""
        return self.objects.get("Deployment", ())

    @property
    def leases(self) -> Sequence[Lease]:
        """The Leases."""
        return self.objects.get("Lease", ())

    @property
    def admission_policies(self) -> Sequence[AdmissionPolicy]:
        """The ValidatingAdmissionPolicies."""
        return self.objects.get("ValidatingAdmissionPolicy", ())

    @property
    def admission_bindings(self) -> Sequence[AdmissionBinding]:
        """The ValidatingAdmissionPolicyBindings."""
        return self.objects.get("ValidatingAdmissionPolicyBinding", ())

    @property
    def definitions(self) -> Sequence[Definition]:
        """The CustomResourceDefinitions of the policy kinds."""
        return self.objects.get("CustomResourceDefinition", ())

    @property
    def resource_slices(self) -> Sequence[ResourceSlice]:
        """The ResourceSlices of dynamic resource allocation."""
        return self.objects.get("ResourceSlice", ())

    def unreadable(self, kind: str) -> frozenset[str]:
        """Return the names of the objects of a kind that exist and could not be read."""
        of_kind = (each for each in self.findings if each.diagnosis is OBJECT_UNREADABLE and each.ref.kind == kind)
        return frozenset(each.ref.name for each in of_kind)

    def policies(self, kind: str) -> Sequence[PolicyObject]:
        """Return our policies of a kind."""
        return self.objects.get(kind, ())

    @cached_property
    def cluster_engine(self) -> ClusterEngine:
        """What nodes have and which pods use it."""
        if self.engine is not None:
            return ClusterEngine(self.engine)
        return ClusterEngine.of(self.expected.options, self.objects)

    def manages(self, node: Node) -> bool:
        """Tell whether the scheduler places pods on a node."""
        return self.expected.options.defaults.manages(node)

    @cached_property
    def nodes_with_devices(self) -> Collection[str]:
        """The managed nodes that list devices in any dialect."""
        return {n.name for n in self.nodes if self.manages(n) and any(self.cluster_engine.devices(n.name).values())}

    def nodes_with(self, workload: Workload) -> Collection[str]:
        """Return the managed nodes that list devices and have a pod of a workload."""
        pods = self.pods_of.get(workload.metadata.uid, ())
        return {pod.node_name for pod in pods if not pod.terminal and pod.node_name in self.nodes_with_devices}

    @cached_property
    def pods_of(self) -> Mapping[str, Sequence[Pod]]:
        """The pods of each controller, by its UID."""
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            if pod.owner:
                found[pod.owner].append(pod)
        return found

    @cached_property
    def pods_by_key(self) -> Mapping[str, Pod]:
        """The pods by ``namespace/name``."""
        return {pod.key: pod for pod in self.pods}

    def asks_for_devices(self, pod: Pod) -> bool:
        """Tell whether a pod asks for device resources of the listed dialects."""
        return bool(self.cluster_engine.engine.dialects.owners(pod))

    @cached_property
    def own_deployments(self) -> list[Workload]:
        """The scheduler's Deployments, in all namespaces."""
        return [d for d in self.deployments if d.metadata.labels.get(APP_LABEL) == APP]

    @cached_property
    def installed(self) -> bool:
        """Whether the scheduler is installed here, or leads from elsewhere."""
        return bool(self.own_deployments) or self.leading

    @cached_property
    def account(self) -> Account:
        """The service account that the scheduler runs under."""
        namespace = self.expected.namespace
        here = (
            d for d in self.own_deployments if d.metadata.namespace == namespace and d.spec.template.spec.containers
        )
        return Account(namespace, next((deployment.account for deployment in here), APP))

    def age(self, then: datetime) -> float:
        """Return the seconds since a time, by the API server's clock."""
        return (self.server.now - then).total_seconds()

    @cached_property
    def lease(self) -> Lease | None:
        """The scheduler's Lease; None if there is none."""
        wanted = f"{self.expected.lease_namespace}/{self.expected.lease_name}"
        return next((lease for lease in self.leases if lease.key == wanted), None)

    @cached_property
    def leading(self) -> bool:
        """Whether any replica holds the scheduler's Lease now."""
        return self.lease is not None and self.is_fresh(self.lease)

    def is_fresh(self, lease: Lease) -> bool:
        """Tell whether a Lease is held now: the later of the holder's and the API server's time of renewal counts."""
        times = [time for time in (lease.renewed, lease.written) if time]
        seconds = max(self.expected.lease_seconds, lease.spec.lease_duration_seconds)
        return bool(lease.spec.holder_identity and times) and self.age(max(times)) <= seconds + _ROUNDING


_ROUNDING = 2.0
"""Seconds of tolerance, because both the Date header and times of writes are whole seconds."""
