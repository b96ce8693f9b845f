"""``vgpu-scheduler backtest``: what it reads, prints and ends with."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.engine.builders import allocation, asks, cards, node_object, pod_object
from tests.history.recorded import BEGAN, fleet, history, played, waiting, written
from tests.policy.resources import policy
from tests.seeds import seeds

from vgpu_scheduler.cli import main
from vgpu_scheduler.cli.backtest import working
from vgpu_scheduler.cli.backtest.sources import Source, find
from vgpu_scheduler.history import Arrived, Changed, Decided, Header, replay
from vgpu_scheduler.kube import NAMESPACE_NAME, Namespace, rfc3339

HEADER = Header(BEGAN, "run", 1, "0.1.0", {"scoring": {"device_weight": 3}})
PACK = policy("pack", {"nodes": {"policy": "binpack"}})
SPREAD = {
    "apiVersion": "vgpu-scheduler.io/v1alpha1",
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "pack"},
    "spec": {"nodes": {"policy": "spread"}},
}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings: None) -> Path:
    """A folder with a log, where the command runs; and a policy."""
    monkeypatch.chdir(tmp_path)
    written(Path("log"), played(1, [PACK], pods=30), HEADER).close()
    Path("new.yaml").write_text(yaml.safe_dump(SPREAD))
    return Path("log")


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["backtest", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def test_it_says_first_whether_decisions_come_out_the_same(log: Path) -> None:
    result = run("--log", str(log), "--policy", "new.yaml")

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1 file, 60 min from 2027-01-15 08:00 to 2027-01-15")
    assert lines[0].endswith(": 30 pods arrived, 20 were placed.")
    assert lines[1] == "Decided again, 20 of 20 decisions come out the same (100.00 %)."
    assert "new (ClusterVGPUPolicy pack):" in lines
    assert any(line.startswith("MEASURE") and "WITH NEW" in line for line in lines)
    assert any(line.startswith("cards allocated") and "points" in line for line in lines)


@pytest.mark.long
def test_pods_that_were_there_already_are_counted_apart(log: Path) -> None:
    past = history(fleet(1), [Decided(BEGAN + 10, "uid-early", "node-0")])
    past = replace(past, first=(*past.first, Changed(BEGAN, "Pod", waiting("early"))))
    written(Path("other"), past, HEADER).close()
    first = run("--log", "other").stdout.splitlines()[0]
    assert first.endswith(": 0 pods arrived, 0 were placed, and 1 of those that existed at the beginning.")


@pytest.mark.long
def test_several_processes_come_to_the_same_as_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("--log", str(log), "--policy", "new.yaml", "-o", "json")
    alone = run(*asked)
    monkeypatch.setattr(working, "_WORTH_A_PROCESS", 1)
    both = run(*asked, "--processes", "2")

    assert both.stdout == alone.stdout


def test_scripts_get_plain_values(log: Path) -> None:
    found = json.loads(run("--log", str(log), "--policy", "new.yaml", "-o", "json").stdout)

    assert found["agreement"] == {"decisions": 20, "same": 20, "otherCards": 0, "differences": []}
    assert found["policies"][0]["policies"] == ["ClusterVGPUPolicy pack"]
    row = found["policies"][0]["measures"][0]
    assert row["measure"] == "allocated"
    assert row["difference"][1] <= row["difference"][0] <= row["difference"][2]
    assert found["history"]["problems"] == ["it has no Namespace default: assumed to have no labels but the name"]
    assert {each["verdict"] for each in found["policies"][0]["measures"]} <= {"better", "worse", "open"}


def test_a_team_gets_a_page(log: Path) -> None:
    result = run("--log", str(log), "--policy", "new.yaml", "-o", "markdown", "--resamples", "2")

    assert result.exit_code == 0, result.output
    page = result.stdout
    assert page.startswith("# Back-test\n\n1 file,")
    assert "\n## new\n" in page
    assert "| measure | pods | log's policies | with new | difference |  |\n|---|---|---|---|---|---|\n" in page
    assert "## What this rests on" in page
    assert "over 2 replays with arrivals resampled in blocks of time" in page


def test_without_policies_it_says_what_the_replay_came_to(log: Path) -> None:
    result = run("--log", str(log))
    assert result.exit_code == 0
    assert "REPLAYED" in result.stdout
    assert "cards allocated" in result.stdout


def test_other_settings_than_those_of_the_log_are_told_apart(log: Path) -> None:
    Path("settings.yaml").write_text("node_policy: spread\ndevice_policy: binpack\n")
    result = run("--log", str(log), "--config", "settings.yaml")
    assert result.exit_code == 0
    first = next(line for line in result.stdout.splitlines() if line.startswith("  default/pod-"))
    assert ": then placed on node node-" in first


def test_what_is_torn_or_missing_is_said(log: Path) -> None:
    later = replace(HEADER, began=BEGAN + 7200, run="other")
    file = written(log, played(1, [PACK], pods=30), later)
    file.abandon()
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[: len(whole) * 2 // 3])
    (log / "0.parquet").write_bytes(b"nothing")
    result = run("--log", str(log))

    assert result.exit_code == 0
    assert "warning: log/0.parquet: it cannot be read: its end is missing: it is ignored" in result.stderr
    assert ".arrows is truncated: it is read up to there" in result.stderr
    assert "nothing was written for" in result.stderr


def test_what_lacks_is_said(log: Path) -> None:
    events = [Arrived(BEGAN, waiting("p")), Decided(BEGAN + 1, "uid-q", "node-0", {}, "vgpu-scheduler")]
    written(Path("other"), history(fleet(1), events), HEADER).close()
    result = run("--log", "other")
    assert "there are decisions about pods that are not in the log" in result.stdout
    assert "It contains no decisions of this scheduler" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name either --log or --snapshot"),
        (["--log", "log", "--snapshot", "new.yaml"], "name either --log or --snapshot"),
        (["--log", "nowhere"], "Path 'nowhere' does not exist"),
        (["--log", "empty"], "empty: it contains no file of a history log (*.parquet, *.arrows)"),
        (["--log", "new.yaml"], "new.yaml: it cannot be read"),
        (["--log", "log", "--policy", "broken.yaml"], "broken.yaml: ClusterVGPUPolicy pack: spec.nodes.policy:"),
        (
            ["--log", "log", "--policy", "settings.yaml"],
            "is not a policy: only VGPUPolicy and ClusterVGPUPolicy are taken here\n",
        ),
        (["--log", "log", "--policy", "new.yaml", "--policy", "more/new.yaml"], "two files are called new"),
        (["--log", "log", "--config", "settings.yaml"], "settings.yaml"),
        (["--snapshot", "nodes.yaml"], "nodes.yaml: it does not say when it was made"),
    ],
)
def test_mistakes_are_named(log: Path, arguments: list[str], told: str) -> None:
    Path("empty").mkdir()
    Path("more").mkdir()
    Path("more/new.yaml").write_text(Path("new.yaml").read_text())
    Path("broken.yaml").write_text(yaml.safe_dump({**SPREAD, "spec": {"nodes": {"policy": "sprad"}}}))
    Path("settings.yaml").write_text("kind: Sparrow\nnonsense: 1\n")
    Path("nodes.yaml").write_text(yaml.safe_dump({**node_object("n", []), "kind": "Node", "apiVersion": "v1"}))
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


# From a snapshot -----------------------------------------------------------------------------------------------------


def at(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(BEGAN + seconds, UTC))


def snapshot_pod(name: str, made: float, placed: float | None, ended: float | None, **more: Any) -> dict[str, Any]:
    notes = {} if placed is None else allocation("node-0", (f"node-0-gpu-{name[-1]}", 8000, 100))
    where = {} if placed is None else {"nodeName": "node-0"}
    found = pod_object(name, asks(1, 8000, 100), annotations=notes, started=placed is not None, **where, **more)
    found |= {"kind": "Pod", "apiVersion": "v1"}
    found["metadata"]["creationTimestamp"] = at(made)
    if placed is not None:
        found["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(placed)},
        ]
    if ended is not None:
        found["status"]["phase"] = "Succeeded"
        found["status"]["containerStatuses"] = [
            {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": at(ended)}}}
        ]
    return found


def test_of_a_log_that_spans_no_time_nothing_is_measured(log: Path) -> None:
    node = {**node_object("node-0", cards("node-0", 2)), "kind": "Node", "apiVersion": "v1"}
    content = {"apiVersion": "v1", "kind": "List", "items": [node, snapshot_pod("runs-0", 0, 0, None)]}
    Path("snapshot.json").write_text(json.dumps(content))
    for told in ((), ("--policy", "new.yaml"), ("-o", "markdown")):
        result = run("--snapshot", "snapshot.json", *told)
        assert result.exit_code == 0, result.output
        assert "1 pod arrived, 1 was placed." in result.stdout
        assert "It spans no time, so neither allocated cards nor waiting times" in result.stdout
        assert "cards allocated" not in result.stdout
    found = json.loads(run("--snapshot", "snapshot.json", "--policy", "new.yaml", "-o", "json").stdout)
    assert found["replayed"] == {}
    assert found["policies"][0]["measures"] == []


def test_a_snapshot_stands_for_a_log(log: Path) -> None:
    objects = [
        {**node_object("node-0", cards("node-0", 2)), "kind": "Node", "apiVersion": "v1"},
        snapshot_pod("done-0", 0, 10, 600),
        snapshot_pod("runs-1", 60, 70, None),
        snapshot_pod("waits-0", 120, None, None),
    ]
    content = {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": {}}, "items": objects}
    Path("snapshot.json").write_text(json.dumps(content))
    result = run("--snapshot", "snapshot.json", "-o", "json")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["agreement"] is None
    assert found["history"]["from"] == at(0)
    assert (found["history"]["arrived"], found["history"]["placed"]) == (3, 2)
    assert "1 pod was still running: when pods end is not known, so it stays to the end" in found["history"]["problems"]
    assert found["replayed"]["never"] == 0.0
    assert "warning: pods that were deleted before the snapshot are not in it" in result.stderr


def test_namespaces_that_a_snapshot_leaves_out_are_taken_to_have_no_labels(log: Path) -> None:
    objects = [
        {**node_object("node-0", cards("node-0", 2)), "kind": "Node", "apiVersion": "v1"},
        snapshot_pod("done-0", 0, 10, 600),
        snapshot_pod("waits-0", 120, None, None),
    ]
    content = {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": {}}, "items": objects}
    Path("snapshot.json").write_text(json.dumps(content))
    selector = {"matchExpressions": [{"key": "x", "operator": "Exists"}]}
    selecting = {**SPREAD, "spec": {"nodes": {"policy": "spread"}, "namespaceSelector": selector}}
    Path("labelled.yaml").write_text(json.dumps(selecting))
    result = run("--snapshot", "snapshot.json", "--policy", "labelled.yaml", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["replayed"]["never"] == 0.0
    never = [each["after"] for each in found["policies"][0]["measures"] if each["measure"] == "never"]
    assert never
    assert all(each == [0.0, 0.0, 0.0] for each in never)
    assert "it has no Namespace default: assumed to have no labels but the name" in result.stderr
    assert "warning: ClusterVGPUPolicy pack applies to no pod of the log" in result.stderr


SELECTORS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"matchLabels": {"kubernetes.io/metadata.name": "default"}}, True),
    ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, True),
    ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}, True),
    ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, False),
    ({"matchLabels": {"team": "red"}}, False),
]


@pytest.mark.long
@pytest.mark.parametrize(("selector", "is_about_all"), SELECTORS)
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_namespaces_that_a_log_leaves_out_are_taken_to_have_no_labels(
    log: Path, seed: int, selector: dict[str, Any], *, is_about_all: bool
) -> None:
    past = played(seed, [PACK], pods=15)
    written(Path("bare"), past, HEADER).close()
    known = Changed(BEGAN, "Namespace", Namespace("default", {NAMESPACE_NAME: "default"}))
    written(Path("whole"), replace(past, first=(known, *past.first)), HEADER).close()
    spec = {"nodes": {"policy": "spread"}}
    for name, more in (("chosen", {"namespaceSelector": selector}), ("all", {})):
        metadata = {"name": name if name == "chosen" else "pack"}
        Path(f"{name}.yaml").write_text(json.dumps({**SPREAD, "metadata": metadata, "spec": {**spec, **more}}))
    asked = ("--policy", "chosen.yaml", "--policy", "all.yaml", "--resamples", "0", "-o", "json")
    bare, whole = (run("--log", folder, *asked) for folder in ("bare", "whole"))

    assert (bare.exit_code, whole.exit_code) == (0, 0), bare.output
    lacks = "it has no Namespace default: assumed to have no labels but the name"
    assert (lacks in bare.stderr, lacks in whole.stderr) == (True, False)
    found, wanted = json.loads(bare.stdout), json.loads(whole.stdout)
    assert found["history"]["problems"].count(lacks) == 1
    for each in (found, wanted):
        each["history"].pop("problems")
    assert found == wanted
    chosen, everybody = (each["measures"] for each in found["policies"])
    assert (chosen == everybody) is is_about_all or not is_about_all
    assert ("applies to no pod of the log" in bare.stderr) is not is_about_all


@pytest.mark.parametrize(
    ("setting", "spec", "is_told"),
    [
        (None, {"preemption": {"mayPreempt": True}}, True),
        ({"preemption": False}, {"preemption": {"preemptible": True}}, True),
        ({"preemption": True}, {"preemption": {"mayPreempt": True}}, False),
        (None, {"nodes": {"policy": "spread"}}, False),
    ],
)
def test_a_policy_that_may_evict_nobody_while_the_setting_is_off_is_told(
    log: Path, setting: dict[str, bool] | None, spec: dict[str, Any], *, is_told: bool
) -> None:
    Path("asked.yaml").write_text(json.dumps({**SPREAD, "metadata": {"name": "x"}, "spec": spec}))
    config = [] if setting is None else ["--config", "settings.yaml"]
    Path("settings.yaml").write_text(json.dumps(setting or {}))
    result = run("--log", "log", "--policy", "asked.yaml", "--resamples", "0", "-o", "json", *config)
    assert result.exit_code == 0, result.output
    told = "ClusterVGPUPolicy x: spec.preemption evicts no pods here, because the setting preemption is off"
    assert (told in result.stderr) is is_told
    assert any(told in each for each in json.loads(result.stdout)["history"]["problems"]) is is_told


@pytest.mark.parametrize(
    ("kind", "more", "is_told"),
    [
        ("VGPUPolicy", {}, False),
        ("VGPUPolicy", {"selector": {"matchLabels": {"app": "nobody"}}}, True),
        ("ClusterVGPUPolicy", {}, False),
        ("ClusterVGPUPolicy", {"namespaceSelector": {"matchLabels": {"team": "nobody"}}}, True),
        (
            "ClusterVGPUPolicy",
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
            False,
        ),
    ],
)
def test_a_policy_that_is_about_no_pod_of_the_log_is_told(
    log: Path, kind: str, more: dict[str, Any], *, is_told: bool
) -> None:
    metadata = {"name": "x", **({} if kind.startswith("Cluster") else {"namespace": "default"})}
    asked = {**SPREAD, "kind": kind, "metadata": metadata, "spec": {"nodes": {"policy": "spread"}, **more}}
    Path("asked.yaml").write_text(json.dumps(asked))
    result = run("--log", "log", "--policy", "asked.yaml", "--resamples", "0")
    assert result.exit_code == 0, result.output
    assert ("applies to no pod of the log" in result.stderr) is is_told


def test_what_is_replayed_is_what_the_log_says(log: Path) -> None:
    """The command's replay is that of the history, settings of the log included."""
    found = find(Source((log,)))
    assert found.options.defaults.device_weight == 3
    assert replay(found.history, found.options).pods == replay(played(1, [PACK], pods=30), found.options).pods
