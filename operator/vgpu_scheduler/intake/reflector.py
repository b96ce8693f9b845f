"""Pods of other schedulers, through a light read-only stream: they only count, so only what counts is decoded.

An API server ends the watches of clients that fall behind; the stream then resumes from the last resource version. Only
when that is too old it lists again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError
from vgpu_scheduler.intake.sink import Sink
from vgpu_scheduler.kube import (
    DecodeError,
    Node,
    Pod,
    decode_node_list,
    decode_pod_event,
    decode_pod_list,
)

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

_PAGE = 500
_GONE = 410
_WATCH_SECONDS = 290
_IDLE_TIMEOUT = 120.0
"""Seconds without a byte, bookmarks included, after which the connection counts as dead."""
_LONGEST_DELAY = 10.0

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


class PodReflector:
    """Lists and watches the pods that name none of our scheduler names.

    Parameters
    ----------
    lost_track
        Called when deletions may have been missed.
    """

    def __init__(self, api: ApiClient, sink: Sink, ours: Iterable[str], lost_track: Callable[[], None]) -> None:
        self._api = api
        self._sink = sink
        self._selector = ",".join(f"spec.schedulerName!={name}" for name in sorted(ours))
        self._lost_track = lost_track
        self._listed_before = False

    async def run(self) -> None:
        """List and watch until cancelled."""
        version = ""
        delay = 0.2
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._watch(version)
                delay = 0.2
            except ApiError as error:
                if error.response.status == _GONE:
                    version = ""
                log.warning("pods of other schedulers: %s", error)
                await asyncio.sleep(error.response.retry_after or delay)
                delay = min(delay * 2, _LONGEST_DELAY)
            except ApiUnreachableError as error:
                log.warning("pods of other schedulers: %s", error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_DELAY)
            except Exception:  # whatever it is, these pods must go on to count
                log.exception("pods of other schedulers: the stream broke off and begins anew")
                version = ""
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_DELAY)

    async def _list(self) -> str:
        pods, version = await list_all_pods(self._api, {"fieldSelector": self._selector})
        for pod in pods:
            self._observe(pod)
        self._sink.stats.relists += self._listed_before
        if self._listed_before:
            self._lost_track()
        self._listed_before = True
        return str(version)

    async def _watch(self, version: str) -> str:
        """Follow the stream to its end; return where to resume, or an empty text if that is too old."""
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
            "fieldSelector": self._selector,
        }
        try:
            async with self._api.stream(PODS, params, _IDLE_TIMEOUT) as lines:
                async for line in lines:
                    try:
                        event = decode_pod_event(line)
                    except DecodeError as error:
                        self._sink.stats.undecodable += 1
                        log.warning("%s", error)
                        continue
                    if event.status is not None:
                        if event.status.code == _GONE:
                            return ""
                        log.warning("pods of other schedulers: %s", event.status.message)
                        break
                    version = event.resource_version or version
                    if event.object is not None:
                        self._take(event.type, event.object)
        except ApiUnreachableError as error:
            log.info("pods of other schedulers: %s", error)
            await asyncio.sleep(0.2)
        return version

    def _take(self, kind: str, pod: Pod) -> None:
        if kind == "DELETED":
            self._sink.pod_gone(pod)
        else:
            self._observe(pod)

    def _observe(self, pod: Pod) -> None:
        if pod.node_name or self._sink.engine.state.pod(pod.uid) is not None:
            self._sink.pod(pod)


async def list_all_pods(
    api: ApiClient, params: dict[str, str] | None = None, unreadable: set[str] | None = None
) -> tuple[list[Pod], int]:
    """Return all pods and the list's resource version, consistently (never from a cache), page by page.

    Parameters
    ----------
    params
        Selectors.
    unreadable
        Receives the keys of the objects that cannot be read: they are there, although they are not in the result.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page cannot be read.
    """
    return await _list_all(api, PODS, decode_pod_list, params or {}, unreadable)


async def list_all_nodes(api: ApiClient, unreadable: set[str] | None = None) -> tuple[list[Node], int]:
    """Return all nodes and the list's resource version; see :func:`list_all_pods`."""
    return await _list_all(api, NODES, decode_node_list, {}, unreadable)


async def _list_all(
    api: ApiClient,
    path: str,
    decode: Callable[[bytes, Callable[[DecodeError], None]], tuple[list[_Value], str, str]],
    params: dict[str, str],
    unreadable: set[str] | None,
) -> tuple[list[_Value], int]:
    def skip(error: DecodeError) -> None:
        """Leave out an object that cannot be read: the others go on."""
        log.warning("%s", error)
        if unreadable is not None:
            unreadable.add(error.key)

    found: list[_Value] = []
    token = ""
    while True:
        page = {**params, "limit": str(_PAGE), **({"continue": token} if token else {})}
        response = await api.request("GET", path, params=page)
        if response.status == _GONE and token:
            found, token = [], ""  # the snapshot behind the pages expired: begin again
            continue
        if not response.ok:
            raise ApiError(response)
        objects, version, token = decode(response.body, skip)
        found += objects
        if not token:
            return found, int(version or 0)
        await asyncio.sleep(0)
