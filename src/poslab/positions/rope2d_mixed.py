"""Rotary position embedding for images with learned, mixed directions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .base import Positions, Spec
from .ops import check_head_of_four
from .rotary import Rotary
from .scaling import Scaling


class RoPE2dMixed(Rotary):
    """Pair c of head h turns by x * f^x_hc + y * f^y_hc, both frequencies learned in every layer.

    Heo et al. 2024, RoPE-ViT, section 3.2, equation 9. Axial frequencies see a diagonal only as a
    product of two turns; mixed ones turn along any direction. Start: magnitude theta^(-4i/D) with
    theta = 10, one random direction a head for the first half of the pairs and that direction
    plus 90 degrees for the second. heads * D numbers a layer, without weight decay.

    Turns stay linear in the position, so scores read only the offset and every grid is computable;
    `scaling` (a rule of `scaling.py`) divides f^x and f^y by the stretch of their own axis.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 2
    pairs = "adj"

    def __init__(self, spec: Spec, theta: float = 10.0, scaling: Scaling | None = None) -> None:
        super().__init__(spec)
        check_head_of_four(spec, "rope2d_mixed turns pairs along two directions")
        self.theta = theta
        self.scale_with(scaling, spec.head_dim // 4)
        self.frequency = nn.Parameter(torch.empty(2, spec.heads, spec.head_dim // 2))  # x and y, heads, pairs
        self.reset_parameters()

    def reset_parameters(self) -> None:
        quarter = self.spec.head_dim // 4
        direction = torch.rand(self.spec.heads, 1) * 2 * math.pi
        direction = torch.cat((direction.expand(-1, quarter), direction.expand(-1, quarter) + math.pi / 2), dim=1)
        magnitude = (self.theta ** -(torch.arange(quarter) / quarter)).repeat(2)
        with torch.no_grad():
            self.frequency.copy_(magnitude * torch.stack((direction.cos(), direction.sin())))

    def angles(self, pos: Positions) -> Tensor:
        # products and a sum, not a matmul: autocast would run that in half precision
        f_x, f_y = self._at(pos, self.frequency[0], axis=1), self._at(pos, self.frequency[1], axis=0)
        x, y = pos.axis(1).float()[:, None], pos.axis(0).float()[:, None]
        return x * f_x[:, None, :] + y * f_y[:, None, :]

    def _at(self, pos: Positions, frequency: Tensor, axis: int) -> Tensor:
        """(H, D / 2) frequencies of an axis at this size; both halves run through the magnitudes."""
        halves = frequency.float().unflatten(-1, (2, -1))
        return self.scaled(halves, self.theta, pos, axis).flatten(-2).float()
