"""Relist: bring the state in line with consistent lists, at the start, on request, and periodically."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.apiclient import NO_ANSWER, ApiClient, ApiError, ApiUnreachableError, Backoff, wait_for_event
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import PODS, RELISTED_KINDS, Kind, Listing, Observer, list_all, list_changed, list_pods
from vgpu_scheduler.kube import DecodeError, ObjectIdentity
from vgpu_scheduler.runtime.collecting import release_memory
from vgpu_scheduler.state import State, UsedAmounts

log = logging.getLogger(__name__)

_DELAY = 1.0
"""Seconds between a request for a relist and the relist, so that many requests lead to one relist."""
_LONGEST_PAUSE = 30.0
"""Longest pause in seconds between two tries to list a kind."""
_USED_WITHIN = 60.0
"""Seconds after which a list is made again before it is used: the stores remember only so many deletions since."""
_NODES_AT_ONCE = 200
"""The most nodes that an audit compares before it yields to other tasks."""


class UnlistedKindError(Exception):
    """A kind could not be listed for as long as a relist was to try."""


@dataclass(frozen=True, slots=True)
class ListFailure:
    """A kind that could not be listed last time.

    Attributes
    ----------
    path
        Its list path.
    code
        The status code of the answer; ``<error>`` if there was no answer, or none that could be decoded.
    message
        The error.
    """

    path: str
    code: str
    message: str

    @classmethod
    def of(cls, kind: Kind[Any], error: Exception) -> ListFailure:
        """Return the failure that an error stands for."""
        code = str(error.response.status) if isinstance(error, ApiError) else NO_ANSWER
        return cls(kind.path, code, str(error))

    def __str__(self) -> str:
        return f"{self.path} cannot be listed: {self.message}"


class Relister:
    """Relists all kinds of objects that are observed.

    Parameters
    ----------
    api, engine, observer
        The components it works with.
    interval
        Seconds between two periodic relists. An audit of the ledger follows each of them.
    kinds
        Returns the kinds to relist. Those for which not all pods wait are processed before the others, if they can be
        listed; otherwise in this order.
    """

    def __init__(
        self,
        api: ApiClient,
        engine: Engine,
        observer: Observer,
        interval: float,
        kinds: Callable[[], Sequence[Kind[Any]]] = lambda: RELISTED_KINDS,
    ) -> None:
        self._api = api
        self._engine = engine
        self._observer = observer
        self._interval = interval
        self._kinds = kinds
        self._wanted = asyncio.Event()
        self._failures: dict[str, ListFailure] = {}
        """By the name of the kind, which may not be relisted any more."""

    @property
    def failures(self) -> dict[str, ListFailure]:
        """The kinds to relist that could not be listed last time, by name."""
        names = (kind.name for kind in self._kinds())
        return {name: self._failures[name] for name in names if name in self._failures}

    @property
    def problem(self) -> str:
        """Which kind relists wait for, and why; empty if they wait for none."""
        awaited = (kind.name for kind in self._kinds() if kind.absence.stops_all)
        return next((str(self._failures[name]) for name in awaited if name in self._failures), "")

    def request_relist(self) -> None:
        """Request a relist, because deletions may have been missed."""
        self._wanted.set()

    async def relist(self, *, unknown: bool = True, patience: float = math.inf) -> None:
        """Relist all kinds, and retry until the API server has listed them.

        Parameters
        ----------
        unknown
            Whether to read unbound pods that are not known yet, in case a watch is silent. A watch that has just
            started delivers them anyway.
        patience
            Seconds for which to retry the list of one kind.

        Raises
        ------
        UnlistedKindError
            If the patience for a kind is over.
        RuntimeError
            If the API server's store was restored from a backup: watches deliver nothing until it catches up.
        """
        self._failures = self.failures  # without those of kinds that are not relisted any more
        awaited = [kind for kind in self._kinds() if kind.absence.stops_all]
        listings = [await self._list_until_listed(kind, patience, unknown=unknown) for kind in awaited]
        for kind, listing in await self._list_others():
            await self._observer.relist(kind, listing)
        for kind, (listing, listed_at) in zip(awaited, listings, strict=True):
            current = listing
            if self._observer.monotonic() - listed_at > _USED_WITHIN:  # another kind could not be listed for long
                current, _ = await self._list_until_listed(kind, patience, unknown=unknown)
            await self._observer.relist(kind, current)
        if self._engine.lists.epoch:
            raise RuntimeError("the API server's store was restored from an older copy: restarting")

    async def _list_until_listed(
        self, kind: Kind[Any], patience: float, *, unknown: bool
    ) -> tuple[Listing[Any], float]:
        """List a kind; retry with a back-off, or after the pause that the API server asks for. Also return when."""
        backoff, began = Backoff(_DELAY, _LONGEST_PAUSE), self._observer.monotonic()
        while True:
            try:
                return await self._list(kind, unknown=unknown), self._observer.monotonic()
            except (ApiError, ApiUnreachableError, DecodeError) as error:
                log.warning("relist: %s", self._failures[kind.name])
                if self._observer.monotonic() - began >= patience:
                    raise UnlistedKindError(str(self._failures[kind.name])) from error
                await backoff.sleep(error.response.retry_after if isinstance(error, ApiError) else None)

    async def _list(self, kind: Kind[Any], *, unknown: bool = True) -> Listing[Any]:
        """List a kind; note whether that failed."""
        try:
            listing = await self._list_once(kind, unknown=unknown)
        except (ApiError, ApiUnreachableError, DecodeError) as error:
            self._failures[kind.name] = ListFailure.of(kind, error)
            raise
        self._failures.pop(kind.name, None)
        return listing

    async def _list_once(self, kind: Kind[Any], *, unknown: bool) -> Listing[Any]:
        """List a kind; if it was listed before and allows it, read only the objects that changed."""
        since, observed = self._engine.lists.listed(kind.name), self._engine.kinds[kind.name]
        if not since or observed.version is None:
            return await list_all(self._api, kind, since)
        identify, version = observed.identify, observed.version

        def known(found: ObjectIdentity) -> int:
            return version(identify(found))

        if kind is PODS:
            return await list_pods(self._api, known, since, unknown=unknown)
        return await list_changed(self._api, kind, known, since)

    async def _list_others(self) -> list[tuple[Kind[Any], Listing[Any]]]:
        """List the kinds for which relists do not wait, as far as they can be listed now."""
        found = []
        for kind in (kind for kind in self._kinds() if not kind.absence.stops_all):
            try:
                found.append((kind, await self._list(kind)))
            except (ApiError, ApiUnreachableError, DecodeError):
                log.warning("relist: %s", self._failures[kind.name])
                self._engine.groups.cannot_list(kind.name)
        return found

    async def run(self) -> None:
        """Relist until cancelled."""
        while True:
            await wait_for_event(self._wanted, self._interval)
            if self._wanted.is_set():
                await asyncio.sleep(_DELAY)
            audit = not self._wanted.is_set()
            self._wanted.clear()
            await self.relist()
            release_memory()
            if audit:
                await self.audit()

    async def audit(self) -> None:
        """Compare the ledger with its rebuild, and repair differences, which are errors of this program."""
        engine, stats = self._engine, self._observer.stats
        stats.drift, before = 0, stats.repaired
        for node in await drift(engine.state):
            wrong = engine.repair(node, self._observer.monotonic())
            for what in wrong:
                log.error("the ledger of node %s was wrong and is repaired: %s", node, what)
            stats.repaired += len(wrong)
            stats.drift += bool(engine.state.drift([node]))
        if stats.repaired > before:
            self._observer.signals.decide_again()


async def ledger(state: State) -> UsedAmounts:
    """Return the used amounts of every device in use, in batches of nodes."""
    found: UsedAmounts = {}
    for names in _slices(state):
        found |= state.ledger(names)
        await asyncio.sleep(0)
    return found


async def drift(state: State) -> dict[str, tuple[UsedAmounts, UsedAmounts]]:
    """Compare the ledger with its rebuild, in batches of nodes; see :meth:`State.drift`."""
    found: dict[str, tuple[UsedAmounts, UsedAmounts]] = {}
    for names in _slices(state):
        found |= state.drift(names)
        await asyncio.sleep(0)
    return found


def _slices(state: State) -> list[list[str]]:
    names = [node.name for node in state.all_nodes()]
    return [names[first : first + _NODES_AT_ONCE] for first in range(0, len(names), _NODES_AT_ONCE)]
