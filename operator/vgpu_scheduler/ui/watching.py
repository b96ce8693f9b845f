"""Lists and watches all objects of one kind, undecoded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, Reflector
from vgpu_scheduler.kube import ApiResource, decode_json
from vgpu_scheduler.reading import is_optional, list_objects, with_kind
from vgpu_scheduler.reading.lists import MissingList
from vgpu_scheduler.ui.shared_values import SharedValues

Key = tuple[str, str]
"""Namespace and name."""
_LOOK_AGAIN: Final = 30.0
"""Seconds between two lists of a kind that cannot be watched or listed."""
_LIST_AGAIN: Final = frozenset((HTTPStatus.GONE, HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN))
"""The statuses of a refused watch after which the kind is listed again: at once, or where it is forbidden, later."""


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

    def __init__(self, api: ApiClient, kind: str, resource: ApiResource, handler: ObjectHandler) -> None:
        self._api = api
        self.kind = kind
        self._resource = resource
        self._handler = handler
        self._version = ""
        self._values = SharedValues()
        self._is_listed = False
        self._failures = 0  # without an event in between
        self.objects: dict[Key, dict[str, Any]] = {}
        self.missing: MissingList | None = None
        self.served = False
        self.ahead = timedelta(0)

    async def list_all(self) -> str:
        """List all objects; return the list's version, empty if they cannot be listed.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
        before = (self.objects, self.missing, self.served)
        found = await list_objects(self._api, self._resource.path)
        self.served = found.served
        self._version = found.version
        self.missing = None
        if found.refusal is not None and not is_optional(self.kind):
            self.missing = MissingList.of(self._resource, found)
        if found.read_at is not None:
            self.ahead = found.read_at - datetime.now(UTC)
        listed = (self._kept(decode_json(item)) for item in found.items)
        self.objects = {key_of(obj): obj for obj in listed}
        self._handler.broken(self.kind, "")
        if self._is_listed and (self.objects, self.missing, self.served) != before:
            self._handler.listed(self)
        self._is_listed = True
        return self._version

    async def run(self) -> None:
        """Watch until cancelled, from the version of the last list on."""
        path = self._resource.path
        await Reflector(self._api, path, self, look_again=_LOOK_AGAIN, version=self._version).run()

    def opened(self) -> bool:
        """Note that the objects are watched again."""
        self._handler.broken(self.kind, "")
        return True

    def take(self, line: bytes) -> str:
        """Apply one event."""
        self._failures = 0
        event = decode_json(line)
        obj = event["object"]
        version = str(obj["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            is_gone = event["type"] == "DELETED"
            written, key = self._kept(obj), key_of(obj)
            if is_gone:
                self.objects.pop(key, None)
            else:
                self.objects[key] = written
            self._handler.changed(self.kind, written, gone=is_gone)
        return version

    def failed(self, error: Exception) -> bool:
        """Tell of errors that last; objects that may no longer be watched are listed again, to forget them."""
        if isinstance(error, ApiError) and error.response.status in _LIST_AGAIN:
            return True
        self._failures += 1
        if self._failures > 1:  # a single watch that ends is not worth a message
            is_of_api = isinstance(error, ApiError | ApiUnreachableError)
            self._handler.broken(self.kind, str(error) if is_of_api else f"{type(error).__name__}: {error}")
        return False

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
