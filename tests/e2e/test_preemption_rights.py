"""What the components for preemption add to what the scheduler may do: one thing each, where they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import MANIFESTS, OLDER, Cluster, done_by_operator, kustomized, slice_pod
from tests.e2e.test_own_rights import as_the_scheduler

Obj = dict[str, Any]
NARROWING = ("ValidatingAdmissionPolicy", "vgpu-scheduler-conditions")
BASE = ["before-1.35"] if OLDER else []


def apply_narrowing(cluster: Cluster, *components: str) -> None:
    """Apply the policy that narrows the scheduler's patches, as it is with some components."""
    every = yaml.safe_load_all(kustomized(cluster.plane, *BASE, *components))
    found = next(obj for obj in every if (obj["kind"], obj["metadata"]["name"]) == NARROWING)
    cluster.plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(found))


@pytest.fixture
def narrowing(cluster: Cluster) -> Iterator[None]:
    """Leave the policy as the base has it."""
    yield
    apply_narrowing(cluster)


@pytest.fixture
def rights(cluster: Cluster) -> Iterator[None]:
    files = [str(MANIFESTS / name / "rbac.yaml") for name in ("preemption", "preemption-beyond-budgets")]
    for file in files:
        cluster.plane.kubectl("apply", "-f", file)
    yield
    for file in files:
        cluster.plane.kubectl("delete", "-f", file)


def condition(kind: str) -> Obj:
    return {"status": {"conditions": [{"type": kind, "status": "True", "reason": "PreemptionByScheduler"}]}}


NOMINATION, DISRUPTION = {"status": {"nominatedNodeName": "n"}}, condition("DisruptionTarget")
NEVER = (
    {"status": {"phase": "Failed"}},
    {"status": {"podIPs": [{"ip": "10.0.0.1"}]}},
    {"metadata": {"annotations": {"a": "b"}}},
    condition("Ready"),
    {"status": {"nominatedNodeName": "n", "hostIP": "10.0.0.1"}},
)


@pytest.mark.parametrize(
    ("components", "allowed", "refused"),
    [
        ((), [], [NOMINATION, DISRUPTION]),
        (("preemption",), [NOMINATION], [DISRUPTION]),
        (("preemption", "preemption-beyond-budgets"), [NOMINATION, DISRUPTION], []),
    ],
    ids=["base", "preemption", "beyond budgets"],
)
async def test_each_component_widens_what_the_scheduler_patches_by_one_thing(
    cluster: Cluster, narrowing: None, components: tuple[str, ...], allowed: list[Obj], refused: list[Obj]
) -> None:
    await cluster.create({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "example"}]}})
    apply_narrowing(cluster, *components)

    async def answers(patches: list[Obj]) -> list[int]:
        return [(await as_the_scheduler(cluster, patch))[0] for patch in patches]

    async def in_force() -> bool:
        return await answers(allowed) == [200] * len(allowed) and await answers(refused) == [422] * len(refused)

    await cluster.until(in_force, "the policy to be in force")
    assert await answers(list(NEVER)) == [422] * len(NEVER)


async def test_the_account_may_evict_and_delete_only_with_the_components(cluster: Cluster, rights: None) -> None:
    await cluster.create(slice_pod("p"))
    account = "system:serviceaccount:vgpu-system:vgpu-scheduler"

    def may(*asked: str) -> bool:
        return cluster.plane.kubectl("auth", "can-i", *asked, "--as", account, check=False).stdout.strip() == "yes"

    evict, delete = ("create", "pods", "--subresource=eviction"), ("delete", "pods")

    async def allowed() -> bool:
        return may(*evict) and may(*delete)

    await cluster.until(allowed, "the roles to be in force")
    assert not may("create", "pods")
    assert not may("deletecollection", "pods")
    cluster.plane.kubectl("delete", "-f", str(MANIFESTS / "preemption-beyond-budgets" / "rbac.yaml"))

    async def only_evictions() -> bool:
        return may(*evict) and not may(*delete)

    await cluster.until(only_evictions, "the role to be gone")
    cluster.plane.kubectl("apply", "-f", str(MANIFESTS / "preemption-beyond-budgets" / "rbac.yaml"))


async def test_the_scheduler_follows_disruption_budgets_where_preemption_is_on(cluster: Cluster, rights: None) -> None:
    await cluster.nodes.register(["one"], ("A100-40G",))
    await cluster.nodes.start()
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    async with cluster.http.post(path, json=budget) as answer:
        assert answer.status == 201, await answer.text()
    process = cluster.operator(VGPU_PREEMPTION="true")
    process.start()
    try:
        await process.until_leading()
        await cluster.create(slice_pod("p"))
        await cluster.until(lambda: cluster.bound("p"), "the pod to be bound")

        async def followed() -> bool:
            done = done_by_operator(cluster.plane)
            return {"list", "watch"} <= {record.verb for record in done if record.resource == "poddisruptionbudgets"}

        await cluster.until(followed, "budgets to be listed and watched")
    finally:
        process.stop()
        await cluster.http.delete(f"{path}/b")
