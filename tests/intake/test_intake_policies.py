"""The policy source: what it sees, that definitions may come and go, and that nothing ends it for good."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.intake.watching import MERGE, Watcher, until

from vgpu_devcluster import WRITES, Fault
from vgpu_scheduler.intake import (
    CLUSTER_POLICIES,
    NAMESPACES,
    POLICIES,
    Listing,
    list_all,
    policies,
    supervised,
)
from vgpu_scheduler.intake import (
    QUOTAS as QUOTA_KIND,
)
from vgpu_scheduler.intake.policies import PolicySource
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, crds, key_of

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER = CLUSTER_POLICIES.path
NAMESPACED = POLICIES.path.replace("/vgpupolicies", "/namespaces/default/vgpupolicies")
SPREAD = {"nodes": {"policy": "spread"}}


async def define(watcher: Watcher) -> None:
    for definition in crds():
        await watcher.write("POST", DEFINITIONS, definition)


async def put(watcher: Watcher, path: str, name: str, spec: dict[str, Any]) -> None:
    kind = CLUSTER_KIND if path == CLUSTER else NAMESPACED_KIND
    await watcher.write("POST", path, {"kind": kind, "metadata": {"name": name}, "spec": spec})


def known(watcher: Watcher) -> set[str]:
    return {policy.name for policy in watcher.engine.policies.catalogue.all()}


def namespaces(watcher: Watcher) -> set[str]:
    return {namespace.name for namespace in watcher.engine.policies.catalogue.namespaces()}


@contextlib.asynccontextmanager
async def running(watcher: Watcher) -> AsyncIterator[PolicySource]:
    source = PolicySource(
        watcher.api.credentials, watcher.observer, lost_track=watcher.lose_track, after_spawn=lambda: None
    )
    task = asyncio.create_task(source.run())
    try:
        yield source
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def source(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PolicySource]:
    """The source, running, with one policy seen."""
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    await define(watcher)
    await put(watcher, CLUSTER, "first", SPREAD)
    async with running(watcher) as made:
        await until(lambda: known(watcher) == {"first"} and "default" in namespaces(watcher))
        yield made


async def test_it_sees_policies_of_both_kinds_and_namespaces(watcher: Watcher, source: PolicySource) -> None:
    await put(watcher, NAMESPACED, "second", SPREAD)
    await watcher.write("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "labels": {"tier": "x"}}})
    await until(lambda: known(watcher) == {"first", "second"} and "team" in namespaces(watcher))
    await watcher.write("PATCH", f"{CLUSTER}/first", {"spec": {"priority": 7}}, content_type=MERGE)
    await until(lambda: {p.priority for p in watcher.engine.policies.catalogue.all()} == {0, 7})
    await watcher.write("DELETE", f"{NAMESPACED}/second")
    await until(lambda: known(watcher) == {"first"})


QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MEMORY = "limits.nvidia.com/gpumem"


def quota(limit: str, name: str = "q") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": {MEMORY: limit}}}


def limits(watcher: Watcher) -> list[int]:
    return [report.limit for report in watcher.engine.quota_limits.report(watcher.engine.state)]


async def test_it_sees_quotas(watcher: Watcher, source: PolicySource) -> None:
    await watcher.write("POST", QUOTAS, quota("2000"))
    await watcher.write("POST", QUOTAS, quota("3k", "other"))
    await until(lambda: limits(watcher) == [2000] and watcher.observer.stats.observed["ResourceQuota"] >= 2)
    await watcher.write("PATCH", f"{QUOTAS}/q", quota("9000"), content_type=MERGE)
    await until(lambda: limits(watcher) == [3000])
    await watcher.write("DELETE", f"{QUOTAS}/other")
    await until(lambda: limits(watcher) == [9000])
    assert watcher.problems == []


async def test_a_quota_that_cannot_be_read_is_reported_once(watcher: Watcher) -> None:
    unreadable = ResourceQuota("default", "q", {MEMORY: "many"}, "u", 5)
    watcher.observer.observe(QUOTA_KIND, unreadable)
    await watcher.observer.relist(QUOTA_KIND, Listing([unreadable], 9))
    assert [(problem.kind, problem.uid, problem.reason) for problem in watcher.problems] == [
        ("ResourceQuota", "u", "QuotaUnreadable")
    ]


async def test_quotas_that_vanished_unseen_are_relisted(watcher: Watcher) -> None:
    await watcher.write("POST", QUOTAS, quota("2000"))
    listing = await list_all(watcher.api, QUOTA_KIND)
    assert [(found.name, found.hard) for found in listing.objects] == [("q", {MEMORY: "2k"})]
    await watcher.observer.relist(QUOTA_KIND, listing)
    assert watcher.observer.stats.missed_deletions == 0
    assert limits(watcher) == [2000]
    await watcher.write("DELETE", f"{QUOTAS}/q")
    await watcher.observer.relist(QUOTA_KIND, await list_all(watcher.api, QUOTA_KIND))
    assert watcher.observer.stats.missed_deletions == 1
    assert limits(watcher) == []


async def test_it_writes_nothing(watcher: Watcher, source: PolicySource) -> None:
    await put(watcher, NAMESPACED, "second", SPREAD)
    await until(lambda: known(watcher) == {"first", "second"})
    total = watcher.cluster.requests.total
    assert sum(total(verb=verb) for verb in WRITES) == sum(total(verb=v, user_agent="somebody-else") for v in WRITES)


async def test_definitions_may_come_after_it(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    async with running(watcher):
        await until(lambda: "default" in namespaces(watcher))
        await define(watcher)
        await put(watcher, CLUSTER, "late", SPREAD)
        await until(lambda: known(watcher) == {"late"}, within=30)


async def test_it_looks_again_when_new_definitions_must_be_served(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server tells of a definition before it serves the kind, and kopf looks only when it is told."""
    monkeypatch.setattr(policies, "_SERVED_WITHIN", 0.2)
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    async with running(watcher):
        watched = {"verb": "watch", "resource": "customresourcedefinitions"}
        await until(lambda: watcher.cluster.requests.total(**watched) > 0)
        await define(watcher)
        await until(lambda: watcher.observer.stats.restarts == 1)
        await put(watcher, CLUSTER, "packs", SPREAD)
        await until(lambda: known(watcher) == {"packs"})
        assert watcher.observer.stats.restarts == 1


async def test_definitions_may_go_and_come_back(watcher: Watcher, source: PolicySource) -> None:
    for lost, definition in enumerate(crds(), start=watcher.lost_track + 1):
        await watcher.write("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
        await until(lambda lost=lost: watcher.lost_track >= lost)  # kopf may never report their policies
    for kind in (CLUSTER_POLICIES, POLICIES):
        await watcher.observer.relist(kind, await list_all(watcher.api, kind))
    assert not known(watcher)
    await watcher.write("POST", "/api/v1/namespaces", {"metadata": {"name": "meanwhile"}})
    await until(lambda: "meanwhile" in namespaces(watcher), within=30)
    await define(watcher)
    await put(watcher, CLUSTER, "again", SPREAD)
    await until(lambda: known(watcher) == {"again"}, within=30)


@pytest.mark.parametrize(
    "fault", [Fault(verb="watch", status=410, times=2), Fault(verb="watch", drop=True, times=2)], ids=["410", "cut off"]
)
async def test_broken_watches_end_nothing(watcher: Watcher, source: PolicySource, fault: Fault) -> None:
    watcher.cluster.inject(fault)
    watcher.cluster.end_watches(expired=True)
    await put(watcher, CLUSTER, "second", SPREAD)
    await until(lambda: known(watcher) == {"first", "second"}, within=30)


async def test_a_second_listing_asks_for_a_relist(watcher: Watcher, source: PolicySource) -> None:
    await put(watcher, CLUSTER, "second", SPREAD)
    await until(lambda: known(watcher) == {"first", "second"})  # so the first listing is over, and the watch is open
    before = watcher.lost_track
    watcher.cluster.end_watches(expired=True)
    await until(lambda: watcher.lost_track > before)


async def test_lists_are_complete_and_empty_without_definitions(watcher: Watcher) -> None:
    for kind in (CLUSTER_POLICIES, POLICIES):
        listing = await list_all(watcher.api, kind)
        assert (listing.objects, listing.version) == ([], None)
    await define(watcher)
    await put(watcher, CLUSTER, "a", SPREAD)
    await put(watcher, NAMESPACED, "a", SPREAD)
    found = [policy for kind in (CLUSTER_POLICIES, POLICIES) for policy in (await list_all(watcher.api, kind)).objects]
    assert [key_of(policy) for policy in found] == [(CLUSTER_KIND, "", "a"), (NAMESPACED_KIND, "default", "a")]
    assert "kube-system" in {namespace.name for namespace in (await list_all(watcher.api, NAMESPACES)).objects}


async def test_a_relist_removes_what_vanished_and_nothing_newer_or_of_another_kind(watcher: Watcher) -> None:
    relist = watcher.observer.relist
    await define(watcher)
    await put(watcher, CLUSTER, "a", SPREAD)
    await put(watcher, NAMESPACED, "b", SPREAD)
    await relist(POLICIES, await list_all(watcher.api, POLICIES))
    older = await list_all(watcher.api, CLUSTER_POLICIES)
    await put(watcher, CLUSTER, "newer", SPREAD)
    newer = await list_all(watcher.api, CLUSTER_POLICIES)
    for policy in newer.objects:
        watcher.observer.observe(CLUSTER_POLICIES, policy)
    await relist(CLUSTER_POLICIES, older)
    assert known(watcher) == {"a", "b", "newer"}
    await watcher.write("DELETE", f"{CLUSTER}/a")
    await relist(CLUSTER_POLICIES, await list_all(watcher.api, CLUSTER_POLICIES))
    assert known(watcher) == {"b", "newer"}
    await relist(CLUSTER_POLICIES, Listing())  # the definition is gone, and all of its kind with it
    assert known(watcher) == {"b"}
    for definition in crds():
        await watcher.write("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
    await define(watcher)
    await put(watcher, CLUSTER, "newer", SPREAD)  # defined and made anew under the same name
    await relist(CLUSTER_POLICIES, await list_all(watcher.api, CLUSTER_POLICIES))
    assert known(watcher) == {"b", "newer"}
