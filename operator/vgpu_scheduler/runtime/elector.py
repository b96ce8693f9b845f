"""Leader election over a Lease.

Deadlines are monotonic: what counts is when a renewal was *sent*, never the time written in the Lease, so that clocks
that differ between machines cannot make two leaders. Another holder's Lease has expired when it has not changed for
its duration as seen from here.
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
from vgpu_scheduler.kube import rfc3339

log = logging.getLogger(__name__)

_AT_ONCE = 0.05
"""Seconds between two tries at most."""


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Which Lease, and how long it holds (seconds)."""

    name: str
    namespace: str
    duration: float
    renew_interval: float


class Elector:
    """Acquires and renews a Lease.

    Parameters
    ----------
    identity
        Of this process; fresh at each start, so that a restart does not take itself for its predecessor.
    """

    def __init__(self, api: ApiClient, options: LeaseOptions, identity: str, clock: Clock) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self.identity = identity
        self._held_until = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        """Another holder's version of the Lease, and when it was seen first."""
        self._expires = math.inf
        """When that has expired, unless it is renewed."""
        self._written: dict[str, Any] | None = None
        """The Lease as it was when it was last written here, until an answer does not say so."""
        self._newest = 0
        """The highest resource version of the Lease so far."""

    @property
    def leading(self) -> bool:
        """Whether the Lease is held now."""
        return self.may_write(0.0)

    def may_write(self, seconds: float) -> bool:
        """Tell whether the Lease will still be held in so many seconds: a write that may take that long is safe."""
        return self._clock.monotonic() + seconds < self._held_until

    async def acquire(self) -> None:
        """Wait until the Lease is held: it is looked at now and then, and in the moment in which it expires.

        Raises
        ------
        RuntimeError
            If the Lease is an older one than before, see :meth:`hold`.
        """
        while not await self._try():
            left = self._expires - self._clock.monotonic()
            await asyncio.sleep(min(self._options.renew_interval, max(left, _AT_ONCE)))
        log.info("leading as %s", self.identity)

    async def renew_until_lost(self) -> None:
        """Renew the Lease; returns when it is lost.

        Raises
        ------
        RuntimeError
            If the Lease is an older one than before: the API server's store was restored from an older copy. Watches
            do not tell that, they stay deaf until the store catches up.
        """
        while True:
            await asyncio.sleep(self._options.renew_interval)
            await self._try()
            if not self.leading:
                log.error("the lease is lost")
                return

    async def release(self) -> None:
        """Give the Lease up, so that a successor need not wait for it to expire."""
        if not self.leading:
            return
        self._held_until = 0.0
        with suppress(ApiUnreachableError):
            response = await self._api.request("GET", self._path, timeout=self._options.renew_interval)
            if response.ok and self._holder(lease := response.json()) == self.identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=self._stamp())
                await self._api.request("PUT", self._path, lease, timeout=self._options.renew_interval)

    async def _try(self) -> bool:
        """Take or renew the Lease once; True if it is held."""
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
        """Write the Lease; the resource version in it makes that conditional on nobody having written since."""
        self._written = None
        lease = {**lease, "spec": self._spec(lease.get("spec") or {})}
        return self._keep(await self._api.request("PUT", self._path, lease, timeout=limit))

    def _keep(self, response: ApiResponse) -> bool:
        """Remember the Lease as it was written, so that the next renewal needs no reading."""
        if response.ok:
            self._written = self._newer(response)
        elif response.status != HTTPStatus.CONFLICT:  # a conflict only says that another one was faster
            log.warning("lease: %s", response.message)
        return response.ok

    def _newer(self, response: ApiResponse) -> dict[str, Any]:
        """Return the Lease as an answer shows it, which is never one from before the last one."""
        lease: dict[str, Any] = response.json()
        version = int(lease["metadata"]["resourceVersion"])
        if version < self._newest:
            raise RuntimeError("the API server's store was restored from an older copy: starting anew")
        self._newest = version
        return lease

    def _free(self, lease: dict[str, Any]) -> bool:
        """Tell whether the Lease is ours, nobody's, or has not changed for its duration."""
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
            # Whole seconds, never less than what is counted on here: who waits for this long must find it expired.
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
        return collection_path("/apis/coordination.k8s.io/v1/leases", self._options.namespace)

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._options.name}"
