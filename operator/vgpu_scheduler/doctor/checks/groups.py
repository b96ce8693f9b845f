"""Checks for pod groups that run with fewer pods than they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity, Unknown
from vgpu_scheduler.engine import GroupStatus
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, title

STALE = Diagnosis(
    "pod-group-stale",
    Severity.WARNING,
    "The pod belongs to a group of which fewer pods run than it needs, for longer than groups.staleAfter of its policy:"
    " most such jobs hold cards without using them. A pod has failed, or was deleted or evicted, and its "
    "replacement does not exist or does not fit. Where a policy has such pods evicted and they stay, their events say"
    " what keeps them, such as a disruption budget.",
    "Find out why the missing pods do not exist or wait (vgpu-scheduler explain), delete the job, or let a "
    "policy evict such pods (groups.whenStale), so that the group restarts as a whole.",
)
NOT_ENDED = Diagnosis(
    "groups-not-evicted",
    Severity.WARNING,
    "The policy has the scheduler evict the pods of groups that run with too few pods for long, but the "
    "scheduler evicts no pods: its setting preemption is off.",
    "Install manifests/preemption (preemption.enabled of the chart), which has the rights and the setting, or set"
    " whenStale to Report.",
)


def stale(doctor_input: DoctorInput) -> Iterator[Finding | Unknown]:
    """Find groups that run with too few pods; each has one finding, about its first pod."""
    engine = doctor_input.cluster_engine.engine
    groups, progress = engine.groups, engine.group_progress
    keys = (groups.key_of(pod.uid) for pod in doctor_input.pods if groups.membership(pod) is not None)
    now = doctor_input.server.now.timestamp()
    for key in dict.fromkeys(key for key in keys if key is not None and progress.runs_short(key)):
        undecided = engine.policies.catalogue.candidates(key.namespace).undecided
        if undecided is not None:
            judged = f"whether {title(undecided)} says when group {key} is stale"
            yield Unknown(f"{_missing_labels(doctor_input, key.namespace)} ({judged})")
            continue
        status = groups.status(key)
        found = progress.stale_after(key, _shortest_age(progress.running(key), status, now))
        if found is not None:
            text = f"{status.placed} of the {status.minimum} pods run that group {key} needs"
            yield STALE.of(ObjectRef.of_pod(found.pods[0]), text)


def _shortest_age(running: Sequence[Pod], status: GroupStatus, now: float) -> float:
    """Return for how many seconds a group has run with too few pods at least."""
    started = [pod.start_time for pod in running]
    youngest = max((each for each in started if each is not None), default=None)
    age = 0.0 if youngest is None or None in started else now - youngest
    came = [now - pod.created_at for pod in status.waiting if pod.created_at is not None]
    return min(age, max(came)) if came else age  # the group was complete until its oldest waiting pod was created


def _missing_labels(doctor_input: DoctorInput, namespace: str) -> str:
    """Return what is missing to know the labels of a namespace."""
    if "Namespace" in doctor_input.absent:
        return "objects of kind Namespace"
    return doctor_input.missing.get("Namespace", f"namespace {namespace}")


def not_ended(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find policies that evict stale groups although the setting preemption is off."""
    if doctor_input.expected.options.preemption:
        return
    for kind in (CLUSTER_KIND, NAMESPACED_KIND):
        for policy in doctor_input.policies(kind):
            section = policy.spec.get("groups")
            if isinstance(section, dict) and section.get("whenStale") == "Evict":
                ref = ObjectRef(
                    kind, policy.metadata.name, policy.metadata.namespace if kind == NAMESPACED_KIND else ""
                )
                yield NOT_ENDED.of(ref, "it says groups.whenStale: Evict")


CHECKS = (
    Check("pod-groups", ("Pod", *(kind.name for kind in POD_GROUP_KINDS)), (STALE,), stale),
    Check("groups-evicted", (CLUSTER_KIND,), (NOT_ENDED,), not_ended),
)
