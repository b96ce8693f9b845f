"""The doctor finds the same on both servers, but for what the embedded one does not have."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.contract.client import Api, Object, container
from tests.contract.definitions import PATHS

from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, VERSION

NODES, QUOTAS = "/api/v1/nodes", "/api/v1/namespaces/default/resourcequotas"
PODS = "/api/v1/namespaces/default/pods"
NOT_SERVED = frozenset({"admission-policy-missing", "annotations-unguarded"})
"""What the embedded server lacks: it serves no admission policies."""
NOT_CHECKED = frozenset({"right-missing", "volume-right-missing"})
"""What it cannot lack: everybody may do everything there."""
SLICE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024"}
STALE = "2026-01-01T00:00:00Z,default,x"
ALLOCATED = "hami.io/vgpu-devices-allocated"


def node(name: str, **annotations: str) -> tuple[str, Object]:
    notes = {f"hami.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return NODES, {"metadata": {"name": name, "annotations": notes}}


def pod(name: str, annotations: Object | None = None, **spec: object) -> tuple[str, Object]:
    containers = [container(limits=SLICE)]
    return PODS, {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": containers, **spec},
    }


def policy(name: str, **spec: object) -> tuple[str, Object]:
    return PATHS[CLUSTER_KIND], {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": CLUSTER_KIND, "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


CARD = '[{"id":"GPU-1","count":10,"devmem":16384,"devcore":100,"type":"NVIDIA-T4","mode":"hami-core","health":true}]'
WORLDS = {
    "nothing": [],
    "a healthy node": [node("n", node_nvidia_register=CARD)],
    "a registration that nobody can read": [node("n", node_nvidia_register="[{")],
    "a lock whose pod is gone": [node("n", node_nvidia_register=CARD, **{"mutex.lock": STALE})],
    "a lock that is no lock": [node("n", node_nvidia_register=CARD, **{"mutex.lock": "whose?"})],
    "a pod without an allocation": [node("n", node_nvidia_register=CARD), pod("stray", nodeName="n")],
    "a pod with a garbled one": [
        node("n", node_nvidia_register=CARD), pod("odd", {ALLOCATED: "nonsense"}, nodeName="n"),
    ],
    "a card given out twice": [
        node("n", node_nvidia_register=CARD),
        *(
            pod(f"p{n}", {ALLOCATED: "GPU-1,NVIDIA,16000,80:;", "hami.io/vgpu-node": "n"}, nodeName="n")
            for n in range(2)
        ),
    ],
    "a quota in bytes": [
        (QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "8Gi"}}}),
    ],
    "policies that tie": [
        policy("one", priority=1, nodes={"policy": "binpack"}), policy("two", priority=1, nodes={"policy": "spread"}),
    ],
}  # fmt: skip


async def diagnose(kubeconfig: Path) -> set[tuple[str, str, str]]:
    """Return id, namespace and name of all that the doctor finds."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vgpu_scheduler", "doctor", "--kubeconfig", str(kubeconfig), "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert not err, err.decode()
    report = json.loads(out)
    assert report["complete"], report
    return {(found["id"], found["object"]["namespace"], found["object"]["name"]) for found in report["findings"]}


@pytest.mark.apiserver
@pytest.mark.parametrize("world", WORLDS)
async def test_the_doctor_finds_the_same_on_both(both: tuple[Api, Api], world: str) -> None:
    found = []
    for api in both:
        assert api.server.kubeconfig is not None
        made = WORLDS[world]
        for path, obj in made:
            (await api.post(path, obj)).created()
        try:
            found.append(await diagnose(api.server.kubeconfig))
        finally:
            for path, obj in reversed(made):
                await api.delete(f"{path}/{obj['metadata']['name']}", {"gracePeriodSeconds": 0})
    ours, theirs = ({one for one in each if one[0] not in NOT_SERVED | NOT_CHECKED} for each in found)
    assert ours == theirs
    assert {one[0] for one in found[0]} >= NOT_SERVED
