"""The pods that workloads would create, and their other objects: one table, and a reader per ecosystem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError, group_of
from vgpu_scheduler.whatif.workloads.field_reader import workload
from vgpu_scheduler.whatif.workloads.jobset import read_job_set
from vgpu_scheduler.whatif.workloads.kubeflow import KUBEFLOW, read_mpi_operators_job
from vgpu_scheduler.whatif.workloads.kuberay import read_ray_cluster, read_ray_job
from vgpu_scheduler.whatif.workloads.kubernetes import read_deployment, read_job, read_replica_set, read_stateful_set
from vgpu_scheduler.whatif.workloads.leaderworkerset import read_leader_worker_set
from vgpu_scheduler.whatif.workloads.trainer import with_job_sets
from vgpu_scheduler.whatif.workloads.workload_pods import PodSet, WorkloadPods

__all__ = ["WORKLOADS", "PodSet", "WorkloadPods", "claims_of", "is_workload", "made_by", "pods_of", "with_job_sets"]

_Read = Callable[[Object], WorkloadPods]


def _read_pod(obj: Object) -> WorkloadPods:
    return WorkloadPods([PodSet([obj])])


_OF_KUBERNETES: Final[Mapping[str, _Read]] = {
    "Pod": _read_pod,
    "Deployment": read_deployment,
    "ReplicaSet": read_replica_set,
    "StatefulSet": read_stateful_set,
    "Job": read_job,
}
_OF_OTHERS: Final[Mapping[str, Mapping[str, _Read]]] = {
    "jobset.x-k8s.io": {"JobSet": read_job_set},
    "leaderworkerset.x-k8s.io": {"LeaderWorkerSet": read_leader_worker_set},
    "kubeflow.org": KUBEFLOW,
    "ray.io": {"RayCluster": read_ray_cluster, "RayJob": read_ray_job},
}
"""The readers of the kinds of an API group."""
_BY_KIND: Final[Mapping[str, _Read]] = {
    **_OF_KUBERNETES,
    **{kind: read for kinds in _OF_OTHERS.values() for kind, read in kinds.items()},
}
_OF_MPI_OPERATOR: Final = "kubeflow.org/v2beta1"
WORKLOADS: Final = frozenset(_BY_KIND)
"""The kinds whose pods are known."""


def is_workload(obj: Object) -> bool:
    """Tell whether the pods of an object's kind are known; the API group counts, since kinds share names."""
    return _reader_of(obj) is not None


def made_by(obj: Object) -> WorkloadPods:
    """Return what the controllers of a workload would create at once; for a pod, the pod itself.

    Raises
    ------
    InvalidObjectsError
        If the object is of another kind, or a field is malformed.
    """
    read = _reader_of(obj)
    if read is None:
        kinds = ", ".join(kind for kind in _BY_KIND if kind != "Pod")
        raise InvalidObjectsError(
            f"{workload(obj).title}: only pods and the pods of these kinds can be placed: {kinds}"
        )
    return read(obj)


def pods_of(obj: Object) -> list[Object]:
    """Return the pods that a workload would create at once; for a pod, the pod itself; see :func:`made_by`."""
    return made_by(obj).pods


def claims_of(obj: Object) -> list[Object]:
    """Return the volume claims that a workload would create for its pods; see :func:`made_by`."""
    return list(made_by(obj).claims)


def _reader_of(obj: Object) -> _Read | None:
    kind, group = str(obj.get("kind", "")), group_of(obj)
    if "." not in group:  # a missing group, or one of Kubernetes itself
        return _OF_KUBERNETES.get(kind) if group else _BY_KIND.get(kind)
    if (kind, obj["apiVersion"]) == ("MPIJob", _OF_MPI_OPERATOR):
        return read_mpi_operators_job
    return _OF_OTHERS.get(group, {}).get(kind)
