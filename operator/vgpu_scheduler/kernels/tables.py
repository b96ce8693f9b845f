"""What the kernels of HAMi's Fit read and write: columns of devices, a pod's request, work space and result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.deviceshare import NO_SHARE, ShareTerms
from vgpu_scheduler.model import CardReason

SLOTS = 0
MEMORY = 1
CORES = 2
# Of devices that are given out in pieces; matrices without them have fewer dimensions.
PLACED = 3  # shares that have a placement
FIRST_SLICE = 4  # the first of the slices that placements cover, one dimension each
# Of devices whose tenants have application classes: the same dimensions count them.
WITHOUT_CLASS = FIRST_SLICE
ONLINE = FIRST_SLICE + 1
OFFLINE = FIRST_SLICE + 2
FIRST_QUALITY = FIRST_SLICE + 3  # the first of the qualities of service that they ask for
QUALITIES = 3

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
_WHOLE = 100

# What the cards of a claim are held against, beside health, model and UUID.
CHECK_NUMA = 1
CHECK_SLOTS = 2
CHECK_IDLE = 4
CHECK_MEMORY = 8
CHECK_CORES = 16
CHECK_EXCLUSIVE = 32
CHECK_COMPUTE = 64
CHECK_GROUP = 128  # where a card must be idle, so must its group
CHECK_MODE = 256  # the cards of the node must be in the claim's mode
CHECK_WORTH = 1024  # the node is worth what its cards say of the number of cards that a pod takes
CHECK_PERCENT = 512  # compute is in percent of a card, whatever the card counts it in
CHECK_CLASS = 4096  # tenants with an application class and tenants without share no card
CHECK_QUALITY = 8192  # cards that others use must be in the claim's mode, or in none
CHECK_UNITS = 16384  # quotas count compute in percent of a card, which counts it in units of its own
CHECK_PIECE = 2048  # a card gives out one piece per claim, which has the compute and the shares that are asked for

# How the cards of a claim are chosen among those that pass.
SELECT_FIRST = 0
SELECT_GROUPED = 1
SELECT_PAIRS = 2
SELECT_SAME = 3
SELECT_RUN = 4
SELECT_WINGS = 5
SELECT_WELCOME = 6
SELECT_ZONE = 7

UNLIMITED = 2**62
"""What is left of a quota where there is none."""
QUOTA_MEMORY, QUOTA_CORES = 0, 1
"""The columns of what quotas limit."""
SPENT, HELD, MORE, GROWTH, PEAK = 0, 1, 2, 3, 4
"""The rows of the work space for quotas: what they count of the claim's vendor with what the claim has picked; what the
pod holds of the card being looked at, what a pick would add, and what quotas count of that; from ``PEAK`` on, per card,
the most that it ever holds."""
NO_QUOTA: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)

# Why single cards are left out.
OTHER_MODE = 2
BARRED_BY_UUID = 1
BARRED_BY_POLICY = 2


class DeviceColumns(NamedTuple):
    """The device matrix: ``D`` devices, ``N`` node rows, ``K`` dimensions.

    The devices of node row ``r`` are ``first[r] : last[r]``, in canonical order (index, then UUID).
    """

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    total: NDArray[np.int64]  # (D, K)
    used: NDArray[np.int64]  # (D, K)
    vendor: NDArray[np.int32]  # (D,) interned vendor
    model: NDArray[np.int32]  # (D,) interned (vendor, type, mode)
    numa: NDArray[np.int64]  # (D,)
    ordinal: NDArray[np.int64]  # (D,) position on the node, as registered
    healthy: NDArray[np.bool_]  # (D,)
    cordoned: NDArray[np.bool_]  # (D,)
    partitioned: NDArray[np.bool_]  # (D,) given out in pieces only
    explained: NDArray[np.bool_]  # (D,) all that is in use has a place: see kernels.partitions
    piece_first: NDArray[np.int64]  # (D,) the pieces that a card can be cut into are
    piece_last: NDArray[np.int64]  # (D,) pieces[first:last], in order of preference
    group: NDArray[np.int64]  # (D,) cards with the same number are closest to each other, -1 is in no group
    worth: NDArray[np.float32]  # (D, 4) of taking as many cards as the card's index says, and one: packing, spreading;
    # the same of more cards than there are
    pair_first: NDArray[np.int64]  # (N,) where the pair scores of the node row begin, -1 where there are none
    pairs: NDArray[np.int64]  # (P,) per node its cards x its cards, row by row; HAMi's scores: links, higher is closer
    pieces: NDArray[np.int64]  # (S, K) what is booked for a piece


class Request(NamedTuple):
    """The claims of one pod and the rules that hold for it: ``C`` claims in container order, ``K`` dimensions."""

    container: NDArray[np.int64]  # (C,) number of the container, ascending
    kind: NDArray[np.int64]  # (C,) ContainerKind of that container
    vendor: NDArray[np.int32]  # (C,)
    wanted: NDArray[np.int64]  # (C,) number of cards
    amounts: NDArray[np.int64]  # (C, K)
    percent: NDArray[np.int64]  # (C, K)
    checks: NDArray[np.int64]  # (C,) CHECK_ flags
    selection: NDArray[np.int64]  # (C,) SELECT_ number
    affinity: NDArray[np.float32]  # (C,) what cards that are all of one group add to the node's score
    model_allowed: NDArray[np.int8]  # (models,) by interned model: 0, 1, or OTHER_MODE
    device_barred: NDArray[np.int8]  # (D,) 0, BARRED_BY_UUID or BARRED_BY_POLICY; (0,) when none is
    order: NDArray[np.int64]  # sort keys, most significant first
    weights: NDArray[np.float32]  # (3,) of slots, memory, cores in the card score
    numa_bind: bool
    mutex: bool
    pieces: bool = True  # cards that are given out in pieces may be used
    topology: bool = False  # the candidates are chosen by their links
    first_node: bool = False  # with it and numa_bind: the first NUMA node with enough of them, not the last one
    by_share: bool = False  # the card score is Koordinator's, with these terms
    share: ShareTerms = NO_SHARE
    left: NDArray[np.int64] = NO_QUOTA  # (C, 2) memory and cores of the claim's vendor that the quotas of the pod's
    # namespace leave to the pod as a whole; (0, 2) where no quota could be exceeded


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


class Scratch(NamedTuple):
    """Work space for the node with the most cards (``M``)."""

    order: NDArray[np.int64]  # (2, M): [0] as the running containers left it, [1] an init container's own
    used: NDArray[np.int64]  # (2, M, K)
    score: NDArray[np.float32]  # (M,)
    keys: NDArray[np.float64]  # (M, number of sort keys) by position
    picks: NDArray[np.int64]  # (C, most candidates of a claim) device numbers
    pieces: NDArray[np.int64]  # (C, most candidates of a claim) the piece of each pick, NO_PIECE for a share
    taken: NDArray[np.int64]  # (K,) of the device being looked at
    spare: NDArray[np.int64]  # (most candidates of a claim,)
    links: LinkScratch
    quota: NDArray[np.int64]  # (PEAK + M, 2), memory and cores: see the row numbers; (0, 2) where no quota limits


class FitResult(NamedTuple):
    """What is written for each node row asked about."""

    fits: NDArray[np.bool_]  # (N,)
    score: NDArray[np.float32]  # (N,)
    affinity: NDArray[np.float32]  # (N, 2) how good the choice of cards is: for packing, for spreading
    counts: NDArray[np.int16]  # (N, REASONS) cards passed over, of the first claim that did not fit; 0 if all fit
    cards: NDArray[np.int16]  # (N,) cards that this claim could choose from


@kernel
def resolve(request: Request, claim: int, total: NDArray[np.int64], device: int, dimension: int) -> int:
    """Return what a claim takes of a dimension of a device; percent is multiplied before it is divided (C-10)."""
    amount = request.amounts[claim, dimension]
    if amount > 0:
        return amount  # type: ignore[no-any-return]
    return total[device, dimension] * request.percent[claim, dimension] // 100  # type: ignore[no-any-return]


@kernel
def claimed_cores(request: Request, claim: int, total: NDArray[np.int64], device: int) -> int:
    """Return the compute that a claim takes of a device: at most a whole one, at least one unit of a part."""
    if request.percent[claim, CORES] > 0:
        return max(resolve(request, claim, total, device, CORES), 1)
    return min(request.amounts[claim, CORES], _WHOLE)  # type: ignore[no-any-return]
