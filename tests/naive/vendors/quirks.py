"""What HAMi 2.10 does differently from this scheduler with devices of vendors other than NVIDIA, one switch each.

They come on top of those in ``tests.naive.hami_quirks``, which hold for all vendors.
"""

from __future__ import annotations

from enum import Enum

from tests.naive import hami_quirks


class VendorQuirk(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    TYPE_BY_SUBSTRING = "type-by-substring"
    UNASKED_KEYS_WRITTEN = "unasked-keys-written"
    EQUALS_SHUFFLED = "equals-shuffled"
    WINGS_BY_POSITION = "wings-by-position"
    BUBBLES_OF_CLAIM_ONLY = "bubbles-of-claim-only"
    SLICES_COUNTED_AS_ONE = "slices-counted-as-one"
    ODD_MODULES_READ = "odd-modules-read"
    MASKS_SUMMED = "masks-summed"
    RUNS_BY_POSITION = "runs-by-position"
    UUIDS_OF_ONE_DEVICE_ONLY = "uuids-of-one-device-only"
    TEMPLATE_NOT_CLAIMED = "template-not-claimed"
    ADDED_SCORE_ONE_WAY = "added-score-one-way"
    QUALITY_AS_REPORTED = "quality-as-reported"
    ZERO_STILL_GIVES = "zero-still-gives"
    GIGABYTES_BY_SIZE = "gigabytes-by-size"


ALL: frozenset[Enum] = hami_quirks.ALL | frozenset(VendorQuirk)
"""With all of them on the twin is HAMi 2.10."""
