"""The decoder for all kinds: from the API's JSON, as bytes or as a parsed dict, to values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from sys import getsizeof
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from vgpu_scheduler.kube.nesting import decode_json, shallow
from vgpu_scheduler.kube.store import Versioned
from vgpu_scheduler.kube.wire import (
    FieldError,
    WireBookmark,
    WireEvent,
    WireList,
)
from vgpu_scheduler.model import MESSAGE, BoundedCache, bytes_of, cut

_Wire = TypeVar("_Wire")
_Built = TypeVar("_Built")
_Value = TypeVar("_Value", bound=Versioned)

_LEAST, _MOST = -(2**63), 2**64 - 1

_lists: Final = msgspec.json.Decoder(WireList)
_events: Final = msgspec.json.Decoder(WireEvent)
_bookmarks: Final = msgspec.json.Decoder(WireBookmark)


class DecodeError(ValueError):
    """An object that cannot be read.

    Attributes
    ----------
    kind
        The expected kind, such as ``Pod``.
    key
        ``namespace/name`` or ``name``; empty if it cannot be read.
    field
        Path of the invalid field; empty if the whole object is invalid.
    problem
        What is wrong with it.
    """

    def __init__(self, kind: str, key: str, field: str, problem: str) -> None:
        self.kind = kind
        self.key = key
        self.field = cut(field, MESSAGE)
        self.problem = cut(problem, MESSAGE)
        super().__init__(f"{kind} {key or '(unnamed)'}: {self.field + ': ' if field else ''}{self.problem}")


Skip = Callable[[DecodeError], None]
Object = Mapping[str, Any]
"""A parsed JSON object, read-only."""
Encoded = Object | bytes | msgspec.Raw
"""An object as a dict (as kopf hands it out) or as JSON."""
Decode = Callable[[Encoded], _Value]


class WatchStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The error that ends a watch; code 410 means that the resource version is too old."""

    code: int = 0
    reason: str = ""
    message: str = ""


_statuses: Final = msgspec.json.Decoder(WatchStatus)


class WatchEvent(msgspec.Struct, Generic[_Value], frozen=True):
    """A line of a watch.

    Attributes
    ----------
    type
        ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    object
        The object; None for BOOKMARK and ERROR.
    resource_version
        Where to resume the watch after this line; empty for ERROR.
    status
        The error; only for ERROR.
    """

    type: str
    object: _Value | None
    resource_version: str
    status: WatchStatus | None = None


class ListPage(NamedTuple):
    """A list, or a page of one, whose objects are not decoded yet.

    Attributes
    ----------
    items
        The objects.
    resource_version
        Where to start a watch that follows the list.
    continue_token
        Where the next page starts; empty on the last page.
    """

    items: Sequence[msgspec.Raw]
    resource_version: str
    continue_token: str


def decode_page(data: bytes) -> ListPage:
    """Decode a list from JSON, except its objects.

    Raises
    ------
    DecodeError
        If it cannot be read.
    """
    page = _wire(data, "List", _lists)
    return ListPage(page.items or (), page.metadata.resource_version, page.metadata.continue_)


def decode_items(page: ListPage, decode: Decode[_Value], skip: Skip | None = None) -> list[_Value]:
    """Read the objects of a list.

    Parameters
    ----------
    decode
        Decodes one object.
    skip
        Called with the error of each invalid object, which is then left out; without it the first error is raised.

    Raises
    ------
    DecodeError
        If one of the objects cannot be read, and there is no ``skip``.
    """
    items = []
    for item in page.items:
        try:
            items.append(decode(item))
        except DecodeError as error:
            if skip is None:
                raise
            skip(error)
    return items


def decode_event(line: bytes, decode: Decode[_Value]) -> WatchEvent[_Value]:
    """Read a line of a watch; ``decode`` reads its object.

    Raises
    ------
    DecodeError
        If the line or its object cannot be read.
    """
    event = _wire(line, "WatchEvent", _events)
    if event.type in ("BOOKMARK", "ERROR"):
        return WatchEvent(event.type, None, *_without_object(event))
    found = decode(event.object)
    return WatchEvent(event.type, found, str(found.resource_version))


def _without_object(event: WireEvent) -> tuple[str, WatchStatus | None]:
    if event.type == "ERROR":
        return "", _wire(event.object, "Status", _statuses)
    return _wire(event.object, "Bookmark", _bookmarks).metadata.resource_version, None


def _wire(obj: Encoded, kind: str, decoder: msgspec.json.Decoder[_Wire]) -> _Wire:
    """Return the typed form of an object as the API writes it."""
    try:
        if isinstance(obj, bytes | msgspec.Raw):
            try:
                return decoder.decode(obj)
            except RecursionError:
                return decoder.decode(shallow(bytes(obj)))
        return msgspec.convert(obj, decoder.type)
    except OverflowError as error:  # an integer of more than 64 bits; only in files
        raise DecodeError(kind, _key_of(obj), "", "an integer is out of range") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        problem, _, path = str(error).partition(" - at `$")
        raise DecodeError(kind, _key_of(obj), _with_key(obj, path.lstrip(".").rstrip("`")), problem) from error


def _with_key(obj: object, path: str) -> str:
    """Replace ``[...]`` at the end of an error path by the key whose value is not a string."""
    before, mapping, after = path.partition("[...]")
    if not mapping or after:
        return path
    try:
        found: Any = decode_json(obj) if isinstance(obj, bytes | msgspec.Raw) else obj
        for name in before.split("."):
            found = found[name]
        key = next(key for key, value in found.items() if not isinstance(value, str))
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return path
    return f"{before}[{key}]"


def decode_object(
    obj: Encoded,
    kind: str,
    decoder: msgspec.json.Decoder[_Wire],
    build: Callable[[_Wire], _Built],
) -> _Built:
    """Read an object of a kind.

    Parameters
    ----------
    decoder
        Decodes the typed form.
    build
        Makes the value from the typed form; may raise :class:`FieldError`.

    Raises
    ------
    DecodeError
        If a field has the wrong type or value; the message names the object and the field.
    """
    typed = _wire(obj, kind, decoder)
    try:
        return build(typed)
    except FieldError as error:
        raise DecodeError(kind, _key_of(obj), error.field, error.problem) from error
    except (UnicodeEncodeError, OverflowError) as error:  # possible only in dicts that Python decoded
        place, problem = _no_json(obj, "") or ("", f"a text or an integer is not valid in the Kubernetes API: {error}")
        raise DecodeError(kind, _key_of(obj), place, problem) from error


def decoder_of(kind: str, wire: type[_Wire], build: Callable[[_Wire], _Value]) -> Decode[_Value]:
    """Return a function that reads objects of a kind by :func:`decode_object`.

    Parameters
    ----------
    wire
        The typed form of an object as the API writes it.
    """
    typed = msgspec.json.Decoder(wire)

    def decode(obj: Encoded) -> _Value:
        return decode_object(obj, kind, typed, build)

    return decode


def _key_of(obj: object) -> str:
    """Return ``namespace/name`` of an object that could not be decoded; empty if it cannot be read."""
    try:
        if isinstance(obj, bytes | msgspec.Raw):
            obj = decode_json(obj)
        metadata = obj["metadata"]  # type: ignore[index]
        name, namespace = metadata.get("name"), metadata.get("namespace")
    except (ValueError, AttributeError, LookupError, TypeError):
        return ""
    key = f"{namespace}/{name}" if namespace else str(name or "")
    return key.encode(errors="backslashreplace").decode()


def _no_json(value: object, path: str) -> tuple[str, str] | None:
    """Return the first field of an object that is not valid API JSON, and what is wrong with it."""
    if type(value) is int and not _LEAST <= value <= _MOST:
        return path, f"{str(value)[:40]} is beyond 64 bits"
    if isinstance(value, str) and not _is_unicode(value):
        return path, f"{value[:40].encode(errors='backslashreplace').decode()!r} is not a string"
    if isinstance(value, Mapping):
        inner = ((each, f"{path}.{key}" if path else str(key)) for key, each in value.items())
    elif isinstance(value, list):
        inner = ((each, f"{path}[{number}]") for number, each in enumerate(value))
    else:
        return None
    return next(filter(None, (_no_json(each, where) for each, where in inner)), None)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_MOST_BYTES: Final = 4 * 2**20
"""Bytes that cached maps may take."""
_NONE: Final[Mapping[str, str]] = {}

_Items = tuple[tuple[str, str], ...]


class SharedMaps:
    """A cache that makes equal string maps one object.

    Parameters
    ----------
    most_bytes
        The approximate size of the cache.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._known: BoundedCache[_Items, Mapping[str, str]] = BoundedCache(most_bytes)

    def get(self, texts: dict[str, str] | None) -> Mapping[str, str]:
        """Return the shared map that equals this one; it must not be changed."""
        if not texts:
            return _NONE
        items = tuple(texts.items())
        known = self._known.get(items)
        if known is None:
            known = texts
            self._known.put(items, known, bytes_of(items) + getsizeof(known))
        return known
