"""Which pods others wait for because nobody can tell which cards they are on."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.engine.on_node import OnNode
from vgpu_scheduler.kube import Pod

__all__ = ["pods_on_unknown_cards"]

_ASKED: Final = 16
"""Of how many it is asked at most whether they are to blame."""
_NAMED: Final = 3


def pods_on_unknown_cards(on_node: OnNode, pod: Pod, part: NodePart, rows: NDArray[np.int64]) -> str:
    """Return a sentence about pods on closed cards without which a pod would fit; empty if there are none.

    Parameters
    ----------
    part
        What the pod asks of a node.
    rows
        The nodes that pass all filters but that for cards.
    """
    closing = on_node.state.closing_cards() if part.allocator is not None else []
    if not closing:
        return ""
    full = {on_node.state.nodes.name(row) for row in rows[~part.feasible[rows]].tolist()}
    suspects = [held for held in closing if held.node in full][:_ASKED]
    guilty = [held for held in suspects if on_node.fits_without(pod, held.node, [held.uid]) is not None][:_NAMED]
    named = ", ".join(f"{held.pod} on node {held.node}" for held in guilty)
    return f" Cards are closed because nobody can tell which of them these pods are on: {named}." if named else ""
