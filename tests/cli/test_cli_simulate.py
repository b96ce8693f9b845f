"""``vgpu-scheduler simulate``: what it prints and ends with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from tests.cli.typos import letters_off
from tests.whatif.test_whatif_remedies import node, running

from vgpu_scheduler.allocators.hami import HamiAllocator
from vgpu_scheduler.cli import main
from vgpu_scheduler.state import DeviceMatrix

ASSUMED = "settings: assumed (the defaults; --config gives others)"
DATA = Path(__file__).parents[1] / "whatif"
TABLE = """\
POD            OUTCOME        NODE    CARDS   SCORE  POLICIES
default/web-0  placed         node-b  GPU-b1  0      VGPUPolicy default/spread-web
default/web-1  placed         node-a  GPU-a1  2.33   VGPUPolicy default/spread-web
default/web-2  placed         node-b  GPU-b0  3.17   VGPUPolicy default/spread-web
default/small  placed         node-b  GPU-b1  6.33   settings
team-a/large   unschedulable  -       -       -      settings
team-a/large: 0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 CardInsufficientMemory.
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with a snapshot of a cluster and pods to place."""
    for name in list(os.environ):
        if name.upper().startswith("VGPU_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name in ("cluster.yaml", "pods.yaml"):
        Path(name).write_text((DATA / name).read_text())
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def simulate(*arguments: str) -> Result:
    return run("-f", "pods.yaml", "--cluster", "cluster.yaml", *arguments)


def write(name: str, *objects: Any) -> str:
    Path(name).write_text(yaml.safe_dump_all(objects))
    return name


def pod(name: str = "p", memory: int = 1024, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory}
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "c", "resources": {"limits": limits}}],
            **spec,
        },
    }


def policy(spec: dict[str, Any], name: str = "p") -> dict[str, Any]:
    return {"kind": "ClusterVGPUPolicy", "metadata": {"name": name}, "spec": spec}


# What is printed -----------------------------------------------------------------------------------------------------


def test_a_table_of_pods_in_the_order_of_their_turns() -> None:
    result = simulate()
    assert result.stdout == TABLE
    assert result.stderr == f"ignored: 2 objects of kind ConfigMap\n{ASSUMED}\n"
    assert result.exit_code == 1


def test_the_end_says_whether_all_were_placed() -> None:
    write("small.yaml", pod())
    result = run("-f", "small.yaml", "--cluster", "cluster.yaml")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)


def test_explanations() -> None:
    result = simulate("--explain")
    assert result.exit_code == 1
    table, first, *_, last = result.stdout.split("\n\n")
    assert table + "\n" == "".join(TABLE.splitlines(keepends=True)[:-1])
    assert first.splitlines() == [
        "default/web-0 goes to node-b, GPU-b1",
        "  devices by settings",
        "  nodes by VGPUPolicy default/spread-web",
        "  NODE    SCORE  WHY",
        "  node-b  0      hami 0 (100 of 100)",
        "  node-a  2.33   hami 2.33 (92.22 of 100)",
        "  node-c  -      node(s) had untolerated taint(s)",
    ]
    assert last.splitlines()[:3] == [
        "team-a/large waits (unschedulable)",
        "  0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 CardInsufficientMemory.",
        "  nearest: 15360 of 20480 MiB memory free on node-a/GPU-a0",
    ]


def many_nodes(small: int, tainted: int) -> str:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    return write(
        "many.yaml",
        *(node(f"small-{number:02}", cards=1 + number % 2, memory=1024) for number in range(small)),
        *(node(f"tainted-{number:02}", taints=taints) for number in range(tainted)),
    )


def test_many_nodes_that_do_not_fit_are_shown_by_reason() -> None:
    write("one.yaml", pod("p", 4096))
    asked = ("-f", "one.yaml", "--explain", "--cluster")
    few = run(*asked, many_nodes(18, 2)).stdout
    assert "  small-17    -      2/2 CardInsufficientMemory" in few.splitlines()
    grouped = run(*asked, many_nodes(43, 2))
    rows = grouped.stdout[grouped.stdout.rindex("  NODE") :].splitlines()
    assert [row.split(maxsplit=2) for row in rows] == [
        ["NODE", "SCORE", "WHY"],
        ["43", "nodes:", "small-00, small-01, small-02, …  -      CardInsufficientMemory"],
        ["tainted-00,", "tainted-01", "-      node(s) had untolerated taint(s)"],
    ]
    wide = run(*asked, "many.yaml", "-o", "wide").stdout.splitlines()
    assert sum("CardInsufficientMemory" in row and row.startswith("  small-") for row in wide) == 43


def test_without_explanations_wide_is_the_table() -> None:
    assert simulate("-o", "wide").stdout == TABLE


def test_json() -> None:
    result = simulate("-o", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [(answer["pod"], answer["node"]) for answer in found] == [
        ("default/web-0", "node-b"),
        ("default/web-1", "node-a"),
        ("default/web-2", "node-b"),
        ("default/small", "node-b"),
        ("team-a/large", ""),
    ]
    assert found[0]["policy"] == {"devices": "settings", "nodes": "VGPUPolicy default/spread-web"}
    assert found[0]["annotations"]["hami.io/vgpu-devices-allocated"] == "GPU-b1,NVIDIA,8192,0:;"
    assert found[-1]["reasons"]["node-a"] == "2/2 CardInsufficientMemory"


# What is in force ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["", "default", "elsewhere"])
@pytest.mark.parametrize("named", ["", "default", "elsewhere"])
def test_a_policy_of_a_file_is_in_the_namespace_that_kubectl_would_create_it_in(named: str, home: str) -> None:
    spaces = {"namespace": named} if named else {}
    limit = {"kind": "VGPUPolicy", "metadata": {"name": "limit", **spaces}, "spec": {"limits": {"memoryPerPod": "1Mi"}}}
    write("limit.yaml", limit)
    pods = [pod(f"waits-in-{namespace}") for namespace in ("default", "elsewhere")]
    for waiting, namespace in zip(pods, ("default", "elsewhere"), strict=True):
        waiting["metadata"]["namespace"] = namespace
    write("waiting.yaml", *pods)
    flags = ("-n", home) if home else ("-A",)
    asked = ("--cluster", "cluster.yaml", "--cluster", "waiting.yaml", "--pending", "--policy", "limit.yaml", *flags)
    refused = {line.split(":")[0] for line in run(*asked).stdout.splitlines() if "limits.memoryPerPod" in line}
    in_force = named or home or "default"
    shown = {home} if home else {"default", "elsewhere"}
    assert refused == {f"{namespace}/waits-in-{namespace}" for namespace in shown & {in_force}}


def test_a_policy_of_another_file_is_in_force_too() -> None:
    write("limit.yaml", policy({"limits": {"memoryPerPod": "4Gi"}}, "limit"))
    result = simulate("--cluster", "limit.yaml")
    assert "default/web-0: 0/3 nodes are available: pod asks for 8Gi, limits.memoryPerPod of" in result.stdout
    assert "default/small  placed" in result.stdout


def test_settings() -> None:
    write("one.yaml", pod())
    asked = ("-f", "one.yaml", "--cluster", "cluster.yaml")
    assert "node-a  GPU-a1" in run(*asked).stdout
    assert "node-b  GPU-b1" in run(*asked, "--node-policy", "spread").stdout
    assert "node-a  GPU-a0" in run(*asked, "--device-policy", "binpack").stdout
    write("settings.yaml", {"profile": "HAMi210"})
    assert "node-a  GPU-a0" in run(*asked, "--config", "settings.yaml").stdout
    write("settings.yaml", {"nvidia": {"default_memory": 99}, "node_policy": "spread"})
    del (whole := pod())["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"]
    write("one.yaml", whole)
    found = json.loads(run(*asked, "--config", "settings.yaml", "-o", "json").stdout)
    amounts = {"slots": 1, "memory": 99, "cores": 0}
    assert (found[0]["node"], found[0]["containers"][0][0]["amounts"]) == ("node-b", amounts)


def test_other_dialects() -> None:
    card = "x,10,8192,NVIDIA-T4,true,hami-core:"
    advertised = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "100"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {"volcano.sh/node-vgpu-register": card}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10", **advertised}},
    }
    asked = pod()
    asked["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-number": 1}
    arguments = ("-f", write("p.yaml", asked), "--cluster", write("n.yaml", node), "--dialect")
    assert "default/p  placed   n     x" in run(*arguments, "volcano").stdout
    result = run(*arguments, "hamy")
    assert (result.exit_code, result.stderr) == (2, "Error: dialect: 'hamy' is none of hami, volcano, koordinator\n")


def test_folders_and_json_files() -> None:
    Path("snapshot").mkdir()
    objects = yaml.safe_load(Path("cluster.yaml").read_text())
    Path("snapshot/all.json").write_text(json.dumps(objects))
    write("snapshot/none.yaml")
    assert run("-f", "pods.yaml", "--cluster", "snapshot").stdout == TABLE


def test_a_workload_stands_for_its_pods() -> None:
    template = {"spec": pod()["spec"]}
    write("d.yaml", {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2, "template": template}})
    result = run("-f", "d.yaml", "--cluster", "cluster.yaml")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["default/d-0", "default/d-1"]


@pytest.mark.parametrize(("kind", "spread"), [("Deployment", 2), ("ReplicaSet", 2), ("StatefulSet", 2), ("Job", 1)])
def test_the_pods_of_a_workload_are_spread_where_the_operator_does(kind: str, spread: int) -> None:
    labels = {"app": "web"}
    spec: dict[str, Any] = {
        ("parallelism" if kind == "Job" else "replicas"): 2,
        "template": {"metadata": {"labels": labels}, "spec": pod()["spec"]},
        "selector": {"matchLabels": labels},
    }
    write("w.yaml", {"kind": kind, "metadata": {"name": "web"}, "spec": spec})
    nodes = [node(name) for name in ("a", "b")]
    for each in nodes:
        each["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = each["metadata"]["name"]
    write("n.yaml", *nodes)
    write("settings.yaml", {"scoring": {"system_spread": True}})

    def chosen(*more: str) -> set[str]:
        result = run("-f", "w.yaml", "--cluster", "n.yaml", *more)
        assert result.exit_code == 0, result.stderr
        return {line.split()[2] for line in result.stdout.splitlines()[1:3]}

    assert len(chosen()) == 1
    assert len(chosen("--config", "settings.yaml")) == spread


@pytest.mark.parametrize("labels", ["x", 5, ["a"]])
def test_malformed_labels_of_a_workload_are_named(labels: Any) -> None:
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": 1, "template": template, "selector": {"matchLabels": labels}}
    write("d.yaml", {"kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
    write("settings.yaml", {"scoring": {"system_spread": True}})
    result = run("-f", "d.yaml", "--cluster", "cluster.yaml", "--config", "settings.yaml")
    assert result.exit_code == 2
    assert "abels" in result.stderr


# What goes wrong -----------------------------------------------------------------------------------------------------


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
        ([{"kind": "Node", "metadata": {"name": "n"}}], [NODE], "there is no pod to place"),
        ([pod()], [], "there is no Node among the objects of the cluster"),
        ([{"kind": "Pod"}], [NODE], "Pod: metadata is missing"),
        ([5], [NODE], "p.yaml: '5' is no Kubernetes object"),
        ([pod()], [[pod()]], "c.yaml: "),
        ([], [NODE], "there is no pod to place"),
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
    assert told.endswith(": it is left out, as the scheduler leaves it out")


TOO_LARGE = pod("large")
TOO_LARGE["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = 10**20


@pytest.mark.parametrize(
    ("asked", "says"),
    [
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
    assert "nvidia.com/gpumem: 12345678901234567890 is more than anything has" in result.stdout


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
    assert ("resources.requests[nvidia.com/gpu] is not what resources.limits says" in stderr) == told


@pytest.mark.parametrize("how_many", [[], ["--count", "max"]])
def test_a_file_without_pods_is_named_with_what_is_in_it(how_many: list[str]) -> None:
    job = {"kind": "CronJob", "metadata": {"name": "c"}}
    small = {"kind": "pod", "metadata": {"name": "c"}}
    result = run("-f", write("jobs.yaml", job, small), "--cluster", "cluster.yaml", *how_many)
    assert result.exit_code == 2
    assert "jobs.yaml: there is no pod to place in it" in result.stderr
    assert "pod, did you mean Pod?" in result.stderr


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
    with_it = "settings: assumed (the defaults, with VGPU_NODE_POLICY of the environment; --config gives others)"
    assert with_it in lines
    unknown = "environment variable VGPU_NODE_POLICI: there is no such setting, did you mean VGPU_NODE_POLICY?"
    assert f"warning: {unknown}" in lines
    lines = simulate("--config", write("settings.yaml", {"device_policy": "binpack"})).stderr.splitlines()
    assert "settings: file settings.yaml, with VGPU_NODE_POLICY of the environment" in lines


def test_that_kernels_are_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.cli.cluster.world.is_compiled", lambda: False)
    assert simulate().stderr.startswith("the kernels are compiled now, once after an install")
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
            "Pod default/odd is there 2 times: each is placed",
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
                else "; write that name, for the admission webhook leaves it alone"
            )


def test_of_many_pods_that_name_no_scheduler_it_is_said_once() -> None:
    plain = [{**pod(str(number)), "spec": {"containers": pod()["spec"]["containers"]}} for number in range(3)]
    result = run("-f", write("p.yaml", *plain), "--cluster", "cluster.yaml")
    assert not_ours(result.stderr) == [f"Pod 0 and 2 more: spec.schedulerName is not set: {NOT_OURS}"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--cluster", "no.yaml"), "'no.yaml' does not exist"),
        (("--cluster", "broken.yaml"), "broken.yaml:2: no YAML: "),
        (("--config", "broken.yaml"), "settings file broken.yaml: "),
        (("--config", "unknown.yaml"), "no_such_setting: there is no such setting"),
        (("--device-policy", "middle"), "device_policy: 'middle' is not one of binpack"),
        (("--node-policy", "middle"), "'middle' is not one of 'binpack', 'spread'"),
        (("-o", "xml"), "'xml' is not one of 'table', 'wide', 'json', 'yaml'"),
    ],
)
def test_arguments_that_make_no_sense(arguments: tuple[str, ...], says: str) -> None:
    Path("broken.yaml").write_text("a: b\n c: [")
    write("unknown.yaml", {"no_such_setting": 1})
    result = simulate(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("-f", "-", "--cluster", "-"),
        ("-f", "-", "-f", "-", "--cluster", "cluster.yaml"),
        ("-f", "pods.yaml", "--cluster", "-", "--cluster", "-"),
    ],
)
def test_stdin_is_read_once(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "stdin (-) can be read only once" in result.stderr


def test_policies_may_come_from_a_folder_and_nothing_else_may() -> None:
    Path("policies").mkdir()
    write("policies/limit.yaml", policy({"limits": {"memoryPerPod": "1Gi"}}, "limit"))
    assert "limits.memoryPerPod" in simulate("--policy", "policies").stdout
    write("policies/quota.yaml", {"kind": "ResourceQuota", "metadata": {"name": "q"}})
    result = simulate("--policy", "policies")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: policies/quota.yaml: ResourceQuota q is no policy: --policy takes VGPUPolicy and" in result.stderr
    write("empty.yaml")
    assert "Error: empty.yaml: there is no policy in it" in simulate("--policy", "empty.yaml").stderr


def test_each_pod_is_counted_on_the_cluster_as_it_is() -> None:
    write("two.yaml", pod("first", 4096), pod("second", 4096))
    counted = run("-f", "two.yaml", "--cluster", "cluster.yaml", "--count", "max", "-o", "json")
    first, second = json.loads(counted.stdout)
    assert first["count"] > 1
    assert (first["count"], first["nodes"]) == (second["count"], second["nodes"])


def test_pods_and_a_cluster_are_needed() -> None:
    assert run("-f", "pods.yaml").exit_code == 2
    assert run("--cluster", "cluster.yaml").exit_code == 2


# Pods that wait, and their volumes ------------------------------------------------------------------------------------


def test_the_pods_of_the_cluster_that_wait_are_placed_first() -> None:
    waiting = {
        **pod("waits", memory=15360),
        "spec": {**pod("waits", memory=15360)["spec"], "schedulerName": "hami-scheduler"},
    }
    huge = pod("huge", memory=99999)
    write("waiting.yaml", waiting, huge)
    result = run("--pending", "--cluster", "cluster.yaml", "--cluster", "waiting.yaml", "-o", "json")
    found = {answer["pod"]: answer["outcome"] for answer in json.loads(result.stdout)}
    assert found == {"default/waiting": "placed", "default/waits": "placed", "default/huge": "unschedulable"}
    assert result.exit_code == 1


def test_pods_must_be_named() -> None:
    result = run("--cluster", "cluster.yaml")
    assert result.exit_code == 2
    assert "-f FILE, or --pending" in result.stderr


def test_claims_may_come_with_the_pods() -> None:
    storage_class = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    resources = {"requests": {"storage": "1Gi"}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": resources},
    }
    mounted = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    write("with-claim.yaml", storage_class, claim, mounted)
    result = run("-f", "with-claim.yaml", "--cluster", "cluster.yaml", "--explain")
    assert result.exit_code == 0
    assert "claim default/data has a volume made for node-" in result.stdout


def test_an_empty_file_and_an_empty_folder_are_no_cluster() -> None:
    write("one.yaml", pod())
    write("empty.yaml")
    Path("nothing").mkdir()
    assert "there is no Node among the objects" in run("-f", "one.yaml", "--cluster", "empty.yaml").stderr
    assert "nothing: there is no YAML or JSON file in it" in run("-f", "one.yaml", "--cluster", "nothing").stderr


# Size ----------------------------------------------------------------------------------------------------------------

NODES, RUNNING, WAITING, SHAPES = 1000, 8000, 2000, 14


def test_a_dump_of_a_large_cluster_takes_work_in_proportion_and_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are looked at once for pods that are alike, and then only those that have changed."""
    objects = [node(f"n{number}", cards=8) for number in range(NODES)]
    for number in range(RUNNING):
        home, card = number % NODES, number // NODES
        objects.append(running(f"r{number}", f"n{home}", f"GPU-n{home}-{card}", 4000, 10))
    objects += [pod(f"w{number}", 3000 + number % SHAPES) for number in range(WAITING)]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    fitted: list[int] = []
    fit = HamiAllocator.fit

    def counted(self: HamiAllocator, devices: DeviceMatrix, rows: NDArray[np.int64], *more: Any) -> None:
        fitted.append(len(rows))
        fit(self, devices, rows, *more)

    shown: list[str] = []
    monkeypatch.setattr(HamiAllocator, "fit", counted)
    monkeypatch.setattr("vgpu_scheduler.cli.simulate.progress", shown.append)
    result = run("--pending", "--cluster", "dump.json")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1 + WAITING
    assert sum("decided" in text for text in shown) >= WAITING / 100
    assert sum(fitted) <= SHAPES * (NODES + WAITING), "each shape sees each node once, and each placement once"
