"""Lists and watches all objects of one kind, undecoded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, watch, watch_backoff
from vgpu_scheduler.kube import ApiResource, decode_json
from vgpu_scheduler.reading import is_optional, list_objects, with_kind
from vgpu_scheduler.reading.lists import MissingList
from vgpu_scheduler.ui.shared_values import SharedValues

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name."""
_LOOK_AGAIN: Final = 30.0
"""Seconds between two lists of a kind that cannot be watched or listed."""
_LIST_AFTER: Final[Mapping[int, float]] = {
    HTTPStatus.GONE: 0.0,
    HTTPStatus.NOT_FOUND: 0.0,  # its CRD was deleted
    HTTPStatus.FORBIDDEN: _LOOK_AGAIN,
}
"""Seconds to wait before listing a kind again, by the status with which its watch was refused."""


class ObjectHandler(Protocol):
    """Is told what watches observe."""

    def listed(self, watch: KindWatch) -> None:
        """Note that a kind was listed, or cannot be listed."""

    def changed(self, kind: str, obj: dict[str, Any], *, gone: bool) -> None:
        """Note that an object changed or was deleted."""

    def broken(self, kind: str, error: str) -> None:
        """Note why a kind cannot be watched at the moment; an empty text means that it can be again."""


class KindWatch:
    """Holds the objects of one kind, up to date.

    Attributes
    ----------
    objects
        The objects as the API server sends them, by namespace and name.
    missing
        Why the objects are not listed; None if they are.
    served
        Whether the API server serves the kind.
    ahead
        How far the API server's clock is ahead of this machine's.
    """

    def __init__(self, api: ApiClient, kind: str, resource: ApiResource) -> None:
        self._api = api
        self.kind = kind
        self._resource = resource
        self._version = ""
        self._values = SharedValues()
        self._list_after: float | None = None  # seconds until the next list; None while the kind is watched
        self.objects: dict[Key, dict[str, Any]] = {}
        self.missing: MissingList | None = None
        self.served = False
        self.ahead = timedelta(0)

    async def list(self) -> None:
        """List all objects.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
        found = await list_objects(self._api, self._resource.path)
        self.served = found.served
        self._version = found.version
        self._list_after = None if found.version else _LOOK_AGAIN
        self.missing = None
        if found.refusal is not None and not is_optional(self.kind):
            self.missing = MissingList.of(self._resource, found)
        if found.read_at is not None:
            self.ahead = found.read_at - datetime.now(UTC)
        listed = (self._kept(decode_json(item)) for item in found.items)
        self.objects = {key_of(obj): obj for obj in listed}

    async def run(self, observer: ObjectHandler) -> None:
        """Watch until cancelled, from the version of the last list on."""
        backoff, failures = watch_backoff(), 0
        while True:
            problem, retry_after = "", None
            try:
                if self._list_after is not None:
                    await self._list_again(observer)
                    continue
                if await self._watch(observer):
                    backoff.reset()
                    failures = 0
                    continue
            except ApiError as error:
                self._list_after, retry_after = _LIST_AFTER.get(error.response.status), error.response.retry_after
                problem = "" if self._list_after is not None else str(error)
            except ApiUnreachableError as error:
                problem = str(error)
            except Exception as error:  # whatever fails, these objects must stay up to date
                log.exception("watch of %s failed and is restarted", self._resource.path)
                self._list_after, problem = 0.0, f"{type(error).__name__}: {error}"
            failures += bool(problem)
            if failures > 1:  # a single watch that ends is not worth a message
                observer.broken(self.kind, problem)
            await backoff.sleep(retry_after)

    async def _list_again(self, observer: ObjectHandler) -> None:
        await asyncio.sleep(self._list_after or 0.0)
        before = (self.objects, self.missing, self.served)
        await self.list()
        observer.broken(self.kind, "")
        if (self.objects, self.missing, self.served) != before:
            observer.listed(self)

    async def _watch(self, observer: ObjectHandler) -> bool:
        """Follow one watch to its end; return whether it delivered anything and may be resumed."""
        came = False
        async with watch(self._api, self._resource.path, self._version) as lines:
            observer.broken(self.kind, "")
            async for line in lines:
                came = True
                if not self._take(decode_json(line), observer):
                    self._list_after = 0.0
                    return False
        return came

    def _take(self, event: Mapping[str, Any], observer: ObjectHandler) -> bool:
        """Apply one event; return whether the watch goes on."""
        obj = event.get("object") or {}
        if event.get("type") == "ERROR":
            log.info("watch of %s: %s", self._resource.path, obj.get("message"))
            return False
        version = (obj.get("metadata") or {}).get("resourceVersion")
        self._version = version or self._version
        if event.get("type") == "BOOKMARK":
            return True
        gone = event.get("type") == "DELETED"
        written, key = self._kept(obj), key_of(obj)
        if gone:
            self.objects.pop(key, None)
        else:
            self.objects[key] = written
        observer.changed(self.kind, written, gone=gone)
        return True

    def _kept(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object in the form to keep: values equal to those of other objects are shared."""
        kept: dict[str, Any] = self._values.share(_without_owners(with_kind(self.kind, obj)))
        return kept


def _without_owners(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its managed fields, which matter only for pods nominated to a node."""
    metadata, status = obj.get("metadata"), obj.get("status")
    is_nominated = isinstance(status, dict) and bool(status.get("nominatedNodeName"))
    if isinstance(metadata, dict) and not is_nominated:
        metadata.pop("managedFields", None)
    return obj


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return the namespace and name of an object."""
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
