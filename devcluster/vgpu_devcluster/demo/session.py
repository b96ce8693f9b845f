"""Runs the demo from start to end, handles signals, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from importlib import import_module
from pathlib import Path

import click

from vgpu_devcluster.demo.cluster import DemoCluster, open_demo_cluster
from vgpu_devcluster.demo.output import Output
from vgpu_devcluster.demo.page import DemoPage
from vgpu_devcluster.demo.tenants import WAITING, create_tenants
from vgpu_devcluster.demo.walkthrough import STEPS, DemoFailure, Walkthrough

_LOOK_EVERY = 0.5
_SIGNALLED = 130


class Stopped(Exception):  # noqa: N818 - it is no failure
    """A signal asked the demo to stop."""


def run(output: Output, burst: int, *, log: Path | None, keep: bool, kubeconfig: Path | None) -> int:
    """Run the demo as :func:`run_demo` does, and return the exit code."""
    try:
        asyncio.run(run_demo(output, burst, log=log, keep=keep, kubeconfig=kubeconfig))
    except DemoFailure as failure:
        click.echo(f"FAILED: {failure}")
        return 1
    except Stopped:
        return _SIGNALLED
    return 0


async def run_demo(output: Output, burst: int, *, log: Path | None, keep: bool, kubeconfig: Path | None) -> None:
    """Run the steps, then keep the cluster until a signal arrives if ``keep`` is set.

    Parameters
    ----------
    burst
        Pods in a burst.
    log
        The file of the operator's log.
    kubeconfig
        Where to write the kubeconfig, which is removed at the end.

    Raises
    ------
    DemoFailure
        If a claim of a step does not hold.
    Stopped
        If a signal ends the demo.
    """
    stop = asyncio.Event()
    passed = f"OK {len(STEPS)}/{len(STEPS)}"
    with _signals(stop), contextlib.closing(output):
        async with open_demo_cluster(log, kubeconfig) as cluster:
            async with _followed(cluster, output):
                await _unless_stopped(stop, Walkthrough(output, burst).run(cluster))
                if keep:
                    click.echo(passed)
                    await _unless_stopped(stop, _fill(cluster))
            if keep:
                async with DemoPage(cluster.kubeconfig) as page:
                    await _unless_stopped(stop, page.start())
                    await _stay(cluster, page, output, stop)
    if not keep:
        click.echo(passed)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Make SIGINT and SIGTERM set an event, so that everything is stopped in order."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _unless_stopped(stop: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """Wait for a coroutine, or raise if the stop signal arrives first."""
    working = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Stopped
        working.result()
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.gather(working, stopped, return_exceptions=True)


@contextlib.asynccontextmanager
async def _followed(cluster: DemoCluster, output: Output) -> AsyncIterator[None]:
    """Show the fleet as it changes during the block."""

    async def follow() -> None:
        while True:
            output.follow(await cluster.look())
            await asyncio.sleep(_LOOK_EVERY)

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _fill(cluster: DemoCluster) -> None:
    try:
        await create_tenants(cluster)
    except (TimeoutError, RuntimeError) as error:
        raise DemoFailure(f"the cluster to keep: {error}") from error


async def _stay(cluster: DemoCluster, page: DemoPage, output: Output, stop: asyncio.Event) -> None:
    """Print how to reach the cluster, and show changes until it is stopped."""
    output.title("the cluster is ready to use")
    for line in _ways_in(cluster.kubeconfig, page):
        output.say(line)
    while not stop.is_set():
        output.watch(await cluster.look())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY):
                await stop.wait()


def _ways_in(kubeconfig: Path, page: DemoPage) -> list[str]:
    namespace, name = WAITING[0].split("/")
    window = [f"see it in a browser: {page.address}"]
    if page.trouble:
        window = [f"the page could not be started: {page.trouble}"]
    asks = [
        "kubectl get pods -A -o wide",
        f"kubectl describe pod -n {namespace} {name}",
        f"vgpu-scheduler explain pod {namespace}/{name}",
        "vgpu-scheduler top",
        "vgpu-scheduler doctor    # no admission policy guards an embedded API server: it says so",
    ]
    return [
        *window,
        f"export KUBECONFIG={kubeconfig}",
        "and then, for instance:",
        *(f"  {ask}" for ask in asks),
        f"Ctrl-C, or kill {os.getpid()}, ends the cluster and removes its files",
    ]


def output_for(*, plain: bool) -> Output:
    """Return the output for a terminal, or plain lines for anything else."""
    if plain or not sys.stdout.isatty():
        return Output()
    terminal = import_module("vgpu_devcluster.demo.terminal")  # its library is for terminals only
    output: Output = terminal.on_terminal()
    return output
