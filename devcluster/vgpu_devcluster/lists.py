"""LIST, in pages: all pages of one list show one snapshot."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import status
from .objects import list_body

if TYPE_CHECKING:
    from .registry import Answer
    from .resources import Resource
    from .selectors import Selector
    from .store import Entry, Store

_MAX_SNAPSHOTS = 256  # unfinished lists; a token of an older one has expired


@dataclass(slots=True)
class Lists:
    """Lists over one store."""

    store: Store
    _snapshots: dict[str, tuple[int, list[Entry]]] = field(default_factory=dict)

    def page(self, resource: Resource, selector: Selector, limit: int, token: str) -> Answer:
        """Return the first page of a list, or the page of a continue token; limit 0 means no limit."""
        if token:
            revision, entries = self._resume(token)
        else:
            revision, entries = self.store.revision, self.store.select(resource, selector)
        if not limit or len(entries) <= limit:
            return 200, list_body(resource, revision, entries)
        rest = entries[limit:]
        more = b',"continue":"%s"' % self._remember(revision, rest).encode()
        if not selector.labels and not selector.fields:
            more += b',"remainingItemCount":%d' % len(rest)
        return 200, list_body(resource, revision, entries[:limit], more)

    def forget(self) -> None:
        """Expire all continue tokens."""
        self._snapshots.clear()

    def _remember(self, revision: int, rest: list[Entry]) -> str:
        token = uuid.uuid4().hex
        self._snapshots[token] = (revision, rest)
        while len(self._snapshots) > _MAX_SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]
        return token

    def _resume(self, token: str) -> tuple[int, list[Entry]]:
        if len(token) != len(uuid.uuid4().hex):
            raise status.bad_request("invalid continue token: continue key is not valid")
        if token not in self._snapshots:
            raise status.expired_continue()
        return self._snapshots[token]  # kept: a client may ask for the same page again
