"""Checks of versions and clocks that do not match."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import APP, APP_LABEL, DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity, Unknown, listed_nodes

OLDEST = (1, 30)
"""The oldest supported minor version of Kubernetes."""
MOST_SKEW = 5.0
"""The largest acceptable difference between clocks (seconds)."""

TOO_OLD = Diagnosis(
    "kubernetes-too-old",
    Severity.ERROR,
    "The API server is of a version that is not supported: ValidatingAdmissionPolicies are served as v1 since 1.30.",
    "Upgrade the cluster to Kubernetes 1.30 or newer.",
)
IMAGES_DIFFER = Diagnosis(
    "replica-images-differ",
    Severity.WARNING,
    "Replicas of the scheduler run different images, so decisions depend on which of them leads. This is "
    "normal for a moment while a Deployment is rolled out.",
    "Wait for the rollout, or give all replicas the same image.",
)
CLOCK_SKEW = Diagnosis(
    "clock-skew",
    Severity.WARNING,
    "The clock of this machine and that of the API server differ. The ages in this report are by the API server's"
    " clock; tokens and certificates may be refused.",
    "Have both clocks set by NTP.",
)
LEASE_SKEW = Diagnosis(
    "lease-clock-skew",
    Severity.WARNING,
    "The time that the leader wrote into its Lease differs from the time at which the API server stored it: "
    "the clock of the leader's node is wrong. Leader election does not depend on it; the age of node locks, "
    "which other schedulers use, does.",
    "Have the clock of the leader's node set by NTP.",
)
PLUGIN_VERSION = Diagnosis(
    "plugin-version",
    Severity.ERROR,
    "The software on the nodes has a version that behaves differently from what the scheduler assumes. "
    "Volcano's device plugin"
    " finds its pod in another way from version to version; koordlet limits shares and sets up RDMA devices since"
    " v1.6.",
    "Set volcano.plugin_version to the version of the plugin, or upgrade koordlet.",
)


def server_version(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find an API server that is too old."""
    version = doctor_input.server.version
    if version is not None and version < OLDEST:
        message = f"it is version {version[0]}.{version[1]}; the oldest supported one is {OLDEST[0]}.{OLDEST[1]}"
        yield TOO_OLD.of(_server(doctor_input), message)


def images(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find replicas of the scheduler with different images."""
    by_images: dict[tuple[str, ...], list[str]] = {}
    namespace = doctor_input.expected.namespace
    for pod in doctor_input.pods:
        if pod.namespace == namespace and pod.labels.get(APP_LABEL) == APP and not pod.terminal:
            by_images.setdefault(pod.spec.images, []).append(pod.name)
    if len(by_images) > 1:
        parts = [f"{', '.join(sorted(names))}: {', '.join(which)}" for which, names in sorted(by_images.items())]
        name = next((d.metadata.name for d in doctor_input.own_deployments if d.metadata.namespace == namespace), APP)
        yield IMAGES_DIFFER.of(ObjectRef("Deployment", name, namespace), f"its pods differ ({'; '.join(parts)})")


def local_clock(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find a difference between the local clock and the API server's."""
    skew = (doctor_input.server.local - doctor_input.server.now).total_seconds()
    if abs(skew) > MOST_SKEW:
        way = "ahead of" if skew > 0 else "behind"
        yield CLOCK_SKEW.of(
            _server(doctor_input), f"the clock of this machine is {abs(skew):.0f} s {way} the API server's"
        )


def lease_clock(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find a difference between the leader's clock and the API server's."""
    lease = doctor_input.lease
    if lease is None or lease.renewed is None or not lease.spec.holder_identity:
        return
    written = lease.written
    skew = (lease.renewed - (written or doctor_input.server.now)).total_seconds()
    if skew > MOST_SKEW or (written is not None and skew < -MOST_SKEW and doctor_input.is_fresh(lease)):
        way = "ahead of" if skew > 0 else "behind"
        ref = ObjectRef("Lease", lease.metadata.name, lease.metadata.namespace)
        yield LEASE_SKEW.of(ref, f"{lease.spec.holder_identity} wrote a time {abs(skew):.0f} s {way} the API server's")


def plugins(doctor_input: DoctorInput) -> Iterator[Finding | Unknown]:
    """Find device plugins and other node software of versions that do not match the settings."""
    sides = [dialect.node_side for dialect in doctor_input.expected.options.dialects]
    for daemon_set in doctor_input.daemon_sets:
        nodes = doctor_input.nodes_with(daemon_set)
        for image in dict.fromkeys(container.image for container in daemon_set.containers) if nodes else ():
            for side in sides:
                try:
                    problem = side.version_problem(image)
                except ValueError as error:
                    yield Unknown(f"the version of DaemonSet {daemon_set.key}: {error}")
                    continue
                if problem:
                    yield PLUGIN_VERSION.of(daemon_set.ref("DaemonSet"), f"{problem} ({listed_nodes(nodes)})")


def _server(doctor_input: DoctorInput) -> ObjectRef:
    return ObjectRef("APIServer", doctor_input.server.address)


CHECKS = (
    Check("server-version", (), (TOO_OLD,), server_version),
    Check("replica-images", ("Pod", "Deployment"), (IMAGES_DIFFER,), images),
    Check("plugin-versions", ("DaemonSet", "Pod", "Node", "Device"), (PLUGIN_VERSION,), plugins),
    Check("local-clock", (), (CLOCK_SKEW,), local_clock),
    Check("lease-clock", ("Lease",), (LEASE_SKEW,), lease_clock),
)
