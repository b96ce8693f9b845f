"""The pieces that devices can be cut into, as a table with each distinct list once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.model import Piece


class PieceTable:
    """Pieces by number; devices of one model share their pieces.

    Parameters
    ----------
    dimensions
        The number of amounts per device.

    Attributes
    ----------
    amounts : NDArray[int64], shape (S, dimensions)
        The amounts that are booked for each piece.
    listed : list[Piece]
        The pieces, by number.
    most
        The largest number of pieces that one device can be cut into, at least 1.
    """

    def __init__(self, dimensions: int) -> None:
        self.amounts: NDArray[np.int64] = np.zeros((0, dimensions), dtype=np.int64)
        self.listed: list[Piece] = []
        self.most = 1
        self._spans: dict[tuple[Piece, ...], tuple[int, int]] = {(): (0, 0)}

    def span(self, pieces: tuple[Piece, ...]) -> tuple[int, int]:
        """Return the number of the first of these pieces and the number after the last."""
        if pieces not in self._spans:
            first, dimensions = len(self.listed), self.amounts.shape[1]
            rows = [(*piece.amounts, *(0,) * (dimensions - len(piece.amounts))) for piece in pieces]
            self.amounts = np.concatenate([self.amounts, np.array(rows, dtype=np.int64)])
            self.listed += pieces
            self.most = max(self.most, *(piece.start + piece.size for piece in pieces))
            self._spans[pieces] = (first, len(self.listed))
        return self._spans[pieces]
