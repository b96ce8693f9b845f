"""Consistent lists of any kind, page by page: of whole objects, or of the changes since an earlier list."""

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
"""The most objects that are read one by one; beyond that a full list is quicker."""


@dataclass(slots=True)
class Listing(Generic[_Value]):
    """The result of a list.

    Attributes
    ----------
    version
        The list's resource version; None if the API server does not serve the kind.
    unreadable
        ``namespace/name`` of the objects that exist but could not be decoded; an empty string for one whose name
        could not be decoded either.
    since
        The version of the last list that was processed when this one was requested; None if not noted.
    unchanged
        The objects whose current version is known already; they are not among ``objects``.
    present
        Objects that exist but were not read because the caller did not want them; they are not among ``objects``.
    """

    objects: list[_Value] = field(default_factory=list)
    version: int | None = None
    unreadable: set[str] = field(default_factory=set)
    since: int | None = None
    unchanged: list[ObjectIdentity] = field(default_factory=list)
    present: list[ObjectIdentity] = field(default_factory=list)

    def skip(self, error: DecodeError) -> None:
        """Note an object that cannot be decoded, and continue with the others."""
        log.warning("%s", error)
        self.unreadable.add(error.key)


async def list_all(api: ApiClient, kind: Kind[_Value], since: int | None = None, fields: str = "") -> Listing[_Value]:
    """Return all objects of a kind or a selection, from a consistent list (never from the watch cache).

    Parameters
    ----------
    since
        The version of the last list that was processed: lists may overlap, and their order must be known.
    fields
        A field selector; empty for all objects.

    Raises
    ------
    ApiError, ApiUnreachableError
        If a page cannot be read.
    """
    found: Listing[_Value] = Listing(since=since)
    async with aclosing(_pages(api, kind, found, lambda obj: decode_as(kind, obj), fields=fields)) as pages:
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
    """Return all objects of a kind from a consistent list, but read only objects whose current version is not known.

    It lists metadata only, which costs the API server and this program less than whole objects. If many objects
    changed, or single objects may not be read, it lists whole objects instead.

    Parameters
    ----------
    known
        Returns the version in which an object is known, 0 if it is not.
    since, fields
        As in :func:`list_all`.
    unknown
        Whether to read objects that are not known at all.

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
    """Return all pods, but read only pods whose current version is not known.

    Unbound pods are listed first: a pod that was known by then and is in neither list is gone.

    Parameters
    ----------
    known, since
        As in :func:`list_changed`.
    unknown
        Whether to read unbound pods that are not known at all.

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


async def get_one(api: ApiClient, kind: Kind[_Value], namespace: str, name: str) -> _Value | None:
    """Return the current state of an object; None if it does not exist.

    Parameters
    ----------
    namespace
        Empty for cluster-scoped objects.

    Raises
    ------
    ApiError, ApiUnreachableError
        If the API server refuses the read or does not answer.
    DecodeError
        If the object cannot be decoded.
    """
    response = await api.request("GET", object_path(kind.path, namespace, name))
    if response.status == HTTPStatus.NOT_FOUND:
        return None
    if not response.ok:
        raise ApiError(response)
    return decode_as(kind, response.body)


async def _add_one(api: ApiClient, kind: Kind[_Value], identity: ObjectIdentity, found: Listing[_Value]) -> bool:
    """Read an object, and add it to a listing if it still exists; return False if reading it is forbidden."""
    try:
        current = await get_one(api, kind, identity.namespace, identity.name)
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
    """Yield the objects of each page of one consistent list, and None when the list restarts; note its version."""
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
        if error.response.status != HTTPStatus.NOT_FOUND or not kind.absence.may_be_undefined:
            raise


def decode_as(kind: Kind[_Value], obj: Encoded) -> _Value:
    """Decode one object.

    Raises
    ------
    DecodeError
        If decoding fails for any reason: one object must not end a watch or a list.
    """
    try:
        return kind.decode(obj)
    except DecodeError:
        raise
    except Exception as error:
        log.exception("a %s could not be decoded", kind.name)
        raise DecodeError(kind.name, "", "", internal_error(error)) from error
