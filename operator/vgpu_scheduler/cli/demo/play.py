"""The demo from its beginning to its end: who watches, how it is stopped, and what it leaves: nothing."""

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

from vgpu_scheduler.cli.demo.scene import WAITING, set_scene
from vgpu_scheduler.cli.demo.show import Show
from vgpu_scheduler.cli.demo.stage import Stage, open_stage
from vgpu_scheduler.cli.demo.story import STEPS, Failure, Story
from vgpu_scheduler.cli.main import COMMANDS

_LOOK_EVERY = 0.5
_SIGNALLED = 130


class Stopped(Exception):  # noqa: N818 - it is no failure
    """Somebody asked the demo to end."""


def run(show: Show, burst: int, *, log: Path | None, keep: bool, kubeconfig: Path | None) -> int:
    """Play the demo as :func:`play` does, and return the exit code."""
    try:
        asyncio.run(play(show, burst, log=log, keep=keep, kubeconfig=kubeconfig))
    except Failure as failure:
        click.echo(f"FAILED: {failure}")
        return 1
    except Stopped:
        return _SIGNALLED
    return 0


async def play(show: Show, burst: int, *, log: Path | None, keep: bool, kubeconfig: Path | None) -> None:
    """Tell the story, and keep the cluster until a signal comes if that is asked for.

    Parameters
    ----------
    burst
        Pods in a burst.
    log
        Where the operator's log is kept.
    kubeconfig
        Where the way to the cluster is written; it is removed in the end.

    Raises
    ------
    Failure
        If a claim of the story does not hold.
    Stopped
        If a signal ends the story.
    """
    stop = asyncio.Event()
    passed = f"OK {len(STEPS)}/{len(STEPS)}"
    with _signals(stop), contextlib.closing(show):
        async with open_stage(log, kubeconfig) as stage:
            async with _followed(stage, show):
                await _unless(stop, Story(show, burst).tell(stage))
                if keep:
                    click.echo(passed)
                    await _unless(stop, _set(stage))
            if keep:
                await _stay(stage, show, stop)
    if not keep:
        click.echo(passed)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set an event, so that what was started is ended in order."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _unless(stop: asyncio.Event, telling: Coroutine[object, object, None]) -> None:
    """Wait for something, or for the signal to stop it."""
    told = asyncio.create_task(telling)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((told, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            raise Stopped
        told.result()
    finally:
        for task in (told, stopped):
            task.cancel()
        await asyncio.gather(told, stopped, return_exceptions=True)


@contextlib.asynccontextmanager
async def _followed(stage: Stage, show: Show) -> AsyncIterator[None]:
    """Let the show follow the fleet for the time of a block."""

    async def follow() -> None:
        while True:
            show.follow(await stage.look())
            await asyncio.sleep(_LOOK_EVERY)

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _set(stage: Stage) -> None:
    try:
        await set_scene(stage)
    except (TimeoutError, RuntimeError) as error:
        raise Failure(f"the cluster to keep: {error}") from error


async def _stay(stage: Stage, show: Show, stop: asyncio.Event) -> None:
    """Say how to get to the cluster, and tell what changes until it ends."""
    show.title("the cluster is yours")
    for line in _ways_in(stage.kubeconfig):
        show.say(line)
    while not stop.is_set():
        show.watch(await stage.look())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_EVERY)


def _ways_in(kubeconfig: Path) -> list[str]:
    namespace, name = WAITING[0].split("/")
    asks = [
        "kubectl get pods -A -o wide",
        f"kubectl describe pod -n {namespace} {name}",
        *([f"vgpu-scheduler explain pod {namespace}/{name}"] if "explain" in COMMANDS else []),
        *(["vgpu-scheduler top"] if "top" in COMMANDS else []),
        "vgpu-scheduler doctor",
    ]
    return [
        f"export KUBECONFIG={kubeconfig}",
        "and then, for instance:",
        *(f"  {ask}" for ask in asks),
        f"Ctrl-C, or kill {os.getpid()}, ends the cluster and removes its files",
    ]


def show_for(*, plain: bool) -> Show:
    """Return a show for whoever is at the other end of the output."""
    if plain or not sys.stdout.isatty():
        return Show()
    painted = import_module("vgpu_scheduler.cli.demo.painted")  # its library is for terminals only
    show: Show = painted.on_terminal()
    return show
