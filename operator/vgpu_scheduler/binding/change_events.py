"""Wakes what waits for a change of something, such as a node or a volume claim, by its key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeEvents:
    """Events that are set when something changes, by its key."""

    def __init__(self) -> None:
        self._listening: dict[str, list[asyncio.Event]] = {}

    @contextmanager
    def listening(self, *keys: str) -> Iterator[asyncio.Event]:
        """Yield an event that each change of one of the keys sets; whoever waits for it clears it."""
        event = asyncio.Event()
        for key in keys:
            self._listening.setdefault(key, []).append(event)
        try:
            yield event
        finally:
            for key in keys:
                events = self._listening[key]
                events.remove(event)
                if not events:
                    del self._listening[key]

    def changed(self, key: str) -> None:
        """Note that something changed."""
        for event in self._listening.get(key, ()):
            event.set()

    def wake_all(self) -> None:
        """Set all events."""
        for key in self._listening:
            self.changed(key)
