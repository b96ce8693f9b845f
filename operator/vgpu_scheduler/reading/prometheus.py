"""What Prometheus knows of namespaces: how much of cards their pods have held."""

from __future__ import annotations

import asyncio
import json
import math
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from vgpu_scheduler.reading.answers import bounded_body, text_in
from vgpu_scheduler.whatif import HeldHours, WorldError

__all__ = ["hours_in_prometheus"]

_GIBIBYTE_SECONDS: Final = "vgpu_scheduler_allocated_gibibyte_seconds_total"
_CARD_SECONDS: Final = "vgpu_scheduler_allocated_card_seconds_total"
_HOUR: Final = 3600.0
_TIMEOUT: Final = 30.0
"""Seconds that an answer may take."""
_MOST_SHOWN: Final = 200
"""Characters of what Prometheus says is wrong."""


def hours_in_prometheus(address: str, seconds: int) -> list[HeldHours]:
    """Return what pods have held in the last seconds by namespace and model, as Prometheus adds up the counters.

    Parameters
    ----------
    address
        Where Prometheus is, as ``http://127.0.0.1:9090``; a path in front of ``/api`` is kept.

    Raises
    ------
    WorldError
        If it cannot be asked, or its answer is not understood; the message names the address.
    """
    if not _is_of_server(address):
        told = "this is no address of a server: write http://HOST:PORT"
        raise WorldError(f"--prometheus {_without_password(address)}: {told}")
    try:
        return asyncio.run(_hours(address.rstrip("/"), seconds))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        why = f"{error}" or type(error).__name__
        raise WorldError(f"--prometheus {_without_password(address)}: {why[:_MOST_SHOWN]}") from None


async def _hours(address: str, seconds: int) -> list[HeldHours]:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
        memory = await _increase(session, address, _GIBIBYTE_SECONDS, seconds)
        cards = await _increase(session, address, _CARD_SECONDS, seconds)
    return [
        HeldHours(*key, memory.get(key, 0.0) / _HOUR, cards.get(key, 0.0) / _HOUR)
        for key in sorted(memory.keys() | cards.keys())
    ]


async def _increase(
    session: aiohttp.ClientSession, address: str, counter: str, seconds: int
) -> dict[tuple[str, str], float]:
    """Return by how much a counter has grown, by namespace and model."""
    query = f"sum by (namespace, model) (increase({counter}[{seconds}s]))"
    async with session.get(f"{address}/api/v1/query", params={"query": query}) as response:
        body = await bounded_body(response)
        if response.status != HTTPStatus.OK:
            raise ValueError(f"it answers {response.status} {text_in(body, 'error') or response.reason}")
    try:
        series = json.loads(body)["data"]["result"]
        found = {
            (str(one["metric"].get("namespace", "")), str(one["metric"].get("model", ""))): float(one["value"][1])
            for one in series
        }
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError("what answers there is no Prometheus, or not one that is understood") from error
    return {key: value for key, value in found.items() if math.isfinite(value)}


def _is_of_server(address: str) -> bool:
    """Tell whether an address can be asked; errors about others would show the password that stands in it."""
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _without_password(address: str) -> str:
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
