"""What the kernels of HAMi's Fit read and write beside the device matrix: a pod's request, work space and result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import CORES
from vgpu_scheduler.kernels.deviceshare import NO_SHARE, ShareTerms
from vgpu_scheduler.model import CardReason

REASONS = len(CardReason)

# Sort keys of a card order, least significant last. A negative key sorts descending; the LAST card is tried first.
KEY_SCORE = 1
KEY_NUMA = 2
KEY_USED = 3
KEY_INDEX = 4
KEY_USED_MEMORY = 5
KEY_MEMORY_LEFT = 6  # what the claim would leave of the card
KEY_CORES_LEFT = 7

WEIGHT = np.float32(10.0)
WHOLE = 100
"""Percent of the compute of a card."""

UNLIMITED = 2**62
"""What is left of a quota where there is none."""
QUOTA_MEMORY, QUOTA_CORES = 0, 1
"""The columns of what quotas limit."""
SPENT, HELD, MORE, GROWTH, PEAK = 0, 1, 2, 3, 4
"""The rows of the work space for quotas: what they count of the claim's vendor with what the claim has picked; what the
pod holds of the card being looked at, what a pick would add, and what quotas count of that; from ``PEAK`` on, per card,
the most that it ever holds."""
NO_QUOTA: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)

OTHER_MODE = 2
"""The model is allowed, but its mode, or its quality of service, is not the pod's."""
BARRED_BY_UUID = 1
BARRED_BY_POLICY = 2
BARRED_BY_MODE = 3
BARRED_BY_SELECTOR = 4
"""Why single cards are left out."""


class PodDemand(NamedTuple):
    """The device claims of one pod: ``C`` claims in container order, ``K`` dimensions."""

    container: NDArray[np.int64]  # (C,) number of the container, ascending
    kind: NDArray[np.int64]  # (C,) ContainerKind of that container
    vendor: NDArray[np.int32]  # (C,)
    wanted: NDArray[np.int64]  # (C,) number of devices
    amounts: NDArray[np.int64]  # (C, K) per device; 0 where percent may say it
    percent: NDArray[np.int64]  # (C, K)


class ClaimRules(NamedTuple):
    """What the cards of each claim are held against, how they are chosen, and whether the choice is scored."""

    checks: NDArray[np.int64]  # (C,) see rules.Check
    selection: NDArray[np.int64]  # (C,) see rules.Selection
    choice_weight: NDArray[np.float32]  # (C,) how much the choice of cards counts in the node's score
    link_score: NDArray[np.bool_]  # (C,) the node's score counts what cards say of taking so many of them


class AllowedCards(NamedTuple):
    """Which cards the pod may have."""

    models: NDArray[np.int8]  # (models,) by interned model: 0, 1, or OTHER_MODE
    barred: NDArray[np.int8]  # (D,) 0, BARRED_BY_UUID or BARRED_BY_POLICY; (0,) when none is
    numa_bind: bool  # those of a container are on one NUMA node
    mutex: bool  # only those that nobody uses
    pieces: bool  # also those that are given out in pieces


class TryOrder(NamedTuple):
    """In which order cards are tried, and among how many of them is chosen."""

    keys: NDArray[np.int64]  # sort keys, most significant first
    weights: NDArray[np.float32]  # (3,) of slots, memory, cores in the card score
    topology: bool = False  # every card is looked at, as HAMi's topology-aware choice does
    first_node: bool = False  # with it and numa_bind: the first NUMA node with enough of them, not the last one
    by_share: bool = False  # the card score is Koordinator's, with these terms
    share: ShareTerms = NO_SHARE


class Request(NamedTuple):
    """What a fit is asked: the claims of one pod and the rules that hold for it."""

    claims: PodDemand
    rules: ClaimRules
    cards: AllowedCards
    order: TryOrder
    quota_left: NDArray[np.int64] = NO_QUOTA  # (C, 2) memory and cores of the claim's vendor that the quotas of the
    # pod's namespace leave to the pod as a whole; (0, 2) where no quota could be exceeded


class LinkScratch(NamedTuple):
    """Work space for ``G`` groups and ``W`` - 1 cards of a claim."""

    device: NDArray[np.int64]  # (G,) device number
    at_place: NDArray[np.int64]  # (G,) the group at each place of the walk
    copies: NDArray[np.int64]  # (G,) how often it is a candidate
    pair: NDArray[np.int64]  # (G, G) pair scores, those of an earlier group with a later one; mirrored
    near: NDArray[np.int64]  # (G, G) the other groups, best linked first
    best: NDArray[np.int64]  # (G,) how many of each group the best subset takes
    trial: NDArray[np.int64]  # (G,) the same of the subset being built
    left: NDArray[np.int64]  # (G + 1,) cards still to be taken
    value: NDArray[np.int64]  # (G + 1,) sum of pair scores so far
    gain: NDArray[np.int64]  # (G + 1, G) what one more card of a group would add to it
    order: NDArray[np.int64]  # (G,) the groups, best linked first
    weight: NDArray[np.int64]  # (G,) what one more card of a group would add at most
    taken: NDArray[np.int64]  # (G,) how many of each group the bound has taken
    beside: NDArray[np.int64]  # (G,) the best sum of pair scores of a card of the group with those beside it
    last: NDArray[np.int64]  # (G,) the worst of these, as a position in ``near``; past its end where there are none
    used: NDArray[np.int64]  # (G,) how many there are of that one
    ways: NDArray[np.float64]  # (G + 1, W) how many subsets of so many cards the groups from here on have


def link_scratch(groups: int, cards: int) -> LinkScratch:
    """Return work space for so many groups and cards of a claim."""
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
    """What each of ``P`` candidates would give to the claim at hand; a card is one per piece that it could give."""

    device: NDArray[np.int64]  # (P,) in the order in which the cards are tried
    piece: NDArray[np.int64]  # (P,) NO_PIECE for a share
    memory: NDArray[np.int64]  # (P,)
    cores: NDArray[np.int64]  # (P,)


class Scratch(NamedTuple):
    """Work space for the node with the most cards (``M``) and the most candidates (``P``)."""

    order: NDArray[np.int64]  # (2, M): [0] as the running containers left it, [1] an init container's own
    used: NDArray[np.int64]  # (2, M, K)
    score: NDArray[np.float32]  # (M,)
    keys: NDArray[np.float64]  # (M, number of sort keys) by position
    candidates: CandidateNodes  # of the claim at hand
    chosen: NDArray[np.int64]  # (P,) numbers of candidates, the chosen ones first
    picks: NDArray[np.int64]  # (C, P) the devices that each claim gets
    pieces: NDArray[np.int64]  # (C, P) the piece of each pick, NO_PIECE for a share
    taken: NDArray[np.int64]  # (K,) of the device being looked at
    spare: NDArray[np.int64]  # (P,)
    counts: NDArray[np.int16]  # (REASONS,)
    links: LinkScratch
    quota: NDArray[np.int64]  # (PEAK + M, 2), memory and cores: see the row numbers; (0, 2) where no quota limits


class CardClaim(NamedTuple):
    """One claim that is fitted on one node of ``n`` cards."""

    claim: int
    row: int
    base: int  # number of the node's first card
    order: NDArray[np.int64]  # (n,) positions of the cards; the last is tried first
    used: NDArray[np.int64]  # (n, K) what is used of the cards, with what the pod got already
    counts: NDArray[np.int16]  # (REASONS,) cards passed over
    cards: NDArray[np.int16]  # (1,) how many there were to choose from


class Offer(NamedTuple):
    """What a claim would get of one card."""

    device: int
    piece: int
    memory: int
    cores: int


class FitResult(NamedTuple):
    """What is written for each node row asked about."""

    fits: NDArray[np.bool_]  # (N,)
    score: NDArray[np.float32]  # (N,)
    choice_score: NDArray[np.float32]  # (N, 2) how good the choice of cards is: for packing, for spreading
    counts: NDArray[np.int16]  # (N, REASONS) cards passed over, of the first claim that did not fit; 0 if all fit
    cards: NDArray[np.int16]  # (N,) cards that this claim could choose from


@kernel
def asked_of(amount: int, percent: int, total: int) -> int:
    """Return an amount, or the percentage of a total that stands for it: multiplied before it is divided."""
    return amount if amount > 0 else total * percent // WHOLE


@kernel
def resolve(request: Request, claim: int, total: NDArray[np.int64], device: int, dimension: int) -> int:
    """Return what a claim takes of a dimension of a device."""
    claims = request.claims
    return asked_of(claims.amounts[claim, dimension], claims.percent[claim, dimension], total[device, dimension])


@kernel
def claimed_cores(request: Request, claim: int, total: NDArray[np.int64], device: int) -> int:
    """Return the compute that a claim takes of a device: at most a whole one, at least one unit of a part."""
    if request.claims.percent[claim, CORES] > 0:
        return max(resolve(request, claim, total, device, CORES), 1)
    return min(request.claims.amounts[claim, CORES], WHOLE)  # type: ignore[no-any-return]


@kernel
def is_last_of_vendor(request: Request, claim: int) -> bool:
    """Tell whether no claim after this one is on the same vendor."""
    last = claim
    for other in range(claim + 1, request.claims.vendor.shape[0]):
        last = other if request.claims.vendor[other] == request.claims.vendor[claim] else last
    return last == claim


@kernel
def is_pick(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    """Tell whether a claim that was fitted gets a device."""
    found = False
    for i in range(request.claims.wanted[claim]):
        found = found or scratch.picks[claim, i] == device
    return found
