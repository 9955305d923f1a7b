"""A penalty on distance, added to the scores."""

from __future__ import annotations

from torch import Tensor

from .base import PositionEncoding, Positions
from .offset_bias import OffsetBias
from .ops import distance, slopes


class ALiBi(OffsetBias):
    """score(i, j) -= m_h * |i - j|,  m_h = 2^(-8h/H) for head h = 1 ... H.

    Press, Smith & Lewis 2022, "Train Short, Test Long", section 3. Near keys win, by
    a slope that differs between heads; nothing is learned. For H not a power of two the slopes are
    those of the authors' code. Past the trained extent the penalty goes on growing: far keys fade.
    """

    shift_invariant = unbounded = True

    def of_offset(self, n: Tensor) -> Tensor:
        return -slopes(self.spec.heads).to(n.device)[:, None] * n.abs()


class ALiBi2d(PositionEncoding):
    """score(i, j) -= m_h * sqrt((y_i - y_j)^2 + (x_i - x_j)^2), in patches.

    Fuller, Millard & Green 2023, "CROMA", section 3 (2D-ALiBi): ALiBi with the Euclidean distance,
    symmetric, for images. Any grid is computable.
    """

    shift_invariant = unbounded = True
    axes = 2

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return -slopes(self.spec.heads).to(q_pos.device)[:, None, None] * distance(q_pos, k_pos)
