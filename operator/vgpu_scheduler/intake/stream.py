"""One light, read-only stream of all objects of a kind: only what counts is decoded.

An API server ends the watches of clients that fall behind; the stream then resumes from the last resource version. Only
when that is too old it lists again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Generic, TypeVar

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, watch, watch_backoff
from vgpu_scheduler.intake.kinds import Kind, PodSelection
from vgpu_scheduler.intake.lister import list_all, read
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.kube import DecodeError, Encoded, ObjectIdentity, Versioned, decode_event, decode_identity

log = logging.getLogger(__name__)

_Value = TypeVar("_Value", bound=Versioned)

_DELETED = b'{"type":"DELETED"'
_LOOK_AGAIN = 10.0
"""Seconds between two looks whether somebody has defined a kind."""


class ObjectStream(Generic[_Value]):
    """Lists and watches all objects of a kind.

    Parameters
    ----------
    kind
        The kind.
    observer
        Where they go.
    lost_track
        Called when deletions may have been missed.
    since
        The version of a consistent list that was taken in already, which is followed from there; 0 to list first.
    selection
        Which pods are listed and watched; all objects of the kind without it.

    Attributes
    ----------
    listed
        Set once all objects of the kind were taken in.
    refusal
        Why the API server does not let them be listed or watched, empty unless it said so last. What is known may be
        out of date until they are listed anew.
    """

    def __init__(
        self,
        api: ApiClient,
        kind: Kind[_Value],
        observer: Observer,
        lost_track: Callable[[], None],
        since: int = 0,
        selection: PodSelection | None = None,
    ) -> None:
        self._api = api
        self.kind = kind
        self._selection = selection
        self._unreadable: set[str] = set()
        """``namespace/name`` of what could not be read, which may be a pod that was bound; empty where not even that
        could: sweeps tell then who is gone."""
        self._observer = observer
        self._left = None if selection is None or selection.bound else observer.left_selection
        self._lost_track = lost_track
        self._events = 0
        self._since = since
        self._served = bool(since)
        self.listed = asyncio.Event()
        if since:
            self.listed.set()
        self.refusal = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        version = str(self._since or "")
        backoff = watch_backoff()
        while True:
            try:
                if not version:
                    version = await self._list()
                if not version and self.kind.defined:
                    await asyncio.sleep(_LOOK_AGAIN)  # nobody has defined the kind: there is nothing to watch yet
                    continue
                seen = self._events
                version = await self._watch(version)
                if self._events != seen:
                    backoff.reset()
                    continue
                await backoff.sleep()  # a server that ends each watch at once must not be asked all the time
            except ApiError as error:
                if not version or error.response.status == HTTPStatus.FORBIDDEN:
                    self.refusal = str(error)
                undefined = error.response.status == HTTPStatus.NOT_FOUND and self.kind.defined
                if error.response.status == HTTPStatus.GONE or undefined:
                    version = ""
                log.warning("stream of %s: %s", self.kind.path, error)
                await backoff.sleep(error.response.retry_after)
            except ApiUnreachableError as error:
                log.warning("stream of %s: %s", self.kind.path, error)
                await backoff.sleep()
            except Exception:  # whatever it is, these objects must go on to count
                log.exception("stream of %s broke off and begins anew", self.kind.path)
                version = ""
                await backoff.sleep()

    async def _list(self) -> str:
        selection = self._selection
        if selection is None:
            listing = await list_all(self._api, self.kind, self._observer.engine.lists.listed(self.kind.name))
            await self._observer.sweep(self.kind, listing)
        else:  # of those that were in it before a sweep tells what they became
            listing = await list_all(self._api, self.kind, fields=selection.fields)
            await self._observer.observe_all(self.kind, listing)
            self._unreadable = set(listing.unreadable)
            self._show_up_to(str(listing.version or 0))
        version = str(listing.version or "")
        if self.listed.is_set() and (version or self._served):  # of what nobody has defined nothing is missed
            self._observer.stats.relists += 1
            self._lost_track()
        self._served = bool(version)
        self.refusal = ""
        self.listed.set()
        return version

    async def _watch(self, version: str) -> str:
        """Follow the stream to its end; return where to resume, or an empty text if that is too old."""
        fields = "" if self._selection is None else self._selection.fields
        try:
            async with watch(self._api, self.kind.path, version, fields) as lines:
                if self.refusal:
                    return ""  # it may be watched again; what was missed is listed
                async for line in lines:
                    try:
                        event = decode_event(line, self._read if line.startswith(_DELETED) else self._read_news)
                    except DecodeError as error:
                        self._observer.undecodable(error)
                        if line.startswith(_DELETED):
                            self._unreadable.discard(error.key)
                            self._lost_track()
                        else:
                            self._unreadable.add(error.key)
                        continue
                    if event.status is not None:
                        if event.status.code == HTTPStatus.GONE:
                            return ""
                        log.warning("stream of %s: %s", self.kind.path, event.status.message)
                        break
                    version = event.resource_version or version
                    self._events += 1
                    if event.object is not None and not isinstance(event.object, ObjectIdentity):
                        self._observer.take_event(self.kind, event.type, event.object, self._left)
                    self._show_up_to(version)
        except ApiUnreachableError as error:
            log.info("stream of %s: %s", self.kind.path, error)
            await asyncio.sleep(0.2)
        return version

    def _read(self, obj: Encoded) -> _Value:
        return read(self.kind, obj)

    def _read_news(self, obj: Encoded) -> _Value | ObjectIdentity:
        """Read an object, but for one that is known already: answers to our writes and lists may come first.

        With a selection, every object is read and shown even if it is known: whoever waits until *all* bound pods are
        shown counts on each.
        """
        if self._selection is None:
            with suppress(DecodeError):  # what is wrong with it is said when it is read
                identity = decode_identity(obj)
                if self._observer.seen_unchanged(self.kind, identity):
                    return identity
        return read(self.kind, obj)

    def _show_up_to(self, version: str) -> None:
        """Tell how far the bound pods have been shown, unless one may have been left out."""
        if self._selection is not None and self._selection.bound and "" not in self._unreadable:
            self._observer.bound_shown_up_to(int(version), self._unreadable)
