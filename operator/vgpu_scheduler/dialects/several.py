"""Several dialects side by side: which dialect owns a resource name, reads a pod, and charges its usage."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from vgpu_scheduler.dialects.allocation import stamped
from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.node_side import LockValue, NodeLock, NodeSide, UnservedPod
from vgpu_scheduler.kube import ApiResource, Pod
from vgpu_scheduler.model import (
    WHOLE,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
    Uses,
    dialect_of,
    internal_error,
    quoted,
)

_NOTHING: Uses = {}
_PARTS = "parts"


class LimitedResource(NamedTuple):
    """A resource that quotas limit.

    Attributes
    ----------
    dialect
        The dialect that owns the name.
    unit
        The unit of its dimension, or ``parts`` for compute in a vendor-specific unit.
    """

    resource: QuotaResource
    dialect: str
    unit: str


def _unit_of(dialect: Dialect, resource: QuotaResource) -> str:
    inventory = dialect.inventory
    is_compute = resource.dimension == inventory.cores and not resource.of_card
    if is_compute and inventory.compute_units.get(resource.vendor, WHOLE) != WHOLE:
        return _PARTS
    return inventory.dimensions[resource.dimension].unit


class Dialects:
    """The dialects in use, in the order in which they are listed.

    A resource name belongs to the first dialect that knows it. A waiting pod has one dialect, the owner of its resource
    names. A bound pod is read by the dialects whose allocation key and resource names it has, else by the owners of its
    resource names; a bound pod with names of several dialects is charged in all of them.

    Parameters
    ----------
    dialects
        At least one, each with a name of its own.

    Attributes
    ----------
    node_side
        All node sides as one.
    unknown_to_kubelet
        Resource names that the NodeResourcesFit filter must ignore.
    cordon_annotations
        The annotations that take cards of a node out of service, sorted.
    resources
        The resource names of all dialects.
    pod_annotations, pod_labels
        The annotations and labels of a pod on which the claims of any dialect depend.
    quota_resources
        The resources that quotas limit, by name, each of the first dialect that knows it.

    Raises
    ------
    ValueError
        If there is none, or two have the same name.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        listed = tuple(dialects)
        self._by_name = {dialect.name: dialect for dialect in listed}
        if not listed or len(self._by_name) < len(listed):
            raise ValueError(f"dialects: {[dialect.name for dialect in listed]} is not a list of different dialects")
        self.first = listed[0]
        self._alone = listed[0] if len(listed) == 1 else None
        self._owners: dict[str, Dialect] = {}
        for dialect in listed:
            for name in dialect.claims.resources:
                self._owners.setdefault(name, dialect)
        self.resources: Collection[str] = self._owners.keys()
        self.quota_resources: dict[str, LimitedResource] = {}
        for dialect in listed:
            for name, resource in dialect.allocation.quota_resources.items():
                unit = _unit_of(dialect, resource)
                self.quota_resources.setdefault(name, LimitedResource(resource, dialect.name, unit))
        self.node_side: NodeSide = listed[0].node_side if self._alone else JoinedNodeSide(listed)
        self.unknown_to_kubelet = frozenset(n for d in listed for n in d.inventory.unknown_to_kubelet)
        self.cordon_annotations = sorted({key for d in listed for key in d.inventory.cordons.values()})
        self.pod_annotations = tuple(dict.fromkeys(n for d in listed for n in d.claims.pod_annotations))
        self.pod_labels = tuple(dict.fromkeys(n for d in listed for n in d.claims.pod_labels))

    def __iter__(self) -> Iterator[Dialect]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Dialect:
        """Return a dialect by name; an empty name stands for the one that is listed first."""
        return self._by_name[name] if name else self.first

    @property
    def inventory_kinds(self) -> tuple[ApiResource, ...]:
        """The kinds of the objects, separate from nodes, that list devices."""
        return tuple(kind for dialect in self if (kind := dialect.inventory.kind))

    def owners(self, pod: Pod) -> tuple[Dialect, ...]:
        """Return the dialects that own the resource names of a pod, in the order in which they are listed."""
        names = {owner.name for name in _names(pod) if (owner := self._owners.get(name))}
        return tuple(dialect for dialect in self if dialect.name in names)

    def of_waiting(self, pod: Pod) -> Dialect:
        """Return the dialect that reads the claims of a waiting pod; the first one for a pod that claims nothing.

        Raises
        ------
        ClaimError
            If its resource names belong to several dialects; the message names them.
        """
        if self._alone is not None:
            return self._alone
        owned = {owner.name: name for name in reversed(_names(pod)) if (owner := self._owners.get(name))}
        if len(owned) > 1:
            whose = " and ".join(f"{owned[dialect.name]} ({dialect.name})" for dialect in self if dialect.name in owned)
            raise ClaimError(f"{whose} belong to different dialects: ask in the names of one")
        return self._by_name[next(iter(owned))] if owned else self.first

    def _readers(self, pod: Pod) -> Iterable[Dialect]:
        """Return the dialects that read what a bound pod holds."""
        if self._alone is not None:
            return (self._alone,)
        names, owners = frozenset(_names(pod)), self.owners(pod)
        carriers = [
            dialect
            for dialect in self
            if not (dialect.allocation.keys.isdisjoint(pod.annotations) or dialect.claims.resources.isdisjoint(names))
        ]
        if len(owners) > 1:
            return [dialect for dialect in self if dialect in owners or dialect in carriers]
        return carriers or owners

    def uses(self, pod: Pod) -> Uses:
        """Return what a pod uses on the node that it is bound to, by dialect."""
        if not pod.node_name or pod.terminal:
            return _NOTHING
        found = ((dialect.name, _usage(dialect, pod)) for dialect in self._readers(pod))
        return {name: usage for name, usage in found if usage.charges or usage.unreadable or usage.problem}

    def announced_node(self, pod: Pod) -> str:
        """Return the node on which another scheduler has announced an unbound pod, if any."""
        announced = (dialect.allocation.announced_node(pod) for dialect in self._readers(pod))
        return next(filter(None, announced), "")

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return the annotations that the Binding writes for the node side; see :class:`Allocation`."""
        return stamped(self[placement.dialect].allocation.annotations(placement, unix_time, pod), unix_time)

    def encoded(self, placement: Placement, pod: Pod) -> dict[str, str]:
        """Return the same annotations without the time; :func:`stamped` adds it when they are written."""
        return self[placement.dialect].allocation.annotations(placement, 0, pod)

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return the labels that the node side selects pods by."""
        return self[placement.dialect].allocation.labels(placement)


class JoinedNodeSide(NodeSide):
    """The node sides of several dialects as one.

    Parameters
    ----------
    dialects
        In the order in which they are listed.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._by_name: Mapping[str, NodeSide] = {dialect.name: dialect.node_side for dialect in self._dialects}
        self._by_lock = {lock.annotation: side for side in reversed(self._by_name.values()) for lock in side.locks}
        self.locks = tuple(
            {lock.annotation: lock for side in reversed(self._by_name.values()) for lock in side.locks}.values()
        )

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return the node lock by which the node side of the claims' dialect finds the pod, if any."""
        side = self._by_name.get(dialect_of(claims))
        return None if side is None else side.lock(claims)

    def parse_lock(self, value: str) -> LockValue:
        """Decode the value of a lock by the first dialect that can.

        Raises
        ------
        ValueError
            If no dialect can.
        """
        for side in self._by_name.values():
            if side.locks:
                try:
                    return side.parse_lock(value)
                except ValueError:
                    continue
        raise ValueError(f"lock value {quoted(value)} cannot be decoded")

    def format_lock(self, lock: NodeLock, now: datetime, pod: Pod) -> str:
        """Encode the value of a lock for a pod; ``now`` must have a time zone."""
        return self._by_lock[lock.annotation].format_lock(lock, now, pod)

    def serializes(self, claims: PodClaims) -> bool:
        """Tell whether the node side of the claims' dialect serves the pods of a node in order."""
        side = self._by_name.get(dialect_of(claims))
        return side is not None and side.serializes(claims)

    def plugin_key(self, claims: PodClaims) -> str:
        """Return the key by which the node side of the claims' dialect finds a pod."""
        side = self._by_name.get(dialect_of(claims))
        return "" if side is None else side.plugin_key(claims)

    def unserved_pod(self, pod: Pod) -> UnservedPod | None:
        """Return the node and the key of the first node side that still waits for a pod that ended unserved, if any."""
        return next(filter(None, (side.unserved_pod(pod) for side in self._by_name.values())), None)

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether every node side with an allocation for the pod has reported success or failure."""
        concerned = self._concerned(annotations)
        return bool(concerned) and all(side.has_answered(annotations) for side in concerned)

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether every node side with an allocation for the pod has consumed all entries."""
        concerned = self._concerned(annotations)
        return bool(concerned) and all(side.nothing_left(annotations) for side in concerned)

    def check(self, pod: Pod, claims: PodClaims) -> None:
        """Check that the node side of the claims' dialect could serve a pod."""
        side = self._by_name.get(dialect_of(claims))
        if side is not None:
            side.check(pod, claims)

    def _concerned(self, annotations: Mapping[str, str]) -> list[NodeSide]:
        """Return the node sides whose allocation keys a pod has."""
        return [d.node_side for d in self._dialects if not d.allocation.keys.isdisjoint(annotations)]


def _names(pod: Pod) -> list[str]:
    """Return the resource names in the limits and requests of a pod, in order."""
    return [
        name for container in pod.spec.containers for given in (container.limits, container.requests) for name in given
    ]


def _usage(dialect: Dialect, pod: Pod) -> Usage:
    """Return what a pod holds; if that fails, its claims on every card, so that its cards are not given away."""
    try:
        return dialect.allocation.usage(pod)
    except Exception as error:  # noqa: BLE001 - no error may give the pod's cards away
        problem = internal_error(error)
        try:
            return Usage({}, dialect.claims.read(pod), problem)
        except ClaimError:
            return Usage({}, (), problem)
