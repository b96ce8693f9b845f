"""How the node side of an ecosystem finds its pod, and what proves that it has answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import LAST_ALLOCATED, PodClaims, quoted

_SIGNS_OF_LIFE: Final = re.compile(r"handshake|[/.-]lock(\.|$)")
"""In the annotations of any ecosystem, listed or not."""


@dataclass(frozen=True, slots=True)
class NodeLock:
    """A lock through which the node side finds its pod, and which it releases.

    Attributes
    ----------
    annotation
        The node annotation.
    names_owner
        Whether its value names the pod; it is a bare time otherwise.
    expiry
        Seconds after which one that names no owner is nobody's.
    """

    annotation: str
    names_owner: bool = True
    expiry: float = 300.0


@dataclass(frozen=True, slots=True)
class LockValue:
    """A decoded lock: when it was taken and by which pod (empty where the lock is a bare time)."""

    taken_at: datetime
    namespace: str = ""
    name: str = ""

    @property
    def owner(self) -> str:
        """``namespace/name`` of the pod, or empty."""
        return f"{self.namespace}/{self.name}" if self.name else ""


def is_sign_of_life(annotation: str) -> bool:
    """Tell whether an annotation of a node says no more than that somebody is alive, or who is served now."""
    return annotation == LAST_ALLOCATED or _SIGNS_OF_LIFE.search(annotation) is not None


def version_of_image(image: str, name: str) -> tuple[int, int] | None:
    """Return the major and minor version that the tag of an image says; None if the image is called otherwise.

    Raises
    ------
    ValueError
        If the tag says no version.
    """
    called, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    if called != name:
        return None
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", tag)
    if found is None:
        raise ValueError(f"image {quoted(image)} does not say a version")
    return int(found[1]), int(found[2])


@dataclass(frozen=True, slots=True)
class UnservedPod:
    """A pod that ended, or started, unserved: its device plugin would take it for the next one with its key.

    Attributes
    ----------
    node
        Where it was bound.
    plugin_key
        What the plugin knows it by; see :meth:`NodeSide.plugin_key`.
    """

    node: str
    plugin_key: str


class NodeSide(Protocol):
    """The node side of one ecosystem: its locks, its plugin keys and its answers.

    One that says nothing of plugin keys and of what it serves has no keys, and serves all that can be claimed.

    Attributes
    ----------
    locks
        Every lock that a pod may need, each annotation once.
    """

    locks: tuple[NodeLock, ...] = ()

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return the lock through which the node side will look for this pod; None if it has other ways."""

    def parse_lock(self, value: str) -> LockValue:
        """Decode the value of a lock.

        Raises
        ------
        ValueError
            If it is malformed; such a lock is nobody's to take or release, an administrator has to look at it.
        """

    def format_lock(self, lock: NodeLock, now: datetime, pod: Pod) -> str:
        """Encode the value of a lock for a pod; ``now`` must know its time zone."""

    def serializes(self, claims: PodClaims) -> bool:
        """Tell whether the node side serves the pods of a node in the order of their decisions.

        The next pod is then bound only when this one has its devices; so it is with a lock, too.
        """

    def plugin_key(self, claims: PodClaims) -> str:
        """Return what a node side without a lock knows a pod by, in the words of what pods ask for.

        Among a node's pods with the same key, the plugin serves the oldest. Empty if it recognises pods in another way.
        """
        del claims
        return ""

    def unserved_pod(self, pod: Pod) -> UnservedPod | None:
        """Return where and by which key the node side still waits for a pod that ended unserved; None if nowhere."""
        del pod
        return None

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the node side says on the pod that it has allocated, or that it could not."""

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the node side has consumed every entry of the pod."""

    def is_through(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the node side has answered, or has nothing left to hand out to the pod."""
        return self.has_answered(annotations) or self.nothing_left(annotations)

    def check(self, pod: Pod, claims: PodClaims) -> None:
        """Check that the node side could serve a pod that claims devices.

        Raises
        ------
        ClaimError
            If it could not, wherever the pod went; the message names the container, the resource and the fix.
        """
        del pod, claims

    def version_problem(self, image: str) -> str | None:
        """Tell what does not go together with the version of the software on the nodes that an image is of.

        Empty if all does; None if the image is of something else, or all versions do the same.

        Raises
        ------
        ValueError
            If the image is of this software and does not say of which version.
        """
        del image
        return None


class LocklessNodeSide(NodeSide):
    """A node side that finds the allocation on the pod that it starts: no lock, no plugin keys, no answer."""

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return none."""
        del claims
        return None

    def parse_lock(self, value: str) -> LockValue:
        """Raise: there are no locks to decode."""
        raise ValueError(f"lock value {quoted(value)}: this node side has no locks")

    def format_lock(self, lock: NodeLock, now: datetime, pod: Pod) -> str:
        """Raise: there are no locks to encode."""
        del now, pod
        raise ValueError(f"lock {lock.annotation}: this node side has no locks")

    def serializes(self, claims: PodClaims) -> bool:
        """Return False: pods of a node may be bound one right after the other."""
        del claims
        return False

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Return False: nothing is said on the pod."""
        del annotations
        return False

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Return False: nothing is ever consumed."""
        del annotations
        return False
