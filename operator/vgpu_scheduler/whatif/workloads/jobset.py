"""JobSet: Jobs of several templates, each with a number of replicas.

See https://github.com/kubernetes-sigs/jobset, v0.11.0: ``pkg/controllers/jobset_controller.go``,
``pkg/webhooks/jobset_webhook.go`` and ``pkg/webhooks/pod_mutating_webhook.go``. Its controller creates no pod group:
pods form one if their templates say so. Environment variables are left out, since nothing here reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.workloads.exclusive import COMES_LATER, exclusive, sha1_of
from vgpu_scheduler.whatif.workloads.field_reader import FieldReader, workload
from vgpu_scheduler.whatif.workloads.kubernetes import completion_index, number_of_job
from vgpu_scheduler.whatif.workloads.workload_pods import (
    Owner,
    PodSet,
    WorkloadPods,
    checked_number,
    is_suspended,
    pod_of,
    with_texts,
)

_OURS: Final = "jobset.sigs.k8s.io/"
_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
_NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE: Final = "alpha.jobset.sigs.k8s.io/no-schedule"
_JOB_KEY: Final = f"{_OURS}job-key"
_PRIORITY: Final = f"{_OURS}priority"
_IN_ORDER: Final = "are created when others are ready or complete; here all of them are placed"


def read_job_set(obj: Object) -> WorkloadPods:
    """Read a JobSet.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    spec = written.part("spec")
    jobs = spec.parts("replicatedJobs")
    total, waits = 0, False
    for job in jobs:
        replicas = job.number("replicas", 1)
        total = checked_number(job, replicas * number_of_job(job.part("template").part("spec")), total)
        waits |= bool(job.fields.get("dependsOn"))
    kinds = _JobSet(written, spec, jobs)
    notes = is_suspended(spec)
    if waits or spec.maybe("startupPolicy").fields.get("startupPolicyOrder") == "InOrder":
        notes.append(f"some of spec.replicatedJobs {_IN_ORDER}")
    if any(kinds.domain(job) and not kinds.is_by_selector(job) for job in jobs):
        notes.append(f"annotation {_EXCLUSIVE}: {COMES_LATER}")
    return WorkloadPods([PodSet(kinds.pods(job), f"{job.path}template.spec.template.") for job in jobs], notes=notes)


class _JobSet:
    """The pods of a JobSet.

    Parameters
    ----------
    written, spec, jobs
        The JobSet, its spec, and the templates of its Jobs.
    """

    def __init__(self, written: FieldReader, spec: FieldReader, jobs: list[FieldReader]) -> None:
        metadata = written.part("metadata")
        self._owner = Owner.of("JobSet", metadata.fields)
        self._annotations = metadata.texts("annotations")
        self._spec = spec
        self._replicas = {job.text("name"): job.number("replicas", 1) for job in jobs}
        self._groups = {job.text("name"): job.text("groupName", "default") for job in jobs}
        network = spec.maybe("network")
        self._subdomain = "" if network.fields.get("enableDNSHostnames") is False else self._domain_name(network)

    def _domain_name(self, network: FieldReader) -> str:
        return network.text("subdomain", self._owner.name or "-")

    def domain(self, job: FieldReader) -> str:
        """Return the topology key whose domains the Jobs of a template use exclusively; empty if they do not."""
        return self._of_template(job, _EXCLUSIVE)

    def is_by_selector(self, job: FieldReader) -> bool:
        """Tell whether the nodes are already labelled for the Jobs of a template."""
        return bool(self.domain(job)) and _NODE_SELECTOR in self._merged_annotations(job)

    def _merged_annotations(self, job: FieldReader) -> dict[str, str]:
        return {**self._annotations, **job.part("template").maybe("metadata").texts("annotations")}

    def _of_template(self, job: FieldReader, annotation: str) -> str:
        return self._merged_annotations(job).get(annotation, "")

    def pods(self, job: FieldReader) -> list[Object]:
        """Return the pods of a template."""
        name = job.text("name")
        spec = job.part("template").part("spec")
        template, number = spec.part("template"), number_of_job(spec)
        found: list[Object] = []
        for index in range(self._replicas[name]):
            labels = self._labels(name, index)
            said = {
                key: value
                for key, value in self._merged_annotations(job).items()
                if key in {_EXCLUSIVE, _NODE_SELECTOR}
            }
            annotations = {**labels, **(said if self.domain(job) else {})}
            owner = Owner.of("Job", self._owner.home, f"{self._owner.name}-{name}-{index}")
            for ordinal in range(number):
                numbered, numbered_too = completion_index(spec, ordinal, "Indexed")
                of_job = {
                    key: value
                    for key, value in (("job-name", owner.name), ("controller-uid", owner.uid))
                    for key in (key, f"batch.kubernetes.io/{key}")
                }
                pod = pod_of(
                    template,
                    f"{owner.name}-{ordinal}",
                    owner,
                    {**labels, **of_job, **numbered},
                    {**annotations, **numbered_too},
                )
                found.append(self._placed(pod, job, owner, is_first=not numbered or ordinal == 0))
        return found

    def _labels(self, name: str, index: int) -> dict[str, str]:
        """Return the labels of the pods of a Job; the same values are annotations, too."""
        group, names = self._groups[name], list(self._replicas)
        before = names[: names.index(name)]
        of_group = [each for each in names if self._groups[each] == group]
        job = f"{self._owner.namespace}/{self._owner.name}-{name}-{index}"
        values = {
            "jobset-name": self._owner.name,
            "jobset-uid": self._owner.uid,
            "replicatedjob-name": name,
            "restart-attempt": "0",
            "replicatedjob-replicas": self._replicas[name],
            "global-replicas": sum(self._replicas.values()),
            "job-index": index,
            "job-key": sha1_of(job),
            "job-global-index": sum(self._replicas[each] for each in before) + index,
            "group-name": group,
            "group-replicas": sum(self._replicas[each] for each in of_group),
            "job-group-index": sum(self._replicas[each] for each in before if each in of_group) + index,
        }
        labels = {f"{_OURS}{key}": str(value) for key, value in values.items()}
        if self._spec.has("coordinator"):
            labels[f"{_OURS}coordinator"] = self._coordinator()
        return labels

    def _coordinator(self) -> str:
        part = self._spec.part("coordinator")
        job, pod = part.large_number("jobIndex"), part.large_number("podIndex")
        host = f"{self._owner.name}-{part.text('replicatedJob')}-{job}-{pod}"
        return f"{host}.{self._domain_name(self._spec.maybe('network'))}"

    def _placed(self, pod: dict[str, Any], job: FieldReader, owner: Owner, *, is_first: bool) -> Object:
        """Return a pod with the additions of the controller and its webhook to the spec."""
        spec, key = pod["spec"], self.domain(job)
        if not isinstance(spec, Mapping):
            return pod
        if self._subdomain:
            spec = {**spec, "subdomain": self._subdomain}
        pod = {**pod, "spec": spec}
        if self.is_by_selector(job):
            spec = with_texts(spec, "nodeSelector", {_NAMESPACED_JOB: f"{owner.namespace}_{owner.name}"})
            tolerations = spec.get("tolerations") or []
            if isinstance(tolerations, list):
                taint = {"key": _NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
                spec = {**spec, "tolerations": [*tolerations, taint]}
            return {**pod, "spec": spec}
        priority = _priority(spec)
        if priority:
            pod["metadata"] = with_texts(pod["metadata"], "labels", {_PRIORITY: priority})
        if not key:
            return pod
        alike = [{"key": _PRIORITY, "operator": "In", "values": [priority]}] if priority else []
        label = _JOB_KEY, pod["metadata"]["annotations"][_JOB_KEY]
        return exclusive(pod, label, key, alike, is_first=is_first, namespaceSelector={})


def _priority(spec: Object) -> str:
    """Return the priority of a pod; empty for a priority class, whose value is not known here."""
    found = spec.get("priority")
    if type(found) is int:
        return str(found)
    return "" if spec.get("priorityClassName") else "0"
