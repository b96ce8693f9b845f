"""Placements: which devices a pod gets, what that charges on each of them, and what is written of it.

And what the pods of a group want of where they are placed: near each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

from vgpu_scheduler.model.devices import Amounts, Claim, ContainerKind, Device, Piece, PodClaims

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
        What the node side calls it beside its UUID.
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
    """What is to be done before a pod can be bound, so that its claims have volumes on its node.

    Attributes
    ----------
    matched
        The volume that is to be bound to each claim that a volume was found for: ``namespace/name`` to the volume.
    provisioned
        The claims that a volume is to be made for: ``namespace/name``.
    """

    matched: Mapping[str, str] = field(default_factory=dict)
    provisioned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.matched or self.provisioned)

    def is_part_of(self, other: VolumePlan) -> bool:
        """Tell whether the other plan does all of this one; some of it may have been done since."""
        return self.matched.items() <= other.matched.items() and set(self.provisioned) <= set(other.provisioned)


NO_VOLUMES = VolumePlan()
"""The plan where nothing is to be done: no claims, or all of them are bound."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A node and, for each container of the pod (init containers first), the devices that it gets.

    Attributes
    ----------
    dialect
        Whose devices they are; empty for a pod without devices.
    volumes
        What is to be done about the pod's claims before it is bound.
    """

    node: str
    containers: tuple[ContainerAssignments, ...] = ()
    dialect: str = ""
    volumes: VolumePlan = NO_VOLUMES

    def vendors(self) -> tuple[str, ...]:
        """Return the vendors whose devices are used, sorted."""
        return tuple(sorted({assignment.vendor for container in self.containers for assignment in container}))


def add(left: Amounts, right: Amounts) -> Amounts:
    """Add two amounts dimension by dimension; what is missing at the end is 0."""
    return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))


def peak(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger amount of each dimension; what is missing at the end is 0."""
    return tuple(max(a, b) for a, b in zip_longest(left, right, fillvalue=0))


def moments(containers: Iterable[tuple[ContainerKind, _T]]) -> Iterator[tuple[_T, ...]]:
    """Yield what runs together at each moment of a pod, as far as it is more than at another.

    That is each init container, one after the other, with the sidecars that started before it, and in the end all
    sidecars and app containers.

    Parameters
    ----------
    containers
        The kind of each container, init containers and sidecars first, with what stands for it.
    """
    running: list[_T] = []
    for kind, container in containers:
        if kind is ContainerKind.INIT:
            yield (*running, container)
        else:
            running.append(container)
    yield tuple(running)


def charges(kinds: Sequence[ContainerKind], containers: Sequence[Sequence[Assignment]]) -> dict[str, Amounts]:
    """Add up what a pod uses of each device.

    A device is used to the larger of its peak while the init containers run, one after the other, and the sum of the
    app containers; sidecars start in their place among the init containers and run on to the end.

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


def vendors_by_card(containers: Iterable[Iterable[Assignment]]) -> dict[str, str]:
    """Return whose each of the devices is: UUID to vendor."""
    return {assignment.uuid: assignment.vendor for container in containers for assignment in container}


def kinds_of(claims: PodClaims) -> tuple[ContainerKind, ...]:
    """Return the kind of each container."""
    return tuple(container.kind for container in claims)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a pod uses on the node that it names: the part of a reservation that its objects tell.

    Attributes
    ----------
    charges
        UUID to amounts.
    unreadable
        Claims charged on *every* card of their vendor, because the pod runs and nothing readable tells which card it
        sits on.
    problem
        What could not be read, for the event and the metric; empty when all is well.
    unlisted
        Claims charged on every card of their vendor while a UUID is not listed: the pod holds something there that
        must be on some card of the node.
    vendors
        Whose the devices in ``charges`` are: UUID to vendor. What is missing counts in no quota.
    by_place
        Some of the devices are named by their place on the node alone (:attr:`Device.place`), as old allocations do.
    """

    charges: Charges
    unreadable: PodClaims = ()
    problem: str = ""
    unlisted: Mapping[str, PodClaims] = field(default_factory=dict)
    vendors: Mapping[str, str] = field(default_factory=dict)
    by_place: bool = False

    def as_listed(self, devices: Iterable[Device]) -> Usage:
        """Return the same, with the UUIDs of devices instead of their places; what is not listed keeps its name."""
        uuids = {device.place: device.uuid for device in devices if device.place} if self.by_place else {}
        if self.charges.keys().isdisjoint(uuids):
            return self
        return replace(
            self,
            charges={uuids.get(name, name): amounts for name, amounts in self.charges.items()},
            vendors={uuids.get(name, name): vendor for name, vendor in self.vendors.items()},
        )

    def totals(self) -> dict[str, Amounts]:
        """Return what the pod holds of each vendor's devices together, which is what quotas count.

        Claims that may sit on any card count once, not once for each card that they close; of what is claimed in
        percent nobody knows of which card, so it counts nothing.
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
"""What a pod uses of the devices of each dialect, by its name; those of which it uses nothing are left out."""


DECISION = "vgpu-scheduler.io/decision"
"""On a pod: the short record of the decision that its Binding carried out."""
LAST_ALLOCATED = "vgpu-scheduler.io/last-allocated"
"""On a node: the token that fences a second leader; see :func:`allocation_token`."""


def allocation_token(uid: str, leader: str) -> str:
    """Return what a node says of the pod that was last allocated there, and by whom: ``UID/leader``.

    Another leader never writes the same: one that was frozen meanwhile expects the old token, and its write fails.

    Parameters
    ----------
    leader
        A text that no other process has.
    """
    return f"{uid}/{leader}"


def allocated_pod(token: str) -> str:
    """Return the UID of the pod that a token names; the first releases wrote the UID alone."""
    return token.partition("/")[0]


class TopologyConstraint(NamedTuple):
    """The pods of a group are placed on nodes that have the same value of a label.

    Attributes
    ----------
    key
        The label of nodes.
    required
        Whether they are placed nowhere else; else they are where that cannot be.
    said_by
        The field, annotation or policy that says so, as messages name it.
    """

    key: str
    required: bool
    said_by: str
