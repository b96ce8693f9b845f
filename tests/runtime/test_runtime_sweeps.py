"""Sweeps: what they wait for, and what they do without."""

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
from vgpu_scheduler.apiclient import ApiClient, connect
from vgpu_scheduler.intake import PODS, STORAGE, SWEPT, Kind, Listing, list_all
from vgpu_scheduler.runtime import sweeps as sweeps_module
from vgpu_scheduler.runtime.sweeps import Sweeps


@pytest.fixture
async def watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watcher]:
    """A watcher that watches nothing: all that it knows comes from sweeps."""
    monkeypatch.setattr(sweeps_module, "_DELAY", 0.02)
    with DevCluster.thread() as cluster:
        api = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "sweeps")
        other = ApiClient(api.credentials, "somebody-else")
        yield Watcher(cluster, api, other)
        await other.close()
        await api.close()


def sweeps(watcher: Watcher, **more: Any) -> Sweeps:
    return Sweeps(watcher.api, watcher.engine, watcher.observer, 600.0, lambda: SWEPT, lambda: STORAGE, **more)


@pytest.mark.parametrize("status", [403, 500])
async def test_a_kind_that_most_pods_can_do_without_is_left_out_if_it_cannot_be_listed(
    watcher: Watcher, status: int
) -> None:
    watcher.cluster.inject(Fault(verb="list", resource="csistoragecapacities", status=status))
    await watcher.write("POST", "/apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": "sc"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    })  # fmt: skip
    await watcher.create("plain")
    async with asyncio.timeout(5):
        await sweeps(watcher).sweep()
    assert watcher.pods == {"plain"}
    assert {found.name for found in watcher.engine.state.volumes.objects.classes} == {"sc"}


async def test_a_kind_that_all_pods_need_is_asked_for_until_it_is_there(watcher: Watcher) -> None:
    watcher.cluster.inject(Fault(verb="list", resource="pods", status=403, times=3))
    await watcher.create("plain")
    async with asyncio.timeout(5):
        await sweeps(watcher).sweep()
    assert watcher.pods == {"plain"}


async def test_a_stream_that_lists_meanwhile_does_not_look_like_a_restored_store(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep's list of pods is from before the stream's, and taken in after it."""
    await watcher.create("old")

    async def overtaken(api: ApiClient, kind: Kind[Any], since: int | None = None) -> Listing[Any]:
        listing = await list_all(api, kind, since)
        if kind is PODS:
            await watcher.delete("old")
            await watcher.create("new")
            await watcher.observer.sweep(PODS, await list_all(api, PODS, watcher.engine.lists.listed("Pod")))
        return listing

    monkeypatch.setattr(sweeps_module, "list_all", overtaken)
    await sweeps(watcher).sweep()
    assert watcher.engine.lists.epoch == 0
    assert watcher.pods == {"new"}


async def test_an_older_list_that_was_asked_for_after_a_newer_one_proves_a_restored_store(watcher: Watcher) -> None:
    before = await list_all(watcher.api, PODS)
    await watcher.create("lost")
    await watcher.observer.sweep(PODS, await list_all(watcher.api, PODS))
    before.since = watcher.engine.lists.listed("Pod")
    await watcher.observer.sweep(PODS, before)
    assert watcher.engine.lists.epoch == 1
    assert not watcher.pods


async def test_a_second_sweep_takes_in_only_what_changed(watcher: Watcher) -> None:
    for name in ("same", "changed", "gone"):
        await watcher.create(name)
    both = sweeps(watcher)
    await both.sweep()
    await watcher.write("PATCH", f"{POD_PATH}/changed", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await watcher.delete("gone")
    watcher.observer.stats.observed.clear()
    await both.sweep()
    assert watcher.pods == {"same", "changed"}
    assert (watcher.observer.stats.observed["Pod"], watcher.observer.stats.swept) == (2, 1)


async def test_an_audit_repairs_what_is_wrong_and_says_why(watcher: Watcher, caplog: pytest.LogCaptureFixture) -> None:
    """It comes in the middle of a bind, which is no mistake."""
    watcher.engine.observe_node(node("a", cards("a", 2)), 0.0)
    for name in ("on-its-way", "forgotten"):
        watcher.engine.observe_pod(pod(name), 0.0)
        assert watcher.engine.attempt(0.0) is not None
    await sweeps(watcher).audit()
    stats = watcher.observer.stats
    assert (stats.repaired, stats.drift) == (0, 0)
    on_a = pod("forgotten", version=2, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1000, 0)))
    watcher.engine.observe_pod(on_a, 0.0)
    watcher.engine.state._ledger.take_off(on_a.uid)
    await sweeps(watcher).audit()
    assert (stats.repaired, stats.drift) == (1, 0)
    assert "the ledger of node a was wrong and is repaired: pod default/forgotten was not booked" in caplog.text


async def test_a_list_from_before_a_kind_was_defined_does_not_empty_it(watcher: Watcher) -> None:
    await watcher.observer.sweep(PODS, Listing([pod("there")], 9, since=0))
    await watcher.observer.sweep(PODS, Listing(since=0))
    assert watcher.pods == {"there"}
    await watcher.observer.sweep(PODS, Listing(since=9))
    assert not watcher.pods
