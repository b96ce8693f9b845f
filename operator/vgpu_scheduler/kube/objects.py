"""Pods and nodes as immutable, parsed values, with images, and device inventories of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Any, Final

import msgspec

from vgpu_scheduler.kube.podterms import PodTerm, PreferredNodes, PreferredPods
from vgpu_scheduler.kube.podvolumes import ClaimVolume, InlineDisk
from vgpu_scheduler.kube.selectors import NodeSelector
from vgpu_scheduler.kube.spread import SpreadConstraint
from vgpu_scheduler.kube.taints import Taint, Toleration
from vgpu_scheduler.kube.times import parse_time
from vgpu_scheduler.kube.wire import WireImage, WirePodSpec
from vgpu_scheduler.model import ContainerType


class Image(msgspec.Struct, frozen=True):
    """An image on a node: its names and its size in bytes. Equal images are one object."""

    names: tuple[str, ...]
    size: int


_LONGEST: Final = 2048
"""Images with more characters in their names are not cached, to limit the memory."""


@lru_cache(maxsize=16384)
def _image(names: tuple[str, ...], size: int) -> Image:
    return Image(names, size)


def node_images(images: Iterable[WireImage]) -> tuple[Image, ...]:
    """Return the images of a node; nodes list the 50 largest."""
    return tuple(
        (_image if sum(map(len, image.names or ())) <= _LONGEST else Image)(tuple(image.names or ()), image.size_bytes)
        for image in images
    )


def image_name(name: str) -> str:
    """Return an image's name with its tag or digest, or with ``latest`` if it has neither."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def pod_images(wire: WirePodSpec) -> Iterator[str]:
    """Yield the names of the images of a pod: of init containers, containers, then image volumes."""
    for container in (*(wire.init_containers or ()), *wire.containers):
        yield image_name(container.image or "")
    for volume in wire.volumes or ():
        reference = _reference(volume.get("image"))
        if reference is not None:
            yield image_name(reference)


def _reference(source: Any) -> str | None:
    reference = source.get("reference", "") if isinstance(source, dict) else None
    return reference if isinstance(reference, str) else None


ANY_ADDRESS: Final = str(IPv4Address(0))
"""0.0.0.0, the address of host ports on all addresses of the node."""


class Container(msgspec.Struct, frozen=True, gc=False):
    """The scheduling-relevant fields of a container.

    Attributes
    ----------
    name
        Its name in the pod.
    type
        When it runs.
    limits, requests
        Quantities as written, per resource.
    """

    name: str
    type: ContainerType
    limits: Mapping[str, str]
    requests: Mapping[str, str]


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node that a container takes.

    Attributes
    ----------
    protocol, ip, port
        The port; the IP :data:`ANY_ADDRESS` means all addresses.
    """

    protocol: str
    ip: str
    port: int


class PodSpec(msgspec.Struct, frozen=True, eq=False, weakref=True, kw_only=True):
    """The scheduling-relevant part of a pod's spec. Pods with equal parts share one object, so identity is a cache key.

    Attributes
    ----------
    fingerprint
        Digest (16 bytes) of everything below.
    node_fingerprint
        Digest (16 bytes) of the fields that concern single nodes: without inter-pod terms, spread constraints and
        volumes, which may differ among replicas.
    size, node_size
        Maximum bytes of all fields, and of the fields that concern single nodes.
    containers
        Init containers first, then app containers, in the order of the pod.
    requests
        Effective request of the pod: cpu in milli, all others in whole units, zeros left out.
    tolerations, node_selector, scheduling_gates
        As in the spec.
    node_affinity
        The required node affinity; None if there is none.
    host_ports
        Ports of the node that containers take.
    volume_claims
        The volumes that refer to claims, in the order of the pod.
    disks
        The inline in-tree disks of the pod.
    unknown_volumes
        Index and source of each volume of an unknown type, which may restrict nodes.
    required_pod_affinity, required_pod_anti_affinity
        The required inter-pod terms.
    terms_problem
        Why an inter-pod term or a spread constraint is invalid; empty if all are valid.
    hard_spread, soft_spread
        The topology spread constraints that filter nodes, and those that only score them.
    resource_claims
        Number of dynamic resource claims.
    pod_group_field
        The field that names a group in an unsupported way; empty if there is none.
    required_features
        The node features that the pod requires, sorted.
    preferred_nodes, preferred_pods
        The preferred terms of its node affinity, and its preferred inter-pod terms.
    preferences_problem
        Why a preferred node affinity is invalid; empty if all are valid. It matters only for scoring.
    images
        The images of the pod, with their tags: one per container, then those of volumes.
    unrequested
        The cpu (milli) and memory (bytes) that scores add to ``requests`` for containers without requests.
    """

    fingerprint: bytes
    node_fingerprint: bytes
    size: int = 0
    node_size: int = 0
    containers: tuple[Container, ...]
    requests: Mapping[str, int]
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str]
    node_affinity: NodeSelector | None = None
    scheduling_gates: tuple[str, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volume_claims: tuple[ClaimVolume, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    unknown_volumes: tuple[tuple[int, str], ...] = ()
    required_pod_affinity: tuple[PodTerm, ...] = ()
    required_pod_anti_affinity: tuple[PodTerm, ...] = ()
    terms_problem: str = ""
    hard_spread: tuple[SpreadConstraint, ...] = ()
    soft_spread: tuple[SpreadConstraint, ...] = ()
    resource_claims: int = 0
    pod_group_field: str = ""
    required_features: tuple[str, ...] = ()
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    preferred_pods: tuple[PreferredPods, ...] = ()
    preferences_problem: str = ""
    images: tuple[str, ...] = ()
    unrequested: tuple[int, int] = (0, 0)

    @property
    def resource_names(self) -> dict[str, None]:
        """The names of the resources that containers request, each once, in the order of the pod."""
        return dict.fromkeys(
            name for each in self.containers for given in (each.limits, each.requests) for name in given
        )

    @property
    def init_containers(self) -> tuple[Container, ...]:
        """The init containers without sidecars."""
        return tuple(c for c in self.containers if c.type is ContainerType.INIT)


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A condition of an object: its status (``True``, ``False``, ``Unknown``), reason and message."""

    status: str
    reason: str
    message: str


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod.

    Attributes
    ----------
    resource_version
        Version of the object; 0 if it has none (a file).
    owner, owner_kind
        UID and kind of its controller, empty if none.
    start_time
        ``status.startTime`` in seconds since the epoch; None if unset.
    disruption
        The reason of its ``DisruptionTarget`` condition, if that is true; empty if not.
    rejection
        The kubelet's reason for not admitting it; empty if it was admitted, or the kubelet has not decided yet.
    pod_group
        ``spec.schedulingGroup.podGroupName``, empty if unset.
    generation
        ``metadata.generation``, the number of spec changes; 0 before Kubernetes 1.33.
    node_name
        The node that it is bound to, empty if it is not bound.
    nominated_node_name
        The node that preemption made room on, empty if none.
    priority
        ``spec.priority``, 0 if unset.
    creation_timestamp
        RFC 3339, as written.
    deleting
        Whether it has a deletion timestamp.
    ends_by
        The end of its grace period in seconds since the epoch, if it is being deleted.
    started
        Whether the node has reported a status of any of its containers.
    scheduled_condition
        Its ``PodScheduled`` condition.
    spec
        The scheduling-relevant part of its spec.
    resized_requests
        What it holds while an in-place resize makes that differ from ``spec.requests``; None otherwise.
    """

    uid: str
    namespace: str
    name: str
    resource_version: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler_name: str
    node_name: str
    nominated_node_name: str
    phase: str
    priority: int
    preemption_policy: str
    creation_timestamp: str
    deleting: bool
    started: bool
    scheduled_condition: Condition | None
    spec: PodSpec
    resized_requests: Mapping[str, int] | None = None
    generation: int = 0
    owner: str = ""
    owner_kind: str = ""
    start_time: int | None = None
    ends_by: int | None = None
    disruption: str = ""
    rejection: str = ""
    pod_group: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def created_at(self) -> float | None:
        """When it was created, in seconds since the epoch; None if unknown or malformed."""
        found = parse_time(self.creation_timestamp, assumed=UTC)
        return None if found is None else found.timestamp()

    @property
    def terminal(self) -> bool:
        """Whether it has succeeded or failed, so that it holds no resources any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_static(self) -> bool:
        """Whether it is a mirror of a static pod, which the API server cannot end."""
        return "kubernetes.io/config.mirror" in self.annotations

    @property
    def is_of_daemon_set(self) -> bool:
        """Whether a DaemonSet recreates it on the same node when it ends."""
        return self.owner_kind == "DaemonSet"

    @property
    def is_node_bound(self) -> bool:
        """Whether its kubelet or a DaemonSet recreates it on the same node when it ends."""
        return self.is_static or self.is_of_daemon_set or self.owner_kind == "Node"

    @property
    def used_requests(self) -> Mapping[str, int]:
        """The requests that count on its node, with an in-place resize taken into account."""
        return self.spec.requests if self.resized_requests is None else self.resized_requests

    def as_created(self) -> Pod:
        """Return a copy as it was before it was placed."""
        return msgspec.structs.replace(
            self,
            node_name="",
            nominated_node_name="",
            phase="Pending",
            deleting=False,
            started=False,
            start_time=None,
            ends_by=None,
            disruption="",
            rejection="",
            resized_requests=None,
            scheduled_condition=None,
        )


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node.

    Attributes
    ----------
    resource_version
        Version of the object; 0 if it has none (a file).
    taints
        Its taints in the order of the spec; equal taints are one object.
    allocatable
        Allocatable amounts: cpu in milli, all others in whole units; only resources that kube-scheduler compares.
    capacity
        Capacity of extended resources, in whole units.
    ready
        Its ``Ready`` condition; None if unknown.
    deleting
        Whether it has a deletion timestamp.
    declared_features
        The features that it declares, sorted; equal tuples are one object.
    images
        The images on the node.
    """

    name: str
    uid: str
    resource_version: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    unschedulable: bool
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, int]
    ready: bool | None
    deleting: bool
    capacity: Mapping[str, int] = {}
    declared_features: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """The object that lists the devices of one node; its name is the node's name.

    Attributes
    ----------
    content
        The parsed JSON of the object; a dialect reads it.
    """

    name: str
    content: Mapping[str, Any]
    uid: str = ""
    resource_version: int = 0
