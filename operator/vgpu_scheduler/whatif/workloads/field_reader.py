"""A mapping of a workload, read field by field: an error names the object and the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.objects.objects import WorldError

__all__ = ["MOST_PODS", "FieldReader", "workload"]


MOST_PODS: Final = 10_000
"""How many pods of one workload are looked at."""
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FieldReader:
    """A mapping of a workload.

    Attributes
    ----------
    title
        Kind and name of the workload.
    path
        Where it is in the workload, with a dot at its end; empty for the workload itself.
    fields
        What is written there.
    """

    title: str
    path: str
    fields: Object

    def error(self, field: str, problem: str) -> WorldError:
        """Return the error that names a field."""
        return WorldError(f"{self.title}: {self.path}{field}{problem}")

    def part(self, field: str) -> FieldReader:
        """Return the mapping in a field.

        Raises
        ------
        WorldError
            If it is missing, or none.
        """
        found = self.fields.get(field)
        if not isinstance(found, Mapping):
            raise self.error(field, f" is {'missing' if found is None else 'no mapping'}")
        return FieldReader(self.title, f"{self.path}{field}.", found)

    def maybe(self, field: str) -> FieldReader:
        """Return the mapping in a field, an empty one if it is missing.

        Raises
        ------
        WorldError
            If it is none.
        """
        return self.part(field) if self.has(field) else FieldReader(self.title, f"{self.path}{field}.", {})

    def parts(self, field: str) -> list[FieldReader]:
        """Return the mappings of the list in a field, none if it is missing.

        Raises
        ------
        WorldError
            If it is no list of mappings.
        """
        found = self.fields.get(field) or []
        if not isinstance(found, list):
            raise self.error(field, " is no list")
        named = FieldReader(self.title, self.path, {f"{field}[{number}]": each for number, each in enumerate(found)})
        return [named.part(each) for each in named.fields]

    def has(self, field: str) -> bool:
        """Tell whether something is written in a field."""
        return self.fields.get(field) is not None

    def number(self, field: str, default: int, most: int = MOST_PODS) -> int:
        """Return the whole number in a field.

        Raises
        ------
        WorldError
            If it is none from 0 to the most.
        """
        found = self.fields.get(field, default)
        if type(found) is not int or not 0 <= found <= most:
            raise self.error(field, f": {found!r} is no number {'of 0 or more' if most == _MOST else f'up to {most}'}")
        return found

    def large_number(self, field: str, default: int = 0) -> int:
        """Return the whole number in a field, which is no number of pods: see :meth:`number`."""
        return self.number(field, default, _MOST)

    def text(self, field: str, default: str = "") -> str:
        """Return the text in a field.

        Raises
        ------
        WorldError
            If it is none, or missing without a default.
        """
        found = self.fields.get(field) or default
        if not isinstance(found, str) or not found:
            raise self.error(field, " is missing" if not found else f": {found!r} is no text")
        return found

    def is_true(self, field: str) -> bool:
        """Tell whether a field says true."""
        return self.fields.get(field) is True

    def texts(self, field: str) -> dict[str, str]:
        """Return those of a mapping's values that are texts; what else is there the decoder of pods names."""
        found = self.fields.get(field)
        if not isinstance(found, Mapping):
            return {}
        return {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, str)}


def workload(obj: Object) -> FieldReader:
    """Return a workload as it is written.

    Raises
    ------
    WorldError
        If it has no metadata.
    """
    kind = str(obj.get("kind") or "an object without a kind")
    name = FieldReader(kind, "", obj).part("metadata").fields.get("name", "")
    return FieldReader(f"{kind} {name}".rstrip(), "", obj)
