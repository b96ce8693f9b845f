"""Serves ``vgpu-scheduler ui`` on this machine."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

import click
import uvloop

from vgpu_scheduler.cli.cluster.messages import progress
from vgpu_scheduler.cli.cluster.world import announce_compiling, exit_on_error, open_world
from vgpu_scheduler.cli.page_memory import give_back, settle
from vgpu_scheduler.doctor import DoctorInput
from vgpu_scheduler.reading import (
    ClusterOptions,
    PrometheusServer,
    connect_to,
    doctor_input_of_view,
    hours_in_prometheus,
)
from vgpu_scheduler.runtime.collecting import collect_less_often
from vgpu_scheduler.ui import Ask, CurrentWorld, LiveCluster, PageSetup, serve
from vgpu_scheduler.whatif import HeldHours


def run(*, cluster: ClusterOptions, port: int, prometheus: PrometheusServer | None = None) -> None:
    """Serve the page until Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes that a script starts with & ignore SIGINT
    with exit_on_error():
        if cluster.files:
            world, view = open_world(cluster, keeping=True)

            async def look() -> DoctorInput:
                return await asyncio.to_thread(doctor_input_of_view, view, cluster.scheduler_namespace)

            window = PageSetup(CurrentWorld(world, view), lambda: view, look=look, held=held_in(prometheus))
            uvloop.run(_serve(window, port))
        else:
            uvloop.run(_follow(cluster, port, held_in(prometheus)))


def held_in(prometheus: PrometheusServer | None) -> Ask | None:
    """Return a function that asks Prometheus for usage; None if there is none."""
    if prometheus is None:
        return None

    async def held(seconds: int) -> Sequence[HeldHours]:
        return await asyncio.to_thread(hours_in_prometheus, prometheus, seconds)

    return held


async def _follow(cluster: ClusterOptions, port: int, held: Ask | None) -> None:
    """Serve the page of a live cluster."""
    collect_less_often()
    async with await connect_to(cluster) as api:
        progress("reading the cluster")
        announce_compiling()
        live = LiveCluster(api, cluster, settle=settle)
        current = await live.open()
        progress("")
        following = asyncio.create_task(live.run())
        giving_back = asyncio.create_task(give_back())
        window = PageSetup(current, live.view, live.deletable, live.doctor_input, held)
        serving = asyncio.create_task(_serve(window, port))
        try:
            await asyncio.wait({following, serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (following, giving_back, serving):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await serving
        await following


async def _serve(window: PageSetup, port: int) -> None:
    """Serve until cancelled."""
    runner, address = await serve(window, port)
    click.echo(f"Open this in a browser; no other user can see the page:\n\n  {address}\n\nCtrl-C ends it.")
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        window.current.close()
