"""The allocator interface, the columns that an allocator writes, and the verdict for nodes that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import COUNTED_AS_NONE, REASONS, DeviceColumns, FitResult
from vgpu_scheduler.model import (
    Amounts,
    CardReason,
    ContainerAssignments,
    NodeVerdict,
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
        The load of the node before the pod, as HAMi computes it, shape (N,); 0 for allocators without a load score.
    choice_score
        Score of the choice of cards, for policies that pack and that spread; shape (N, 2), more is better.
    counts
        Rejected cards, by reason, of the first claim that does not fit; shape (N, REASONS), 0 if all fit.
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
        """Return the columns in the form that kernels write."""
        return FitResult(self.fits, self.score, self.choice_score, self.counts, self.cards)


Lacking = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Per device: the missing fraction of the request, the dimension, and the amounts asked and free in it."""


class Shortfall:
    """Tracks the largest relative shortfall of each device over claims and dimensions.

    Parameters
    ----------
    devices
        The number of devices, n.
    reasons
        For each device the rejection reason (:class:`CardReason`), shape (n,); other dimensions are ignored. None to
        consider all dimensions.
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
        """Take in the request of one claim in one dimension.

        Parameters
        ----------
        free
            Free amount of each device, shape (n,).
        asked
            Requested amount of each device, shape (n,), or of all.
        among
            The devices that the claim is about, shape (n,).
        reason
            The rejection reason for too little of the dimension.
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
        """Return the largest shortfall per device; see :meth:`Allocator.shortfall`."""
        dimension, asked, free = self._about
        return self._relative, dimension, asked, free


class CardNeed(NamedTuple):
    """What a card must have free for a pod to fit on its node: a necessary condition, not a sufficient one.

    Attributes
    ----------
    vendor
        The vendor of the card.
    amounts
        Amount per dimension; if 0, see ``percent``.
    percent
        Percent of the card's capacity per dimension.
    reasons
        By dimension, the rejection reason for too little of it.
    cards
        The number of such cards.
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
            The devices with hypothetical usage; by default the actual one.
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
        """Whether the pod claims only one card or a part of one, and the fit depends only on that card's usage."""

    def fit_alone(self, devices: DeviceMatrix, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for single cards whether a pod that takes one card fits there, with hypothetical usage; shape (n,).

        Conditions on several cards of the node (NUMA nodes, links, groups) are not checked.

        Parameters
        ----------
        cards
            Device numbers, repeats allowed, shape (n,).
        used
            Hypothetical usage of each, shape (n, dimensions).
        """

    def may_use(self, devices: DeviceMatrix, within: slice = ALL_DEVICES) -> NDArray[np.bool_]:
        """Tell which devices the pod and its policies allow, whatever is free.

        Parameters
        ----------
        within
            The device numbers to check; the result has the shape of that slice.
        """

    def need(self) -> CardNeed | None:
        """Return what some card of a node must have free before the pod can fit there; None if unknown."""

    @property
    def several(self) -> bool:
        """Whether several containers that run at the same time claim devices."""

    def shortfall(
        self,
        columns: DeviceColumns,
        devices: NDArray[np.int64],
        reasons: NDArray[np.int64] | None = None,
        *,
        together: bool = False,
    ) -> Lacking:
        """Measure what each device lacks for its largest claim, or for all containers that run together.

        Parameters
        ----------
        columns
            The device matrix.
        devices
            Device numbers, shape (n,).
        reasons
            The rejection reason of each, shape (n,), to ignore other dimensions; see :class:`Shortfall`.
        together
            Measure the peak request of all containers, as if all claims were on the same device.

        Returns
        -------
        tuple
            Per device, shape (n,): the missing fraction of the request (0 if nothing is missing), the dimension, and
            the amounts asked and free in it.
        """


def verdict(counts: NDArray[np.int16], cards: int) -> NodeVerdict:
    """Format the counters of a node that does not fit as HAMi does (``1/4 CardNotHealth, 3/4 ...``, sorted as text)."""
    found = [
        (CardReason(number), 0 if count == COUNTED_AS_NONE else int(count))
        for number, count in enumerate(counts)
        if count
    ]
    parts = [reason.text if reason in _NO_COUNT else f"{count}/{cards} {reason.text}" for reason, count in found]
    return NodeVerdict(tuple(reason for reason, _ in found), ", ".join(sorted(parts)))


def count_reasons(counts: NDArray[np.int16]) -> Mapping[CardReason, int]:
    """Count the nodes on which each reason occurs, over node rows of counters (n, REASONS)."""
    nodes = np.count_nonzero(counts, axis=0)
    return {CardReason(number): int(count) for number, count in enumerate(nodes) if count}
