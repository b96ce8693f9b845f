"""What HAMi 2.6 does differently from this scheduler, one switch each; what it shares with 2.10 is :class:`Quirk`.

With all switches on the twin is HAMi 2.6, with all off it is this scheduler with the documented order of cards.
"""

from __future__ import annotations

from enum import Enum

from tests.naive.hami_quirks import Quirk


class Quirk26(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    HEALTH_IGNORED = "hami26-health-ignored"
    CORDON_IGNORED = "hami26-cordon-ignored"
    QUOTAS_IGNORED = "hami26-quotas-ignored"
    INIT_CONTAINERS_IGNORED = "hami26-init-containers-ignored"
    LATER_POLICIES_UNKNOWN = "hami26-later-policies-unknown"
    REASONS_ONLY_LOGGED = "hami26-reasons-only-logged"
    REASONS_COUNT_ONCE = "hami26-reasons-count-once"
    LEADING_GAPS_LEFT_OUT = "hami26-leading-gaps-left-out"
    SCORE_PERCENT_IN_HUNDREDS = "hami26-score-percent-in-hundreds"
    AMOUNTS_AS_GIVEN = "hami26-amounts-as-given"
    LISTS_NOT_TRIMMED = "hami26-lists-not-trimmed"
    EMPTY_ITEM_MATCHES = "hami26-empty-item-matches"
    USE_HIDES_NO_USE = "hami26-use-hides-no-use"
    MIG_CARD_COUNTED_ONCE = "hami26-mig-card-counted-once"
    MIG_REASON_GENERAL = "hami26-mig-reason-general"
    MIG_INSTANCE_LARGER = "hami26-mig-instance-larger"
    MIG_PERCENT_IS_NOTHING = "hami26-mig-percent-is-nothing"
    MIG_PICKS_ON_EVERY_CARD = "hami26-mig-picks-on-every-card"
    MIG_STATE_BELIEVED = "hami26-mig-state-believed"


SHARED = frozenset({
    Quirk.UNREADABLE_IGNORED,
    Quirk.UNBOUND_COUNTED,
    Quirk.ENTRIES_BY_POSITION,
    Quirk.UNASKED_COUNTED,
    Quirk.NEGATIVE_AMOUNT_READ,
    Quirk.SAME_ID_TWICE_READ,
    Quirk.SCORE_PERCENT_FIRST,
    Quirk.BAD_QUANTITY_DROPPED,
    Quirk.AMOUNT_WITHOUT_COUNT_DROPPED,
    Quirk.INT32_WRAPS,
})  # fmt: skip
"""What HAMi 2.6 and 2.10 have in common."""

ALL: frozenset[Enum] = SHARED | frozenset(Quirk26)
