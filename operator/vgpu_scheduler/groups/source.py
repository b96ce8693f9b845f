"""What a source of pod groups is, what it reads from a pod, and of which kinds the objects are that describe groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Decode, Pod, PodGroup

__all__ = ["GroupKey", "GroupSource", "Membership", "PodGroupKind", "number_in"]


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
class PodGroupKind:
    """A kind of objects that describe groups: every ecosystem calls them PodGroup, and defines its own.

    Somebody else's CustomResourceDefinition makes it known, or a version of Kubernetes.

    Attributes
    ----------
    name
        ``PodGroup`` with its API group, and its version where there are several of it.
    path
        Where all objects of the kind are listed and watched.
    decode
        Reads one; raises :class:`DecodeError`.
    condition
        The type of the condition that tells whether a group is scheduled; empty where none is written.
    """

    name: str
    path: str
    decode: Decode[PodGroup]
    condition: str = ""

    @property
    def api_version(self) -> str:
        """API group and version, as objects write them."""
        return self.path.removeprefix("/apis/").rpartition("/")[0]


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


def number_in(text: str) -> int | None:
    """Return the number that a label or an annotation says; None where it says none, or one of more than 9 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


_MOST_DIGITS: Final = 9
