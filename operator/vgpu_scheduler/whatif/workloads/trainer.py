"""Kubeflow Trainer's TrainJobs: each becomes a JobSet, made from the job and its training runtime.

See https://github.com/kubeflow/trainer, v2.3.0: ``pkg/runtime/core/trainingruntime.go`` and the plugins ``jobset``,
``plainml``, ``torch``, ``mpi``, ``coscheduling`` and ``volcano`` of ``pkg/runtime/framework``. Images, commands and
environment variables are left out, since nothing here reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.groups import COSCHEDULING_API_VERSION, COSCHEDULING_LABEL, VOLCANO_API_VERSION
from vgpu_scheduler.kube import AMOUNT_FIELDS, VOLCANO_GROUP_ANNOTATIONS, Object
from vgpu_scheduler.whatif.objects.objects import FileObject, group_of
from vgpu_scheduler.whatif.workloads.field_reader import FieldReader, workload
from vgpu_scheduler.whatif.workloads.workload_pods import Owner, pod_group, with_texts

_API_GROUP: Final = "trainer.kubeflow.org"
_RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER: Final = "trainer"
_NODE: Final = "node"
_PATCHES: Final = ("runtimePatches", "podTemplateOverrides")
_GROUPS: Final = {
    "coscheduling": (COSCHEDULING_API_VERSION, "labels", COSCHEDULING_LABEL),
    "volcano": (VOLCANO_API_VERSION, "annotations", VOLCANO_GROUP_ANNOTATIONS[0]),
}
"""By the runtime's pod group policy: the API version of the PodGroup, and where pods name it, with the key."""


def with_job_sets(objects: Sequence[FileObject]) -> list[FileObject]:
    """Replace TrainJobs whose runtimes are among the objects, and these runtimes, by the resulting JobSets.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed, or is not supported here.
    """
    ours = [obj for obj in objects if group_of(obj) == _API_GROUP]
    runtimes = {_key(obj): obj for obj in ours if obj.get("kind") in _RUNTIMES}
    made: dict[int, list[FileObject]] = {}
    for job in (obj for obj in ours if obj.get("kind") == "TrainJob"):
        spec = workload(job).part("spec")
        ref = spec.part("runtimeRef")
        key = ref.text("kind", _RUNTIMES[0]), ref.text("name")
        if (runtime := runtimes.get(key)) is not None:
            made[id(job)] = [_written(obj, job.origin) for obj in _job_set(workload(job), workload(runtime))]
            made[id(runtime)] = []
    return [each for obj in objects for each in made.get(id(obj), [obj])]


def _key(runtime: Object) -> tuple[str, str]:
    return str(runtime["kind"]), str(workload(runtime).part("metadata").fields.get("name", ""))


def _written(obj: Object, origin: str) -> FileObject:
    found = FileObject(obj)
    found.origin = origin
    return found


def _job_set(job: FieldReader, runtime: FieldReader) -> list[Object]:
    """Return the JobSet of a TrainJob, and the PodGroup of its pods if its runtime has one."""
    metadata, spec, described = job.part("metadata"), job.part("spec"), runtime.part("spec")
    for field in _PATCHES:
        if spec.fields.get(field):
            raise spec.error(field, " is not supported here: write it into the runtime")
    owner = Owner.of("TrainJob", metadata.fields)
    template = described.part("template")
    jobs = template.part("spec").parts("replicatedJobs")
    counts = [_count(each, spec, described) for each in jobs]
    groups, label = _group(owner, described.maybe("podGroupPolicy"), sum(counts))
    made = [
        _replicated(each, count, label, _resources(each, spec, described))
        for each, count in zip(jobs, counts, strict=True)
    ]
    head = {**owner.home, "name": owner.name}
    said = template.maybe("metadata")
    for key in ("labels", "annotations"):
        head = with_texts(head, key, said.texts(key))
    body = {**template.part("spec").fields, "replicatedJobs": made, "suspend": spec.is_true("suspend")}
    job_set = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": head, "spec": body}
    return [*groups, job_set]


def _ancestor(job: FieldReader) -> str:
    """Return the TrainJob step to which a template belongs; empty for none."""
    return job.part("template").maybe("metadata").texts("labels").get(_ANCESTOR, "")


def _count(job: FieldReader, spec: FieldReader, runtime: FieldReader) -> int:
    """Return the number of pods of a template."""
    count = job.part("template").part("spec").number("parallelism", 1)
    if not runtime.has("mlPolicy"):
        return count
    policy, trainer = runtime.part("mlPolicy"), spec.maybe("trainer")
    if _ancestor(job) == _TRAINER:
        count = policy.number("numNodes", 1)
    if not trainer.has("numNodes"):
        return count
    nodes = trainer.number("numNodes", 1)
    if not policy.has("mpi"):
        return nodes if _ancestor(job) == _TRAINER else count
    if job.text("name") != _NODE:
        return count
    return max(nodes - 1, 1) if policy.part("mpi").is_true("runLauncherAsNode") else nodes


def _resources(job: FieldReader, spec: FieldReader, runtime: FieldReader) -> Object:
    """Return the resources that override those of a template's training containers; empty for none."""
    trains = runtime.has("mlPolicy") and _ancestor(job) == _TRAINER
    is_node = runtime.maybe("mlPolicy").maybe("mpi").is_true("runLauncherAsNode") and job.text("name") == _NODE
    trainer = spec.maybe("trainer")
    return trainer.part("resourcesPerNode").fields if trainer.has("resourcesPerNode") and (trains or is_node) else {}


def _group(owner: Owner, policy: FieldReader, total: int) -> tuple[list[Object], tuple[str, str, str] | None]:
    """Return the PodGroup of a TrainJob, and how pods refer to it: labels or annotations, key and value."""
    for name, (api_version, where, key) in _GROUPS.items():
        if policy.has(name):
            return [pod_group(api_version, owner.name, owner.home, total)], (where, key, owner.name)
    return [], None


def _replicated(job: FieldReader, count: int, group: tuple[str, str, str] | None, resources: Object) -> Object:
    """Return the JobSet's template of a replicated Job."""
    template = job.part("template")
    spec = template.part("spec")
    pods: Object = spec.part("template").fields
    if group is not None:
        where, key, name = group
        head = spec.part("template").maybe("metadata").fields
        pods = {**pods, "metadata": with_texts(head, where, {key: name})}
    inner = pods.get("spec")
    containers = inner.get("containers") if isinstance(inner, Mapping) else None
    if resources and isinstance(inner, Mapping) and isinstance(containers, list):
        pods = {**pods, "spec": {**inner, "containers": [_with_resources(each, resources) for each in containers]}}
    body = {**spec.fields, "parallelism": count, "completions": count, "template": pods}
    found = {**job.fields, "template": {**template.fields, "spec": body}}
    return {**found, "replicas": 1} if _ancestor(job) else found


def _with_resources(container: Any, resources: Object) -> Any:
    """Return a container with overridden resources, if it is the training container."""
    if not isinstance(container, Mapping) or container.get("name") != _NODE:
        return container
    there = container.get("resources") or {}
    if not isinstance(there, Mapping):
        return container
    asked = dict(there)
    for key in AMOUNT_FIELDS:
        if isinstance(more := resources.get(key), Mapping):
            asked = with_texts(asked, key, more)
    return {**container, "resources": asked}
