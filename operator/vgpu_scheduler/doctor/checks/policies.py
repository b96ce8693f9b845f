"""What became of the policies."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.doctor.seen import Seen
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND

_READY, _CONFLICTED = "Ready", "Conflicted"

NOT_READY = Diagnosis(
    "policy-not-ready",
    Severity.ERROR,
    "The scheduler does not understand the policy. Pods that it would be in force for wait, for nothing that it"
    " restricts may be lifted by a mistake in it.",
    "Correct the field that the message names.",
)
CONFLICTED = Diagnosis(
    "policy-conflicted",
    Severity.WARNING,
    "Another policy has the same priority and a section in common with it; their names decide which one is in force.",
    "Give the policies different priorities.",
)
UNJUDGED = Diagnosis(
    "policy-unjudged",
    Severity.WARNING,
    "The status of the policy says nothing about it as it is now: no scheduler that leads has read it since it was"
    " written.",
    "Look whether the scheduler runs, and whether it may patch the status of policies.",
)


def policies(seen: Seen) -> Iterator[Finding]:
    """Find policies that are not in force as they were meant."""
    for kind, policy in seen.policies:
        ref = ObjectRef(kind, policy.metadata.name, policy.metadata.namespace)
        ready, conflicted = policy.status.condition(_READY), policy.status.condition(_CONFLICTED)
        if ready is None or 0 < ready.observed_generation < policy.metadata.generation:
            yield UNJUDGED.of(ref, "its status does not say what became of it")
        elif ready.status != "True":
            yield NOT_READY.of(ref, ready.message or "it is not Ready")
        if conflicted is not None and conflicted.status == "True":
            yield CONFLICTED.of(ref, conflicted.message or "it is Conflicted")


CHECKS = (Check("policies", (CLUSTER_KIND, NAMESPACED_KIND), (NOT_READY, CONFLICTED, UNJUDGED), policies),)
