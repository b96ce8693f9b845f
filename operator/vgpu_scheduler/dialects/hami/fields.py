"""Access to JSON annotations like Go's decoder: names ignore case, null and absent are zero values, types are exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.values import SURROGATE
from vgpu_scheduler.model import quoted

INT64 = 2**63 - 1


def decode_json(value: str, what: str) -> Any:
    """Decode JSON.

    Raises
    ------
    CodecError
        If it is not valid JSON.
    """
    try:
        # Go's decoder accepts neither NaN nor infinity.
        return json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"{what} is not JSON: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def decode_list(value: str, what: str, item: str) -> list[Fields]:
    """Decode a list of objects, called ``item`` in messages; ``null`` counts as an empty list.

    Raises
    ------
    CodecError
        If it is anything else.
    """
    listed = decode_json(value, what)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise CodecError(f"{what} is not a list of {item}s")
    return [Fields(entry, f"{what}: {item} {number}") for number, entry in enumerate(listed)]


def decode_integers(value: str, what: str) -> dict[str, int]:
    """Decode an object of integers, with case-sensitive names.

    Raises
    ------
    CodecError
        If it is anything else.
    """
    decoded = decode_json(value, what)
    if not isinstance(decoded, dict) or not all(type(item) is int and _fits(item) for item in decoded.values()):
        raise CodecError(f"{what} is not an object of integers")
    return decoded


def _fits(number: int) -> bool:
    return -INT64 - 1 <= number <= INT64


class Fields:
    """The fields of one object.

    Parameters
    ----------
    entry
        The decoded value, which must be an object.
    where
        Its name in messages.
    """

    def __init__(self, entry: object, where: str) -> None:
        if not isinstance(entry, dict):
            raise CodecError(f"{where} is not an object")
        self._where = where
        self._fields: Mapping[str, Any] = {key.lower(): item for key, item in entry.items() if item is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def text(self, name: str) -> str:
        """Return a string."""
        item = self._fields.get(name, "")
        if not isinstance(item, str):
            raise CodecError(f"{self._where}: {name} is not a string")
        # Replace lone surrogates as Go does, so that the text can be encoded.
        return item if item.isascii() else SURROGATE.sub("\N{REPLACEMENT CHARACTER}", item)

    def text_or_number(self, name: str) -> str:
        """Return a string; an integer is converted."""
        item = self._fields.get(name, "")
        return str(item) if type(item) is int else self.text(name)

    def texts(self, name: str) -> dict[str, str]:
        """Return an object of strings; integers are converted."""
        inside = Fields(self.mapping(name), f"{self._where}: {name}")
        return {key: inside.text_or_number(key.lower()) for key in self.mapping(name)}

    def integer(self, name: str, smallest: int = -INT64 - 1, largest: int = INT64) -> int:
        """Return an integer in range."""
        item = self._fields.get(name, 0)
        if type(item) is not int or not smallest <= item <= largest:
            raise CodecError(f"{self._where}: {name} {quoted(item)} is not an integer in range")
        return item

    def boolean(self, name: str) -> bool:
        """Return a boolean."""
        item = self._fields.get(name, False)
        if not isinstance(item, bool):
            raise CodecError(f"{self._where}: {name} is not a boolean")
        return item

    def integers(self, name: str) -> dict[str, int]:
        """Return an object of integers."""
        item = self._fields.get(name, {})
        if not isinstance(item, dict):
            raise CodecError(f"{self._where}: {name} is not an object")
        inside = {key: 0 if value is None else value for key, value in item.items()}
        for key, value in inside.items():
            if type(value) is not int or not _fits(value):
                raise CodecError(f"{self._where}: {name}[{quoted(key)}] is not an integer in range")
        return inside

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return an object unchanged."""
        item = self._fields.get(name, {})
        if not isinstance(item, dict):
            raise CodecError(f"{self._where}: {name} is not an object")
        return item

    def object(self, name: str) -> Fields | None:
        """Return an object as :class:`Fields`, None if it is absent."""
        item = self._fields.get(name)
        return None if item is None else Fields(item, f"{self._where}: {name}")

    def objects(self, name: str) -> list[Fields] | None:
        """Return a list of objects, None if it is absent."""
        item = self._fields.get(name)
        if item is None:
            return None
        if not isinstance(item, list):
            raise CodecError(f"{self._where}: {name} is not a list")
        return [Fields(entry, f"{self._where}.{name}[{number}]") for number, entry in enumerate(item)]
