"""``vgpu-scheduler simulate``: what it says of mistakes in pods, clusters and settings."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.cli.simulated import ASSUMED, pod, policy, run, simulate, write
from tests.cli.typos import letters_off
from tests.whatif.test_whatif_remedies import node

pytestmark = pytest.mark.usefixtures("folder")


def test_what_a_cluster_may_contain_is_told() -> None:
    write("broken.yaml", policy({"limits": {"devicesPerPod": "many"}}, "tenants"))
    lost = [pod(str(number), nodeName="gone") for number in range(12)]
    write("lost.yaml", *lost, {"kind": "Secret", "metadata": {"name": "s"}}, {"metadata": {"name": "x"}})
    result = simulate("--cluster", "broken.yaml", "--cluster", "lost.yaml")
    assert result.exit_code == 1
    told = result.stderr.splitlines()
    assert told[0].startswith("warning: ClusterVGPUPolicy tenants: spec.limits.devicesPerPod: ")
    assert told[1] == "warning: Pod default/0: there is no node gone"
    assert told[10:] == [
        "warning: and 3 more",
        "ignored: 1 object of kind (none)",
        "ignored: 2 objects of kind ConfigMap",
        "ignored: 1 object of kind Secret",
        ASSUMED,
    ]
    assert "PolicyNotReady: ClusterVGPUPolicy tenants: spec.limits.devicesPerPod" in result.stdout


NODE = {"kind": "Node", "metadata": {"name": "n"}}
BAD_NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "many"}}}
BAD_POD = pod("bad", nodeName="node-a")
BAD_POD["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1 core"


@pytest.mark.parametrize(
    ("pods", "cluster", "says"),
    [
        ([BAD_POD], [NODE], "Pod default/bad: spec.containers[0].resources.limits[cpu]: '1 core' is not a quantity"),
        ([{"kind": "Node", "metadata": {"name": "n"}}], [NODE], "it contains no pod to place"),
        ([pod()], [], "there is no Node among the objects of the cluster"),
        ([{"kind": "Pod"}], [NODE], "Pod: metadata is missing"),
        ([5], [NODE], "p.yaml: '5' is not a Kubernetes object"),
        ([pod()], [[pod()]], "c.yaml: "),
        ([], [NODE], "it contains no pod to place"),
    ],
)
def test_errors_name_the_object_and_the_field(pods: list[Any], cluster: list[Any], says: str) -> None:
    result = run("-f", write("p.yaml", *pods), "--cluster", write("c.yaml", *cluster))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (BAD_NODE, "c.yaml: Node n: status.allocatable[cpu]: 'many' is not a quantity"),
        (BAD_POD, "c.yaml: Pod default/bad: spec.containers[0].resources.limits[cpu]: '1 core'"),
        ({"kind": "Namespace", "metadata": {"name": "n", "labels": 5}}, "c.yaml: Namespace n: metadata.labels is no"),
        (
            {"kind": "Node", "metadata": {"name": "m", "labels": {"size": 5}}},
            "c.yaml: Node m: metadata.labels[size]: Expected `str`, got `int`",
        ),
        (
            pod("p", nodeName="node-a") | {"metadata": {"name": "p", "annotations": {"a/b": 1}}},
            "metadata.annotations[a/b]",
        ),
    ],
)
def test_a_bad_object_of_a_cluster_is_told_and_left_out(bad: Any, says: str) -> None:
    write("one.yaml", pod())
    result = run("-f", "one.yaml", "--cluster", "cluster.yaml", "--cluster", write("c.yaml", bad))
    assert result.exit_code == 0
    told = next(line for line in result.stderr.splitlines() if says in line)
    assert told.startswith("warning: ")
    assert told.endswith(": it is ignored, as by the scheduler")


TOO_LARGE = pod("large")
TOO_LARGE["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = 10**20


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({**pod("p"), "metadata": {"name": "p", "namespace": "Bad_NS"}}, "Namespace 'Bad_NS': a name has at most 63"),
        (TOO_LARGE, "Pod default/large: spec.containers[0].resources.limits.nvidia.com/gpumem: 1000"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}, "spec.containers is empty"),
        (
            {"kind": "Pod", "metadata": {"name": "p", "labels": {"x": 5}}, "spec": {}},
            "p.yaml: Pod default/p: meta",
        ),
    ],
)
def test_pods_that_no_api_server_takes(asked: Any, says: str) -> None:
    result = run("-f", write("p.yaml", asked), "--cluster", "cluster.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_an_amount_of_twenty_digits_is_refused_as_too_large() -> None:
    asked = pod("large")
    asked["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "12345678901234567890"
    result = run("-f", write("p.yaml", asked), "--cluster", "cluster.yaml")
    assert result.exit_code == 1
    assert "nvidia.com/gpumem: 12345678901234567890 is more than any node has" in result.stdout


def test_values_of_annotations_that_are_not_understood_are_told() -> None:
    odd = pod("odd")
    odd["metadata"]["annotations"] = {"hami.io/node-scheduler-policy": "binpak"}
    odd["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 1}
    result = run("-f", write("p.yaml", odd), "--cluster", "cluster.yaml")
    assert "warning: Pod default/odd: annotation hami.io/node-scheduler-policy: 'binpak' is unknown" in result.stderr
    explained = run("-f", "p.yaml", "--cluster", "cluster.yaml", "--explain")
    assert explained.output.count("'binpak' is unknown") == 1


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"requests": {"nvidia.com/gpu": 1}}, True),
        ({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}, True),
        ({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": "1"}}, False),
        ({"requests": {"cpu": 1}, "limits": {"nvidia.com/gpu": 1}}, False),
    ],
)
def test_requests_that_the_api_server_would_refuse_are_told(resources: dict[str, Any], *, told: bool) -> None:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"] = resources
    stderr = run("-f", write("p.yaml", odd), "--cluster", "cluster.yaml").stderr
    assert ("resources.requests[nvidia.com/gpu] differs from resources.limits" in stderr) == told


@pytest.mark.parametrize(
    ("name", "told"),
    [("gpu", True), ("Memory", True), ("nvidia.com", True), ("hugepages-2Mi", False), ("ephemeral-storage", False)],
)
@pytest.mark.parametrize("place", ["limits", "requests"])
def test_names_of_resources_that_the_api_server_would_refuse_are_told(place: str, name: str, *, told: bool) -> None:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"] = {place: {name: 1, "cpu": 1}}
    stderr = run("-f", write("p.yaml", odd), "--cluster", "cluster.yaml").stderr
    assert stderr.count(f"resources.{place}[{name}] is not one of Kubernetes' own resources") == told
    assert "resources.limits[cpu]" not in stderr


@pytest.mark.parametrize("how_many", [[], ["--count", "max"]])
@pytest.mark.parametrize(("kind", "field"), [("Deployment", "replicas"), ("Job", "parallelism")])
def test_that_a_workload_asks_for_no_pods_is_told(kind: str, field: str, how_many: list[str]) -> None:
    template = {"spec": pod("p")["spec"]}
    none = {"kind": kind, "metadata": {"name": "none"}, "spec": {field: 0, "template": template}}
    result = run("-f", write("p.yaml", none), "--cluster", "cluster.yaml", *how_many)
    assert result.exit_code == 2
    assert f"{kind} none: it asks for no pods" in result.stderr


@pytest.mark.parametrize("node", ["a", "nowhere"])
def test_that_a_pod_names_its_node_is_told(node: str) -> None:
    odd = pod("odd")
    odd["spec"]["nodeName"] = node
    result = run("-f", write("p.yaml", odd), "--cluster", "cluster.yaml")
    assert "Pod odd: names a node (spec.nodeName)" in result.stderr
    assert "without a scheduler and without cards" in result.stderr


@pytest.mark.parametrize(
    ("resources", "of_container", "fits"),
    [
        ({"limits": {"cpu": "500"}}, {}, False),
        ({"limits": {"memory": "5000Gi"}}, {"requests": {"cpu": "1"}}, False),
        ({"limits": {"cpu": "500"}}, {"requests": {"cpu": "1"}}, True),
        ({"limits": {"cpu": "500"}}, {"limits": {"cpu": "1"}}, True),
        ({"limits": {"cpu": "500"}, "requests": {"cpu": "1"}}, {}, True),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, {}, False),
        ({"limits": {"example.com/x": "4"}}, {}, True),
        ({"limits": None}, {}, True),
    ],
)
def test_the_limits_of_a_pod_are_what_it_requests_where_it_says_nothing_else(
    resources: dict[str, Any], of_container: dict[str, Any], *, fits: bool
) -> None:
    """The API server makes them so (its gate PodLevelResources)."""
    asked = pod("asked")
    asked["spec"]["containers"][0]["resources"] = of_container
    asked["spec"]["resources"] = resources
    result = run("-f", write("p.yaml", asked), "--cluster", "cluster.yaml")
    assert result.exit_code == (0 if fits else 1), result.output


@pytest.mark.parametrize("how_many", [[], ["--count", "max"]])
def test_a_file_without_pods_is_named_with_what_is_in_it(how_many: list[str]) -> None:
    job = {"kind": "CronJob", "metadata": {"name": "c"}}
    small = {"kind": "pod", "metadata": {"name": "c"}}
    result = run("-f", write("jobs.yaml", job, small), "--cluster", "cluster.yaml", *how_many)
    assert result.exit_code == 2
    assert "jobs.yaml: it contains no pod to place" in result.stderr
    assert "CronJob (write its spec.jobTemplate as a Job), pod, did you mean Pod?" in result.stderr


@pytest.mark.parametrize("namespace", ["there", "default", "nowhere", "made"])
@pytest.mark.parametrize("known", [True, False])
def test_a_namespace_that_is_not_there_is_told(namespace: str, *, known: bool) -> None:
    """Only where it is known which there are; a file may make its own."""
    asked = pod("p")
    asked["metadata"]["namespace"] = namespace
    there = [{"kind": "Namespace", "metadata": {"name": "there"}}] if known else []
    made = {"kind": "Namespace", "metadata": {"name": "made"}}
    own = [made] if namespace == "made" else []
    result = run("-f", write("p.yaml", *own, asked), "--cluster", write("nodes.yaml", node("a"), *there))
    assert ("Namespace nowhere does not exist" in result.stderr) is (known and namespace == "nowhere"), result.stderr


@pytest.mark.parametrize("suspend", [True, False, None])
def test_a_job_that_is_suspended_is_told(suspend: bool | None) -> None:  # noqa: FBT001
    spec = {"suspend": suspend, "template": {"spec": pod("p")["spec"]}}
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    result = run("-f", write("j.yaml", job), "--cluster", "cluster.yaml")
    assert ("Job j: spec.suspend is true" in result.stderr) is (suspend is True)


def test_a_cluster_without_nodes_is_named() -> None:
    result = run("-f", write("p.yaml", pod("p")), "--cluster", write("empty.yaml", {"kind": "ConfigMap"}))
    assert (result.exit_code, "empty.yaml: there is no Node among" in result.stderr) == (2, True)


def test_where_none_of_as_many_as_fit_fits_the_command_fails() -> None:
    large = pod("large")
    large["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 999_999}
    result = run("-f", write("p.yaml", large), "--cluster", "cluster.yaml", "--count", "max")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, "0 of default/large fit.")


def test_settings_of_the_environment_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_NODE_POLICY", "spread")
    monkeypatch.setenv("VGPU_NODE_POLICI", "spread")
    lines = simulate().stderr.splitlines()
    with_it = "settings: assumed (the defaults, with VGPU_NODE_POLICY of the environment; use --config for others)"
    assert with_it in lines
    unknown = "environment variable VGPU_NODE_POLICI: there is no such setting, did you mean VGPU_NODE_POLICY?"
    assert f"warning: {unknown}" in lines
    lines = simulate("--config", write("settings.yaml", {"device_policy": "binpack"})).stderr.splitlines()
    assert "settings: file settings.yaml, with VGPU_NODE_POLICY of the environment" in lines


def test_that_kernels_are_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.cli.cluster.world.compiles_first", lambda: True)
    assert simulate().stderr.startswith("the kernels are compiled once after an installation")
    monkeypatch.undo()


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    """As ``--cluster <(kubectl get nodes -o yaml)`` gives it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=(Path("cluster.yaml").read_text(),), daemon=True)
    writer.start()
    result = run("-f", write("p.yaml", pod("p")), "--cluster", str(pipe))
    writer.join()
    assert result.exit_code == 0, result.output


ANNOTATION = "nvidia.com/use-gputy"


def test_what_has_no_effect_in_a_pod_is_told() -> None:
    odd = pod("odd", schedularName="x", nodeselector={"a": "b"})
    odd["spec"]["containers"][0]["resources"] |= {"limit": {"cpu": 1}, "limits": {"nvidia.com/gpu": 1}}
    odd["metadata"]["annotations"] = {"nvidia.com/use-gputyp": "A100"}
    template = {"metadata": {}, "spec": {**pod()["spec"], "restartpolicy": "Never"}}
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 2, "template": template}}
    result = run("-f", write("odd.yaml", odd, odd, job), "--cluster", "cluster.yaml")
    assert result.exit_code == 0
    told = [line.removeprefix("warning: ") for line in result.stderr.splitlines() if line.startswith("warning: ")]
    none = "there is no such field, and it has no effect, did you mean"
    of_each = [
        f"Pod odd: spec.schedularName: {none} schedulerName?",
        f"Pod odd: spec.nodeselector: {none} nodeSelector?",
        f"Pod odd: spec.containers[0].resources.limit: {none} limits?",
    ]
    assert sorted(told) == sorted(
        [
            *of_each,
            *of_each,
            f"Job j: spec.restartpolicy: {none} restartPolicy?",
            "Pod default/odd is defined 2 times: each is placed",
            f"Pod default/odd and 1 more: annotation {ANNOTATION}p has no effect, did you mean {ANNOTATION}pe?",
        ]
    )


NOT_OURS = (
    "placed as if it were vgpu-scheduler; write that name, or have the admission webhook do so (admission.enabled)"
)
WORKLOADS = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "Job")


def workload(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    if kind == "Pod":
        return {"kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return {"kind": kind, "metadata": {"name": "w"}, "spec": {"template": {"spec": spec}}}


def not_ours(told: str) -> list[str]:
    return [line.removeprefix("warning: ") for line in told.splitlines() if "schedulerName" in line]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_that_do_not_name_this_scheduler_are_placed_and_that_is_said(kind: str) -> None:
    odd = letters_off("vgpu-scheduler")
    assert len(odd) > 40
    for named in ("", "default-scheduler", "hami-scheduler", "volcano", *odd):
        spec = {**pod()["spec"], "schedulerName": named}
        result = run("-f", write("w.yaml", workload(kind, spec)), "--cluster", "cluster.yaml")
        assert result.exit_code == 0
        said = f"is {named}{' (is vgpu-scheduler meant?)' if named in odd else ''}" if named else "is not set"
        assert not_ours(result.stderr) == [f"{kind} w: spec.schedulerName {said}: {NOT_OURS}"]
    result = run("-f", write("w.yaml", workload(kind, pod()["spec"])), "--cluster", "cluster.yaml")
    assert not_ours(result.stderr) == []


def test_it_is_said_whether_the_webhook_would_name_this_scheduler() -> None:
    admission = {"enabled": True, "cert_file": "c", "key_file": "k"}
    for overwrites in (True, False):
        write("settings.yaml", {"admission": {**admission, "overwrite_default_scheduler": overwrites}})
        for named in ("", "default-scheduler", "volcano"):
            plain = workload("Job", {**pod()["spec"], "schedulerName": named})
            arguments = ("-f", write("w.yaml", plain), "--cluster", "cluster.yaml", "--config", "settings.yaml")
            (said,) = not_ours(run(*arguments).stderr)
            written = not named or (named == "default-scheduler" and overwrites)
            assert said.endswith(
                "; the admission webhook writes that name"
                if written
                else "; write that name, because the admission webhook does not set it"
            )


def test_of_many_pods_that_name_no_scheduler_it_is_said_once() -> None:
    plain = [{**pod(str(number)), "spec": {"containers": pod()["spec"]["containers"]}} for number in range(3)]
    result = run("-f", write("p.yaml", *plain), "--cluster", "cluster.yaml")
    assert not_ours(result.stderr) == [f"Pod 0 and 2 more: spec.schedulerName is not set: {NOT_OURS}"]
