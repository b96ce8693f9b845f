"""``vgpu-scheduler simulate``: what it prints and ends with, and what is in force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.simulated import ASSUMED, pod, policy, run, simulate, write
from tests.whatif.test_whatif_remedies import node

pytestmark = pytest.mark.usefixtures("folder")
GROUPS = sorted((Path(__file__).parents[2] / "manifests" / "examples").glob("group-*.yaml"))
TABLE = """\
POD            OUTCOME        NODE    CARDS   SCORE  POLICIES
default/web-0  placed         node-b  GPU-b1  0      VGPUPolicy default/spread-web
default/web-1  placed         node-a  GPU-a1  2.33   VGPUPolicy default/spread-web
default/web-2  placed         node-b  GPU-b0  3.17   VGPUPolicy default/spread-web
default/small  placed         node-b  GPU-b1  6.33   settings
team-a/large   unschedulable  -       -       -      settings
team-a/large: 0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 CardInsufficientMemory.
"""


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
    assert (result.exit_code, result.stderr) == (2, "Error: dialect: 'hamy' is not one of hami, volcano, koordinator\n")


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


# Arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--cluster", "no.yaml"), "'no.yaml' does not exist"),
        (("--cluster", "broken.yaml"), "broken.yaml:2: not valid YAML: "),
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
    assert "Error: policies/quota.yaml: ResourceQuota q is not a policy: only VGPUPolicy and" in result.stderr
    write("empty.yaml")
    assert "Error: empty.yaml: it contains no policy" in simulate("--policy", "empty.yaml").stderr


def test_each_pod_is_counted_on_the_cluster_as_it_is() -> None:
    write("two.yaml", pod("first", 4096), pod("second", 4096))
    counted = run("-f", "two.yaml", "--cluster", "cluster.yaml", "--count", "max", "-o", "json")
    first, second = json.loads(counted.stdout)
    assert first["count"] > 1
    assert (first["count"], first["nodes"]) == (second["count"], second["nodes"])


@pytest.mark.parametrize("home", [(), ("-n", "default"), ("-n", "team")])
@pytest.mark.parametrize("example", GROUPS, ids=[file.stem for file in GROUPS])
def test_the_groups_of_the_examples_are_placed_whole_in_any_namespace(example: Path, home: tuple[str, ...]) -> None:
    def outcomes(cards: int) -> list[tuple[str, str]]:
        nodes = write("nodes.yaml", node("a", cards, memory=8000))
        result = run("-f", str(example), "--cluster", nodes, "-o", "json", *home)
        return [(answer["pod"].split("/")[1], answer["outcome"]) for answer in json.loads(result.stdout)]

    pods = outcomes(9)
    assert {outcome for _, outcome in pods} == {"placed"}
    for cards in range(1, len(pods)):
        for group in {name[:9] if name.startswith("serving-") else "" for name, _ in pods}:  # a leader and its workers
            assert len({outcome for name, outcome in outcomes(cards) if name.startswith(group)}) == 1
    assert "placed" not in {outcome for _, outcome in outcomes(1)}


def test_pods_and_a_cluster_are_needed() -> None:
    assert run("-f", "pods.yaml").exit_code == 2
    assert run("--cluster", "cluster.yaml").exit_code == 2


def test_a_wide_table_names_each_of_seven_policies() -> None:
    denying = {"devices": {"types": {"deny": ["H100"]}}}
    seven = [{"kind": "ClusterVGPUPolicy", "metadata": {"name": f"p{n}"}, "spec": denying} for n in range(7)]
    write("seven.yaml", *seven)
    write("waiting.yaml", pod("one"))
    asked = ("--cluster", "cluster.yaml", "--cluster", "waiting.yaml", "--pending", "--policy", "seven.yaml")
    table = run(*asked, "-o", "wide").stdout
    assert ", ".join(f"ClusterVGPUPolicy p{number}" for number in range(7)) in table
