"""Arguments of the kernels of HAMi's Fit besides the device matrix: a pod's request, work space and result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import CORES
from vgpu_scheduler.kernels.deviceshare import NO_SHARE, ShareTerms
from vgpu_scheduler.model import CardReason

REASONS = len(CardReason)

# Sort keys of a card order, most significant first. A negative key sorts descending; the LAST card is tried first.
KEY_SCORE = 1
KEY_NUMA = 2
KEY_USED = 3
KEY_INDEX = 4
KEY_USED_MEMORY = 5
KEY_MEMORY_LEFT = 6  # free on the card after the claim
KEY_CORES_LEFT = 7

WEIGHT = np.float32(10.0)
WHOLE = 100
"""All compute of a card, in percent."""

UNLIMITED = 2**62
"""The remainder if there is no quota."""
QUOTA_MEMORY, QUOTA_CORES = 0, 1
"""The columns of the quota work space."""
SPENT, HELD, MORE, GROWTH, PEAK = 0, 1, 2, 3, 4
"""The rows of the quota work space: quota usage of the claim's vendor, picks included; what the pod holds of the
current card, what a pick would add, and the quota usage of that; from ``PEAK`` on, the pod's peak per card."""
NO_QUOTA: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)

MODEL_IN_OTHER_MODE = 2
"""The model is allowed, but its mode or quality of service is not what the pod asks for."""
BARRED_BY_UUID = 1
BARRED_BY_POLICY = 2
BARRED_BY_MODE = 3
BARRED_BY_SELECTOR = 4
"""Why single cards are barred."""


class PodDemand(NamedTuple):
    """The device claims of one pod: ``C`` claims in container order, ``K`` dimensions."""

    container: NDArray[np.int64]  # (C,) number of the container, ascending
    kind: NDArray[np.int64]  # (C,) ContainerType of that container
    vendor: NDArray[np.int32]  # (C,)
    wanted: NDArray[np.int64]  # (C,) number of devices
    amounts: NDArray[np.int64]  # (C, K) per device; if 0, see percent
    percent: NDArray[np.int64]  # (C, K)


class ClaimRules(NamedTuple):
    """The checks of each claim's cards, how cards are chosen, and whether the choice is scored."""

    checks: NDArray[np.int64]  # (C,) see rules.Check
    selection: NDArray[np.int64]  # (C,) see rules.Selection
    choice_weight: NDArray[np.float32]  # (C,) weight of the choice of cards in the node's score
    link_score: NDArray[np.bool_]  # (C,) the node's score includes the registered link score


class AllowedCards(NamedTuple):
    """The cards that the pod may get."""

    models: NDArray[np.int8]  # (models,) by interned model: 0, 1, or MODEL_IN_OTHER_MODE
    barred: NDArray[np.int8]  # (D,) 0, BARRED_BY_UUID or BARRED_BY_POLICY; (0,) if none is barred
    numa_bind: bool  # the cards of a container must be on one NUMA node
    mutex: bool  # only unused cards
    pieces: bool  # also cards that are given out in pieces


class TryOrder(NamedTuple):
    """The order in which cards are tried, and whether all of them are tried."""

    keys: NDArray[np.int64]  # sort keys, most significant first
    weights: NDArray[np.float32]  # (3,) of slots, memory, cores in the card score
    topology: bool = False  # every card is tried, as for HAMi's topology-aware choice
    first_node: bool = False  # with topology and numa_bind: take the first NUMA node with enough cards, not the last
    by_share: bool = False  # the card score is Koordinator's, with these terms
    share: ShareTerms = NO_SHARE


class Request(NamedTuple):
    """A request for a fit: the claims of one pod and its rules."""

    claims: PodDemand
    rules: ClaimRules
    cards: AllowedCards
    order: TryOrder
    quota_left: NDArray[np.int64] = NO_QUOTA  # (C, 2) memory and cores of the claim's vendor that quotas of the pod's
    # namespace leave to the whole pod; (0, 2) if no quota can be exceeded


class LinkScratch(NamedTuple):
    """Work space for ``G`` groups and ``W`` - 1 cards of a claim."""

    device: NDArray[np.int64]  # (G,) device number
    at_place: NDArray[np.int64]  # (G,) the group at each position of the try order
    copies: NDArray[np.int64]  # (G,) number of candidates of the group
    pair: NDArray[np.int64]  # (G, G) pair scores, symmetric
    near: NDArray[np.int64]  # (G, G) the other groups, best linked first
    best: NDArray[np.int64]  # (G,) cards of each group in the best subset
    trial: NDArray[np.int64]  # (G,) the same for the subset being built
    left: NDArray[np.int64]  # (G + 1,) cards still to be taken
    value: NDArray[np.int64]  # (G + 1,) sum of pair scores so far
    gain: NDArray[np.int64]  # (G + 1, G) what one more card of a group would add to that sum
    order: NDArray[np.int64]  # (G,) the groups, best linked first
    weight: NDArray[np.int64]  # (G,) upper bound of what one more card of a group would add
    taken: NDArray[np.int64]  # (G,) cards of each group that the bound has taken
    beside: NDArray[np.int64]  # (G,) the best sum of pair scores of a card of the group with its companions
    last: NDArray[np.int64]  # (G,) the worst companion, as a position in ``near``; past its end if there is none
    used: NDArray[np.int64]  # (G,) number of companions of that group
    ways: NDArray[np.float64]  # (G + 1, W) number of subsets by number of cards, from this group on


def link_scratch(groups: int, cards: int) -> LinkScratch:
    """Return work space for a number of groups and of cards of a claim."""
    row = (groups,)
    return LinkScratch(
        device=np.zeros(row, dtype=np.int64),
        at_place=np.zeros(row, dtype=np.int64),
        copies=np.zeros(row, dtype=np.int64),
        pair=np.zeros((groups, groups), dtype=np.int64),
        near=np.zeros((groups, groups), dtype=np.int64),
        best=np.zeros(row, dtype=np.int64),
        trial=np.zeros(row, dtype=np.int64),
        left=np.zeros(groups + 1, dtype=np.int64),
        value=np.zeros(groups + 1, dtype=np.int64),
        gain=np.zeros((groups + 1, groups), dtype=np.int64),
        order=np.zeros(row, dtype=np.int64),
        weight=np.zeros(row, dtype=np.int64),
        taken=np.zeros(row, dtype=np.int64),
        beside=np.zeros(row, dtype=np.int64),
        last=np.zeros(row, dtype=np.int64),
        used=np.zeros(row, dtype=np.int64),
        ways=np.zeros((groups + 1, cards + 1), dtype=np.float64),
    )


class CandidateNodes(NamedTuple):
    """What each of ``P`` candidates would give to the current claim; a card has one candidate per possible piece."""

    device: NDArray[np.int64]  # (P,) in the order in which the cards are tried
    piece: NDArray[np.int64]  # (P,) NO_PIECE for a share
    memory: NDArray[np.int64]  # (P,)
    cores: NDArray[np.int64]  # (P,)


class Scratch(NamedTuple):
    """Work space for the node with the most cards (``M``) and the most candidates (``P``)."""

    order: NDArray[np.int64]  # (2, M): [0] running containers, [1] an init container
    used: NDArray[np.int64]  # (2, M, K)
    score: NDArray[np.float32]  # (M,)
    keys: NDArray[np.float64]  # (M, number of sort keys) by position
    candidates: CandidateNodes  # of the current claim
    chosen: NDArray[np.int64]  # (P,) numbers of candidates, the chosen ones first
    picks: NDArray[np.int64]  # (C, P) the devices that each claim gets
    pieces: NDArray[np.int64]  # (C, P) the piece of each pick, NO_PIECE for a share
    taken: NDArray[np.int64]  # (K,) of the current device
    spare: NDArray[np.int64]  # (P,)
    counts: NDArray[np.int16]  # (REASONS,)
    links: LinkScratch
    quota: NDArray[np.int64]  # (PEAK + M, 2), memory and cores: see the row numbers; (0, 2) without quotas


class CardClaim(NamedTuple):
    """One claim that is fitted on one node of ``n`` cards."""

    claim: int
    row: int
    base: int  # number of the node's first card
    order: NDArray[np.int64]  # (n,) positions of the cards; the last is tried first
    used: NDArray[np.int64]  # (n, K) usage of the cards, the pod's earlier picks included
    counts: NDArray[np.int16]  # (REASONS,) rejected cards
    cards: NDArray[np.int16]  # (1,) number of cards to choose from


class Offer(NamedTuple):
    """What a claim would get of one card."""

    device: int
    piece: int
    memory: int
    cores: int


class FitResult(NamedTuple):
    """The result of a fit, written for each requested node row."""

    fits: NDArray[np.bool_]  # (N,)
    score: NDArray[np.float32]  # (N,)
    choice_score: NDArray[np.float32]  # (N, 2) score of the choice of cards: for packing, for spreading
    counts: NDArray[np.int16]  # (N, REASONS) rejected cards of the first claim that does not fit; 0 if all fit
    cards: NDArray[np.int16]  # (N,) cards that this claim could choose from


@kernel
def asked_of(amount: int, percent: int, total: int) -> int:
    """Return an amount, or if it is 0 a percentage of a total, multiplied before it is divided."""
    return amount if amount > 0 else total * percent // WHOLE


@kernel
def resolve(request: Request, claim: int, total: NDArray[np.int64], device: int, dimension: int) -> int:
    """Return the amount that a claim takes of a dimension of a device."""
    claims = request.claims
    return asked_of(claims.amounts[claim, dimension], claims.percent[claim, dimension], total[device, dimension])


@kernel
def claimed_cores(request: Request, claim: int, total: NDArray[np.int64], device: int) -> int:
    """Return the compute that a claim takes of a device: at most all, and at least 1 for a percentage."""
    if request.claims.percent[claim, CORES] > 0:
        return max(resolve(request, claim, total, device, CORES), 1)
    return min(request.claims.amounts[claim, CORES], WHOLE)  # type: ignore[no-any-return]


@kernel
def is_last_of_vendor(request: Request, claim: int) -> bool:
    """Tell whether no later claim is on the same vendor."""
    last = claim
    for other in range(claim + 1, request.claims.vendor.shape[0]):
        last = other if request.claims.vendor[other] == request.claims.vendor[claim] else last
    return last == claim


@kernel
def is_pick(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    """Tell whether a device is among the picks of a claim."""
    found = False
    for i in range(request.claims.wanted[claim]):
        found = found or scratch.picks[claim, i] == device
    return found
