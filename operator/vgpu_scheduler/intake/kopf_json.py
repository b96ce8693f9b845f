"""How kopf reads JSON, for which it has no setting: objects of any depth, and nothing of what is known already.

With the standard library's limit one deep object ends a watch. And of a change that another stream has shown, kopf
would make several tasks and copies before it asks whether anybody wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Final

import aiohttp
import msgspec
from kopf._cogs.clients import api

from vgpu_scheduler.kube import ObjectIdentity, loads

__all__ = ["read_any_depth", "skip_known"]

IsKnown = Callable[[str, ObjectIdentity], bool]
"""Tells whether an object of a kind is known in its version."""
_is_known: ContextVar[IsKnown] = ContextVar("is_known")
"""Of each kopf operator, for there may be several in a process."""


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


_events: Final = msgspec.json.Decoder(_Event, strict=False)  # versions are numbers in texts


def skip_known(is_known: IsKnown) -> None:
    """Have kopf skip changes of objects that are known, in this context and in the tasks that are made in it."""
    _is_known.set(is_known)


class _Json:
    """What kopf uses of the module ``json`` to read the lines of a watch."""

    @staticmethod
    def loads(line: str) -> Any:
        """Read a line; a change that is known becomes a bookmark, of which kopf only keeps the version."""
        is_known = _is_known.get(None)
        if is_known is not None and line.startswith('{"type":"MODIFIED"'):
            try:
                changed = _events.decode(line).object
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                return loads(line)  # what is wrong with it is said there
            meta = changed.metadata
            if is_known(changed.kind, ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.resource_version)):
                metadata = {"resourceVersion": str(meta.resource_version)}
                return {"type": "BOOKMARK", "object": {"kind": changed.kind, "metadata": metadata}}
        return loads(line)


def read_any_depth() -> None:
    """Have kopf read objects of any depth: the lines of watches, and lists, which aiohttp decodes for it."""
    watches: Any = api
    watches.json = _Json
    lists: Any = aiohttp.ClientResponse.json
    lists.__kwdefaults__["loads"] = loads
