"""A bias that reads nothing but how far apart query and key are, on a line."""

from __future__ import annotations

from torch import Tensor

from .base import PositionEncoding, Positions
from .ops import from_offsets, line_offsets


class OffsetBias(PositionEncoding):
    """score(i, j) += b_h(i - j), where a subclass says b.

    Saying b for offsets, and not the bias for pairs of positions, is what lets attention keep T numbers a
    head where it would hold T * T.
    """

    axes = 1

    def of_offset(self, n: Tensor) -> Tensor:
        """(H, N) float32 for integers n = i - j of shape (N,)."""
        raise NotImplementedError

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return from_offsets(self.of_offset, q_pos, k_pos)

    def line(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        """(H, Q + K - 1) for positions on a line: every offset once, from the largest to the smallest."""
        return self.of_offset(line_offsets(q_pos, k_pos).flip(0))
