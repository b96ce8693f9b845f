"""kopf as a source: what it sees, that it writes nothing, and that nothing ends it for good."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.intake.watching import MERGE, NODES, PODS, Watcher, until

from vgpu_devcluster import WRITES, Fault
from vgpu_scheduler.intake import Observer, supervised
from vgpu_scheduler.intake.kopf_source import KopfSource


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user that the system knows by its number alone, as that of a container."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr("getpass.getuser", unknown)


@pytest.fixture
async def source(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KopfSource]:
    """kopf, running, with node ``n0`` and pod ``p0`` seen; it is started again without much delay."""
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    await watcher.write("POST", NODES, {"metadata": {"name": "n0"}})
    await watcher.create("p0")
    made = KopfSource(
        watcher.api.credentials,
        watcher.observer,
        "vgpu-scheduler",
        nodes=True,
        lost_track=watcher.lose_track,
        after_spawn=lambda: None,
    )
    task = asyncio.create_task(made.run())
    try:
        await until(lambda: watcher.waiting == {"p0"} and watcher.nodes == {"n0"})
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_it_sees_our_pods_and_the_nodes(watcher: Watcher, source: KopfSource) -> None:
    await watcher.create("p1")
    await watcher.create("theirs", scheduler="another", node="n0")
    await watcher.write("PATCH", f"{PODS}/p0", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await watcher.write("POST", NODES, {"metadata": {"name": "n1"}})
    await until(lambda: watcher.waiting == {"p0", "p1"} and watcher.nodes == {"n0", "n1"})
    await until(lambda: any(pod.labels for pod in watcher.engine.state.pods()))
    await watcher.delete("p0")
    await watcher.write("DELETE", f"{NODES}/n1")
    await until(lambda: watcher.waiting == {"p1"} and watcher.nodes == {"n0"})
    assert (watcher.lost_track, watcher.observer.stats.restarts) == (0, 0)


async def test_it_runs_as_a_user_without_a_name(nameless: None, watcher: Watcher, source: KopfSource) -> None:
    await watcher.create("p1")
    await until(lambda: watcher.waiting == {"p0", "p1"})
    assert watcher.observer.stats.restarts == 0


async def test_a_pod_that_was_bound_no_longer_waits_and_its_last_object_is_not_observed(
    watcher: Watcher, source: KopfSource
) -> None:
    uid = next(pod.uid for pod in watcher.engine.state.pods())
    assert uid in watcher.engine.queue
    before = watcher.observer.stats.observed["Pod"]
    target = {"metadata": {"name": "p0"}, "target": {"kind": "Node", "name": "n0"}}
    await watcher.write("POST", f"{PODS}/p0/binding", target)
    await until(lambda: uid not in watcher.engine.queue)
    assert watcher.observer.stats.observed["Pod"] == before
    known = watcher.engine.state.pod(uid)
    assert known is not None
    assert known.node_name == ""  # the stream of bound pods tells where
    await watcher.create("bound", node="n0")
    await watcher.create("p1")
    await until(lambda: watcher.waiting == {"p1"})


async def test_it_writes_nothing(watcher: Watcher, source: KopfSource) -> None:
    await watcher.create("p1")
    await watcher.write("DELETE", f"{NODES}/n0")
    await until(lambda: watcher.waiting == {"p0", "p1"} and not watcher.nodes)
    total = watcher.cluster.requests.total
    assert sum(total(verb=verb) for verb in WRITES) == sum(total(verb=v, user_agent="somebody-else") for v in WRITES)


async def test_a_watch_that_ends_cleanly_goes_on(watcher: Watcher, source: KopfSource) -> None:
    watcher.cluster.end_watches()
    await watcher.create("p1")
    await watcher.delete("p0")
    await until(lambda: watcher.waiting == {"p1"})
    assert watcher.observer.stats.restarts == 0


@pytest.mark.parametrize(
    ("fault", "expired"),
    [
        (None, True),
        (Fault(verb="watch", status=410, times=1), False),
        (Fault(verb="watch", status=500, times=2), False),
        (Fault(verb="watch", status=503, times=2), True),
        (Fault(verb="watch", drop=True, times=2), False),
        (Fault(verb="list", status=500, times=2), True),
    ],
    ids=["410 in the stream", "410", "500", "503 and 410", "cut off", "the list fails, too"],
)
async def test_whatever_ends_it_it_watches_again(
    watcher: Watcher, source: KopfSource, fault: Fault | None, *, expired: bool
) -> None:
    if fault is not None:
        watcher.cluster.inject(fault)
    watcher.cluster.end_watches(expired=expired)
    await watcher.create("p1")
    await watcher.write("POST", NODES, {"metadata": {"name": "n1"}})
    await until(lambda: watcher.waiting >= {"p0", "p1"} and watcher.nodes == {"n0", "n1"}, within=30.0)
    await watcher.create("p2")
    await watcher.delete("p1")
    await until(lambda: watcher.waiting == {"p0", "p2"})
    if fault is not None:
        assert fault.times == 0


async def test_what_it_had_started_ends_with_it(watcher: Watcher, source: KopfSource) -> None:
    """kopf itself leaves the watches of other kinds to the end of its process, and they go on to ask for ever."""
    before = watches_under_way()
    assert len(before) == 2
    ours = asyncio.create_task(asyncio.Event().wait())
    watcher.cluster.inject(Fault(verb="watch", resource="pods", status=410, times=1))
    watcher.cluster.end_watches()
    await until(lambda: watcher.observer.stats.restarts == 1 and len(watches_under_way()) == 2)
    assert not {id(task) for task in before} & {id(task) for task in watches_under_way()}
    assert not ours.done()
    ours.cancel()


def watches_under_way() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("watcher for")]


async def test_what_a_handler_starts_goes_on_when_it_ends(
    watcher: Watcher, source: KopfSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[asyncio.Task[object]] = []

    def observe(*_: object) -> None:
        started.append(asyncio.create_task(asyncio.Event().wait()))

    monkeypatch.setattr(Observer, "observe", observe)
    await watcher.create("p1")
    await until(lambda: started)
    watcher.cluster.inject(Fault(verb="watch", status=410, times=1))
    watcher.cluster.end_watches()
    await until(lambda: watcher.observer.stats.restarts == 1 and len(watches_under_way()) == 2)
    assert not started[0].done()
    for task in started:
        task.cancel()


async def test_what_is_known_stays_known_while_it_is_away_and_a_relist_is_asked_for(
    watcher: Watcher, source: KopfSource
) -> None:
    fault = watcher.cluster.inject(Fault(verb="watch", status=410))
    watcher.cluster.compact()
    watcher.cluster.end_watches(expired=True)
    await until(lambda: watcher.observer.stats.restarts >= 2)
    assert watcher.waiting == {"p0"}
    await watcher.delete("p0")
    await watcher.create("p1")
    watcher.cluster.heal(fault)
    before = watcher.lost_track
    await until(lambda: "p1" in watcher.waiting)
    assert watcher.waiting == {"p0", "p1"}  # nobody reports the deletion of p0 any more
    await until(lambda: watcher.lost_track > before)  # so a relist has to find out, and it is asked for after the list


async def test_objects_that_cannot_be_read_stop_nothing(watcher: Watcher, source: KopfSource) -> None:
    odd = {"metadata": {"name": "odd", "uid": 7, "namespace": "default"}}
    for kind in ("ADDED", "DELETED"):
        source._pods({"type": kind, "object": odd})
    assert watcher.observer.stats.undecodable == 2
    await watcher.create("p1")
    await until(lambda: "p1" in watcher.waiting)


async def test_it_ends_when_it_is_told_to_even_if_nobody_answers(watcher: Watcher) -> None:
    watcher.cluster.inject(Fault(user_agent="kopf", delay=60.0))
    made = KopfSource(
        watcher.api.credentials, watcher.observer, "vgpu-scheduler", nodes=True,
        lost_track=watcher.lose_track, after_spawn=lambda: None,
    )  # fmt: skip
    task = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    await until(lambda: len(asyncio.all_tasks()) > 5)
    task.cancel()
    async with asyncio.timeout(30):
        with contextlib.suppress(asyncio.CancelledError):
            await task


class BreakingProxy:
    """Stands between a client and the server, and can break the next line of a watch in two."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._tasks: set[asyncio.Task[None]] = set()
        self.breaks = 0
        self.url = ""

    async def __aenter__(self) -> BreakingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        for source, sink, checked in ((reader, there_writer, False), (there_reader, writer, True)):
            task = asyncio.create_task(self._pump(source, sink, checked=checked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, checked: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                if checked and self.breaks and b'{"type"' in data:
                    self.breaks -= 1
                    data = data.replace(b'{"type"', b'{"typ\n"', 1)  # of the same length: chunks stay as announced
                sink.write(data)
                await sink.drain()
        sink.close()


async def test_a_broken_line_does_not_end_it_for_good(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    await watcher.create("p0")
    async with BreakingProxy(watcher.cluster.url) as proxy:
        monkeypatch.setattr(watcher.api.credentials.configuration, "host", proxy.url)
        made = KopfSource(
            watcher.api.credentials, watcher.observer, "vgpu-scheduler", nodes=True,
            lost_track=watcher.lose_track, after_spawn=lambda: None,
        )  # fmt: skip
        task = asyncio.create_task(made.run())
        await until(lambda: watcher.waiting == {"p0"} and watcher.cluster.requests.total(verb="watch") == 2)
        proxy.breaks = 1
        await watcher.create("p1")
        await until(lambda: watcher.observer.stats.restarts == 1)
        await until(lambda: watcher.waiting == {"p0", "p1"})
        await watcher.delete("p0")
        await until(lambda: watcher.waiting == {"p1"})
        assert watcher.lost_track >= 1
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
