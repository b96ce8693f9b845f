"""Consistent lists of any kind, page by page: of whole objects, or of what changed since an earlier list."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from vgpu_scheduler.apiclient import METADATA_LIST, ApiClient, ApiError, list_pages, object_path
from vgpu_scheduler.intake.kinds import BOUND_PODS, PODS, UNBOUND, Kind
from vgpu_scheduler.kube import (
    Decode,
    DecodeError,
    Encoded,
    ObjectIdentity,
    Pod,
    Versioned,
    decode_identity,
    decode_items,
)
from vgpu_scheduler.model import internal_error

log = logging.getLogger(__name__)

_Value = TypeVar("_Value", bound=Versioned)
_Listed = TypeVar("_Listed", bound=Versioned)

_MOST_READ = 100
"""How many objects are read one by one, one after the other; beyond that the whole list is quicker."""


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
    since
        The version of the list that was the last one taken in when this one was asked for; None if nobody noted it.
    unchanged
        The objects that are there in the version in which they are known; they are not among the objects.
    present
        Objects that are there and were not to be read; they are not among the objects.
    """

    objects: list[_Value] = field(default_factory=list)
    version: int | None = None
    unreadable: set[str] = field(default_factory=set)
    since: int | None = None
    unchanged: list[ObjectIdentity] = field(default_factory=list)
    present: list[ObjectIdentity] = field(default_factory=list)

    def skip(self, error: DecodeError) -> None:
        """Leave out an object that cannot be read: the others go on."""
        log.warning("%s", error)
        self.unreadable.add(error.key)


async def list_all(api: ApiClient, kind: Kind[_Value], since: int | None = None, fields: str = "") -> Listing[_Value]:
    """Return all objects of a kind, or those of a selection, consistently: never from a cache.

    Parameters
    ----------
    since
        The version of the list that was taken in last: several may be under way, and which is newer must show.
    fields
        A field selector; empty for all objects.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page cannot be read.
    """
    found: Listing[_Value] = Listing(since=since)
    async with aclosing(_pages(api, kind, found, lambda obj: read(kind, obj), fields=fields)) as pages:
        async for page in pages:
            if page is None:
                found.objects = []
            else:
                found.objects += page
    return found


Known = Callable[[ObjectIdentity], int]
"""Returns the version in which an object is known; 0 if it is not."""


async def list_changed(
    api: ApiClient,
    kind: Kind[_Value],
    known: Known,
    since: int | None = None,
    fields: str = "",
    *,
    unknown: bool = True,
) -> Listing[_Value]:
    """Return all objects of a kind, consistently, but read only those that are not known in their present version.

    Metadata alone is listed: it costs the API server and this program less than whole objects. Where many changed,
    or single objects may not be read, whole objects are listed after all.

    Parameters
    ----------
    known
        In which version an object is known.
    since, fields
        As in :func:`list_all`.
    unknown
        Whether objects are read that are not known at all.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page or an object cannot be read.
    """
    found: Listing[_Value] = Listing(since=since)
    changed: list[ObjectIdentity] = []
    async with aclosing(_pages(api, kind, found, decode_identity, METADATA_LIST, fields)) as pages:
        async for page in pages:
            if page is None:
                found.unchanged, found.present, changed = [], [], []
                continue
            for identity in page:
                version = known(identity)
                same = 0 < identity.resource_version == version
                (found.unchanged if same else changed if version or unknown else found.present).append(identity)
            if len(changed) > _MOST_READ:
                return await list_all(api, kind, since, fields)
    for identity in changed:
        if not await _add_one(api, kind, identity, found):
            return await list_all(api, kind, since, fields)
    return found


async def list_pods(api: ApiClient, known: Known, since: int | None = None, *, unknown: bool = True) -> Listing[Pod]:
    """Return which pods there are, and read those that are not known in their present version.

    The unbound ones are listed first: a pod that was known by then, and is in neither list, is gone.

    Parameters
    ----------
    known, since
        As in :func:`list_changed`.
    unknown
        Whether unbound pods that are not known at all are read, too.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page or a pod cannot be read.
    """
    unbound = await list_changed(api, PODS, known, since, UNBOUND, unknown=unknown)
    found = await list_changed(api, PODS, known, since, BOUND_PODS.fields)
    return Listing(
        [*unbound.objects, *found.objects],
        unbound.version,
        unbound.unreadable | found.unreadable,
        since,
        [*unbound.unchanged, *found.unchanged],
        unbound.present,
    )


async def read_one(api: ApiClient, kind: Kind[_Value], namespace: str, name: str) -> _Value | None:
    """Return an object as it is now, None if it is not there.

    Parameters
    ----------
    namespace
        Empty for an object without one.

    Raises
    ------
    ApiError, ApiUnreachableError
        If it may not be read, or there is no answer.
    DecodeError
        If it cannot be read.
    """
    response = await api.request("GET", object_path(kind.path, namespace, name))
    if response.status == HTTPStatus.NOT_FOUND:
        return None
    if not response.ok:
        raise ApiError(response)
    return read(kind, response.body)


async def _add_one(api: ApiClient, kind: Kind[_Value], identity: ObjectIdentity, found: Listing[_Value]) -> bool:
    """Add an object to a listing as it is now, if it is still there; False if it may not be read."""
    try:
        current = await read_one(api, kind, identity.namespace, identity.name)
    except ApiError as error:
        if error.response.status == HTTPStatus.FORBIDDEN:
            return False
        raise
    except DecodeError as error:
        found.skip(error)
        return True
    if current is not None:
        found.objects.append(current)
    return True


async def _pages(
    api: ApiClient,
    kind: Kind[Any],
    found: Listing[Any],
    decode: Decode[_Listed],
    form: str = "application/json",
    fields: str = "",
) -> AsyncGenerator[list[_Listed] | None, None]:
    """Yield the objects of each page of one consistent list, and None where it begins anew; note its version."""
    try:
        async with aclosing(list_pages(api, kind.path, form, fields)) as pages:
            async for listed in pages:
                if listed is None:
                    yield None
                    continue
                page, _ = listed
                yield decode_items(page, decode, found.skip)
                if not page.continue_token:
                    found.version = int(page.resource_version or 0)
    except ApiError as error:
        if error.response.status != HTTPStatus.NOT_FOUND or not kind.defined:
            raise


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
        raise DecodeError(kind.name, "", "", internal_error(error)) from error
