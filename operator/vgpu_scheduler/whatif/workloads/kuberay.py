"""KubeRay's clusters and jobs: a head, and groups of workers.

See https://github.com/ray-project/kuberay, v1.6.2, in ``ray-operator/controllers/ray``: ``common/pod.go`` and
``job.go``, ``raycluster_controller.go``, ``rayjob_controller.go``, ``batchscheduler/scheduler-plugins``. For a cluster
with the label ``ray.io/gang-scheduling-enabled`` it creates a PodGroup, if its setting ``batchScheduler.name`` is
``scheduler-plugins``. Environment variables, probes, volumes without claims, and annotations that only Ray reads are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vgpu_scheduler.groups import COSCHEDULING_API_VERSION, COSCHEDULING_LABEL
from vgpu_scheduler.kube import AMOUNT_FIELDS, Object
from vgpu_scheduler.whatif.workloads.field_reader import FieldReader, workload
from vgpu_scheduler.whatif.workloads.workload_pods import (
    Owner,
    PodSet,
    WorkloadPods,
    checked_number,
    is_suspended,
    pod_group,
    pod_of,
    with_container,
)

_GANG: Final = "ray.io/gang-scheduling-enabled"
_MOST_OF_NAME: Final = 50
_MOST_OF_LABEL: Final = 63
_FIXED: Final = ("ray.io/node-type", "ray.io/group", "ray.io/cluster")
"""Labels that templates cannot override."""
_SCHEDULER: Final = (
    "KubeRay makes the group where its batchScheduler.name is scheduler-plugins, and has the pods name"
    " scheduler-plugins-scheduler: scheduler_names has to have that name, too"
)
_NO_CLUSTER: Final = (
    f"label {_GANG}: KubeRay 1.6 makes no RayCluster for a RayJob where its batchScheduler.name is scheduler-plugins;"
    f" without that, label the templates with {COSCHEDULING_LABEL}, and make the PodGroup"
)
_AUTOSCALER: Final = {
    "name": "autoscaler",
    "resources": {key: {"cpu": "500m", "memory": "512Mi"} for key in AMOUNT_FIELDS},
}
_WAITS_FOR_HEAD: Final = {
    "name": "wait-gcs-ready",
    "resources": {key: {"cpu": "200m", "memory": "256Mi"} for key in AMOUNT_FIELDS},
}
_SUBMITTER: Final = {
    "name": "ray-job-submitter",
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}},
}
"""The containers that KubeRay adds, without images."""


def read_ray_cluster(obj: Object) -> WorkloadPods:
    """Read a RayCluster.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    metadata = written.part("metadata")
    owner, spec = Owner.of("RayCluster", metadata.fields), written.part("spec")
    is_gang = _GANG in metadata.texts("labels")
    sets = _cluster(owner, spec, is_gang=is_gang)
    notes = [*is_suspended(spec), *([f"label {_GANG}: {_SCHEDULER}"] if is_gang else [])]
    return WorkloadPods(sets, groups=_groups(owner, sets) if is_gang else (), notes=notes)


def read_ray_job(obj: Object) -> WorkloadPods:
    """Read a RayJob, with its cluster and the pod that submits it.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    written = workload(obj)
    metadata, spec = written.part("metadata"), written.part("spec")
    job, mode = Owner.of("RayJob", metadata.fields), spec.text("submissionMode", "K8sJobMode")
    sets: list[PodSet] = []
    groups: list[Object] = []
    notes = is_suspended(spec)
    if spec.fields.get("clusterSelector"):
        notes.append("spec.clusterSelector: the RayCluster is another object, whose pods are not placed")
    else:
        is_gang = _GANG in metadata.texts("labels")
        owner = Owner.of("RayCluster", job.home, f"{job.name}-new")
        sets = _cluster(owner, spec.part("rayClusterSpec"), is_gang=is_gang, submits=mode == "SidecarMode")
        groups = _groups(owner, sets) if is_gang else []
        notes += [_NO_CLUSTER] if is_gang else []
    if mode == "K8sJobMode":
        sets.append(_submitter(job, spec))
    return WorkloadPods(sets, groups=groups, notes=notes)


def _groups(owner: Owner, sets: list[PodSet]) -> list[Object]:
    return [pod_group(COSCHEDULING_API_VERSION, owner.name, owner.home, sum(len(each.pods) for each in sets))]


def _cluster(owner: Owner, spec: FieldReader, *, is_gang: bool, submits: bool = False) -> list[PodSet]:
    """Return the pods of a Ray cluster.

    Parameters
    ----------
    is_gang
        Whether the pods belong to a group.
    submits
        Whether the head also submits a job.
    """
    head = spec.part("headGroupSpec")
    template = head.part("template")
    labels = {COSCHEDULING_LABEL: owner.name} if is_gang else {}
    pod = pod_of(template, f"{_prefix(owner.name, 'head')}-0", owner)
    pod = _labelled(pod, owner, head, ("head", "headgroup"), labels)
    if submits:
        pod = with_container(pod, "containers", _SUBMITTER)
    if spec.is_true("enableInTreeAutoscaling"):
        options = spec.maybe("autoscalerOptions")
        own = {"resources": options.fields["resources"]} if options.has("resources") else {}
        pod = with_container(pod, "containers", {**_AUTOSCALER, **own})
    sets, total = [PodSet([pod], template.path)], 1
    for group in spec.parts("workerGroupSpecs"):
        total = checked_number(group, _replicas(group) * _hosts(group), total)
        sets.append(_workers(owner, group, labels))
    return sets


def _workers(owner: Owner, group: FieldReader, labels: Mapping[str, str]) -> PodSet:
    """Return the pods of a group of workers."""
    template, name, hosts = group.part("template"), group.text("groupName"), _hosts(group)
    prefix = _prefix(f"{owner.name}-{name}", "worker")
    pods: list[Object] = []
    for number in range(_replicas(group) * hosts):
        replica, host = divmod(number, hosts)
        indexes = {"ray.io/worker-group-replica-index": str(replica)}
        if hosts > 1:
            names = {"ray.io/worker-group-replica-name": f"{name}-{replica}", "ray.io/replica-host-index": str(host)}
            indexes |= names
        pod = pod_of(template, f"{prefix}-{number}", owner)
        pod = _labelled(pod, owner, group, ("worker", name), {**indexes, **labels})
        pods.append(with_container(pod, "initContainers", _WAITS_FOR_HEAD))
    return PodSet(pods, template.path)


def _replicas(group: FieldReader) -> int:
    """Return the number of replicas of a worker group, within its minimum and maximum."""
    least, most = group.number("minReplicas", 0), group.large_number("maxReplicas", 2**31 - 1)
    wanted = group.number("replicas", 0)
    return 0 if group.is_true("suspend") else least if wanted < least else min(wanted, most)


def _hosts(group: FieldReader) -> int:
    return group.number("numOfHosts", 1) or 1


def _submitter(job: Owner, spec: FieldReader) -> PodSet:
    """Return the pod that submits a job to its cluster."""
    owner = Owner("Job", job.name, f"Job-{job.namespace}-{job.name}", job.home)
    field = "submitterPodTemplate"
    default: Object = {"spec": {"restartPolicy": "Never", "containers": [_SUBMITTER]}}
    template = spec.part(field) if spec.has(field) else FieldReader(spec.title, f"{spec.path}{field}.", default)
    return PodSet([pod_of(template, f"{job.name}-0", owner)], template.path)


def _prefix(name: str, kind: str) -> str:
    return f"{name[:_MOST_OF_NAME]}-{kind}".lower()


def _labelled(
    pod: dict[str, Any], owner: Owner, group: FieldReader, kind: tuple[str, str], more: Mapping[str, str]
) -> dict[str, Any]:
    """Return a pod with the labels of its Ray cluster; most can be overridden by the template and its group.

    Parameters
    ----------
    kind
        ``head`` or ``worker``, and the name of the group.
    """
    labels = {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": owner.name,
        "ray.io/node-type": kind[0],
        "ray.io/group": kind[1],
        "ray.io/identifier": f"{owner.name}-{kind[0]}"[-_MOST_OF_LABEL:],
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    there = pod["metadata"].get("labels") or {}
    if not isinstance(there, Mapping):
        return pod
    own = {key: value for key, value in {**there, **group.texts("labels")}.items() if key not in _FIXED}
    return {**pod, "metadata": {**pod["metadata"], "labels": {**labels, **own, **more}}}
