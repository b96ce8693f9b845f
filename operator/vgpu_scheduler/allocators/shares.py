"""Devices that are shared by amounts alone: prepares the kernel's request, fits it on nodes, and reads the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.base import KernelAllocator, Lacking, Shortfall, kept
from vgpu_scheduler.allocators.choice import CardChoice, ShareOrder
from vgpu_scheduler.allocators.request import pod_demand, share_terms
from vgpu_scheduler.allocators.share_choice import ShareChoice, about
from vgpu_scheduler.kernels import (
    BARRED_BY_MODE,
    BARRED_BY_POLICY,
    BARRED_BY_SELECTOR,
    NO_CARD,
    ChoosyRequest,
    DeviceColumns,
    FitResult,
    ShareRequest,
    ShareScratch,
    fit_choosy_shares,
    fit_shares,
)
from vgpu_scheduler.model import WHOLE, Amounts, Assignment, CardReason, Claim, DeviceResource, PodClaims
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


_BY_SCORE = ShareChoice()


def _fit(
    columns: DeviceColumns,
    request: ShareRequest | ChoosyRequest,
    scratch: ShareScratch,
    rows: NDArray[np.int64],
    result: FitResult,
) -> None:
    """Fit by the kernel that the request is for: who has no tree pays for none."""
    if isinstance(request, ChoosyRequest):
        fit_choosy_shares(columns, request, scratch, rows, result)
    else:
        fit_shares(columns, request, scratch, rows, result)


def _shares(request: ShareRequest | ChoosyRequest) -> ShareRequest:
    return request.shares if isinstance(request, ChoosyRequest) else request


class DeviceShareAllocator(KernelAllocator[ShareRequest | ChoosyRequest, ShareScratch]):
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
    chosen
        How devices are chosen where score and amounts are not all.
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
        """Whether all that the pod claims is one device, and what is free of it decides; see :class:`Allocator`."""
        return super().takes_one_card and not self._chosen.looks_further

    def need(self) -> None:
        """Say nothing of what some card must have free; see :class:`Allocator`."""

    def shortfall(
        self,
        columns: DeviceColumns,
        devices: NDArray[np.int64],
        reasons: NDArray[np.int64] | None = None,
        *,
        together: bool = False,
    ) -> Lacking:
        """Measure what each device lacks for its hardest claim; see :class:`Allocator`.

        What several containers ask of a kind of devices is one claim already.
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

    def _marks(self, request: ShareRequest | ChoosyRequest) -> NDArray[np.int8]:
        return _shares(request).device_barred

    def _about(self, request: ShareRequest | ChoosyRequest, cards: NDArray[np.int64]) -> ShareRequest | ChoosyRequest:
        shares = _shares(request)
        shares = shares._replace(device_barred=kept(shares.device_barred, cards))
        return about(request._replace(shares=shares), cards) if isinstance(request, ChoosyRequest) else shares

    def _assignments(
        self, devices: DeviceMatrix, row: int, scratch: ShareScratch, number: int, claim: Claim
    ) -> Iterable[Assignment]:
        request = None if self._prepared is None else self._prepared[0]
        chosen = request.terms.scratch if isinstance(request, ChoosyRequest) else None
        picked = claim.count if chosen is None else int(chosen.picked[number])
        for device in scratch.picks[number, :picked].tolist():
            total = tuple(devices.columns.total[device, : len(claim.amounts)].tolist())
            yield Assignment(claim.vendor, devices.uuid(device), self._dimensions.fill(claim.amounts, total))
        if chosen is not None and self._chosen.wish(claim.vendor).functions:
            for device in chosen.functions[number, :picked].tolist():
                listed = devices.listed(row, device)
                yield Assignment(listed.vendor, listed.uuid, listed.total, tag=listed.tag)

    def _make_request(self, devices: DeviceMatrix) -> ShareRequest | ChoosyRequest:
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
        return request if terms is None else ChoosyRequest(request, terms)

    def _barred(self, devices: DeviceMatrix) -> NDArray[np.int8]:
        """Mark the devices that pod or policy leave out, or that are shared otherwise; empty if none could be."""
        barred = np.where(self._shared_otherwise(devices), BARRED_BY_MODE, 0).astype(np.int8)
        limits, columns, models = self._choice.limits, devices.columns, devices.models
        if not models or limits.none:
            barred[self._chosen.not_selected(devices)] = BARRED_BY_SELECTOR
            return barred if barred.any() or self._choice.peer_cards else barred[:0]
        card = np.array([vendor in self._dimensions.cards for vendor, _, _ in models], dtype=np.bool_)
        denied = np.array([not limits.allows_model(model, mode) for _, model, mode in models], dtype=np.bool_)
        left_out = denied[columns.model]
        if limits.most_memory is not None:
            left_out |= columns.total[:, self._dimensions.memory] > limits.most_memory
        if limits.exclusive:
            left_out |= columns.total[:, self._dimensions.cores] != WHOLE
        barred[left_out & card[columns.model]] = BARRED_BY_POLICY
        barred[self._chosen.not_selected(devices)] = BARRED_BY_SELECTOR  # named first: it is the pod's own
        return barred

    def _shared_otherwise(self, devices: DeviceMatrix) -> NDArray[np.bool_]:
        """Mark the devices that are in another mode than a claim of the pod on their vendor wants."""
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
