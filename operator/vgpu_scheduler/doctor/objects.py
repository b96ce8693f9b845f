"""API objects as values, with only the fields that checks use.

A field that the API server leaves out has its default; a field of a wrong type raises an error that names it. Pods and
nodes have decoders of their own in :mod:`vgpu_scheduler.kube`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from vgpu_scheduler.doctor.findings import ObjectRef
from vgpu_scheduler.kube import DEEPEST, DecodeError, Encoded, decode_json, decode_object, parse_time

_Value = TypeVar("_Value")


class _Object(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An object whose unknown fields are ignored."""


class ManagedField(_Object, frozen=True):
    """An entry of ``managedFields``: when a manager last wrote, by the API server's clock."""

    time: str = ""


class Meta(_Object, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    generation: int = 0
    managed_fields: list[ManagedField] = []


class Variable(_Object, frozen=True):
    """An environment variable of a container; the value is empty if it comes from elsewhere."""

    name: str = ""
    value: str = ""


class ContainerSpec(_Object, frozen=True):
    """A container of a template."""

    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[Variable] = []


class HostPath(_Object, frozen=True):
    """A folder of the node."""

    path: str = ""


class VolumeSpec(_Object, frozen=True):
    """A volume of a template."""

    host_path: HostPath | None = None


class TemplateSpec(_Object, frozen=True):
    """The spec of a workload's pods."""

    service_account_name: str = ""
    service_account: str = ""
    containers: list[ContainerSpec] = []
    volumes: list[VolumeSpec] = []


class Template(_Object, frozen=True):
    """The template of a workload's pods."""

    metadata: Meta = Meta()
    spec: TemplateSpec = TemplateSpec()


class WorkloadSpec(_Object, frozen=True):
    """The spec of a DaemonSet or Deployment."""

    replicas: int = 1
    template: Template = Template()


class WorkloadStatus(_Object, frozen=True):
    """The status of a DaemonSet or Deployment."""

    ready_replicas: int = 0


class Workload(_Object, frozen=True):
    """A DaemonSet or a Deployment."""

    metadata: Meta = Meta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def ref(self, kind: str) -> ObjectRef:
        """Return the reference to it for findings."""
        return ObjectRef(kind, self.metadata.name, self.metadata.namespace)

    @property
    def containers(self) -> list[ContainerSpec]:
        """The containers of its pods."""
        return self.spec.template.spec.containers

    @property
    def account(self) -> str:
        """The service account of its pods."""
        spec = self.spec.template.spec
        return spec.service_account_name or spec.service_account or "default"


class Rule(_Object, frozen=True):
    """A rule of a role."""

    api_groups: list[str] = []
    resources: list[str] = []
    verbs: list[str] = []
    resource_names: list[str] = []


class Role(_Object, frozen=True):
    """A Role or a ClusterRole."""

    metadata: Meta = Meta()
    rules: list[Rule] = []


class RoleRef(_Object, frozen=True):
    """The role that a binding grants."""

    kind: str = ""
    name: str = ""


class Subject(_Object, frozen=True):
    """A subject to which a binding grants a role."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(_Object, frozen=True):
    """A RoleBinding or a ClusterRoleBinding."""

    metadata: Meta = Meta()
    role_ref: RoleRef = RoleRef()
    subjects: list[Subject] = []


class AdmissionPolicySpec(_Object, frozen=True):
    """The spec of an admission policy."""

    failure_policy: str = "Fail"


class AdmissionPolicy(_Object, frozen=True):
    """A ValidatingAdmissionPolicy."""

    metadata: Meta = Meta()
    spec: AdmissionPolicySpec = AdmissionPolicySpec()


class AdmissionBindingSpec(_Object, frozen=True):
    """The spec of a binding of an admission policy."""

    policy_name: str = ""
    validation_actions: list[str] = []
    match_resources: dict[str, Any] | None = None


class AdmissionBinding(_Object, frozen=True):
    """A ValidatingAdmissionPolicyBinding."""

    metadata: Meta = Meta()
    spec: AdmissionBindingSpec = AdmissionBindingSpec()


class StatusCondition(_Object, frozen=True):
    """A condition of an object's status."""

    type: str = ""
    status: str = ""
    message: str = ""
    observed_generation: int = 0


class VersionSchema(_Object, frozen=True):
    """The schema of a version."""

    open_apiv3_schema: dict[str, Any] = msgspec.field(default_factory=dict, name="openAPIV3Schema")


class DefinedVersion(_Object, frozen=True):
    """A version of a custom resource."""

    name: str = ""
    served: bool = False
    schema: VersionSchema = VersionSchema()


class DefinitionSpec(_Object, frozen=True):
    """The spec of a CustomResourceDefinition."""

    versions: list[DefinedVersion] = []


class ConditionedStatus(_Object, frozen=True):
    """A status with only its conditions."""

    conditions: list[StatusCondition] = []

    def condition(self, kind: str) -> StatusCondition | None:
        """Return the condition of a type, None if there is none."""
        return next((found for found in self.conditions if found.type == kind), None)


class Definition(_Object, frozen=True):
    """A CustomResourceDefinition."""

    metadata: Meta = Meta()
    spec: DefinitionSpec = DefinitionSpec()
    status: ConditionedStatus = ConditionedStatus()


class LeaseSpec(_Object, frozen=True):
    """The holder of a Lease."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    renew_time: str = ""


class Lease(_Object, frozen=True):
    """A Lease."""

    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def renewed(self) -> datetime | None:
        """When the holder renewed it, by the holder's clock."""
        return parse_time(self.spec.renew_time, assumed=UTC)

    @property
    def written(self) -> datetime | None:
        """When it was last written, by the API server's clock (whole seconds); None if not known."""
        times = (parse_time(field.time, assumed=UTC) for field in self.metadata.managed_fields)
        return max((time for time in times if time), default=None)


class SliceSpec(_Object, frozen=True):
    """The driver and node of a ResourceSlice."""

    driver: str = ""
    node_name: str = ""


class ResourceSlice(_Object, frozen=True):
    """A ResourceSlice: devices that a driver of dynamic resource allocation offers."""

    metadata: Meta = Meta()
    spec: SliceSpec = SliceSpec()


class PolicyObjectStatus(ConditionedStatus, frozen=True):
    """The status of a policy, with its recorded evictions undecoded."""

    evictions: Any = None


class PolicyObject(_Object, frozen=True):
    """A VGPUPolicy or ClusterVGPUPolicy, with its spec undecoded."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = {}
    status: PolicyObjectStatus = PolicyObjectStatus()


def decoder(kind: str, value: type[_Value]) -> Callable[[Encoded], _Value]:
    """Return a decoder for objects of a kind.

    It raises :class:`DecodeError` if a field that is used has the wrong type; the message names the field.
    """
    typed = msgspec.json.Decoder(value)

    def decode(obj: Encoded) -> _Value:
        try:
            found = decode_json(obj) if isinstance(obj, bytes | msgspec.Raw) else obj
        except ValueError as error:
            raise DecodeError(kind, "", "", str(error)) from None
        return decode_object(_without_nulls(found), kind, typed, lambda read: read)

    return decode


def decode_workload(obj: Encoded) -> Workload:
    """Decode a DaemonSet or a Deployment.

    Raises
    ------
    DecodeError
        If a field that is used has the wrong type.
    """
    return _workload(obj)


def _without_nulls(value: Any, levels: int = DEEPEST) -> Any:
    """Drop null values, which Go writes for absent ones; values nested too deeply, which nobody reads, become 0."""
    if not isinstance(value, Mapping | list):
        return value
    if not levels:
        return 0
    if isinstance(value, list):
        return [_without_nulls(item, levels - 1) for item in value if item is not None]
    return {key: _without_nulls(item, levels - 1) for key, item in value.items() if item is not None}


_workload = decoder("workload", Workload)
