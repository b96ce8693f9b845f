"""Checks of devices that nodes register, and of the device plugins that register them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.engine import vendors_on_node
from vgpu_scheduler.model import EventReason, counted

UNREADABLE = Diagnosis(
    "registration-unreadable",
    Severity.ERROR,
    "The annotation or object in which a device plugin lists the cards of the node cannot be decoded. A "
    "running scheduler keeps the last list that it could decode; one that starts now allocates none of "
    "these cards.",
    "Restart the device plugin on that node, and compare its version with the supported ones.",
)
TWICE = Diagnosis(
    "device-registered-twice",
    Severity.ERROR,
    "Two device plugins of different ecosystems list the same card. Neither knows what the other allocates, "
    "so the card is allocated to no pod.",
    "Remove one of the two device plugins from that node, with the annotation that it leaves behind.",
)
ELSEWHERE = Diagnosis(
    "device-on-two-nodes",
    Severity.WARNING,
    "Two nodes list the same card. One of them may no longer exist, such as a node that was renamed: pods "
    "placed there never start. Or one lists cards that only the other one has: pods placed there never get "
    "them.",
    "Delete the node that no longer exists; if both exist, restart the device plugin on the one without the card.",
)
SILENT = Diagnosis(
    "plugin-silent",
    Severity.ERROR,
    "The node lists cards of a vendor, but its kubelet offers none of the resources that ask for them: the device"
    " plugin has ended, or never reached the kubelet. Pods that ask for these cards do not go there.",
    "Look at the device plugin's pod on that node, and restart it.",
)
UNHEALTHY = Diagnosis(
    "card-unhealthy",
    Severity.WARNING,
    "The device plugin reports cards as unhealthy. They are allocated to no pod until it reports them as healthy.",
    "Look for errors of these cards in the log of the device plugin and in the kernel's log of that node.",
)
NO_GEOMETRY = Diagnosis(
    "card-without-geometry",
    Severity.WARNING,
    "Cards are in MIG mode, and neither their registration nor a configuration names the MIG geometries of "
    "their model, or none of its profiles is allowed. They are allocated to no pod.",
    "Name the geometries of that model (`knownMigGeometries`) in the ConfigMap that the setting `hami_device_config` or"
    " `volcano_device_config` names, allow one of its profiles there (`migProfileAllowlist`) where that keeps them out,"
    " or take the cards out of MIG mode.",
)
_HANDSHAKE = "handshake"


def registrations(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find registrations that cannot be read or that contradict each other."""
    known = {EventReason.REGISTRATION_UNREADABLE: UNREADABLE, EventReason.DEVICE_REGISTERED_TWICE: TWICE}
    for problem in dict.fromkeys(doctor_input.cluster_engine.problems):
        if problem.kind == "Node" and problem.reason in known:
            yield known[problem.reason].of(ObjectRef("Node", problem.name), problem.message)


def homes(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find nodes that list cards of an earlier node; devices of other kinds have no unique names."""
    first: dict[str, str] = {}
    for node in doctor_input.nodes:
        twice: dict[str, list[str]] = {}
        for name, devices in doctor_input.cluster_engine.devices(node.name).items():
            inventory = doctor_input.cluster_engine.engine.dialects[name].inventory
            for card in (inventory.hardware(device) for device in devices if device.vendor in inventory.cards):
                if (home := first.setdefault(card, node.name)) != node.name:
                    twice.setdefault(home, []).append(card)
        for home, listed in twice.items():
            message = f"it lists {counted(len(listed), 'card')} that node {home} lists, too: {', '.join(listed)}"
            yield ELSEWHERE.of(ObjectRef("Node", node.name), message)


def plugins(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find cards that kubelets do not offer, that are unhealthy, or whose MIG geometry is unknown."""
    for node in doctor_input.nodes:
        if not doctor_input.manages(node):
            continue
        ref = ObjectRef("Node", node.name)
        for on_node in vendors_on_node(
            doctor_input.cluster_engine.engine.dialects, doctor_input.cluster_engine.devices(node.name)
        ):
            vendor, devices = on_node.vendor, on_node.devices
            sick = [device.uuid for device in devices if not device.healthy]
            if sick:
                are = "is" if len(sick) == 1 else "are"
                message = f"{len(sick)} of {counted(len(devices), f'{vendor} card')} {are} unhealthy: {', '.join(sick)}"
                yield UNHEALTHY.of(ref, message)
            uncut = Counter(device.type for device in devices if device.lacks_geometry)
            if uncut:
                models = ", ".join(f"{model} ({count})" for model, count in sorted(uncut.items()))
                yield NO_GEOMETRY.of(ref, f"no geometry is known or allowed for its cards in MIG mode: {models}")
            if on_node.offers_none(node):
                resources = " or ".join(sorted(on_node.resources))
                message = f"it lists {counted(len(devices), f'{vendor} card')}, and its kubelet offers no {resources}"
                yield SILENT.of(ref, message + _handshake(node.annotations))


def _handshake(annotations: Mapping[str, str]) -> str:
    """Return the last handshake between HAMi's scheduler and device plugin, if there is one."""
    said = [f"{name} is {value!r}" for name, value in sorted(annotations.items()) if _HANDSHAKE in name]
    return f" ({'; '.join(said)})" if said else ""


CHECKS = (
    Check("registrations", ("Node",), (UNREADABLE, TWICE), registrations),
    Check("card-homes", ("Node",), (ELSEWHERE,), homes),
    Check("plugins", ("Node",), (SILENT, UNHEALTHY, NO_GEOMETRY), plugins),
)
