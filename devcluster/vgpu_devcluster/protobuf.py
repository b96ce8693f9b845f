"""Decodes protobuf bodies of kubectl's typed commands: reviews, evictions, deletions, and what ``create`` makes.

Each message is listed with the fields that those commands set; other fields are skipped, as usual for protobuf. Answers
are always JSON, which those clients accept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Object = dict[str, Any]
Field = tuple[str, "Callable[[Any], Any]", str]  # its name in JSON, how it is decoded, and "", "list" or "map"

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGNED_64 = 1 << 63


class MalformedError(ValueError):
    """The body is not a protobuf envelope, or its kind is not listed here."""


def decode(data: bytes) -> Object:
    """Decode the envelope that clients put around every object, and the object in it.

    Raises
    ------
    MalformedError
        If it cannot be decoded.
    """
    if not data.startswith(_MAGIC):
        raise MalformedError("it does not begin as a protobuf envelope does")
    try:
        envelope = _message(_ENVELOPE)(data[len(_MAGIC) :])
        head = envelope.get("typeMeta", {})
        kind = head.get("kind", "")
        if kind not in _KINDS:
            raise MalformedError(f"kind {kind} is not read from protobuf here: send JSON")
        return {**head, **_message(_KINDS[kind])(envelope.get("raw", b""))}
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from error


def _message(fields: Mapping[int, Field]) -> Callable[[bytes], Object]:
    def read(data: bytes) -> Object:
        found: Object = {}
        for number, value in _wire(data):
            if number not in fields:
                continue
            name, convert, shape = fields[number]
            if shape == "list":
                found.setdefault(name, []).append(convert(value))
            elif shape == "map":
                entry = dict(_wire(value))
                found.setdefault(name, {})[_text(entry.get(1, b""))] = convert(entry.get(2, b""))
            else:
                found[name] = convert(value)
        return found

    return read


def _wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the field numbers and raw values of a message: integers or bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire not in {_BYTES, _FIXED64, _FIXED32}:
            raise MalformedError(f"wire type {wire} is unknown")
        length, position = _varint(data, position) if wire == _BYTES else ((8 if wire == _FIXED64 else 4), position)
        if position + length > len(data):
            raise MalformedError("it ends too early")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position


def _text(value: bytes) -> str:
    return value.decode()


def _number(value: int) -> int:
    return value - 2 * _SIGNED_64 if value >= _SIGNED_64 else value


def _int_or_string(value: bytes) -> int | str:
    found = dict(_wire(value))
    return _text(found.get(3, b"")) if found.get(1) else _number(found.get(2, 0))


def _quantity(value: bytes) -> str:
    return _text(dict(_wire(value)).get(1, b""))


def _one(name: str, convert: Callable[[Any], Any] = _text) -> Field:
    return name, convert, ""


def _list(name: str, convert: Callable[[Any], Any] = _text) -> Field:
    return name, convert, "list"


def _map(name: str, convert: Callable[[Any], Any] = _text) -> Field:
    return name, convert, "map"


_TYPE_META = {1: _one("apiVersion"), 2: _one("kind")}
_ENVELOPE = {1: _one("typeMeta", _message(_TYPE_META)), 2: _one("raw", bytes)}
_METADATA = {
    1: _one("name"),
    2: _one("generateName"),
    3: _one("namespace"),
    11: _map("labels"),
    12: _map("annotations"),
    14: _list("finalizers"),
}
_HEAD = {1: _one("metadata", _message(_METADATA))}
_PRECONDITIONS = {1: _one("uid"), 2: _one("resourceVersion")}
_DELETE_OPTIONS = {
    1: _one("gracePeriodSeconds", _number),
    2: _one("preconditions", _message(_PRECONDITIONS)),
    4: _one("propagationPolicy"),
    5: _list("dryRun"),
}
_EXPRESSION = {1: _one("key"), 2: _one("operator"), 3: _list("values")}
_SELECTOR = {1: _map("matchLabels"), 2: _list("matchExpressions", _message(_EXPRESSION))}
_BUDGET = {
    1: _one("minAvailable", _int_or_string),
    2: _one("selector", _message(_SELECTOR)),
    3: _one("maxUnavailable", _int_or_string),
}
_QUOTA = {1: _map("hard", _quantity), 2: _list("scopes")}
_KINDS: Mapping[str, Mapping[int, Field]] = {
    "SelfSubjectAccessReview": _HEAD,
    "SelfSubjectReview": _HEAD,
    "SelfSubjectRulesReview": _HEAD,
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": {**_HEAD, 2: _one("deleteOptions", _message(_DELETE_OPTIONS))},
    "Namespace": _HEAD,
    "ServiceAccount": _HEAD,
    "ConfigMap": {**_HEAD, 2: _map("data"), 4: _one("immutable", bool)},
    "ResourceQuota": {**_HEAD, 2: _one("spec", _message(_QUOTA))},
    "PriorityClass": {
        **_HEAD,
        2: _one("value", _number),
        3: _one("globalDefault", bool),
        4: _one("description"),
        5: _one("preemptionPolicy"),
    },
    "PodDisruptionBudget": {**_HEAD, 2: _one("spec", _message(_BUDGET))},
}
