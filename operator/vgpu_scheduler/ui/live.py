"""Keeps a world in step with a live cluster, with the user's rights: lists all kinds once, then watches them.

Changes of pods and nodes are applied at once. Any other change makes the world anew from the objects in memory.
Rebuilds are spaced out, so that the pages stay responsive while many objects change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, end_tasks, map_concurrently
from vgpu_scheduler.doctor import DoctorInput
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    MissingRightsError,
    SchedulerSettings,
    SettingsObjects,
    is_optional,
    keep_room,
    listed_resources,
    make_world,
    may_delete_pods_in,
    read_doctor_input_with_view,
    read_scheduler,
)
from vgpu_scheduler.settings import SettingsError
from vgpu_scheduler.ui.current import Change, ClusterListener, CurrentWorld
from vgpu_scheduler.ui.name_redaction import NAMESPACE, Names
from vgpu_scheduler.ui.watching import KindWatch
from vgpu_scheduler.whatif import InvalidObjectsError, World
from vgpu_scheduler.whatif.world import usage

_ONE_BY_ONE: Final = frozenset({"Pod", "Node"})
"""Kinds whose changes are applied one by one."""
_MOST_CHANGES: Final = 500
"""The most changes to apply before pages get their turn."""
_PAUSE: Final = 2.0
"""The pause after a rebuild of the world, as a multiple of the rebuild's duration."""
_SETTINGS_EVERY: Final = 10.0
"""Seconds between two checks whether the scheduler's settings changed."""
_RIGHTS_LAST: Final = 60.0
"""Seconds for which an answer about the user's rights is cached."""


class LiveCluster:
    """A cluster that is watched.

    Parameters
    ----------
    names
        Told of every object before a page can show it; None if no names are redacted.
    listener
        Applies changes to the world in place of the default; see :class:`CurrentWorld`.
    adapt
        Returns the settings for the world, given the scheduler's settings.
    settle
        Called in the thread that makes pages after each rebuild, to settle memory.

    Attributes
    ----------
    current
        The current world.
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
        """List everything, and return the world made from it.

        Raises
        ------
        ApiUnreachableError, SettingsError, InvalidObjectsError
            If the cluster cannot be read.
        MissingRightsError
            If nodes or pods may not be listed.
        """
        await self._list_all()
        self.current = CurrentWorld(*await asyncio.to_thread(self._made, self.view()), self._listener)
        await self._settle_memory()
        return self.current

    async def run(self) -> None:
        """Watch the cluster until cancelled, or until an error, which is raised as it is."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._apply())
                await self._follow()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _follow(self) -> None:
        """Watch all kinds, and begin anew whenever the scheduler's settings have changed."""
        while True:
            following = [asyncio.create_task(watch.run()) for watch in self._watches.values()]
            try:
                await self._settings_change()
            finally:
                await end_tasks(following)
            await self._list_until_answered()

    async def deletable(self, namespaces: Collection[str]) -> frozenset[str]:
        """Return the given namespaces in which the user may delete pods."""
        now = time.monotonic()
        asked = [name for name in namespaces if self._mine.get(name, (0.0, False))[0] <= now]
        if asked:
            allowed = await may_delete_pods_in(self._api, asked)
            self._mine |= {name: (now + _RIGHTS_LAST, name in allowed) for name in asked}
        return frozenset(name for name in namespaces if self._mine[name][1])

    async def doctor_input(self) -> DoctorInput:
        """Return the input of the doctor's checks: the watched objects, and those that only the doctor reads.

        Raises
        ------
        ApiUnreachableError, UnauthorizedError
            If the cluster cannot be read.
        """
        return await read_doctor_input_with_view(self._api, self.view(), self._options.scheduler_namespace)

    # What watches see -------------------------------------------------------------------------------------------------

    def listed(self, watch: KindWatch) -> None:
        """Note that a kind was listed again, or can no longer be listed."""
        self._note(watch)
        self._stale = True
        self._awake.set()

    def changed(self, kind: str, obj: dict[str, Any], *, gone: bool) -> None:
        """Note that an object changed or was deleted."""
        if self._names is not None:
            self._names.note(obj)
        if kind in _ONE_BY_ONE:
            self._changes.append((obj, gone))
        else:
            self._stale = True
        self._awake.set()

    def broken(self, kind: str, error: str) -> None:
        """Note why a kind cannot be watched at the moment; an empty text means that it can be again."""
        if error:
            self._broken.setdefault(kind, (datetime.now(UTC), error))
        elif self._broken.pop(kind, None) is None:
            return
        self._awake.set()

    def _note(self, *watches: KindWatch) -> None:
        """Note the names of listed objects; if there are very many names, forget those of deleted objects."""
        if self._names is None:
            return
        for watch in watches:
            self._names.note_all(watch.objects.values())
        if self._names.are_many:
            self._names.renew(obj for watch in self._watches.values() for obj in watch.objects.values())

    def namespaces(self) -> frozenset[str]:
        """Return all namespaces, including those that are only known from objects in them."""
        generation = self.current.generation
        if self._spaces[0] != generation:
            keys = {watch.kind: watch.objects for watch in self._watches.values()}
            spaces = {name for _, name in keys.get(NAMESPACE, ())}
            spaces |= {home for theirs in keys.values() for home, _ in theirs if home}
            self._spaces = (generation, frozenset(spaces))
        return self._spaces[1]

    # The world --------------------------------------------------------------------------------------------------------

    async def _apply(self) -> None:
        """Apply what the watches report, in order, also to a world that is about to be made anew."""
        not_before = 0.0
        while True:
            pause = not_before - time.monotonic() if self._stale else None
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._awake.wait()
            self._awake.clear()
            await self.current.set_trouble(self._trouble())
            while self._changes:
                some, self._changes = self._changes[:_MOST_CHANGES], self._changes[_MOST_CHANGES:]
                if not await self.current.apply_changes(some, self.now()):
                    self._stale = True  # only ever set here, never assigned a result: a watch may have set it meanwhile
            began = time.monotonic()
            if not self._stale or began < not_before:
                continue
            await self._make_anew()
            ended = time.monotonic()
            not_before = ended + _PAUSE * (ended - began)

    async def _make_anew(self) -> None:
        self._stale = False
        self._changes.clear()  # the watched objects include them
        view = self.view()
        try:
            await self.current.replace(lambda: self._made(view))
        except (MissingRightsError, InvalidObjectsError) as error:
            self._broken["world"] = (datetime.now(UTC), str(error))
            await self.current.set_trouble(self._trouble())
        else:
            if self._broken.pop("world", None):
                await self.current.set_trouble(self._trouble())
            await self._settle_memory()

    async def _settle_memory(self) -> None:
        """Settle memory in the thread that makes pages: a page in progress keeps the old world alive."""
        await self.current.ask(lambda *_: self._settle(), first=True)

    @staticmethod
    def _made(view: ClusterView) -> tuple[World, ClusterView]:
        world = make_world(view)
        keep_room(world, view)
        usage.cards(world)  # cached in the world, so that the first page need not wait for it
        return world, view

    def view(self) -> ClusterView:
        """Return what is known of the cluster, in the order of a list."""
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
        """Return the time of day by the API server's clock."""
        ahead = max((watch.ahead for watch in self._watches.values()), default=timedelta(0))
        return datetime.now(UTC) + ahead

    def _trouble(self) -> str:
        """Return since when and why the pages may be out of date; empty if they are not."""
        if not self._broken:
            return ""
        since, error = min(self._broken.values())
        return f"What is shown may be out of date since {since:%H:%M:%S} UTC: {error}"

    # Lists ------------------------------------------------------------------------------------------------------------

    async def _list_all(self) -> None:
        settings, self._installed = await read_scheduler(self._api, self._options)
        self._scheduler = self._adapt(settings)
        watches = {
            kind: KindWatch(self._api, kind, resource, self)
            for kind, resource in listed_resources(self._scheduler).items()
        }
        await map_concurrently(KindWatch.list_all, watches.values())
        self._watches = watches
        self._note(*watches.values())

    async def _list_until_answered(self) -> None:
        while True:
            try:
                await self._list_all()
            except (ApiUnreachableError, SettingsError) as error:
                self.broken("settings", str(error))
                await asyncio.sleep(1.0)
            else:
                self.broken("settings", "")
                self._stale = True
                self._awake.set()
                return

    async def _settings_change(self) -> None:
        """Return once the scheduler's settings have changed."""
        while True:
            await asyncio.sleep(_SETTINGS_EVERY)
            if self._broken:
                continue  # while something cannot be read, a difference in the settings proves no change
            try:
                _, installed = await read_scheduler(self._api, self._options)
            except (
                SettingsError,
                ApiUnreachableError,
            ):  # a file is being written; or whether it has changed is unknown
                continue
            if _settings_content(installed.objects) != _settings_content(self._installed.objects):
                return


def _settings_content(objects: Iterable[Any]) -> list[Any]:
    """Return the parts of the settings objects that change only when somebody edits them."""
    return [(obj.get("data"), obj.get("spec")) for obj in objects]
