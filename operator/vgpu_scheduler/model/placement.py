"""Placements: the devices that a pod gets, the charges on each of them, and the annotations that record them.

Also the topology constraints of pod groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

from vgpu_scheduler.model.claims import Claim, ContainerType, PodClaims
from vgpu_scheduler.model.devices import Amounts, Device, Piece

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Assignment:
    """A device that a container gets.

    Attributes
    ----------
    vendor, uuid
        Which.
    amounts
        How much of it.
    piece
        The piece, where it is given out in pieces.
    tag
        Another name of the device on the node side.
    """

    vendor: str
    uuid: str
    amounts: Amounts
    piece: Piece | None = None
    tag: str = ""


ContainerAssignments = tuple[Assignment, ...]
Charges = Mapping[str, Amounts]
"""What a pod uses of each device on its node: UUID to amounts."""


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The volumes to match and to provision before a pod can be bound.

    Attributes
    ----------
    matched
        The volume to bind to each matched claim: ``namespace/name`` to the volume.
    provisioned
        The claims to provision a volume for: ``namespace/name``.
    """

    matched: Mapping[str, str] = field(default_factory=dict)
    provisioned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.matched or self.provisioned)

    def is_part_of(self, other: VolumePlan) -> bool:
        """Tell whether the other plan includes all of this one; some of it may have been carried out since."""
        return self.matched.items() <= other.matched.items() and set(self.provisioned) <= set(other.provisioned)


NO_VOLUMES = VolumePlan()
"""The empty plan: the pod has no claims, or all of them are bound."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A node and, for each container of the pod (init containers first), the devices that it gets.

    Attributes
    ----------
    dialect
        The dialect of the devices; empty for a pod without devices.
    volumes
        The volume plan for the pod's claims.
    """

    node: str
    containers: tuple[ContainerAssignments, ...] = ()
    dialect: str = ""
    volumes: VolumePlan = NO_VOLUMES

    def vendors(self) -> tuple[str, ...]:
        """Return the vendors whose devices are used, sorted."""
        return tuple(sorted({assignment.vendor for container in self.containers for assignment in container}))


def add(left: Amounts, right: Amounts) -> Amounts:
    """Add two amounts dimension by dimension; missing dimensions at the end are 0."""
    return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))


def peak(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger amount of each dimension; missing dimensions at the end are 0."""
    return tuple(max(a, b) for a, b in zip_longest(left, right, fillvalue=0))


def moments(containers: Iterable[tuple[ContainerType, _T]]) -> Iterator[tuple[_T, ...]]:
    """Yield the sets of containers of a pod that run at the same time, without subsets of later ones.

    These are each init container with the sidecars that started before it, and at last all sidecars and app containers.

    Parameters
    ----------
    containers
        The kind of each container, init containers and sidecars first, with the value to yield for it.
    """
    running: list[_T] = []
    for kind, container in containers:
        if kind is ContainerType.INIT:
            yield (*running, container)
        else:
            running.append(container)
    yield tuple(running)


def charges(kinds: Sequence[ContainerType], containers: Sequence[Sequence[Assignment]]) -> dict[str, Amounts]:
    """Sum up what a pod uses of each device.

    The usage of a device is the larger of its peak while the init containers run, one after the other, and the sum of
    the app containers; sidecars start in order among the init containers and run until the end.

    Parameters
    ----------
    kinds
        The kind of each container, init containers first.
    containers
        The assignments of each container, in the same order.

    Returns
    -------
    dict
        UUID to amounts, in order of first use.
    """
    peaks: dict[str, Amounts] = {}
    for moment in moments(zip(kinds, containers, strict=True)):
        used: dict[str, Amounts] = {}
        for assignment in chain.from_iterable(moment):
            uuid = assignment.uuid
            used[uuid] = add(used[uuid], assignment.amounts) if uuid in used else assignment.amounts
        for uuid, amounts in used.items():
            peaks[uuid] = peak(peaks[uuid], amounts) if uuid in peaks else amounts
    return peaks


def kinds_of(claims: PodClaims) -> tuple[ContainerType, ...]:
    """Return the kind of each container."""
    return tuple(container.type for container in claims)


@dataclass(frozen=True, slots=True)
class Usage:
    """The device usage of a pod on its node, as read from its object.

    Attributes
    ----------
    charges
        UUID to amounts.
    unreadable
        Claims charged on *every* card of their vendor, because the pod runs and its allocation cannot be read, so that
        its cards are unknown.
    problem
        What could not be read, for the event and the metric; empty if there is no problem.
    unlisted
        Claims by UUID, charged on every card of their vendor while the node does not list that UUID, because the pod
        must be on some card of the node.
    vendors
        The vendors of the devices in ``charges``: UUID to vendor. Missing devices count in no quota.
    by_place
        Whether some devices are named only by their place on the node (:attr:`Device.place`), as in old allocations.
    """

    charges: Charges
    unreadable: PodClaims = ()
    problem: str = ""
    unlisted: Mapping[str, PodClaims] = field(default_factory=dict)
    vendors: Mapping[str, str] = field(default_factory=dict)
    by_place: bool = False

    @classmethod
    def of(cls, kinds: Sequence[ContainerType], containers: Sequence[Sequence[Assignment]]) -> Usage:
        """Return the usage of a pod with assigned devices; the parameters are those of :func:`charges`."""
        return cls(
            charges(kinds, containers), vendors={each.uuid: each.vendor for each in chain.from_iterable(containers)}
        )

    @classmethod
    def of_placement(cls, placement: Placement, claims: PodClaims) -> Usage:
        """Return what a pod with these claims will use once it is bound to a decided placement."""
        return cls.of(kinds_of(claims), placement.containers)

    def as_listed(self, devices: Iterable[Device]) -> Usage:
        """Return a copy with the UUIDs of devices instead of their places; unlisted devices keep their names."""
        uuids = {device.place: device.uuid for device in devices if device.place} if self.by_place else {}
        if self.charges.keys().isdisjoint(uuids):
            return self
        return replace(
            self,
            charges={uuids.get(name, name): amounts for name, amounts in self.charges.items()},
            vendors={uuids.get(name, name): vendor for name, vendor in self.vendors.items()},
        )

    def totals(self) -> dict[str, Amounts]:
        """Return the sums of what the pod holds per vendor, as quotas count them.

        Claims on unknown cards count once, not once per card that they are charged on; claims in percent then count
        nothing, because the card is unknown.
        """
        result: dict[str, Amounts] = {}
        for uuid, amounts in self.charges.items():
            vendor = self.vendors.get(uuid)
            if vendor is not None:
                result[vendor] = add(result[vendor], amounts) if vendor in result else amounts
        if self.unreadable:
            somewhere = [
                [Assignment(claim.vendor, claim.vendor, _times(claim)) for claim in container.claims]
                for container in self.unreadable
            ]
            for vendor, amounts in charges(kinds_of(self.unreadable), somewhere).items():
                result[vendor] = add(result[vendor], amounts) if vendor in result else amounts
        return result


def _times(claim: Claim) -> Amounts:
    return tuple(claim.count * amount for amount in claim.amounts)


NO_USAGE = Usage({})

Uses = Mapping[str, Usage]
"""The device usage of a pod by dialect; dialects without usage are left out."""


DECISION = "vgpu-scheduler.io/decision"
"""Pod annotation: a short record of the decision that the Binding carried out."""
LAST_ALLOCATED = "vgpu-scheduler.io/last-allocated"
"""Node annotation: the token that fences off a stale leader; see :func:`allocation_token`."""


def allocation_token(uid: str, leader: str) -> str:
    """Return the token for the pod that was last allocated on a node, and the leader that did it: ``UID/leader``.

    No other leader writes the same token. A leader that was frozen meanwhile expects the old token, so its write fails.

    Parameters
    ----------
    leader
        A text that is unique to the process.
    """
    return f"{uid}/{leader}"


def allocated_pod(token: str) -> str:
    """Return the UID of the pod that a token names; the first releases wrote the UID alone."""
    return token.partition("/")[0]


class TopologyConstraint(NamedTuple):
    """A constraint that the pods of a group are placed on nodes with the same value of a label.

    Attributes
    ----------
    key
        The node label.
    required
        Whether it is required; otherwise it is only preferred.
    said_by
        The field, annotation or policy that sets it, as messages name it.
    """

    key: str
    required: bool
    said_by: str
