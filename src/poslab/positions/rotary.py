"""What all rotary encodings share: give the angles, and q and k are turned by them."""

from __future__ import annotations

from torch import Tensor

from .base import PositionEncoding, Positions
from .ops import Pairs, turn


class Rotary(PositionEncoding):
    """q_i, k_j turned in pairs of channels, so that q_i . k_j depends on the difference of their angles.

    A subclass says `angles(pos)`: (T, R) or (H, T, R) for R pairs of channels. Cosines and sines
    are computed once a forward pass in the precision of the angles and kept in float32.
    """

    pairs: Pairs = "half"

    def angles(self, pos: Positions) -> Tensor:
        raise NotImplementedError

    def cos_sin(self, pos: Positions) -> tuple[Tensor, Tensor]:
        """Two tensors of the shape of `angles`, float32."""

        def compute() -> tuple[Tensor, Tensor]:
            angles = self.angles(pos)
            return angles.cos().float(), angles.sin().float()

        return pos.once(self, "cos_sin", compute)

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = self.cos_sin(pos)
        return turn(q, cos, sin, self.pairs), turn(k, cos, sin, self.pairs), v
