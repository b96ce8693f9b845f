"""What ``simulate`` warns of: through the page in the cluster it prints what it prints without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import run
from tests.cli.test_cli_from_page import ADMIN, OURS, in_namespace, kubeconfig, objects, page
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

Object = dict[str, Any]
FULL = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full", "namespace": "blue"}}
MORE: list[Object] = [
    node("b"),
    {**FULL, "spec": {"hard": {"pods": "1"}}},
    *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("blue", "green")),
]
REQUESTS = {"limits": {GPU: "1", MEMORY: "1000"}, "requests": {GPU: "2"}}
BESIDE = {
    "ConfigMap": {"apiVersion": "v1", "data": {"a": "b"}},
    "Service": {"apiVersion": "v1", "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
    "CronJob": {"apiVersion": "batch/v1", "spec": {}},
    "DaemonSet": {"apiVersion": "apps/v1", "spec": {}},
}


@pytest.fixture
def cluster(tmp_path: Path) -> list[str]:
    """The options of the cluster's files."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*objects(), *MORE]))
    return ["--cluster", str(file)]


@pytest.fixture
def given(tmp_path: Path) -> Iterator[list[str]]:
    """The options of the page, as a tenant."""
    config = kubeconfig(tmp_path, {"token": "token-of-tenant"})
    with page(tmp_path, MORE) as found:
        yield [word for pair in found.items() for word in pair] + ["--kubeconfig", config]


def beside(kind: str) -> Object:
    return {**BESIDE[kind], "kind": kind, "metadata": {"name": "beside"}}


def asks(name: str, **spec: Any) -> Object:
    made = {**pod(name, {GPU: 1, MEMORY: 1000}, **spec), "apiVersion": "v1"}
    made["spec"]["containers"][0].setdefault("image", "x")
    return in_namespace(made, "blue")


def written(folder: Path, *described: Object) -> str:
    file = folder / "asked.yaml"
    file.write_text(yaml.safe_dump_all(described))
    return str(file)


def requests() -> Object:
    made = asks("new", schedulerName=OURS)
    made["spec"]["containers"][0]["resources"] = REQUESTS
    return made


def warnings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("settings:")]


def test_the_page_warns_of_pods_as_the_command_does_alone(given: list[str], cluster: list[str], tmp_path: Path) -> None:
    expected = {
        "mistyped": (asks("new", schedulerName="vgpu-schduler"), "is vgpu-scheduler meant?"),
        "default": (asks("new"), "schedulerName"),
        "on a node": (asks("new", schedulerName=OURS, nodeName="b"), "names a node (spec.nodeName)"),
        "requests": (requests(), "the API server refuses such a pod"),
        "full": (asks("new", schedulerName=OURS), "allows 1 of pods"),
    }
    for name, (asked, says) in expected.items():
        file = written(tmp_path, asked)
        for who in ("tenant", ADMIN):
            kubeconfig(tmp_path, {"token": f"token-of-{who}"})
            for more in ([], ["--count", "1"]):
                alone = run("simulate", "-f", file, *more, *cluster)
                told = run("simulate", "-f", file, *more, *given)
                assert says in alone.stderr, (name, alone.output)
                assert warnings(told.stderr) == warnings(alone.stderr), (name, who, more)
                assert told.exit_code == alone.exit_code
        plain = run("simulate", "-f", file, "-o", "json", *given)
        assert [each["pod"] for each in json.loads(plain.stdout)] == ["blue/new"]
        assert says in plain.stderr


@pytest.mark.parametrize("kind", BESIDE)
def test_the_page_ignores_what_the_command_ignores_alone(
    kind: str, given: list[str], cluster: list[str], tmp_path: Path
) -> None:
    file = written(tmp_path, asks("new", schedulerName=OURS), beside(kind))
    alone, told = run("simulate", "-f", file, *cluster), run("simulate", "-f", file, *given)
    assert f"ignored: 1 object of kind {kind}" in alone.stderr
    assert warnings(told.stderr) == warnings(alone.stderr)
    assert (told.exit_code, "blue/new" in told.stdout) == (0, True)
    file = written(tmp_path, beside(kind))
    alone, told = run("simulate", "-f", file, *cluster), run("simulate", "-f", file, *given)
    said = alone.stderr.partition(": it contains")[2]
    assert said
    assert told.stderr.endswith(said)
