"""Leader election: on a server, and two of them against a simulated one with clocks and delays of every kind."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from vgpu_devcluster import DevCluster, Fault
from vgpu_scheduler.apiclient import ApiClient, ApiResponse, ApiUnreachableError, SystemClock, connect
from vgpu_scheduler.runtime import Elector, LeaseOptions

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader"
OPTIONS = LeaseOptions("leader", "default", duration=15.0, renew_interval=0.01)


class HeldClock:
    """Clocks that stand still until they are moved."""

    def __init__(self) -> None:
        self.time = 1000.0

    def monotonic(self) -> float:
        """Return seconds."""
        return self.time

    def now(self) -> datetime:
        """Return a time of day that is far off, and a new one each time: nobody may rely on it."""
        self.asked = getattr(self, "asked", 0) + 1
        return datetime(1999, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.asked)


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster.thread() as running:
        yield running


@pytest.fixture
async def api(cluster: DevCluster, tmp_path: Path) -> AsyncIterator[ApiClient]:
    client = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "elector")
    yield client
    await client.close()


async def spec(api: ApiClient) -> dict[str, Any]:
    return dict((await api.request("GET", LEASE)).json()["spec"])


async def test_the_first_one_makes_the_lease(api: ApiClient) -> None:
    elector = Elector(api, OPTIONS, "one", HeldClock())
    assert not elector.leading
    await elector.acquire()
    assert elector.leading
    made = await spec(api)
    assert (made["holderIdentity"], made["leaseDurationSeconds"], made["leaseTransitions"]) == ("one", 15, 1)


async def test_what_counts_is_when_a_renewal_was_sent(api: ApiClient) -> None:
    clock = HeldClock()
    elector = Elector(api, OPTIONS, "one", clock)
    await elector.acquire()
    clock.time += 10.0
    assert elector.may_write(4.9)
    assert not elector.may_write(5.1)
    assert await elector._try()
    assert elector.may_write(14.9)
    assert (await spec(api))["leaseTransitions"] == 1
    clock.time += 15.0
    assert not elector.leading


async def test_a_renewal_is_one_write_until_somebody_else_has_written(cluster: DevCluster, api: ApiClient) -> None:
    elector = Elector(api, OPTIONS, "one", HeldClock())
    await elector.acquire()
    read = cluster.requests.total(verb="get", resource="leases")
    assert all([await elector._try() for _ in range(3)])
    assert cluster.requests.total(verb="get", resource="leases") == read
    lease = (await api.request("GET", LEASE)).json()
    lease["metadata"]["labels"] = {"by": "somebody-else"}
    assert (await api.request("PUT", LEASE, lease)).ok
    writes = cluster.requests.total(verb="update", resource="leases", code=200)
    assert [await elector._try(), await elector._try()] == [True, True], "a conflict loses nothing that is held"
    assert cluster.requests.total(verb="update", resource="leases", code=200) == writes + 1
    assert (await api.request("GET", LEASE)).json()["metadata"]["labels"] == {"by": "somebody-else"}


async def test_who_waits_tries_again_in_the_moment_of_expiry(api: ApiClient) -> None:
    """It would look again after an hour otherwise."""
    await Elector(api, LeaseOptions("leader", "default", 1.0, renew_interval=1.0), "one", SystemClock()).acquire()
    waiting = Elector(api, LeaseOptions("leader", "default", 1.0, renew_interval=3600.0), "two", SystemClock())
    await asyncio.wait_for(waiting.acquire(), 10.0)
    assert (await spec(api))["holderIdentity"] == "two"


async def test_it_is_lost_when_the_server_is_silent_for_too_long(cluster: DevCluster, api: ApiClient) -> None:
    clock = HeldClock()
    elector = Elector(api, OPTIONS, "one", clock)
    await elector.acquire()
    cluster.inject(Fault(resource="leases", status=503))
    holding = asyncio.create_task(elector.renew_until_lost())
    while cluster.requests.total(resource="leases", code=503) < 3:
        await asyncio.sleep(0.005)
    assert not holding.done()
    clock.time += 16.0
    await asyncio.wait_for(holding, 5)
    assert not elector.leading


async def test_renewals_go_on_after_a_short_silence(cluster: DevCluster, api: ApiClient) -> None:
    clock = HeldClock()
    elector = Elector(api, OPTIONS, "one", clock)
    await elector.acquire()
    cluster.inject(Fault(resource="leases", drop=True, times=3))
    holding = asyncio.create_task(elector.renew_until_lost())
    clock.time += 14.0
    while not elector.may_write(10.0):
        assert not holding.done()
        await asyncio.sleep(0.005)
    holding.cancel()


async def test_another_one_waits_for_the_duration_as_seen_from_there(api: ApiClient) -> None:
    await Elector(api, OPTIONS, "one", HeldClock()).acquire()
    clock = HeldClock()
    other = Elector(api, OPTIONS, "two", clock)
    assert not await other._try()  # however old the time stamps in it are
    clock.time += 15.0
    assert not await other._try()
    clock.time += 0.1
    assert await other._try()
    taken = await spec(api)
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("two", 2)


async def test_every_renewal_starts_the_wait_anew(api: ApiClient) -> None:
    one = Elector(api, OPTIONS, "one", HeldClock())
    await one.acquire()
    clock = HeldClock()
    other = Elector(api, OPTIONS, "two", clock)
    for _ in range(4):
        assert not await other._try()
        clock.time += 14.0
        assert await one._try()
    assert not await other._try()


async def test_the_wait_is_what_the_lease_says(api: ApiClient) -> None:
    await Elector(api, LeaseOptions("leader", "default", 60.0, renew_interval=1.0), "one", HeldClock()).acquire()
    clock = HeldClock()
    other = Elector(api, OPTIONS, "two", clock)
    await other._try()
    clock.time += 59.0
    assert not await other._try()
    clock.time += 2.0
    assert await other._try()


async def test_a_lease_given_up_is_free_at_once(api: ApiClient) -> None:
    patient = replace(OPTIONS, renew_interval=5.0)  # the requests of a release get so long
    one, two = Elector(api, patient, "one", HeldClock()), Elector(api, patient, "two", HeldClock())
    await one.acquire()
    await one.release()
    assert not one.leading
    assert await two._try()
    await one.release()  # it is another's now
    assert (await spec(api))["holderIdentity"] == "two"


async def test_a_lease_from_before_the_last_one_says_that_the_store_went_back(api: ApiClient) -> None:
    """The lease is ours there, too, or another's: neither must be taken for what it was."""
    clock = HeldClock()
    ours, waits = (Elector(api, OPTIONS, name, clock) for name in ("ours", "waits"))
    await ours.acquire()
    assert not await waits._try()
    real = api.request

    async def restored(method: str, path: str, *more: Any, **options: Any) -> ApiResponse:
        if method == "PUT":
            return ApiResponse(409, b"{}")
        answer = await real(method, path, *more, **options)
        lease = answer.json()
        lease["metadata"]["resourceVersion"] = "1"
        return ApiResponse(200, json.dumps(lease).encode())

    api.request = restored  # type: ignore[method-assign]
    for elector in (ours, waits):
        with pytest.raises(RuntimeError, match="restored from an older copy"):
            await asyncio.wait_for(elector.renew_until_lost(), 5)


async def test_a_restart_is_not_its_predecessor(api: ApiClient) -> None:
    await Elector(api, OPTIONS, "host_1", HeldClock()).acquire()
    assert not await Elector(api, OPTIONS, "host_2", HeldClock())._try()


@pytest.mark.parametrize("duration", [0.3, 1.0, 1.5, 2.4, 2.5, 15.0])
async def test_the_lease_never_says_less_than_what_is_counted_on(api: ApiClient, duration: float) -> None:
    await Elector(api, LeaseOptions("leader", "default", duration, renew_interval=1.0), "one", HeldClock()).acquire()
    assert (await spec(api))["leaseDurationSeconds"] >= duration


async def test_a_lease_that_cannot_be_made_is_spoken_of(api: ApiClient, caplog: pytest.LogCaptureFixture) -> None:
    elector = Elector(api, LeaseOptions("leader", "no-such-namespace", 8.0, renew_interval=1.0), "one", HeldClock())
    assert not await elector._try()
    assert "no-such-namespace" in caplog.text


# Two of them, never both -------------------------------------------------------------------------------------------


class SimServer:
    """A Lease behind a network: requests take their time on the way there and back, and either half may fail."""

    def __init__(self, clock: HeldClock, rng: random.Random) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.clock = clock
        self.rng = rng
        self.cut_off_until = [0.0, 0.0]
        # What is usual for each: both ways fast, a slow way back, a slow way there, anything.
        self.ways = [rng.choice(((0.0, 0.0), (0.0, 0.9), (0.9, 0.0), None)) for _ in range(2)]

    async def request(self, who: int, method: str, body: Mapping[str, Any] | None, limit: float) -> ApiResponse:
        there, back = self.ways[who] or (self.rng.choice((0.0, 0.3, 4.0)), self.rng.choice((0.0, 0.3, 4.0)))
        await self._pass(min(there, limit))
        if there > limit or self._is_cut_off(who):
            raise ApiUnreachableError("dropped")
        answer = self._answer(method, body)
        await self._pass(min(back, limit - there))
        if there + back > limit or self._is_cut_off(who):
            raise ApiUnreachableError("lost")
        return answer

    def _is_cut_off(self, who: int) -> bool:
        return self.clock.time < self.cut_off_until[who]

    def _answer(self, method: str, body: Mapping[str, Any] | None) -> ApiResponse:
        if method == "GET" and self.lease is None:
            return ApiResponse(404, b"{}")
        if method != "GET":
            assert body is not None
            if self.lease is not None and body["metadata"].get("resourceVersion") != str(self.version):
                return ApiResponse(409, b"{}")
            self.version += 1
            self.lease = json.loads(json.dumps(body))
            assert self.lease is not None
            self.lease["metadata"]["resourceVersion"] = str(self.version)
        return ApiResponse(200, json.dumps(self.lease).encode())

    async def _pass(self, seconds: float) -> None:
        until = self.clock.time + seconds
        while self.clock.time < until:
            await asyncio.sleep(0)


@dataclass
class SimClient:
    """One process's way to the server, and its clock, which began elsewhere but runs as fast."""

    server: SimServer
    who: int
    offset: float

    async def request(
        self,
        method: str,
        _: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: float = 30.0,  # noqa: ASYNC109
    ) -> ApiResponse:
        """Send a request."""
        return await self.server.request(self.who, method, body, timeout)

    def monotonic(self) -> float:
        """Return seconds."""
        return self.server.clock.time + self.offset

    def now(self) -> datetime:
        """Return the time of day."""
        return self.server.clock.now()


async def live(seed: int, durations: tuple[float, float]) -> list[int]:
    """Let two electors compete for a minute; return who led, in order. Either is cut off from time to time."""
    rng, clock = random.Random(seed), HeldClock()
    server = SimServer(clock, rng)
    electors = []
    for who, duration in enumerate(durations):
        client = SimClient(server, who, 12345.0 * who)
        electors.append(Elector(client, LeaseOptions("leader", "default", duration, 1.0), str(who), client))  # type: ignore[arg-type]
    trying: list[asyncio.Task[bool] | None] = [None, None]
    led: list[int] = []
    for _ in range(600):
        for who, elector in enumerate(electors):
            task = trying[who]
            if (task is None or task.done()) and rng.random() < 0.4:
                trying[who] = asyncio.create_task(elector._try())
            if rng.random() < 0.02:
                server.cut_off_until[who] = clock.time + rng.choice((1.0, 6.0))
        for _ in range(4):
            await asyncio.sleep(0)
        leading = [who for who, elector in enumerate(electors) if elector.leading]
        assert len(leading) < 2, f"seed {seed}: both lead"
        if leading and led[-1:] != leading:
            led += leading
        clock.time += 0.1
    for task in trying:
        if task is not None:
            task.cancel()
    return led


@pytest.mark.parametrize("durations", [(3.0, 3.0), (2.4, 3.0), (2.5, 2.4), (1.2, 4.0)])
def test_two_never_lead_at_the_same_time(durations: tuple[float, float]) -> None:
    """Sixty lives of a minute each; leadership must change hands, or nothing was tested."""
    changes = 0
    for seed in range(60):
        changes += len(asyncio.run(live(seed, durations))) - 1
    assert changes > 20
