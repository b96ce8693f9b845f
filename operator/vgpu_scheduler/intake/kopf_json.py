"""Replaces how kopf reads JSON, for which it has no setting: any nesting depth, and no changes that are known already.

With the standard library's recursion limit, one deeply nested object ends a watch. For a change that another stream has
shown already, kopf would make several tasks and copies before it asks whether the handler wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Final

import aiohttp
import msgspec
from kopf._cogs.clients import api

from vgpu_scheduler.kube import ObjectIdentity, loads

IsKnown = Callable[[str, ObjectIdentity], bool]
"""Tells whether an object of a kind is known in its version."""
_is_known: ContextVar[IsKnown] = ContextVar("is_known")
"""One per kopf operator, because several may run in a process."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: Annotated[int, msgspec.Meta(gt=0)]
    uid: str
    namespace: str = ""


class _Changed(msgspec.Struct):
    kind: str
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Changed


_events: Final = msgspec.json.Decoder(_Event, strict=False)  # resource versions are numbers in strings


def skip_known(is_known: IsKnown) -> None:
    """Have kopf skip changes of known objects, in this context and in tasks created from it."""
    _is_known.set(is_known)


def _known_change(line: str) -> _Changed | None:
    """Return the changed object of a line whose version is known already; None for any other line."""
    is_known = _is_known.get(None)
    if is_known is None or not line.startswith('{"type":"MODIFIED"'):
        return None
    try:
        changed = _events.decode(line).object
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None  # the line is then read as a whole, which reports the error
    meta = changed.metadata
    identity = ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.resource_version)
    return changed if is_known(changed.kind, identity) else None


class _Json:
    """The part of the module ``json`` that kopf uses to read the lines of a watch."""

    @staticmethod
    def loads(line: str) -> Any:
        """Read a line; a known change becomes a bookmark, of which kopf keeps only the resource version."""
        changed = _known_change(line)
        if changed is None:
            return loads(line)
        metadata = {"resourceVersion": str(changed.metadata.resource_version)}
        return {"type": "BOOKMARK", "object": {"kind": changed.kind, "metadata": metadata}}


def read_any_depth() -> None:
    """Have kopf read objects of any depth, both in lines of watches and in lists, which aiohttp decodes."""
    watches: Any = api
    watches.json = _Json
    lists: Any = aiohttp.ClientResponse.json
    lists.__kwdefaults__["loads"] = loads
