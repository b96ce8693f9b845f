"""``vgpu-scheduler simulate``: jobs of many pods, as their ecosystems write them."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from tests.cli.simulated import run, write
from tests.whatif.test_whatif_remedies import node
from tests.whatif.workloads import (
    EVERY,
    job_set,
    kubeflow_job,
    leader_worker_set,
    ray_cluster,
    train_job,
    training_runtime,
)

pytestmark = pytest.mark.usefixtures("folder")

PATHS = {
    "JobSet": "spec.replicatedJobs[0].template.spec.template",
    "LeaderWorkerSet": "spec.leaderWorkerTemplate.workerTemplate",
    "PyTorchJob": "spec.pytorchReplicaSpecs.Master.template",
    "RayCluster": "spec.headGroupSpec.template",
    "RayJob": "spec.rayClusterSpec.headGroupSpec.template",
}


def at_home(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a workload that names no namespace."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    return deepcopy({**obj, "metadata": metadata})


def nodes(cards: int = 8) -> str:
    """Write a node, and return the name of the file."""
    made = node("a", cards)
    made["status"]["allocatable"]["ephemeral-storage"] = "100Gi"  # of which the launcher of an MPIJob takes some
    return write("nodes.yaml", made)


def outcomes(*arguments: str, cards: int = 8) -> tuple[dict[str, str], str]:
    """Return what becomes of each pod, and what is said beside."""
    result = run(*arguments, "--cluster", nodes(cards), "-o", "json")
    assert result.exit_code in {0, 1}, result.output
    return {answer["pod"]: answer["outcome"] for answer in json.loads(result.stdout)}, result.stderr


@pytest.mark.parametrize("home", [(), ("-n", "team")])
@pytest.mark.parametrize("kind", EVERY)
def test_every_kind_is_placed_in_its_namespace(kind: str, home: tuple[str, ...]) -> None:
    obj = at_home(EVERY[kind])
    found, told = outcomes("-f", write("w.yaml", obj), *home)
    assert len(found) >= 3
    assert {name.partition("/")[0] for name in found} == {home[1] if home else "default"}
    assert set(found.values()) == {"placed"}, told
    assert "ignored" not in told


@pytest.mark.parametrize(
    "obj", [kubeflow_job("PyTorchJob"), ray_cluster(labels={"ray.io/gang-scheduling-enabled": ""})]
)
def test_a_group_goes_whole_or_not_at_all(obj: dict[str, Any]) -> None:
    workload = at_home(obj)
    for each in workload_limits(workload):
        each["nvidia.com/gpumem"] = 16_000  # a card each
    found, told = outcomes("-f", write("w.yaml", workload), cards=2)
    assert set(found.values()) == {"unschedulable"}, told
    assert told.count("placed together" if workload["kind"] == "PyTorchJob" else "KubeRay makes the group") == 1
    found, _ = outcomes("-f", "w.yaml", cards=3)
    assert set(found.values()) == {"placed"}


def test_without_a_group_each_pod_goes_by_itself() -> None:
    workload = at_home(job_set(("worker", 1, 3)))
    for each in workload_limits(workload):
        each["nvidia.com/gpumem"] = 16_000
    found, _ = outcomes("-f", write("w.yaml", workload), cards=2)
    assert sorted(found.values()) == ["placed", "placed", "unschedulable"]


def test_groups_of_a_leader_worker_set_go_one_by_one() -> None:
    workload = at_home(leader_worker_set(replicas=2, size=2))
    for each in workload_limits(workload):
        each["nvidia.com/gpumem"] = 16_000
    found, told = outcomes("-f", write("w.yaml", workload), cards=3)
    assert found == {
        "default/w-0": "placed",
        "default/w-0-1": "placed",
        "default/w-1": "unschedulable",
        "default/w-1-1": "unschedulable",
    }
    assert told.count("gangSchedulingManagement") == 1


@pytest.mark.parametrize("home", [(), ("-n", "team")])
def test_a_train_job_is_placed_with_the_runtime_of_another_file(home: tuple[str, ...]) -> None:
    runtime = training_runtime(podGroupPolicy={"coscheduling": {}})
    job = at_home(train_job(trainer={"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpumem": 16_000}}}))
    arguments = ("-f", write("job.yaml", job), "-f", write("runtime.yaml", runtime), *home)
    namespace = home[1] if home else "default"
    found, told = outcomes(*arguments, cards=3)
    assert found == {f"{namespace}/w-node-0-{n}": "placed" for n in range(3)}
    assert "ignored" not in told
    found, _ = outcomes(*arguments, cards=2)
    assert set(found.values()) == {"unschedulable"}


def workload_limits(obj: Any) -> list[dict[str, Any]]:
    """Return all limits that are in an object."""
    if isinstance(obj, list):
        return [each for item in obj for each in workload_limits(item)]
    if not isinstance(obj, dict):
        return []
    own = [obj["limits"]] if isinstance(obj.get("limits"), dict) else []
    return own + [each for item in obj.values() for each in workload_limits(item)]


@pytest.mark.parametrize("kind", PATHS)
def test_fields_of_templates_that_have_no_effect_are_told_with_their_paths(kind: str) -> None:
    obj = at_home(EVERY[kind])
    template: Any = obj
    for part in PATHS[kind].replace("[0]", ".0").split("."):
        template = template[int(part)] if part.isdigit() else template[part]
    template["spec"]["nodeselector"] = {"a": "b"}
    _, told = outcomes("-f", write("w.yaml", obj))
    says = "there is no such field, and it has no effect, did you mean nodeSelector?"
    assert f"warning: {kind} w: {PATHS[kind]}.spec.nodeselector: {says}" in told.splitlines()
    template["spec"] = {"containers": []}
    result = run("-f", write("w.yaml", obj), "--cluster", "nodes.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{kind} w: {PATHS[kind]}.spec.containers is empty" in result.stderr


@pytest.mark.parametrize("kind", EVERY)
def test_one_pod_of_each_template_is_counted(kind: str) -> None:
    obj = at_home(EVERY[kind])
    result = run("-f", write("w.yaml", obj), "--cluster", nodes(), "--count", "max", "-o", "json")
    counted = [each["pod"] for each in json.loads(result.stdout)]
    of_each = {"JobSet": 2, "LeaderWorkerSet": 1, "TFJob": 3, "JAXJob": 1, "PaddleJob": 1, "RayJob": 3}
    assert len(counted) == of_each.get(kind, 2)
    assert ("which --count ignores" in result.stderr) == (kind not in {"JobSet", "RayCluster", "RayJob"})


@pytest.mark.parametrize("kind", EVERY)
def test_every_kind_is_explained(kind: str) -> None:
    obj = at_home(EVERY[kind])
    result = run("-f", write("w.yaml", obj), "--cluster", nodes(), "--explain")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("goes to a") >= 3


def test_a_scheduler_that_is_not_named_is_told_once_a_workload() -> None:
    obj = at_home(job_set())
    for job in obj["spec"]["replicatedJobs"]:
        del job["template"]["spec"]["template"]["spec"]["schedulerName"]
    _, told = outcomes("-f", write("w.yaml", obj))
    assert [line.partition(": placed")[0] for line in told.splitlines() if "schedulerName" in line] == [
        "warning: JobSet w: spec.schedulerName is not set"
    ]


@pytest.mark.parametrize(
    ("version", "kind", "told"),
    [
        ("batch.volcano.sh/v1alpha1", "Job", "Job.batch.volcano.sh (it is left to Volcano's scheduler; write each of"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", "TrainJob (add its runtime to the files)"),
        ("ray.io/v1", "RayService", "RayService (write its spec.rayClusterConfig as a RayCluster)"),
        ("jobset.x-k8s.io/v1alpha2", "JobSett", "JobSett, did you mean JobSet?"),
    ],
)
def test_kinds_that_are_not_taken_are_named_with_what_to_write_instead(version: str, kind: str, told: str) -> None:
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": {"runtimeRef": {"name": "r"}}}
    result = run("-f", write("w.yaml", obj), "--cluster", nodes())
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "JobSet", "spec": {"replicatedJobs": 5}}, "JobSet w: spec.replicatedJobs is not a list"),
        ({"kind": "RayCluster", "spec": {}}, "RayCluster w: spec.headGroupSpec is missing"),
        ({"kind": "LeaderWorkerSet"}, "LeaderWorkerSet w: spec is missing"),
        ({"kind": "MPIJob", "spec": {"mpiReplicaSpecs": []}}, "MPIJob w: spec.mpiReplicaSpecs is not a mapping"),
    ],
)
def test_what_is_malformed_is_named(change: dict[str, Any], says: str) -> None:
    obj = {"metadata": {"name": "w"}, **change}
    result = run("-f", write("w.yaml", obj), "--cluster", nodes())
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
