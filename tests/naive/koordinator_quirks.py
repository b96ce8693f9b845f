"""What Koordinator does differently from this scheduler, one switch each; see ``hami_quirks``."""

from __future__ import annotations

from enum import Enum


class KoordinatorQuirk(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    UNASKED_COUNTED = "koordinator-unasked-counted"
    UNLISTED_NODE_FITS = "koordinator-unlisted-node-fits"
    NULL_HINT_CRASHES = "koordinator-null-hint-crashes"
    BEYOND_A_DEVICE = "koordinator-compute-beyond-a-device"
    SCOPE_SCORE_SWAPPED = "koordinator-scope-score-swapped"
    SCOPE_UNKNOWN_IGNORED = "koordinator-scope-unknown-ignored"
    FOREIGN_VENDOR = "koordinator-foreign-vendor"
    SCOPE_NEVER_FOUND = "koordinator-scope-never-found"
    FUNCTIONS_OF_GPUS = "koordinator-functions-of-gpus"
    WORD_UNKNOWN_IGNORED = "koordinator-word-unknown-ignored"
    PARTITIONS_UNREADABLE = "koordinator-partitions-unreadable"
    SWITCH_BY_ID = "koordinator-switch-by-id"
    WEBHOOK_BY_CONTAINER = "koordinator-webhook-by-container"
    WEBHOOK_OVERWRITES = "koordinator-webhook-overwrites"
    WEBHOOK_SHARES_NOTHING = "koordinator-webhook-shares-nothing"


KOORDINATOR = frozenset(KoordinatorQuirk)
