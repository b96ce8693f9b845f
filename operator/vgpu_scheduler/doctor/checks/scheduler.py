"""Checks whether the scheduler runs, and whether exactly one replica leads."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import APP, DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity

NOT_RUNNING = Diagnosis(
    "scheduler-not-running",
    Severity.ERROR,
    "No replica of the scheduler is ready, and no replica holds its Lease: pods that name it wait.",
    "Check the pods and events of the Deployment, or install it (kubectl apply -f manifests/install.yaml).",
)
NO_LEADER = Diagnosis(
    "lease-stale",
    Severity.ERROR,
    "No replica holds the Lease, or its holder has not renewed it within its duration. No replica binds pods,"
    " although one is ready: it cannot reach the API server, or may not write the Lease.",
    "Look for 'lease' in the log of the scheduler, and check its rights to the Lease.",
)
TWO_LEADERS = Diagnosis(
    "two-leaders",
    Severity.ERROR,
    "Two Leases of the scheduler in different namespaces are held at the same time: it is installed twice, and both"
    " place pods. The token on each node keeps them from giving out a card twice, but they get in each other's way.",
    "Remove one installation, or give them different scheduler_names and managed_nodes.",
)


def running(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find out whether a scheduler serves our pods."""
    if doctor_input.leading:
        return
    expected, lease = doctor_input.expected, doctor_input.lease
    here = [d for d in doctor_input.own_deployments if d.metadata.namespace == expected.namespace]
    if not any(deployment.status.ready_replicas for deployment in here):
        name = here[0].metadata.name if here else APP
        state = "none of its replicas is ready" if here else "it does not exist"
        yield NOT_RUNNING.of(ObjectRef("Deployment", name, expected.namespace), f"{state}, and no replica leads")
    elif lease is None:
        yield NO_LEADER.of(ObjectRef("Lease", expected.lease_name, expected.lease_namespace), "it does not exist")
    else:
        times = [time for time in (lease.renewed, lease.written) if time]
        since = f"was renewed {doctor_input.age(max(times)):.0f} s ago" if times else "was never renewed"
        holder = lease.spec.holder_identity or "no replica"
        ref = ObjectRef("Lease", expected.lease_name, expected.lease_namespace)
        yield NO_LEADER.of(ref, f"it is held by {holder} and {since}")


def leaders(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find a second scheduler that leads with a Lease of its own."""
    held = [
        lease
        for lease in doctor_input.leases
        if lease.metadata.name == doctor_input.expected.lease_name and doctor_input.is_fresh(lease)
    ]
    if len(held) > 1:
        for lease in held:
            others = ", ".join(
                sorted(f"{other.key} ({other.spec.holder_identity})" for other in held if other is not lease)
            )
            ref = ObjectRef("Lease", lease.metadata.name, lease.metadata.namespace)
            yield TWO_LEADERS.of(ref, f"it is held by {lease.spec.holder_identity}, and so is {others}")


CHECKS = (
    Check("scheduler", ("Lease", "Deployment"), (NOT_RUNNING, NO_LEADER), running),
    Check("leaders", ("Lease",), (TWO_LEADERS,), leaders),
)
