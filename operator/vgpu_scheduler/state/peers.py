"""Peers, pods that must not share a card with each other, and the cards that they hold.

The cards of peers are derived from the reservations alone, so the result is the same after a restart.
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

_NOTHING: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PeerKeys:
    """The labels and annotations that make pods of one namespace peers.

    Attributes
    ----------
    labels
        Peers have the same values of all these labels.
    annotations
        Peers have the same value of the first of these annotations that is set.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

    def of(self, pod: Pod) -> Peers | None:
        """Return the peers of a pod; None if one of the labels, or every annotation, is missing."""
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
    """The reservations of peers, and the holds for waiting peers, by UID."""

    __slots__ = ("__weakref__", "held", "on_hold", "version")

    def __init__(self) -> None:
        self.held: dict[str, Reservation] = {}
        self.on_hold: dict[str, Reservation] = {}
        self.version = 0

    def __iter__(self) -> Iterator[Reservation]:
        yield from self.held.values()
        yield from self.on_hold.values()


class PeerIndex:
    """The reservations of those peers whose cards are in use by a caller; no others are kept."""

    def __init__(self) -> None:
        self._by_keys: dict[PeerKeys, WeakValueDictionary[Peers, _Holders]] = {}
        self.is_ignored = False
        """Whether peers are ignored, as if they held no cards."""

    def __bool__(self) -> bool:
        return bool(self._by_keys)

    def of(
        self, peers: Peers, holding: Iterable[tuple[Pod, Reservation]], waiting: Iterable[tuple[Pod, Reservation]]
    ) -> _Holders:
        """Return the reservations of peers; they stay up to date while the result is referenced.

        Parameters
        ----------
        holding
            All pods with reservations now.
        waiting
            All pods with a hold, with what they will hold.
        """
        self._by_keys = {keys: found for keys, found in self._by_keys.items() if found}
        known = self._by_keys.setdefault(peers.keys, WeakValueDictionary())
        holders = known.get(peers)
        if holders is None:
            holders = known[peers] = _Holders()
            holders.held = {held.uid: held for pod, held in holding if peers.keys.of(pod) == peers}
            holders.on_hold = {held.uid: held for pod, held in waiting if peers.keys.of(pod) == peers}
        return holders

    def add(self, pod: Pod, reservation: Reservation) -> None:
        """Take in that a pod holds something."""
        for holders in self._about(pod):
            holders.held[reservation.uid] = reservation
            holders.version += 1

    def remove(self, pod: Pod) -> None:
        """Take in that a pod holds nothing any more."""
        for holders in self._about(pod):
            holders.held.pop(pod.uid, None)
            holders.version += 1

    def add_hold(self, pod: Pod, held: Reservation) -> None:
        """Take in a hold for a pod, with what it will hold."""
        for holders in self._about(pod):
            holders.on_hold[held.uid] = held
            holders.version += 1

    def give_up(self, uid: str) -> None:
        """Take in that a pod has no hold any more; it is removed everywhere, for its peers may have changed."""
        for known in self._by_keys.values():
            for holders in known.values():
                holders.on_hold.pop(uid, None)
                holders.version += 1

    def change(self, before: Pod, now: Pod, reservation: Reservation) -> bool:
        """Take in a new version of a pod with a reservation; tell whether its peers changed."""
        if all(keys.of(before) == keys.of(now) for keys in self._by_keys):
            return False
        self.remove(before)
        self.add(now, reservation)
        return True

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignore peers inside the ``with`` block: preemption asks what fits once pods, maybe peers, are evicted."""
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
    """The cards of one dialect that peers hold, or that are kept for them.

    Parameters
    ----------
    index
        The index that keeps the holders up to date.
    holders
        The reservations of the peers.
    dialect
        The dialect of the cards.
    vendors
        The vendors whose devices are cards.
    nodes
        The nodes of the matrices that are passed to the methods.
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
        """Cached: version of the holders, layout of the matrix, and the numbers of the cards at that time."""

    def numbers(self, devices: DeviceMatrix) -> NDArray[np.int64]:
        """Return the numbers of the cards that the peers hold, each once, ascending."""
        if self._index.is_ignored:
            return _NOTHING
        version, layout = self._holders.version, devices.layout
        if self._found is None or self._found[:2] != (version, layout):
            found: set[int] = set()
            for reservation in self._holders:
                row = self._row(reservation.node)
                if row is not None:
                    found.update(self._on(devices, row, reservation))
            self._found = version, layout, np.array(sorted(found), dtype=np.int64)
        return self._found[2]

    def on(self, devices: DeviceMatrix, row: int, besides: str) -> frozenset[str]:
        """Return the UUIDs of the cards of a node row that the peers hold, except the pod with the UID ``besides``."""
        return frozenset(
            devices.uuid(number)
            for reservation in self._holders
            if reservation.uid != besides and self._row(reservation.node) == row
            for number in self._on(devices, row, reservation)
        )

    def _on(self, devices: DeviceMatrix, row: int, reservation: Reservation) -> Iterator[int]:
        for number, _ in reservation.charges_on(self._dialect, devices, row):
            if devices.listed(row, number).vendor in self._vendors:
                yield number
