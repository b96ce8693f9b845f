"""Pages tell more than health and metrics, and are for the same machine."""

from __future__ import annotations

import socket
from collections.abc import Callable

import aiohttp
import pytest

from vgpu_scheduler.settings import Settings, setting_infos
from vgpu_scheduler.telemetry import Health, Metrics, catalogue, serve
from vgpu_scheduler.telemetry.server import is_local


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False), ("0.0.0.0", False), ("::ffff:10.0.0.7", False), ("fe80::1", False), ("", False),
        (None, False), ("localhost", False),
    ],
)  # fmt: skip
def test_who_is_on_the_same_machine(address: str | None, *, local: bool) -> None:
    assert is_local(address) is local


def own_address() -> str:
    """Return an address of this machine that is not its loopback, empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return ""
        return str(probe.getsockname()[0])


async def test_pages_are_refused_to_others_and_metrics_are_not() -> None:
    async def page() -> object:
        return {"settings": 1}

    health = Health(lambda: "", lambda: "")
    runner, port = await serve([("0.0.0.0", 0)], health, Metrics(), {"/configz": page})
    address = own_address()
    told = {"127.0.0.1": 200, **({address: 403} if address and not is_local(address) else {})}
    try:
        async with aiohttp.ClientSession() as session:
            for host, code in told.items():
                async with session.get(f"http://{host}:{port}/configz") as answer:
                    assert (answer.status, "settings" in await answer.text()) == (code, code == 200)
                async with session.get(f"http://{host}:{port}/metrics") as answer:
                    assert answer.status == 200
    finally:
        await runner.cleanup()


async def test_some_metrics_alone_are_read_and_shown() -> None:
    metrics, read = Metrics(), []

    def reads(name: str) -> Callable[[], float]:
        return lambda: float(len(read.append(name) or read))

    metrics.add_number(catalogue.LEADER, reads("leader"))
    metrics.add_number(catalogue.KOPF_RESTARTS, reads("restarts"))
    metrics.add_number(catalogue.NODES, reads("nodes"))
    metrics.attempts.decided(0.001)
    more = ["hami_metric 1\n"]
    health = Health(lambda: "", lambda: "")
    runner, port = await serve([("127.0.0.1", 0)], health, metrics, {}, lambda: iter(more))
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

            async def shown(*names: str) -> dict[str, float]:
                query = [("name[]", name) for name in names]
                async with session.get("/metrics", params=query) as answer:
                    text = await answer.text()
                lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
                return {name: float(value) for name, value in lines}

            assert await shown("vgpu_scheduler_leader") == {"vgpu_scheduler_leader": 1.0}
            wanted = ("vgpu_scheduler_kopf_restarts_total", "vgpu_scheduler_nodes", "process_cpu_seconds_total")
            assert (await shown(*wanted)).keys() == {wanted[0], wanted[2]}  # a number of the cluster: nobody leads
            metrics.leads = lambda: True
            assert (await shown(*wanted)).keys() == set(wanted)
            assert (await shown("scheduler_scheduling_algorithm_duration_seconds_count")).popitem()[1] == 1.0
            assert await shown("unknown") == {}
            assert sorted(read) == ["leader", "nodes", "restarts", "restarts"]
            assert {"hami_metric", *wanted} <= (await shown()).keys()
    finally:
        await runner.cleanup()


def test_what_tells_more_is_off_unless_asked_for() -> None:
    settings = Settings()
    assert not settings.debug_endpoints
    assert not settings.admission.enabled
    assert not settings.hami_metrics


def test_no_setting_holds_a_secret() -> None:
    """What the page of settings shows: names, numbers, and where files are."""
    secret = ("password", "token", "secret", "credential")
    names = [".".join(info.path) for info in setting_infos()]
    assert "admission.key_file" in names
    assert not [name for name in names if any(word in name for word in secret)]
