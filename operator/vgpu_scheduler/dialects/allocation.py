"""The interface to write allocations to pods and to read them back, and helpers for its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement, QuotaResource, Usage


class Allocation(Protocol):
    """Writes allocations to pods, and reads what pods hold.

    By default there are no quotas, no labels and no announcements by other schedulers.

    Attributes
    ----------
    keys
        The annotations that record the devices of a pod.
    written
        All annotations that are written on pods for the node side, or by it, ``keys`` included.
    quota_resources
        Resource names for which ``limits.<name>`` in a ResourceQuota limits what a namespace holds of devices.
    """

    @property
    def keys(self) -> frozenset[str]: ...  # noqa: D102 - see the class

    @property
    def written(self) -> frozenset[str]: ...  # noqa: D102 - see the class
    @property
    def quota_resources(self) -> Mapping[str, QuotaResource]:  # noqa: D102
        return {}

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to."""

    def announced_node(self, pod: Pod) -> str:
        """Return the node on which another scheduler of this ecosystem has announced an unbound pod, if any."""
        del pod
        return ""

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return the annotations that the Binding writes for the node side; none for a pod without devices.

        Parameters
        ----------
        placement
            The decision.
        unix_time
            Seconds since the epoch; some node sides order pods by fractions of seconds.
        pod
            The pod, if known. A Binding merges annotations, so annotations of an earlier attempt or of users must be
            overwritten if the node side would read them.
        """

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return the labels by which the node side selects pods."""
        del placement
        return {}


class TimestampText(str):
    """A time in an encoded annotation, which is updated when the annotation is written.

    Parameters
    ----------
    unix_time
        Seconds since the epoch.
    per_second
        The number of units per second.
    """

    __slots__ = ("per_second",)
    per_second: float

    def __new__(cls, unix_time: float, per_second: float = 1) -> TimestampText:
        """Return the text of a time."""
        stamp = super().__new__(cls, int(unix_time * per_second))
        stamp.per_second = per_second
        return stamp


def stamped(annotations: Mapping[str, str], unix_time: float) -> dict[str, str]:
    """Return annotations that were encoded earlier, with their times updated."""
    return {
        name: str(int(unix_time * value.per_second)) if isinstance(value, TimestampText) else value
        for name, value in annotations.items()
    }


def is_text_of(written: str | None, encoded: str) -> bool:
    """Tell whether an annotation equals one that was encoded earlier, ignoring times."""
    if isinstance(encoded, TimestampText):
        return written is not None and written.isdecimal()
    return written == encoded


_Entry = TypeVar("_Entry")


def realign(entries: Sequence[tuple[_Entry, ...]], claimants: Sequence[bool]) -> list[tuple[_Entry, ...]] | None:
    """Assign the entries of an annotation to the containers of a pod, whatever padding the writer used.

    HAMi 2.10.0 writes no entry for containers without devices, 2.4 leaves out leading ones, and plugins append empty
    entries. If the positions of the entries do not match the containers that claim devices, the n-th entry with devices
    belongs to the n-th claimant.

    Parameters
    ----------
    entries
        The decoded annotation.
    claimants
        Whether each container claims devices of the vendor, init containers first.

    Returns
    -------
    list or None
        One entry per container; None if there are more entries with devices than claimants.
    """
    filled = [entry for entry in entries if entry]
    if len(filled) > sum(claimants):
        return None
    in_place = len(entries) >= len(claimants) or not entries
    if in_place and all(claims or not entry for entry, claims in zip(entries, claimants, strict=False)):
        padded = [*entries[: len(claimants)], *[()] * (len(claimants) - len(entries))]
        if sum(map(bool, padded)) == len(filled):
            return padded
    rest = iter(filled)
    return [next(rest, ()) if claims else () for claims in claimants]


def read_entries(
    pod: Pod,
    name: str,
    node_annotation: str,
    decode: Callable[[str], Sequence[tuple[_Entry, ...]]],
    claimants: Sequence[bool],
    claimed: str = "devices",
) -> tuple[str, list[tuple[_Entry, ...]]]:
    """Read an allocation annotation of a bound pod; it counts only if the node in another annotation is the pod's.

    Parameters
    ----------
    name, node_annotation
        The annotation with the entries, and the one with the node.
    decode
        Decodes the entries; raises CodecError if they are malformed.
    claimants
        As for :func:`realign`.
    claimed
        How the message calls what the entries are about.

    Returns
    -------
    tuple
        The problem, empty if there is none, and the entries of each container.
    """
    value = pod.annotations.get(name)
    if value is None:
        return f"annotation {name} is missing", []
    if pod.annotations.get(node_annotation) != pod.node_name:
        return f"annotation {node_annotation} does not name node {pod.node_name}", []
    try:
        aligned = realign(decode(value), claimants)
    except CodecError as error:
        return f"annotation {name}: {error}", []
    if aligned is None or not any(aligned):
        return f"annotation {name} does not match the containers that claim {claimed}", []
    return "", aligned
