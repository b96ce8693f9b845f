"""Relists: what they wait for, and what they do without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.builders import allocation, cards, node, pod
from tests.intake.watching import MERGE, Watcher
from tests.intake.watching import PODS as POD_PATH

from vgpu_devcluster import DevCluster, Fault
from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse, ApiUnreachableError, connect
from vgpu_scheduler.intake import PODS, RELISTED_KINDS, STORAGE, Kind, Listing, list_all
from vgpu_scheduler.kube import DecodeError
from vgpu_scheduler.runtime import relist as relist_module
from vgpu_scheduler.runtime.relist import Relister, UnlistedKindError


@pytest.fixture
async def watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watcher]:
    """A watcher that watches nothing: all that it knows comes from relists."""
    monkeypatch.setattr(relist_module, "_DELAY", 0.02)
    with DevCluster.thread() as cluster:
        api = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "relists")
        other = ApiClient(api.credentials, "somebody-else")
        yield Watcher(cluster, api, other)
        await other.close()
        await api.close()


def relists(watcher: Watcher, **more: Any) -> Relister:
    return Relister(watcher.api, watcher.engine, watcher.observer, 600.0, lambda: (*STORAGE, *RELISTED_KINDS), **more)


@pytest.mark.parametrize("status", [403, 500])
async def test_a_kind_that_most_pods_can_do_without_is_left_out_if_it_cannot_be_listed(
    watcher: Watcher, status: int
) -> None:
    watcher.cluster.inject(Fault(verb="list", resource="csistoragecapacities", status=status))
    await watcher.write("POST", "/apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": "sc"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    })  # fmt: skip
    await watcher.create("plain")
    async with asyncio.timeout(30):
        await relists(watcher).relist()
    assert watcher.pods == {"plain"}
    assert {found.name for found in watcher.engine.state.volumes.objects.classes} == {"sc"}


async def test_a_kind_that_all_pods_need_is_asked_for_until_it_is_there(watcher: Watcher) -> None:
    watcher.cluster.inject(Fault(verb="list", resource="pods", status=403, times=3))
    await watcher.create("plain")
    async with asyncio.timeout(30):
        await relists(watcher).relist()
    assert watcher.pods == {"plain"}


class Refusals:
    """Refuses lists of pods, and notes which kinds are listed and how long is paused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
        self.listed: list[str] = []
        self.paused: list[float] = []
        self._errors = list(errors)
        self._sleep = asyncio.sleep
        monkeypatch.setattr(relist_module, "list_all", self._list)
        monkeypatch.setattr("asyncio.sleep", self._pause)

    async def _list(self, api: ApiClient, kind: Kind[Any], since: int | None = None) -> Listing[Any]:
        self.listed.append(kind.name)
        if kind is PODS and self._errors:
            raise self._errors.pop(0)
        return await list_all(api, kind, since)

    async def _pause(self, seconds: float) -> None:
        if seconds:
            self.paused.append(seconds)
        await self._sleep(0)


def refusal(status: int, retry_after: float | None = None) -> ApiError:
    return ApiError(ApiResponse(status, b'{"message": "not now"}', retry_after))


async def test_what_was_listed_is_kept_and_the_rest_is_asked_for_ever_more_rarely(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watcher.create("plain")
    garbage = DecodeError("List", "", "", "it is no list")
    refusals = Refusals(monkeypatch, refusal(500), refusal(429, 7.0), ApiUnreachableError("gone"), garbage)
    await relists(watcher).relist()
    kinds = [kind.name for kind in RELISTED_KINDS]
    before = kinds.index("Pod")
    assert refusals.listed[: len(kinds) + 4] == [*kinds[:before], *["Pod"] * 5, *kinds[before + 1 :]]
    assert refusals.paused == pytest.approx([0.02, 7.0, 0.08, 0.16])
    assert watcher.pods == {"plain"}


async def test_what_was_listed_long_ago_is_listed_again_before_it_is_used(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Refusals(monkeypatch, refusal(429, 61.0))
    now = watcher.observer.monotonic()
    watcher.observer.monotonic = lambda: now + sum(refusals.paused)
    await relists(watcher).relist()
    kinds = [kind.name for kind in RELISTED_KINDS]
    before = kinds[: kinds.index("Pod")]
    assert before
    assert refusals.listed == [
        *before, "Pod", *kinds[len(before):], *(kind.name for kind in STORAGE), *before
    ]  # fmt: skip


async def test_what_cannot_be_listed_is_told_until_it_can(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    one, told = relists(watcher), list[tuple[str, str, str]]()
    refusals = Refusals(monkeypatch, refusal(403), ApiUnreachableError("gone"))

    async def pause(seconds: float) -> None:
        if seconds:
            told.append((*one.failures, one.failures["Pod"].code, one.problem))
        await refusals._sleep(0)

    monkeypatch.setattr("asyncio.sleep", pause)
    await one.relist()
    assert told == [
        ("Pod", "403", "/api/v1/pods cannot be listed: 403: not now"),
        ("Pod", "<error>", "/api/v1/pods cannot be listed: gone"),
    ]
    assert (one.failures, one.problem) == ({}, "")


async def test_a_kind_that_relists_do_not_wait_for_is_told_and_is_no_problem(watcher: Watcher) -> None:
    watcher.cluster.inject(Fault(verb="list", resource="csinodes", status=403))
    one = relists(watcher)
    await one.relist()
    assert [(name, failure.code) for name, failure in one.failures.items()] == [("CSINode", "403")]
    assert not one.problem


async def test_a_kind_that_is_not_relisted_any_more_is_not_told(watcher: Watcher) -> None:
    watcher.cluster.inject(Fault(verb="list", resource="csinodes", status=403))
    kinds = [*STORAGE, *RELISTED_KINDS]
    one = Relister(watcher.api, watcher.engine, watcher.observer, 600.0, lambda: kinds)
    await one.relist()
    assert list(one.failures) == ["CSINode"]
    del kinds[: len(STORAGE)]
    assert not one.failures
    await one.relist()
    kinds[:0] = STORAGE
    assert not one.failures, "an earlier failure says nothing of a kind that is relisted again"


async def test_a_relist_ends_once_its_patience_for_a_kind_is_over(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Refusals(monkeypatch, *[refusal(403)] * 50)
    now = watcher.observer.monotonic()
    watcher.observer.monotonic = lambda: now + sum(refusals.paused)
    with pytest.raises(UnlistedKindError, match="/api/v1/pods cannot be listed: 403: not now"):
        await relists(watcher).relist(patience=180.0)
    assert 180.0 <= sum(refusals.paused) < 180.0 + 30.0


async def test_a_stream_that_lists_meanwhile_does_not_look_like_a_restored_store(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relist's list of pods is from before the stream's, and taken in after it."""
    await watcher.create("old")

    async def overtaken(api: ApiClient, kind: Kind[Any], since: int | None = None) -> Listing[Any]:
        listing = await list_all(api, kind, since)
        if kind is PODS:
            await watcher.delete("old")
            await watcher.create("new")
            await watcher.observer.relist(PODS, await list_all(api, PODS, watcher.engine.lists.listed("Pod")))
        return listing

    monkeypatch.setattr(relist_module, "list_all", overtaken)
    await relists(watcher).relist()
    assert watcher.engine.lists.epoch == 0
    assert watcher.pods == {"new"}


async def test_an_older_list_that_was_asked_for_after_a_newer_one_proves_a_restored_store(watcher: Watcher) -> None:
    before = await list_all(watcher.api, PODS)
    await watcher.create("lost")
    await watcher.observer.relist(PODS, await list_all(watcher.api, PODS))
    before.since = watcher.engine.lists.listed("Pod")
    await watcher.observer.relist(PODS, before)
    assert watcher.engine.lists.epoch == 1
    assert not watcher.pods


async def test_a_second_relist_takes_in_only_what_changed(watcher: Watcher) -> None:
    for name in ("same", "changed", "gone"):
        await watcher.create(name)
    both = relists(watcher)
    await both.relist()
    await watcher.write("PATCH", f"{POD_PATH}/changed", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await watcher.delete("gone")
    watcher.observer.stats.observed.clear()
    await both.relist()
    assert watcher.pods == {"same", "changed"}
    assert (watcher.observer.stats.observed["Pod"], watcher.observer.stats.missed_deletions) == (2, 1)


async def test_an_audit_repairs_what_is_wrong_and_says_why(watcher: Watcher, caplog: pytest.LogCaptureFixture) -> None:
    """It comes in the middle of a bind, which is no mistake."""
    watcher.engine.observe_node(node("a", cards("a", 2)), 0.0)
    for name in ("on-its-way", "forgotten"):
        watcher.engine.observe_pod(pod(name), 0.0)
        assert watcher.engine.attempt(0.0) is not None
    await relists(watcher).audit()
    stats = watcher.observer.stats
    assert (stats.repaired, stats.drift) == (0, 0)
    on_a = pod("forgotten", version=2, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1000, 0)))
    watcher.engine.observe_pod(on_a, 0.0)
    watcher.engine.state._ledger.take_off(on_a.uid)
    await relists(watcher).audit()
    assert (stats.repaired, stats.drift) == (1, 0)
    assert "the ledger of node a was wrong and is repaired: pod default/forgotten is not in the ledger" in caplog.text
    woken: list[str] = []
    watcher.observer.signals.decide_again.listen(lambda: woken.append("once more"))
    await relists(watcher).audit()
    assert woken == []  # only a repair wakes the loop, and that was the audit before


async def test_a_list_from_before_a_kind_was_defined_does_not_empty_it(watcher: Watcher) -> None:
    await watcher.observer.relist(PODS, Listing([pod("there")], 9, since=0))
    await watcher.observer.relist(PODS, Listing(since=0))
    assert watcher.pods == {"there"}
    await watcher.observer.relist(PODS, Listing(since=9))
    assert not watcher.pods
