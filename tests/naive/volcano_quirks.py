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
    INIT_CONTAINERS_IGNORED = "volcano-init-containers-ignored"


VOLCANO = frozenset(VolcanoQuirk)
