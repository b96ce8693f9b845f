"""The allocator for devices that are shared by amounts (Koordinator): wraps the kernels in ``kernels.shares``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.base import Lacking, Shortfall
from vgpu_scheduler.allocators.choice import CardChoice, ShareOrder
from vgpu_scheduler.allocators.kernel_allocator import KernelAllocator, kept
from vgpu_scheduler.allocators.request import pod_demand, share_terms
from vgpu_scheduler.allocators.share_choice import ShareChoice, narrowed_to
from vgpu_scheduler.kernels import (
    BARRED_BY_MODE,
    BARRED_BY_POLICY,
    BARRED_BY_SELECTOR,
    NO_CARD,
    ConstrainedShareRequest,
    DeviceColumns,
    FitResult,
    ShareRequest,
    ShareScratch,
    fit_constrained_shares,
    fit_shares,
)
from vgpu_scheduler.model import WHOLE, Amounts, Assignment, CardReason, Claim, DeviceResource, PodClaims
from vgpu_scheduler.state import DeviceMatrix


@dataclass(frozen=True, slots=True)
class ShareDimensions:
    """A dialect's description of the dimensions of its devices.

    Attributes
    ----------
    reasons
        Per dimension, the rejection reason for too little of it.
    memory, cores
        The dimensions to which limits on cards apply.
    cards
        The vendors whose devices are cards; policy limits on models, compute and memory apply only to these.
    resources
        The devices and dimensions of the resource names that an order may weigh.
    fill
        Returns the amounts to book on a device, given a claim's amounts and the device's capacity.
    """

    reasons: tuple[CardReason, ...]
    memory: int
    cores: int
    cards: frozenset[str]
    resources: Mapping[str, DeviceResource]
    fill: Callable[[Amounts, Amounts], Amounts]


_BY_SCORE = ShareChoice()


def _fit(
    columns: DeviceColumns,
    request: ShareRequest | ConstrainedShareRequest,
    scratch: ShareScratch,
    rows: NDArray[np.int64],
    result: FitResult,
) -> None:
    """Fit by the kernel for the type of the request, because requests without choice terms fit faster."""
    if isinstance(request, ConstrainedShareRequest):
        fit_constrained_shares(columns, request, scratch, rows, result)
    else:
        fit_shares(columns, request, scratch, rows, result)


def _shares(request: ShareRequest | ConstrainedShareRequest) -> ShareRequest:
    return request.shares if isinstance(request, ConstrainedShareRequest) else request


class DeviceShareAllocator(KernelAllocator[ShareRequest | ConstrainedShareRequest, ShareScratch]):
    """Fits one pod's claims on nodes: a device fits if it has enough free of each requested dimension.

    Only the amounts of a claim are compared. Its percentages are booked and checked against limits, but are no
    condition of the fit.

    Parameters
    ----------
    claims
        What each container claims; at least one container claims something.
    order
        How devices are tried.
    choice
        The policies' rules about cards: limits, and whether only unused ones are taken.
    dimensions
        The dialect's dimensions.
    chosen
        Rules for choosing devices in addition to score and amounts.
    """

    def __init__(
        self,
        claims: PodClaims,
        order: ShareOrder,
        choice: CardChoice,
        dimensions: ShareDimensions,
        chosen: ShareChoice = _BY_SCORE,
    ) -> None:
        super().__init__(claims, choice, _fit)
        self._order = order
        self._dimensions = dimensions
        self._chosen = chosen

    @property
    def takes_one_card(self) -> bool:
        """Whether the pod claims one device, and only that device's usage matters; see :class:`Allocator`."""
        return super().takes_one_card and not self._chosen.looks_further

    def need(self) -> None:
        """Return None: what a card must have free is unknown; see :class:`Allocator`."""

    def shortfall(
        self,
        columns: DeviceColumns,
        devices: NDArray[np.int64],
        reasons: NDArray[np.int64] | None = None,
        *,
        together: bool = False,
    ) -> Lacking:
        """Measure what each device lacks for its largest claim; see :class:`Allocator`.

        ``together`` makes no difference, because claims of several containers on a vendor are one claim already.
        """
        del together
        total, used = columns.total[devices], columns.used[devices]
        free = np.clip(total - used, 0, None)
        has = (total > 0) | (used > 0)
        vendors = () if self._prepared is None else _shares(self._prepared[0]).claims.vendor
        shortfall, about = Shortfall(devices.shape[0], reasons), self._dimensions.reasons
        for vendor, (_, claim) in zip(vendors, self._flat, strict=False):
            own = columns.vendor[devices] == vendor
            for dimension, amount in enumerate(claim.amounts):
                reason = about[dimension] if dimension < len(about) else CardReason.CardInsufficientMemory
                shortfall.take(dimension, free[:, dimension], amount, own & has[:, dimension], reason)
        return shortfall.result()

    def _marks(self, request: ShareRequest | ConstrainedShareRequest) -> NDArray[np.int8]:
        return _shares(request).device_barred

    def _narrowed_to(
        self, request: ShareRequest | ConstrainedShareRequest, cards: NDArray[np.int64]
    ) -> ShareRequest | ConstrainedShareRequest:
        shares = _shares(request)
        shares = shares._replace(device_barred=kept(shares.device_barred, cards))
        return (
            narrowed_to(request._replace(shares=shares), cards)
            if isinstance(request, ConstrainedShareRequest)
            else shares
        )

    def _assignments(
        self, devices: DeviceMatrix, row: int, scratch: ShareScratch, number: int, claim: Claim
    ) -> Iterable[Assignment]:
        request = None if self._prepared is None else self._prepared[0]
        chosen = request.terms.scratch if isinstance(request, ConstrainedShareRequest) else None
        picked = claim.count if chosen is None else int(chosen.picked[number])
        for device in scratch.picks[number, :picked].tolist():
            total = tuple(devices.columns.total[device, : len(claim.amounts)].tolist())
            yield Assignment(claim.vendor, devices.uuid(device), self._dimensions.fill(claim.amounts, total))
        if chosen is not None and self._chosen.wish(claim.vendor).functions:
            for device in chosen.functions[number, :picked].tolist():
                listed = devices.listed(row, device)
                yield Assignment(listed.vendor, listed.uuid, listed.total, tag=listed.tag)

    def _make_request(self, devices: DeviceMatrix) -> ShareRequest | ConstrainedShareRequest:
        reasons = np.full(devices.dimensions, int(CardReason.CardInsufficientMemory), dtype=np.int64)
        reasons[: len(self._dimensions.reasons)] = [int(reason) for reason in self._dimensions.reasons]
        request = ShareRequest(
            claims=pod_demand(self._claims, devices),
            device_barred=self._barred(devices),
            reason=reasons,
            idle=self._choice.idle_only,
            terms=share_terms(self._order, self._dimensions.resources, devices),
        )
        terms = self._chosen.terms([claim for _, claim in self._flat], devices)
        return request if terms is None else ConstrainedShareRequest(request, terms)

    def _barred(self, devices: DeviceMatrix) -> NDArray[np.int8]:
        """Mark the devices that the pod or a policy excludes, or that are in another mode; empty if there are none."""
        barred = np.where(self._shared_otherwise(devices), BARRED_BY_MODE, 0).astype(np.int8)
        columns, kinds = devices.columns, self._dimensions
        card = np.array([vendor in kinds.cards for vendor, _, _ in devices.models] or [False])[columns.model]
        whole = columns.total[:, kinds.cores] == WHOLE
        barred[card & self._choice.limits.denied(devices, kinds.memory, lambda _: True, whole)] = BARRED_BY_POLICY
        # Takes precedence, because the devices that a pod does not select do not count when it asks for all of them.
        barred[self._chosen.not_selected(devices)] = BARRED_BY_SELECTOR
        return barred if barred.any() or self._choice.peer_cards else barred[:0]

    def _shared_otherwise(self, devices: DeviceMatrix) -> NDArray[np.bool_]:
        """Mark the devices whose mode differs from the one that a claim on their vendor asks for."""
        wanted = {(claim.vendor, claim.mode) for _, claim in self._flat if claim.mode is not None}
        other = [any(vendor == v and mode != m for v, m in wanted) for vendor, _, mode in devices.models]
        if not any(other):
            return np.zeros(devices.size, dtype=np.bool_)
        return np.array(other, dtype=np.bool_)[devices.columns.model]

    def _make_scratch(self, devices: DeviceMatrix) -> ShareScratch:
        most = max(devices.most_cards, 1)
        return ShareScratch(
            used=np.zeros((2, most, devices.dimensions), dtype=np.int64),
            score=np.zeros(most, dtype=np.int64),
            tried=np.zeros(most, dtype=np.bool_),
            picks=np.full((len(self._flat), most), NO_CARD, dtype=np.int64),
        )
