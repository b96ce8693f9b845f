"""Checks for other software that manages the cards of our nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.checks.software import is_mig_manager, is_stock_plugin
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity, listed_nodes
from vgpu_scheduler.doctor.objects import Workload

STOCK_PLUGIN = Diagnosis(
    "stock-plugin",
    Severity.ERROR,
    "NVIDIA's own device plugin runs on nodes whose cards are shared. Both plugins offer nvidia.com/gpu to the kubelet,"
    " which keeps the one that registered last, and NVIDIA's allocates cards without the scheduler's knowledge.",
    "Keep NVIDIA's device plugin off these nodes (in the GPU operator: the node label"
    " nvidia.com/gpu.deploy.device-plugin=false).",
)
TIME_SLICING = Diagnosis(
    "time-slicing",
    Severity.ERROR,
    "According to GPU feature discovery, NVIDIA's device plugin shares the node's cards by time-slicing or MPS. A card"
    " would be shared twice, without a limit on memory.",
    "Switch off sharing in the configuration of NVIDIA's device plugin for this node.",
)
MIG_MANAGER = Diagnosis(
    "mig-manager",
    Severity.WARNING,
    "The MIG manager of the GPU operator runs on nodes whose cards are shared. It repartitions cards when a "
    "label of the node changes, also while pods run on them.",
    "Keep the MIG manager off these nodes (the node label nvidia.com/gpu.deploy.mig-manager=false).",
)
RESOURCE_SLICES = Diagnosis(
    "resource-slices",
    Severity.WARNING,
    "A driver of dynamic resource allocation offers the devices of the node, too. A pod that claims one of "
    "them gets a card that the scheduler may also allocate.",
    "Keep the driver off this node, or the node out of managed_nodes.",
)
_GPU_DRIVERS = ("gpu.", "hami")


def components(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find NVIDIA's components on nodes whose cards are shared."""
    kinds: tuple[tuple[Diagnosis, Callable[[Workload], bool], str], ...] = (
        (STOCK_PLUGIN, is_stock_plugin, "it runs NVIDIA's device plugin on"),
        (MIG_MANAGER, is_mig_manager, "it runs the MIG manager on"),
    )
    for workload in doctor_input.daemon_sets:
        for diagnosis, is_kind, message in kinds:
            nodes = doctor_input.nodes_with(workload) if is_kind(workload) else ()
            if nodes:
                yield diagnosis.of(workload.ref("DaemonSet"), f"{message} {listed_nodes(nodes)}")


def sharing(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find nodes whose cards are shared by NVIDIA's device plugin."""
    for node in doctor_input.nodes:
        if node.name in doctor_input.nodes_with_devices:
            strategy = node.labels.get("nvidia.com/gpu.sharing-strategy", "none")
            if strategy != "none":
                replicas = node.labels.get("nvidia.com/gpu.replicas", "several")
                message = f"NVIDIA's device plugin shares its cards by {strategy} ({replicas} replicas of each)"
                yield TIME_SLICING.of(ObjectRef("Node", node.name), message)


def slices(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find nodes whose devices are also offered by a driver of dynamic resource allocation."""
    drivers: dict[str, set[str]] = {}
    for found in doctor_input.resource_slices:
        if found.spec.driver.startswith(_GPU_DRIVERS) and found.spec.node_name in doctor_input.nodes_with_devices:
            drivers.setdefault(found.spec.node_name, set()).add(found.spec.driver)
    for node, names in sorted(drivers.items()):
        yield RESOURCE_SLICES.of(ObjectRef("Node", node), f"its devices are offered by {', '.join(sorted(names))}, too")


CHECKS = (
    Check("gpu-components", ("DaemonSet", "Pod", "Node"), (STOCK_PLUGIN, MIG_MANAGER), components),
    Check("gpu-sharing", ("Node",), (TIME_SLICING,), sharing),
    Check("resource-slices", ("ResourceSlice", "Node"), (RESOURCE_SLICES,), slices),
)
