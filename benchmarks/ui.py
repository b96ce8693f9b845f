"""What the page costs on a large cluster: its first look, an update, its memory, open pages, and what a tenant sees.

``vgpu-scheduler ui`` runs as a process of its own, once for a laptop and once for those who log in. What stands for the
API server lists a made-up cluster, and tells what happens there.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import aiohttp
from tests.apiserver.control_plane import free_ports

from benchmarks.cluster import CARDS, node_name, until
from benchmarks.footprint import resident
from benchmarks.page import publish
from benchmarks.ui_snapshot import (
    NODES,
    OTHER_MODEL,
    PODS,
    TENANT,
    WAITING,
    MadeUp,
    bound,
    budget,
    made_up,
)
from vgpu_devcluster import equip

MARK: Final = "<!-- ui -->"
STREAMS: Final = 50
EVENTS: Final = 40
"""Pods that are bound, one after the other."""
LOOKS: Final = 5
"""Times that each page is asked for, each after something has changed."""
PAUSE: Final = 0.4
"""Seconds between two events: streams tell each other one a quarter of a second later."""
_PODS: Final = "/api/v1/pods"
_BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"
_COMMAND: Final = (sys.executable, "-m", "vgpu_scheduler", "ui")
_WITHIN: Final = 60.0
_NEW: Final = count()
"""Numbers of pods that are bound: the dead stay dead."""
PAGES: Final = {
    "Now": "/",
    "Cards": "/cards",
    f"Cards, the {NODES * len(CARDS) // 10:,} of one model": f"/cards?model={OTHER_MODEL}",
    "Waiting": "/waiting",
    "Namespaces": "/namespaces",
}


@dataclass(frozen=True, slots=True)
class PageFigures:
    """What the page costs.

    Attributes
    ----------
    reading
        Seconds from the start of the process until it serves.
    first
        Milliseconds of the first page after that.
    updates
        Milliseconds from an event of a pod until the page of its card names the pod, while all streams are open.
    told
        Milliseconds from an event until all streams are told and have loaded their page.
    anew
        Milliseconds that a page took at most after the status of a disruption budget had changed: all is computed anew.
    steady, peak
        MiB that are resident, and were at most.
    looks, tenants
        Milliseconds of each page, half of them: of somebody who sees all, and of a tenant.
    logged_in
        MiB that are resident of the page for those who log in.
    """

    reading: float
    first: float
    updates: Sequence[float]
    told: Sequence[float]
    anew: Sequence[float]
    steady: float
    peak: float
    looks: dict[str, float]
    tenants: dict[str, float]
    logged_in: float


class Served:
    """A page as a process.

    Attributes
    ----------
    home
        Where it is.
    pid
        Its process.
    reading
        Seconds until it was served.
    """

    def __init__(self, http: aiohttp.ClientSession, home: str, pid: int, reading: float) -> None:
        self.http = http
        self.home = home
        self.pid = pid
        self.reading = reading

    async def get(self, path: str) -> str:
        """Return a page.

        Raises
        ------
        RuntimeError
            If there is none.
        """
        async with self.http.get(f"{self.home}{path}") as answer:
            text = await answer.text()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {text[-500:]}")
            return text

    async def timed(self, path: str) -> float:
        """Return how many milliseconds a page takes."""
        began = time.perf_counter()
        await self.get(path)
        return 1000.0 * (time.perf_counter() - began)

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[asyncio.Queue[float]]:
        """Open a stream; yield when what was told."""
        told: asyncio.Queue[float] = asyncio.Queue()

        async def follow() -> None:
            async with self.http.get(f"{self.home}/events", timeout=aiohttp.ClientTimeout(total=None)) as answer:
                async for line in answer.content:
                    if line.startswith(b"data:"):
                        told.put_nowait(time.perf_counter())

        following = asyncio.create_task(follow())
        try:
            await told.get()  # what it is told first is how it is now
            yield told
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@asynccontextmanager
async def _process(kubeconfig: Path, log: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [*_COMMAND, "--kubeconfig", str(kubeconfig), *options]
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*command, stdout=file, stderr=file, env={**os.environ})
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def on_laptop(kubeconfig: Path, folder: Path) -> AsyncIterator[Served]:
    """Serve the page to one who sees all."""
    log, began = folder / "laptop.log", time.perf_counter()
    async with _process(kubeconfig, log) as process:

        async def printed() -> str | None:
            found = re.search(r"http://\S+key=\S+", log.read_text())
            return found[0] if found else None

        address = await until(printed, log.read_text, _WITHIN, 0.01)
        reading = time.perf_counter() - began
        connector, jar = aiohttp.TCPConnector(limit=0), aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as http:
            async with http.get(address, allow_redirects=False):
                pass
            yield Served(http, address.partition("/?")[0], process.pid, reading)


@asynccontextmanager
async def for_tenants(kubeconfig: Path, folder: Path) -> AsyncIterator[Served]:
    """Serve the page to a tenant."""
    (port,) = free_ports(1)
    home, log, began = f"http://127.0.0.1:{port}", folder / "tenants.log", time.perf_counter()
    async with (
        _process(kubeconfig, log, "--listen", f"127.0.0.1:{port}") as process,
        aiohttp.ClientSession(headers={"Authorization": "Bearer tenant"}) as http,
    ):

        async def answered() -> bool | None:
            try:
                async with http.get(f"{home}/static/style.css") as answer:
                    return answer.status == 200 or None
            except aiohttp.ClientError:
                return None

        await until(answered, log.read_text, _WITHIN, 0.1)
        yield Served(http, home, process.pid, time.perf_counter() - began)


async def measure() -> PageFigures:
    """Measure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with made_up(folder) as (cluster, kubeconfig):
            async with on_laptop(kubeconfig, folder) as page:
                first = await page.timed("/")
                looks = await _looks(page, cluster)
                updates, told = await _updates(page, cluster)
                anew = await _anew(page, cluster)
                steady, peak = resident(page.pid)
                reading = page.reading
            async with for_tenants(kubeconfig, folder) as page:
                tenants = await _looks(page, cluster)
                logged_in, _ = resident(page.pid)
    return PageFigures(reading, first, updates, told, anew, steady, peak, looks, tenants, logged_in)


async def _looks(page: Served, cluster: MadeUp) -> dict[str, float]:
    """Return how long pages take that nobody has looked at since something has changed."""
    found = {}
    for name, path in PAGES.items():
        samples = []
        for _ in range(LOOKS):
            async with page.stream() as told:
                number = next(_NEW)
                cluster.tell(_PODS, "ADDED", bound(number, number))
                await asyncio.wait_for(told.get(), _WITHIN)
                samples.append(await page.timed(path))
                cluster.tell(_PODS, "DELETED", bound(number, number))
                await asyncio.wait_for(told.get(), _WITHIN)
        found[name] = statistics.median(samples)
    return found


async def _updates(page: Served, cluster: MadeUp) -> tuple[list[float], list[float]]:
    """Return how long it takes until a page says what has happened, and until all that are open do."""
    updates: list[float] = []
    all_told: list[float] = []
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(page.stream()) for _ in range(STREAMS)]
        for turn in range(EVENTS):
            await asyncio.sleep(PAUSE)
            for stream in streams:
                while not stream.empty():
                    stream.get_nowait()
            number = next(_NEW)
            path, pod = _card(number), f"{TENANT}/new-{number}"
            began = time.perf_counter()
            cluster.tell(_PODS, "ADDED", bound(number, number))
            if turn % 2:
                updates.append(1000.0 * (await _shown(page, streams[0], path, pod) - began))
            else:
                shown = await asyncio.gather(*(_shown(page, stream, path, pod) for stream in streams))
                all_told.append(1000.0 * (max(shown) - began))
    return updates, all_told


async def _shown(page: Served, stream: asyncio.Queue[float], path: str, text: str) -> float:
    """Return when a page has a text that is loaded again whenever its stream tells of something."""
    while True:
        await asyncio.wait_for(stream.get(), _WITHIN)
        if text in await page.get(path):
            return time.perf_counter()


def _card(number: int) -> str:
    """Return the page of the card that a new pod is bound to."""
    node = node_name(1, NODES)
    return f"/cards/{node}/{equip(node, CARDS)[number % len(CARDS)].uuid}"


async def _anew(page: Served, cluster: MadeUp) -> list[float]:
    """Return how long a page takes that is asked for when the status of a disruption budget has changed."""
    samples = []
    for version in range(2, 2 + LOOKS):
        cluster.tell(_BUDGETS, "MODIFIED", budget(version))
        began, most = time.perf_counter(), 0.0
        while time.perf_counter() < began + 3.0:
            most = max(most, await page.timed(_card(0)))
            await asyncio.sleep(0.01)
        samples.append(most)
    return samples


def text(found: PageFigures) -> str:
    """Return the tables in Markdown."""
    update, told = (statistics.quantiles(samples, n=100) for samples in (found.updates, found.told))
    rows = [
        ("from the start until it serves", f"{found.reading:.1f} s", "", True),
        ("the first page after that", f"{found.first:,.0f} ms", "< 1 s", found.first < 1000.0),
        ("from a pod's event until its page says so, p50", f"{update[49]:.0f} ms", "< 100 ms", update[49] < 100.0),
        ("the same, p99", f"{update[98]:.0f} ms", "< 100 ms", update[98] < 100.0),
        (f"until {STREAMS} open pages say so, p50", f"{told[49]:.0f} ms", "", True),
        ("the same, p99", f"{told[98]:.0f} ms", "", True),
        ("a page that is open, while all is computed anew, at most", f"{max(found.anew):,.0f} ms", "", True),
        ("resident", f"{found.steady:,.0f} MiB", "< 400 MiB", found.steady < 400.0),
        ("at most", f"{found.peak:,.0f} MiB", "", True),
        ("resident, of the page for those who log in", f"{found.logged_in:,.0f} MiB", "", True),
    ]
    cluster = f"{NODES:,} nodes × {len(CARDS)} cards, {PODS:,} pods, {WAITING:,} more wait"
    lines = [f"| {cluster} | measured | aim | |", "|---|---|---|---|"]
    for what, value, aim, met in rows:
        lines.append(f"| {what} | {value} | {aim} | {('met' if met else '**missed**') if aim else ''} |")
    lines += ["", "| a page that shows something new, p50 | to one who sees all | to a tenant |", "|---|---|---|"]
    lines += [f"| {name} | {took:.0f} ms | {found.tenants[name]:.0f} ms |" for name, took in found.looks.items()]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    publish(MARK, text(asyncio.run(measure())))


if __name__ == "__main__":
    main()
