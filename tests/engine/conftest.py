"""What several tests of the engine count."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.state import State


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes were fitted, whenever a node part was brought up to date."""
    found: list[int] = []
    refresh = NodePart.refresh

    def counted(part: NodePart, state: State, rows: NDArray[np.int64]) -> int:
        found.append(refresh(part, state, rows))
        return found[-1]

    monkeypatch.setattr(NodePart, "refresh", counted)
    return found
