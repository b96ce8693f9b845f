"""``vgpu-scheduler simulate --trace``: what it reads, prints, draws and ends with."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Option
from click.testing import CliRunner, Result
from tests.cli.live_cluster import Api
from tests.whatif.test_whatif_remedies import node, running
from tests.whatif.traces import NODES, PODS

from vgpu_scheduler.cli import main
from vgpu_scheduler.cli.commands.simulate import simulate
from vgpu_scheduler.cli.traces import command
from vgpu_scheduler.whatif.traces import CONTENDERS, CardLocation

TABLE = """\
WORKLOAD  POLICY            AT 100%  AT 110%  AT 130%  FRAGMENTED  REJECTED  IDLE NODES  IDLE CARDS
small     hami              80.00    80.00    80.00    20.00       1         0           0
small     hami-binpack      80.00    80.00    80.00    20.00       1         0           0
small     volcano-binpack   80.00    80.00    80.00    20.00       1         1           0
small     koordinator-most  80.00    80.00    80.00    20.00       1         1           0
small     fragmentation     80.00    80.00    80.00    20.00       1         0           0
small     learned-prices    80.00    80.00    80.00    20.00       1         0           0

Percent of 2 cards on 2 nodes: allocated when that share was requested, the other columns at 100%.
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs, with a trace of two nodes and two lists of pods."""
    for name in list(os.environ):
        if name.upper().startswith("VGPU_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    trace = Path("trace")
    trace.mkdir()
    (trace / "openb_node_list_gpu_node.csv").write_text(NODES)
    (trace / "openb_pod_list_small.csv").write_text(PODS)
    (trace / "openb_pod_list_whole.csv").write_text(PODS.replace("600", "1000"))
    return trace


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def replayed(*arguments: str) -> Any:
    result = run("--trace", "trace", "--workload", "small", "--policy", "fragmentation", "-o", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def write(name: str, *objects: Any) -> str:
    Path(name).write_text(yaml.safe_dump_all(objects))
    return name


def policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ClusterVGPUPolicy", "metadata": {"name": name}, "spec": spec}


# What is printed -----------------------------------------------------------------------------------------------------


def test_a_table_of_policies() -> None:
    """A whole card and 60 percent of the other; the rest is of no use, and of the nodes the one without cards is idle
    where pods without cards are packed, too."""
    result = run("--trace", "trace", "--workload", "small")
    assert result.stdout == TABLE
    assert (result.stderr, result.exit_code) == ("", 0)


def test_data_for_scripts_is_the_same_each_time() -> None:
    (first,), (again,), (other,) = replayed(), replayed(), replayed("--seed", "7")
    assert first == again
    assert list(first) == ["workload", "policy", "nodes", "cards", "points", "curve", "runs"]
    assert (first["workload"], first["policy"], first["nodes"], first["cards"]) == ("small", "fragmentation", 2, 2)
    assert [point["demand"] for point in first["points"]] == [100, 110, 130]
    assert list(first["points"][0]) == [
        "demand",
        "allocation",
        "fragmentation",
        "rejected",
        "idle_nodes",
        "idle_cards",
    ]
    assert len(first["curve"]) == 131
    assert [each["seed"] for each in first["runs"]] == [42]
    assert [each["seed"] for each in other["runs"]] == [7]
    assert other["runs"] != first["runs"]
    result = run("--trace", "trace", "--workload", "small", "--policy", "fragmentation", "-o", "yaml")
    assert yaml.safe_load(result.stdout) == [first]


def test_several_seeds_are_averaged() -> None:
    (found,) = replayed("--runs", "3", "--seed", "5")
    assert [each["seed"] for each in found["runs"]] == [5, 6, 7]
    result = run("--trace", "trace", "--workload", "small", "--policy", "hami", "--runs", "3")
    assert "the mean of 3 seeds ± standard deviation" in result.stdout
    assert " ± " in result.stdout.splitlines()[1]


def test_all_lists_of_a_folder_are_replayed() -> None:
    result = run("--trace", "trace", "--policy", "hami")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:3]] == ["small", "whole"]


def test_pods_that_leave() -> None:
    (found,) = replayed("--load", "0.9")
    assert found["load"] == 0.9
    assert [point["demand"] for point in found["points"]] == [90]
    assert found["curve"] == []
    result = run("--trace", "trace", "--workload", "small", "--policy", "hami", "--load", "0.9")
    assert result.stdout.startswith("WORKLOAD  POLICY  ALLOCATED  ")
    assert "allocated on average at load 0.9, the other columns at the end" in result.stdout


def test_own_policies_are_compared_with_ours() -> None:
    name = write("mine.yaml", policy("x", {"devices": {"types": {"deny": ["T4"]}}}))
    result = run("--trace", "trace", "--workload", "small", "--policy", name, "--policy", "hami")
    assert [line.split()[1] for line in result.stdout.splitlines()[1:3]] == ["mine", "hami"]
    assert " 0.00 " in result.stdout.splitlines()[1]
    assert "warning: mine: " in result.stderr
    assert "it reports that it rejected 3 pods that a node had room for" in result.stderr


def test_models_that_no_node_has_are_told() -> None:
    Path("trace/openb_pod_list_small.csv").write_text(PODS.replace("T4|A10", "H100"))
    result = run("--trace", "trace", "--workload", "small", "--policy", "hami")
    assert result.stderr == "warning: small: no node has a card of the models that 1 pod would take\n"


def test_a_cluster_of_files_instead_of_the_nodes_of_the_trace() -> None:
    closed = node("closed")
    closed["spec"]["unschedulable"] = True
    name = write("cluster.yaml", node("gpu", cards=4), closed, running("p", "gpu", "GPU-gpu-0", 6000))
    result = run(
        "--trace", "trace", "--workload", "small", "--cluster", name, "-o", "json", "--policy", "fragmentation"
    )
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert (found["nodes"], found["cards"]) == (1, 4)
    assert "warning: node closed is cordoned: it is ignored" in result.stderr
    assert "the card models that pods of the trace ask for are ignored" in result.stderr
    result = run("--trace", "synthetic", "--cluster", name, "--policy", "hami", "--policy", "fragmentation")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:3]] == ["synthetic", "synthetic"]
    assert "Percent of 4 cards on 1 node" in result.stdout


def test_the_live_cluster_instead_of_the_nodes_of_the_trace(api: Api) -> None:
    result = run("--trace", "trace", "--workload", "small", "--fleet", "cluster", "--policy", "hami", "-o", "json")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert (found["nodes"], found["cards"]) == (1, 1)  # the other card is cordoned
    assert api.objects  # nothing was written


@pytest.mark.long
def test_a_terminal_shows_how_far_it_is() -> None:
    ours, theirs = pty.openpty()
    call = [sys.executable, "-m", "vgpu_scheduler", "simulate", "--trace", "synthetic", "--policy", "hami"]
    name = write("cluster.yaml", node("gpu", cards=8))
    found = subprocess.run([*call, "--cluster", name], stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    assert found.stdout.startswith(b"WORKLOAD")
    shown = os.read(ours, 2**16).decode()
    os.close(ours)
    assert "synthetic, hami, seed 42" in shown
    assert "%" in shown


def test_a_placement_that_cannot_be_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "replay", lambda arrivals, *_: [CardLocation(0, ())] * len(arrivals.pods))
    result = run("--trace", "trace", "--workload", "small", "--policy", "hami")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: small, hami, seed 42: the audit found an impossible state: TracePod(")


# The picture ---------------------------------------------------------------------------------------------------------


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "nowhere"], "nowhere: there is no such folder; synthetic can be used where there is no trace"),
        (["--trace", "trace", "--workload", "x"], "trace: there is no workload x; there is small, whole"),
        (["--trace", "synthetic", "--workload", "x"], "synthetic: there is no workload x; there is synthetic"),
        (["--trace", "."], ".: there is no list of pods in it (*pod_list*.csv)"),
        (["--trace", "trace", "--policy", "none"], "--policy none: there is no such file, and it is not one of hami, "),
        (
            ["--trace", "trace", "--policy", "hami", "--policy", "hami"],
            "--policy: two files are called hami: rename one",
        ),
        (["--trace", "trace", "--policy", "trace"], "trace: it contains no YAML or JSON file"),
        (["--trace", "trace", "--pending"], "--pending: it cannot be used with --trace"),
        (["--trace", "trace", "--node-policy", "spread"], "--node-policy: it cannot be used with --trace"),
        (["--trace", "trace", "--fleet", "trace", "--cluster", "trace"], "--fleet trace cannot be used with a cluster"),
        (["--pending", "--seed", "0"], "--seed: it is for --trace"),
        (["--pending", "--load", "1"], "--load: it is for --trace"),
        (["--pending", "--policy", "none"], "Invalid value for '--policy': Path 'none' does not exist."),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_malformed_lists_are_named(folder: Path) -> None:
    (folder / "openb_pod_list_small.csv").write_text(PODS.replace("1,600", "1,x"))
    result = run("--trace", "trace")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: trace/openb_pod_list_small.csv:3: gpu_milli: 'x' is not a whole number from 0 to 1000\n"
    )
    (folder / "openb_pod_list_small.csv").write_bytes(b"\xff")
    assert run("--trace", "trace").stderr == "Error: trace/openb_pod_list_small.csv: it is not text in UTF-8\n"


def test_the_list_of_nodes_must_be_clear(folder: Path) -> None:
    (folder / "openb_node_list_all_node.csv").write_text("broken")
    assert run("--trace", "trace", "--workload", "small", "--policy", "hami").exit_code == 0
    (folder / "openb_node_list_gpu_node.csv").rename(folder / "other_node_list.csv")
    message = "trace: there are several lists of nodes: openb_node_list_all_node.csv, other_node_list.csv"
    assert run("--trace", "trace").stderr == f"Error: {message}\n"
    for path in folder.glob("*node_list*"):
        path.unlink()
    assert run("--trace", "trace").stderr == "Error: trace: there is no list of nodes in it (*node_list*.csv)\n"


def test_help_imports_nothing_that_takes_time() -> None:
    code = (
        "import sys; from vgpu_scheduler.cli import main\n"
        "try: main(['simulate', '--help'])\n"
        "finally: assert not {'numpy', 'numba', 'matplotlib', 'rich'} & set(sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--trace FOLDER|synthetic" in found.stdout


def test_help_names_the_policies_that_are_compared() -> None:
    (told,) = (param.help or "" for param in simulate.params if isinstance(param, Option) and param.name == "policies")
    assert all(f" {name}" in told for name in CONTENDERS)
