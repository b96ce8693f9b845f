"""Queries to Prometheus, such as how much of cards the pods of namespaces have held."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp

from vgpu_scheduler.reading.answers import bounded_body, text_in
from vgpu_scheduler.reading.options import PrometheusServer
from vgpu_scheduler.whatif import HeldHours, InvalidObjectsError

T = TypeVar("T")

_GIBIBYTE_SECONDS: Final = "vgpu_scheduler_allocated_gibibyte_seconds_total"
_CARD_SECONDS: Final = "vgpu_scheduler_allocated_card_seconds_total"
_HOUR: Final = 3600.0
_TIMEOUT: Final = 60.0
"""Timeout of a request in seconds."""
_TOO_MANY_SAMPLES: Final = "too many samples"
"""What Prometheus says when a query exceeds its limit."""
_MOST_SHOWN: Final = 200
"""The most characters of Prometheus' error messages that are shown."""


class Sample(NamedTuple):
    """One series of a query result at one time.

    Attributes
    ----------
    labels
        The labels of the series.
    value
        Its finite value.
    """

    labels: Mapping[str, str]
    value: float


class TooManySamplesError(ValueError):
    """A query exceeds the server's limit of samples (``--query.max-samples``)."""


class Prometheus:
    """Queries a server with Prometheus' API.

    Parameters
    ----------
    session
        The HTTP session.
    server
        The server.
    """

    def __init__(self, session: aiohttp.ClientSession, server: PrometheusServer) -> None:
        self.select = server.select
        self._session = session
        self._url = f"{server.address.rstrip('/')}/api/v1/query"

    async def query(self, expression: str, at: float | None = None) -> list[Sample]:
        """Return the series of an instant query that have finite values.

        Parameters
        ----------
        expression
            The query in PromQL.
        at
            The evaluation time in seconds since the epoch; None for now.

        Raises
        ------
        TooManySamplesError
            If the query exceeds the server's limit of samples.
        ValueError
            If the server refuses, or its answer is not understood.
        """
        given = {"query": expression} if at is None else {"query": expression, "time": f"{at:.3f}"}
        async with self._session.get(self._url, params=given) as response:
            body = await bounded_body(response)
            if response.status != HTTPStatus.OK:
                why = text_in(body, "error") or f"{response.reason}"
                error = TooManySamplesError if _TOO_MANY_SAMPLES in why else ValueError
                raise error(f"it answers {response.status} {why}")
        try:
            found = [_sample(one) for one in json.loads(body)["data"]["result"]]
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError("the server there is not Prometheus, or its answer cannot be decoded") from error
        return [sample for sample in found if math.isfinite(sample.value)]


def _sample(series: Any) -> Sample:
    labels = {str(name): str(text) for name, text in series["metric"].items()}
    return Sample(labels, float(series["value"][1]))


def ask_prometheus(server: PrometheusServer, ask: Callable[[Prometheus], Awaitable[T]]) -> T:
    """Run a coroutine with a connection to Prometheus, and return its result.

    Parameters
    ----------
    server
        The server.

    Raises
    ------
    InvalidObjectsError
        If it cannot be queried, or its answer is not understood; the message names the address.
    """
    shown = f"--prometheus {_without_password(server.address)}"
    if not _is_of_server(server.address):
        raise InvalidObjectsError(f"{shown}: this is not the address of a server: write http://HOST:PORT")

    async def asked() -> T:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            return await ask(Prometheus(session, server))

    try:
        return asyncio.run(asked())
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        why = f"{error}" or type(error).__name__
        raise InvalidObjectsError(f"{shown}: {why[:_MOST_SHOWN]}") from None


def hours_in_prometheus(server: PrometheusServer, seconds: int) -> list[HeldHours]:
    """Return what pods have held in a last period by namespace and model, from Prometheus' counters.

    Raises
    ------
    InvalidObjectsError
        See :func:`ask_prometheus`.
    """

    async def ask(prometheus: Prometheus) -> list[HeldHours]:
        memory = await _increase(prometheus, _GIBIBYTE_SECONDS, seconds)
        cards = await _increase(prometheus, _CARD_SECONDS, seconds)
        return [
            HeldHours(*key, memory.get(key, 0.0) / _HOUR, cards.get(key, 0.0) / _HOUR)
            for key in sorted(memory.keys() | cards.keys())
        ]

    return ask_prometheus(server, ask)


async def _increase(prometheus: Prometheus, counter: str, seconds: int) -> dict[tuple[str, str], float]:
    """Return the increase of a counter, by namespace and model."""
    samples = await prometheus.query(f"sum by (namespace, model) (increase({prometheus.select(counter)}[{seconds}s]))")
    return {(labels.get("namespace", ""), labels.get("model", "")): value for labels, value in samples}


def _is_of_server(address: str) -> bool:
    """Tell whether an address is valid; errors about invalid ones would show the password in them."""
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _without_password(address: str) -> str:
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
