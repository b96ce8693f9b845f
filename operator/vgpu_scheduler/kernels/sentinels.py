"""Sentinel numbers that kernels return and write for absent values."""

from __future__ import annotations

from typing import cast

import numpy as np

NO_ROW = -1
NO_CARD = -1
"""No card or device, no position of one on its node, or no candidate."""
NO_CONTAINER = -1
NO_GROUP = -1
NO_NUMA_NODE = -1
NO_PAIRS = -1
"""A node without link scores."""
NO_PIECE = -1
NO_ROLE = -1
"""A role for which a schema has no dimension."""
NO_LINE = -1
"""A resource without a column in the node table."""
NO_VENDOR = -1
NO_TABLE = -1
"""A node without a partition table."""
NO_PARTITION = -1

LOWEST_PRIORITY = -(2**31)
"""The lowest priority; sums of priorities are offset by it, so that fewer victims cost less."""
NO_PRIORITY = LOWEST_PRIORITY - 1
NEVER_BELOW = 2**31
"""Above every priority: marks pods that do not count as victims, or pods that are leaving already."""

NO_REASON = -1
NOT_COUNTED = -2
"""The reason of a card that is rejected without appearing in the message."""
COUNTED_AS_NONE = -1
"""A counter for a reason that is reported with 0 cards, as HAMi's ``0/4``."""

NO_LOAD = np.float32(-1.0)
"""The load of a dimension that the cards do not have."""

ZERO = cast("int", np.int64(0))
"""An initial count. Numba would compile a kernel twice if a literal 0 were passed: for it, and for other numbers."""
