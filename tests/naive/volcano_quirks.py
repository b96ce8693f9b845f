"""What Volcano does differently from this scheduler, one switch each; see ``hami_quirks``."""

from __future__ import annotations

from enum import Enum


class VolcanoQuirk(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    PODS_OF_CONTAINERS_COUNTED = "volcano-pods-of-containers-counted"
    HEALTH_IGNORED = "volcano-health-ignored"
    NO_ENTRY_WITHOUT_CLAIM = "volcano-no-entry-without-claim"
    SECOND_ENTRY_NOT_REPLAYED = "volcano-second-entry-not-replayed"
    SECOND_ENTRY_NOT_RELEASED = "volcano-second-entry-not-released"
    COUNTED_WITHOUT_CLAIM = "volcano-counted-without-claim"
    NO_CARD_COUNTED = "volcano-no-card-counted"
    AMOUNT_WITHOUT_CLAIM_DROPPED = "volcano-amount-without-claim-dropped"
    FRACTION_DROPPED = "volcano-fraction-dropped"
    PERCENTAGE_NOT_CHECKED = "volcano-percentage-not-checked"
    MIG_CARD_SHARED = "volcano-mig-card-shared"
    INSTANCE_GIVEN_TWICE = "volcano-instance-given-twice"
    INSTANCE_MEMORY_BY_PLACE = "volcano-instance-memory-by-place"
    ONLY_KINDS_IN_USE = "volcano-only-kinds-in-use"
    ONE_INSTANCE_OF_A_CARD = "volcano-one-instance-of-a-card"
    GROUP_KEPT = "volcano-group-kept"
    ROLLBACK_DRIFT = "volcano-rollback-drift"
    POSITION_PANICS = "volcano-position-panics"
    TERMINATING_CARD_FREE = "volcano-terminating-card-free"
    NODE_WITHOUT_CARDS_PASSES = "volcano-node-without-cards-passes"
    INIT_CONTAINERS_IGNORED = "volcano-init-containers-ignored"
    ASCEND_BEYOND_A_CARD = "volcano-ascend-beyond-a-card"
    ASCEND_CONTAINERS_APART = "volcano-ascend-containers-apart"
    ASCEND_FIRST_CARD_FORGOTTEN = "volcano-ascend-first-card-forgotten"
    ASCEND_HEALTH_IGNORED = "volcano-ascend-health-ignored"
    ASCEND_IDS_IGNORED = "volcano-ascend-ids-ignored"
    ASCEND_RING = "volcano-ascend-ring"
    ASCEND_SEVERAL_PARTS = "volcano-ascend-several-parts"


VOLCANO = frozenset(VolcanoQuirk)
