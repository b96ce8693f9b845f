"""What became of the policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, decode_policy

_READY, _CONFLICTED, _WARNINGS = "Ready", "Conflicted", "Warnings"

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
WARNED = Diagnosis(
    "policy-warned",
    Severity.WARNING,
    "The scheduler understands the policy, and something in it is hardly meant: it lets in no card or no node that"
    " there is, for example, so that pods that it is in force for wait.",
    "Correct what the message names, or leave it where what it is about is still to come.",
)
UNJUDGED = Diagnosis(
    "policy-unjudged",
    Severity.WARNING,
    "The status of the policy says nothing about it as it is now: no scheduler that leads has read it since it was"
    " written.",
    "Look whether the scheduler runs, and whether it may patch the status of policies.",
)


def policies(kind: str, seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find policies of a kind that are not in force as they were meant.

    Of those that no scheduler has judged as they are now it is said whether they can be understood.
    """
    for policy in seen.policies(kind):
        ref = ObjectRef(kind, policy.metadata.name, policy.metadata.namespace)
        ready, conflicted = policy.status.condition(_READY), policy.status.condition(_CONFLICTED)
        if ready is None or 0 < ready.observed_generation < policy.metadata.generation:
            metadata = {"name": policy.metadata.name, "namespace": policy.metadata.namespace}
            error = decode_policy({"kind": kind, "metadata": metadata, "spec": policy.spec}).error
            told = "its status does not say what became of it"
            yield NOT_READY.of(ref, error) if error else UNJUDGED.of(ref, told)
        elif ready.status != "True":
            yield NOT_READY.of(ref, ready.message or "it is not Ready")
        else:
            warned = policy.status.condition(_WARNINGS)
            if warned is not None and warned.status == "True":
                yield WARNED.of(ref, warned.message or "its condition Warnings is True")
        if conflicted is not None and conflicted.status == "True":
            yield CONFLICTED.of(ref, conflicted.message or "it is Conflicted")


_FOUND = (NOT_READY, CONFLICTED, WARNED, UNJUDGED)

CHECKS = (
    Check("cluster-policies", (CLUSTER_KIND,), _FOUND, partial(policies, CLUSTER_KIND)),
    Check("policies", (NAMESPACED_KIND,), _FOUND, partial(policies, NAMESPACED_KIND)),
)
