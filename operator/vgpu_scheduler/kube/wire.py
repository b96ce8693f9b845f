"""Typed forms of the fields of Kubernetes objects that are read, as the API writes them.

msgspec skips all fields that are not named here, so these structs list all fields that this program reads. Only types
are validated, not what the API server already guarantees. Everything here is private to this package.
"""

from datetime import datetime
from typing import Any

import msgspec

from vgpu_scheduler.kube.selectors import RawRequirement
from vgpu_scheduler.kube.taints import Toleration
from vgpu_scheduler.model import quoted

_MOST_DIGITS = 18
"""Maximum digits of a resource version; etcd's 63-bit revisions never get longer in practice."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Quantities = dict[str, str | int | float]


class FieldError(ValueError):
    """A field with the right type but an invalid value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base class: camel case on the wire; defaults are left out of fingerprints."""


class WireOwner(Wire):
    """An owner reference."""

    uid: str = ""
    kind: str = ""
    controller: bool | None = None


class WireIdentity(Wire):
    """``ObjectMeta`` with only the identity."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def version(self) -> int:
        """The resource version as a number; 0 without one.

        Since 1.35 Kubernetes guarantees comparable decimal numbers, which etcd's revisions always were.

        Raises
        ------
        FieldError
            If it is not a number.
        """
        text = self.resource_version
        if not text:
            return 0
        if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
            raise FieldError("metadata.resourceVersion", f"{quoted(text)} is not a number")
        return int(text)


class WireMeta(WireIdentity):
    """``ObjectMeta``."""

    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[WireOwner] | None = None


class WirePartial(Wire):
    """An object of any kind with only its identity."""

    metadata: WireIdentity


class WirePlace(Wire):
    """``PodSpec`` with only the node name."""

    node_name: str = ""


class WirePlacedPod(Wire):
    """A pod with only its identity and its node."""

    metadata: WireIdentity
    spec: WirePlace


class WireResources(Wire):
    """``ResourceRequirements`` of a container, a pod or a status."""

    limits: Quantities | None = None
    requests: Quantities | None = None


class WirePort(Wire):
    """A container port with only the host port."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class WireRestartRule(Wire):
    """A container restart rule."""

    action: str = ""


class WireContainer(Wire):
    """A container of the spec."""

    name: str
    image: str | None = None
    restart_policy: str | None = None
    resources: WireResources | None = None
    ports: list[WirePort] | None = None
    restart_policy_rules: list[WireRestartRule] | None = None


class WireNodeSelectorTerm(Wire):
    """A term of a node affinity."""

    match_expressions: list[RawRequirement] | None = None
    match_fields: list[RawRequirement] | None = None


class WireNodeSelector(Wire):
    """The required part of a node affinity."""

    node_selector_terms: list[WireNodeSelectorTerm] | None = None


class WirePreferredNodes(Wire):
    """A term of a preferred node affinity."""

    weight: int = 0
    preference: WireNodeSelectorTerm = msgspec.field(default_factory=WireNodeSelectorTerm)


class WireNodeAffinity(Wire):
    """``nodeAffinity``."""

    required: WireNodeSelector | None = msgspec.field(default=None, name=REQUIRED)
    preferred: list[WirePreferredNodes] | None = msgspec.field(default=None, name=PREFERRED)


class WireLabelSelector(Wire):
    """``LabelSelector``."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[RawRequirement] | None = None


class WirePodTerm(Wire):
    """A term of an inter-pod affinity or anti-affinity."""

    topology_key: str = ""
    label_selector: WireLabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: WireLabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WireWeightedPodTerm(Wire):
    """A term of a preferred inter-pod affinity or anti-affinity."""

    weight: int = 0
    pod_affinity_term: WirePodTerm = msgspec.field(default_factory=WirePodTerm)


class WirePodAffinity(Wire):
    """``podAffinity`` or ``podAntiAffinity``."""

    required: list[WirePodTerm] | None = msgspec.field(default=None, name=REQUIRED)
    preferred: list[WireWeightedPodTerm] | None = msgspec.field(default=None, name=PREFERRED)


class WireAffinity(Wire):
    """``spec.affinity``."""

    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class WireSpread(Wire):
    """A topology spread constraint."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: WireLabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class WireTerm(Wire):
    """A value of which only the presence is read."""


class WireGate(Wire):
    """A scheduling gate."""

    name: str


class WirePodSpec(Wire):
    """``PodSpec``."""

    containers: list[WireContainer]
    init_containers: list[WireContainer] | None = None
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: WireAffinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[WireGate] | None = None
    overhead: Quantities | None = None
    resources: WireResources | None = None
    topology_spread_constraints: list[WireSpread] | None = None
    # Volumes stay untyped, so that unknown sources are detected, not skipped.
    volumes: list[dict[str, Any]] | None = None
    resource_claims: list[WireTerm] | None = None
    # Also untyped, so that unknown ways to name a group are detected.
    scheduling_group: dict[str, Any] | None = None
    workload_ref: WireTerm | None = None
    host_network: bool = False
    host_users: bool | None = None


class WireCondition(Wire):
    """A condition of a pod or a node."""

    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None


class WireContainerStatus(Wire):
    """``ContainerStatus``."""

    name: str
    resources: WireResources | None = None
    allocated_resources: Quantities | None = None


class WirePodStatus(Wire):
    """``PodStatus``."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: datetime | None = None
    conditions: list[WireCondition] | None = None
    container_statuses: list[WireContainerStatus] | None = None
    init_container_statuses: list[WireContainerStatus] | None = None
    resources: WireResources | None = None
    allocated_resources: Quantities | None = None


class WirePod(Wire):
    """A pod."""

    metadata: WireMeta
    spec: WirePodSpec
    status: WirePodStatus = msgspec.field(default_factory=WirePodStatus)


class WireTaint(Wire):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class WireNodeSpec(Wire):
    """``NodeSpec``."""

    unschedulable: bool = False
    taints: list[WireTaint] | None = None


class WireImage(Wire):
    """An image on a node."""

    names: list[str] | None = None
    size_bytes: int = 0


class WireNodeStatus(Wire):
    """``NodeStatus``."""

    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[WireCondition] | None = None
    images: list[WireImage] | None = None
    declared_features: list[str] | None = None


class WireNode(Wire):
    """A node."""

    metadata: WireMeta
    spec: WireNodeSpec = msgspec.field(default_factory=WireNodeSpec)
    status: WireNodeStatus = msgspec.field(default_factory=WireNodeStatus)


class WireListMeta(Wire):
    """``ListMeta``."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class WireList(Wire):
    """A list; its items are decoded one by one, so that an error can name its object."""

    metadata: WireListMeta = msgspec.field(default_factory=WireListMeta)
    items: list[msgspec.Raw] | None = None


class WireEvent(Wire):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class WireBookmark(Wire):
    """The object of a BOOKMARK."""

    metadata: WireListMeta = msgspec.field(default_factory=WireListMeta)
