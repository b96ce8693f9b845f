"""Checks whether allocations of pods are readable, refer to existing cards, and fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    NO_USAGE,
    Amounts,
    Device,
    Dimension,
    Usage,
    percent_free,
    percent_used,
    shown_free,
    shown_needed,
    shown_unit,
)
from vgpu_scheduler.state import Reservation

UNACCOUNTED = Diagnosis(
    "pod-unaccounted",
    Severity.ERROR,
    "The pod runs on a node with shared cards, asks for some, and has no allocation. It may use any of "
    "them, so it is charged on every card of that vendor on the node, which takes fewer pods until it ends. "
    "Such a pod was placed by a scheduler that does not allocate cards, or its annotations were removed.",
    "Delete the pod, and have its controller set spec.schedulerName to a scheduler that allocates cards.",
)
GARBLED = Diagnosis(
    "allocation-unreadable",
    Severity.ERROR,
    "The pod has an allocation of cards that can no longer be read: its annotations were changed. It may "
    "use any card of that vendor on its node, so it is charged on every one, and the node takes fewer pods"
    " until it ends.",
    "Delete the pod, so that its controller recreates it, and find out who may change the annotation that "
    "the message names.",
)
ELSEWHERE = Diagnosis(
    "allocation-elsewhere",
    Severity.ERROR,
    "The pod's allocation names another node than the one on which it runs. The allocation counts on "
    "neither node; the pod is charged on every card of that vendor on its own node.",
    "Delete the pod, so that its controller recreates it.",
)
PHANTOM = Diagnosis(
    "allocation-phantom",
    Severity.ERROR,
    "The pod holds a card that its node does not list: the card was removed or has failed, the device "
    "plugin has renamed it, or the annotation was written by hand. The reservation stays, in case the card "
    "comes back.",
    "Delete the pod if its card is permanently gone; otherwise restore the device plugin's list.",
)
ORPHAN = Diagnosis(
    "allocation-orphan",
    Severity.WARNING,
    "The pod is bound to a node that no longer exists. Kubernetes deletes such pods after a while, unless "
    "the controller that does so is not running or a finalizer keeps them.",
    "Delete the pod, by force if no kubelet is there to end it.",
)
UNBOUND = Diagnosis(
    "allocation-unbound",
    Severity.INFO,
    "The pod is not bound and has annotations that allocate cards. They count for nothing and are overwritten when it"
    " is bound. HAMi leaves them behind when one of its Bindings fails; without the guard, any user who may "
    "write pods can write them.",
    "Nothing needs to be done; if HAMi's scheduler still runs, name it in coexist_with.",
)
OVER_CAPACITY = Diagnosis(
    "card-over-capacity",
    Severity.ERROR,
    "The pods on the card hold more shares, memory or compute than it has. Two schedulers allocated it "
    "without knowing of each other, the card was registered with less capacity than before, or an "
    "allocation was written by hand.",
    "Delete some of the pods that the message names, until the others fit.",
)


def held(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find allocations that cannot be read or that name cards that do not exist."""
    nodes, unreadable = {node.name for node in doctor_input.nodes}, doctor_input.unreadable("Node")
    for pod in doctor_input.pods:
        if not pod.node_name or pod.terminal:
            continue
        uses = doctor_input.cluster_engine.engine.uses(pod)
        if pod.node_name not in nodes:
            if pod.node_name not in unreadable and any(usage.charges for usage in uses.values()):
                yield ORPHAN.of(ObjectRef.of_pod(pod), f"it holds cards of node {pod.node_name}, which does not exist")
            continue
        for dialect, usage in uses.items():
            yield from _of_dialect(doctor_input, pod, dialect, usage)


def _of_dialect(doctor_input: DoctorInput, pod: Pod, dialect: str, usage: Usage) -> Iterator[Finding]:
    listed = doctor_input.cluster_engine.devices(pod.node_name).get(dialect, ())
    if usage.problem and listed:
        named = doctor_input.cluster_engine.engine.dialects.announced_node(pod)
        if named and named != pod.node_name:
            yield ELSEWHERE.of(
                ObjectRef.of_pod(pod), f"it runs on node {pod.node_name}, and its allocation names node {named}"
            )
        else:
            written = doctor_input.cluster_engine.engine.dialects[dialect].allocation.keys & pod.annotations.keys()
            diagnosis = GARBLED if written else UNACCOUNTED
            message = f"it runs on node {pod.node_name}, and its cards are not known: {usage.problem}"
            yield diagnosis.of(ObjectRef.of_pod(pod), message)
    kind = doctor_input.cluster_engine.engine.dialects[dialect].inventory.kind
    if kind is not None and kind.kind in doctor_input.missing:
        return  # what the node lists is not known
    if pod.node_name in doctor_input.cluster_engine.unreadable_registrations:
        return  # that is said of the node, and explains why it lists too little
    for uuid in sorted(usage.charges.keys() - {device.uuid for device in listed}):
        home = doctor_input.cluster_engine.homes.get(uuid)
        whose = f"node {home} does" if home else "no node does"
        yield PHANTOM.of(
            ObjectRef.of_pod(pod), f"it holds card {uuid}, which its node {pod.node_name} does not list ({whose})", uuid
        )


def allocation_annotations(doctor_input: DoctorInput) -> frozenset[str]:
    """Return the annotation keys of allocations."""
    return frozenset(key for dialect in doctor_input.expected.options.dialects for key in dialect.allocation.keys)


def unbound(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find allocations on unbound pods."""
    keys = allocation_annotations(doctor_input)
    for pod in doctor_input.pods:
        if pod.node_name or pod.terminal or pod.scheduler_name in doctor_input.expected.options.coexist_with:
            continue
        if written := sorted(keys & pod.annotations.keys()):
            yield UNBOUND.of(ObjectRef.of_pod(pod), f"it is not bound, and has {', '.join(written)}")


def over_capacity(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find overcommitted cards.

    A pod whose cards are not known is charged on every card that it may use; such a charge alone is no overcommitment.
    """
    state = doctor_input.cluster_engine.engine.state
    for node, uuids in state.over_capacity().items():
        reservations, listed = list(state.reservations(node)), doctor_input.cluster_engine.devices(node)
        for uuid in uuids:
            for dialect, devices in listed.items():
                for device in (each for each in devices if each.uuid == uuid):
                    charges = _charges(reservations, dialect, uuid)
                    message = _beyond(doctor_input, dialect, device, charges)
                    certain = not any(_may_be_on(each, dialect, devices, uuid) for each in reservations)
                    if not message and (certain or _overlap(doctor_input, dialect, device, charges)):
                        message = f"slices that overlap, by {', '.join(pod for pod, _ in charges)}"
                    if message:
                        message = f"card {uuid} is used beyond its capacity: {message}"
                        yield OVER_CAPACITY.of(ObjectRef("Node", node), message, uuid)


def _charges(reservations: Iterable[Reservation], dialect: str, uuid: str) -> list[tuple[str, Amounts]]:
    """Return the pods that are known to use a card, with their amounts."""
    charged = ((each.pod, each.uses.get(dialect, NO_USAGE).charges.get(uuid)) for each in reservations)
    return sorted((pod, amounts) for pod, amounts in charged if amounts is not None)


def _may_be_on(reservation: Reservation, dialect: str, devices: tuple[Device, ...], uuid: str) -> bool:
    """Tell whether a pod's charge on a card exceeds what it is known to use there."""
    return reservation.device_charges(dialect, devices).get(uuid) != reservation.uses.get(
        dialect, NO_USAGE
    ).charges.get(uuid)


def _beyond(doctor_input: DoctorInput, dialect: str, device: Device, charges: Sequence[tuple[str, Amounts]]) -> str:
    """Name each overcommitted amount of a device, how much of it is used, and the pods that use it."""
    parts = []
    for column, about in enumerate(_dimensions(doctor_input, dialect, device)):
        each = [(pod, amounts[column]) for pod, amounts in charges if column < len(amounts) and amounts[column]]
        used, total = sum(amount for _, amount in each), device.total[column]
        if used > total and not about.internal:
            whose = ", ".join(f"{pod} ({_used(about, device, column, amount)})" for pod, amount in each)
            now = _used(about, device, column, used)
            is_percent = about.unit == "percent"
            most = percent_free(device, total, column) if is_percent else shown_free(total, about.unit)
            parts.append(f"{now} of {most} {shown_unit(about.unit)} {about.name} by {whose}")
    return "; ".join(parts)


def _overlap(doctor_input: DoctorInput, dialect: str, device: Device, charges: Sequence[tuple[str, Amounts]]) -> bool:
    """Tell whether the pieces that pods are known to have of a device overlap."""
    return bool(device.pieces) and any(
        sum(amounts[column] for _, amounts in charges if column < len(amounts)) > device.total[column]
        for column, about in enumerate(_dimensions(doctor_input, dialect, device))
        if about.internal
    )


def _dimensions(doctor_input: DoctorInput, dialect: str, device: Device) -> Sequence[Dimension]:
    return doctor_input.cluster_engine.engine.dialects[dialect].inventory.dimensions[: len(device.total)]


def _used(about: Dimension, device: Device, column: int, amount: int) -> int:
    """Return a used amount in its displayed unit; for compute that is percent of the device."""
    if about.unit == "percent":
        return percent_used(device, amount, column)
    return shown_needed(amount, about.unit)


CHECKS = (
    Check("allocations", ("Node", "Pod"), (UNACCOUNTED, GARBLED, ELSEWHERE, PHANTOM, ORPHAN), held),
    Check("unbound-allocations", ("Pod",), (UNBOUND,), unbound),
    Check("capacity", ("Node", "Pod"), (OVER_CAPACITY,), over_capacity),
)
