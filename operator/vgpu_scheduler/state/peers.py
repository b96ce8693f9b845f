"""Pods that share no card with each other: who they are, and which cards they hold.

It is a function of the reservations alone: whoever asks for the cards of some peers gets those of the pods that hold
something now, after a restart as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.reservations import Reservation

__all__ = ["HeldCards", "PeerIndex", "PeerKeys", "Peers"]


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
    """The peers that hold something, by UID."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held: dict[str, Reservation] = {}


class PeerIndex:
    """What peers hold, of those whose cards somebody asks for; nothing is kept of others."""

    def __init__(self) -> None:
        self._by_keys: dict[PeerKeys, WeakValueDictionary[Peers, _Holders]] = {}
        self.is_ignored = False
        """Whether all cards are taken for free of peers."""

    def __bool__(self) -> bool:
        return bool(self._by_keys)

    def of(self, peers: Peers, holding: Iterable[tuple[Pod, Reservation]]) -> _Holders:
        """Return what peers hold, kept up to date for as long as somebody has it.

        Parameters
        ----------
        holding
            All pods that hold something, to begin with.
        """
        self._by_keys = {keys: found for keys, found in self._by_keys.items() if found}
        known = self._by_keys.setdefault(peers.keys, WeakValueDictionary())
        holders = known.get(peers)
        if holders is None:
            holders = known[peers] = _Holders()
            holders.held = {held.uid: held for pod, held in holding if peers.keys.of(pod) == peers}
        return holders

    def add(self, pod: Pod, held: Reservation) -> None:
        """Take in that a pod holds something."""
        for holders in self._about(pod):
            holders.held[held.uid] = held

    def remove(self, pod: Pod) -> None:
        """Take in that a pod holds nothing any more."""
        for holders in self._about(pod):
            holders.held.pop(pod.uid, None)

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


class HeldCards:
    """The cards that peers hold, of one dialect.

    Parameters
    ----------
    index
        What the holders are kept up to date by.
    holders
        The peers.
    dialect
        Whose cards.
    vendors
        The makers whose devices are cards.
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

    def numbers(self, devices: DeviceMatrix) -> NDArray[np.int64]:
        """Return the numbers of the cards on which they hold something, each once, in order."""
        found: set[int] = set()
        for held in () if self._index.is_ignored else self._holders.held.values():
            row = self._row(held.node)
            if row is not None:
                found.update(self._on(devices, row, held))
        return np.array(sorted(found), dtype=np.int64)

    def on(self, devices: DeviceMatrix, row: int, besides: str) -> frozenset[str]:
        """Return the UUIDs of the cards of a node row on which they hold something, a pod of this UID left out."""
        return frozenset(
            devices.uuid(number)
            for held in self._holders.held.values()
            if held.uid != besides and self._row(held.node) == row
            for number in self._on(devices, row, held)
        )

    def _on(self, devices: DeviceMatrix, row: int, held: Reservation) -> Iterator[int]:
        listed = devices.devices(row)
        cards = {device.uuid for device in listed if device.vendor in self._vendors}
        for uuid in held.device_charges(self._dialect, listed).keys() & cards:
            number = devices.position(row, uuid)
            assert number is not None
            yield number
