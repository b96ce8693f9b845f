"""The allocator for HAMi's claims: a wrapper of the kernels in ``kernels.hami``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.base import ALL_DEVICES, CardNeed, FitColumns, Lacking, Shortfall
from vgpu_scheduler.allocators.choice import CardChoice
from vgpu_scheduler.allocators.fit_rules import NVIDIA_RULES, FitRules, WholeCardRule
from vgpu_scheduler.allocators.kernel_allocator import KernelAllocator, kept
from vgpu_scheduler.allocators.order import CardOrder, share_card_order
from vgpu_scheduler.allocators.pieces import largest_free_pieces
from vgpu_scheduler.allocators.request import amounts_of, pod_demand, share_terms
from vgpu_scheduler.kernels import (
    BARRED_BY_POLICY,
    BARRED_BY_UUID,
    CORES,
    MEMORY,
    MODEL_IN_OTHER_MODE,
    NO_CARD,
    NO_PIECE,
    NO_QUOTA,
    NO_SHARE,
    PEAK,
    QUOTA_CORES,
    QUOTA_MEMORY,
    REASONS,
    SLOTS,
    UNLIMITED,
    AllowedCards,
    CandidateNodes,
    Check,
    ClaimRules,
    DeviceColumns,
    FitResult,
    Request,
    Scratch,
    TryOrder,
    fit_nodes,
    link_scratch,
)
from vgpu_scheduler.model import (
    WHOLE,
    Assignment,
    CardReason,
    Claim,
    ContainerType,
    DeviceResource,
    PodClaims,
)
from vgpu_scheduler.state import DeviceMatrix

_FREE_CHOICE = CardChoice()
_NO_RESOURCES: Mapping[str, DeviceResource] = {}
_NO_CHECKS: Mapping[str, FitRules] = {}
_NO_LINKS = link_scratch(0, 0)
_LACKS = {
    SLOTS: CardReason.CardTimeSlicingExhausted,
    MEMORY: CardReason.CardInsufficientMemory,
    CORES: CardReason.CardInsufficientCore,
}
"""By dimension, the rejection reason for too little of it."""
_QUOTA_COLUMNS = {MEMORY: QUOTA_MEMORY, CORES: QUOTA_CORES}


@dataclass(frozen=True, slots=True)
class NamedCards:
    """A pod's rules about single cards.

    Attributes
    ----------
    only
        The UUIDs of the cards that may be used; None for all.
    never
        The UUIDs of the cards that may not be used, even if they are in ``only``.
    """

    only: frozenset[str] | None = None
    never: frozenset[str] = frozenset()


class CardRules(Protocol):
    """The cards that a pod allows; dialects parse the rules from annotations."""

    @property
    def numa_bind(self) -> bool:
        """Whether the cards of a container share one NUMA node."""

    @property
    def allows_pieces(self) -> bool:
        """Whether the pod's sharing mode allows pieces of cards."""

    @property
    def named(self) -> Mapping[str, NamedCards]:
        """The rules about single cards, by vendor; vendors without any are left out."""

    def allows_model(self, vendor: str, model: str, mode: str) -> bool:
        """Tell whether cards of a model and mode may be used."""


class HamiAllocator(KernelAllocator[Request, Scratch]):
    """Fits one pod's claims on nodes by HAMi's rules.

    Parameters
    ----------
    claims
        What each container claims; at least one container claims something.
    rules
        The cards that the pod's annotations allow.
    order
        The order in which cards are tried, unless ``choice.device_share_order`` is set.
    choice
        The policies' rules about cards.
    resources
        The devices and dimensions of the resource names that ``choice.device_share_order`` weighs.
    checks
        The checks for the cards of each vendor; NVIDIA's for vendors that are missing.
    """

    def __init__(
        self,
        claims: PodClaims,
        rules: CardRules,
        order: CardOrder,
        choice: CardChoice = _FREE_CHOICE,
        resources: Mapping[str, DeviceResource] = _NO_RESOURCES,
        checks: Mapping[str, FitRules] = _NO_CHECKS,
    ) -> None:
        super().__init__(claims, choice, fit_nodes)
        self._rules = rules
        self._numa_bind = rules.numa_bind or choice.numa_bind
        self._order = order if choice.device_share_order is None else share_card_order(numa_bind=self._numa_bind)
        self._topology = self._order.topology or choice.topology
        self._resources = resources
        self._checks = checks
        self._weights = np.array(choice.weights, dtype=np.float32)

    def fit_arguments(self, devices: DeviceMatrix) -> tuple[DeviceColumns, Request, Scratch, FitResult]:
        """Return arguments for the kernel, sized for one node; their types are used to compile it ahead of time."""
        return devices.columns, *self._prepare(devices), FitColumns.empty(1).result()

    def may_use(self, devices: DeviceMatrix, within: slice = ALL_DEVICES) -> NDArray[np.bool_]:
        """Tell which devices the pod and its policies allow; see :class:`Allocator`."""
        allowed = [self._allows(*model) == 1 for model in devices.models]
        usable: NDArray[np.bool_] = np.array(allowed or [False])[devices.columns.model[within]]
        return super().may_use(devices, within) & usable

    def need(self) -> CardNeed | None:
        """Return what some card must have free; see :class:`Allocator`."""
        hardest = max((claim for _, claim in self._flat), key=lambda claim: (claim.amounts[MEMORY], claim.percent))
        rules = self._rules_of(hardest.vendor)
        # Where compute is claimed in percent, the cores column is not the card's capacity in that unit.
        counted = {dimension for dimension in rules.counted if dimension != CORES or Check.PERCENT not in rules.checks}
        amounts = [amount if dimension in counted else 0 for dimension, amount in enumerate(hardest.amounts)]
        percent = [part if dimension in counted else 0 for dimension, part in enumerate(hardest.percent)]
        amounts[CORES] = min(amounts[CORES], WHOLE)
        reasons = tuple(_LACKS.get(dimension, CardReason.CardInsufficientMemory) for dimension in range(len(amounts)))
        return CardNeed(hardest.vendor, tuple(amounts), tuple(percent), reasons, hardest.count)

    def shortfall(
        self,
        columns: DeviceColumns,
        devices: NDArray[np.int64],
        reasons: NDArray[np.int64] | None = None,
        *,
        together: bool = False,
    ) -> Lacking:
        """Measure what each device lacks for its largest claim, or for all together; see :class:`Allocator`."""
        shortfall = Shortfall(devices.shape[0], reasons)
        if self._prepared is None:  # nothing was fitted yet
            return shortfall.result()
        vendor = columns.vendor[devices]
        running: dict[tuple[int, int], NDArray[np.int64]] = {}
        for number, (container, claim) in zip(self._prepared[0].claims.vendor.tolist(), self._flat, strict=True):
            own, rules = vendor == number, self._rules_of(claim.vendor)
            for dimension in rules.counted:
                amount, percent = claim.amounts[dimension], claim.percent[dimension]
                needs_some = dimension == CORES and Check.COMPUTE in rules.checks
                if not amount and not percent and not needs_some:
                    continue
                total, used = columns.total[devices, dimension], columns.used[devices, dimension]
                if dimension == CORES and Check.PERCENT in rules.checks:
                    total[own] = WHOLE
                free = np.maximum(total - used, 0)
                is_one_piece = Check.ONE_PIECE in rules.checks
                if (dimension == MEMORY or is_one_piece) and not together:
                    beside = rules.counted if is_one_piece else ()
                    free = np.minimum(free, largest_free_pieces(columns, devices, dimension, beside))
                asked = amounts_of(min(amount, WHOLE) if dimension == CORES else amount, percent, total)
                if percent and dimension == CORES:
                    asked = np.maximum(asked, 1)  # as claimed_cores of the kernels
                if needs_some:  # a claim of no compute needs a card with some free
                    asked = np.maximum(asked, (used == total) & (total > 0))
                if together:
                    asked = asked + running.get((number, dimension), np.zeros_like(total))
                    if self._claims[container].type is not ContainerType.INIT:
                        running[number, dimension] = asked
                shortfall.take(dimension, free, asked, own, _LACKS[dimension])
        return shortfall.result()

    def _marks(self, request: Request) -> NDArray[np.int8]:
        return request.cards.barred

    def _narrowed_to(self, request: Request, cards: NDArray[np.int64]) -> Request:
        return request._replace(cards=request.cards._replace(barred=kept(request.cards.barred, cards)))

    def _assignments(
        self, devices: DeviceMatrix, row: int, scratch: Scratch, number: int, claim: Claim
    ) -> Iterable[Assignment]:
        picks, pieces = scratch.picks[number, : claim.count], scratch.pieces[number, : claim.count]
        for device, piece in zip(picks.tolist(), pieces.tolist(), strict=True):
            yield _assignment(devices, row, claim, device, piece)

    def _make_request(self, devices: DeviceMatrix) -> Request:
        claims = [claim for _, claim in self._flat]
        allowed = [self._allows(vendor, model, mode) for vendor, model, mode in devices.models]
        fit = [self._rules_of(claim.vendor).for_claim(claim, topology=self._topology) for claim in claims]
        # A policy's NUMA binding applies to the cards of all vendors, the pod's annotation only to NVIDIA's.
        bound = Check.NUMA if self._choice.numa_bind else Check(0)
        share = self._choice.device_share_order
        return Request(
            claims=pod_demand(self._claims, devices),
            rules=ClaimRules(
                checks=np.array([int(rules.all_checks | bound) for rules in fit], dtype=np.int64),
                selection=np.array([int(rules.selection) for rules in fit], dtype=np.int64),
                choice_weight=np.array([rules.choice_weight for rules in fit], dtype=np.float32),
                link_score=np.array([rules.link_score for rules in fit], dtype=np.bool_),
            ),
            cards=AllowedCards(
                models=np.array(allowed, dtype=np.int8),
                barred=self._barred(devices),
                numa_bind=self._numa_bind,
                mutex=self._order.mutex or self._choice.idle_only,
                pieces=self._rules.allows_pieces,
            ),
            order=TryOrder(
                keys=np.array(self._order.keys, dtype=np.int64),
                weights=self._weights,
                topology=self._topology,
                first_node=self._choice.topology and not self._order.topology,
                by_share=share is not None,
                share=NO_SHARE if share is None else share_terms(share, self._resources, devices),
            ),
            quota_left=self._left(claims),
        )

    def _allows(self, vendor: str, model: str, mode: str) -> int:
        checks = self._rules_of(vendor)
        if checks.mode and mode != checks.mode:
            return MODEL_IN_OTHER_MODE
        if not self._rules.allows_model(vendor, model, mode):
            return 0
        return 1 if checks.quality is None or mode in {"", checks.quality} else MODEL_IN_OTHER_MODE

    def _left(self, claims: Sequence[Claim]) -> NDArray[np.int64]:
        """Return what quotas leave for the vendor of each claim; empty if no quota can be exceeded."""
        if not self._choice.remainders:
            return NO_QUOTA
        left = np.full((len(claims), 2), UNLIMITED, dtype=np.int64)
        for remainder in self._choice.remainders:
            column = _QUOTA_COLUMNS[remainder.dimension]
            for number, claim in enumerate(claims):
                if claim.vendor == remainder.vendor:
                    left[number, column] = min(left[number, column], remainder.remaining)
        return left

    def _barred(self, devices: DeviceMatrix) -> NDArray[np.int8]:
        """Mark the cards that a UUID rule or a policy excludes; empty if there are no such rules."""
        limits, named = self._choice.limits, self._rules.named
        if not named and limits.none and not self._choice.peer_cards:
            return np.zeros(0, dtype=np.int8)
        barred = np.zeros(devices.size, dtype=np.int8)
        for vendor, cards in named.items():
            if cards.only is not None:
                barred[devices.columns.vendor == devices.vendor_number(vendor)] = BARRED_BY_UUID
                barred[_numbers(devices, vendor, cards.only)] = 0
            barred[_numbers(devices, vendor, cards.never)] = BARRED_BY_UUID
        denied = limits.denied(
            devices, MEMORY, lambda vendor: bool(self._rules_of(vendor).modes), self._can_be_whole(devices)
        )
        barred[denied] = (
            BARRED_BY_POLICY  # takes precedence, because a card that policies deny is not looked at further
        )
        return barred

    def _rules_of(self, vendor: str) -> FitRules:
        return self._checks.get(vendor, NVIDIA_RULES)

    def _can_be_whole(self, devices: DeviceMatrix) -> NDArray[np.bool_]:
        """Tell which cards one pod can have exclusively."""
        columns = devices.columns
        of_model = np.array([int(self._rules_of(vendor).whole) for vendor, _, _ in devices.models] or [0])
        whole = of_model[columns.model]
        single = (whole == WholeCardRule.SINGLE) & (columns.total[:, SLOTS] == 1)
        compute = (whole == WholeCardRule.COMPUTE) & (columns.total[:, CORES] == WHOLE) & ~columns.partitioned
        answer: NDArray[np.bool_] = single | compute | (whole == WholeCardRule.ALWAYS)
        return answer

    def _make_scratch(self, devices: DeviceMatrix) -> Scratch:
        most = max(devices.most_cards, 1)
        candidates = max(devices.most_candidates, 1)
        return Scratch(
            order=np.zeros((2, most), dtype=np.int64),
            used=np.zeros((2, most, devices.dimensions), dtype=np.int64),
            score=np.zeros(most, dtype=np.float32),
            keys=np.zeros((most, len(self._order.keys)), dtype=np.float64),
            candidates=CandidateNodes(*np.zeros((len(CandidateNodes._fields), candidates), dtype=np.int64)),
            chosen=np.zeros(candidates, dtype=np.int64),
            picks=np.full((len(self._flat), candidates), NO_CARD, dtype=np.int64),
            pieces=np.full((len(self._flat), candidates), NO_PIECE, dtype=np.int64),
            taken=np.zeros(devices.dimensions, dtype=np.int64),
            spare=np.zeros(candidates, dtype=np.int64),
            counts=np.zeros(REASONS, dtype=np.int16),
            links=link_scratch(most, candidates) if self._topology else _NO_LINKS,
            quota=np.zeros((PEAK + most, 2), dtype=np.int64) if self._choice.remainders else NO_QUOTA,
        )


def _numbers(devices: DeviceMatrix, vendor: str, uuids: Iterable[str]) -> NDArray[np.int64]:
    """Return the numbers of the cards of a vendor that have one of some UUIDs."""
    found = np.array([number for uuid in uuids for number in devices.numbers(uuid)], dtype=np.int64)
    theirs: NDArray[np.int64] = found[devices.columns.vendor[found] == devices.vendor_number(vendor)]
    return theirs


def _assignment(devices: DeviceMatrix, row: int, claim: Claim, device: int, number: int) -> Assignment:
    """Return what a claim gets of a device: the piece with this number, or its share of it."""
    listed = devices.listed(row, device)
    if number != NO_PIECE:
        piece = devices.piece(number)
        amounts = list(piece.amounts)
        if piece.template is not None:  # templates do not define cores
            amounts[CORES] = min(claim.amounts[CORES], WHOLE)
        return Assignment(claim.vendor, listed.uuid, tuple(amounts), piece, listed.tag)
    amounts = list(claim.on(listed.total))
    of_card = claim.percent[CORES] > 0  # a percentage is rounded up to at least 1 unit
    amounts[CORES] = max(amounts[CORES], 1) if of_card else min(amounts[CORES], WHOLE)
    return Assignment(claim.vendor, listed.uuid, tuple(amounts), tag=listed.tag)
