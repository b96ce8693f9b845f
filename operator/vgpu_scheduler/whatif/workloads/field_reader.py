"""Read the fields of a workload's mappings; errors name the object and the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError

MOST_PODS: Final = 10_000
"""The most pods of one workload."""
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the fields of a mapping in a workload.

    Attributes
    ----------
    title
        Kind and name of the workload.
    path
        The path of the mapping in the workload, with a trailing dot; empty for the workload itself.
    fields
        The mapping.
    """

    title: str
    path: str
    fields: Object

    def error(self, field: str, problem: str) -> InvalidObjectsError:
        """Return an error that names a field."""
        return InvalidObjectsError(f"{self.title}: {self.path}{field}{problem}")

    def part(self, field: str) -> FieldReader:
        """Return the mapping in a field.

        Raises
        ------
        InvalidObjectsError
            If it is missing, or not a mapping.
        """
        found = self.fields.get(field)
        if not isinstance(found, Mapping):
            raise self.error(field, f" is {'missing' if found is None else 'not a mapping'}")
        return FieldReader(self.title, f"{self.path}{field}.", found)

    def maybe(self, field: str) -> FieldReader:
        """Return the mapping in a field; an empty one if missing.

        Raises
        ------
        InvalidObjectsError
            If it is not a mapping.
        """
        return self.part(field) if self.has(field) else FieldReader(self.title, f"{self.path}{field}.", {})

    def parts(self, field: str) -> list[FieldReader]:
        """Return the mappings of the list in a field; none if missing.

        Raises
        ------
        InvalidObjectsError
            If it is not a list of mappings.
        """
        found = self.fields.get(field) or []
        if not isinstance(found, list):
            raise self.error(field, " is not a list")
        named = FieldReader(self.title, self.path, {f"{field}[{number}]": each for number, each in enumerate(found)})
        return [named.part(each) for each in named.fields]

    def has(self, field: str) -> bool:
        """Tell whether a field has a value."""
        return self.fields.get(field) is not None

    def number(self, field: str, default: int, most: int = MOST_PODS) -> int:
        """Return the integer in a field.

        Raises
        ------
        InvalidObjectsError
            If it is not an integer from 0 to the maximum.
        """
        found = self.fields.get(field, default)
        if type(found) is not int or not 0 <= found <= most:
            raise self.error(
                field, f": {found!r} is not a number {'of 0 or more' if most == _MOST else f'up to {most}'}"
            )
        return found

    def large_number(self, field: str, default: int = 0) -> int:
        """Return the integer in a field that is not limited by the number of pods; see :meth:`number`."""
        return self.number(field, default, _MOST)

    def text(self, field: str, default: str = "") -> str:
        """Return the string in a field.

        Raises
        ------
        InvalidObjectsError
            If it is not a string, or missing without a default.
        """
        found = self.fields.get(field) or default
        if not isinstance(found, str) or not found:
            raise self.error(field, " is missing" if not found else f": {found!r} is not a string")
        return found

    def is_true(self, field: str) -> bool:
        """Tell whether a field is true."""
        return self.fields.get(field) is True

    def texts(self, field: str) -> dict[str, str]:
        """Return the string values of a mapping; the pod decoder reports all others."""
        found = self.fields.get(field)
        if not isinstance(found, Mapping):
            return {}
        return {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, str)}


def workload(obj: Object) -> FieldReader:
    """Return a reader of a workload.

    Raises
    ------
    InvalidObjectsError
        If it has no metadata.
    """
    kind = str(obj.get("kind") or "an object without a kind")
    name = FieldReader(kind, "", obj).part("metadata").fields.get("name", "")
    return FieldReader(f"{kind} {name}".rstrip(), "", obj)
