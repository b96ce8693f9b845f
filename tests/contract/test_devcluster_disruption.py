"""The disruption controller of the embedded cluster: budgets follow their pods, and evictions follow the budgets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.contract.client import Api, Server
from tests.contract.test_contract_evictions import Bench

from vgpu_devcluster import DevCluster

PAST = (datetime.now(UTC) - timedelta(minutes=3)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    with DevCluster.thread() as cluster:
        async with Api(Server("devcluster", cluster.url, "", None), "default") as api:
            yield Bench(api)


async def pods(bench: Bench, count: int, owner: str = "rs", ready: int | None = None) -> None:
    """Create pods of a controller, the first of which are ready."""
    for number in range(count):
        name = f"{owner}-{number}"
        owners = [{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": owner, "uid": owner, "controller": True}]
        metadata: dict[str, Any] = {"labels": {"app": "web"}, "ownerReferences": owners if owner else []}
        await bench.api.pod(name, metadata)
        await bench.api.bind(name)
        word = "True" if ready is None or number < ready else "False"
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": word}]}
        await bench.api.merge(f"{bench.api.pods}/{name}/status", {"status": status})


def numbers(state: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return expected, healthy, desired and allowed."""
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    expected, healthy, desired, allowed = (state[name] for name in names)
    return expected, healthy, desired, allowed


@pytest.mark.parametrize(
    ("spec", "ready", "expected"),
    [
        ({"minAvailable": 2}, 4, (4, 4, 2, 2)),
        ({"minAvailable": 3}, 2, (4, 2, 3, 0)),
        ({"minAvailable": "50%"}, 4, (4, 4, 2, 2)),
        ({"minAvailable": "51%"}, 4, (4, 4, 3, 1)),
        ({"minAvailable": None, "maxUnavailable": 1}, 4, (4, 4, 3, 1)),
        ({"minAvailable": None, "maxUnavailable": 9}, 4, (4, 4, 0, 4)),
        ({"minAvailable": None, "maxUnavailable": "30%"}, 4, (4, 4, 2, 2)),
        ({"minAvailable": None, "maxUnavailable": 0}, 4, (4, 4, 4, 0)),
        ({"minAvailable": 0, "selector": {"matchLabels": {"app": "db"}}}, 4, (0, 0, 0, 0)),
    ],
)
async def test_numbers_and_percentages(
    bench: Bench, spec: dict[str, Any], ready: int, expected: tuple[int, ...]
) -> None:
    await bench.budget(spec=spec)
    await pods(bench, 4, ready=ready)
    state = await bench.state()
    assert numbers(state) == expected
    assert state["observedGeneration"] == 1
    (condition,) = state["conditions"]
    assert (condition["status"], condition["reason"]) == (
        ("True", "SufficientPods") if expected[-1] else ("False", "InsufficientPods")
    )


async def test_pods_without_a_controller_count_for_numbers_only(bench: Bench) -> None:
    await bench.budget("numbers", spec={"minAvailable": 1})
    await bench.budget("percent", spec={"minAvailable": "50%"})
    for name in "ab":
        await bench.pod(name)
    assert numbers(await bench.state("numbers")) == (2, 2, 1, 1)
    assert numbers(await bench.state("percent")) == (0, 2, 0, 0)


async def test_a_changed_budget_is_observed_anew(bench: Bench) -> None:
    await pods(bench, 3)
    await bench.budget(spec={"minAvailable": 3})
    assert numbers(await bench.state()) == (3, 3, 3, 0)
    await bench.api.merge(f"{bench.budgets}/web", {"spec": {"minAvailable": 1}})
    state = await bench.state()
    assert (state["observedGeneration"], numbers(state)) == (2, (3, 3, 1, 2))


async def test_evictions_go_on_only_as_pods_come_anew(bench: Bench) -> None:
    await pods(bench, 3)
    await bench.budget(spec={"minAvailable": None, "maxUnavailable": 1})
    assert (await bench.evict("rs-0")).code == 201
    state = await bench.state()
    assert numbers(state) == (3, 2, 2, 0)
    assert "disruptedPods" not in state, "the pod is being deleted already"
    assert (await bench.evict("rs-1")).code == 429
    await bench.api.delete(f"{bench.api.pods}/rs-0", {"gracePeriodSeconds": 0})
    assert numbers(await bench.state()) == (3, 2, 2, 0), "its controller wants three"
    assert (await bench.evict("rs-1")).code == 429
    await pods(bench, 1)  # made anew
    assert numbers(await bench.state()) == (3, 3, 2, 1)
    assert (await bench.evict("rs-1")).code == 201


async def test_an_eviction_that_came_to_nothing_is_forgotten_after_a_while(bench: Bench) -> None:
    await pods(bench, 2)
    await bench.budget(spec={"minAvailable": 1})
    assert (await bench.evict("rs-0", {"preconditions": {"uid": "another"}})).code == 409
    state = await bench.state()
    assert (numbers(state), list(state["disruptedPods"])) == ((2, 1, 1, 0), ["rs-0"])
    old = {"status": {"disruptedPods": {"rs-0": PAST, "gone": PAST}}}
    await bench.api.merge(f"{bench.budgets}/web/status", old)
    state = await bench.state()
    assert "disruptedPods" not in state
    assert numbers(state) == (2, 2, 1, 1)


async def test_what_changes_nothing_is_not_written(bench: Bench) -> None:
    await pods(bench, 2)
    await bench.budget()
    before = (await bench.api.get(f"{bench.budgets}/web")).revision
    await bench.api.merge(f"{bench.api.pods}/rs-0", {"metadata": {"annotations": {"a": "b"}}})
    assert (await bench.api.get(f"{bench.budgets}/web")).revision == before
