"""The interface of a source of pod groups: the membership that it reads from a pod, and the kinds of its objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from vgpu_scheduler.kube import ApiResource, Decode, Pod, PodGroup


class GroupKey(NamedTuple):
    """The key of a pod group.

    Attributes
    ----------
    source
        The name of the source; groups of different sources are different groups.
    namespace, name
        The namespace of its pods, and the name that they use.
    """

    source: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Membership:
    """The membership of a pod in a group, as read from the pod.

    Attributes
    ----------
    key
        The group.
    said_by
        The label, annotation or field that names the group, as messages name it.
    minimum
        How many pods of the group must be placed together; None if an object defines it.
    problem
        Why ``minimum`` is invalid; empty if it is valid.
    """

    key: GroupKey
    said_by: str
    minimum: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PodGroupKind:
    """A kind of PodGroup objects; every ecosystem defines its own.

    The kind exists if the ecosystem's CRD is installed, or the version of Kubernetes serves it.

    Attributes
    ----------
    name
        ``PodGroup`` with its API group, and with its version if there are several.
    resource
        How the API server serves it.
    decode
        Decodes an object; raises :class:`DecodeError`.
    condition
        The type of the scheduling condition; empty if none is written.
    """

    name: str
    resource: ApiResource
    decode: Decode[PodGroup]
    condition: str = ""


@dataclass(frozen=True, slots=True)
class GroupSource:
    """Reads the groups of one ecosystem.

    Attributes
    ----------
    name
        Its name in group keys.
    membership
        Returns the membership of a pod; None if it belongs to no group of this source.
    kinds
        The kinds of its group objects, of which the first with an object counts; empty if pods alone define groups.
    needs_object
        Whether pods wait if the API server serves none of these kinds; otherwise each is then placed by itself.
    """

    name: str
    membership: Callable[[Pod], Membership | None]
    kinds: tuple[PodGroupKind, ...] = ()
    needs_object: bool = False


def number_in(text: str) -> int | None:
    """Parse a number in a label or an annotation; None if it is invalid or has more than 9 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


_MOST_DIGITS: Final = 9
