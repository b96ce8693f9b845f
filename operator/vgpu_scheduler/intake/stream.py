"""A light, read-only stream of all objects of a kind, which decodes only the fields that are used.

An API server ends the watches of clients that fall behind; the stream then resumes from its last resource version. It
lists again only if that version is too old.
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
from vgpu_scheduler.intake.listing import decode_as, list_all
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.kube import DecodeError, Encoded, ObjectIdentity, Pod, Versioned, decode_event, decode_identity

log = logging.getLogger(__name__)

_Value = TypeVar("_Value", bound=Versioned)

_DELETED = b'{"type":"DELETED"'
_LOOK_AGAIN = 10.0
"""Seconds between two checks whether the API server serves a kind by now."""


class ObjectStream(Generic[_Value]):
    """Lists and watches all objects of a kind.

    Parameters
    ----------
    kind
        The kind.
    observer
        Where observations go.
    lost_track
        Called when deletions may have been missed.
    since
        The version of a consistent list that was processed already, to watch from; 0 to list first.
    selection
        The pods to list and watch; None for all objects of the kind.

    Attributes
    ----------
    listed
        Set once all objects of the kind were observed.
    refusal
        Why the API server refuses to list or watch the objects; empty if it did not refuse last time. While refused,
        what is known may be stale until the next list.
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
        """``namespace/name`` of the pods that could not be decoded and may be bound. It contains an empty string if a
        name could not be decoded either; then only relists tell which pods are gone."""
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
                if not version and self.kind.absence.may_be_undefined:
                    await asyncio.sleep(_LOOK_AGAIN)  # no CRD defines the kind yet: there is nothing to watch
                    continue
                seen = self._events
                version = await self._watch(version)
                if self._events != seen:
                    backoff.reset()
                    continue
                await backoff.sleep()  # do not reconnect in a tight loop to a server that ends each watch at once
            except ApiError as error:
                if not version or error.response.status == HTTPStatus.FORBIDDEN:
                    self.refusal = str(error)
                undefined = error.response.status == HTTPStatus.NOT_FOUND and self.kind.absence.may_be_undefined
                if error.response.status == HTTPStatus.GONE or undefined:
                    version = ""
                log.warning("stream of %s: %s", self.kind.path, error)
                await backoff.sleep(error.response.retry_after)
            except ApiUnreachableError as error:
                log.warning("stream of %s: %s", self.kind.path, error)
                await backoff.sleep()
            except Exception:  # whatever fails, these objects must keep being observed
                log.exception("stream of %s failed and is restarted", self.kind.path)
                version = ""
                await backoff.sleep()

    async def _list(self) -> str:
        selection = self._selection
        if selection is None:
            listing = await list_all(self._api, self.kind, self._observer.engine.lists.listed(self.kind.name))
            await self._observer.relist(self.kind, listing)
        else:  # only a relist tells what became of the pods that left the selection
            listing = await list_all(self._api, self.kind, fields=selection.fields)
            await self._observer.observe_all(self.kind, listing)
            self._unreadable = set(listing.unreadable)
            self._show_up_to(str(listing.version or 0))
        version = str(listing.version or "")
        if self.listed.is_set() and (version or self._served):  # a kind that was not served has no missed deletions
            self._observer.stats.relists += 1
            self._lost_track()
        self._served = bool(version)
        self.refusal = ""
        self.listed.set()
        return version

    async def _watch(self, version: str) -> str:
        """Follow the watch to its end; return the version to resume from, or an empty text if that is too old."""
        fields = "" if self._selection is None else self._selection.fields
        try:
            async with watch(self._api, self.kind.path, version, fields) as lines:
                if self.refusal:
                    return ""  # the watch is allowed again: list what was missed
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
                        if self._unreadable and isinstance(event.object, Pod):
                            self._unreadable.discard(event.object.key)
                        self._observer.take_event(self.kind, event.type, event.object, self._left)
                    self._show_up_to(version)
        except ApiUnreachableError as error:
            log.info("stream of %s: %s", self.kind.path, error)
            await asyncio.sleep(0.2)
        return version

    def _read(self, obj: Encoded) -> _Value:
        return decode_as(self.kind, obj)

    def _read_news(self, obj: Encoded) -> _Value | ObjectIdentity:
        """Decode an object unless its version is known already from an answer to a write or from a list.

        With a selection every object is decoded and observed: :meth:`Observer.bound_pods_synced_to` relies on all bound
        pods having been observed.
        """
        if self._selection is None:
            with suppress(DecodeError):  # decoding the whole object below reports the error
                identity = decode_identity(obj)
                if self._observer.seen_unchanged(self.kind, identity):
                    return identity
        return decode_as(self.kind, obj)

    def _show_up_to(self, version: str) -> None:
        """Report up to which version all bound pods were observed, unless one of them may have been left out."""
        if self._selection is not None and self._selection.bound and "" not in self._unreadable:
            self._observer.bound_pods_synced_to(int(version), self._unreadable)
