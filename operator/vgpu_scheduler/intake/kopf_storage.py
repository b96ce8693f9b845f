"""Disables what kopf stores in objects: the handlers here need none of it, and it costs most of an event."""

from __future__ import annotations

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """Disables kopf's record of last-seen object states: no handler here needs it, and it costs most of an event."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        """Return an empty state."""
        del body, extra_fields
        return {}

    def fetch(self, *, body: Any) -> Any:
        """Return no state."""
        del body

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Disables kopf's record of handler progress: no handler here needs it."""

    def fetch(self, *, key: Any, body: Any) -> Any:
        """Return no progress."""
        del key, body

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        """Store nothing."""

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        """Purge nothing."""

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        """Touch nothing."""

    def clear(self, *, essence: Any) -> Any:
        """Return the state of an object as it is."""
        return essence
