"""Workloads of which the pods are made by controllers of others: what these would make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from tests.whatif.workloads import (
    EVERY,
    KUBEFLOW,
    job_set,
    kubeflow_job,
    leader_worker_set,
    ray_cluster,
    ray_job,
    template,
)

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.groups import rank
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import InvalidObjectsError, World, is_workload, made_by, make_dialect, pods_of

Obj = dict[str, Any]
GROUP = "scheduling.x-k8s.io/pod-group"
GANG = "ray.io/gang-scheduling-enabled"
ODD: list[Any] = [None, 5, -1, 10**6, 1.5, True, "x", "", [], {}, [5], ["x"], {"a": 5}]


def world() -> World:
    return World(EngineOptions([make_dialect("hami")]))


def read(obj: Obj) -> list[Pod]:
    """Return the pods of a workload as an API server would have them, after its groups were made."""
    made, around = made_by(obj), world()
    around.add(made.groups)
    assert not around.problems
    return [around.pod(pod) for pod in made.pods]


def names(obj: Obj) -> list[str]:
    return [pod.name for pod in read(obj)]


def groups_of(obj: Obj) -> dict[str, int]:
    return {group["metadata"]["name"]: group["spec"]["minMember"] for group in made_by(obj).groups}


def labels(pod: Pod, prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in pod.labels.items() if key.startswith(prefix)}


# JobSet --------------------------------------------------------------------------------------------------------------


def test_the_pods_of_a_job_set_are_those_of_its_jobs() -> None:
    assert names(job_set()) == ["w-driver-0-0", "w-worker-0-0", "w-worker-0-1", "w-worker-1-0", "w-worker-1-1"]
    last = read(job_set())[-1]
    assert labels(last, "jobset.sigs.k8s.io/") == {
        "jobset-name": "w",
        "jobset-uid": "JobSet-n-w",
        "replicatedjob-name": "worker",
        "restart-attempt": "0",
        "replicatedjob-replicas": "2",
        "global-replicas": "3",
        "job-index": "1",
        "job-key": "4809439f54cb97db3604aef625a4c6b40211e69d",  # printf n/w-worker-1 | sha1sum
        "job-global-index": "2",
        "group-name": "default",
        "group-replicas": "3",
        "job-group-index": "2",
        "priority": "0",
    }
    assert last.annotations["jobset.sigs.k8s.io/job-global-index"] == "2"
    assert last.labels["batch.kubernetes.io/job-completion-index"] == "1"
    assert last.labels["job-name"] == last.labels["batch.kubernetes.io/job-name"] == "w-worker-1"
    assert last.labels["app"] == "x"
    assert (last.namespace, last.owner_kind) == ("n", "Job")
    assert [rank(pod) for pod in read(job_set())] == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert not made_by(job_set()).groups


def test_a_job_set_whose_jobs_wait_for_others_says_so() -> None:
    plain = job_set()
    assert not made_by(plain).notes
    in_order = job_set(startupPolicy={"startupPolicyOrder": "InOrder"})
    depends = job_set()
    depends["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    for each in (in_order, depends):
        assert made_by(each).notes == [
            "some of spec.replicatedJobs are created when others are ready or complete; here all of them are placed"
        ]
    assert "spec.suspend is true" in made_by(job_set(suspend=True)).notes[0]


def test_jobs_of_a_job_set_that_are_not_indexed_have_no_ranks() -> None:
    obj = job_set()
    obj["spec"]["replicatedJobs"][1]["template"]["spec"]["completionMode"] = "NonIndexed"
    assert [rank(pod) for pod in read(obj)][1:] == [None] * 4


@pytest.mark.parametrize("on_job", [False, True])
def test_exclusive_jobs_of_a_job_set_keep_away_from_each_other(on_job: bool) -> None:  # noqa: FBT001
    obj = job_set()
    says = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    if on_job:
        obj["spec"]["replicatedJobs"][1]["template"]["metadata"] = {"annotations": says}
    else:
        obj["metadata"]["annotations"] = says
    driver, first, second, *_ = pods_of(obj)
    assert ("affinity" in driver["spec"]) is not on_job
    terms = first["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == ["rack"]
    assert [each["operator"] for each in terms[0]["labelSelector"]["matchExpressions"]] == ["Exists", "NotIn", "In"]
    assert set(second["spec"]["affinity"]) == {"podAffinity"}
    assert "placed after it" in made_by(obj).notes[0]
    read(obj)


def test_exclusive_jobs_on_labelled_nodes_select_them() -> None:
    obj = job_set()
    obj["metadata"]["annotations"] = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "alpha.jobset.sigs.k8s.io/node-selector": "true",
    }
    last = pods_of(obj)[-1]
    assert last["spec"]["nodeSelector"] == {"alpha.jobset.sigs.k8s.io/namespaced-job": "n_w-worker-1"}
    assert [each["key"] for each in last["spec"]["tolerations"]] == ["alpha.jobset.sigs.k8s.io/no-schedule"]
    assert not made_by(obj).notes
    read(obj)


# LeaderWorkerSet -----------------------------------------------------------------------------------------------------


def test_the_pods_of_a_leader_worker_set_are_groups() -> None:
    obj = leader_worker_set()
    assert names(obj) == ["w-0", "w-0-1", "w-0-2", "w-1", "w-1-1", "w-1-2"]
    assert [rank(pod) for pod in read(obj)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert groups_of(obj) == {"w-0-new": 3, "w-1-new": 3}
    assert {group["apiVersion"] for group in made_by(obj).groups} == {"scheduling.volcano.sh/v1beta1"}
    worker = read(obj)[-1]
    assert labels(worker, "leaderworkerset.sigs.k8s.io/") == {
        "name": "w",
        "group-index": "1",
        "worker-index": "2",
        "template-revision-hash": "new",
        "group-key": worker.labels["leaderworkerset.sigs.k8s.io/group-key"],
    }
    assert worker.annotations == {
        "leaderworkerset.sigs.k8s.io/size": "3",
        "leaderworkerset.sigs.k8s.io/leader-name": "w-1",
        "scheduling.k8s.io/group-name": "w-1-new",
    }
    assert len({pod.labels["leaderworkerset.sigs.k8s.io/group-key"] for pod in read(obj)}) == 2
    (note,) = made_by(obj).notes
    assert "gangSchedulingManagement" in note


def test_leaders_have_a_template_of_their_own_or_that_of_workers() -> None:
    assert [each.path for each in made_by(leader_worker_set()).sets] == ["spec.leaderWorkerTemplate.workerTemplate."]
    own = leader_worker_set(leaderTemplate=template(gpus=2))
    leaders, workers = made_by(own).sets
    assert leaders.path == "spec.leaderWorkerTemplate.leaderTemplate."
    assert [pod["metadata"]["name"] for pod in leaders.pods] == ["w-0", "w-1"]
    assert [pod["metadata"]["name"] for pod in workers.pods] == ["w-0-1", "w-0-2", "w-1-1", "w-1-2"]
    assert leaders.pods[0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 2


def test_leaders_that_have_to_be_ready_first_do_not_wait_for_their_workers() -> None:
    obj = leader_worker_set()
    obj["spec"]["startupPolicy"] = "LeaderReady"
    assert groups_of(obj) == {"w-0-new": 1, "w-1-new": 1}
    assert len(made_by(obj).notes) == 2
    assert not groups_of(leader_worker_set(size=1))
    assert not made_by(leader_worker_set(size=1)).notes


def test_groups_of_templates_are_kept() -> None:
    labelled = template()
    labelled["metadata"]["labels"][GROUP] = "mine"
    made = made_by(leader_worker_set(workerTemplate=labelled))
    assert (list(made.groups), list(made.notes)) == ([], [])
    job = kubeflow_job("JAXJob")
    job["spec"]["jaxReplicaSpecs"]["Worker"]["template"] = labelled
    made = made_by(job)
    assert (list(made.groups), list(made.notes)) == ([], [])
    native = template(schedulingGroup={"podGroupName": "mine"})
    assert not made_by(leader_worker_set(workerTemplate=native)).groups


def test_subgroups_are_numbered_as_the_webhook_numbers_them() -> None:
    def indexes(size: int, of: int, kind: str) -> list[str | None]:
        policy = {"subGroupSize": of, "subGroupPolicyType": kind}
        pods = read(leader_worker_set(1, size, subGroupPolicy=policy))
        return [pod.labels.get("leaderworkerset.sigs.k8s.io/subgroup-index") for pod in pods]

    assert indexes(4, 2, "LeaderWorker") == ["0", "0", "1", "1"]
    assert indexes(5, 2, "LeaderWorker") == ["0", "0", "0", "1", "1"], "the leader is one more of the first"
    assert indexes(5, 2, "LeaderExcluded") == [None, "0", "0", "1", "1"]


def test_exclusive_groups_are_placed_one_pod_after_the_other() -> None:
    obj = leader_worker_set()
    obj["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    made = made_by(obj)
    assert not made.groups
    assert "placed after it" in made.notes[0]
    assert [sorted(pod["spec"]["affinity"]) for pod in made.pods[:2]] == [
        ["podAffinity", "podAntiAffinity"],
        ["podAffinity"],
    ]
    read(obj)


def test_each_pod_of_a_leader_worker_set_has_claims_of_its_own() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
    made = made_by(leader_worker_set(1, 2, volumeClaimTemplates=[claim]))
    assert [(each["metadata"]["name"], each["metadata"]["namespace"]) for each in made.claims] == [
        ("data-w-0", "n"),
        ("data-w-0-1", "n"),
    ]
    assert made.pods[1]["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0-1"}}]
    assert [each["metadata"]["name"] for each in made.controllers] == ["w", "w-0"]


# Kubeflow ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KUBEFLOW)
def test_the_pods_of_the_training_operator_are_placed_together(kind: str) -> None:
    obj = kubeflow_job(kind)
    assert groups_of(obj) == {"w": len(read(obj))}
    assert {pod.labels[GROUP] for pod in read(obj)} == {"w"}
    assert {pod.labels["training.kubeflow.org/operator-name"] for pod in read(obj)} == {f"{kind.lower()}-controller"}
    roles = [pod.name for pod in read(obj) if pod.labels.get("training.kubeflow.org/job-role") == "master"]
    masters = {"TFJob": "w-chief-0", "JAXJob": "w-worker-0", "MPIJob": "w-launcher"}
    assert roles == ([] if kind == "PaddleJob" else [masters.get(kind, "w-master-0")])
    (note,) = made_by(obj).notes
    assert note.startswith("all its pods are placed together, as where the Training Operator runs with")


def test_the_pods_of_a_pytorch_job_are_numbered() -> None:
    obj = kubeflow_job("PyTorchJob")
    assert names(obj) == ["w-master-0", "w-worker-0", "w-worker-1"]
    assert [rank(pod) for pod in read(obj)] == [(0, 0), (0, 0), (0, 1)]
    assert labels(read(obj)[-1], "training.kubeflow.org/") == {
        "operator-name": "pytorchjob-controller",
        "job-name": "w",
        "replica-type": "worker",
        "replica-index": "1",
    }
    master, worker, _ = pods_of(obj)
    assert "initContainers" not in master["spec"]
    assert [each["name"] for each in worker["spec"]["initContainers"]] == ["init-pytorch"]
    alone = pods_of(kubeflow_job("PyTorchJob", {"Worker": 2}))
    assert "initContainers" not in alone[0]["spec"]
    assert alone[0]["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"


def test_a_job_may_start_with_fewer_pods() -> None:
    policy = {"schedulingPolicy": {"minAvailable": 2}}
    obj = kubeflow_job("PyTorchJob", runPolicy=policy)
    assert groups_of(obj) == {"w": 2}
    assert made_by(obj).notes[0].startswith("at least 2 of its pods are placed together")
    assert "spec.runPolicy.suspend" in made_by(kubeflow_job("JAXJob", runPolicy={"suspend": True})).notes[0]


def test_replica_types_are_known_in_any_case() -> None:
    assert names(kubeflow_job("PyTorchJob", {"master": 1, "WORKER": 1})) == ["w-master-0", "w-worker-0"]
    with pytest.raises(
        InvalidObjectsError, match=r"spec.jaxReplicaSpecs.Wrker: there is no such replica type; there are Worker"
    ):
        made_by(kubeflow_job("JAXJob", {"Wrker": 1}))


def test_a_job_of_one_pod_is_no_group() -> None:
    made = made_by(kubeflow_job("JAXJob", {"Worker": 1}))
    assert (list(made.groups), list(made.notes)) == ([], [])


def test_a_launcher_is_one_pod_and_brings_kubectl() -> None:
    obj = kubeflow_job("MPIJob")
    assert names(obj) == ["w-launcher", "w-worker-0", "w-worker-1"]
    launcher = pods_of(obj)[0]
    assert [each["name"] for each in launcher["spec"]["initContainers"]] == ["kubectl-delivery"]
    unsaid = kubeflow_job("MPIJob")
    for replica in unsaid["spec"]["mpiReplicaSpecs"].values():
        del replica["replicas"]
    assert names(unsaid) == ["w-launcher"]


def test_the_mpi_operator_makes_other_pods_of_the_same_fields() -> None:
    obj = kubeflow_job("MPIJob", version="v2beta1")
    assert names(obj) == ["w-launcher-0", "w-worker-0", "w-worker-1"]
    launcher, worker, _ = read(obj)
    assert labels(launcher, "training.kubeflow.org/") == {
        "operator-name": "mpi-operator",
        "job-name": "w",
        "job-role": "launcher",
    }
    assert (launcher.owner_kind, worker.owner_kind) == ("Job", "MPIJob")
    assert labels(worker, "training.kubeflow.org/")["replica-index"] == "0"
    assert groups_of(obj) == {"w": 3}
    assert "--gang-scheduling;" in made_by(obj).notes[0]
    waits = kubeflow_job("MPIJob", version="v2beta1", launcherCreationPolicy="WaitForWorkersReady")
    assert "its launcher is created once" in made_by(waits).notes[0]


# KubeRay -------------------------------------------------------------------------------------------------------------


def test_the_pods_of_a_ray_cluster_are_its_head_and_its_workers() -> None:
    obj = ray_cluster()
    assert names(obj) == ["w-head-0", "w-gpus-worker-0", "w-gpus-worker-1"]
    head, worker, _ = read(obj)
    assert head.labels == {
        "app": "x",
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": "w",
        "ray.io/node-type": "head",
        "ray.io/group": "headgroup",
        "ray.io/identifier": "w-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    assert worker.labels["ray.io/worker-group-replica-index"] == "0"
    assert [each["name"] for each in pods_of(obj)[1]["spec"]["initContainers"]] == ["wait-gcs-ready"]
    assert (list(made_by(obj).groups), list(made_by(obj).notes)) == ([], [])


@pytest.mark.parametrize("value", ["true", "false", ""])
def test_the_label_of_a_ray_cluster_makes_it_a_group_whatever_its_value(value: str) -> None:
    obj = ray_cluster(labels={GANG: value})
    assert groups_of(obj) == {"w": 3}
    assert {pod.labels[GROUP] for pod in read(obj)} == {"w"}
    assert "scheduler-plugins-scheduler" in made_by(obj).notes[0]


@pytest.mark.parametrize(
    ("group", "pods"),
    [
        ({"replicas": 3}, 3),
        ({}, 0),
        ({"replicas": 1, "minReplicas": 2}, 2),
        ({"replicas": 5, "maxReplicas": 4}, 4),
        ({"replicas": 2, "numOfHosts": 3}, 6),
        ({"replicas": 2, "suspend": True}, 0),
    ],
)
def test_workers_of_a_ray_cluster_are_as_many_as_its_bounds_let(group: Obj, pods: int) -> None:
    obj = ray_cluster({"groupName": "g", **group}, labels={GANG: ""})
    assert len(read(obj)) == pods + 1
    assert groups_of(obj) == {"w": pods + 1}


def test_hosts_of_a_replica_are_numbered() -> None:
    last = read(ray_cluster({"groupName": "g", "replicas": 2, "numOfHosts": 2}))[-1]
    assert last.labels["ray.io/worker-group-replica-index"] == last.labels["ray.io/replica-host-index"] == "1"
    assert last.labels["ray.io/worker-group-replica-name"] == "g-1"


def test_the_autoscaler_of_a_ray_cluster_runs_beside_its_head() -> None:
    head, worker, *_ = pods_of(ray_cluster(enableInTreeAutoscaling=True))
    assert [each["name"] for each in head["spec"]["containers"]] == ["main", "autoscaler"]
    assert len(worker["spec"]["containers"]) == 1
    options = {"resources": {"limits": {"cpu": "2"}}}
    head, *_ = pods_of(ray_cluster(enableInTreeAutoscaling=True, autoscalerOptions=options))
    assert head["spec"]["containers"][1]["resources"] == {"limits": {"cpu": "2"}}


def test_labels_that_templates_cannot_change_stay() -> None:
    obj = ray_cluster({"groupName": "g", "replicas": 1, "labels": {"ray.io/group": "other", "zone": "z"}})
    last = read(obj)[-1]
    assert (last.labels["ray.io/group"], last.labels["zone"]) == ("g", "z")


def test_a_ray_job_is_its_cluster_and_the_pod_that_submits_it() -> None:
    assert names(ray_job()) == ["w-new-head-0", "w-new-gpus-worker-0", "w-new-gpus-worker-1", "w-0"]
    assert names(ray_job(submissionMode="HTTPMode"))[-1] == "w-new-gpus-worker-1"
    sidecar = pods_of(ray_job(submissionMode="SidecarMode"))
    assert [each["name"] for each in sidecar[0]["spec"]["containers"]] == ["main", "ray-job-submitter"]
    assert made_by(ray_job()).sets[0].path == "spec.rayClusterSpec.headGroupSpec.template."
    own = ray_job(submitterPodTemplate=template(gpus=2))
    assert pods_of(own)[-1]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 2
    other = ray_job(clusterSelector={"ray.io/cluster": "there"})
    assert names(other) == ["w-0"]
    assert "clusterSelector" in made_by(other).notes[0]


def test_the_cluster_of_a_ray_job_has_its_label() -> None:
    obj = ray_job(labels={GANG: "true"})
    assert groups_of(obj) == {"w-new": 3}
    assert [GROUP in pod.labels for pod in read(obj)] == [True, True, True, False]
    assert "makes no RayCluster for a RayJob" in made_by(obj).notes[0]


# All of them ---------------------------------------------------------------------------------------------------------


def test_kinds_of_others_are_told_by_their_api_group() -> None:
    for kind, obj in EVERY.items():
        assert is_workload(obj)
        assert is_workload({**obj, "apiVersion": ""}), "a file need not say it"
        assert not is_workload({**obj, "apiVersion": "example.com/v1"}), kind
        assert not is_workload({**obj, "apiVersion": "batch/v1"}), kind
    assert not is_workload({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"})
    assert is_workload({"apiVersion": "batch/v1", "kind": "Job"})


@pytest.mark.parametrize("kind", EVERY)
def test_pods_that_no_api_server_can_have_are_refused_before_they_are_made(kind: str) -> None:
    for path in list(paths(EVERY[kind])):
        if path[-1] in {"replicas", "parallelism", "size", "numOfHosts"}:
            for odd in ("many", -1, 10**9, None, True):
                obj = changed(EVERY[kind], path, odd)
                with pytest.raises(InvalidObjectsError) as caught:
                    made_by(obj)
                written = ".".join(part if isinstance(part, str) else f"[{part}]" for part in path).replace(".[", "[")
                assert str(caught.value) == f"{obj['kind']} w: {written}: {odd!r} is not a number up to 10000"


@pytest.mark.parametrize("kind", EVERY)
def test_whatever_a_field_holds_the_answer_is_pods_or_an_error_that_names_the_object(kind: str) -> None:
    around, became = world(), set()
    for path in list(paths(EVERY[kind])):
        for odd in ODD if path[0] not in {"apiVersion", "kind"} else ():
            obj = changed(EVERY[kind], path, odd)
            made, told = attempt(made_by, obj)
            became.add("refused" if made is None else "made")
            assert told.startswith(obj["kind"] if made is None else "")
            around.add(made.groups if made else ())
            for pod in made.pods if made else ():
                found, told = attempt(around.pod, pod)
                became.add("no pod" if found is None else "read")
                assert told.startswith("Pod " if found is None else "")
    assert became == {"refused", "made", "read", "no pod"}


def attempt(read: Callable[[Obj], Any], obj: Obj) -> tuple[Any, str]:
    """Return what is read of an object, or None and the error."""
    try:
        return read(obj), ""
    except InvalidObjectsError as error:
        return None, str(error)


def paths(obj: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something is written in an object."""
    items = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    for key, value in items:
        yield (*before, key)
        yield from paths(value, (*before, key))


def changed(obj: Obj, path: tuple[Any, ...], value: Any) -> Obj:
    made: Any = deepcopy(obj)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return dict(made)
