"""Numbers that kernels return and write where there is nothing: none of these is the number of anything."""

from __future__ import annotations

from typing import cast

import numpy as np

NO_ROW = -1
NO_CARD = -1
"""No card or device, no position of one among those of a node, and no candidate."""
NO_CONTAINER = -1
NO_GROUP = -1
NO_NUMA_NODE = -1
NO_PAIRS = -1
"""A node whose cards say nothing of their links."""
NO_PIECE = -1
NO_ROLE = -1
"""A dimension that a schema does not name."""
NO_LINE = -1
"""A resource of which the node table has no line."""
NO_VENDOR = -1
NO_TABLE = -1
"""A node of which nobody says that its cards are given out together."""
NO_PARTITION = -1

LOWEST_PRIORITY = -(2**31)
"""The lowest priority that there is; sums of priorities count from it, so that fewer victims cost less."""
NO_PRIORITY = LOWEST_PRIORITY - 1
NEVER_BELOW = 2**31
"""Above every priority: what stands in the place of one that does not count, or of whoever is to leave at some time."""

NO_REASON = -1
NOT_COUNTED = -2
"""The reason of a card that is passed over and appears in no message."""
COUNTED_AS_NONE = -1
"""A counter of cards whose reason is named with none of them; HAMi says ``0/4``."""

NO_LOAD = np.float32(-1.0)
"""Which part of a dimension is used where the cards have nothing of it."""

ZERO = cast("int", np.int64(0))
"""A count to begin with. What takes a plain 0 numba compiles for that number alone, and once more for all others."""
