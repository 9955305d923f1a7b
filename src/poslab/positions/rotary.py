"""What all rotary encodings share: give the angles, and q and k are turned by them."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import PositionEncoding, Positions
from .ops import Pairs, turn
from .scaling import Scaling


class Rotary(PositionEncoding):
    """q_i, k_j turned in pairs of channels, so that q_i . k_j depends on the difference of their angles.

    A subclass says `angles(pos)`: (T, R) or (H, T, R) for R pairs of channels, from frequencies that
    went through `scaled`. Cosines and sines are computed once a forward pass in the precision of the
    angles and kept in float32. Where `scaling` has a magnitude, q and k grow by it, nothing else that is turned.
    """

    pairs: Pairs = "half"
    scaling: Scaling | None = None  # of the frequencies, for inputs beyond the trained extent

    def angles(self, pos: Positions) -> Tensor:
        raise NotImplementedError

    def scale_with(self, scaling: Scaling | None, pairs: int) -> None:
        """Take a rule for the `pairs` of an axis. ValueError where it does not fit them."""
        if scaling is not None:
            scaling.fit(pairs)
        self.scaling = scaling

    @property
    def norm_preserving(self) -> bool:  # type: ignore[override]
        return self.scaling is None or not self.scaling.rescales

    def scaled(self, frequency: Tensor, theta: float, pos: Positions, axis: int = 0) -> Tensor:
        """Frequencies (..., n) of one axis, theta^(-i/n) at their start, as `scaling` wants them at this size."""
        if self.scaling is None:
            return frequency
        return self.scaling.frequencies(frequency, theta, *self.reach(pos, axis))

    def reach(self, pos: Positions, axis: int) -> tuple[int, int]:
        """How far the coordinates of an axis reach in this forward pass, and how far in training."""
        return pos.extent[axis], self.spec.extent[axis]

    def magnitude(self, pos: Positions) -> float:
        """What cos and sin are multiplied by: the geometric mean over the axes."""
        if self.scaling is None:
            return 1.0
        product = 1.0
        for axis in range(pos.axes):
            product *= self.scaling.magnitude(*self.reach(pos, axis))
        return product ** (1 / pos.axes)

    def cos_sin(self, pos: Positions) -> tuple[Tensor, Tensor]:
        """Two tensors of the shape of `angles`, float32."""

        def compute() -> tuple[Tensor, Tensor]:
            angles = self.angles(pos)
            return angles.cos().to(torch.float32), angles.sin().to(torch.float32)

        return pos.once(self, "cos_sin", compute)

    def stretched_cos_sin(self, pos: Positions) -> tuple[Tensor, Tensor]:
        """`cos_sin` times `magnitude`, for q and k."""
        if self.scaling is None or not self.scaling.rescales:
            return self.cos_sin(pos)

        def compute() -> tuple[Tensor, Tensor]:
            (cos, sin), magnitude = self.cos_sin(pos), self.magnitude(pos)
            return magnitude * cos, magnitude * sin

        return pos.once(self, "stretched_cos_sin", compute)

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = self.stretched_cos_sin(pos)
        return turn(q, cos, sin, self.pairs), turn(k, cos, sin, self.pairs), v
