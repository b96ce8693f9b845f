"""What is installed goes away: custom resource definitions, admission policies."""

from __future__ import annotations

import asyncio
from random import Random

from tests.e2e.conftest import MANIFESTS
from tests.faults.catalogue import Fault, lister
from tests.faults.pods import burst, pod
from tests.faults.stage import Stage

from vgpu_devcluster import NVIDIA

POLICIES = "/apis/vgpu-scheduler.io/v1alpha1/clustervgpupolicies"
HEAD = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "ClusterVGPUPolicy"}

FAULTS: list[Fault] = []
fault = lister(FAULTS, "install")


async def kubectl(stage: Stage, *arguments: str) -> None:
    await asyncio.to_thread(stage.plane.kubectl, *arguments)


async def apply(stage: Stage) -> None:
    await kubectl(stage, "apply", "-f", str(MANIFESTS / "install.yaml"))
    stage.installed_anew()


@fault(
    "CRDs deleted and created again",
    "in a burst",
    checked="a policy that is created afterwards is followed",
    admission=True,
)
async def no_crds(stage: Stage, random: Random) -> None:
    await stage.come()
    names = ("clustervgpupolicies.vgpu-scheduler.io", "vgpupolicies.vgpu-scheduler.io")
    await kubectl(stage, "delete", "crd", *names)
    stage.count("CRDs deleted")
    await stage.come(*burst("without-")[::2])
    await apply(stage)
    await kubectl(stage, "wait", "--for=condition=Established", "--timeout=20s", *(f"crd/{name}" for name in names))
    spec = {"selector": {"matchLabels": {"asks": "policy"}}, "nodeSelector": {"matchLabels": {"nowhere": "yes"}}}
    async with stage.http.post(POLICIES, json={**HEAD, "metadata": {"name": "nowhere"}, "spec": spec}) as answer:
        assert answer.status == 201, await answer.text()

    async def known() -> bool:
        async with stage.http.get(f"{POLICIES}/nowhere") as answer:
            return bool((await answer.json()).get("status"))

    try:
        await stage.until(known, "the policy to be known")
        ruled = pod("ruled", NVIDIA)
        ruled["metadata"]["labels"] = {"asks": "policy"}
        await stage.come(ruled)
        await stage.until(lambda: stage.message("ruled"), "the policy to be obeyed")
    finally:
        async with stage.http.delete(f"{POLICIES}/nowhere") as answer:
            assert answer.status == 200


@fault(
    "admission policies missing", "deleted before a burst in which pods come with forged annotations", admission=True
)
async def no_admission(stage: Stage, random: Random) -> None:
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    await kubectl(stage, "delete", kinds, "--all")
    stage.count("admission policies deleted")
    try:
        forged = [pod(f"forged-{number}", NVIDIA) for number in range(3)]
        for number, found in enumerate(forged):
            card = stage.cards("gpu-0")[number % 2].uuid
            found["metadata"]["annotations"] = {
                "hami.io/vgpu-node": "gpu-1",
                "hami.io/vgpu-devices-allocated": f"{card},NVIDIA,15360,100:;",
                "hami.io/vgpu-devices-to-allocate": f"{card},NVIDIA,15360,100:;",
                "hami.io/bind-phase": "success",
            }
        await stage.come(*forged, *burst())
        await stage.some_run(len(burst()) + 3)
    finally:
        await apply(stage)
