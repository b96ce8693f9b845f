"""TrainJobs of Kubeflow Trainer, beside their runtimes: the JobSets that are made of both."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.whatif.test_whatif_workloads import ODD, changed, paths
from tests.whatif.workloads import job_set, train_job, training_runtime

from vgpu_scheduler.whatif import FileObject, InvalidObjectsError, made_by, with_job_sets

Obj = dict[str, Any]
LABEL = "scheduling.x-k8s.io/pod-group"


def written(*objects: Obj) -> list[FileObject]:
    return with_job_sets([FileObject(obj) for obj in objects])


def pods(*objects: Obj) -> list[Obj]:
    (made,) = [obj for obj in written(*objects) if obj["kind"] == "JobSet"]
    return [dict(pod) for pod in made_by(made).pods]


@pytest.mark.parametrize(("spec", "number"), [({}, 2), ({"trainer": {"numNodes": 3}}, 3), ({"trainer": {}}, 2)])
def test_a_train_job_is_the_job_set_of_its_runtime(spec: Obj, number: int) -> None:
    found = pods(training_runtime(nodes=2), train_job(**spec))
    assert [pod["metadata"]["name"] for pod in found] == [f"w-node-0-{n}" for n in range(number)]
    assert {pod["metadata"]["namespace"] for pod in found} == {"n"}
    assert LABEL not in found[0]["metadata"]["labels"]


def test_what_is_made_takes_the_place_of_both() -> None:
    other = job_set()
    found = written(training_runtime(), other, train_job())
    assert [obj["kind"] for obj in found] == ["JobSet", "JobSet"]
    assert found[0] == other


@pytest.mark.parametrize(
    ("policy", "api_version", "where", "key"),
    [
        ("coscheduling", "scheduling.x-k8s.io/v1alpha1", "labels", LABEL),
        ("volcano", "scheduling.volcano.sh/v1beta1", "annotations", "scheduling.k8s.io/group-name"),
    ],
)
def test_the_policy_of_a_runtime_makes_a_group(policy: str, api_version: str, where: str, key: str) -> None:
    objects = training_runtime(podGroupPolicy={policy: {}}), train_job(trainer={"numNodes": 3})
    group, _ = written(*objects)
    assert group == {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"minMember": 3},
    }
    assert {pod["metadata"][where][key] for pod in pods(*objects)} == {"w"}


def test_a_train_job_says_what_each_node_asks_for() -> None:
    trainer = {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 4, "cpu": "2"}}}
    (pod,) = pods(training_runtime(), train_job(trainer=trainer))
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": 4, "nvidia.com/gpumem": 4000, "cpu": "2"}


@pytest.mark.parametrize(("as_node", "number"), [(True, 3), (False, 4)])
def test_the_launcher_of_mpi_may_be_one_of_the_nodes(as_node: bool, number: int) -> None:  # noqa: FBT001
    runtime = training_runtime()
    node = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]
    launcher = {**deepcopy(node), "name": "launcher"}
    del node["template"]["metadata"]
    runtime["spec"]["template"]["spec"]["replicatedJobs"] = [launcher, node]
    runtime["spec"]["mlPolicy"] = {"numNodes": 1, "mpi": {"runLauncherAsNode": as_node}}
    found = [pod["metadata"]["name"] for pod in pods(runtime, train_job(trainer={"numNodes": 4}))]
    assert found == ["w-launcher-0-0", *(f"w-node-0-{n}" for n in range(number))]


def test_a_runtime_of_another_kind_or_name_is_not_taken() -> None:
    job = train_job()
    assert [obj["kind"] for obj in written(training_runtime("TrainingRuntime"), job)] == ["TrainingRuntime", "TrainJob"]
    job = train_job(runtimeRef={"name": "torch", "kind": "TrainingRuntime"})
    assert [obj["kind"] for obj in written(training_runtime("TrainingRuntime"), job)] == ["JobSet"]
    assert [obj["kind"] for obj in written(train_job())] == ["TrainJob"]


def test_patches_of_a_train_job_are_refused() -> None:
    with pytest.raises(
        InvalidObjectsError, match=r"TrainJob w: spec.runtimePatches is not supported here: write it into the"
    ):
        written(training_runtime(), train_job(runtimePatches=[{"manager": "x"}]))


def test_whatever_a_field_of_both_holds_there_is_an_answer_or_an_error_that_names_the_object() -> None:
    runtime = training_runtime(podGroupPolicy={"coscheduling": {}})
    job = train_job(trainer={"numNodes": 2, "resourcesPerNode": {"limits": {"cpu": 1}}})
    told = []
    for number, obj in enumerate((runtime, job)):
        for path in list(paths(obj)):
            for odd in ODD if path[0] not in {"apiVersion", "kind"} else ():
                both = [runtime, job]
                both[number] = changed(obj, path, odd)
                told.append(error_of(both))
    assert all(not text or text.startswith(("TrainJob", "ClusterTrainingRuntime", "JobSet")) for text in told)
    assert {bool(text) for text in told} == {True, False}


def error_of(objects: list[Obj]) -> str:
    try:
        for obj in written(*objects):
            if obj["kind"] == "JobSet":
                made_by(obj)
    except InvalidObjectsError as error:
        return str(error)
    return ""
