"""Decoding of pods, and the interning of :class:`PodSpec`, the scheduling-relevant part of a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from hashlib import blake2b
from sys import intern
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from vgpu_scheduler.kube.decoding import Decode, SharedMaps, decoder_of
from vgpu_scheduler.kube.objects import ANY_ADDRESS, Condition, Container, HostPort, Pod, PodSpec, pod_images
from vgpu_scheduler.kube.podterms import PodTerm, compile_pod_terms, compile_preferred_nodes, compile_preferred_pods
from vgpu_scheduler.kube.podvolumes import PodVolumes, read_pod_volumes
from vgpu_scheduler.kube.quantities import QuantityError, pod_requests, to_nano, unrequested
from vgpu_scheduler.kube.rejections import kubelet_rejection
from vgpu_scheduler.kube.selectors import NodeSelector, compile_node_selector
from vgpu_scheduler.kube.spread import compile_spread
from vgpu_scheduler.kube.times import parse_time
from vgpu_scheduler.kube.wire import (
    REQUIRED,
    FieldError,
    Quantities,
    WireContainer,
    WireMeta,
    WireOwner,
    WirePod,
    WirePodSpec,
    WirePodStatus,
)
from vgpu_scheduler.model import BoundedCache, ContainerType

_MOST_BYTES: Final = 32 * 2**20
"""Bytes that cached specs may take, for the next pods of their workloads: about 5,000 specs of the usual size."""
_BYTES_PER_BYTE: Final = 24
"""Maximum bytes of a spec per byte of its encoding, reached by specs of many short terms."""

_GROUP_NAME: Final = "podGroupName"

_encoder: Final = msgspec.msgpack.Encoder()
# The weak table keeps specs unique while any pod uses them; the bounded cache keeps recent specs alive between the
# pods of a workload.
_live: Final[WeakValueDictionary[bytes, PodSpec]] = WeakValueDictionary()
_recent: Final[BoundedCache[bytes, PodSpec]] = BoundedCache(_MOST_BYTES)


def intern_pod_spec(wire: WirePodSpec) -> PodSpec:
    """Return the scheduling-relevant part of a spec; equal specs share one object.

    Volumes that do not restrict nodes are ignored: the service account token's volume has a random name in every pod.
    The name of the pod's group is ignored too.

    Raises
    ------
    FieldError
        If a quantity or a volume is invalid.
    """
    volumes = read_pod_volumes(wire.volumes or ())
    image_volumes = [volume["image"] for volume in wire.volumes or () if "image" in volume]
    group_field = _pod_group_field(wire)
    shape = (
        wire.containers, wire.init_containers, wire.node_selector, wire.affinity, wire.tolerations,
        wire.scheduling_gates, wire.overhead, wire.resources, wire.topology_spread_constraints, volumes,
        wire.resource_claims, group_field, wire.host_network, wire.host_users,
        image_volumes,
    )  # fmt: skip
    encoded = _encoder.encode(shape)
    fingerprint = blake2b(encoded, digest_size=16).digest()
    spec = _live.get(fingerprint)
    if spec is None:
        spec = _build(wire, fingerprint, len(encoded) * _BYTES_PER_BYTE, volumes, group_field)
        _live[fingerprint] = spec
    if _recent.get(fingerprint) is None:
        _recent.put(fingerprint, spec, spec.size)
    return spec


def _node_fingerprint(wire: WirePodSpec) -> tuple[bytes, int]:
    """Return a digest of what a pod asks of single nodes, and the maximum bytes that this takes."""
    node_affinity = wire.affinity.node_affinity if wire.affinity else None
    containers = [
        [msgspec.structs.replace(container, image=None) for container in group or ()]
        for group in (wire.containers, wire.init_containers)
    ]
    encoded = _encoder.encode((
        containers, wire.node_selector, node_affinity.required if node_affinity else None,
        wire.tolerations, wire.overhead, wire.resources,
    ))  # fmt: skip
    return blake2b(encoded, digest_size=16).digest(), len(encoded) * _BYTES_PER_BYTE


def _each_container(wire: WirePodSpec) -> Iterator[tuple[str, ContainerType, WireContainer]]:
    """Yield field, kind and container, init containers first."""
    for index, container in enumerate(wire.init_containers or ()):
        kind = ContainerType.SIDECAR if container.restart_policy == "Always" else ContainerType.INIT
        yield f"spec.initContainers[{index}]", kind, container
    for index, container in enumerate(wire.containers):
        yield f"spec.containers[{index}]", ContainerType.APP, container


def _nanos(quantities: Quantities | Mapping[str, str] | None, field: str) -> dict[str, int]:
    """Return quantities in nanos.

    Raises
    ------
    FieldError
        If an entry is not a quantity; it names the entry.
    """
    nanos: dict[str, int] = {}
    for name, text in (quantities or {}).items():
        try:
            nanos[name] = to_nano(text)
        except QuantityError as error:
            raise FieldError(f"{field}[{name}]", str(error)) from error
    return nanos


def _texts(quantities: Quantities | None) -> dict[str, str]:
    return {name: str(text) for name, text in (quantities or {}).items()}


def _build(wire: WirePodSpec, fingerprint: bytes, size: int, volumes: PodVolumes, group_field: str) -> PodSpec:
    containers: list[Container] = []
    asked: list[tuple[ContainerType, dict[str, int]]] = []
    for field, kind, container in _each_container(wire):
        resources = container.resources
        requests = resources.requests if resources else None
        limits = resources.limits if resources else None
        _nanos(limits, f"{field}.resources.limits")
        asked.append((kind, _nanos(requests, f"{field}.resources.requests")))
        containers.append(Container(container.name, kind, _texts(limits), _texts(requests)))
    affinity, affinity_problem = _pod_terms(wire, "podAffinity")
    anti_affinity, anti_affinity_problem = _pod_terms(wire, "podAntiAffinity")
    preferred_pods, preferred_problem = compile_preferred_pods(wire.affinity)
    preferred_nodes, preferences_problem = compile_preferred_nodes(wire.affinity)
    spread, spread_problem = compile_spread(wire.topology_spread_constraints or ())
    node_fingerprint, node_size = _node_fingerprint(wire)
    requested = asked, _pod_level(wire), _nanos(wire.overhead, "spec.overhead")
    return PodSpec(
        fingerprint=fingerprint,
        node_fingerprint=node_fingerprint,
        size=size,
        node_size=node_size,
        containers=tuple(containers),
        requests=pod_requests(*requested),
        tolerations=tuple(wire.tolerations or ()),
        node_selector=wire.node_selector or {},
        node_affinity=_node_affinity(wire),
        scheduling_gates=tuple(gate.name for gate in wire.scheduling_gates or ()),
        host_ports=tuple(_host_ports(wire)),
        volume_claims=volumes.claims,
        disks=volumes.disks,
        unknown_volumes=volumes.unknown,
        required_pod_affinity=affinity,
        required_pod_anti_affinity=anti_affinity,
        terms_problem=affinity_problem or anti_affinity_problem or preferred_problem or spread_problem,
        hard_spread=tuple(constraint for constraint in spread if constraint.hard),
        soft_spread=tuple(constraint for constraint in spread if not constraint.hard),
        resource_claims=len(wire.resource_claims or ()),
        pod_group_field=group_field,
        required_features=tuple(sorted(set(_required_features(wire)))),
        preferred_nodes=preferred_nodes,
        preferred_pods=preferred_pods,
        preferences_problem=preferences_problem,
        images=tuple(pod_images(wire)),
        unrequested=unrequested(*requested),
    )


def _pod_level(wire: WirePodSpec) -> dict[str, int]:
    return _nanos(wire.resources.requests if wire.resources else None, "spec.resources.requests")


def _node_affinity(wire: WirePodSpec) -> NodeSelector | None:
    node_affinity = wire.affinity.node_affinity if wire.affinity else None
    if node_affinity is None or node_affinity.required is None:
        return None
    terms = node_affinity.required.node_selector_terms or ()
    return compile_node_selector((term.match_expressions or (), term.match_fields or ()) for term in terms)


def _pod_terms(wire: WirePodSpec, kind: str) -> tuple[tuple[PodTerm, ...], str]:
    if wire.affinity is None:
        return (), ""
    found = wire.affinity.pod_affinity if kind == "podAffinity" else wire.affinity.pod_anti_affinity
    return compile_pod_terms((found.required if found else None) or (), f"spec.affinity.{kind}.{REQUIRED}")


def _host_ports(wire: WirePodSpec) -> Iterator[HostPort]:
    # Like the API server and kube-scheduler, count only app containers and sidecars.
    for _, kind, container in _each_container(wire):
        for port in container.ports or ():
            if port.host_port > 0 and kind is not ContainerType.INIT:
                yield HostPort(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port)


def _pod_group(wire: WirePodSpec) -> str:
    """Return the name of the pod's PodGroup; empty if it names none, or also names a group in an unsupported way."""
    name = (wire.scheduling_group or {}).get(_GROUP_NAME)
    return name if isinstance(name, str) and not _pod_group_field(wire) else ""


def _pod_group_field(wire: WirePodSpec) -> str:
    """Return the field that names a group in an unsupported way; empty if there is none."""
    if wire.scheduling_group is not None:
        said = {key: value for key, value in wire.scheduling_group.items() if value is not None}
        name = said.pop(_GROUP_NAME, None)
        if said or not name or not isinstance(name, str):
            return ".".join(("spec.schedulingGroup", *sorted(said)[:1]))
    return "spec.workloadRef" if wire.workload_ref is not None else ""


def _required_features(wire: WirePodSpec) -> Iterator[str]:
    """Yield the node features that kube-scheduler's NodeDeclaredFeatures infers from a pod."""
    for _, _, container in _each_container(wire):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules or ()):
            yield "RestartAllContainersOnContainerExits"
    if wire.host_network and wire.host_users is False:
        yield "UserNamespacesHostNetworkSupport"


def resized_requests(wire: WirePodSpec, status: WirePodStatus, spec: PodSpec) -> dict[str, int] | None:
    """Return what a pod holds on its node, if an in-place resize makes that differ from the requests of its spec.

    Per container it is the maximum of the spec's, the allocated and the actuated requests; the spec's are ignored while
    the kubelet reports the resize as infeasible (``determineContainerReqs`` of component-helpers).

    Parameters
    ----------
    wire, status
        Spec and status of the pod.
    spec
        The interned form of ``wire``.

    Returns
    -------
    dict of str to int or None
        Amount per resource as in ``spec.requests``; None if it equals ``spec.requests``.

    Raises
    ------
    FieldError
        If a quantity is invalid.
    """
    pending = next((c.reason for c in status.conditions or () if c.type == "PodResizePending"), None)
    infeasible = pending == "Infeasible"
    if not infeasible and _as_asked(wire, status):
        return None
    reported: dict[str, dict[str, int]] = {}
    for field, statuses in (
        ("status.containerStatuses", status.container_statuses),
        ("status.initContainerStatuses", status.init_container_statuses),
    ):
        for index, entry in enumerate(statuses or ()):
            if entry.resources is not None:
                allocated = _nanos(entry.allocated_resources, f"{field}[{index}].allocatedResources")
                actuated = _nanos(entry.resources.requests, f"{field}[{index}].resources.requests")
                reported[entry.name] = _largest(allocated, actuated)
    held: list[tuple[ContainerType, dict[str, int]]] = []
    for container in spec.containers:
        asked = _nanos(container.requests, container.name)
        now = reported.get(container.name)
        if now is not None and container.type is not ContainerType.INIT:
            asked = now if infeasible else _largest(asked, now)
        held.append((container.type, asked))
    used = pod_requests(
        held, _resized_pod_level(wire, status, infeasible=infeasible), _nanos(wire.overhead, "spec.overhead")
    )
    return None if used == spec.requests else used


def _as_asked(wire: WirePodSpec, status: WirePodStatus) -> bool:
    """Tell whether the status repeats the requests of the spec verbatim, as for all pods that are not being resized."""
    if status.resources is not None and wire.resources is not None:
        return False
    asked = {container.name: container.resources for container in wire.containers}
    if status.init_container_statuses:
        asked.update((container.name, container.resources) for container in wire.init_containers or ())
    for statuses in (status.container_statuses, status.init_container_statuses):
        for entry in statuses or ():
            if entry.resources is None:
                continue
            resources = asked.get(entry.name)
            requests = (resources.requests if resources else None) or {}
            if (entry.resources.requests or requests) != requests or (
                entry.allocated_resources or requests
            ) != requests:
                return False
    return True


def _resized_pod_level(wire: WirePodSpec, status: WirePodStatus, *, infeasible: bool) -> dict[str, int]:
    asked = _pod_level(wire)
    if not asked or status.resources is None:
        return asked
    held = _largest(
        _nanos(status.allocated_resources, "status.allocatedResources"),
        _nanos(status.resources.requests, "status.resources.requests"),
    )
    # Only resources that the spec sets at pod level replace the containers' sums.
    if infeasible:
        return {name: held.get(name, 0) for name in asked}
    return {name: max(nanos, held.get(name, 0)) for name, nanos in asked.items()}


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


_labels: Final = SharedMaps()


def _pod(wire: WirePod) -> Pod:
    meta, pod, status = wire.metadata, wire.spec, wire.status
    spec = intern_pod_spec(pod)
    owner = _owner(meta)
    reported = bool(status.container_statuses or status.init_container_statuses)
    return Pod(
        uid=meta.uid,
        namespace=intern(meta.namespace),
        name=meta.name,
        resource_version=meta.version,
        labels=_labels.get(meta.labels),
        annotations=meta.annotations or {},
        scheduler_name=intern(pod.scheduler_name),
        node_name=intern(pod.node_name),
        nominated_node_name=status.nominated_node_name,
        phase=intern(status.phase),
        priority=pod.priority or 0,
        preemption_policy=pod.preemption_policy or "PreemptLowerPriority",
        creation_timestamp=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        started=reported,
        scheduled_condition=_scheduled(status),
        spec=spec,
        resized_requests=resized_requests(pod, status, spec) if reported else None,
        generation=meta.generation,
        owner=intern(owner.uid) if owner is not None else "",
        owner_kind=intern(owner.kind) if owner is not None else "",
        ends_by=_ends_by(meta.deletion_timestamp),
        start_time=int(status.start_time.timestamp()) if status.start_time is not None else None,
        disruption=_disruption(status),
        rejection=kubelet_rejection(status) if status.reason else "",
        pod_group=_pod_group(pod),
    )


decode_pod: Final[Decode[Pod]] = decoder_of("Pod", WirePod, _pod)
"""Reads a pod."""


def _owner(meta: WireMeta) -> WireOwner | None:
    """Return the controller of a pod, if it has one."""
    return next((owner for owner in meta.owner_references or () if owner.controller), None)


def _ends_by(deletion_timestamp: str | None) -> int | None:
    """Return the end of a grace period in seconds since the epoch; None if there is none, or it is malformed."""
    found = parse_time(deletion_timestamp, assumed=UTC)
    return None if found is None else int(found.timestamp())


def _disruption(status: WirePodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or ""
    return ""


def _scheduled(status: WirePodStatus) -> Condition | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            return Condition(condition.status, condition.reason or "", condition.message or "")
    return None
