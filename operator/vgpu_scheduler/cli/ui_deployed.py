"""Serves ``vgpu-scheduler ui --listen`` to users who log in."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from vgpu_scheduler.cli.cluster.world import exit_on_error
from vgpu_scheduler.cli.page_memory import give_back, settle
from vgpu_scheduler.cli.ui import held_in
from vgpu_scheduler.reading import ClusterOptions, PrometheusServer, connect_to
from vgpu_scheduler.runtime.collecting import collect_less_often
from vgpu_scheduler.settings import parse_address
from vgpu_scheduler.telemetry import is_local
from vgpu_scheduler.telemetry.logs import configure
from vgpu_scheduler.ui import Ask, LiveCluster, Names, PageSetup, serve_guarded
from vgpu_scheduler.ui.access import (
    Certificate,
    CertificateError,
    DeployedGuard,
    PageAddresses,
    Proxies,
    Reviews,
    SecretError,
)

log = logging.getLogger(__name__)

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1")
_STOPPED: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Served:
    """How the page is served."""

    address: tuple[str, int]
    doors: PageAddresses
    certificate: Certificate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """The options of the command."""

    listen: str
    hosts: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_at_proxy: bool = False
    user_header: str | None = None
    group_header: str = ""
    secret_file: Path | None = None


def run(*, cluster: ClusterOptions, prometheus: PrometheusServer | None = None, **options: Any) -> None:
    """Serve the page until the process is told to stop."""
    served = served_as(ServingOptions(**options))
    configure("INFO", "text", sys.stderr)
    with exit_on_error():
        uvloop.run(_until_stopped(cluster, served, held_in(prometheus)))


def served_as(asked: ServingOptions) -> Served:
    """Return how the page is served, given the options.

    Raises
    ------
    click.UsageError
        If that is impossible, or would expose tokens.
    """
    host, port = _address(asked.listen)
    on_loopback = host == "localhost" or is_local(host)
    certificate = _certificate(asked)
    if certificate is None and not (asked.tls_at_proxy or on_loopback):
        raise click.UsageError(
            f"--listen {asked.listen}: tokens would be sent over the network unencrypted: name --tls-cert and "
            "--tls-key, or"
            " say by --tls-at-proxy that a proxy in front of it terminates TLS"
        )
    if not asked.hosts and not on_loopback:
        raise click.UsageError("--host: name the hosts under which browsers ask for the page")
    named = frozenset({*(name.lower() for name in asked.hosts), *(f"{name}:{port}" for name in _LOOPBACK_NAMES)})
    is_tls = certificate is not None or asked.tls_at_proxy
    return Served((host, port), PageAddresses(named, is_tls=is_tls, proxies=_proxies(asked)), certificate)


def _certificate(asked: ServingOptions) -> Certificate | None:
    if asked.tls_cert is None and asked.tls_key is None:
        return None
    if asked.tls_cert is None or asked.tls_key is None:
        raise click.UsageError("--tls-cert and --tls-key must be given together")
    if asked.tls_at_proxy:
        raise click.UsageError("--tls-at-proxy: leave out the certificate, or this option")
    try:
        return Certificate(asked.tls_cert, asked.tls_key)
    except CertificateError as error:
        raise click.UsageError(str(error)) from None


def _address(listen: str) -> tuple[str, int]:
    try:
        host, port = parse_address(listen)
    except ValueError:
        port = 0
    if not port:
        raise click.UsageError(f"--listen: {listen!r} is not ADDRESS:PORT")
    return host, port


def _proxies(asked: ServingOptions) -> Proxies | None:
    user_header, secret_file = asked.user_header, asked.secret_file
    if user_header is None and not asked.group_header and secret_file is None:
        return None
    if user_header is None or secret_file is None:
        raise click.UsageError(
            "--proxy-user-header and --proxy-secret-file must be given together: any client that reaches the "
            "page can send a header"
        )
    found = Proxies(user_header, asked.group_header, secret_file)
    try:
        found.secret()
    except SecretError as error:
        raise click.UsageError(f"--proxy-secret-file: {error}") from None
    return found


async def _until_stopped(cluster: ClusterOptions, served: Served, held: Ask | None) -> None:
    stopped = asyncio.Event()
    for number in _STOPPED:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    serving = asyncio.create_task(_serve(cluster, served, held))
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    for task in (serving, waiting):
        task.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def _serve(cluster: ClusterOptions, served: Served, held: Ask | None) -> None:
    collect_less_often()
    async with await connect_to(cluster) as api:
        names = Names()
        live = LiveCluster(api, cluster, names, settle=settle)
        log.info("reading the cluster")
        current = await live.open()
        guard = DeployedGuard(Reviews(api), served.doors, names, live.namespaces)
        context = served.certificate.context if served.certificate is not None else None
        window = PageSetup(current, live.view, look=live.doctor_input, held=held)
        runner = await serve_guarded(window, guard, served.address, context)
        log.info("the page is served on %s", ", ".join(sorted(map(str, runner.addresses))))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(live.run())
                tasks.create_task(give_back())
                if served.certificate is not None:
                    tasks.create_task(served.certificate.follow())
        finally:
            await runner.cleanup()
            current.close()
