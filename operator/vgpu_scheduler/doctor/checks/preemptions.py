"""Checks for preemptions that hang, cannot start, or have no node."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.engine import OVERDUE_AFTER, ends_by_preemption
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import counted
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, read_evictions
from vgpu_scheduler.predicates import needs_scheduling

OVERDUE = Diagnosis(
    "victim-overdue",
    Severity.WARNING,
    "The pod has not ended within its grace period. A pod of higher priority is nominated to its node and "
    "waits for its resources; or the pod was evicted, and the pod that waited for it has chosen other "
    "victims since. Its kubelet does not"
    " answer, or a finalizer or a process that cannot be killed holds it. The scheduler deletes no pod by "
    "force; after two minutes the waiting pod may choose other victims.",
    "Look at its node and its finalizers, and delete the pod by force only if none of its processes runs any more.",
)
NOWHERE = Diagnosis(
    "nominated-nowhere",
    Severity.WARNING,
    "The pod is nominated to a node that does not exist, so that autoscalers may add no node for it. The "
    "scheduler clears its own nominations when it tries the pod again.",
    "Check whether the scheduler runs, and clear status.nominatedNodeName if it stays.",
)
OFF = Diagnosis(
    "preemption-off",
    Severity.WARNING,
    "The policy lets pods evict others, but the scheduler evicts no pods: its setting preemption is off.",
    "Install manifests/preemption (preemption.enabled of the chart), which has the rights and the setting, or remove"
    " mayPreempt from the policy.",
)
NOMINATED_WHILE_OFF = Diagnosis(
    "nominated-while-off",
    Severity.INFO,
    "The pod is nominated to a node, and the setting preemption is off: no room is kept for it there, and a nomination"
    " that the scheduler wrote while it was on is not taken back. Its requests count on that node. A "
    "nomination by an autoscaler is intended.",
    "Clear status.nominatedNodeName if no autoscaler wrote it (metadata.managedFields says who did).",
)


def nominations(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find nominated pods that wait in vain, and victims that do not end."""
    nodes = {node.name for node in doctor_input.nodes}
    nominated: dict[str, list[Pod]] = {}
    for pod in doctor_input.pods:
        if not _is_nominated(doctor_input, pod):
            continue
        if pod.nominated_node_name in nodes:
            nominated.setdefault(pod.nominated_node_name, []).append(pod)
            if not doctor_input.expected.options.preemption:
                yield NOMINATED_WHILE_OFF.of(
                    ObjectRef.of_pod(pod), f"it is nominated to node {pod.nominated_node_name}"
                )
        else:
            yield NOWHERE.of(
                ObjectRef.of_pod(pod), f"it is nominated to node {pod.nominated_node_name}, which does not exist"
            )
    recorded = _recorded(doctor_input)
    for pod in doctor_input.pods:
        late = 0.0 if pod.ends_by is None else doctor_input.server.now.timestamp() - pod.ends_by
        if not pod.deleting or pod.terminal or late < OVERDUE_AFTER:
            continue
        waiting = [each for each in nominated.get(pod.node_name, ()) if each.priority > pod.priority]
        if waiting:
            first = min(waiting, key=lambda each: (-each.priority, each.key))
            others = f" and {counted(len(waiting) - 1, 'other')}" if len(waiting) > 1 else ""
            yield OVERDUE.of(
                ObjectRef.of_pod(pod),
                f"it should have ended {late:.0f} s ago, and pod {first.key}{others} is nominated to its node "
                f"{pod.node_name}",
            )
        elif pod.uid in recorded or _was_preempted(doctor_input, pod):
            text = f"it was evicted and should have ended {late:.0f} s ago; it is still on node {pod.node_name}"
            yield OVERDUE.of(ObjectRef.of_pod(pod), text)


def _recorded(doctor_input: DoctorInput) -> set[str]:
    """Return the UIDs of the pods that policies recorded as evicted within the last hour."""
    policies = [policy for kind in (CLUSTER_KIND, NAMESPACED_KIND) for policy in doctor_input.policies(kind)]
    return {one.uid for policy in policies for one in read_evictions({"evictions": policy.status.evictions})[0]}


def _was_preempted(doctor_input: DoctorInput, pod: Pod) -> bool:
    """Tell whether a pod's conditions say that it was preempted; evictions by drains look the same."""
    if pod.disruption == "PreemptionByScheduler":
        return True
    is_evicted = ends_by_preemption(pod) and doctor_input.expected.options.preemption
    return is_evicted and doctor_input.asks_for_devices(pod)


def _is_nominated(doctor_input: DoctorInput, pod: Pod) -> bool:
    ours = pod.scheduler_name in doctor_input.expected.options.scheduler_names
    return ours and bool(pod.nominated_node_name) and needs_scheduling(pod)


def off(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find policies that allow preemption although the setting turns it off."""
    if doctor_input.expected.options.preemption:
        return
    for policy in doctor_input.policies(CLUSTER_KIND):
        section = policy.spec.get("preemption")
        if isinstance(section, dict) and section.get("mayPreempt") is True:
            yield OFF.of(ObjectRef(CLUSTER_KIND, policy.metadata.name), "it says preemption.mayPreempt")


CHECKS = (
    Check("nominated-pods", ("Pod", "Node"), (OVERDUE, NOWHERE, NOMINATED_WHILE_OFF), nominations),
    Check("preemption-allowed", (CLUSTER_KIND,), (OFF,), off),
)
