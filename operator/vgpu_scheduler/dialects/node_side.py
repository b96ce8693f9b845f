"""The interface for an ecosystem's node side: how it finds its pod, and how it reports the result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import LAST_ALLOCATED, PodClaims, quoted

_SIGNS_OF_LIFE: Final = re.compile(r"handshake|[/.-]lock(\.|$)")
"""Matches heartbeat and lock annotations of all ecosystems, whether their dialect is used or not."""


@dataclass(frozen=True, slots=True)
class NodeLock:
    """A node lock by which the node side finds its pod, and which the node side releases.

    Attributes
    ----------
    annotation
        The node annotation.
    names_owner
        Whether its value names the pod; it is a bare time otherwise.
    expiry
        Seconds after which a lock that names no owner counts as released.
    """

    annotation: str
    names_owner: bool = True
    expiry: float = 300.0


@dataclass(frozen=True, slots=True)
class LockValue:
    """A decoded lock: when it was taken, and for which pod (empty if the lock is a bare time)."""

    taken_at: datetime
    namespace: str = ""
    name: str = ""

    @property
    def owner(self) -> str:
        """``namespace/name`` of the pod, or empty."""
        return f"{self.namespace}/{self.name}" if self.name else ""


def is_sign_of_life(annotation: str) -> bool:
    """Tell whether a node annotation is only a heartbeat, a lock or an allocation token."""
    return annotation == LAST_ALLOCATED or _SIGNS_OF_LIFE.search(annotation) is not None


def version_of_image(image: str, name: str) -> tuple[int, int] | None:
    """Return the major and minor version in the tag of an image; None if the image has another name.

    Raises
    ------
    ValueError
        If the tag is not a version.
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
    """A pod that started or ended unserved: its device plugin would mistake it for the next pod with the same key.

    Attributes
    ----------
    node
        The node that it was bound to.
    plugin_key
        The key by which the plugin finds it; see :meth:`NodeSide.plugin_key`.
    """

    node: str
    plugin_key: str


class NodeSide(Protocol):
    """The node side of one ecosystem: its locks, its plugin keys and how it reports results.

    By default it has no plugin keys, and serves all valid claims.

    Attributes
    ----------
    locks
        All locks that pods may need, each annotation once.
    """

    locks: tuple[NodeLock, ...] = ()

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return the lock by which the node side finds this pod; None if it has another way."""

    def parse_lock(self, value: str) -> LockValue:
        """Decode the value of a lock.

        Raises
        ------
        ValueError
            If it is malformed; only an administrator can resolve such a lock.
        """

    def format_lock(self, lock: NodeLock, now: datetime, pod: Pod) -> str:
        """Encode the value of a lock for a pod; ``now`` must have a time zone."""

    def serializes(self, claims: PodClaims) -> bool:
        """Tell whether the node side serves the pods of a node in the order of their decisions.

        The next pod is then bound only when this one has its devices, as with a lock.
        """

    def plugin_key(self, claims: PodClaims) -> str:
        """Return the key by which a node side without a lock finds a pod, made of the pod's resource names.

        Among a node's pods with the same key, the plugin serves the oldest. Empty if it finds pods in another way.
        """
        del claims
        return ""

    def unserved_pod(self, pod: Pod) -> UnservedPod | None:
        """Return the node and key under which the node side still waits for a pod that ended unserved, or None."""
        del pod
        return None

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the node side has reported success or failure on the pod."""

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the node side has consumed every entry of the pod."""

    def is_through(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the node side has answered, or has consumed all entries of the pod."""
        return self.has_answered(annotations) or self.nothing_left(annotations)

    def check(self, pod: Pod, claims: PodClaims) -> None:
        """Check that the node side could serve a pod that claims devices.

        Raises
        ------
        ClaimError
            If it could not on any node; the message names the container, the resource and the fix.
        """
        del pod, claims

    def version_problem(self, image: str) -> str | None:
        """Return the problem with the version of an image of this node side.

        Empty if there is none; None if the image is of other software, or the version does not matter.

        Raises
        ------
        ValueError
            If the image is of this software and its version is unknown.
        """
        del image
        return None


class LocklessNodeSide(NodeSide):
    """A node side that reads the allocation from the pod that it starts: no lock, no plugin keys, no answer."""

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return None: there are no locks."""
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
        """Return False: the node side does not serialise the pods of a node."""
        del claims
        return False

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Return False: the node side reports nothing on the pod."""
        del annotations
        return False

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Return False: the node side consumes no entries."""
        del annotations
        return False
