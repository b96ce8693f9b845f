"""Objects, their revisions, and who watches them.

An object is stored as the bytes of its last revision, plus the fields that selectors use. The same bytes go into
answers, lists and watch events. Every write takes the next revision of one counter and appends to the event log of its
table, a ring of bounded length: a watch that starts before the oldest event of the ring has expired.

A watcher has a bounded queue. A watcher that does not keep up is closed, and its client has to resume from its last
revision; a watcher never slows down writers and never skips an event.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from .status import expired

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .resources import Resource
    from .selectors import Selector

Object = dict[str, Any]
Key = tuple[str, str]  # namespace ("" without), name

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Entry:
    """One revision of one object."""

    __slots__ = ("fields", "labels", "name", "namespace", "raw", "revision", "uid")

    def __init__(self, resource: Resource, obj: Object, revision: int) -> None:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(revision)
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels", {})
        self.fields = resource.select(obj)
        self.revision = revision
        self.raw: bytes = encode(obj)

    @property
    def key(self) -> Key:
        """The key of the object in its table."""
        return self.namespace, self.name

    def thaw(self) -> Object:
        """Return a private copy of the object."""
        obj: Object = decode(self.raw)
        return obj

    def matches(self, selector: Selector) -> bool:
        """Tell whether a selector selects this revision."""
        return selector.everything or selector.matches(self.namespace, self.labels, self.fields)


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the previous state (None for a creation) and the new one.

    For a deletion ``entry`` is the last state with the revision of the deletion, as watchers get it.
    """

    entry: Entry
    previous: Entry | None
    deleted: bool = False


class Watcher:
    """One watch: the events that have not been sent to its client yet.

    An object that starts to match is ADDED, one that ceases to match is DELETED in its old state. So the client sees
    exactly the objects that its selector selects.
    """

    def __init__(self, resource: Resource, selector: Selector, limit: int, after: int = 0) -> None:
        self.resource = resource
        self.selector = selector
        self.queue: list[bytes] = []
        self.wake = asyncio.Event()
        self.closed = False
        self.expired = False
        self._room = limit * _PIECES
        self._after = after  # for a future revision the watch waits, as on the API server

    def start(self, pieces: list[bytes]) -> None:
        """Queue the events that come before all others; they do not count against the bound."""
        self.queue = [*pieces, *self.queue]
        self._room += len(pieces)
        self.wake.set()

    def offer(self, change: Change) -> None:
        """Queue the event of a change for this watch, or close the watch if the queue is full."""
        pieces = self.pieces(change)
        if not pieces or self.closed:
            return
        if len(self.queue) >= self._room:
            self.close()
            return
        self.queue += pieces
        self.wake.set()

    def pieces(self, change: Change) -> tuple[bytes, ...]:
        """Return the event in pieces, which are joined when sent; empty if the client does not see the change."""
        entry, previous = change.entry, change.previous
        if entry.revision <= self._after:
            return ()
        was = previous is not None and previous.matches(self.selector)
        if not change.deleted and entry.matches(self.selector):
            return event_pieces("MODIFIED" if was else "ADDED", self._raw(entry))
        if not was or previous is None:
            return ()
        if not change.deleted:
            entry = Entry(self.resource, previous.thaw(), entry.revision)
        return event_pieces("DELETED", self._raw(entry))

    def _raw(self, entry: Entry) -> bytes:
        return entry.raw if self.resource.outbound is None else encode(self.resource.outbound(entry.thaw()))

    def take(self) -> bytes:
        """Return and clear the queue."""
        data = b"".join(self.queue)
        self.queue.clear()
        self.wake.clear()
        return data

    def close(self, *, expired: bool = False) -> None:
        """End the watch after the queued events; with ``expired``, end it with a 410, so that clients list again."""
        self.closed = True
        self.expired = self.expired or expired
        self.wake.set()


def event_pieces(kind: str, raw: bytes) -> tuple[bytes, ...]:
    """Return a watch event around the bytes of an object."""
    return b'{"type":"%s","object":' % kind.encode(), raw, b"}\n"


_PIECES = 3


class Table:
    """The objects of one kind, their event log and their watchers."""

    def __init__(self, log_size: int) -> None:
        self.entries: dict[Key, Entry] = {}
        self.log: deque[Change] = deque(maxlen=log_size)
        self.watchers: set[Watcher] = set()
        self.compacted = 0  # changes up to this revision were dropped

    def record(self, change: Change) -> None:
        """Append a change to the log and hand it to the watchers."""
        if len(self.log) == self.log.maxlen:
            self.compacted = self.log[0].entry.revision
        self.log.append(change)
        for watcher in self.watchers:
            watcher.offer(change)

    def since(self, revision: int) -> list[Change]:
        """Return the changes after ``revision``.

        Raises
        ------
        ApiError
            410 if some of them were dropped.
        """
        if revision < self.compacted:
            raise expired(revision, self.compacted)
        start = bisect_right(self.log, revision, key=lambda change: change.entry.revision)
        return [self.log[index] for index in range(start, len(self.log))]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a store at one moment: its revision, and the entries of each table."""

    revision: int
    entries: Mapping[str, Mapping[Key, Entry]]


class Store:
    """All tables under one revision counter."""

    def __init__(self, log_size: int) -> None:
        self.revision = 1
        self._log_size = log_size
        self._tables: dict[str, Table] = {}

    def table(self, resource: Resource) -> Table:
        """Return the table of a kind."""
        return self.named(resource.storage)

    def named(self, storage: str) -> Table:
        """Return a table by its name."""
        found = self._tables.get(storage)
        if found is None:
            found = self._tables[storage] = Table(self._log_size)
        return found

    def get(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        """Return the current revision of an object."""
        return self.table(resource).entries.get((namespace, name))

    def select(self, resource: Resource, selector: Selector) -> list[Entry]:
        """Return what a selector selects, by namespace and name."""
        entries = self.table(resource).entries
        return [entries[key] for key in sorted(entries) if entries[key].matches(selector)]

    def put(self, resource: Resource, obj: Object, previous: Entry | None) -> Entry:
        """Write the next revision of an object; the caller must not use the object afterwards."""
        self.revision += 1
        entry = Entry(resource, obj, self.revision)
        table = self.table(resource)
        table.entries[entry.key] = entry
        table.record(Change(entry, previous))
        return entry

    def remove(self, resource: Resource, previous: Entry) -> Entry:
        """Delete an object; watchers get its last state under the deletion's revision."""
        self.revision += 1
        entry = Entry(resource, previous.thaw(), self.revision)
        table = self.table(resource)
        del table.entries[previous.key]
        table.record(Change(entry, previous, deleted=True))
        return entry

    def tables(self) -> Iterator[Table]:
        """Iterate over the tables."""
        return iter(self._tables.values())

    def snapshot(self) -> Snapshot:
        """Return the objects and their revisions as they are now."""
        return Snapshot(self.revision, {name: dict(table.entries) for name, table in self._tables.items()})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot, as a store started from a backup does: revisions after it are assigned again.

        End watches before. A watch that starts at the snapshot's revision or an older one gets a 410.
        """
        self.revision = snapshot.revision
        for name, table in self._tables.items():
            table.entries = dict(snapshot.entries.get(name, {}))
            table.log.clear()
            table.compacted = snapshot.revision
