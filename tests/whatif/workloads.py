"""One workload of each kind that others than Kubernetes make."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def template(gpus: int = 1, **spec: Any) -> Obj:
    """Return a pod template."""
    limits = {"nvidia.com/gpu": gpus, "nvidia.com/gpumem": 4000}
    container = {"name": "main", "image": "example", "resources": {"limits": limits}}
    labels = {"app": "x"}
    return {
        "metadata": {"labels": labels},
        "spec": {"schedulerName": "vgpu-scheduler", "containers": [container], **spec},
    }


def job_set(*jobs: tuple[str, int, int], **spec: Any) -> Obj:
    """Return a JobSet: names, replicas and pods of each of its Jobs."""
    made = [
        {
            "name": name,
            "replicas": replicas,
            "template": {"spec": {"parallelism": pods, "completions": pods, "template": template()}},
        }
        for name, replicas, pods in jobs or [("driver", 1, 1), ("worker", 2, 2)]
    ]
    head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "w", "namespace": "n"}}
    return {**head, "spec": {"replicatedJobs": made, **spec}}


def leader_worker_set(replicas: int = 2, size: int = 3, **templates: Any) -> Obj:
    """Return a LeaderWorkerSet."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template(), **templates},
        },
    }


KUBEFLOW = {
    "PyTorchJob": ("pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
    "TFJob": ("tfReplicaSpecs", {"Chief": 1, "PS": 1, "Worker": 2}),
    "JAXJob": ("jaxReplicaSpecs", {"Worker": 3}),
    "XGBoostJob": ("xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
    "PaddleJob": ("paddleReplicaSpecs", {"Worker": 3}),
    "MPIJob": ("mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
}


def kubeflow_job(kind: str, replicas: dict[str, int] | None = None, version: str = "v1", **spec: Any) -> Obj:
    """Return a job of Kubeflow's."""
    field, usual = KUBEFLOW[kind]
    specs = {name: {"replicas": number, "template": template()} for name, number in (replicas or usual).items()}
    head = {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {"name": "w", "namespace": "n"}}
    return {**head, "spec": {field: specs, **spec}}


def ray_cluster(*groups: Obj, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """Return a RayCluster."""
    workers = [{"template": template(), **group} for group in groups or ({"groupName": "gpus", "replicas": 2},)]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "w", "namespace": "n", "labels": labels or {}},
        "spec": {"headGroupSpec": {"template": template()}, "workerGroupSpecs": workers, **spec},
    }


def ray_job(labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """Return a RayJob."""
    cluster = ray_cluster()
    metadata = {**cluster["metadata"], "labels": labels or {}}
    return {**cluster, "kind": "RayJob", "metadata": metadata, "spec": {"rayClusterSpec": cluster["spec"], **spec}}


EVERY = {
    "JobSet": job_set(),
    "LeaderWorkerSet": leader_worker_set(),
    **{kind: kubeflow_job(kind) for kind in KUBEFLOW},
    "MPIJob v2beta1": kubeflow_job("MPIJob", version="v2beta1"),
    "RayCluster": ray_cluster(),
    "RayJob": ray_job(),
}


def train_job(**spec: Any) -> Obj:
    """Return a TrainJob."""
    head = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    return {**head, "metadata": {"name": "w", "namespace": "n"}, "spec": {"runtimeRef": {"name": "torch"}, **spec}}


def training_runtime(kind: str = "ClusterTrainingRuntime", nodes: int = 1, **spec: Any) -> Obj:
    """Return a runtime that trains on so many nodes."""
    pods = template()
    pods["spec"]["containers"][0]["name"] = "node"
    ancestor = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": ancestor, "spec": {"template": pods}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "torch"},
        "spec": {
            "mlPolicy": {"numNodes": nodes, "torch": {}},
            "template": {"spec": {"replicatedJobs": [job]}},
            **spec,
        },
    }
