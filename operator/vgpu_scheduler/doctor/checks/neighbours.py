"""Who else gives out the cards of our nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.checks.software import (
    is_hami_scheduler,
    is_mig_manager,
    is_stock_plugin,
    scheduler_name,
)
from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.doctor.objects import Workload

STOCK_PLUGIN = Diagnosis(
    "stock-plugin",
    Severity.ERROR,
    "NVIDIA's own device plugin runs on nodes whose cards are shared. Both plugins offer nvidia.com/gpu to the kubelet,"
    " which keeps the one that came last, and NVIDIA's gives out cards that nobody here accounts for.",
    "Keep NVIDIA's device plugin off these nodes (in the GPU operator: the node label"
    " nvidia.com/gpu.deploy.device-plugin=false).",
)
TIME_SLICING = Diagnosis(
    "time-slicing",
    Severity.ERROR,
    "GPU feature discovery says of the node that NVIDIA's device plugin shares its cards by time-slicing or MPS. A card"
    " would be shared twice, without a limit on memory.",
    "Switch off sharing in the configuration of NVIDIA's device plugin for this node.",
)
MIG_MANAGER = Diagnosis(
    "mig-manager",
    Severity.WARNING,
    "The MIG manager of the GPU operator runs on nodes whose cards are shared. It cuts cards anew when a label of the"
    " node changes, under the pods that run there.",
    "Keep the MIG manager off these nodes (the node label nvidia.com/gpu.deploy.mig-manager=false).",
)
RESOURCE_SLICES = Diagnosis(
    "resource-slices",
    Severity.WARNING,
    "A driver of dynamic resource allocation offers the devices of the node, too. Who claims one of these gets a card"
    " that the scheduler may give out as well.",
    "Keep the driver off this node, or the node out of managed_nodes.",
)
HAMI = Diagnosis(
    "hami-scheduler-uncounted",
    Severity.ERROR,
    "HAMi's scheduler runs, and coexist_with does not name it. What it has decided and not yet bound is not counted, so"
    " a card may be given out twice.",
    "Add the name of HAMi's scheduler to coexist_with, or scale it to 0.",
)
SAME_NODES = Diagnosis(
    "two-schedulers",
    Severity.ERROR,
    "HAMi's scheduler runs and has placed a pod with cards on a node that is managed here. Two schedulers that place"
    " pods on the same nodes decide without knowing of each other.",
    "Keep the nodes apart: managed_nodes here, the flag --node-label-selector there.",
)
_GPU_DRIVERS = ("gpu.", "hami")
_MOST_NAMED = 5


def components(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find NVIDIA's components on nodes whose cards are shared."""
    kinds: tuple[tuple[Diagnosis, Callable[[Workload], bool], str], ...] = (
        (STOCK_PLUGIN, is_stock_plugin, "it runs NVIDIA's device plugin on"),
        (MIG_MANAGER, is_mig_manager, "it runs the MIG manager on"),
    )
    for workload in seen.daemon_sets:
        for diagnosis, is_kind, message in kinds:
            nodes = _nodes_of(seen, workload) if is_kind(workload) else []
            if nodes:
                yield diagnosis.of(_ref("DaemonSet", workload), f"{message} {_listed(nodes)}")


def sharing(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find nodes whose cards NVIDIA's plugin shares."""
    for node in seen.nodes:
        if node.name in seen.nodes_with_devices:
            strategy = node.labels.get("nvidia.com/gpu.sharing-strategy", "none")
            if strategy != "none":
                replicas = node.labels.get("nvidia.com/gpu.replicas", "several")
                message = f"NVIDIA's device plugin shares its cards by {strategy} ({replicas} replicas of each)"
                yield TIME_SLICING.of(ObjectRef("Node", node.name), message)


def slices(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find nodes whose devices a driver of dynamic resource allocation offers."""
    drivers: dict[str, set[str]] = {}
    for found in seen.resource_slices:
        if found.spec.driver.startswith(_GPU_DRIVERS) and found.spec.node_name in seen.nodes_with_devices:
            drivers.setdefault(found.spec.node_name, set()).add(found.spec.driver)
    for node, names in sorted(drivers.items()):
        yield RESOURCE_SLICES.of(ObjectRef("Node", node), f"its devices are offered by {', '.join(sorted(names))}, too")


def hami(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find schedulers of HAMi that decide about the same cards as ours, where ours is installed."""
    if not seen.own_deployments and not seen.leading:
        return
    for deployment in seen.deployments:
        if not is_hami_scheduler(deployment) or not deployment.spec.replicas:
            continue
        name = scheduler_name(deployment)
        if name not in seen.expected.options.coexist_with:
            ours = name in seen.expected.options.scheduler_names
            why = "which is one of our own scheduler_names" if ours else "which coexist_with does not name"
            yield HAMI.of(_ref("Deployment", deployment), f"it serves pods that name {name}, {why}")
        for pod in seen.pods:
            shared = pod.node_name in seen.nodes_with_devices and not pod.terminal
            if shared and pod.scheduler_name == name and seen.asks_for_devices(pod):
                message = f"{name} placed it on node {pod.node_name}, which is managed here"
                yield SAME_NODES.of(ObjectRef("Pod", pod.name, pod.namespace), message)


def _nodes_of(seen: ClusterSnapshot, workload: Workload) -> list[str]:
    """Return the nodes with shared cards on which a workload has a pod."""
    pods = seen.pods_of.get(workload.metadata.uid, ())
    return sorted({pod.node_name for pod in pods if not pod.terminal} & set(seen.nodes_with_devices))


def _listed(nodes: list[str]) -> str:
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:_MOST_NAMED])}{more}"


def _ref(kind: str, workload: Workload) -> ObjectRef:
    return ObjectRef(kind, workload.metadata.name, workload.metadata.namespace)


CHECKS = (
    Check("gpu-components", ("DaemonSet", "Pod", "Node"), (STOCK_PLUGIN, MIG_MANAGER), components),
    Check("gpu-sharing", ("Node",), (TIME_SLICING,), sharing),
    Check("resource-slices", ("ResourceSlice", "Node"), (RESOURCE_SLICES,), slices),
    Check("hami-scheduler", ("Deployment", "Lease", "Pod", "Node"), (HAMI, SAME_NODES), hami),
)
