"""What a source of pod groups is, and what it reads from a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from vgpu_scheduler.groups.pod_group import PodGroupKind
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import quoted

__all__ = ["GroupKey", "GroupSource", "Membership", "first_value", "read_minimum"]

_MOST_DIGITS: Final = 9


class GroupKey(NamedTuple):
    """Which group a pod belongs to.

    Attributes
    ----------
    source
        The name of the source that says so: groups of different sources are different groups.
    namespace, name
        The namespace of its pods, and what they call it.
    """

    source: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Membership:
    """What a pod says of the group that it belongs to.

    Attributes
    ----------
    key
        The group.
    said_by
        The label, annotation or field that says so, as messages name it.
    minimum
        How many pods of the group have to be placed before any of them is; None if an object says it.
    problem
        Why that cannot be read; empty if it can.
    """

    key: GroupKey
    said_by: str
    minimum: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GroupSource:
    """Reads groups as one ecosystem writes them.

    Attributes
    ----------
    name
        What keys call it.
    membership
        Returns what a pod says of its group; None if it belongs to none of this source's.
    kinds
        The kinds of the objects that describe its groups, the first that has one counts; empty if only pods do.
    needs_object
        Whether pods wait where the API server serves none of these kinds; else each is placed by itself there.
    """

    name: str
    membership: Callable[[Pod], Membership | None]
    kinds: tuple[PodGroupKind, ...] = ()
    needs_object: bool = False


def first_value(values: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str, str]:
    """Return the first of some keys that has a value, and the value; two empty texts if none has."""
    return next(((key, values[key]) for key in keys if values.get(key)), ("", ""))


def read_minimum(text: str, field: str) -> tuple[int, str]:
    """Return a number of pods, and what is wrong with a text that is none, naming the field; empty if nothing is.

    Where the text is none, the number is 1.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if is_number and int(text) >= 1:
        return int(text), ""
    return 1, f"{field}: {quoted(text)} is no number of pods: it must be a whole number from 1 on"
