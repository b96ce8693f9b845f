"""Checks of the admission policy that guards allocations: whether it is in force, and whom it refuses."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.access import AccessQuestion, Account
from vgpu_scheduler.doctor.check import RIGHTS, Check
from vgpu_scheduler.doctor.checks.other_schedulers import others
from vgpu_scheduler.doctor.checks.software import is_device_plugin, is_hami_scheduler
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.doctor.objects import Workload
from vgpu_scheduler.doctor.shipped import shipped

GUARD = "vgpu-scheduler-allocations"
"""The policy that guards the annotations with allocations."""

MISSING = Diagnosis(
    "admission-policy-missing",
    Severity.WARNING,
    "An admission policy that comes with the manifests is not installed, such as the one that limits what the "
    "scheduler may write on nodes to its two annotations. That the guard of allocations is missing is the error "
    "annotations-unguarded.",
    "Apply manifests/admission.yaml, after you have allowed your device plugins to write.",
)
UNBOUND = Diagnosis(
    "admission-policy-unbound",
    Severity.WARNING,
    "The admission policy is installed, and no ValidatingAdmissionPolicyBinding puts it in force. Of the guard of "
    "allocations, the error annotations-unguarded says it.",
    "Apply manifests/admission.yaml, which has the binding.",
)
AUDIT_ONLY = Diagnosis(
    "admission-policy-audit-only",
    Severity.WARNING,
    "The binding of the admission policy does not deny: requests that it would refuse only cause a warning "
    "and an audit annotation. manifests/audit sets this until all device plugins are allowed.",
    "Once the audit log names no device plugin any more, apply the manifests without the component audit.",
)
FAILS_OPEN = Diagnosis(
    "admission-policy-fails-open",
    Severity.WARNING,
    "The admission policy has another failurePolicy than the manifests give it, so that requests that it "
    "cannot evaluate are allowed.",
    "Apply manifests/admission.yaml again.",
)
UNGUARDED = Diagnosis(
    "annotations-unguarded",
    Severity.ERROR,
    "Any user who may create or change pods may write the annotations that device plugins obey, and so use "
    "cards that the scheduler did not allocate. Kubernetes lets every tenant with the role edit do that; "
    "the guard refuses it.",
    "Put the policy vgpu-scheduler-allocations in force with a binding that denies (manifests/admission.yaml).",
)
REFUSED = Diagnosis(
    "plugin-refused",
    Severity.ERROR,
    "The guard is in force, and refuses the writes of the service account of a device plugin or of another scheduler."
    " Pods of that plugin do not start.",
    "Bind the ClusterRole vgpu-scheduler-allocation-writer to that account, in a ClusterRoleBinding of your own.",
)
WOULD_REFUSE = Diagnosis(
    "plugin-not-let-in",
    Severity.WARNING,
    "The guard does not deny yet. Once it does, it will refuse the writes of the service account of a "
    "device plugin or of another scheduler, and pods of that plugin will not start.",
    "Bind the ClusterRole vgpu-scheduler-allocation-writer to that account before the guard denies.",
)


def policies(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find shipped admission policies that are missing or not fully in force.

    That the guard is missing or has no binding is what :func:`unguarded` finds.
    """
    installed = {policy.metadata.name: policy for policy in doctor_input.admission_policies}
    for wanted in shipped().policies:
        ref = ObjectRef("ValidatingAdmissionPolicy", wanted.name)
        policy = installed.get(wanted.name)
        if policy is None:
            if wanted.name != GUARD:
                yield MISSING.of(ref, "it does not exist")
            continue
        if policy.spec.failure_policy != wanted.failure_policy:
            yield FAILS_OPEN.of(ref, f"its failurePolicy is {policy.spec.failure_policy}, not {wanted.failure_policy}")
        bindings = [b for b in doctor_input.admission_bindings if b.spec.policy_name == wanted.name]
        if not bindings and wanted.name != GUARD:
            yield UNBOUND.of(ref, "no binding names it")
        elif not _denies(doctor_input, wanted.name):
            for binding in bindings:
                actions = ", ".join(binding.spec.validation_actions) or "nothing"
                message = f"for requests that policy {wanted.name} refuses, its validationActions are {actions}"
                yield AUDIT_ONLY.of(ObjectRef("ValidatingAdmissionPolicyBinding", binding.metadata.name), message)


def unguarded(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find out whether tenants can write annotations that device plugins obey."""
    if not in_force(doctor_input):
        ref = ObjectRef("ValidatingAdmissionPolicy", GUARD)
        if not any(policy.metadata.name == GUARD for policy in doctor_input.admission_policies):
            why = "this policy does not exist"
        elif not any(binding.spec.policy_name == GUARD for binding in doctor_input.admission_bindings):
            why = "no binding names this policy"
        else:
            why = "this policy denies nothing"
        yield UNGUARDED.of(ref, f"tenants can write annotations that allocate cards, because {why}")


def writers(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find service accounts of device plugins that the guard refuses, or would refuse once it denies."""
    diagnosis = REFUSED if in_force(doctor_input) else WOULD_REFUSE
    for account, workload in plugin_accounts(doctor_input).items():
        if not _may_write(doctor_input, account):
            names = ", ".join(workload)
            message = f"{names} runs under it, and it may not write allocations"
            yield diagnosis.of(ObjectRef("ServiceAccount", account.name, account.namespace), message)


def in_force(doctor_input: DoctorInput) -> bool:
    """Tell whether the guard is installed and denies."""
    return any(policy.metadata.name == GUARD for policy in doctor_input.admission_policies) and _denies(
        doctor_input, GUARD
    )


def plugin_accounts(doctor_input: DoctorInput) -> dict[Account, list[str]]:
    """Return the service accounts that write allocations on pods, with the workloads that use them."""
    found: dict[Account, list[str]] = {}

    def add(kind: str, workload: Workload) -> None:
        account = Account(workload.metadata.namespace, workload.account)
        found.setdefault(account, []).append(f"{kind} {workload.key}")

    for daemon_set in doctor_input.daemon_sets:
        if is_device_plugin(daemon_set):
            add("DaemonSet", daemon_set)
    for deployment in doctor_input.deployments:
        if is_hami_scheduler(deployment) and deployment.spec.replicas:
            add("Deployment", deployment)
    for _, deployment in others(doctor_input):
        add("Deployment", deployment)
    return found


def writing(account: Account) -> AccessQuestion:
    """Return the access question that the guard asks about an account."""
    rule = shipped().writer
    return AccessQuestion(account, rule.verbs[0], rule.api_groups[0], rule.resources[0])


def _may_write(doctor_input: DoctorInput, account: Account) -> bool:
    """Tell whether the guard admits an account, or, if it is not installed, whether the shipped one would."""
    if doctor_input.rights is not None and doctor_input.rights.allows(writing(account)):
        return True
    if any(policy.metadata.name == GUARD for policy in doctor_input.admission_policies):
        return False
    return any(Account(writer.namespace, writer.name) == account for writer in shipped().writers)


def _denies(doctor_input: DoctorInput, policy: str) -> bool:
    return any(
        "Deny" in binding.spec.validation_actions and not _is_narrow(binding.spec.match_resources)
        for binding in doctor_input.admission_bindings
        if binding.spec.policy_name == policy
    )


def _is_narrow(resources: dict[str, object] | None) -> bool:
    """Tell whether a binding excludes namespaces or objects."""
    return any(bool((resources or {}).get(name)) for name in ("namespaceSelector", "objectSelector", "resourceRules"))


_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

CHECKS = (
    Check("admission-policies", _POLICIES, (MISSING, UNBOUND, AUDIT_ONLY, FAILS_OPEN), policies),
    Check("guarded-annotations", _POLICIES, (UNGUARDED,), unguarded),
    Check("plugin-accounts", (*_POLICIES, "DaemonSet", "Deployment", RIGHTS), (REFUSED, WOULD_REFUSE), writers),
)
