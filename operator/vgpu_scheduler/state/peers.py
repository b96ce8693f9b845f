"""Pods that share no card with each other: who they are, and which cards they hold.

It is a function of the reservations alone: whoever asks for the cards of some peers gets those of the pods that hold
something now, after a restart as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.reservations import Reservation

__all__ = ["PeerCards", "PeerIndex", "PeerKeys", "Peers"]


_NOTHING: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PeerKeys:
    """What pods of one namespace have in common that are peers.

    Attributes
    ----------
    labels
        All of these labels, with the same values.
    annotations
        The value of the first of these annotations that has one; nothing without any.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

    def of(self, pod: Pod) -> Peers | None:
        """Return the peers of a pod; None for one that has none, because a label is missing or every annotation."""
        values = list(map(pod.labels.get, self.labels))
        if self.annotations:
            values.append(next(filter(None, map(pod.annotations.get, self.annotations)), None))
        found = tuple(value for value in values if value is not None)
        return Peers(self, pod.namespace, found) if len(found) == len(values) else None


class Peers(NamedTuple):
    """The pods of a namespace that have the same values."""

    keys: PeerKeys
    namespace: str
    values: tuple[str, ...]


class _Holders:
    """What peers hold, and what is kept for those that wait, by UID."""

    __slots__ = ("__weakref__", "held", "kept", "version")

    def __init__(self) -> None:
        self.held: dict[str, Reservation] = {}
        self.kept: dict[str, Reservation] = {}
        self.version = 0

    def __iter__(self) -> Iterator[Reservation]:
        yield from self.held.values()
        yield from self.kept.values()


class PeerIndex:
    """What peers hold, of those whose cards somebody asks for; nothing is kept of others."""

    def __init__(self) -> None:
        self._by_keys: dict[PeerKeys, WeakValueDictionary[Peers, _Holders]] = {}
        self.is_ignored = False
        """Whether all cards are taken for free of peers."""

    def __bool__(self) -> bool:
        return bool(self._by_keys)

    def of(
        self, peers: Peers, holding: Iterable[tuple[Pod, Reservation]], waiting: Iterable[tuple[Pod, Reservation]]
    ) -> _Holders:
        """Return what peers hold, kept up to date for as long as somebody has it.

        Parameters
        ----------
        holding
            All pods that hold something, to begin with.
        waiting
            All pods for which room is kept, with what they will hold.
        """
        self._by_keys = {keys: found for keys, found in self._by_keys.items() if found}
        known = self._by_keys.setdefault(peers.keys, WeakValueDictionary())
        holders = known.get(peers)
        if holders is None:
            holders = known[peers] = _Holders()
            holders.held = {held.uid: held for pod, held in holding if peers.keys.of(pod) == peers}
            holders.kept = {kept.uid: kept for pod, kept in waiting if peers.keys.of(pod) == peers}
        return holders

    def add(self, pod: Pod, held: Reservation) -> None:
        """Take in that a pod holds something."""
        for holders in self._about(pod):
            holders.held[held.uid] = held
            holders.version += 1

    def remove(self, pod: Pod) -> None:
        """Take in that a pod holds nothing any more."""
        for holders in self._about(pod):
            holders.held.pop(pod.uid, None)
            holders.version += 1

    def keep(self, pod: Pod, kept: Reservation) -> None:
        """Take in that room is kept for a pod, with what it will hold."""
        for holders in self._about(pod):
            holders.kept[kept.uid] = kept
            holders.version += 1

    def give_up(self, uid: str) -> None:
        """Take in that no room is kept for a pod any more, whose peers may be others by now."""
        for known in self._by_keys.values():
            for holders in known.values():
                holders.kept.pop(uid, None)
                holders.version += 1

    def change(self, before: Pod, now: Pod, held: Reservation) -> bool:
        """Take in another version of a pod that holds something; tell whether it has other peers now."""
        if all(keys.of(before) == keys.of(now) for keys in self._by_keys):
            return False
        self.remove(before)
        self.add(now, held)
        return True

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Take all cards for free of peers for the time of a question about the end of pods, some of them maybe."""
        self.is_ignored = True
        try:
            yield
        finally:
            self.is_ignored = False

    def _about(self, pod: Pod) -> Iterator[_Holders]:
        for keys, known in self._by_keys.items():
            peers = keys.of(pod)
            holders = None if peers is None else known.get(peers)
            if holders is not None:
                yield holders


class PeerCards:
    """The cards that peers hold, or that are kept for them, of one dialect.

    Parameters
    ----------
    index
        What the holders are kept up to date by.
    holders
        The peers.
    dialect
        Whose cards.
    vendors
        The vendors whose devices are cards.
    nodes
        The nodes of the matrices that it is asked about.
    """

    def __init__(
        self, index: PeerIndex, holders: _Holders, dialect: str, vendors: frozenset[str], nodes: NodeTable
    ) -> None:
        self._index = index
        self._holders = holders
        self._dialect = dialect
        self._vendors = vendors
        self._row: Callable[[str], int | None] = nodes.row
        self._found: tuple[int, int, NDArray[np.int64]] | None = None
        """The cards on which they held something at a version of the holders, and of the lists of devices."""

    def numbers(self, devices: DeviceMatrix) -> NDArray[np.int64]:
        """Return the numbers of the cards on which they hold something, each once, in order."""
        if self._index.is_ignored:
            return _NOTHING
        version, layout = self._holders.version, devices.layout
        if self._found is None or self._found[:2] != (version, layout):
            found: set[int] = set()
            for held in self._holders:
                row = self._row(held.node)
                if row is not None:
                    found.update(self._on(devices, row, held))
            self._found = version, layout, np.array(sorted(found), dtype=np.int64)
        return self._found[2]

    def on(self, devices: DeviceMatrix, row: int, besides: str) -> frozenset[str]:
        """Return the UUIDs of the cards of a node row on which they hold something, a pod of this UID left out."""
        return frozenset(
            devices.uuid(number)
            for held in self._holders
            if held.uid != besides and self._row(held.node) == row
            for number in self._on(devices, row, held)
        )

    def _on(self, devices: DeviceMatrix, row: int, held: Reservation) -> Iterator[int]:
        for number, _ in held.charges_on(self._dialect, devices, row):
            if devices.listed(row, number).vendor in self._vendors:
                yield number
