"""AWS Neuron devices under HAMi: counted by the node's capacity, given out whole, several in a row, or core by core.

What HAMi writes as the cores of a device is a mask: bit 0 is its first core. So a device is given out in pieces, each
core and all of them, and a core is a slice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.allocators import Check, FitRules, Selection, WholeCardRule
from vgpu_scheduler.dialects.errors import AdmissionDenied, ClaimError, CodecError
from vgpu_scheduler.dialects.hami.codec import AssignedDevice
from vgpu_scheduler.dialects.hami.mig import SCHEMA, SLICES, SliceSpan, slices_of
from vgpu_scheduler.dialects.hami.vendors.base import (
    AllocationAnnotations,
    CountedResources,
    RuleKeys,
    Vendor,
    VendorPlacement,
    held_with,
)
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, CardsByCapacity, CountedCards
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft, exact
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.values import INT32, amount_text, bounded_amount, is_asked
from vgpu_scheduler.kernels import CORES
from vgpu_scheduler.kube import Container, Node, Pod
from vgpu_scheduler.model import (
    NO_DEFAULTS,
    WHOLE,
    Amounts,
    Claim,
    ClaimDefaults,
    Compute,
    Device,
    Piece,
    Usage,
)

PER_DEVICE = 2
"""Cores per device, by which HAMi converts claims on many cores."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_IDS, _TIME, _ALLOCATED = "AWS_NEURON_IDS", "NEURON_ALLOC_TIME", "NEURON_ALLOCATED"
_NODE = "aws.amazon.com/predicate-node"
_RESOURCE_TYPE = "NEURON_RESOURCE_TYPE"
_KEYS = (_IDS, _TIME, _ALLOCATED, _NODE, _RESOURCE_TYPE)
_INFERENTIA = "inf"
"""Prefix of instance types whose devices are linked in one row; on others they are linked in groups."""
_IN_A_ROW, _NO_GROUP = 0, -1


def _kind(devices: int, cores: int) -> CardKind:
    each = cores // devices
    if each > SLICES:
        raise CodecError(f"{cores} cores of {devices} devices are more than a device has (at most {SLICES})")
    return CardKind(devices, each, 0, _mask(SliceSpan(0, each)))


def _mask(cores: SliceSpan) -> int:
    return ((1 << cores.size) - 1) << cores.start


def _amounts(mask: int) -> Amounts:
    """Return the amounts for the cores of a mask; an impossible mask is booked as a slot without a placement."""
    if not 0 < mask < 2**SLICES:
        return (1, 0, mask)
    return (1, 0, mask, 1, *(mask >> core & 1 for core in range(SLICES)))


@dataclass(frozen=True, slots=True)
class NeuronCards(CountedCards):
    """Counted devices; the node's instance type determines how they are linked."""

    def facts(self, node: Node) -> Hashable | None:
        """Return the counts and the instance type."""
        counted = self.counted.facts(node)
        return None if counted is None else (counted, node.labels.get(INSTANCE_TYPE, ""))

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the devices in the order of their numbers; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, tuple)
        counted, instance_type = facts
        group = _IN_A_ROW if instance_type.startswith(_INFERENTIA) else _NO_GROUP
        return tuple(replace(_in_pieces(device), group=group) for device in self.counted.decode(vendor, counted))


def _in_pieces(device: Device) -> Device:
    """Return a device with its pieces: single cores in ascending order, then the whole device."""
    cores, *_ = device.total
    spans = dict.fromkeys((*(SliceSpan(core, 1) for core in range(cores)), SliceSpan(0, cores))) if cores else ()
    return replace(
        device,
        total=(*device.total, cores, *slices_of([SliceSpan(0, cores)] if cores else ())),
        pieces=tuple(Piece("", span.start, span.size, _amounts(_mask(span))) for span in spans),
        schema=SCHEMA,
        tag=f"{device.index} {cores}",
        compute=Compute.MASK,
    )


@dataclass(frozen=True, slots=True)
class NeuronRequests(CountedResources):
    """Requests: a number of devices, or a number of cores."""

    devices: str = "aws.amazon.com/neuron"
    cores: str = "aws.amazon.com/neuroncore"
    units = PER_DEVICE

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources of which a claim needs at least one."""
        return (self.devices, self.cores)

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """The dimension of each resource; a slot is a core."""
        return ((self.devices, 0, False), (self.cores, 0, False))

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim is on whole devices."""
        return claim.percent[CORES] >= WHOLE

    def asks(self, container: Container) -> bool:
        """Tell whether the container requests any of the vendor's resources, even if malformed."""
        return is_asked(container, self.cores if self.in_cores(container) else self.devices)

    def in_cores(self, container: Container) -> bool:
        """Tell whether the container does not name devices, so that cores count."""
        return amount_text(container, self.devices) is None

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any: one core, or whole devices.

        Raises
        ------
        ClaimError
            If a number is malformed, or a number of cores is not a number of whole devices.
        """
        del mode
        devices, cores = (bounded_amount(container, name) for name in self.counts)
        if devices is None:
            if cores == 1 and not defaults.exclusive:
                return Claim(vendor, 1, (1, 0, 1), (0, 0, 0))
            if cores is None or (cores > PER_DEVICE and cores % PER_DEVICE == 0):
                devices = (cores or 0) // PER_DEVICE
            elif cores > PER_DEVICE:
                raise ClaimError(
                    f'container "{container.name}": {self.cores}: {cores} are not a whole number of devices of '
                    f"{PER_DEVICE} cores: "
                    f"write {cores + 1}"
                )
            else:
                devices = min(cores, 1)
        return Claim(vendor, devices, (1, 0, 0), (0, 0, WHOLE)) if devices else None


def _held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return the usage from the cores in the entries."""
    return held_with(vendor, pod, aligned, lambda _, entry: _amounts(entry.cores))


@dataclass(frozen=True, slots=True)
class _Extras:
    """Writes the annotations for the plugin: the numbers of devices, or of cores over all devices, and their kind."""

    names: NeuronRequests

    def __call__(self, placement: VendorPlacement) -> Mapping[str, str]:
        numbers: list[int] = []
        any_cores = False
        for position, container in enumerate(placement.containers):
            for given in container:
                number, each = map(int, given.tag.split())
                assert given.piece is not None
                cores = range(number * each + given.piece.start, number * each + given.piece.start + given.piece.size)
                if placement.pod is None:
                    in_cores = len(cores) < each
                else:
                    in_cores = self.names.in_cores(placement.pod.spec.containers[position])
                any_cores |= in_cores
                numbers += cores if in_cores else [number]
        written = {
            _IDS: ",".join(map(str, numbers)),
            _TIME: placement.nanoseconds,
            _ALLOCATED: "false",
            _NODE: placement.node,
        }
        brought = placement.pod is not None and _RESOURCE_TYPE in placement.pod.annotations  # overwrite a forged one
        if any_cores or brought:
            written[_RESOURCE_TYPE] = self.names.cores if any_cores else self.names.devices
        return written


def aws_neuron(section: VendorSection) -> tuple[Vendor, ...]:
    """Return Neuron devices, as section ``awsneuron`` of HAMi's configuration names their resources."""
    known = NeuronRequests()
    names = NeuronRequests(
        section.text("resourceCountName", known.devices), section.text("resourceCoreName", known.cores)
    )
    return (
        Vendor(
            key="AWSNeuron",
            in_percent=False,
            title="AWS Neuron device",
            cards=NeuronCards(CardsByCapacity((names.devices, names.cores), _kind, "AWSNeuron")),
            claims=names,
            rules=RuleKeys(uuids=(("aws.amazon.com/use-neuron-uuid", "aws.amazon.com/nouse-neuron-uuid"),)),
            fit=FitRules(Check.SLOTS | Check.ONE_PIECE, whole=WholeCardRule.ALWAYS, selection=Selection.RUN),
            record=AllocationAnnotations("hami.io/aws-neuron-devices-allocated", extras=_Extras(names), keys=_KEYS),
            admit=neuron_rule(names.devices, names.cores),
            means={names.devices: "how many devices", names.cores: "how many cores, of one device or the next"},
            found="It takes the pod of its node that was decided first and is not `NEURON_ALLOCATED` yet",
            held=_held,
            lock=None,
        ),
    )


def neuron_rule(count: str, cores: str) -> Admit:
    """Return the admission rules for these resource names."""

    def admit(draft: ContainerDraft) -> bool:
        devices, cut = draft.either(count), draft.either(cores)
        if devices is not None:
            _check(count, devices, INT32)
            return True
        if cut is None:
            return False
        number = _check(cores, cut, INT32 * PER_DEVICE)
        if number > PER_DEVICE and number % PER_DEVICE:
            raise AdmissionDenied(f"{cores} must be 1 or a multiple of {PER_DEVICE}, got {number}")
        return True

    return admit


def _check(resource: str, text: str, most: int) -> int:
    number = exact(text)
    if number is None:
        raise AdmissionDenied(f"{resource} must be an integer")
    if number <= 0:
        raise AdmissionDenied(f"{resource} must be greater than 0")
    if number > most:
        raise AdmissionDenied(f"{resource} must not exceed {most}")
    return number
