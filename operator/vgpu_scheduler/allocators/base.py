"""What every allocator offers, the columns that it writes, and what those have in common that fit by a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.choice import CardChoice
from vgpu_scheduler.kernels import BARRED_BY_POLICY, COUNTED_AS_NONE, REASONS, DeviceColumns, FitResult
from vgpu_scheduler.model import (
    Amounts,
    Assignment,
    CardReason,
    Claim,
    ContainerAssignments,
    ContainerKind,
    NodeVerdict,
    PodClaims,
)
from vgpu_scheduler.state import DeviceMatrix

ALL_DEVICES: Final = slice(None)
_NO_COUNT: Final = (CardReason.NodeInsufficientDevice, CardReason.NodeUnregistered)


@dataclass(slots=True)
class FitColumns:
    """The outcome of a fit by node row; grows with the node table and is kept between decisions.

    Attributes
    ----------
    fits
        Whether the claims fit, shape (N,).
    score
        The load of the node before the pod, as HAMi computes it, shape (N,); 0 where an allocator has no such notion.
    choice_score
        How good the choice of cards is, where policies pack and where they spread; shape (N, 2), more is better.
    counts
        Cards passed over, by reason, of the first claim that did not fit; shape (N, REASONS), 0 where all fit.
    cards
        Cards that this claim could choose from, shape (N,).
    """

    fits: NDArray[np.bool_]
    score: NDArray[np.float32]
    choice_score: NDArray[np.float32]
    counts: NDArray[np.int16]
    cards: NDArray[np.int16]

    @classmethod
    def empty(cls, rows: int) -> FitColumns:
        """Return columns in which nothing fits."""
        return cls(
            np.zeros(rows, dtype=np.bool_),
            np.zeros(rows, dtype=np.float32),
            np.zeros((rows, 2), dtype=np.float32),
            np.zeros((rows, REASONS), dtype=np.int16),
            np.zeros(rows, dtype=np.int16),
        )

    def result(self) -> FitResult:
        """Return the columns as the kernels take them."""
        return FitResult(self.fits, self.score, self.choice_score, self.counts, self.cards)


Lacking = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Per device: the missing part of what is asked, and the dimension, the amount asked and the amount free there."""


class Shortfall:
    """Keeps what each device lacks most, over the claims and dimensions that it is told of.

    Parameters
    ----------
    devices
        The number of devices, n.
    reasons
        For each device the reason that is asked about (:class:`CardReason`), shape (n,): what is said of other
        dimensions does not count. None to have the largest lack, whatever it is.
    """

    def __init__(self, devices: int, reasons: NDArray[np.int64] | None = None) -> None:
        self._reasons = reasons
        self._relative = np.zeros(devices)
        self._about = np.zeros((3, devices), dtype=np.int64)

    def take(
        self,
        dimension: int,
        free: NDArray[np.int64],
        asked: int | NDArray[np.int64],
        among: NDArray[np.bool_],
        reason: CardReason,
    ) -> None:
        """Take in what one claim asks in one dimension.

        Parameters
        ----------
        free
            What is free of each device there, shape (n,).
        asked
            What is asked of each, shape (n,), or of any.
        among
            The devices that it is asked of, shape (n,).
        reason
            What a card is rejected for that has too little of the dimension.
        """
        lacks = among & (free < asked)
        if self._reasons is not None:
            lacks &= self._reasons == reason
        if not lacks.any():
            return
        relative = (asked - free) / np.maximum(asked, 1)
        worse = np.flatnonzero(lacks & (relative > self._relative))
        self._relative[worse] = relative[worse]
        self._about[0, worse] = dimension
        self._about[1, worse] = asked if isinstance(asked, int) else asked[worse]
        self._about[2, worse] = free[worse]

    def result(self) -> Lacking:
        """Return the worst of it per device; see :meth:`Allocator.shortfall`."""
        dimension, asked, free = self._about
        return self._relative, dimension, asked, free


class CardNeed(NamedTuple):
    """What a card must have free for a pod to fit on its node; what else must be true is not said.

    Attributes
    ----------
    vendor
        Whose card.
    amounts
        Per dimension; 0 where nothing is needed, or ``percent`` says it.
    percent
        Percent of what the card has of a dimension.
    reasons
        By dimension, what a card is rejected for that has too little.
    cards
        How many such cards it takes.
    """

    vendor: str
    amounts: Amounts
    percent: Amounts
    reasons: tuple[CardReason, ...]
    cards: int


class Allocator(Protocol):
    """Chooses cards on one node for the claims of one pod."""

    def fit(
        self, devices: DeviceMatrix, rows: NDArray[np.int64], into: FitColumns, columns: DeviceColumns | None = None
    ) -> None:
        """Fit the claims on each of the node rows; ``into`` is written at those rows.

        Parameters
        ----------
        columns
            The devices with other amounts in use than there are; those there are without it.
        """

    def place(
        self, devices: DeviceMatrix, row: int, columns: DeviceColumns | None = None
    ) -> tuple[ContainerAssignments, ...] | None:
        """Return the devices of each container on one node row, or None if the claims do not fit there.

        Parameters
        ----------
        columns
            See :meth:`fit`.
        """

    @property
    def takes_one_card(self) -> bool:
        """Whether all that the pod claims is one card, or a part of one, and what is free of it decides."""

    def fit_alone(self, devices: DeviceMatrix, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of single cards whether a pod that takes one card fits there, with other amounts in use; shape (n,).

        What depends on more cards of the node (its NUMA nodes, links and groups) is not asked.

        Parameters
        ----------
        cards
            Device numbers, any number of times each, shape (n,).
        used
            What is taken to be in use of each, shape (n, dimensions).
        """

    def may_use(self, devices: DeviceMatrix, within: slice = ALL_DEVICES) -> NDArray[np.bool_]:
        """Tell which devices the pod and its policies let it use at all, whatever is free.

        Parameters
        ----------
        within
            The numbers of the devices that are asked about; the answer has the shape of that part.
        """

    def need(self) -> CardNeed | None:
        """Return what some card of a node must have free before the pod can fit there; None if that cannot be said."""

    @property
    def several(self) -> bool:
        """Whether several containers that run at the same time take something of cards."""

    def shortfall(
        self,
        columns: DeviceColumns,
        devices: NDArray[np.int64],
        reasons: NDArray[np.int64] | None = None,
        *,
        together: bool = False,
    ) -> Lacking:
        """Measure what each device lacks for its hardest claim, or for those of all containers that run together.

        Parameters
        ----------
        columns
            The device matrix.
        devices
            Device numbers, shape (n,).
        reasons
            What each is rejected for, shape (n,), if only that is asked about; see :class:`Shortfall`.
        together
            Measure what is asked at the most at any moment, as if all were taken of each device.

        Returns
        -------
        tuple
            Per device, shape (n,): the missing part of what is asked (0 where nothing lacks), the dimension it is
            missing in, the amount asked there, and the amount free.
        """


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
        What policies say about cards.
    kernel
        What fits them.
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
        """The node row whose devices are in the scratch, and what was used of them then."""
        self._held = np.zeros(0, dtype=np.int64)
        """The cards that are marked because a peer holds them, in order."""
        self._usable = np.zeros(0, dtype=np.bool_)
        """The cards that the pod may use, peers aside, where there may be some."""

    @property
    def several(self) -> bool:
        """Whether several containers that run at the same time take something of cards; see :class:`Allocator`."""
        return sum(bool(each.claims) and each.kind is not ContainerKind.INIT for each in self._claims) > 1

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
        if self._found != (row, _in_use(columns, row)):  # a search among linked cards is not done twice for a node
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
        """Whether all that the pod claims is one device, or a part of one, and what is free of it decides."""
        return len(self._flat) == 1 and self._flat[0][1].count == 1 and not self._choice.peer_cards

    def fit_alone(self, devices: DeviceMatrix, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of single devices whether the pod fits there; see :class:`Allocator`."""
        request, scratch = self._prepare(devices)
        into = FitColumns.empty(cards.shape[0])
        rows = np.arange(cards.shape[0])
        self._kernel(devices.each_alone(cards, used), self._about(request, cards), scratch, rows, into.result())
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
        """Mark the cards that peers hold now, of those that nothing else leaves out."""
        marks[self._held] = 0
        held = np.unique(np.concatenate([cards.numbers(devices) for cards in self._choice.peer_cards]))
        self._held = held[self._usable[held] & (marks[held] == 0)]
        marks[self._held] = BARRED_BY_POLICY

    def _name_peers(self, columns: DeviceColumns, rows: NDArray[np.int64], into: FitColumns) -> None:
        """Count the cards that were passed over because of peers under a reason of their own."""
        unfit, held = rows[~into.fits[rows]], self._held
        held = held[columns.in_service(held) & columns.explained[held]]
        there = np.searchsorted(held, columns.last[unfit]) - np.searchsorted(held, columns.first[unfit])
        denied = into.counts[unfit, CardReason.CardDeniedByPolicy]
        moved = np.minimum(there, denied).astype(denied.dtype)
        into.counts[unfit, CardReason.CardDeniedByPolicy] -= moved
        into.counts[unfit, CardReason.CardHeldByPeer] += moved

    def may_use(self, devices: DeviceMatrix, within: slice = ALL_DEVICES) -> NDArray[np.bool_]:
        """Tell which devices the pod and its policies let it use at all; see :class:`Allocator`."""
        claimed = {claim.vendor for _, claim in self._flat}
        theirs = [vendor in claimed for vendor, _, _ in devices.models]
        usable: NDArray[np.bool_] = np.array(theirs or [False])[devices.columns.model[within]]
        barred = self._barred(devices)
        return usable & (barred[within] == 0) if barred.shape[0] else usable

    @abstractmethod
    def _barred(self, devices: DeviceMatrix) -> NDArray[np.int8]:
        """Mark the devices by what leaves them out, shape (D,); empty when nothing could."""

    @abstractmethod
    def _marks(self, request: _Request) -> NDArray[np.int8]:
        """Return the marks of a request by device number, shape (D,), where cards of peers are left out."""

    @abstractmethod
    def _make_request(self, devices: DeviceMatrix) -> _Request:
        """Return what the kernel is asked about devices of one layout."""

    @abstractmethod
    def _make_scratch(self, devices: DeviceMatrix) -> _Scratch:
        """Return its work space."""

    @abstractmethod
    def _about(self, request: _Request, cards: NDArray[np.int64]) -> _Request:
        """Return a request about some devices, each as if it were a node by itself."""

    @abstractmethod
    def _assignments(
        self, devices: DeviceMatrix, row: int, scratch: _Scratch, number: int, claim: Claim
    ) -> Iterable[Assignment]:
        """Yield what the claim of a number gets of the node row that was fitted last."""


def _in_use(columns: DeviceColumns, row: int) -> bytes:
    """Return what is used of the devices of a node row, to be compared with what it was."""
    return columns.used[columns.first[row] : columns.last[row]].tobytes()


def kept(barred: NDArray[np.int8], cards: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the marks of some devices; empty where there are none."""
    return barred[cards] if barred.shape[0] else barred


def verdict(counts: NDArray[np.int16], cards: int) -> NodeVerdict:
    """Word the counters of a node that does not fit, as HAMi does (``1/4 CardNotHealth, 3/4 ...``, sorted as text)."""
    found = [
        (CardReason(number), 0 if count == COUNTED_AS_NONE else int(count))
        for number, count in enumerate(counts)
        if count
    ]
    parts = [reason.text if reason in _NO_COUNT else f"{count}/{cards} {reason.text}" for reason, count in found]
    return NodeVerdict(tuple(reason.text for reason, _ in found), ", ".join(sorted(parts)))


def count_reasons(counts: NDArray[np.int16]) -> Mapping[CardReason, int]:
    """Count, over node rows of counters (n, REASONS), the nodes that each reason occurs on."""
    nodes = np.count_nonzero(counts, axis=0)
    return {CardReason(number): int(count) for number, count in enumerate(nodes) if count}
