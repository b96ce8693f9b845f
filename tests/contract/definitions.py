"""The definitions of policies on a server under test."""

from __future__ import annotations

import asyncio

from tests.contract.client import Api

from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, NAMESPACED_KIND, VERSION, crds

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = {
    NAMESPACED_KIND: f"/apis/{GROUP}/{VERSION}/namespaces/default/vgpupolicies",
    CLUSTER_KIND: f"/apis/{GROUP}/{VERSION}/clustervgpupolicies",
}


async def define(api: Api) -> None:
    """Define the policies, unless an earlier test has."""
    path = PATHS[NAMESPACED_KIND]
    if (await api.get(path)).code == 200:
        return
    await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    for definition in crds():
        assert (await api.post(DEFINITIONS, definition)).code in {201, 409}
    async with asyncio.timeout(20):
        for each in PATHS.values():
            while (await api.get(each)).code != 200:
                await asyncio.sleep(0.05)
    policy = {"apiVersion": f"{GROUP}/{VERSION}", "kind": NAMESPACED_KIND, "metadata": {"name": "p"}, "spec": {}}
    async with asyncio.timeout(20):  # some time passes between serving a kind and following its schema
        while (await api.post(path, policy, dryRun="All")).code == 404:
            await asyncio.sleep(0.05)
