"""Pods of three dialects, bound by one operator on a real API server, each served by a double of its node side."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import MANIFESTS, PLUGIN, Cluster, slice_pod

from vgpu_devcluster import Koordlet, VolcanoPlugin

Obj = dict[str, Any]

NUMBER, MEMORY, PERCENT = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
CORE, RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
DEFINITION: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "devices.scheduling.koordinator.sh"},
    "spec": {
        "group": "scheduling.koordinator.sh",
        "scope": "Cluster",
        "names": {"plural": "devices", "singular": "device", "kind": "Device"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def asking(name: str, **amounts: str) -> Obj:
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "main", "image": "example", "resources": {"limits": amounts, "requests": amounts}}],
        },
    }


def of_volcano(name: str, memory: int = 6000, number: int = 1) -> Obj:
    return asking(name, **{NUMBER: str(number), MEMORY: str(memory), PERCENT: "20"})


def of_koordinator(name: str, percent: int = 50) -> Obj:
    return asking(name, **{CORE: str(percent), RATIO: str(percent)})


@pytest.fixture
async def sides(cluster: Cluster) -> AsyncIterator[tuple[VolcanoPlugin, Koordlet]]:
    """One node of each dialect with two cards; Koordinator's devices are not even defined yet."""
    plane = cluster.plane
    plane.kubectl("apply", "-f", str(MANIFESTS / "koordinator" / "rbac.yaml"))
    access = {"token": plane.tokens[PLUGIN], "tls": plane.ssl_context()}
    await cluster.nodes.register(["hami"], ("A100-40G",) * 2)
    await cluster.nodes.start()
    try:
        async with AsyncExitStack() as stack:
            plugin = await stack.enter_async_context(VolcanoPlugin(plane.url, **access))
            koordlet = await stack.enter_async_context(Koordlet(plane.url, **access))
            await plugin.register("volcano")
            await koordlet.register("koordinator")
            yield plugin, koordlet
    finally:
        plane.kubectl("delete", "crd", DEFINITION["metadata"]["name"], "--ignore-not-found")
        plane.kubectl("delete", "-f", str(MANIFESTS / "koordinator" / "rbac.yaml"))


async def define_devices(cluster: Cluster) -> None:
    async with cluster.http.post(DEFINITIONS, json=DEFINITION) as answer:
        assert answer.status == 201, await answer.text()

    async def served() -> bool:
        async with cluster.http.get(Koordlet.DEVICES) as answer:
            return answer.status == 200

    await cluster.until(served, "the definition")


async def test_pods_of_three_dialects_are_bound_and_served_by_one_operator(
    cluster: Cluster, sides: tuple[VolcanoPlugin, Koordlet]
) -> None:
    plugin, koordlet = sides
    operator = cluster.operator(VGPU_DIALECTS="hami,volcano,koordinator")
    operator.start()
    try:
        await operator.until_leading()
        hamis = [slice_pod(f"h{number}", gpu=1, gpumem=4096, gpucores=10) for number in range(6)]
        await cluster.create(*hamis, *(of_volcano(f"v{number}") for number in range(8)), of_koordinator("early"))
        await cluster.until(lambda: running(cluster, 14), "pods of HAMi and Volcano")
        assert not await cluster.bound("early"), "nobody has said yet which devices there are"

        await define_devices(cluster)
        await koordlet.list_devices("koordinator")
        await cluster.until(lambda: cluster.bound("early"), "a definition that came later", within=40)
        await cluster.create(*(of_koordinator(f"k{number}") for number in range(4)))
        await cluster.until(lambda: running(cluster, 18), "pods of all three")
        await cluster.until(lambda: messages(cluster, "k"), "the last one to be told that there is no room")

        await refused(cluster)
    finally:
        operator.stop()
    on = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in await cluster.pods()}
    where = {"h": "hami", "v": "volcano", "k": "koordinator"}
    assert all(node in {"", where.get(name[0], "koordinator")} for name, node in on.items()), on
    assert sum(node == "koordinator" for node in on.values()) == 4, "two cards, two halves each"
    assert not cluster.nodes.violations
    assert not plugin.violations
    assert not koordlet.violations
    assert len(plugin.started) == 8
    assert len(koordlet.started) == 4


async def running(cluster: Cluster, number: int) -> bool:
    return sum(pod["status"].get("phase") == "Running" for pod in await cluster.pods()) >= number


async def messages(cluster: Cluster, prefix: str) -> list[str]:
    names = [pod["metadata"]["name"] for pod in await cluster.pods()]
    return [text for name in names if name.startswith(prefix) and (text := await cluster.message(name))]


async def refused(cluster: Cluster) -> None:
    """What a slice of a dialect does not follow is refused by its name."""
    two = asking("two", **{"nvidia.com/gpu": "1", CORE: "50"})
    init = of_volcano("init")
    init["spec"]["initContainers"] = init["spec"]["containers"]
    init["spec"]["containers"] = [{"name": "app", "image": "example"}]
    npu = asking("npu", **{"huawei.com/npu-core": "50"})
    several = of_volcano("several")
    several["spec"]["containers"] += of_volcano("several")["spec"]["containers"]
    several["spec"]["containers"][1]["name"] = "second"
    expected = {
        "several": f'containers "main" and "second": {NUMBER} in several containers',
        "unlimited": f"{MEMORY} without a limit of {NUMBER}",
        "two": "belong to different dialects",
        "init": f"{NUMBER} is not supported in an init container",
        "npu": "huawei.com/npu-core",
    }
    await cluster.create(two, init, npu, several, asking("unlimited", **{MEMORY: "1000"}))
    for name, words in expected.items():
        await cluster.until(lambda name=name: cluster.message(name), f"the refusal of {name}")
        assert words in await cluster.message(name)


async def test_the_double_of_volcanos_plugin_notices_what_must_not_be(
    cluster: Cluster, sides: tuple[VolcanoPlugin, Koordlet]
) -> None:
    plugin, koordlet = sides
    note = {
        "volcano.sh/vgpu-node": "volcano",
        "volcano.sh/vgpu-time": "1",
        "volcano.sh/devices-to-allocate": "GPU-volcano-0,NVIDIA,99999,10:;",
    }
    over = of_volcano("over")
    over["metadata"]["annotations"] = note
    over["spec"]["nodeName"] = "volcano"
    without = of_volcano("without")
    without["spec"]["nodeName"] = "volcano"
    silent = of_koordinator("silent")
    silent["spec"]["nodeName"] = "koordinator"
    await cluster.create(over)

    async def noticed(number: int) -> bool:
        return len(plugin.violations) == number

    await cluster.until(lambda: noticed(1), "a card with too much handed out")
    await cluster.create(without, silent)
    await cluster.until(lambda: noticed(2), "a pod without devices to allocate")

    async def missed() -> list[str]:
        return koordlet.violations

    await cluster.until(missed, "a pod without an allocation")
    assert any("has [1, 99999, 10] of [10, 24576, 100] handed out" in text for text in plugin.violations)
    assert any("the plugin took the devices of" in text for text in plugin.violations)
    assert koordlet.violations == ["default/silent: there is no allocation to be read"]


async def test_the_command_of_the_way_back_to_volcano_names_pods_that_it_reads_otherwise(cluster: Cluster) -> None:
    page = (Path(__file__).parents[2] / "docs" / "coming-from-volcano.md").read_text()
    (block,) = [found for found in re.findall(r"```console\n(.*?)```", page, re.DOTALL) if "vgpu-ids-new" in found]
    kubectl, _, grep = block.replace("\\\n", "").strip().removeprefix("$ ").partition(" | ")
    twice, once = of_volcano("twice"), of_volcano("once")
    twice["metadata"]["annotations"] = {
        "volcano.sh/vgpu-ids-new": "GPU-a[group1-0],NVIDIA,1,0:GPU-a[group1-1],NVIDIA,1,0:"
    }
    once["metadata"]["annotations"] = {
        "volcano.sh/vgpu-ids-new": "GPU-a[group1-0],NVIDIA,1,0:GPU-b[group1-0],NVIDIA,1,0:"
    }
    await cluster.create(twice, once, of_volcano("none"))
    listed = cluster.plane.kubectl(*shlex.split(kubectl)[1:]).stdout
    assert [line.partition(" ")[0] for line in filtered(listed, grep)] == ["default/twice"]


def filtered(text: str, command: str) -> list[str]:
    """Return the lines that a command lets through."""
    done = subprocess.run(shlex.split(command), input=text, text=True, capture_output=True, check=True)
    return done.stdout.splitlines()
