"""Checks whether Koordinator's components are set up for the pods placed here."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.checks.flags import UnknownFlagError, flag_is_on, flag_values, gate_is_on, listed
from vgpu_scheduler.doctor.checks.software import is_koordinator
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, Severity, Unknown, listed_nodes
from vgpu_scheduler.doctor.objects import Workload

LISTS_NONE = Diagnosis(
    "koordlet-lists-no-devices",
    Severity.ERROR,
    "koordlet runs without its feature gate Accelerators, which is off unless it is given. It then creates "
    "no Device object, or does not update the one that it created: a card that fails is not taken out of "
    "service.",
    "Add Accelerators=true to --feature-gates of koordlet.",
)
INJECTS_NONE = Diagnosis(
    "koordlet-injects-no-cards",
    Severity.ERROR,
    "koordlet runs without its feature gate GPUEnvInject, which is off unless it is given. Containers are not told"
    " which cards they have: each sees those that its image asks for, which may be all of the node or none, and no"
    " share is limited.",
    "Add GPUEnvInject=true to --feature-gates of koordlet, and have containerd serve NRI.",
)
INJECTS_NO_RDMA = Diagnosis(
    "koordlet-injects-no-rdma",
    Severity.ERROR,
    "The node lists RDMA devices, and koordlet runs without its feature gate RDMADeviceInject, which is off unless it"
    " is given. Containers that ask for such devices start without them.",
    "Add RDMADeviceInject=true to --feature-gates of koordlet, and have containerd serve NRI.",
)
BINDING_REFUSED = Diagnosis(
    "binding-refused",
    Severity.ERROR,
    "The webhook validate-pod-binding of koord-manager lets only those accounts bind pods whose names "
    "contain one of the words of its flag --binding-admission-user-name, and the account of this scheduler "
    "has none of them. Its Bindings"
    " fail, and the pods wait.",
    "Add the name of this scheduler's account to --binding-admission-user-name of koord-manager.",
)
_DIALECT = "koordinator"
_GPU, _RDMA = "gpu", "rdma"
"""The device kinds in Koordinator's Device objects."""


def gates(doctor_input: DoctorInput) -> Iterator[Finding | Unknown]:
    """Find nodes whose koordlet does not list devices or does not inject them into containers."""
    if not any(dialect.name == _DIALECT for dialect in doctor_input.expected.options.dialects):
        return
    gpus, rdma = _nodes_that_list(doctor_input, _GPU), _nodes_that_list(doctor_input, _RDMA)
    left = gpus | rdma
    for daemon_set in doctor_input.daemon_sets:
        if not is_koordinator(daemon_set, "koordlet"):
            continue
        nodes = {pod.node_name for pod in doctor_input.pods_of.get(daemon_set.metadata.uid, ()) if not pod.terminal}
        left = left - nodes
        listing = (
            nodes & gpus
            if gpus or rdma
            else nodes & {node.name for node in doctor_input.nodes if doctor_input.manages(node)}
        )
        try:
            yield from _without(daemon_set, "Accelerators", LISTS_NONE, listing)
            yield from _without(daemon_set, "GPUEnvInject", INJECTS_NONE, nodes & gpus)
            yield from _without(daemon_set, "RDMADeviceInject", INJECTS_NO_RDMA, nodes & rdma)
        except UnknownFlagError as unknown:
            yield Unknown(f"{unknown} (DaemonSet {daemon_set.key})")
    if left:
        yield Unknown(f"the flags of koordlet on {listed_nodes(left)}, where no DaemonSet runs it")


def bindings(doctor_input: DoctorInput) -> Iterator[Finding | Unknown]:
    """Find a webhook of koord-manager that refuses this scheduler's Bindings."""
    for deployment in doctor_input.deployments:
        if is_koordinator(deployment, "koord-manager") and deployment.spec.replicas:
            try:
                refused = _refuses(
                    deployment, f"system:serviceaccount:{doctor_input.account.namespace}:{doctor_input.account.name}"
                )
            except UnknownFlagError as unknown:
                yield Unknown(f"{unknown} (Deployment {deployment.key})")
                continue
            if refused:
                yield BINDING_REFUSED.of(deployment.ref("Deployment"), refused)


def _nodes_that_list(doctor_input: DoctorInput, kind: str) -> frozenset[str]:
    return frozenset(
        name
        for name in doctor_input.nodes_with_devices
        if any(device.vendor == kind for device in doctor_input.cluster_engine.devices(name).get(_DIALECT, ()))
    )


def _without(daemon_set: Workload, gate: str, diagnosis: Diagnosis, nodes: Collection[str]) -> Iterator[Finding]:
    if nodes and not gate_is_on(daemon_set, gate):
        yield diagnosis.of(daemon_set.ref("DaemonSet"), f"its feature gate {gate} is off on {listed_nodes(nodes)}")


def _refuses(manager: Workload, account: str) -> str:
    """Describe which Bindings of an account koord-manager refuses; empty if none."""
    words = listed(flag_values(manager, "binding-admission-user-name")[-1:])
    if not gate_is_on(manager, "BindingAdmissionWebhook") or not words or any(word in account for word in words):
        return ""
    spaces = listed(flag_values(manager, "binding-admission-namespaces")[-1:])
    spared = set(listed(flag_values(manager, "binding-admission-exclude-namespaces")[-1:] or ["kube-system"]))
    where = "all namespaces" if spaces == ["*"] else ", ".join(name for name in spaces if name not in spared)
    if not where or flag_is_on(manager, "binding-admission-dry-run"):
        return ""
    but = f" but {', '.join(sorted(spared))}" if spaces == ["*"] and spared else ""
    return f"in {where}{but} it lets only accounts bind whose names have {' or '.join(words)}, and not {account}"


CHECKS = (
    Check(
        "koordlet-gates",
        ("DaemonSet", "Pod", "Node", "Device"),
        (LISTS_NONE, INJECTS_NONE, INJECTS_NO_RDMA),
        gates,
    ),
    Check("koord-manager", ("Deployment",), (BINDING_REFUSED,), bindings),
)
