"""Checks for pod groups that run with fewer pods than they need."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, Policies, decode_policy

STALE = Diagnosis(
    "pod-group-stale",
    Severity.WARNING,
    "The pod belongs to a group of which fewer pods run than it needs, for longer than groups.staleAfter of its policy:"
    " most such jobs hold cards without using them. A pod has failed, or was deleted or evicted, and its "
    "replacement does not exist or does not fit.",
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


def stale(seen: DoctorInput) -> Iterator[Finding]:
    """Find groups that run with too few pods; each has one finding, about its first pod."""
    policies = _policies(seen)
    engine = seen.cluster_engine.engine
    groups = engine.groups
    ours = (pod for pod in seen.pods if pod.scheduler_name in engine.scheduler_names and groups.runs(pod))
    running: dict[object, list[Pod]] = {}
    for pod in ours:
        key = groups.key_of(pod.uid)
        if key is not None and groups.membership(pod) is not None:
            running.setdefault(key, []).append(pod)
    for pods in running.values():
        first = min(pods, key=lambda pod: (pod.name, pod.uid))
        status = groups.status_of(first)
        if status is None or status.missing_object or not status.needed:
            continue
        now, started = seen.server.now.timestamp(), [pod.start_time for pod in pods]
        youngest = max((each for each in started if each is not None), default=None)
        age = 0.0 if youngest is None or None in started else now - youngest
        came = [now - pod.created_at for pod in status.waiting if pod.created_at is not None]
        age = min(age, max(came)) if came else age  # the group was complete until its oldest waiting pod was created
        if age > policies.resolve(first).groups.stale_after:
            text = f"{status.placed} of the {status.minimum} pods run that group {status.key} needs"
            yield STALE.of(ObjectRef.of_pod(first), text)


def _policies(seen: DoctorInput) -> Policies:
    """Return the policies that were read, ready to be resolved for pods."""
    found = Policies(seen.expected.options.defaults)
    for kind in (CLUSTER_KIND, NAMESPACED_KIND):
        for policy in seen.policies(kind):
            metadata = {"name": policy.metadata.name, "uid": policy.metadata.name}
            if kind == NAMESPACED_KIND:
                metadata["namespace"] = policy.metadata.namespace
            found.catalogue.put(decode_policy({"kind": kind, "metadata": metadata, "spec": policy.spec}))
    return found


def not_ended(seen: DoctorInput) -> Iterator[Finding]:
    """Find policies that evict stale groups although the setting preemption is off."""
    if seen.expected.options.preemption:
        return
    for kind in (CLUSTER_KIND, NAMESPACED_KIND):
        for policy in seen.policies(kind):
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
