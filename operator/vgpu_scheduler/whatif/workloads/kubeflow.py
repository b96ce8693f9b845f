"""The jobs of Kubeflow's Training Operator, each with several replica types.

See https://github.com/kubeflow/training-operator, v1.9.0: ``pkg/controller.v1/common/pod.go`` and ``job.go``,
``pkg/controller.v1/control/podgroup_control.go``, ``pkg/controller.v1/mpi/mpijob_controller.go`` and
``pkg/controller.v1/pytorch/initcontainer.go``. With its flag ``--gang-scheduler-name``, which jobs do not show, it
creates a PodGroup for each job. Environment variables and volumes without claims are left out, since nothing here
reads them. MPIJobs of ``v2beta1`` belong to another operator: https://github.com/kubeflow/mpi-operator, v0.6.0,
``pkg/controller/mpi_job_controller.go`` and ``podgroup.go``, with ``--gang-scheduling``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.groups import COSCHEDULING_API_VERSION, COSCHEDULING_LABEL
from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.workloads.field_reader import FieldReader, workload
from vgpu_scheduler.whatif.workloads.workload_pods import (
    Owner,
    PodSet,
    WorkloadPods,
    checked_number,
    is_suspended,
    pod_group,
    pod_of,
    says_group,
    with_container,
    with_texts,
)

_OURS: Final = "training.kubeflow.org/"
_NOT_IN_OBJECT: Final = "without that, and without a group in the templates, each pod is placed by itself"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of job.

    Attributes
    ----------
    field
        The field with its replicas.
    controller
        The controller's name in the labels of its pods.
    replicas
        The known replica types.
    masters
        The replica types whose pods are masters.
    else_first
        The replica type whose first pod is the master if the job has none of these; empty for none.
    """

    field: str
    controller: str
    replicas: tuple[str, ...] = ("Master", "Worker")
    masters: tuple[str, ...] = ("Master",)
    else_first: str = ""


_KINDS: Final[Mapping[str, _Kind]] = {
    "PyTorchJob": _Kind("pytorchReplicaSpecs", "pytorchjob-controller", else_first="Worker"),
    "TFJob": _Kind(
        "tfReplicaSpecs",
        "tfjob-controller",
        ("PS", "Worker", "Chief", "Master", "Evaluator"),
        ("Chief", "Master"),
        "Worker",
    ),
    "JAXJob": _Kind("jaxReplicaSpecs", "jaxjob-controller", ("Worker",), (), "Worker"),
    "XGBoostJob": _Kind("xgbReplicaSpecs", "xgboostjob-controller"),
    "PaddleJob": _Kind("paddleReplicaSpecs", "paddlejob-controller"),
    "MPIJob": _Kind("mpiReplicaSpecs", "mpijob-controller", ("Launcher", "Worker"), ("Launcher",)),
}
_WAITS_FOR_MASTER: Final = {
    "name": "init-pytorch",
    "image": "alpine:3.10",
    "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
}
_AMOUNTS: Final = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_DELIVERS: Final = {
    "name": "kubectl-delivery",
    "image": "kubeflow/kubectl-delivery:latest",
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
}
"""The init containers that the operator adds."""


class _Job:
    """The pods of a job.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """

    def __init__(self, kind: str, obj: Object) -> None:
        written = workload(obj)
        self.kind, self._of = kind, _KINDS[kind]
        self.owner = Owner.of(kind, written.part("metadata").fields)
        self.spec = written.part("spec")
        replicas = self.spec.part(self._of.field)
        known = {each.lower(): each for each in self._of.replicas}
        self.replicas: dict[str, tuple[FieldReader, int]] = {}
        total = 0
        for name in replicas.fields:
            if str(name).lower() not in known:
                raise replicas.error(
                    str(name), f": there is no such replica type; there are {', '.join(self._of.replicas)}"
                )
            part = replicas.part(name)
            number = part.number("replicas", 0 if (kind, str(name).lower()) == ("MPIJob", "worker") else 1)
            total = checked_number(part, number, total)
            self.replicas[known[str(name).lower()]] = (part.part("template"), number)
        self.total = total

    def is_master(self, replica: str, index: int) -> bool:
        """Tell whether a pod has the master role."""
        masters = [each for each in self._of.masters if each in self.replicas]
        return replica in masters if masters else (replica, index) == (self._of.else_first, 0)

    def pod(self, replica: str, index: int) -> dict[str, Any]:
        """Return a pod as the Training Operator creates it."""
        template, _ = self.replicas[replica]
        is_launcher = replica == "Launcher"
        labels = {
            f"{_OURS}operator-name": self._of.controller,
            f"{_OURS}job-name": self.owner.name,
            f"{_OURS}replica-type": replica.lower(),
            **({} if is_launcher else {f"{_OURS}replica-index": str(index)}),
            **({f"{_OURS}job-role": "master"} if self.is_master(replica, index) else {}),
        }
        name = f"{self.owner.name}-{replica.lower()}" + ("" if is_launcher else f"-{index}")
        pod = pod_of(template, name, self.owner, labels)
        if is_launcher:
            return with_container(pod, "initContainers", _DELIVERS)
        if (self.kind, replica) == ("PyTorchJob", "Worker") and "Master" in self.replicas:
            return with_container(pod, "initContainers", _WAITS_FOR_MASTER)
        return pod

    def pod_of_mpi_operator(self, replica: str, index: int) -> dict[str, Any]:
        """Return a pod as the MPI Operator creates it."""
        template, _ = self.replicas[replica]
        is_launcher = replica == "Launcher"
        labels = {
            f"{_OURS}operator-name": "mpi-operator",
            f"{_OURS}job-name": self.owner.name,
            f"{_OURS}job-role": replica.lower(),
            **({} if is_launcher else {f"{_OURS}replica-index": str(index)}),
        }
        own = self.owner
        owner = Owner.of("Job", own.home, f"{own.name}-launcher") if is_launcher else own
        return pod_of(template, f"{own.name}-{replica.lower()}-{index}", owner, labels)

    def minimum(self, default: int) -> int:
        """Return how many pods of the job's group have to be placed at once."""
        return self.spec.maybe("runPolicy").maybe("schedulingPolicy").number("minAvailable", default)

    def made(self, make: Callable[[str, int], Object], minimum: int, setting: str, notes: list[str]) -> WorkloadPods:
        """Return the objects that the controller creates.

        Parameters
        ----------
        make
            Returns a pod of a replica type.
        minimum
            The minimum of the group if the job does not set it.
        setting
            The operator's setting that makes it create a group, for a note.
        """
        sets = []
        for replica, (template, number) in self.replicas.items():
            pods = [make(replica, index) for index in range(min(number, 1) if replica == "Launcher" else number)]
            sets.append(PodSet(pods, template.path))
        notes = [*is_suspended(self.spec.maybe("runPolicy")), *notes]
        minimum = self.minimum(minimum)
        if sum(len(each.pods) for each in sets) < 2 or says_group(sets):
            return WorkloadPods(sets, notes=notes)
        group = {COSCHEDULING_LABEL: self.owner.name}
        together = [
            PodSet([{**pod, "metadata": with_texts(pod["metadata"], "labels", group)} for pod in each.pods], each.path)
            for each in sets
        ]
        described = pod_group(COSCHEDULING_API_VERSION, self.owner.name, self.owner.home, minimum)
        least = "all its pods are" if minimum >= self.total else f"at least {minimum} of its pods are"
        assumed = f"{least} placed together, as where {setting}; {_NOT_IN_OBJECT}"
        return WorkloadPods(together, groups=[described], notes=[*notes, assumed])


def _reader(kind: str) -> Callable[[Object], WorkloadPods]:
    def read(obj: Object) -> WorkloadPods:
        job = _Job(kind, obj)
        return job.made(job.pod, job.total, "the Training Operator runs with --gang-scheduler-name", [])

    return read


def read_mpi_operators_job(obj: Object) -> WorkloadPods:
    """Read an MPIJob of the MPI Operator.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    job = _Job("MPIJob", obj)
    waits = job.spec.fields.get("launcherCreationPolicy") == "WaitForWorkersReady"
    notes = ["its launcher is created once its workers are ready; here all pods are placed"] if waits else []
    workers = job.replicas["Worker"][1] if "Worker" in job.replicas else 0
    setting = "the MPI Operator runs with --gang-scheduling"
    return job.made(job.pod_of_mpi_operator, workers + 1, setting, notes)


KUBEFLOW: Final[Mapping[str, Callable[[Object], WorkloadPods]]] = {kind: _reader(kind) for kind in _KINDS}
"""The reader of each kind of the Training Operator; raises :class:`InvalidObjectsError` if a field is malformed."""
