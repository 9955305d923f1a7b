"""DETR's sines of row and column, added to the tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .base import PositionEncoding, Positions, Spec
from .ops import angles, frequencies, sines


class Sine2dDETR(PositionEncoding):
    """[sin(y w_0), cos(y w_0), sin(y w_1), ...] and the same of x,  w_i = theta^(-4i/C).

    Carion et al. 2020 (DETR), appendix A.4, and the authors' code: rows and columns are counted from 1, and with
    `normalize`, as all of their models have it, y = scale * (row + 1) / (rows + 1e-6), so that a side is one
    turn of the fastest sine, whatever its number of patches. The row comes first and sine and cosine
    alternate, unlike in every layout of `sine2d`. `theta` is their temperature.

    DETR adds these vectors to q and k in every layer, here they are added to the tokens once. Every
    grid is computable: with `normalize` a larger one reads the trained range more finely, without it new positions.
    """

    unbounded = True
    axes = 2

    def __init__(
        self, spec: Spec, theta: float = 10_000.0, normalize: bool = True, scale: float = 6.283185307179586
    ) -> None:
        super().__init__(spec)
        if spec.dim % 4:
            raise ValueError(f"sine2d_detr splits the channels into four: dim={spec.dim} is not divisible by 4.")
        if not normalize and scale != 2 * math.pi:
            raise ValueError(f"scale={scale} is the length of a normalised side: set normalize=true, or leave scale.")
        self.theta, self.normalize, self.range = theta, normalize, scale

    def embed(self, pos: Positions) -> Tensor:
        w = frequencies(self.spec.dim // 2, self.theta)
        return torch.cat([sines(angles(self.along(axis, pos), w), interleaved=True) for axis in (0, 1)], dim=1).float()

    def along(self, axis: int, pos: Positions) -> Tensor:
        """(T,) float64 coordinate along an axis, from 1 or normalised."""
        count = pos.axis(axis).double() + 1
        return self.range * count / (pos.extent[axis] + 1e-6) if self.normalize else count
