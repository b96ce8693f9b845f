"""Leader election over a Lease.

Deadlines are monotonic. A lease is counted from when its renewal was *sent*, never from the time written in the Lease,
so that differing clocks cannot make two leaders. Another holder's Lease has expired when this process has not seen it
change for its duration.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import ApiClient, ApiResponse, ApiUnreachableError, Clock, collection_path
from vgpu_scheduler.kube import API_RESOURCES, rfc3339

log = logging.getLogger(__name__)

_AT_ONCE = 0.05
"""The shortest pause between two attempts to acquire the Lease (seconds)."""


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Name, namespace and timing (seconds) of the Lease."""

    name: str
    namespace: str
    duration: float
    renew_interval: float


class Elector:
    """Acquires and renews a Lease.

    Parameters
    ----------
    identity
        The holder identity of this process; new at each start, so that a restart is not mistaken for its predecessor.
    """

    def __init__(self, api: ApiClient, options: LeaseOptions, identity: str, clock: Clock) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self.identity = identity
        self._held_until = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        """The resource version of the Lease under another holder, and when this process saw it first."""
        self._expires = math.inf
        """When the other holder's Lease expires, unless it is renewed."""
        self._written: dict[str, Any] | None = None
        """The Lease as last written by this process; None if it has to be read again."""
        self._newest = 0
        """The highest resource version of the Lease seen."""

    @property
    def leading(self) -> bool:
        """Whether the Lease is held now."""
        return self.may_write(0.0)

    def may_write(self, seconds: float) -> bool:
        """Tell whether the Lease is still held in ``seconds`` seconds: a write that takes no longer is safe."""
        return self._clock.monotonic() + seconds < self._held_until

    async def acquire(self) -> None:
        """Wait until the Lease is held: try at each renew interval, and at the moment the current Lease expires.

        Raises
        ------
        RuntimeError
            If the Lease has a lower resource version than before, see :meth:`renew_until_lost`.
        """
        while not await self._try():
            left = self._expires - self._clock.monotonic()
            await asyncio.sleep(min(self._options.renew_interval, max(left, _AT_ONCE)))
        log.info("leading as %s", self.identity)

    async def renew_until_lost(self) -> None:
        """Renew the Lease until it is lost.

        Raises
        ------
        RuntimeError
            If the Lease has a lower resource version than before: the API server's store was restored from a backup.
            Watches do not report that; they deliver nothing until the store catches up.
        """
        while True:
            await asyncio.sleep(self._options.renew_interval)
            await self._try()
            if not self.leading:
                log.error("the lease is lost")
                return

    async def release(self) -> None:
        """Give up the Lease, so that a successor need not wait for it to expire."""
        if not self.leading:
            return
        self._held_until = 0.0
        with suppress(ApiUnreachableError):
            response = await self._api.request("GET", self._path, timeout=self._options.renew_interval)
            if response.ok and self._holder(lease := response.json()) == self.identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=self._stamp())
                await self._api.request("PUT", self._path, lease, timeout=self._options.renew_interval)

    async def _try(self) -> bool:
        """Try once to acquire or renew the Lease; return whether it is held."""
        sent = self._clock.monotonic()
        try:
            if await self._write_lease():
                self._held_until = sent + self._options.duration
        except ApiUnreachableError as error:
            log.warning("lease: %s", error)
        return self.leading

    async def _write_lease(self) -> bool:
        limit = max(self._options.duration / 3, 1.0)
        if self._written is not None:
            return await self._put(self._written, limit)
        response = await self._api.request("GET", self._path, timeout=limit)
        if response.status == HTTPStatus.NOT_FOUND:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._options.name, "namespace": self._options.namespace},
                "spec": self._spec({}),
            }
            return self._keep(await self._api.request("POST", self._collection, body, timeout=limit))
        if not response.ok:
            log.warning("lease: %s", response.message)
            return False
        lease = self._newer(response)
        if not self._free(lease):
            return False
        return await self._put(lease, limit)

    async def _put(self, lease: dict[str, Any], limit: float) -> bool:
        """Write the Lease; its resource version makes the write fail if another process wrote in between."""
        self._written = None
        lease = {**lease, "spec": self._spec(lease.get("spec") or {})}
        return self._keep(await self._api.request("PUT", self._path, lease, timeout=limit))

    def _keep(self, response: ApiResponse) -> bool:
        """Keep the Lease as written, so that the next renewal needs no GET."""
        if response.ok:
            self._written = self._newer(response)
        elif response.status != HTTPStatus.CONFLICT:  # a conflict only means that another process was faster
            log.warning("lease: %s", response.message)
        return response.ok

    def _newer(self, response: ApiResponse) -> dict[str, Any]:
        """Return the Lease of an answer; raise if its resource version is lower than one seen before."""
        lease: dict[str, Any] = response.json()
        version = int(lease["metadata"]["resourceVersion"])
        if version < self._newest:
            raise RuntimeError("the API server's store was restored from an older copy: restarting")
        self._newest = version
        return lease

    def _free(self, lease: dict[str, Any]) -> bool:
        """Tell whether the Lease is ours, held by nobody, or unchanged for its duration."""
        holder = self._holder(lease)
        if holder in {"", self.identity}:
            return True
        version = lease["metadata"]["resourceVersion"]
        now = self._clock.monotonic()
        if self._seen[0] != version:
            self._seen = (version, now)
        duration = (lease.get("spec") or {}).get("leaseDurationSeconds") or self._options.duration
        self._expires = self._seen[1] + duration
        return bool(now > self._expires)

    def _spec(self, old: dict[str, Any]) -> dict[str, Any]:
        stamp = self._stamp()
        ours = old.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            # Whole seconds, rounded up: the Lease must not look expired to others while this process counts on it.
            "leaseDurationSeconds": math.ceil(self._options.duration),
            "acquireTime": old.get("acquireTime", stamp) if ours else stamp,
            "renewTime": stamp,
            "leaseTransitions": (old.get("leaseTransitions") or 0) + (not ours),
        }

    def _stamp(self) -> str:
        return rfc3339(self._clock.now(), micro=True)

    @staticmethod
    def _holder(lease: dict[str, Any]) -> str:
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    @property
    def _collection(self) -> str:
        return collection_path(API_RESOURCES["Lease"].path, self._options.namespace)

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._options.name}"
