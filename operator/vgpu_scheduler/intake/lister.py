"""Consistent lists of any kind, page by page."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from vgpu_scheduler.apiclient import ApiClient, ApiError
from vgpu_scheduler.intake.kinds import Kind
from vgpu_scheduler.kube import DecodeError, Encoded, Versioned, decode_list

log = logging.getLogger(__name__)

_Value = TypeVar("_Value", bound=Versioned)

steps = count()
"""Numbers what happens to lists, in its order."""

_PAGE = 500
_NOT_FOUND = 404
_GONE = 410


@dataclass(slots=True)
class Listing(Generic[_Value]):
    """What a list showed.

    Attributes
    ----------
    version
        The list's resource version; None where there is no such kind at all.
    unreadable
        ``namespace/name`` of the objects that could not be read: they are there, although they are not among the
        objects. Empty where even that could not be read.
    begun
        Orders when lists were asked for and when they were taken in; see :meth:`Observer.sweep`.
    """

    objects: list[_Value] = field(default_factory=list)
    version: int | None = None
    unreadable: set[str] = field(default_factory=set)
    begun: int = field(default_factory=lambda: next(steps))


async def list_all(api: ApiClient, kind: Kind[_Value]) -> Listing[_Value]:
    """Return all objects of a kind, consistently: never from a cache.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page cannot be read.
    """
    found: Listing[_Value] = Listing()

    def skip(error: DecodeError) -> None:
        """Leave out an object that cannot be read: the others go on."""
        log.warning("%s", error)
        found.unreadable.add(error.key)

    token = ""
    while True:
        page = {"limit": str(_PAGE), **({"continue": token} if token else {})}
        response = await api.request("GET", kind.path, params=page)
        if response.status == _NOT_FOUND and kind.defined:
            return found
        if response.status == _GONE and token:
            found.objects, token = [], ""  # the snapshot behind the pages expired: begin again
            continue
        if not response.ok:
            raise ApiError(response)
        objects, version, token = decode_list(response.body, lambda obj: read(kind, obj), skip)
        found.objects += objects
        if not token:
            found.version = int(version or 0)
            return found
        await asyncio.sleep(0)


def read(kind: Kind[_Value], obj: Encoded) -> _Value:
    """Read one object.

    Raises
    ------
    DecodeError
        If it cannot be read, whatever the reason: one object must not end a watch or a list.
    """
    try:
        return kind.decode(obj)
    except DecodeError:
        raise
    except Exception as error:
        log.exception("a %s could not be read", kind.name)
        raise DecodeError(kind.name, "", "", f"internal error: {error!r}") from error
