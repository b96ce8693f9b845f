"""Enflame GCUs under HAMi that are given out in slices (DRS): each container gets one, of a profile of its node."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vgpu_scheduler.allocators import Check, FitRules, WholeCardRule
from vgpu_scheduler.dialects.errors import AdmissionDenied, ClaimError, CodecError
from vgpu_scheduler.dialects.hami.codec import AssignedDevice, RegisteredDevice
from vgpu_scheduler.dialects.hami.fields import Fields, decode_json
from vgpu_scheduler.dialects.hami.vendors.base import (
    AllocationAnnotations,
    CardSource,
    CountedResources,
    RuleKeys,
    Vendor,
    VendorPlacement,
    held_with,
)
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.registered import checked
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.values import INT32, amount_text, bounded_amount, is_asked
from vgpu_scheduler.kernels import CORES, MEMORY, SLOTS
from vgpu_scheduler.kube import Container, Node, Pod, to_int
from vgpu_scheduler.model import (
    MIB,
    NO_DEFAULTS,
    WHOLE,
    Amounts,
    Assignment,
    Claim,
    ClaimDefaults,
    Device,
    DimensionRoles,
    Piece,
    Usage,
)

CAPACITY = "enflame.com/gcu-drs-capacity"
_ASSIGNED = "enflame.com/gcu-assigned"
_TIME = "enflame.com/gcu-assigned-time"
_ID = "enflame.com/gcu-assigned-id"
_INDEX = "enflame.com/gcu-assigned-index"
_MINOR = "enflame.com/gcu-assigned-minor"
_SIZE = "enflame.com/gcu-request-size"
CONTAINERS = "assigned-containers"
_KEYS = (_ASSIGNED, _TIME, _ID, _INDEX, _MINOR, _SIZE, CONTAINERS)
_SCHEMA = DimensionRoles(placements=3)
_PROFILE = re.compile(r"(?P<slices>[1-9][0-9]{0,3})g\.(?P<gigabytes>[1-9][0-9]{0,5})gb", re.ASCII)
_GIB = 1024
"""MiB of a GiB."""
_GIGABYTES_BELOW = 100
"""Memory amounts below this are in GiB, others in MiB, because pods use both."""


class DrsProfile(NamedTuple):
    """A profile: a number of slices with a number of GiB; profiles sort by size."""

    slices: int
    gigabytes: int
    name: str


def _profiles(names: Mapping[str, str]) -> list[DrsProfile]:
    """Return the profiles of a node; other names are ignored."""
    matches = [match for match in map(_PROFILE.fullmatch, names) if match]
    return sorted(DrsProfile(int(match["slices"]), int(match["gigabytes"]), match[0]) for match in matches)


@dataclass(frozen=True, slots=True)
class DrsCards:
    """Cards and profiles from one annotation; all cards of a node have the same profiles.

    When the plugin stops, the annotation stays and the allocatable amount of its resource becomes 0. NodeResourcesFit
    does not check this for claims in memory and cores, so the cards are then marked unhealthy.

    Attributes
    ----------
    advertised
        The resource that the plugin advertises.
    """

    advertised: str

    cordon = ""
    health = ""

    @property
    def source(self) -> CardSource:
        """Where nodes list the cards."""
        return CardSource(annotation=CAPACITY)

    def facts(self, node: Node) -> Hashable | None:
        """Return the node's name, the annotation, and whether the plugin's resource is allocatable."""
        value = node.annotations.get(CAPACITY)
        return None if value is None else (node.name, value, node.allocatable.get(self.advertised) != 0)

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of the annotation; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, tuple)
        node, value, alive = facts
        fields = Fields(decode_json(value, "DRS capacity"), "DRS capacity")
        ids = fields.texts("profiles")
        profiles = _profiles(ids)
        if not profiles:
            raise CodecError("DRS capacity has no profile like 1g.6gb")
        listed = fields.objects("devices")
        if not listed:
            raise CodecError("DRS capacity has no device")
        largest = max(profile.slices for profile in profiles)
        memory = max(profile.gigabytes for profile in profiles) * _GIB
        pieces = tuple(_piece(profile, largest) for profile in profiles)
        cards = [_card(card, position, node) for position, card in enumerate(listed)]
        checked([RegisteredDevice(id=uuid) for uuid, *_ in cards])
        return tuple(
            Device(
                uuid=uuid,
                vendor=vendor,
                type=vendor,
                total=(slots, memory, WHOLE, slots),
                schema=_SCHEMA,
                index=int(index),
                healthy=alive,
                pieces=pieces,
                tag=json.dumps({"index": index, "minor": minor, "profiles": ids}),
            )
            for uuid, index, minor, slots in cards
        )


def _card(fields: Fields, position: int, node: str) -> tuple[str, str, str, int]:
    """Return the UUID of a card, its index and minor as the plugin writes them, and its number of slices."""
    index = fields.text_or_number("index")
    index = index if index.isascii() and index.isdigit() and len(index) < 10 else str(position)
    capacity = fields.text_or_number("capacity")
    slots = int(capacity) if capacity.isascii() and capacity.isdigit() and len(capacity) < 10 else 0
    if not slots:
        raise CodecError(f"DRS capacity: device {index} has no capacity")
    return f"{node}-enflame-drs-{index}", index, fields.text_or_number("minor") or index, slots


def _piece(profile: DrsProfile, largest: int) -> Piece:
    cores = -(-WHOLE * profile.slices // largest)
    return Piece(profile.name, 0, profile.slices, _amounts(profile.slices, profile.gigabytes * _GIB, cores))


def _amounts(slices: int, memory: int, cores: int) -> Amounts:
    """Return the amounts of slices of a card: each slice is a slot with a placement."""
    return (slices, memory, cores, slices)


@dataclass(frozen=True, slots=True)
class DrsRequests(CountedResources):
    """Resource names: a number of slices, or the memory and the cores that the slices must have.

    A claim has either slices (as slots) and nothing else, or memory and cores.
    """

    slices: str = "enflame.com/drs-gcu"
    memory: str = "enflame.com/gcu-memory"
    cores: str = "enflame.com/gcu-core"

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources of which a claim needs at least one."""
        return (self.slices, self.memory, self.cores)

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that the plugin does not advertise to the kubelet."""
        return (self.memory, self.cores)

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """The dimension of each resource."""
        return ((self.slices, SLOTS, False), (self.memory, MEMORY, False), (self.cores, CORES, False))

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes all compute of its card."""
        return claim.amounts[CORES] >= WHOLE

    def asks(self, container: Container) -> bool:
        """Tell whether the container requests any of the vendor's resources, even if malformed."""
        if amount_text(container, self.slices) is not None:  # slices take precedence
            return is_asked(container, self.slices)
        return is_asked(container, self.memory) or is_asked(container, self.cores)

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any.

        Raises
        ------
        ClaimError
            If any amount is malformed or more than a card has.
        """
        del mode
        slices, memory, cores = (bounded_amount(container, name) for name in self.counts)
        if not (slices or memory or cores) or slices == 0:
            return None
        if defaults.exclusive:
            return Claim(vendor, 1, (0, 0, WHOLE), (0, 0, 0))  # the profile with all cores
        if slices is not None:
            return Claim(vendor, 1, (slices, 0, 0), (0, 0, 0))
        mib = (memory or 0) if (memory or 0) >= _GIGABYTES_BELOW else (memory or 0) * _GIB
        if memory is None and defaults.memory is not None:
            mib = defaults.memory_in(MIB)
        if cores is None and defaults.cores is not None:
            cores = defaults.cores
        if (cores or 0) > WHOLE:
            raise ClaimError(
                f'container "{container.name}": {self.cores}: {cores} is more than a card has: write {WHOLE} or less'
            )
        return Claim(vendor, 1, (0, mib, cores or 0), (0, 0, 0))


def _held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return the usage from the entries, with the number of slices from the annotation ``assigned-containers``.

    An entry without a number of slices is booked as a slot without a placement, which closes its card.
    """
    slices_of = _slices_by_container(pod.annotations.get(CONTAINERS, ""))

    def amounts(container: str, entry: AssignedDevice) -> Amounts:
        slices = slices_of.get(container, 0)
        return _amounts(slices, entry.memory, entry.cores) if slices else (1, entry.memory, entry.cores)

    return held_with(vendor, pod, aligned, amounts)


def _slices_by_container(value: str) -> Mapping[str, int]:
    """Return the slices of each container; malformed entries are left out."""
    try:
        decoded = decode_json(value, CONTAINERS)
    except CodecError:
        return {}
    found: dict[str, int] = {}
    for name, entry in decoded.items() if isinstance(decoded, dict) else ():
        slices = entry.get("request") if isinstance(entry, dict) else None
        if type(slices) is int and 0 < slices <= INT32:
            found[name] = slices
    return found


def _plugin_annotations(placement: VendorPlacement) -> Mapping[str, str]:
    """Return the annotations for the plugin, whose card fields describe the first container with a card."""
    first = placement.first[0]
    card = json.loads(first.tag)
    written = {
        _ASSIGNED: "false",
        _TIME: placement.nanoseconds,
        _ID: card["index"],
        _INDEX: card["index"],
        _MINOR: card["minor"],
        _SIZE: str(first.amounts[0]),
    }
    if placement.pod is None:
        return written
    containers = zip(placement.pod.spec.containers, placement.containers, strict=True)
    by_name = {container.name: _slices_of(devices[0]) for container, devices in containers if devices}
    return {CONTAINERS: json.dumps(dict(sorted(by_name.items())), separators=(",", ":")), **written}


def _slices_of(assignment: Assignment) -> Mapping[str, Any]:
    """Return the entry for the slices of one container."""
    assert assignment.piece is not None
    name = assignment.piece.profile
    return {
        "allocated": False,
        "request": assignment.amounts[0],
        "profileID": json.loads(assignment.tag)["profiles"][name],
        "profileName": name,
    }


def drs(section: VendorSection) -> tuple[Vendor, ...]:
    """Return slices of GCUs, as section ``enflame`` of HAMi's configuration names their resources."""
    known = DrsRequests()
    names = DrsRequests(
        section.text("resourceNameDRSGCU", known.slices),
        section.text("resourceNameGCUMemory", known.memory),
        section.text("resourceNameGCUCore", known.cores),
    )
    return (
        Vendor(
            key="Enflame",
            title="Enflame GCU slice (DRS)",
            cards=DrsCards(names.slices),
            claims=names,
            rules=RuleKeys(uuids=(("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"),)),
            fit=FitRules(Check.SLOTS | Check.MEMORY | Check.CORES | Check.ONE_PIECE, whole=WholeCardRule.ALWAYS),
            record=AllocationAnnotations(
                "hami.io/enflame-vgpu-devices-allocated", extras=_plugin_annotations, keys=_KEYS
            ),
            admit=slices_rule(names.slices, names.memory, names.cores),
            means={
                names.slices: "how many slices of one card, as a profile of the node has them",
                names.memory: "memory instead of slices, in MiB; below 100 in GiB",
                names.cores: "percent of compute beside it",
            },
            found="It takes the pod of its node that was decided first and is not `enflame.com/gcu-assigned` yet",
            notes=(
                "The compute of a slice is rounded up to a whole percent, as HAMi does: of a card with six slices five "
                "pods get one each, and the last sixth is left."
            ),
            held=_held,
            lock=None,
        ),
    )


def slices_rule(slices: str, memory: str, cores: str) -> Admit:
    """Return the admission rules for these resource names."""

    def admit(draft: ContainerDraft) -> bool:
        by_needs = () if draft.either(slices) is not None else (memory, cores)
        asked = {name: text for name in (slices, *by_needs) if (text := draft.either(name)) is not None}
        for name, text in asked.items():
            if name == cores and not 0 < to_int(text) <= WHOLE:
                raise AdmissionDenied(f"{name} must be in range (0,{WHOLE}]")
            if to_int(text) <= 0:
                raise AdmissionDenied(f"{name} must be greater than 0")
        for name, text in asked.items():
            if draft.limit(name) is None:
                draft.add_limit(name, text)
            elif draft.request(name) is None:
                draft.set_both(name, text)
        return bool(asked)

    return admit
