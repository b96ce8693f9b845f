"""Sections of HAMi's ``device-config.yaml``, read with errors that name the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import is_extended_resource
from vgpu_scheduler.model import did_you_mean

_RESOURCE: Final = "resource"
"""The prefix of fields that name resources."""


class ConfigError(ValueError):
    """An invalid device configuration; the message names the field."""


class VendorSection:
    """One section, which records the fields that are read, so that unknown fields can be reported.

    Parameters
    ----------
    content
        The parsed section; None for an empty one.
    path
        Its path, for errors.

    Raises
    ------
    ConfigError
        If it is not a mapping.
    """

    def __init__(self, content: object = None, path: str = "") -> None:
        if content is not None and not isinstance(content, Mapping):
            raise ConfigError(f"{path}: {content!r} is not a section")
        self.path = path
        self._content: Mapping[str, Any] = content or {}
        self._read: set[str] = set()
        self._texts: dict[str, str] = {}
        self._inner: list[VendorSection] = []

    def _get(self, name: str) -> Any:
        self._read.add(name)
        return self._content.get(name)

    def where(self, name: str) -> str:
        """Return the full name of a field."""
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str, default: str = "") -> str:
        """Return a text or a resource name; a missing or empty one is replaced by the default."""
        value = self._get(name)
        if value is None or value == "":
            value = default
        if not isinstance(value, str):
            raise ConfigError(f"{self.where(name)}: {value!r} is not a text")
        if value and name.startswith(_RESOURCE) and not is_extended_resource(value):
            raise ConfigError(f"{self.where(name)}: {value!r} is not a resource name, such as example.com/gpu")
        self._texts[name] = value
        return value

    def required(self, name: str) -> str:
        """Return a text that must be there.

        Raises
        ------
        ConfigError
            If it is not.
        """
        value = self.text(name)
        if not value:
            raise ConfigError(f"{self.where(name)} is missing")
        return value

    def integer(self, name: str, default: int = 0, *, least: int = 0, most: int = INT32) -> int:
        """Return an integer within bounds; a missing one is replaced by the default."""
        value = self._get(name)
        if value is None:
            return default
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(f"{self.where(name)}: {value!r} is not an integer from {least} to {most}")
        return value

    def factor(self, name: str) -> int:
        """Return a factor; missing or 0 (as HAMi writes a missing one) counts as 1."""
        return max(self.integer(name, 1), 1)

    def boolean(self, name: str) -> bool:
        """Return a boolean; a missing one is false."""
        value = self._get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{self.where(name)}: {value!r} is neither true nor false")
        return bool(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise ConfigError(f"{self.where(name)}: {value!r} is not a list of texts")
        return tuple(value)

    def section(self, name: str) -> VendorSection:
        """Return a nested section."""
        inner = VendorSection(self._get(name), self.where(name))
        self._inner.append(inner)
        return inner

    def sections(self, name: str) -> tuple[VendorSection, ...]:
        """Return a list of sections."""
        value = self._get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise ConfigError(f"{self.where(name)}: {value!r} is not a list")
        found = tuple(VendorSection(item, f"{self.where(name)}[{number}]") for number, item in enumerate(value))
        self._inner.extend(found)
        return found

    def lists_of_sections(self, name: str) -> tuple[tuple[VendorSection, ...], ...]:
        """Return a list of lists of sections."""
        value = self._get(name)
        if not isinstance(value, list | None):
            raise ConfigError(f"{self.where(name)}: {value!r} is not a list")
        lists = VendorSection({str(number): item for number, item in enumerate(value or ())}, self.where(name))
        self._inner.append(lists)
        return tuple(lists.sections(str(number)) for number in range(len(value or ())))

    def ignore(self, *names: str) -> None:
        """Mark fields as known that only the device plugin uses."""
        self._read.update(names)

    def has(self, name: str) -> bool:
        """Tell whether a field is given."""
        return self._content.get(name) is not None

    def is_list(self, name: str) -> bool:
        """Tell whether a field is a list."""
        return isinstance(self._content.get(name), list)

    def fields_with_text(self, text: str) -> Iterator[str]:
        """Yield the full names of the fields whose text, given or default, is ``text``."""
        yield from (self.where(name) for name, value in self._texts.items() if value == text)
        for inner in self._inner:
            yield from inner.fields_with_text(text)

    def unknown(self) -> Iterator[str]:
        """Yield a sentence about each field that was not read, with a suggestion if it may be misspelled."""
        for name in self._content:
            if name not in self._read:
                meant = did_you_mean(str(name), self._read)
                yield f"{self.where(name)} is not known and has no effect{meant}"
        for inner in self._inner:
            yield from inner.unknown()
