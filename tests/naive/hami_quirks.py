"""What HAMi 2.10 does differently from this scheduler, one switch each.

With all switches on the twin is HAMi 2.10, with all off it is this scheduler. A switch is asked for only where it could
make a difference, so the switches that were asked are the ones worth trying one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Quirk(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    SCORE_IGNORES_CLAIM = "score-ignores-claim"
    SCORE_PERCENT_FIRST = "score-percent-first"
    NO_PADDING = "no-padding"
    TERMINATING_FORGOTTEN = "terminating-forgotten"
    UNREADABLE_IGNORED = "unreadable-ignored"
    UNBOUND_COUNTED = "unbound-counted"
    ENTRIES_BY_POSITION = "entries-by-position"
    SIDECAR_AS_INIT = "sidecar-as-init"
    BAD_QUANTITY_DROPPED = "bad-quantity-dropped"
    AMOUNT_WITHOUT_COUNT_DROPPED = "amount-without-count-dropped"
    INT32_WRAPS = "int32-wraps"
    BAD_WEIGHTS_FAIL_FILTER = "bad-weights-fail-filter"
    HANDSHAKE_HIDES_NODE = "handshake-hides-node"
    PAIR_SCORES_HIDE_NODE = "pair-scores-hide-node"
    COLON_UNREADABLE = "colon-unreadable"
    NULL_DEVICE_READ = "null-device-read"
    SAME_ID_TWICE_READ = "same-id-twice-read"
    INIT_SLICES_NOT_ADDED = "init-slices-not-added"
    UNASKED_COUNTED = "unasked-counted"
    MIG_ENTRIES_JOINED = "mig-entries-joined"
    MIG_OVERLAP_IGNORED = "mig-overlap-ignored"
    NEGATIVE_AMOUNT_READ = "negative-amount-read"
    QUOTA_INIT_OFFSET = "quota-init-offset"
    QUOTA_COUNTS_CANDIDATES = "quota-counts-candidates"


ALL = frozenset(Quirk)
NONE: frozenset[Quirk] = frozenset()


class Switches:
    """Which quirks are on, and which were asked for."""

    def __init__(self, on: Iterable[Enum] = NONE) -> None:
        self.on = frozenset(on)
        self.asked: set[Enum] = set()

    def __call__(self, quirk: Enum) -> bool:
        self.asked.add(quirk)
        return quirk in self.on
