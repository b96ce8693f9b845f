"""Sweeps: what is known is brought in line with consistent lists, at the start, when asked for, and now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, wait_for_event
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import PODS, SWEPT, Kind, Listing, Observer, list_all, list_changed, list_pods
from vgpu_scheduler.kube import ObjectIdentity
from vgpu_scheduler.runtime.collecting import release_memory
from vgpu_scheduler.state import State, UsedAmounts

log = logging.getLogger(__name__)

_DELAY = 1.0
"""Seconds between a request for a sweep and the sweep, so that many requests make one."""
_NODES_AT_ONCE = 200
"""Nodes of an audit between two looks at everything else."""


class Sweeps:
    """Sweeps everything that is observed.

    Parameters
    ----------
    api, engine, observer
        What it works with.
    interval
        Seconds between two sweeps that nobody asked for; after each of these the ledger is audited.
    kinds
        Returns what is swept, in this order.
    dispensable
        Returns what is swept before these where the API server gives a list of it: most pods can do without.
    """

    def __init__(
        self,
        api: ApiClient,
        engine: Engine,
        observer: Observer,
        interval: float,
        kinds: Callable[[], Sequence[Kind[Any]]] = lambda: SWEPT,
        dispensable: Callable[[], Sequence[Kind[Any]]] = tuple,
    ) -> None:
        self._api = api
        self._engine = engine
        self._observer = observer
        self._interval = interval
        self._kinds = kinds
        self._dispensable = dispensable
        self._wanted = asyncio.Event()

    def ask(self) -> None:
        """Ask for a sweep: deletions may have been missed."""
        self._wanted.set()

    async def sweep(self, *, unknown: bool = True) -> None:
        """Bring everything in line with consistent lists, however long the API server takes to give them.

        Parameters
        ----------
        unknown
            Whether unbound pods that are not known are read, too: a watch may be silent. Who has just begun to watch
            is shown them without that.

        Raises
        ------
        RuntimeError
            If the store was restored from an older copy: watches would stay deaf until it catches up.
        """
        while True:
            try:
                listings = [(kind, await self._list(kind, unknown=unknown)) for kind in self._kinds()]
                break
            except (ApiError, ApiUnreachableError) as error:
                log.warning("sweep: %s", error)
                await asyncio.sleep(_DELAY)
        for kind, listing in [*await self._list_dispensable(), *listings]:
            await self._observer.sweep(kind, listing)
        if self._engine.lists.epoch:
            raise RuntimeError("the API server's store was restored from an older copy: starting anew")

    async def _list(self, kind: Kind[Any], *, unknown: bool = True) -> Listing[Any]:
        """List a kind; of large kinds that were listed before, only what changed."""
        since, observed = self._engine.lists.listed(kind.name), self._engine.kinds[kind.name]
        if not since or observed.version is None:
            return await list_all(self._api, kind, since)
        identify, version = observed.identify, observed.version

        def known(found: ObjectIdentity) -> int:
            return version(identify(found))

        if kind is PODS:
            return await list_pods(self._api, known, since, unknown=unknown)
        return await list_changed(self._api, kind, known, since)

    async def _list_dispensable(self) -> list[tuple[Kind[Any], Listing[Any]]]:
        """List what can be listed now: nothing waits for the rest."""
        found = []
        for kind in self._dispensable():
            try:
                found.append((kind, await self._list(kind)))
            except (ApiError, ApiUnreachableError) as error:
                log.warning("sweep of %s: %s", kind.path, error)
                self._engine.groups.cannot_list(kind.name)
        return found

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await wait_for_event(self._wanted, self._interval)
            if self._wanted.is_set():
                await asyncio.sleep(_DELAY)
            audit = not self._wanted.is_set()
            self._wanted.clear()
            await self.sweep()
            release_memory()
            if audit:
                await self.audit()

    async def audit(self) -> None:
        """Compare the ledger with its rebuild, and repair where it differs: that would be an error of ours."""
        engine, stats = self._engine, self._observer.stats
        stats.drift = 0
        for node in await drift(engine.state):
            wrong = engine.repair(node, self._observer.monotonic())
            for what in wrong:
                log.error("the ledger of node %s was wrong and is repaired: %s", node, what)
            stats.repaired += len(wrong)
            stats.drift += bool(engine.state.drift([node]))
        if stats.repaired:
            self._observer.signals.decide_again()


async def ledger(state: State) -> UsedAmounts:
    """Return the used amounts of every device in use, some nodes at a time."""
    found: UsedAmounts = {}
    for names in _slices(state):
        found |= state.ledger(names)
        await asyncio.sleep(0)
    return found


async def drift(state: State) -> dict[str, tuple[UsedAmounts, UsedAmounts]]:
    """Compare the ledger with its rebuild, some nodes at a time; see :meth:`State.drift`."""
    found: dict[str, tuple[UsedAmounts, UsedAmounts]] = {}
    for names in _slices(state):
        found |= state.drift(names)
        await asyncio.sleep(0)
    return found


def _slices(state: State) -> list[list[str]]:
    names = [node.name for node in state.all_nodes()]
    return [names[first : first + _NODES_AT_ONCE] for first in range(0, len(names), _NODES_AT_ONCE)]
