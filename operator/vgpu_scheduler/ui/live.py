"""Keeps a world as a live cluster is, with the rights of the user: all kinds are listed once, then watched.

What happens to pods and nodes is taken in at once. Any other change has the world made anew from the objects that are
kept, at most a part of the time, so that a cluster in which much happens can still be looked at.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, end_tasks, map_concurrently
from vgpu_scheduler.doctor import ClusterSnapshot
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    MissingRightsError,
    SchedulerSettings,
    SettingsObjects,
    facts_beside_view,
    is_optional,
    keep_room,
    list_paths,
    make_world,
    may_delete_pods_in,
    read_scheduler,
)
from vgpu_scheduler.settings import SettingsError
from vgpu_scheduler.ui.current import Change, ClusterListener, CurrentWorld
from vgpu_scheduler.ui.name_redaction import NAMESPACE, Names
from vgpu_scheduler.ui.watching import KindWatch
from vgpu_scheduler.whatif import World, WorldError
from vgpu_scheduler.whatif.world import usage

_ONE_BY_ONE: Final = frozenset({"Pod", "Node"})
"""Kinds whose changes are taken in."""
_MOST_CHANGES: Final = 500
"""Changes that are taken in before somebody else may ask."""
_PAUSE: Final = 2.0
"""How much longer than it takes nothing is made anew."""
_SETTINGS_EVERY: Final = 10.0
"""Seconds between two looks at the settings of the scheduler."""
_RIGHTS_LAST: Final = 60.0
"""Seconds for which an answer about a right holds."""


class LiveCluster:
    """A cluster that is followed.

    Parameters
    ----------
    names
        Is told of every object before any page can be made of it; None where nobody asks for names.
    listener
        Takes in what happens to the world; see :class:`CurrentWorld`.
    adapt
        Returns the settings that the world is made with, from those of the scheduler.
    settle
        Is called where pages are made whenever a world was made, which nearly all of the memory is held by.

    Attributes
    ----------
    current
        Its world as it is now.
    """

    def __init__(
        self,
        api: ApiClient,
        options: ClusterOptions,
        names: Names | None = None,
        *,
        listener: ClusterListener | None = None,
        adapt: Callable[[SchedulerSettings], SchedulerSettings] = lambda settings: settings,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._options = options
        self._names = names
        self._listener = listener
        self._adapt = adapt
        self._settle = settle
        self._watches: dict[str, KindWatch] = {}
        self._changes: list[Change] = []
        self._stale = False
        self._awake = asyncio.Event()
        self._broken: dict[str, tuple[datetime, str]] = {}
        self._scheduler: SchedulerSettings
        self._installed: SettingsObjects
        self._mine: dict[str, tuple[float, bool]] = {}
        self._spaces: tuple[int, frozenset[str]] = (0, frozenset())  # as of a generation
        self.current: CurrentWorld

    async def open(self) -> CurrentWorld:
        """List everything, and return the world that it makes.

        Raises
        ------
        ApiUnreachableError, SettingsError, WorldError
            If it cannot be read.
        MissingRightsError
            If nodes or pods may not be listed.
        """
        await self._list_all()
        self.current = CurrentWorld(*await asyncio.to_thread(self._made, self.view()), self._listener)
        await self._settle_memory()
        return self.current

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._apply())
            while True:
                following = [asyncio.create_task(watch.run(self)) for watch in self._watches.values()]
                try:
                    await self._settings_change()
                finally:
                    await end_tasks(following)
                await self._list_until_answered()

    async def deletable(self, namespaces: Collection[str]) -> frozenset[str]:
        """Return in which of some namespaces the user may delete pods."""
        now = time.monotonic()
        asked = [name for name in namespaces if self._mine.get(name, (0.0, False))[0] <= now]
        if asked:
            allowed = await may_delete_pods_in(self._api, asked)
            self._mine |= {name: (now + _RIGHTS_LAST, name in allowed) for name in asked}
        return frozenset(name for name in namespaces if self._mine[name][1])

    async def facts(self) -> ClusterSnapshot:
        """Return what the doctor's checks need: what is followed, and what else only they need, which is read now.

        Raises
        ------
        ApiUnreachableError, UnauthorizedError
            If it cannot be read.
        """
        return await facts_beside_view(self._api, self.view(), self._options.scheduler_namespace)

    # What watches see -------------------------------------------------------------------------------------------------

    def listed(self, watch: KindWatch) -> None:
        """Take in that all objects of a kind were listed anew, or cannot be listed any more."""
        self._note(watch)
        self._stale = True
        self._awake.set()

    def changed(self, kind: str, obj: dict[str, Any], *, gone: bool) -> None:
        """Take in that an object has changed, or is gone."""
        if self._names is not None:
            self._names.note(obj)
        if kind in _ONE_BY_ONE:
            self._changes.append((obj, gone))
        else:
            self._stale = True
        self._awake.set()

    def broken(self, kind: str, error: str) -> None:
        """Take in that a kind cannot be watched at the moment; empty where it can be again."""
        if error:
            self._broken.setdefault(kind, (datetime.now(UTC), error))
        elif self._broken.pop(kind, None) is None:
            return
        self._awake.set()

    def _note(self, *watches: KindWatch) -> None:
        """Note the names of what was listed; where there are very many, those of what is gone are forgotten."""
        if self._names is None:
            return
        for watch in watches:
            self._names.note_all(watch.objects.values())
        if self._names.are_many:
            self._names.renew(obj for watch in self._watches.values() for obj in watch.objects.values())

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that there are, and those that objects name."""
        generation = self.current.generation
        if self._spaces[0] != generation:
            keys = {watch.kind: watch.objects for watch in self._watches.values()}
            spaces = {name for _, name in keys.get(NAMESPACE, ())}
            spaces |= {home for theirs in keys.values() for home, _ in theirs if home}
            self._spaces = (generation, frozenset(spaces))
        return self._spaces[1]

    # The world --------------------------------------------------------------------------------------------------------

    async def _apply(self) -> None:
        """Take in what watches see, one after the other."""
        not_before = 0.0
        while True:
            await self._awake.wait()
            self._awake.clear()
            await self.current.say(self._trouble())
            while self._changes and not self._stale:
                some, self._changes = self._changes[:_MOST_CHANGES], self._changes[_MOST_CHANGES:]
                self._stale |= not await self.current.apply_changes(some, self.now())
            if not self._stale:
                continue
            await asyncio.sleep(not_before - time.monotonic())
            began = time.monotonic()
            await self._make_anew()
            ended = time.monotonic()
            not_before = ended + _PAUSE * (ended - began)

    async def _make_anew(self) -> None:
        self._stale = False
        self._changes.clear()  # the objects have them
        view = self.view()
        try:
            await self.current.replace(lambda: self._made(view))
        except (MissingRightsError, WorldError) as error:
            self._broken["world"] = (datetime.now(UTC), str(error))
            await self.current.say(self._trouble())
        else:
            if self._broken.pop("world", None):
                await self.current.say(self._trouble())
            await self._settle_memory()

    async def _settle_memory(self) -> None:
        """Settle memory where pages are made: one that is made of the world before holds it until then."""
        await self.current.ask(lambda *_: self._settle())

    @staticmethod
    def _made(view: ClusterView) -> tuple[World, ClusterView]:
        world = make_world(view)
        keep_room(world, view)
        usage.cards(world)  # what they are is kept: the first page need not wait for it
        return world, view

    def view(self) -> ClusterView:
        """Return what is known of the cluster, in the order in which it is listed."""
        watches = self._watches.values()
        seen = [watch for watch in watches if not watch.missing and (watch.served or not is_optional(watch.kind))]
        return ClusterView(
            [obj for watch in seen for _, obj in sorted(watch.objects.items())],
            {watch.kind: watch.missing for watch in watches if watch.missing},
            self._scheduler,
            live=True,
            read_at=self.now(),
            settings_objects=self._installed.objects,
            kinds=frozenset(watch.kind for watch in seen),
        )

    def now(self) -> datetime:
        """Return the time of day, as the API server has it."""
        ahead = max((watch.ahead for watch in self._watches.values()), default=timedelta(0))
        return datetime.now(UTC) + ahead

    def _trouble(self) -> str:
        """Say since when what is shown is out of date, and why."""
        if not self._broken:
            return ""
        since, error = min(self._broken.values())
        return f"What is shown may be out of date since {since:%H:%M:%S} UTC: {error}"

    # Lists ------------------------------------------------------------------------------------------------------------

    async def _list_all(self) -> None:
        settings, self._installed = await read_scheduler(self._api, self._options)
        self._scheduler = self._adapt(settings)
        watches = {kind: KindWatch(self._api, kind, path) for kind, path in list_paths(self._scheduler).items()}
        await map_concurrently(KindWatch.list, watches.values())
        self._watches = watches
        self._note(*watches.values())

    async def _list_until_answered(self) -> None:
        while True:
            try:
                await self._list_all()
            except ApiUnreachableError as error:
                self.broken("settings", str(error))
                await asyncio.sleep(1.0)
            else:
                self.broken("settings", "")
                self._stale = True
                self._awake.set()
                return

    async def _settings_change(self) -> None:
        """Return once the scheduler is set to something else."""
        while True:
            await asyncio.sleep(_SETTINGS_EVERY)
            if self._broken:
                continue  # what cannot be read is no change
            try:
                _, installed = await read_scheduler(self._api, self._options)
            except SettingsError:  # of a file that is being written
                continue
            if _told(installed.objects) != _told(self._installed.objects):
                return


def _told(objects: Iterable[Any]) -> list[Any]:
    """Return of the objects that hold settings what does not change by itself."""
    return [(obj.get("data"), obj.get("spec")) for obj in objects]
