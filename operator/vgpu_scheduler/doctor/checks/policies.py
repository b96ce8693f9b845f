"""Checks of the status of policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, PolicyConditionType, decode_policy

NOT_READY = Diagnosis(
    "policy-not-ready",
    Severity.ERROR,
    "The policy is not valid. Pods to which it would apply wait, so that a mistake in it lifts none of its "
    "restrictions.",
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
    "The policy is valid, but part of it is probably a mistake: for example, it allows no existing card or "
    "node, so that the pods to which it applies wait.",
    "Correct what the message names, or leave it if the objects that it is about will be created later.",
)
UNJUDGED = Diagnosis(
    "policy-unjudged",
    Severity.WARNING,
    "The status of the policy is not about its current version: no leader has read it since it was written.",
    "Check whether the scheduler runs, and whether it may patch the status of policies.",
)


def policies(kind: str, doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find policies of a kind that are not in force as intended.

    Policies whose current generation no scheduler has judged yet are decoded here to find errors.
    """
    for policy in doctor_input.policies(kind):
        ref = ObjectRef(kind, policy.metadata.name, policy.metadata.namespace)
        ready, conflicted = (
            policy.status.condition(PolicyConditionType.READY),
            policy.status.condition(PolicyConditionType.CONFLICTED),
        )
        if ready is None or 0 < ready.observed_generation < policy.metadata.generation:
            metadata = {"name": policy.metadata.name, "namespace": policy.metadata.namespace}
            error = decode_policy({"kind": kind, "metadata": metadata, "spec": policy.spec}).error
            told = "its status is not about its current version"
            yield NOT_READY.of(ref, error) if error else UNJUDGED.of(ref, told)
        elif ready.status != "True":
            yield NOT_READY.of(ref, ready.message or "it is not Ready")
        else:
            warned = policy.status.condition(PolicyConditionType.WARNINGS)
            if warned is not None and warned.status == "True":
                yield WARNED.of(ref, warned.message or "its condition Warnings is True")
        if conflicted is not None and conflicted.status == "True":
            yield CONFLICTED.of(ref, conflicted.message or "it is Conflicted")


_FOUND = (NOT_READY, CONFLICTED, WARNED, UNJUDGED)

CHECKS = (
    Check("cluster-policies", (CLUSTER_KIND,), _FOUND, partial(policies, CLUSTER_KIND)),
    Check("policies", (NAMESPACED_KIND,), _FOUND, partial(policies, NAMESPACED_KIND)),
)
