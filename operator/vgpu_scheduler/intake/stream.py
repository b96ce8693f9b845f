"""A light, read-only stream of all objects of a kind, which decodes only the fields that are used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Generic, TypeVar

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, Reflector
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
        self._since = since
        self._served = bool(since)
        self.listed = asyncio.Event()
        if since:
            self.listed.set()
        self.refusal = ""
        self._is_open = False

    async def run(self) -> None:
        """List and watch until cancelled."""
        version = str(self._since) if self._since else None
        fields = "" if self._selection is None else self._selection.fields
        await Reflector(self._api, self.kind.path, self, look_again=_LOOK_AGAIN, version=version, fields=fields).run()

    async def list_all(self) -> str:
        """List all objects; return the list's version, empty if no CRD defines the kind."""
        try:
            return await self._list()
        except ApiError as error:
            self.refusal = str(error)
            raise

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

    def opened(self) -> bool:
        """Tell whether nothing was missed: after a refusal, what was missed has to be listed."""
        self._is_open = True
        return not self.refusal

    def take(self, line: bytes) -> str:
        """Observe what an event shows."""
        deleted = line.startswith(_DELETED)
        try:
            event = decode_event(line, self._read if deleted else self._read_news)
        except DecodeError as error:
            self._observer.undecodable(error)
            if deleted:
                self._unreadable.discard(error.key)
                self._lost_track()
            else:
                self._unreadable.add(error.key)
            return ""
        if event.object is not None and not isinstance(event.object, ObjectIdentity):
            if self._unreadable and isinstance(event.object, Pod):
                self._unreadable.discard(event.object.key)
            self._observer.take_event(self.kind, event.type, event.object, self._left)
        if event.resource_version:
            self._show_up_to(event.resource_version)
        return event.resource_version

    def failed(self, error: Exception) -> bool:
        """Log the error; a watch that is refused goes on where it was, once it is allowed."""
        if isinstance(error, ApiError | ApiUnreachableError):
            level = logging.INFO if self._is_open else logging.WARNING  # a lost connection is made again at once
            log.log(level, "stream of %s: %s", self.kind.path, error)
        self._is_open = False
        if isinstance(error, ApiError) and error.response.status == HTTPStatus.FORBIDDEN:
            self.refusal = str(error)
        return False

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
