"""Checks for waiting pods that no scheduler serves."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.admission import DEFAULT_SCHEDULER
from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.checks.allocations import allocation_annotations
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import needs_scheduling

UNSERVED = Diagnosis(
    "pod-unserved",
    Severity.ERROR,
    "The pod waits, and the scheduler that it names does not run or does not exist: no scheduler has tried the pod.",
    "Start that scheduler, create the pod anew with the right schedulerName, or add the name to scheduler_names if no "
    "other scheduler has it.",
)
WRONG_SCHEDULER = Diagnosis(
    "pod-names-another-scheduler",
    Severity.WARNING,
    "The pod asks for parts of cards, which no kubelet offers, and names a scheduler that expects kubelets "
    "to offer them. It will wait forever. HAMi's webhook, or the policy or webhook of this scheduler, would "
    "have set the right scheduler.",
    "Create the pod anew with spec.schedulerName of this scheduler, or install the admission policy or webhook.",
)
_OVERDUE = 60.0
"""Seconds within which a running scheduler has reported on a pod."""


def waiting(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find pods that wait for a scheduler that does not serve them."""
    ours, coexisting = doctor_input.expected.options.scheduler_names, doctor_input.expected.options.coexist_with
    allocations = allocation_annotations(doctor_input)
    for pod in doctor_input.pods:
        if not needs_scheduling(pod):
            continue
        ref = ObjectRef.of_pod(pod)
        if pod.scheduler_name in ours:
            if not doctor_input.leading and _for_a_while(doctor_input, pod):
                yield UNSERVED.of(ref, f"it names {pod.scheduler_name}, and no scheduler of that name runs")
        elif not doctor_input.asks_for_devices(pod):
            continue
        elif pod.scheduler_name == DEFAULT_SCHEDULER and DEFAULT_SCHEDULER not in coexisting:
            unknown = sorted(
                pod.spec.resource_names.keys() & doctor_input.cluster_engine.engine.dialects.unknown_to_kubelet
            )
            if unknown:
                yield WRONG_SCHEDULER.of(ref, f"it names {DEFAULT_SCHEDULER} and asks for {', '.join(unknown)}")
        elif (
            pod.scheduled_condition is None
            and allocations.isdisjoint(pod.annotations)
            and _for_a_while(doctor_input, pod)
        ):
            yield UNSERVED.of(
                ref, f"it names {pod.scheduler_name}, which has not looked at it; ours are {', '.join(ours)}"
            )


def _for_a_while(doctor_input: DoctorInput, pod: Pod) -> bool:
    return pod.created_at is None or doctor_input.server.now.timestamp() - pod.created_at > _OVERDUE


CHECKS = (Check("waiting-pods", ("Pod", "Lease"), (UNSERVED, WRONG_SCHEDULER), waiting),)
