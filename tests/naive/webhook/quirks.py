"""What HAMi 2.10's webhook does differently from this scheduler's, one switch each."""

from __future__ import annotations

from enum import Enum

from tests.naive import hami_quirks


class WebhookQuirk(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    LIMITS_ALONE_CHANGED = "limits-alone-changed"
    MALFORMED_AMOUNT_ROUNDED = "malformed-amount-rounded"
    CORES_ABOVE_WHOLE_COUNTED = "cores-above-whole-counted"
    DEFAULT_COUNT_BESIDE_REQUEST = "default-count-beside-request"
    EMPTY_NAME_IS_NONE = "empty-name-is-none"
    ENV_APPENDED_AGAIN = "env-appended-again"
    REQUESTED_MEMORY_OVERLOOKED = "requested-memory-overlooked"


ALL: frozenset[Enum] = hami_quirks.ALL | frozenset(WebhookQuirk)
"""With all of them on the twin is HAMi 2.10."""
