"""Checks for other schedulers that place pods with cards on the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.checks.flags import UnknownFlagError, flag_values, listed
from vgpu_scheduler.doctor.checks.software import (
    HAMI_SCHEDULER,
    is_hami_scheduler,
    is_koordinator,
    is_volcano_scheduler,
)
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity, Unknown, listed_nodes
from vgpu_scheduler.doctor.objects import Workload
from vgpu_scheduler.kube import UNSCHEDULABLE_TAINT, Node, Pod, untolerated
from vgpu_scheduler.model import counted

HAMI = Diagnosis(
    "hami-scheduler-uncounted",
    Severity.ERROR,
    "HAMi's scheduler runs, and coexist_with does not name it. What it has decided and not yet bound is not "
    "counted, so a card may be allocated twice.",
    "Add the name of HAMi's scheduler to coexist_with, or scale it to 0.",
)
SAME_NODES = Diagnosis(
    "two-schedulers",
    Severity.ERROR,
    "HAMi's scheduler runs and has placed a pod with cards on a node that is managed here. Two schedulers that place"
    " pods on the same nodes decide without knowing of each other.",
    "Keep the nodes apart: managed_nodes here, the flag --node-label-selector there.",
)
NOT_KEPT_OFF = Diagnosis(
    "scheduler-not-kept-off",
    Severity.ERROR,
    "Volcano's scheduler or koord-scheduler runs, pods with cards name it, and nothing keeps these pods off nodes that"
    " are managed here. Two schedulers that place pods on the same nodes may allocate a card twice, and "
    "what the other one has decided and not yet bound is not known to this scheduler. Pods that it placed "
    "before the nodes were moved do no harm: their cards are counted.",
    "Keep these pods off the nodes: Volcano's scheduler by its flag --node-selector, koord-scheduler by a taint that"
    " only pods of this scheduler tolerate.",
)


@dataclass(frozen=True, slots=True)
class Other:
    """A scheduler of another ecosystem.

    Attributes
    ----------
    called
        The scheduler's name in messages.
    dialect
        The dialect of the nodes whose cards it allocates.
    pods
        Its scheduler name in pods, unless its flags set another.
    is_one
        Recognises its Deployment.
    """

    called: str
    dialect: str
    pods: str
    is_one: Callable[[Workload], bool]


OTHERS = (
    Other("Volcano's scheduler", "volcano", "volcano", is_volcano_scheduler),
    Other("koord-scheduler", "koordinator", "koord-scheduler", lambda found: is_koordinator(found, "koord-scheduler")),
)


def hami(doctor_input: DoctorInput) -> Iterator[Finding | Unknown]:
    """Find running schedulers of HAMi that decide about the same cards as an installed scheduler of ours."""
    for deployment in doctor_input.deployments if doctor_input.installed else ():
        if not is_hami_scheduler(deployment) or not deployment.spec.replicas:
            continue
        try:
            name = next(filter(None, flag_values(deployment, "scheduler-name")), HAMI_SCHEDULER)
        except UnknownFlagError as unknown:
            yield Unknown(str(unknown))
            continue
        if name not in doctor_input.expected.options.coexist_with:
            ours = name in doctor_input.expected.options.scheduler_names
            why = "which is one of our own scheduler_names" if ours else "which coexist_with does not name"
            yield HAMI.of(deployment.ref("Deployment"), f"it serves pods that name {name}, {why}")
        for pod in doctor_input.pods:
            shared = pod.node_name in doctor_input.nodes_with_devices and not pod.terminal
            if shared and pod.scheduler_name == name and doctor_input.asks_for_devices(pod):
                message = f"{name} placed it on node {pod.node_name}, which is managed here"
                yield SAME_NODES.of(ObjectRef.of_pod(pod), message)


def kept_off(doctor_input: DoctorInput) -> Iterator[Finding | Unknown]:
    """Find schedulers of Volcano and Koordinator that may place pods with cards on nodes that we manage."""
    for other, deployment in others(doctor_input) if doctor_input.installed else ():
        try:
            names = {*flag_values(deployment, "scheduler-name")} or {other.pods}
            labels = listed(flag_values(deployment, "node-selector"))
        except UnknownFlagError as unknown:
            yield Unknown(str(unknown))
            continue
        theirs = [
            p
            for p in doctor_input.pods
            if p.scheduler_name in names and not p.terminal and doctor_input.asks_for_devices(p)
        ]
        nodes = [
            node.name
            for node in doctor_input.nodes
            if node.name in doctor_input.nodes_with_devices
            and doctor_input.cluster_engine.devices(node.name).get(other.dialect)
            and _selects(labels, node)
            and any(_may_go(pod, node) for pod in theirs)
        ]
        if nodes:
            message = (
                f"{other.called} may place pods with cards on {listed_nodes(nodes)}: {counted(len(theirs), 'such pod')}"
                f" {'names' if len(theirs) == 1 else 'name'} it, the first one is {theirs[0].key}"
            )
            yield NOT_KEPT_OFF.of(deployment.ref("Deployment"), message)


def others(doctor_input: DoctorInput) -> Iterator[tuple[Other, Workload]]:
    """Yield running schedulers of Volcano and Koordinator whose dialect is served here, too."""
    served = {dialect.name for dialect in doctor_input.expected.options.dialects}
    for deployment in doctor_input.deployments:
        for other in OTHERS:
            if other.dialect in served and deployment.spec.replicas and other.is_one(deployment):
                yield other, deployment


def _selects(labels: list[str], node: Node) -> bool:
    """Tell whether Volcano's node selector flag selects a node: one matching ``key:value`` is enough."""
    pairs = [tuple(part.strip() for part in label.partition(":")[::2]) for label in labels]
    wanted = [(key, value) for key, value in pairs if value]
    return not wanted or any(node.labels.get(key) == value for key, value in wanted)


def _may_go(pod: Pod, node: Node) -> bool:
    """Tell whether taints, node selector and node affinity let a pod go to a node."""
    spec, taints = pod.spec, [*node.taints, *([UNSCHEDULABLE_TAINT] if node.unschedulable else [])]
    return (
        not untolerated(taints, spec.tolerations)
        and all(node.labels.get(key) == value for key, value in spec.node_selector.items())
        and (spec.node_affinity is None or spec.node_affinity.matches(node.name, node.labels))
    )


CHECKS = (
    Check("hami-scheduler", ("Deployment", "Lease", "Pod", "Node"), (HAMI, SAME_NODES), hami),
    Check("other-schedulers", ("Deployment", "Lease", "Pod", "Node", "Device"), (NOT_KEPT_OFF,), kept_off),
)
