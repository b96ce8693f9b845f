"""What the commands say of cards and pods that the scheduler does not serve, though nothing of them is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.engine.builders import node_object, pod_object

from vgpu_scheduler.cli import main

VOLCANO = node_object(
    "v0",
    annotations={"volcano.sh/node-vgpu-register": "GPU-0,10,16384,NVIDIA-A100,true,hami-core:"},
    allocatable={"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "16384", "volcano.sh/vgpu-cores": "100"},
)
KOORDINATOR = node_object(
    "k0", allocatable={"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
)
STOCK = node_object("s0", allocatable={"nvidia.com/gpu": "8"})
ASKS = {
    "volcano": {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "4000"},
    "koordinator": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
}
ASCEND = node_object("s0", allocatable={"nvidia.com/gpu": "0", "huawei.com/Ascend910B4": "8"})
NODES = {"volcano": VOLCANO, "koordinator": KOORDINATOR}


def ask(folder: Path, nodes: list[dict[str, Any]], limits: dict[str, str], *arguments: str) -> tuple[str, str]:
    """Return what a command says of a cluster with a pod, and what beside."""
    asked = pod_object("asked", {"limits": limits}, scheduler="vgpu-scheduler")
    objects = [{"kind": "Node", **node} for node in nodes] + [{"kind": "Pod", **asked}]
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(main, [*arguments, "--cluster", str(file)])
    return result.stdout, result.stderr


@pytest.mark.parametrize("dialect", ASKS)
@pytest.mark.parametrize("words", [["explain", "asked"], ["simulate", "--pending"], ["top"]])
def test_a_dialect_that_is_not_in_use_is_named(dialect: str, words: list[str], tmp_path: Path) -> None:
    node = NODES[dialect]
    said, warned = ask(tmp_path, [node], ASKS[dialect], *words)
    carries = (
        f"warning: node {node['metadata']['name']} carries the registration of dialect {dialect}, which the setting"
    )
    assert carries in warned
    if words[0] != "top":
        assert f"belong to dialect {dialect}, which the setting dialects does not list" in warned
    if words[0] == "explain":
        assert (
            f"It gets no card there: an administrator of the scheduler must add {dialect} to the setting "
            "dialects." in said
        )


@pytest.mark.parametrize("words", [["explain", "asked"], ["simulate", "--pending"]])
def test_nothing_is_said_of_a_dialect_that_is_asked_about(words: list[str], tmp_path: Path) -> None:
    said, warned = ask(tmp_path, [VOLCANO], ASKS["volcano"], *words, "--dialect", "volcano")
    assert "which the setting" not in warned
    assert "NodeInsufficientDevice" in said


def test_a_dialect_that_there_is_none_of(tmp_path: Path) -> None:
    _, error = ask(tmp_path, [VOLCANO], ASKS["volcano"], "explain", "asked", "--dialect", "slurm")
    assert error == "Error: dialect: 'slurm' is not one of hami, volcano, koordinator\n"


@pytest.mark.parametrize(
    ("resource", "node", "named"),
    [
        ("nvidia.com/gpu", STOCK, ["s0"]),
        ("nvidia.com/gpu", node_object("s0", allocatable={"nvidia.com/gpu": "0"}), []),
        ("nvidia.com/gpu", ASCEND, []),
        (
            "huawei.com/Ascend910B4",
            node_object("s0", allocatable={"nvidia.com/gpu": "0", "huawei.com/Ascend910B4": "8"}),
            ["s0"],
        ),
    ],
)
def test_a_plugin_that_registers_no_cards_is_named(
    resource: str, node: dict[str, Any], named: list[str], tmp_path: Path
) -> None:
    said, _ = ask(tmp_path, [node], {resource: "1"}, "explain", "asked")
    what = f"its kubelet offers {resource}, but none of its cards is registered"
    assert re.findall(rf"run HAMi's device plugin on node (\S+): {re.escape(what)}", said) == named


OFFERED = {
    "one vendor": ({"s0": "nvidia.com/gpu", "s1": "nvidia.com/gpu"}, ["nodes s0, s1 offer nvidia.com/gpu"]),
    "two vendors": (
        {"s0": "nvidia.com/gpu", "s1": "huawei.com/Ascend910B4"},
        ["node s0 offers nvidia.com/gpu", "node s1 offers huawei.com/Ascend910B4"],
    ),
    "no cards": ({"s0": "example.com/fpga"}, []),
}


@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("words", [["top"], ["top", "nodes", "s0"], ["top", "cards"], ["top", "models", "-o", "json"]])
def test_top_says_why_it_shows_no_cards(offered: str, words: list[str], tmp_path: Path) -> None:
    by_node, expected = OFFERED[offered]
    nodes = [
        node_object(name, allocatable={"nvidia.com/gpu": "0", resource: "8"}) for name, resource in by_node.items()
    ]
    _, warned = ask(tmp_path, nodes, {"cpu": "1"}, *words)
    told = [line for line in warned.splitlines() if "no device plugin has registered" in line]
    assert [line.partition(", but no device plugin")[0] for line in told] == [f"warning: {each}" for each in expected]
    assert all("cards-not-registered" in line for line in told)


@pytest.mark.parametrize("waits", [True, False])
def test_beside_nodes_with_cards_only_what_a_pod_waits_for_is_told(*, waits: bool, tmp_path: Path) -> None:
    """As the doctor does: the others may be another scheduler's."""
    listing = node_object("c0", annotations={"hami.io/node-nvidia-register": "GPU-0,10,16384,100,NVIDIA-A100,0,true:"})
    asks = {"huawei.com/Ascend910B4": "1"} if waits else {"cpu": "1"}
    nodes = [listing, STOCK, node_object("s1", allocatable={"nvidia.com/gpu": "0", "huawei.com/Ascend910B4": "8"})]
    said, warned = ask(tmp_path, nodes, asks, "top")
    assert "c0" in said
    assert ("node s1 offers huawei.com/Ascend910B4" in warned) is waits
    assert "s0" not in warned
