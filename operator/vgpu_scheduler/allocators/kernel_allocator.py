"""The base class of the allocators that fit by a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.base import ALL_DEVICES, FitColumns
from vgpu_scheduler.allocators.choice import CardChoice
from vgpu_scheduler.kernels import BARRED_BY_POLICY, DeviceColumns, FitResult
from vgpu_scheduler.model import Assignment, CardReason, Claim, ContainerAssignments, ContainerType, PodClaims
from vgpu_scheduler.state import DeviceMatrix

_Request = TypeVar("_Request")
_Scratch = TypeVar("_Scratch")
_Kernel = Callable[[DeviceColumns, _Request, _Scratch, NDArray[np.int64], FitResult], None]


class KernelAllocator(ABC, Generic[_Request, _Scratch]):
    """Fits one pod's claims on nodes by a kernel.

    Parameters
    ----------
    claims
        What each container claims; at least one container claims something.
    choice
        The policies' rules about cards.
    kernel
        The kernel that fits the claims.
    """

    def __init__(self, claims: PodClaims, choice: CardChoice, kernel: _Kernel[_Request, _Scratch]) -> None:
        self._kernel = kernel
        self._claims = claims
        self._choice = choice
        self._flat = [(number, claim) for number, c in enumerate(claims) for claim in c.claims]
        """The claims, each with the number of its container."""
        self._prepared: tuple[_Request, _Scratch] | None = None
        self._layout = -1
        self._found: tuple[int, bytes] | None = None
        """The node row whose picks are in the scratch, and the usage of its devices at that time."""
        self._held = np.zeros(0, dtype=np.int64)
        """The cards that are marked because a peer holds them, ascending."""
        self._usable = np.zeros(0, dtype=np.bool_)
        """The cards that the pod may use, ignoring peers; only set for pods with peers."""

    @property
    def several(self) -> bool:
        """Whether several containers that run at the same time claim devices; see :class:`Allocator`."""
        return sum(bool(each.claims) and each.type is not ContainerType.INIT for each in self._claims) > 1

    def fit(
        self, devices: DeviceMatrix, rows: NDArray[np.int64], into: FitColumns, columns: DeviceColumns | None = None
    ) -> None:
        """Fit the claims on each of the node rows; see :class:`Allocator`."""
        columns = columns or devices.columns
        self._kernel(columns, *self._prepare(devices), rows, into.result())
        if self._held.shape[0]:
            self._name_peers(columns, rows, into)
        last = int(rows[-1]) if rows.size else -1
        kept = last >= 0 and into.fits[last] and not self._choice.peer_cards
        self._found = (last, _in_use(columns, last)) if kept else None

    def place(
        self, devices: DeviceMatrix, row: int, columns: DeviceColumns | None = None
    ) -> tuple[ContainerAssignments, ...] | None:
        """Return the devices of each container on one node row; see :class:`Allocator`."""
        _, scratch = self._prepare(devices)
        columns = columns or devices.columns
        if self._found != (row, _in_use(columns, row)):  # reuse the picks of the last fit
            own = FitColumns.empty(row + 1)
            self.fit(devices, np.array([row], dtype=np.int64), own, columns)
            if not own.fits[row]:
                return None
        containers: list[list[Assignment]] = [[] for _ in self._claims]
        for number, (container, claim) in enumerate(self._flat):
            containers[container] += self._assignments(devices, row, scratch, number, claim)
        return tuple(map(tuple, containers))

    @property
    def takes_one_card(self) -> bool:
        """Whether the pod claims only one device or a part of one, and the fit depends only on its usage."""
        return len(self._flat) == 1 and self._flat[0][1].count == 1 and not self._choice.peer_cards

    def fit_alone(self, devices: DeviceMatrix, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for single devices whether the pod fits there; see :class:`Allocator`."""
        request, scratch = self._prepare(devices)
        into = FitColumns.empty(cards.shape[0])
        rows = np.arange(cards.shape[0])
        self._kernel(devices.each_alone(cards, used), self._narrowed_to(request, cards), scratch, rows, into.result())
        self._found = None
        return into.fits

    def _prepare(self, devices: DeviceMatrix) -> tuple[_Request, _Scratch]:
        if self._prepared is None or self._layout != devices.layout:
            self._prepared = self._make_request(devices), self._make_scratch(devices)
            self._layout, self._found = devices.layout, None
            self._held = self._held[:0]
            self._usable = self.may_use(devices) if self._choice.peer_cards else self._usable
        if self._choice.peer_cards:
            self._mark_peers(devices, self._marks(self._prepared[0]))
        return self._prepared

    def _mark_peers(self, devices: DeviceMatrix, marks: NDArray[np.int8]) -> None:
        """Mark the cards that peers hold now, unless they are excluded for another reason."""
        marks[self._held] = 0
        held = np.unique(np.concatenate([cards.numbers(devices) for cards in self._choice.peer_cards]))
        self._held = held[self._usable[held] & (marks[held] == 0)]
        marks[self._held] = BARRED_BY_POLICY

    def _name_peers(self, columns: DeviceColumns, rows: NDArray[np.int64], into: FitColumns) -> None:
        """Move the counts of cards that were rejected because of peers to their own reason."""
        unfit, held = rows[~into.fits[rows]], self._held
        held = held[columns.in_service(held) & columns.consistent[held]]
        there = np.searchsorted(held, columns.last[unfit]) - np.searchsorted(held, columns.first[unfit])
        denied = into.counts[unfit, CardReason.CardDeniedByPolicy]
        moved = np.minimum(there, denied).astype(denied.dtype)
        into.counts[unfit, CardReason.CardDeniedByPolicy] -= moved
        into.counts[unfit, CardReason.CardHeldByPeer] += moved

    def may_use(self, devices: DeviceMatrix, within: slice = ALL_DEVICES) -> NDArray[np.bool_]:
        """Tell which devices the pod and its policies allow; see :class:`Allocator`."""
        claimed = {claim.vendor for _, claim in self._flat}
        theirs = [vendor in claimed for vendor, _, _ in devices.models]
        usable: NDArray[np.bool_] = np.array(theirs or [False])[devices.columns.model[within]]
        barred = self._barred(devices)
        return usable & (barred[within] == 0) if barred.shape[0] else usable

    @abstractmethod
    def _barred(self, devices: DeviceMatrix) -> NDArray[np.int8]:
        """Mark the devices that are excluded, by cause, shape (D,); empty if there can be none."""

    @abstractmethod
    def _marks(self, request: _Request) -> NDArray[np.int8]:
        """Return the marks of a request by device number, shape (D,), in which cards of peers are marked."""

    @abstractmethod
    def _make_request(self, devices: DeviceMatrix) -> _Request:
        """Return the kernel's request for the current layout of the devices."""

    @abstractmethod
    def _make_scratch(self, devices: DeviceMatrix) -> _Scratch:
        """Return the kernel's work space."""

    @abstractmethod
    def _narrowed_to(self, request: _Request, cards: NDArray[np.int64]) -> _Request:
        """Return a request for some devices, each treated as a node of its own."""

    @abstractmethod
    def _assignments(
        self, devices: DeviceMatrix, row: int, scratch: _Scratch, number: int, claim: Claim
    ) -> Iterable[Assignment]:
        """Yield the devices that a claim (by number) gets on the node row that was fitted last."""


def _in_use(columns: DeviceColumns, row: int) -> bytes:
    """Return the usage of the devices of a node row, for comparison."""
    return columns.used[columns.first[row] : columns.last[row]].tobytes()


def kept(barred: NDArray[np.int8], cards: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the marks of some devices; empty where there are none."""
    return barred[cards] if barred.shape[0] else barred
