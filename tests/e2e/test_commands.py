"""The commands on a real API server, as an administrator and as a tenant: what they say is what then happens."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.e2e.conftest import TENANT, Cluster, slice_pod
from tests.e2e.test_doctor import made

from vgpu_devcluster.process import OperatorProcess

ON_ONE = {"nodeSelector": {"kubernetes.io/hostname": "one"}}


async def command(cluster: Cluster, folder: Path, *words: str, user: str = "admin") -> tuple[int, str, str]:
    """Run a command as a user; return its status, and what it said on stdout and stderr."""
    config = folder / f"kubeconfig-of-{user}"
    shutil.copy(cluster.plane.kubeconfig(user), config)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vgpu_scheduler", *words, "--kubeconfig", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert b"Traceback" not in out + err, err.decode()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def on_one(name: str, **asks: int) -> dict[str, Any]:
    pod = slice_pod(name, **asks)
    return {**pod, "spec": {**pod["spec"], **ON_ONE}}


async def full_node(cluster: Cluster) -> None:
    """Have a pod on each card of a node, and one that waits because of them."""
    await cluster.nodes.register(["one"], ["T4", "T4"])
    await cluster.nodes.start()
    await cluster.create(*(on_one(f"tenant-{number}", gpu=1, gpumem=9000) for number in range(2)))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == 2)
    await cluster.create(on_one("waits", gpu=1, gpumem=8000))

    async def told() -> str:
        return await cluster.message("waits")

    await cluster.until(told, "a reason")


async def test_an_administrator_is_told_what_helps_and_that_helps(
    cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    del operator  # it leads
    await full_node(cluster)
    status, out, err = await command(cluster, tmp_path, "explain", "pod", "default/waits", "-o", "json")
    assert (status, err) == (1, "")
    told = json.loads(out)
    assert told["settings"] == "ConfigMap vgpu-system/vgpu-scheduler"
    assert told["message"] == await cluster.message("waits")
    helps = {remedy["kind"]: remedy["text"] for remedy in told["remedies"]}
    assert helps["ask for less"] == "ask 6360 of nvidia.com/gpumem instead of 8k in container main, 1640 less"
    assert helps["end pods"] == "end pod default/tenant-0 on node one"
    status, out, _ = await command(cluster, tmp_path, "top", "cards", "-o", "json")
    assert status == 0
    assert [(card["memory"]["used"], card["pods"]) for card in json.loads(out)].count((9000, ["default/tenant-0"])) == 1
    await cluster.nodes.delete("default", "tenant-0")
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == 3)
    status, out, _ = await command(cluster, tmp_path, "explain", "waits")
    assert status == 0
    assert re.match(r"default/waits is bound to one\.\n  GPU-\S+ \(NVIDIA-Tesla T4\): .*\n  decided among 1 node,", out)


async def test_a_tenant_is_told_what_the_pod_says(cluster: Cluster, operator: OperatorProcess, tmp_path: Path) -> None:
    del operator
    await full_node(cluster)
    binding = {
        "metadata": {"name": "views"},
        "subjects": [{"kind": "User", "name": TENANT, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "system:aggregate-to-view", "apiGroup": "rbac.authorization.k8s.io"},
    }
    status, _, err = await command(cluster, tmp_path, "explain", "waits", user=TENANT)
    assert status == 2
    assert "the pod itself cannot be read" in err
    async with made(cluster, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding):
        status, out, _ = await command(cluster, tmp_path, "explain", "waits", user=TENANT)
    assert status == 1
    assert await cluster.message("waits") in out
    assert out.splitlines()[-1].startswith("The explanation ends here: you may not list nodes")
    status, out, err = await command(cluster, tmp_path, "top", user=TENANT)
    assert (status, out) == (2, "")
    assert "you may not list nodes" in err


async def test_a_cordoned_card_gets_no_new_pods_until_it_is_uncordoned(
    cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    del operator
    await cluster.nodes.register(["one"], ["T4"])
    await cluster.nodes.start()
    (card,) = cluster.nodes.cards("one")
    assert (await command(cluster, tmp_path, "cordon", "card", card.uuid))[1] == f"card one/{card.uuid} cordoned\n"
    await cluster.create(on_one("waits", gpu=1, gpumem=1000))

    async def told() -> bool:
        return "CardCordoned" in await cluster.message("waits")

    await cluster.until(told, "the card to be cordoned")
    snapshot = tmp_path / "cluster.json"
    assert (await command(cluster, tmp_path, "snapshot", "-f", str(snapshot)))[0] == 0
    status, out, _ = await command(cluster, tmp_path, "explain", "waits", "--cluster", str(snapshot))
    assert status == 1
    assert f"uncordon card {card.uuid} of node one" in out
    assert (await command(cluster, tmp_path, "uncordon", card.uuid))[0] == 0
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == 1)
    status, _, err = await command(cluster, tmp_path, "cordon", card.uuid, user=TENANT)
    assert status == 2
    assert "you may not list nodes" in err
