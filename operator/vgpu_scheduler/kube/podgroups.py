"""PodGroup objects: those of coscheduling and Volcano, and Kubernetes' own."""

from __future__ import annotations

from functools import cache, partial
from typing import Final, Literal

import msgspec

from vgpu_scheduler.kube.decoding import Decode, Encoded, decoder_of
from vgpu_scheduler.kube.objects import Condition
from vgpu_scheduler.kube.wire import FieldError, Wire, WireCondition, WireMeta, WireTerm

_MOST: Final = 2**31 - 1

VOLCANO_GROUP_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""The annotations with which pods name their Volcano group; the first that is set counts."""


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """An object that describes a group of pods.

    Attributes
    ----------
    kind
        ``PodGroup`` with its API group (Kubernetes' own also with its version), because several kinds have that name.
    resource_version
        Version of the object; 0 if it has none (a file).
    minimum
        How many pods of the group must be placed together; 0 if each is placed by itself.
    generation
        ``metadata.generation``, the number of spec changes.
    priority, priority_class
        The priority of all pods of the group, None if unset, and the priority class.
    topology
        Node label keys: all pods must be on nodes with the same value of each.
    disrupted_whole
        Whether its pods may only be disrupted all together.
    unsupported
        The field with an unsupported request; empty if there is none.
    condition
        Its scheduling condition; None if it has none.
    """

    kind: str
    uid: str
    namespace: str
    name: str
    resource_version: int
    minimum: int
    generation: int = 0
    priority: int | None = None
    priority_class: str = ""
    topology: tuple[str, ...] = ()
    disrupted_whole: bool = False
    unsupported: str = ""
    condition: Condition | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class _WireNetworkTopology(Wire):
    mode: str = "hard"


class _WireSpec(Wire):
    min_member: int = 1
    network_topology: _WireNetworkTopology | None = None


class _WirePodGroup(Wire):
    metadata: WireMeta
    spec: _WireSpec | None = None


def _build(kind: str, wire: _WirePodGroup) -> PodGroup:
    meta, spec = wire.metadata, wire.spec or _WireSpec()
    is_fixed = spec.network_topology is not None and spec.network_topology.mode != "soft"
    return PodGroup(
        kind=kind,
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        resource_version=meta.version,
        minimum=_number(spec.min_member, 0, "spec.minMember"),
        unsupported="spec.networkTopology, unless its mode is soft," if is_fixed else "",
    )


def _number(minimum: int, least: int, field: str) -> int:
    if not least <= minimum <= _MOST:
        raise FieldError(field, f"{minimum} is not a number of pods")
    return minimum


@cache
def _decoder(kind: str) -> Decode[PodGroup]:
    return decoder_of(kind, _WirePodGroup, partial(_build, kind))


def decode_pod_group(kind: str, obj: Encoded) -> PodGroup:
    """Decode a PodGroup with ``spec.minMember``.

    Volcano's PodGroups may require topologies of its HyperNodes, which are not supported.

    Parameters
    ----------
    kind
        Its kind, with its API group.

    Raises
    ------
    DecodeError
        If it cannot be read.
    """
    return _decoder(kind)(obj)


# Kubernetes' own -----------------------------------------------------------------------------------------------------
# Unknown fields of policies and constraints are errors, because ignoring them could place the pods wrongly.


class _WireGang(Wire, forbid_unknown_fields=True):
    min_count: int


class _WirePolicy(Wire, forbid_unknown_fields=True):
    basic: WireTerm | None = None
    gang: _WireGang | None = None


class _WireTopology(Wire, forbid_unknown_fields=True):
    key: str


class _WireConstraints(Wire, forbid_unknown_fields=True):
    topology: list[_WireTopology] | None = None


class _WireDisruption(Wire, forbid_unknown_fields=True):
    single: WireTerm | None = None
    all: WireTerm | None = None


class _WireNativeSpec(Wire):
    scheduling_policy: _WirePolicy
    scheduling_constraints: _WireConstraints | None = None
    disruption_mode: Literal["Pod", "PodGroup"] | _WireDisruption | None = None
    priority: int | None = None
    priority_class_name: str = ""
    parent_composite_pod_group_name: str | None = None


class _WireNativeStatus(Wire):
    conditions: list[WireCondition] | None = None


class _WireNativePodGroup(Wire):
    metadata: WireMeta
    spec: _WireNativeSpec
    status: _WireNativeStatus = msgspec.field(default_factory=_WireNativeStatus)


def _build_native(kind: str, condition: str, wire: _WireNativePodGroup) -> PodGroup:
    meta, spec = wire.metadata, wire.spec
    constraints, mode = spec.scheduling_constraints or _WireConstraints(), spec.disruption_mode
    found = next((each for each in wire.status.conditions or () if each.type == condition), None)
    return PodGroup(
        kind=kind,
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        resource_version=meta.version,
        minimum=_policy_minimum(spec.scheduling_policy),
        generation=meta.generation,
        priority=spec.priority,
        priority_class=spec.priority_class_name,
        topology=tuple(each.key for each in constraints.topology or ()),
        disrupted_whole=mode.all is not None if isinstance(mode, _WireDisruption) else mode == "PodGroup",
        unsupported="spec.parentCompositePodGroupName" if spec.parent_composite_pod_group_name else "",
        condition=None if found is None else Condition(found.status, found.reason or "", found.message or ""),
    )


def _policy_minimum(policy: _WirePolicy) -> int:
    if (policy.basic is None) is (policy.gang is None):
        raise FieldError("spec.schedulingPolicy", "must say one of basic and gang")
    return 0 if policy.gang is None else _number(policy.gang.min_count, 1, "spec.schedulingPolicy.gang.minCount")


@cache
def _native_decoder(kind: str, condition: str) -> Decode[PodGroup]:
    return decoder_of(kind, _WireNativePodGroup, partial(_build_native, kind, condition))


def decode_native_pod_group(kind: str, condition: str, obj: Encoded) -> PodGroup:
    """Decode Kubernetes' own PodGroup, of 1.36 (``v1alpha2``) or 1.37 (``v1beta1``).

    Parameters
    ----------
    kind
        Its kind, with its version and its API group.
    condition
        The type of its scheduling condition.

    Raises
    ------
    DecodeError
        If it cannot be read, or has an unknown policy, constraint or disruption mode.
    """
    return _native_decoder(kind, condition)(obj)
