"""Devices that are shared by amounts alone: prepares the kernel's request, fits it on nodes, and reads the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.base import ALL_DEVICES, FitColumns, Lacking, Shortfall
from vgpu_scheduler.allocators.choice import CardChoice, ShareOrder
from vgpu_scheduler.allocators.request import pod_demand, share_terms
from vgpu_scheduler.kernels import (
    BARRED_BY_POLICY,
    NO_CARD,
    DeviceColumns,
    ShareRequest,
    ShareScratch,
    fit_shares,
)
from vgpu_scheduler.model import WHOLE, Amounts, Assignment, CardReason, ContainerAssignments, DeviceResource, PodClaims
from vgpu_scheduler.state import DeviceMatrix


@dataclass(frozen=True, slots=True)
class ShareDimensions:
    """What a dialect says about the amounts of its devices.

    Attributes
    ----------
    reasons
        Per dimension, why a device does not fit that has too little of it.
    memory, cores
        The dimensions that limits on cards are about.
    cards
        The vendors whose devices are cards: what policies say about models, compute and memory is about these alone.
    resources
        What the names stand for that an order may weigh.
    fill
        Given what a claim asks of a device and what the device has, what is booked on it.
    """

    reasons: tuple[CardReason, ...]
    memory: int
    cores: int
    cards: frozenset[str]
    resources: Mapping[str, DeviceResource]
    fill: Callable[[Amounts, Amounts], Amounts]


class ShareAllocator:
    """Fits one pod's claims on nodes: a device fits if it has enough left of each thing that is asked of it.

    Only the amounts of a claim are compared. Its percentages say what is booked beside them and what limits are held
    against; they are no condition.

    Parameters
    ----------
    claims
        What each container claims; at least one container claims something.
    order
        How devices are tried.
    choice
        What policies say about cards: the limits, and whether only idle ones are wanted.
    dimensions
        What the dialect says about amounts.
    """

    def __init__(self, claims: PodClaims, order: ShareOrder, choice: CardChoice, dimensions: ShareDimensions) -> None:
        self._claims = claims
        self._order = order
        self._choice = choice
        self._dimensions = dimensions
        self._flat = [(number, c.kind, claim) for number, c in enumerate(claims) for claim in c.claims]
        self._request: ShareRequest | None = None
        self._scratch: ShareScratch | None = None
        self._layout = -1

    def fit(
        self, devices: DeviceMatrix, rows: NDArray[np.int64], into: FitColumns, columns: DeviceColumns | None = None
    ) -> None:
        """Fit the claims on each of the node rows; see :class:`Allocator`."""
        request, scratch = self._prepare(devices)
        fit_shares(columns or devices.columns, request, scratch, rows, into.result())

    def place(
        self, devices: DeviceMatrix, row: int, columns: DeviceColumns | None = None
    ) -> tuple[ContainerAssignments, ...] | None:
        """Return the devices of each container on one node row; see :class:`Allocator`."""
        request, scratch = self._prepare(devices)
        own = FitColumns.empty(row + 1)
        fit_shares(columns or devices.columns, request, scratch, np.array([row], dtype=np.int64), own.result())
        if not own.fits[row]:
            return None
        containers: list[list[Assignment]] = [[] for _ in self._claims]
        for number, (container, _, claim) in enumerate(self._flat):
            for device in scratch.picks[number, : claim.count]:
                total = tuple(int(amount) for amount in devices.columns.total[device][: len(claim.amounts)])
                booked = self._dimensions.fill(claim.amounts, total)
                containers[container].append(Assignment(claim.vendor, devices.uuid(int(device)), booked))
        return tuple(tuple(assignments) for assignments in containers)

    @property
    def takes_one_card(self) -> bool:
        """Whether all that the pod claims is one device, or a part of one."""
        return len(self._flat) == 1 and self._flat[0][2].count == 1

    def fit_alone(self, devices: DeviceMatrix, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of single devices whether the pod fits there; see :class:`Allocator`."""
        request, scratch = self._prepare(devices)
        barred = request.device_barred[cards] if request.device_barred.shape[0] else request.device_barred
        alone, into = request._replace(device_barred=barred), FitColumns.empty(cards.shape[0])
        fit_shares(devices.each_alone(cards, used), alone, scratch, np.arange(cards.shape[0]), into.result())
        return into.fits

    def may_use(self, devices: DeviceMatrix, within: slice = ALL_DEVICES) -> NDArray[np.bool_]:
        """Tell which devices are of a vendor that the pod claims; see :class:`Allocator`."""
        vendors = [devices.vendor_number(claim.vendor) for _, _, claim in self._flat]
        return np.isin(devices.columns.vendor[within], vendors)

    def need(self) -> None:
        """Say nothing of what some card must have free; see :class:`Allocator`."""

    def shortfall(
        self, columns: DeviceColumns, devices: NDArray[np.int64], reasons: NDArray[np.int64] | None = None
    ) -> Lacking:
        """Measure what each device lacks for its hardest claim; see :class:`Allocator`."""
        total, used = columns.total[devices], columns.used[devices]
        free = np.clip(total - used, 0, None)
        has = (total > 0) | (used > 0)
        vendors = () if self._request is None else self._request.claims.vendor
        shortfall, about = Shortfall(devices.shape[0], reasons), self._dimensions.reasons
        for vendor, (_, _, claim) in zip(vendors, self._flat, strict=False):
            own = columns.vendor[devices] == vendor
            for dimension, amount in enumerate(claim.amounts):
                reason = about[dimension] if dimension < len(about) else CardReason.CardInsufficientMemory
                shortfall.take(dimension, free[:, dimension], amount, own & has[:, dimension], reason)
        return shortfall.result()

    def _prepare(self, devices: DeviceMatrix) -> tuple[ShareRequest, ShareScratch]:
        if self._request is None or self._scratch is None or self._layout != devices.layout:
            self._request = self._make_request(devices)
            self._scratch = self._make_scratch(devices)
            self._layout = devices.layout
        return self._request, self._scratch

    def _make_request(self, devices: DeviceMatrix) -> ShareRequest:
        reasons = np.full(devices.dimensions, int(CardReason.CardInsufficientMemory), dtype=np.int64)
        reasons[: len(self._dimensions.reasons)] = [int(reason) for reason in self._dimensions.reasons]
        return ShareRequest(
            claims=pod_demand(self._claims, devices),
            device_barred=self._barred(devices),
            reason=reasons,
            idle=self._choice.idle_only,
            terms=share_terms(self._order, self._dimensions.resources, devices),
        )

    def _barred(self, devices: DeviceMatrix) -> NDArray[np.int8]:
        """Mark the cards that a policy leaves out; empty when none could be."""
        limits = self._choice.limits
        if limits.none:
            return np.zeros(0, dtype=np.int8)
        columns = devices.columns
        models = devices.models
        card = np.array([vendor in self._dimensions.cards for vendor, _, _ in models], dtype=np.bool_)
        denied = np.array([not limits.allows_model(model, mode) for _, model, mode in models], dtype=np.bool_)
        barred = np.zeros(devices.size, dtype=np.bool_)
        if models:
            barred |= denied[columns.model]
            if limits.most_memory is not None:
                barred |= columns.total[:, self._dimensions.memory] > limits.most_memory
            if limits.exclusive:
                barred |= columns.total[:, self._dimensions.cores] != WHOLE
            barred &= card[columns.model]
        return np.where(barred, BARRED_BY_POLICY, 0).astype(np.int8)

    def _make_scratch(self, devices: DeviceMatrix) -> ShareScratch:
        most = max(devices.most_cards, 1)
        return ShareScratch(
            used=np.zeros((2, most, devices.dimensions), dtype=np.int64),
            score=np.zeros(most, dtype=np.int64),
            tried=np.zeros(most, dtype=np.bool_),
            picks=np.full((len(self._flat), most), NO_CARD, dtype=np.int64),
        )
