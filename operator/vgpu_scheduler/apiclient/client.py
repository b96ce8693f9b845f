"""Requests to the API server, with bodies as plain dictionaries.

kubernetes-asyncio finds the cluster (kubeconfig or service account) and refreshes the token. Requests go through one
aiohttp session instead of its generated client, which looks up proxies and netrc files for every call at three to
five times the cost of the request itself.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException as ConfigException  # noqa: PLC0414  # for whoever asks a cluster
from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from vgpu_scheduler.kube import loads

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of lists that contain only the metadata of objects."""

NO_ANSWER = "<error>"
"""The status code, in counts, of requests without an answer; client-go's word."""
_CONNECTIONS = 128
_LONGEST_PAUSE = 30.0
"""The longest pause in seconds that the server may ask for; API servers ask for a few seconds, proxies for any."""
_DEFAULT_NAMESPACE = "default"
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""An environment variable that is set in every container of a cluster."""


_ENCODER = msgspec.json.Encoder()


def _encoded(body: object) -> bytes:
    """Return a body as JSON."""
    try:
        return _ENCODER.encode(body)
    except (TypeError, ValueError):  # lone surrogates, which the standard library can encode
        return json.dumps(body, separators=(",", ":")).encode()


@lru_cache
def _within(seconds: float) -> aiohttp.ClientTimeout:
    """Return a timeout; cached, because few different ones are in use."""
    return aiohttp.ClientTimeout(total=seconds)


class ApiUnreachableError(Exception):
    """There was no answer: the connection failed or timed out, and a write may or may not have happened."""


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, response: ApiResponse) -> None:
        super().__init__(response.refusal)
        self.response = response


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """An answer of the API server."""

    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds that the server asks to wait (429 and 503), 30 at most; None if it does not say."""
    date: str = ""
    """The server's time of day (header ``Date``); empty if it does not say."""

    @property
    def ok(self) -> bool:
        """Whether the request was carried out."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def time(self) -> datetime | None:
        """The server's time of day; None if it does not say."""
        try:
            return parsedate_to_datetime(self.date).astimezone(UTC)
        except (ValueError, TypeError):
            return None

    def json(self) -> Any:
        """Return the body of the answer, decoded from JSON."""
        return loads(self.body)

    @property
    def message(self) -> str:
        """The message of the ``Status`` object in a refusal, or the beginning of another body."""
        try:
            decoded = self.json()
        except ValueError:
            return self.body[:200].decode(errors="replace")
        return str(decoded.get("message", "")) if isinstance(decoded, dict) else ""

    @property
    def refusal(self) -> str:
        """The status and the message of a refusal."""
        return f"{self.status}: {self.message}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """How the API server is reached; kopf logs in with the same."""

    configuration: Configuration

    @property
    def server(self) -> str:
        """Base address."""
        return str(self.configuration.host)

    async def token(self) -> str | None:
        """Return the current bearer token (service account tokens are replaced on disk)."""
        header = await self.configuration.get_api_key_with_prefix("BearerToken")
        return header.removeprefix("Bearer ") if header else None

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP."""
        if not self.server.startswith("https"):
            return None
        context = ssl.create_default_context(cafile=self.configuration.ssl_ca_cert)
        if self.configuration.cert_file:
            context.load_cert_chain(self.configuration.cert_file, keyfile=self.configuration.key_file)
        if not self.configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


async def connect(kubeconfig: str | None, context: str | None, user_agent: str) -> ApiClient:
    """Open a client.

    Parameters
    ----------
    kubeconfig
        A kubeconfig file; None for the files in ``KUBECONFIG`` or the default one, and if none of them exists, for
        the service account inside a cluster.
    context
        A context of the kubeconfig; None for its current context.
    user_agent
        The user agent in audit logs.

    Raises
    ------
    ConfigException
        If no usable configuration is found.
    """
    configuration = Configuration()
    if kubeconfig is None and context is None and not _kubeconfigs():
        if not os.environ.get(_IN_CLUSTER):
            raise ConfigException(
                f"there is no kubeconfig ({KUBE_CONFIG_DEFAULT_LOCATION}), and this is not a pod of a cluster:"
                " name one with --kubeconfig"
            )
        await config.load_config(client_configuration=configuration)
    else:
        with _named(kubeconfig):
            await config.load_kube_config(kubeconfig, context=context, client_configuration=configuration)
    return ApiClient(Credentials(configuration), user_agent)


@contextmanager
def _named(kubeconfig: str | None) -> Iterator[None]:
    """Name the kubeconfig in errors about it; any other error while reading it means that it is no kubeconfig."""
    if kubeconfig is not None and not Path(kubeconfig).exists():
        raise ConfigException(f"kubeconfig {kubeconfig}: there is no such file")
    where = f"kubeconfig {kubeconfig or os.pathsep.join(map(str, _kubeconfigs()))}"
    try:
        yield
    except (yaml.YAMLError, ConfigException, UnicodeDecodeError) as error:
        raise ConfigException(f"{where}: {' '.join(str(error).split())}") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ConfigException(f"{where}: it is not a kubeconfig") from error


def _kubeconfigs() -> list[Path]:
    """Return the existing files among the default kubeconfigs."""
    named = (Path(path).expanduser() for path in KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep) if path)
    return [path for path in named if path.exists()]


def context_namespace(kubeconfig: str | None, context: str | None) -> str:
    """Return the namespace of a kubeconfig's context; ``default`` if it has none or there is no kubeconfig.

    Parameters
    ----------
    kubeconfig, context
        As for :func:`connect`.

    Raises
    ------
    ConfigException
        If the kubeconfig cannot be read.
    """
    if kubeconfig is None and not _kubeconfigs():
        return _DEFAULT_NAMESPACE
    with _named(kubeconfig):
        contexts, current = config.list_kube_config_contexts(kubeconfig)
    wanted = current if context is None else next((each for each in contexts if each.get("name") == context), None)
    return str(((wanted or {}).get("context") or {}).get("namespace") or _DEFAULT_NAMESPACE)


class ApiClient:
    """Sends requests; create it inside a running loop and close it.

    Parameters
    ----------
    credentials
        The address of the server and how to authenticate.
    user_agent
        The user agent in audit logs.
    observer
        Called with the method and path of every request, for counters.

    Attributes
    ----------
    answers
        Number of requests by method (``WATCH`` for watches) and status code; ``<error>`` if no answer came.
    """

    def __init__(
        self, credentials: Credentials, user_agent: str, observer: Callable[[str, str], None] | None = None
    ) -> None:
        self.credentials = credentials
        self.observer = observer
        self.answers: Counter[tuple[str, str]] = Counter()
        self._server = credentials.server.rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=credentials.ssl_context() or False),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            auto_decompress=True,
            read_bufsize=2**21,  # watch lines hold whole objects
        )

    async def __aenter__(self) -> Self:
        """Return the client; the end of the block closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        accept: str = "application/json",
        timeout: float = 30.0,  # noqa: ASYNC109 - a bound on one request, which aiohttp enforces
    ) -> ApiResponse:
        """Send one request and read its whole answer, whatever its status.

        Parameters
        ----------
        accept
            The media type of the answer.

        Raises
        ------
        ApiUnreachableError
            If no complete answer came within ``timeout`` seconds.
        """
        if self.observer:
            self.observer(method, path)
        data = None if body is None else _encoded(body)
        headers = {"Accept": accept, **await self._headers()}
        if data is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method,
                self._server + path,
                data=data,
                headers=headers,
                params=params,
                timeout=_within(timeout),
            ) as answer:
                date = answer.headers.get("Date", "")
                response = ApiResponse(answer.status, await answer.read(), _retry_after(answer.headers), date)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.answers[method, NO_ANSWER] += 1
            raise ApiUnreachableError(f"{method} {path}: {error or type(error).__name__}") from error
        self.answers[method, str(response.status)] += 1
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its lines.

        Raises
        ------
        ApiError
            If the server refuses the watch.
        ApiUnreachableError
            If the connection fails or nothing comes for ``idle_timeout`` seconds.
        """
        if self.observer:
            self.observer("WATCH", path)
        answered = False
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=idle_timeout)
        try:
            async with self._session.get(
                self._server + path, params=params, headers=await self._headers(), timeout=timeout
            ) as answer:
                self.answers["WATCH", str(answer.status)] += 1
                answered = True
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise ApiError(ApiResponse(answer.status, await answer.read(), _retry_after(answer.headers)))
                yield _lines(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not answered:  # a watch that breaks later is not a failed request
                self.answers["WATCH", NO_ANSWER] += 1
            raise ApiUnreachableError(f"WATCH {path}: {error or type(error).__name__}") from error

    async def _headers(self) -> dict[str, str]:
        token = await self.credentials.token()
        return {"Authorization": f"Bearer {token}"} if token else {}


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into lines of any length; drop an incomplete last line, which the server cut off."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
        await asyncio.sleep(0)  # a socket with much data must not block the loop


def served_version(response: ApiResponse) -> tuple[int, int] | None:
    """Return the major and minor version whose features an API server has; None if the ``/version`` answer lacks it.

    An emulated version (``--emulated-version``) takes precedence. Vendors' suffixes (``34+``) are dropped.
    """
    try:
        found = response.json() if response.ok else {}
        texts = (found.get("emulationMajor") or found["major"], found.get("emulationMinor") or found["minor"])
        major, minor = (int("".join(filter(str.isdigit, text))) for text in texts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return major, minor


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait, up to a limit; None if it names no number."""
    try:
        seconds = float(headers["Retry-After"])
    except (KeyError, ValueError):
        return None
    return min(max(seconds, 0.0), _LONGEST_PAUSE) if math.isfinite(seconds) else None
