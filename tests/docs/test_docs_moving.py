"""The steps of the guides for those who come from Volcano and Koordinator, done before the eyes of the doctor."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.statements import wrong_statements
from tests.doctor.clusters import Objects, found, look
from tests.doctor.ecosystems import (
    EXPECTED_KOORDINATOR,
    EXPECTED_VOLCANO,
    WRITER,
    gates,
    healthy_koordinator,
    healthy_volcano,
    koordinator_pod,
    main,
    named,
    volcano_pod,
)
from tests.golden.runner import NOT_RUN

from vgpu_scheduler.doctor import ExpectedSettings

DOCS = Path(__file__).parents[2] / "docs"
PLACEHOLDERS = {"volcano": {"NODE": "v1", "OTHER": "v2"}, "koordinator": {"NODE": "k1"}}


def page(name: str) -> str:
    return (DOCS / f"coming-from-{name}.md").read_text()


def chapter(name: str, title: str) -> str:
    """Return a chapter of a page, with single spaces."""
    return re.sub(r"\s+", " ", page(name).partition(f"\n## {title}\n")[2].partition("\n## ")[0])


def commands(text: str) -> Iterator[str]:
    """Yield the commands of the blocks of a text, without comments."""
    for block in re.findall(r"^ *```console\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for command in re.split(r"^ *\$ ", block, flags=re.MULTILINE)[1:]:
            yield re.sub(r"\\\n\s*", "", command).partition("   #")[0].partition("  #")[0].strip()


def steps(name: str) -> list[str]:
    return [*commands(page(name).partition("\n## The steps\n")[2].partition("\n## How to go back\n")[0])]


def before_volcano() -> Objects:
    """Return a cluster of Volcano's beside which this scheduler has just been installed."""
    objects = healthy_volcano()
    main(named(objects, "Deployment", "volcano-scheduler"))["args"] = ["--logtostderr"]
    objects["Pod"].append(volcano_pod("waits"))
    return forgetting(objects)


def before_koordinator() -> Objects:
    objects = healthy_koordinator()
    objects["Pod"].append(koordinator_pod("waits"))
    gates("-feature-gates=Accelerators=true")(objects)
    return forgetting(objects)


def forgetting(objects: Objects) -> Objects:
    """Take away what the steps are to bring."""
    bindings = objects["ClusterRoleBinding"]
    own = {"volcano-device-plugin", "volcano-scheduler", "koord-scheduler"}
    objects["ClusterRoleBinding"] = [each for each in bindings if each["metadata"]["name"] not in own]
    for node in objects["Node"]:
        node["metadata"]["labels"] = {"pool": "vgpu"} if node is objects["Node"][0] else {}
        node["spec"] = {}
    return objects


def do(objects: Objects, words: list[str], places: dict[str, str]) -> None:
    """Do what a command of kubectl does to the objects."""
    if words[:3] in (["kubectl", "label", "node"], ["kubectl", "taint", "node"]):
        node, (key, _, value) = named(objects, "Node", places[words[3]]), words[4].partition("=")
        if words[1] == "label":
            node["metadata"]["labels"][key] = value
        elif value.endswith("-"):
            node["spec"]["taints"] = [each for each in node["spec"]["taints"] if each["key"] != key]
        else:
            text, _, effect = value.partition(":")
            node["spec"].setdefault("taints", []).append({"key": key, "value": text, "effect": effect})
    elif words[:3] == ["kubectl", "create", "clusterrolebinding"]:
        given = dict(word.removeprefix("--").split("=", 1) for word in words[4:])
        namespace, _, account = given["serviceaccount"].partition(":")
        account = "koord-scheduler" if account == "ACCOUNT" else account
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        role = {"kind": "ClusterRole", "name": given["clusterrole"]}
        objects["ClusterRoleBinding"].append({"metadata": {"name": words[3]}, "roleRef": role, "subjects": [subject]})


def ids(objects: Objects, expected: ExpectedSettings) -> set[str]:
    return {name for name, _ in found(look(objects, expected=expected))}


def follow(name: str, objects: Objects) -> None:
    """Do the steps of a page."""
    for command in steps(name):
        do(objects, shlex.split(command), PLACEHOLDERS[name])


def test_whoever_follows_the_steps_from_volcano_has_nothing_left_to_do() -> None:
    objects = before_volcano()
    assert ids(objects, EXPECTED_VOLCANO) == {"scheduler-not-kept-off", "plugin-refused"}
    follow("volcano", objects)
    (flag,) = set(re.findall(r"`(--node-selector=[^`]+)`", page("volcano")))
    main(named(objects, "Deployment", "volcano-scheduler"))["args"].append(flag)
    assert ids(objects, EXPECTED_VOLCANO) == set()
    assert [node["metadata"]["labels"] for node in objects["Node"]] == [{"pool": "vgpu"}, {"pool": "batch"}]


def test_whoever_follows_the_steps_from_koordinator_has_nothing_left_to_do() -> None:
    objects = before_koordinator()
    assert ids(objects, EXPECTED_KOORDINATOR) == {
        "scheduler-not-kept-off",
        "plugin-refused",
        "koordlet-injects-no-cards",
        "koordlet-injects-no-rdma",
    }
    follow("koordinator", objects)
    wanted = [
        gate for gate in ("Accelerators", "GPUEnvInject", "RDMADeviceInject") if f"`{gate}`" in page("koordinator")
    ]
    gates("-feature-gates=" + ",".join(f"{gate}=true" for gate in wanted))(objects)
    assert ids(objects, EXPECTED_KOORDINATOR) == set()


def test_the_way_back_to_koordinator_takes_the_taint_away() -> None:
    objects = before_koordinator()
    follow("koordinator", objects)
    (command,) = re.findall(r"`(kubectl taint node [^`]+-)`", page("koordinator"))
    do(objects, shlex.split(command), PLACEHOLDERS["koordinator"])
    assert objects["Node"][0]["spec"]["taints"] == []


@pytest.mark.parametrize("name", ["volcano", "koordinator"])
def test_the_commands_of_the_pages_are_there(name: str) -> None:
    given = [*commands(page(name))]
    ours = [command for command in given if command.startswith("vgpu-scheduler ")]
    assert len(ours) >= 5
    assert [problem for command in ours for problem in wrong_statements(f"`{command}`")] == []
    roles = {found[1] for command in given if (found := re.search(r"--clusterrole=(\S+)", command))}
    assert roles == {WRITER}


PLAIN = "GPU-a,NVIDIA,1024,0:GPU-b,NVIDIA,1024,0:;"
FOUND: dict[str, bool] = {
    "": False,
    PLAIN: False,
    "GPU-a,NVIDIA,1024,0:;GPU-b,NVIDIA,1024,0:;": False,
    "GPU-a1,NVIDIA,1024,0:GPU-a,NVIDIA,1024,0:;": False,
    "GPU-a,NVIDIA,1024,0:;GPU-a,NVIDIA,1024,0:;": True,
    "GPU-b,NVIDIA,1,0:GPU-a,NVIDIA,1024,0:GPU-a,NVIDIA,1024,0:;": True,
    "GPU-a[group1-0],NVIDIA,1024,0:GPU-b[group1-0],NVIDIA,1024,0:": False,
    "GPU-b[group1-0],NVIDIA,1024,0:GPU-a[group1-0],NVIDIA,1024,0:GPU-a[group1-1],NVIDIA,1024,0:": True,
}


@pytest.mark.parametrize("allocated", FOUND)
def test_pods_with_two_entries_on_one_card_are_named_before_the_way_back(allocated: str) -> None:
    (command,) = [each for each in commands(page("volcano")) if "vgpu-ids-new" in each]
    _, _, filtering = command.partition(" | ")
    line = f"default/p {allocated}\n"
    done = subprocess.run(shlex.split(filtering), input=line, text=True, capture_output=True, check=False)
    assert done.stderr == ""
    assert (done.stdout == line) is FOUND[allocated]


DELIBERATELY_NOT = {
    "koordinator_numa_hints": ("koordinator", "gives no NUMA hints"),
    "koordinator_webhook_validate": ("koordinator", "What koord-manager refuses when a pod is created"),
    "volcano_gpushare": ("volcano", "The names of Volcano's earlier sharing"),
    "volcano_nodeorder": ("volcano", "`nodeorder`"),
    "NPUs": ("koordinator", "`huawei.com/npu-core`"),
    "elastic quotas": ("koordinator", "elastic quotas"),
    "reservations": ("koordinator", "A reservation holds no device here"),
}
"""What is not done on purpose: suites that are not run, and what has none. Each is on a page, with the reason."""


@pytest.mark.parametrize("what", DELIBERATELY_NOT)
def test_what_is_deliberately_not_done_is_on_the_pages(what: str) -> None:
    name, words = DELIBERATELY_NOT[what]
    assert words in chapter(name, "What is not taken over")


def test_every_suite_that_is_not_run_is_on_a_page() -> None:
    assert NOT_RUN.keys() <= DELIBERATELY_NOT.keys()
