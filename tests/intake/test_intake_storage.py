"""Storage objects are watched while a waiting pod needs them, and pods wait without a word until they are known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.engine.builders import asks, pod
from tests.intake.watching import Watcher, until
from tests.kube import storage_objects as storage

from vgpu_devcluster import Fault
from vgpu_scheduler.intake import PODS, STORAGE, StorageStreams
from vgpu_scheduler.intake import storage as storage_streams
from vgpu_scheduler.model import Outcome

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class Streams:
    """Streams that run, behind a clock of their own."""

    def __init__(self, watcher: Watcher) -> None:
        self.now = 0.0
        self.watcher = watcher
        observer = watcher.observer
        observer.monotonic = lambda: self.now
        self.streams = StorageStreams(watcher.api, observer, watcher.lose_track, linger=60.0)
        watcher.engine.storage.mark_unsynced()

    def want(self, name: str = "wants") -> None:
        """Have a pod come that names a claim."""
        self.watcher.observer.observe(PODS, pod(name, asks(1), volumes=[storage.claim_volume()]))

    def go(self, name: str = "wants") -> None:
        """Have it go."""
        self.watcher.engine.remove_pod(f"uid-{name}", self.now)

    @property
    def watches(self) -> int:
        """How many kinds are being watched."""
        requests = self.watcher.cluster.requests
        group = sum(requests.total(verb="watch", resource=kind.path.rsplit("/", 1)[1]) for kind in STORAGE)
        return int(group)

    @property
    def classes(self) -> set[str]:
        """Names of the classes that are known."""
        return {found.name for found in self.watcher.engine.state.volumes.objects.classes}


@pytest.fixture
async def running(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Streams]:
    """Streams for which nobody has a need yet."""
    monkeypatch.setattr(storage_streams, "_POLL_INTERVAL", 0.02)
    made = Streams(watcher)
    task = asyncio.create_task(made.streams.run())
    try:
        yield made
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_nothing_is_read_until_a_pod_needs_it_and_the_pod_waits_without_a_word(running: Streams) -> None:
    watcher = running.watcher
    await watcher.write("POST", CLASSES, _new(storage.storage_class()))
    watcher.observer.observe(PODS, pod("plain", asks(1)))
    await asyncio.sleep(0.05)
    assert running.watches == 0
    running.want()
    outcomes = {}
    while (decision := watcher.engine.attempt(0.0)) is not None:
        outcomes[decision.pod] = (decision.outcome, decision.message)
    assert outcomes["default/wants"] == (Outcome.NOT_READY, "")
    await until(lambda: watcher.engine.storage.synced)
    assert running.classes == {"sc"}
    await until(lambda: running.watches == len(STORAGE))
    decided = watcher.engine.attempt(20.0)
    assert decided is not None
    assert decided.outcome is Outcome.UNSCHEDULABLE


async def test_they_are_watched_for_a_while_after_the_last_need_and_read_anew_at_the_next(running: Streams) -> None:
    watcher = running.watcher
    await watcher.write("POST", CLASSES, _new(storage.storage_class("old")))
    running.want()
    await until(lambda: watcher.engine.storage.synced)
    assert running.streams.kinds == list(STORAGE)
    running.go()
    running.now += 59.0
    await asyncio.sleep(0.1)
    assert watcher.engine.storage.synced
    running.now += 2.0
    await until(lambda: not watcher.engine.storage.synced)
    assert not running.streams.kinds
    await watcher.write("DELETE", f"{CLASSES}/old")
    await watcher.write("POST", CLASSES, _new(storage.storage_class("new")))
    running.want("again")
    await until(lambda: watcher.engine.storage.synced)
    assert running.classes == {"new"}, "what went meanwhile is gone"


async def test_a_kind_that_may_not_be_listed_is_named(running: Streams) -> None:
    watcher = running.watcher
    watcher.cluster.inject(Fault(verb="list", resource="persistentvolumes", status=403))
    running.want()
    await until(lambda: watcher.engine.storage.unreadable)
    decision = watcher.engine.attempt(0.0)
    assert decision is not None
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.startswith("PersistentVolume objects cannot be read: 403")
    assert decision.condition_reason == "SchedulerError"
    assert "PersistentVolume" not in {kind.name for kind in running.streams.kinds}
    watcher.cluster.heal()
    await until(lambda: watcher.engine.storage.synced)
    decision = watcher.engine.attempt(20.0)
    assert decision is not None
    assert decision.message == "no nodes available to schedule pods"


async def test_a_kind_that_may_not_be_watched_any_more_is_named_and_listed_anew_once_it_may(running: Streams) -> None:
    watcher = running.watcher
    await watcher.write("POST", CLASSES, _new(storage.storage_class("old")))
    running.want()
    await until(lambda: watcher.engine.storage.synced)
    await until(lambda: running.watches == len(STORAGE))
    watcher.cluster.inject(Fault(verb="watch", resource="storageclasses", status=403))
    watcher.cluster.end_watches()
    await until(lambda: watcher.engine.storage.unreadable)
    decision = watcher.engine.attempt(0.0)
    assert decision is not None
    assert decision.message.startswith("StorageClass objects cannot be read: 403")
    assert "StorageClass" not in {kind.name for kind in running.streams.kinds}
    await watcher.write("DELETE", f"{CLASSES}/old")
    await watcher.write("POST", CLASSES, _new(storage.storage_class("new")))
    assert not watcher.engine.storage.synced
    watcher.cluster.heal()
    await until(lambda: watcher.engine.storage.synced)
    assert not watcher.engine.storage.unreadable
    assert running.classes == {"new"}
    assert len(running.streams.kinds) == len(STORAGE)


async def test_what_may_not_be_read_is_asked_for_no_longer_than_it_is_needed(running: Streams) -> None:
    watcher = running.watcher
    watcher.cluster.inject(Fault(verb="list", resource="persistentvolumes", status=403))
    running.want()
    await until(lambda: watcher.engine.storage.unreadable)
    running.go()
    running.now += 61.0
    await until(lambda: not watcher.engine.storage.unreadable)


def _new(obj: dict[str, object]) -> dict[str, object]:
    metadata = obj["metadata"]
    assert isinstance(metadata, dict)
    return {**obj, "metadata": {"name": metadata["name"]}}
